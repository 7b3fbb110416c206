"""Assembles the training of one target's drafts: its folder, samples, features and student.

WORK/prompts.jsonl   prompts/   samples/   features/   STUDENT/ (setup.json, checkpoint.pt, evaluation.json)
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from pydantic import TypeAdapter
from transformers import AutoConfig

from engine.config import AUTO, ROUNDED
from engine.errors import BadInput, Unavailable
from engine.files import write_file
from engine.models.decoder.config import unsupported_reason
from engine.models.decoder.runner import DecoderRunner
from engine.models.decoder.transformers_config import load_tokenizer
from engine.models.loader import LoadedModel, load_model
from engine.models.onnx.llama import OnnxLlama
from engine.runtime.device_choice import choose_device, choose_precision
from engine.tools.bench.prompts import SHIPPED
from engine.tools.training import dataset as sample_file
from engine.tools.training import hidden_states as feature_file
from engine.tools.training.block_student import BlockStudent
from engine.tools.training.dataset import Samples, sample_files, work_folder
from engine.tools.training.distil import Recipe
from engine.tools.training.exported_draft import is_exported, start_from, words_of_draft
from engine.tools.training.generate import read_folder
from engine.tools.training.hidden_states import Features
from engine.tools.training.prompts import evaluated_in
from engine.tools.training.students import EagleStudent, LmShape, new_lm, student_class
from engine.tools.training.teacher import Teacher
from engine.weights.catalogue import get_pair
from engine.weights.checkpoint_dir import weights_hash
from engine.weights.store import locate

_ONLY = "Drafts are trained for targets that our own decoder runs: the Llama family."
_SCALE_TOKENS = 60_000  # tokens from which the scale of each tap is measured


@dataclass(frozen=True)
class StudentSetup:
    """The settings of a student, stored beside its checkpoint so that `export` and a resumed run build the same one."""

    student: str
    taps: tuple[int, ...]
    words: int
    samples: str  # fingerprint
    seed: int
    shape: LmShape
    start: str = ""  # the folder of the older draft that it continues
    target: str = ""  # hash of the target's weights
    layers: int = 1  # in a block head
    is_normed: bool = False  # an EAGLE head as of EAGLE-3.1
    bias: int = 0  # its rank, in a block head; 0 for none

    @classmethod
    def read(cls, folder: Path) -> "StudentSetup":
        path = folder / "setup.json"
        try:
            return TypeAdapter(cls).validate_json(path.read_bytes())
        except FileNotFoundError as error:
            raise BadInput(
                f"Nothing was trained in {folder}; begin with `python -m engine training distil`."
            ) from error
        except (OSError, ValueError) as error:
            raise BadInput(f"{path} is damaged; delete its folder to start again.") from error


class TrainingProject:
    """The training of one target on one device. ``files``: sample files to train on; by default the files that `sample`
    wrote."""

    def __init__(self, pair: str, work: Path | None, device: str, files: Sequence[Path] = ()):
        self.pair, self.device = get_pair(pair), choose_device(device)
        self.folder = work_folder(self.pair.name, work)
        self.files = sample_files(files, self.folder)

    @property
    def target(self) -> Path:
        folder = locate(self.pair.target)
        if folder is None:
            raise Unavailable(f"The target is not here yet; run `python -m engine fetch {self.pair.name}` first.")
        return folder

    def model(self, precision: str = "fp32", slots: int = 1) -> LoadedModel:
        """Loads the target, to write ``slots`` texts side by side."""
        model = load_model(self.target, self.device, choose_precision(precision, self.device))
        if not isinstance(model.runner, DecoderRunner):
            raise Unavailable(_ONLY)
        if isinstance(model.runner.model, OnnxLlama):
            model.runner.model.sequences = slots
        return model

    def teacher(self) -> Teacher:
        return Teacher.load(self.target, self.device)

    def samples(self) -> Samples:
        """Reads all samples. Raises BadInput for another tokenizer's, and for prompts that measure drafts."""
        vocabulary = self.pair.target.vocab_size
        samples = sample_file.join([_read(path, vocabulary) for path in self.files])
        tokenizer = load_tokenizer(self.target)
        prompts = tokenizer.batch_decode([samples.prompt(i) for i in range(len(samples))])
        if wrong := sum(evaluated_in(text) is not None for text in prompts):
            raise BadInput(
                f"{wrong} of the samples answer prompts of {SHIPPED.name}, which measure drafts; leave them out."
            )
        return samples

    def features(self, samples: Samples, taps: Sequence[int], say, precision: str = AUTO) -> Features:
        """Reads the target's hidden states. Raises BadInput for a precision in which it does not give them."""
        if precision in ROUNDED:
            raise BadInput(f"Hidden states are read from a target in fp32, bf16 or fp16, not in {precision}.")
        model = self.model(precision)
        target = weights_hash(model.folder)
        return feature_file.compute(model.runner, samples, self.folder / "features", taps, target, say)

    def start(self, stage: str, settings: dict, is_started: bool) -> None:
        """Writes the settings of a new stage; raises BadInput if it ``is_started`` with other settings."""
        folder = self.folder / stage
        note, settings = folder / "begun.json", settings | {"target": weights_hash(self.target)}
        try:
            stored = json.loads(note.read_text(encoding="utf-8"))
        except FileNotFoundError:
            stored = None
        except (OSError, ValueError) as error:
            raise BadInput(f"{note} is damaged; delete {folder} to start again.") from error
        if stored is None or not is_started:
            write_file(note, json.dumps(settings, indent=1))
        elif stored != settings:
            names = [name for name in settings if not isinstance(stored, dict) or stored.get(name) != settings[name]]
            changed = " and another ".join(names)
            raise BadInput(f"{folder} was started with another {changed}; name another --work, or delete it.")

    def prepare(
        self, student: str, taps: Sequence[int], words: int, seed: int, samples: Samples, start: Path | None = None,
        layers: int = 1, is_normed: bool = False, bias: int = 0,
    ) -> StudentSetup:  # fmt: skip
        """Writes the setup of a new student and returns it. BadInput if the folder holds a student with another one."""
        config = AutoConfig.from_pretrained(self.target, trust_remote_code=False, local_files_only=True)
        if unsupported_reason(config):
            raise Unavailable(_ONLY)
        feature_file.check_taps(taps, self.pair.target.layers)
        if student == "exit" and (len(taps) != 1 or taps[0] < 1):
            raise BadInput(f"An exit head reads the state after one layer or more; name one number, not {list(taps)}.")
        if layers > 1 and student != "block":
            raise BadInput(f"A {student} draft has its number of layers; --layers is for block heads.")
        if bias and student != "block":
            raise BadInput(f"A {student} draft reads its own guesses or none; --bias is for block heads.")
        if is_normed and (student != "eagle" or (start and is_exported(start))):
            raise BadInput("--normed is for an EAGLE head that starts from scratch, or from an older one of that kind.")
        frequent(samples, words)  # raises BadInput if there are too few
        older, target = str(Path(start).resolve()) if start else "", weights_hash(self.target)
        described = samples.fingerprint()
        setup = StudentSetup(
            student, tuple(taps), words, described, seed, LmShape(), older, target, layers, is_normed, bias
        )
        if start and is_exported(start):
            self._words(setup, samples)  # raises if it does not fit
        elif start:
            _check_same_kind(setup, StudentSetup.read(Path(start)))
        folder = self.folder / student
        if not (folder / "setup.json").exists():
            write_file(folder / "setup.json", json.dumps(asdict(setup), indent=1))
        elif StudentSetup.read(folder) != setup:
            raise BadInput(f"{folder} holds a draft with other settings; name another --work, or delete it.")
        return setup

    def student(self, setup: StudentSetup, teacher: Teacher, samples: Samples, features: Features | None):
        """Returns a student, initialised from the target or from an older draft, and the number of reply tokens that
        the older draft was trained on."""
        if setup.start and not is_exported(setup.start):
            student, state = self.restore(setup, teacher, Path(setup.start))
            return student, state["seen"]
        student = self._new(setup, teacher, self._words(setup, samples), features)
        if setup.start:
            start_from(student, Path(setup.start))
        return student, 0

    def _words(self, setup: StudentSetup, samples: Samples) -> torch.Tensor:
        """Returns [Vd] the words of the draft that the student starts from, else those that the target writes most."""
        words = None
        if setup.start:
            kind, taps = student_class(setup.student), setup.taps
            words = words_of_draft(kind, Path(setup.start), self.pair.target.vocab_size, taps, setup.words, setup.bias)
        return frequent(samples, setup.words) if words is None else words

    def _new(self, setup: StudentSetup, teacher: Teacher, words: torch.Tensor, features: Features | None):
        torch.manual_seed(setup.seed)
        if setup.student == "lm":
            return new_lm(teacher, words, setup.shape, setup.seed).to(self.device)
        scales = tap_scales(features, setup.taps) if features else torch.ones(len(setup.taps))
        if setup.student == "eagle":
            return EagleStudent.new(teacher, words, scales, setup.is_normed).to(self.device)
        if setup.student != "block":
            return student_class(setup.student).new(teacher, words, scales).to(self.device)
        student = BlockStudent.new(teacher, words, scales, setup.layers, setup.bias)
        if features:
            student.start_mask(tap_medians(features, setup.taps))
        return student.to(self.device)

    def restore(self, setup: StudentSetup, teacher: Teacher, folder: Path):
        """Returns the student of the folder's checkpoint, and the checkpoint's state: log, recipe, tokens seen."""
        path = folder / "checkpoint.pt"
        try:
            state = torch.load(path, map_location=self.device, weights_only=True)
            student = self._new(setup, teacher, state["words"], None)
            student.module.load_state_dict(state["student"])
            _ = state["log"][-1], state["seen"], json.loads(state["recipe"])  # used by the model card
        except FileNotFoundError as error:
            raise BadInput(f"There is no checkpoint in {folder} yet; `distil` writes one every 50 updates.") from error
        except Exception as error:  # pickle, zip and shape errors alike
            raise BadInput(f"The checkpoint {path} cannot be read; delete it to start again.") from error
        return student, state


def _read(path: Path, vocabulary: int) -> Samples:
    """Reads a sample file, or what `sample` has saved so far in a folder."""
    if not path.is_dir():
        return sample_file.load(path, vocabulary)
    samples = read_folder(path, vocabulary)
    if samples is None:
        raise BadInput(f"{path} holds no part of any samples (part-00000.npz); name a folder that `sample` wrote.")
    return samples


def _check_same_kind(new: StudentSetup, old: StudentSetup) -> None:
    kinds = [(each.student, each.taps, each.shape, each.layers, each.is_normed, each.bias) for each in (new, old)]
    if kinds[0] != kinds[1]:
        raise BadInput("The draft to start from is of another kind or reads other layers; name one that fits.")
    if new.target != old.target:
        raise BadInput("The draft to start from was made for another target; name one that fits.")


def frequent(samples: Samples, count: int) -> torch.Tensor:
    """Returns [count] ids of the words that the target writes most, in increasing order."""
    seen = np.bincount(samples.tokens[samples.replies()])
    ranked = np.argsort(-seen, kind="stable")[:count]
    if len(ranked) < count:
        raise BadInput(f"The samples hold too few different words for a vocabulary of {count}; ask for fewer.")
    return torch.from_numpy(np.sort(ranked))


def tap_scales(features: Features, taps: Sequence[int]) -> torch.Tensor:
    """Returns [taps] the median root mean square of each tapped state; outlier tokens are a thousand times larger."""
    return torch.from_numpy(np.sqrt(np.median((_some_states(features, taps) ** 2).mean(-1), 0)))


def tap_medians(features: Features, taps: Sequence[int]) -> torch.Tensor:
    """Returns [taps·E] the median of each number of the tapped states."""
    return torch.from_numpy(np.median(_some_states(features, taps), 0).flatten())


def _some_states(features: Features, taps: Sequence[int]) -> np.ndarray:
    return features.states_of(0, min(_SCALE_TOKENS, len(features.states)), taps)[::37].astype(np.float32)


def rollout_for(setup: StudentSetup, recipe: Recipe) -> Recipe:
    """Returns the recipe with the draft steps that each update trains."""
    rollout = student_class(setup.student).rollout(bool(setup.start))
    return recipe if rollout is None else replace(recipe, rollout=rollout)

"""Where one target's training lives, and how its parts are put together: folder, samples, features, student.

WORK/prompts.jsonl   prompts/   samples/   features/   lm/ and eagle/ (setup.json, checkpoint.pt, evaluation.json)
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from transformers import AutoConfig

from engine.catalogue import get_pair
from engine.decoder import unsupported
from engine.errors import BadInput, Unavailable
from engine.fetch import cache_root, locate
from engine.folders import disk_errors, weights_hash, write_atomically
from engine.models import Model, load_model
from engine.runner import DecoderRunner
from engine.training import features as feature_file
from engine.training import samples as sample_file
from engine.training.distil import Data, Recipe
from engine.training.features import Features
from engine.training.samples import Samples
from engine.training.students import LmShape, new_eagle, new_lm
from engine.training.teacher import Teacher

STUDENTS = ("lm", "eagle")
_ONLY = "Drafts are trained for targets that our own decoder runs: the Llama family."
_SEEN = 60_000  # tokens that the scale of each tap is read from


@dataclass(frozen=True)
class Setup:
    """What a student was begun with; beside its checkpoint, so that export and a resumed run build the same one."""

    student: str
    taps: tuple[int, ...]
    words: int
    samples: str  # their fingerprint
    seed: int
    shape: LmShape
    start: str = ""  # the folder of an older draft that it goes on from
    target: str = ""  # hash of the weights it was begun for

    @classmethod
    def read(cls, path: Path) -> "Setup":
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
            return cls(**raw | {"taps": tuple(raw["taps"]), "shape": LmShape(**raw["shape"])})
        except FileNotFoundError as error:
            raise BadInput(
                f"Nothing was trained in {path.parent}; begin with `python -m engine.training distil`."
            ) from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BadInput(f"{path} is damaged; delete its folder to begin anew.") from error


class Workshop:
    """One target on one device. ``files``: sample files to train on; without any, what `sample` wrote here."""

    def __init__(self, pair: str, work: Path | None, device: str, files: Sequence[Path] = ()):
        self.pair, self.device = get_pair(pair), device
        self.folder = Path(work) if work else cache_root() / "training" / Path(self.pair.name).name
        self.files = list(files) or [self.folder / "samples" / "samples.npz"]

    @property
    def target(self) -> Path:
        folder = locate(self.pair.target)
        if folder is None:
            raise Unavailable(f"The target is not here yet; run `python -m engine fetch {self.pair.name}` first.")
        return folder

    def model(self) -> Model:
        model = load_model(self.target, self.device, "fp32")
        if not isinstance(model.runner, DecoderRunner):
            raise Unavailable(_ONLY)
        return model

    def teacher(self) -> Teacher:
        return Teacher.load(self.target, self.device)

    def samples(self) -> Samples:
        vocabulary = self.pair.target.vocab_size
        return sample_file.join([sample_file.load(path, vocabulary) for path in self.files])

    def features(self, samples: Samples, taps: Sequence[int], say) -> Features:
        model = self.model()
        return feature_file.compute(model.runner, samples, self.folder / "features", taps, model.hash, say)

    def prepare(
        self, student: str, taps: Sequence[int], words: int, seed: int, samples: Samples, start: Path | None = None
    ) -> Setup:
        """The setup of a new student, or the one found if it is the same. BadInput if the folder holds another."""
        path = self.folder / student / "setup.json"
        config = AutoConfig.from_pretrained(self.target, trust_remote_code=False, local_files_only=True)
        if unsupported(config):
            raise Unavailable(_ONLY)
        layers = self.pair.target.layers
        if not all(0 <= t < layers for t in taps):
            raise BadInput(f"Taps must lie between 0 and {layers - 1}, the target's layers; got {list(taps)}.")
        frequent(samples, words)  # raises where there are too few
        begun = str(Path(start).resolve()) if start else ""
        target = weights_hash(self.target)
        setup = Setup(student, tuple(taps), words, samples.fingerprint(), seed, LmShape(), begun, target)
        if start:
            self._same_kind(setup, Setup.read(Path(start) / "setup.json"))
        if path.exists():
            if Setup.read(path) != setup:
                raise BadInput(f"{path.parent} holds a draft begun otherwise; name another --work, or delete it.")
            return setup
        with disk_errors(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, json.dumps(asdict(setup), indent=1))
        return setup

    def student(self, setup: Setup, teacher: Teacher, samples: Samples, features: Features | None):
        """As it is before training: begun from the target, or an older draft."""
        if setup.start:
            return self._restored(setup, teacher, Path(setup.start))[0]
        return self._new(setup, teacher, frequent(samples, setup.words), features)

    def seen(self, setup: Setup, teacher: Teacher) -> int:
        """Reply tokens that the older draft had been trained on."""
        return self._restored(setup, teacher, Path(setup.start))[1]["seen"] if setup.start else 0

    @staticmethod
    def _same_kind(new: Setup, old: Setup) -> None:
        if (new.student, new.taps, new.shape) != (old.student, old.taps, old.shape):
            raise BadInput("The draft to start from is of another kind or reads other layers; name one that fits.")
        if new.target != old.target:
            raise BadInput("The draft to start from was made for another target; name one that fits.")

    def _new(self, setup: Setup, teacher: Teacher, words: torch.Tensor, features: Features | None):
        torch.manual_seed(setup.seed)
        if setup.student == "lm":
            return new_lm(teacher, words, setup.shape, setup.seed).to(self.device)
        scales = tap_scales(features, setup.taps) if features else torch.ones(len(setup.taps))
        return new_eagle(teacher, words, len(setup.taps), teacher.layer, scales).to(self.device)

    def data(self, setup: Setup, samples: Samples, features: Features) -> Data:
        return Data(samples, features, setup.taps if setup.student == "eagle" else (), self.device)

    def trained(self, setup: Setup, teacher: Teacher):
        """The student with its latest checkpoint, and what the checkpoint says: log, recipe, tokens seen."""
        return self._restored(setup, teacher, self.folder / setup.student)

    def _restored(self, setup: Setup, teacher: Teacher, folder: Path):
        path = folder / "checkpoint.pt"
        try:
            state = torch.load(path, map_location=self.device, weights_only=True)
            student = self._new(setup, teacher, state["words"], None)
            student.module.load_state_dict(state["student"])
            _ = state["log"][-1], state["seen"], json.loads(state["recipe"])  # which the card tells of
        except FileNotFoundError as error:
            raise BadInput(f"There is no checkpoint in {path.parent} yet; `distil` writes one now and then.") from error
        except Exception as error:  # pickle, zip and shape errors alike
            raise BadInput(f"The checkpoint {path} cannot be read; delete it to begin anew.") from error
        return student, state


def frequent(samples: Samples, count: int) -> torch.Tensor:
    """[count] ids of the words the target writes most, in increasing order."""
    seen = np.bincount(samples.tokens[samples.replies()])
    ranked = np.argsort(-seen, kind="stable")[:count]
    if len(ranked) < count:
        raise BadInput(f"The samples hold too few different words for a vocabulary of {count}; ask for fewer.")
    return torch.from_numpy(np.sort(ranked))


def tap_scales(features: Features, taps: Sequence[int]) -> torch.Tensor:
    """[taps] the usual root mean square of each tapped state; a few tokens' are a thousand times larger."""
    states = features.tapped(0, min(_SEEN, len(features.states)), taps)[::37].astype(np.float32)
    return torch.from_numpy(np.sqrt(np.median((states**2).mean(-1), 0)))


def rollout_for(setup: Setup, recipe: Recipe) -> Recipe:
    """A head learns to go on from its own states, in longer and longer rollouts, sooner where it goes on from an older
    one; an independent draft has none."""
    if setup.student != "eagle":
        return recipe
    return replace(recipe, rollout=((0.0, 1), (0.12, 2), (0.7, 3)) if setup.start else ((0.0, 1), (0.55, 2), (0.8, 3)))

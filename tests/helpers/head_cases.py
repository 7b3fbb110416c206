"""Makes heads of every kind, each on a tiny target: never trained, but each weight is its own."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_models import seeded
from tiny_pairs import VOCABULARY, engine_in, model_folder

from engine.config import METHODS, SamplingParams
from engine.drafters.base import DrafterSetup
from engine.models.heads.block import BIAS
from engine.runtime.engine import Engine
from engine.sampling.random_streams import Uniforms
from engine.sampling.warping import History
from engine.tools.training import export
from engine.tools.training.block_student import BlockStudent
from engine.tools.training.students import EagleStudent, ExitStudent, MedusaStudent, Texts
from engine.tools.training.teacher import Teacher
from engine.trace.costs import CostModel
from engine.weights.catalogue import get_pair, local_model

WORDS = torch.arange(0, VOCABULARY, 2)  # every second word: some of the target's favourites are out of reach
E, R, LAYER, RANK = 64, ExitStudent.INNER, 1, 32
# What `changed` takes to make a block head one without a bias.
PLAIN = {"markov_rank": None, "markov_head_type": None}, dict.fromkeys(BIAS.values())
CHEAP = CostModel(0.02, {1: 1.0, 2: 1.01}, 200, 0.001)
TEXT = [(5 * i + 3) % VOCABULARY for i in range(48)]


@dataclass(frozen=True)
class HeadCase:
    """``kind``: as a pair names it; ``method``: the one that drafts chains; ``title``: as a refusal calls the head;
    ``reads``: the layers whose incoming states the module is trained on; ``limit``: drafts a round; ``pickle``: a file
    as old checkpoints have it; ``shapes``: of the weights in ``file``. The target is of architecture ``target``, and
    ``upper`` scales what its last layer adds."""

    kind: str
    method: str
    title: str
    new: Callable
    reads: tuple[int, ...]
    file: str
    pickle: str
    shapes: dict[str, tuple[int, ...]]
    dtype: torch.dtype = torch.float16
    limit: int = 64
    noise: float = 0.1
    noise_seed: int | None = None
    target: str = "llama-tied"
    seed: int = 0
    upper: float = 1.0

    def steps(self, drafts: int) -> int:
        """Returns how many passes ``drafts`` drafts take."""
        return 1 if METHODS[self.method].drafts_at_once else drafts

    def write_target(self, folder: Path):
        """Returns transformers' own model of it."""
        model = model_folder(folder, self.target, seed=self.seed)
        with torch.no_grad():
            for weight in (model.model.layers[1].self_attn.o_proj.weight, model.model.layers[1].mlp.down_proj.weight):
                weight.mul_(self.upper)
        model.save_pretrained(folder)
        return model

    def write(self, target: Path, folder: Path):
        """Exports a head for ``target`` into ``folder``; returns the trained module."""
        teacher = Teacher.load(target, "cpu")
        with seeded(1), torch.no_grad():
            student = self.new(teacher)
            if self.noise_seed is not None:
                torch.manual_seed(self.noise_seed)
            for parameter in student.parameters():
                parameter.add_(self.noise * torch.randn_like(parameter)).copy_(parameter.to(self.dtype))
            if self.kind == "eagle":
                student.module.head.copy_(student.module.head.to(self.dtype))
        export.head(self.kind, student, teacher, self.reads, local_model(target), folder, "a card")
        return student


def with_a_bias(student: BlockStudent) -> BlockStudent:
    """Lets each guess change the next one's chances by a factor of e² or so."""
    torch.nn.init.normal_(student.module.bias.w2, std=2 / RANK**0.5)
    return student


CASES = [
    HeadCase(
        "eagle", "eagle-chain", "an EAGLE head",
        lambda teacher: EagleStudent.new(teacher, WORDS, torch.ones(3)),
        (0, 1, 2), "model.safetensors", "pytorch_model.bin", {}, torch.bfloat16, target="llama", seed=11,
    ),
    HeadCase(
        "block", "block", "a block head",
        lambda teacher: with_a_bias(BlockStudent.new(teacher, WORDS, torch.ones(3), rank=RANK)),
        (0, 1, 2), "model.safetensors", "pytorch_model.bin", {}, torch.bfloat16, limit=BlockStudent.SLOTS, noise_seed=0,
        upper=0.3,
    ),
    HeadCase(
        "medusa", "medusa", "Medusa heads",
        lambda teacher: MedusaStudent(teacher, WORDS),
        (2,), MedusaStudent.FILE, "medusa_lm_head.pt",
        {f"{k}.0.linear.{part}": (E, E)[:n] for k in range(3) for n, part in ((2, "weight"), (1, "bias"))},
        limit=3, noise=0.2, noise_seed=4,
    ),
    HeadCase(
        "exit", "exit", "an exit head",
        lambda teacher: ExitStudent(teacher, WORDS),
        (LAYER,), "model.safetensors", "head.pt",
        {"gate.weight": (R, E), "up.weight": (R, E), "down.weight": (E, R), "norm_in": (E,), "norm": (E,)},
        upper=0.3, noise_seed=1,
    ),
]  # fmt: skip
KINDS = {case.kind: case for case in CASES}
CASE_OF = {case.method: case for case in CASES} | {"eagle": KINDS["eagle"]}  # by method


def write_heads(root: Path) -> SimpleNamespace:
    """A target in ``root/KIND/target`` and its head in ``root/KIND/head``, of each kind."""
    models = {case.kind: case.write_target(root / case.kind / "target") for case in CASES}
    students = {case.kind: case.write(root / case.kind / "target", root / case.kind / "head") for case in CASES}
    return SimpleNamespace(
        root=root, models=models, students=students, pair=lambda kind: f"{root}/{kind}/target+{root}/{kind}/head"
    )


def load_unrounded(pair: str, method: str, runtime: str = "onnx") -> Engine:
    """An engine with this method loaded. Its head is not rounded to 8 bits: that would hide a wrong state."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("engine.models.onnx.graph.DRAFTS", "fp32")
        return engine_in(runtime, pair, method)


def begin(engine, method: str, ids: list[int], capacity=64, counts_repeats=False, **settings):
    """Reads all but the last of ``ids`` and starts the drafter, as a run does. Returns the target and the drafter."""
    target, drafter = engine.target.runner, engine.drafts.drafter(method)
    target.reset(capacity)
    target.prefill(ids[:-1])
    history = History(ids, VOCABULARY, "cpu") if counts_repeats else None
    settings = {"sampling": SamplingParams(1.0)} | settings
    drafter.start(ids, DrafterSetup(vocab_size=VOCABULARY, uniforms=Uniforms(0, 64), history=history,
                                    capacity=capacity, device="cpu", **settings))  # fmt: skip
    return target, drafter


@torch.inference_mode()
def trained_logits(heads, kind: str, known: list[int], drafts: list[int], reads_guesses=True) -> list[torch.Tensor]:
    """Returns the trained module's logits [Vd] at each of ``drafts``, from states that transformers computes;
    ``reads_guesses``: with the bias of the draft before."""
    case, student, model = KINDS[kind], heads.students[kind], heads.models[kind].model
    text = torch.tensor([[*known, *drafts]])
    before_norm = []
    hook = model.norm.register_forward_pre_hook(lambda _, inputs: before_norm.append(inputs[0]))
    entering = [*model(text, output_hidden_states=True).hidden_states[:-1], *before_norm]
    hook.remove()
    features = torch.cat([entering[layer] for layer in case.reads], -1)
    states = student.states(Texts(text, features, entering[-1], None, None), len(drafts))
    last = len(known) - 1 - student.shift  # the row that guesses the first draft
    if len(states) == 1:  # the module has one step, and reads the drafts as text
        rows = states[0][0, last : last + len(drafts)]
    else:
        rows = [each[0, last] for each in states]
    before = [None, *text[0, len(known) :]] if reads_guesses else [None] * len(rows)
    return [student.logits(row, WORDS, guess) for row, guess in zip(rows, before, strict=False)]


def changed(folder: Path, copy: Path, fields: dict, tensors: dict) -> Path:
    """Copies the model or head in ``folder`` with other fields of its config and other tensors; None leaves one out."""
    shutil.copytree(folder, copy)
    config = json.loads((folder / "config.json").read_text()) | fields
    (copy / "config.json").write_text(json.dumps({name: value for name, value in config.items() if value is not None}))
    file = next(folder.glob("*.safetensors"))
    stored = load_file(file) | tensors
    stored = {name: tensor for name, tensor in stored.items() if tensor is not None}
    save_file(stored, copy / file.name, metadata={"format": "pt"})
    return copy


def engine_with(heads, *kinds: str) -> Engine:
    """These heads on one target, which taps the layers of each."""
    drafts = {kind: local_model(heads.root / kind / "head") for kind in kinds}
    return Engine(replace(get_pair(heads.pair("exit")), drafts=drafts), "cpu", "fp32")

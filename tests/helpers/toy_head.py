"""A head kind of a test's own: one matrix that guesses the token after next from the target's last state.

It is registered as CONTRIBUTING.md describes under "Add a head kind": a line of METHODS, an entry of HEAD_KINDS,
a drafter, a model with its loader, and an exporter in EXPORTERS. Here they are one file.
"""

import json

import torch
from safetensors.torch import save_file

from engine.config import METHODS, Method
from engine.drafters.medusa import MedusaDrafter
from engine.tools.training.kinds import EXPORTERS
from engine.weights.head_kinds import HEAD_KINDS, HeadKind


class ToyHead:
    """``reads``: after the target's last layer; ``target_ids``: all of the target's."""

    count, is_on_cuda = 1, False

    def __init__(self, guess: torch.Tensor, target):
        self.guess, self.target = guess, target
        self.reads, self.max_length = (target.layers_count,), target.max_length
        self.target_ids, self.vocab_size = torch.arange(len(guess)), len(guess)

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        return state.float() @ self.guess.T

    def fork(self) -> "ToyHead":
        return self

    def close(self) -> None:
        pass


class ToyDrafter(MedusaDrafter):
    name = "toy"


def load(folder, target, weights) -> ToyHead:
    return ToyHead(weights("guess.weight"), target)


def export(student, teacher, taps, target, folder, card) -> None:
    folder.mkdir()
    save_file({"guess.weight": student}, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps({"toy_head": True}), encoding="utf-8")
    (folder / "README.md").write_text(card, encoding="utf-8")


def register(patch) -> None:
    """Adds these lines until the test ends."""
    method = Method("toy head", "a matrix guesses", "toy_head:ToyDrafter", reads="head", passes="one", competes=False)
    kind = HeadKind(
        noun="a toy head",
        field="toy_head",
        width="guess.weight",
        words="guess.weight",
        load="toy_head:load",
        cache="none",
    )
    patch.setitem(METHODS, "toy", method)
    patch.setitem(HEAD_KINDS, "toy", kind)
    patch.setitem(EXPORTERS, "toy", "toy_head:export")

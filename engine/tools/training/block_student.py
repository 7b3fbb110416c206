"""Defines the student of method block: an EAGLE-3 head with masked slots, trained at all depths at once (P-EAGLE)."""

from pathlib import Path

import torch
from torch import nn

from engine.models.heads.block import BIAS
from engine.models.heads.eagle_config import BlockConfig, read_config
from engine.models.tensors.safetensors_reader import TensorReader
from engine.tools.training.block_module import BlockHead
from engine.tools.training.eagle3_module import EAGLE_TENSORS, FURTHER
from engine.tools.training.students import (
    EagleStudent,
    Rollout,
    Student,
    Texts,
    layers_named,
    reply_mask,
    start_from_target,
)
from engine.tools.training.teacher import Teacher
from engine.weights.checkpoint_dir import head_method


class BlockStudent(Student):
    """``words`` [Vd]: the target ids of its reduced vocabulary; their rows of the target's output layer stay as they
    are. Draft step k is slot k − 1. Slot d is trained at a share SHARE^d of the positions, each of which has the slots
    before it, too (COD sampling)."""

    own: torch.Tensor
    SLOTS = 5  # a sixth guess would be right too rarely to pay
    SHARE = 0.6
    ADDED = ("mask_hidden", "bias.", "further.")
    USE = (
        "Parallel drafter: an EAGLE-3 head that guesses a whole block in one pass (P-EAGLE; layout of vLLM, except "
        "that the output layer is read from the target)."
    )
    RECIPE = (
        " Reads the states entering layers {taps}; {rollout} slots trained together, each counting {decay:g} of the "
        "one before it."
    )

    @staticmethod
    def new(
        teacher: Teacher, words: torch.Tensor, scales: torch.Tensor, layers: int = 1, rank: int = 0
    ) -> "BlockStudent":
        """Makes the student. A further layer begins as the target's last one, and adds nothing at first; neither does
        the bias, of this rank."""
        student = BlockStudent(teacher, words, len(scales), layers, rank)
        start_from_target(student.module, teacher, scales)
        with torch.no_grad():
            for layer in student.module.further:
                for name, parameter in layer.named_parameters():
                    parameter.copy_(teacher.layer[FURTHER[name]])
                nn.init.zeros_(layer.o.weight), nn.init.zeros_(layer.down.weight)
        return student

    @staticmethod
    def rollout(is_continued: bool) -> Rollout:
        return ((0.0, BlockStudent.SLOTS),)

    @staticmethod
    def layers_read(folder: Path) -> tuple[int, ...] | None:
        """Returns the layers that a block head reads, or an EAGLE head that it begins as."""
        if head_method(folder) != "block":
            return EagleStudent.layers_read(folder)
        return layers_named(read_config(folder, BlockConfig, "block head"), folder)

    @staticmethod
    def bias_stored(read: TensorReader) -> int:
        return read.raw(BIAS["w1"]).shape[1] if BIAS["w1"] in read else 0

    def tensor_names(self) -> dict[str, str]:
        """Returns the names of an EAGLE head, and those that only a block head has."""
        names = EAGLE_TENSORS | {"mask_hidden": "mask_hidden"}
        if self.module.bias is not None:
            names |= {f"bias.{ours}": theirs for ours, theirs in BIAS.items()}
        for i, layer in enumerate(self.module.further):
            names |= {f"further.{i}.{name}": f"layers.{i + 1}.{FURTHER[name]}" for name, _ in layer.named_parameters()}
        return names

    def __init__(self, teacher: Teacher, words: torch.Tensor, taps: int, layers: int = 1, rank: int = 0):
        known, V = {*words.tolist()}, teacher.config.vocab_size
        unused = next((i for i in range(V) if i not in known), V - 1)  # a word that the target hardly writes
        rows = teacher.head[words]
        super().__init__(BlockHead(teacher.config, teacher.embed, rows, taps, unused, layers, rank), words)
        nn.init.normal_(self.module.mask_hidden, 0, 0.1)
        own = torch.full((V,), -1).index_copy_(0, words.cpu(), torch.arange(len(words)))
        self.register_buffer("own", own.to(words.device), persistent=False)  # the number of each of the target's words

    def covers(self, batch: Texts, k: int) -> torch.Tensor:
        if batch.length is None:
            return torch.ones_like(batch.ids, dtype=torch.bool)
        drafted = reply_mask(batch, self.shift + 1)  # slot 0 guesses a word of the reply
        return drafted if batch.draws is None else drafted & (batch.draws < self.SHARE ** (k - 1))

    def logits(self, states: torch.Tensor, words: torch.Tensor, before: torch.Tensor | None = None) -> torch.Tensor:
        logits, bias = self.module.logits(states), self.module.bias
        return logits if bias is None or before is None else logits + bias(self.own[before])

    def states(self, batch: Texts, steps: int) -> list[torch.Tensor]:
        """Returns the states, which are zero at positions that `covers` leaves out."""
        covered = [self.covers(batch, k) for k in range(1, steps + 1)]
        draws = torch.zeros_like(covered[0], dtype=torch.float32) if batch.draws is None else batch.draws
        order = draws.masked_fill(~covered[0], 2.0).argsort(dim=1, stable=True)
        anchors = [order[:, : max(1, int(one.sum(1).max()))] for one in covered[1:]]
        first, *later = self.module.blocks(batch.ids, batch.features, anchors)
        return [first] + [
            torch.zeros_like(first).scatter(1, at[..., None].expand_as(state), state)
            for at, state in zip(anchors, later, strict=True)
        ]

    def start_mask(self, features: torch.Tensor) -> None:
        """Sets the features [taps·E] that masked slots read at first: a typical state of the target."""
        with torch.no_grad():
            self.module.mask_hidden.copy_(features)

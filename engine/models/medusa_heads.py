"""Runs Medusa-1 heads (Cai et al. 2024): each guesses one place further from the target's last hidden state.

Loads the layouts that are published: that of Medusa 0.1, where each head has an output layer of its own
(`{k}.0.linear.*`, `{k}.1.weight`), and that of TGI's version 2, where all heads use the target's. A map of words
(`d2t`, as of an EAGLE-3 head) reduces those layers to the rows of these words.

Dimension key: K heads, E hidden size, V the target's vocabulary, Vd words that the heads guess among. Head k (from 0)
reads the state of token t after the last norm, from which the target guesses token t + 1, and guesses token t + 2 + k.
"""

from pathlib import Path

import torch
import torch.nn.functional as F

from engine.errors import Unavailable
from engine.models.linear import Linear
from engine.models.llama import LlamaModel
from engine.models.reduced_output import MAP, ROWS, fitting, output_rows, word_ids
from engine.models.safetensors_reader import TensorReader
from engine.weights.checkpoint_dir import weight_files

_MAPS = (MAP, "t2d")


class MedusaModel:
    """``count``: heads; ``reads``: the layer of the target whose incoming state they read, which is after the last one;
    ``target_ids`` [Vd]: the target's ids that they can guess. It has no state, so every run shares it."""

    def __init__(self, folder: Path, target: LlamaModel, weights=None):
        """``weights`` replace those of the folder. Raises Unavailable if they fit no layout, or another target."""
        self.target, self.dtype, self.device = target, target.dtype, target.device
        self.width, self.max_length, self.reads = target.width, target.max_length, (target.layers_count,)
        self.is_on_cuda = torch.device(self.device).type == "cuda"
        weights = weights or TensorReader(folder, self.dtype, self.device, weight_files(folder)[0].name)
        self.count = _count(weights)
        E, V, is_reduced = self.width, target.vocab_size, MAP in weights
        words = word_ids(weights.raw(MAP), V, weights.folder) if is_reduced else torch.arange(V)
        self.target_ids, self.vocab_size = words.to(self.device), len(words)
        layers = (  # one product for all heads
            torch.cat([fitting(weights, f"{k}.0.linear.weight", (E, E)) for k in range(self.count)]),
            torch.cat([fitting(weights, f"{k}.0.linear.bias", (E,)) for k in range(self.count)]),
        )
        if "0.1.weight" in weights:
            outputs = [fitting(weights, f"{k}.1.weight", (len(words), E)) for k in range(self.count)]
        elif is_reduced or ROWS in weights:
            outputs = [output_rows(weights, target, self.target_ids)]
        else:
            outputs = []
        self._load(*layers, outputs)

    def _load(self, weight: torch.Tensor, bias: torch.Tensor, outputs: list[torch.Tensor]) -> None:
        """weight [K·E, E] and bias [K·E] of the heads' layers; ``outputs`` [Vd, E]: of each head, one for all, or none
        where they use the target's."""
        self.linear = Linear(weight, bias)
        self.outputs = [Linear(output) for output in outputs] or [self.target.head]

    def fork(self) -> "MedusaModel":
        """As a runner's."""
        return self

    def close(self) -> None:
        """As a runner's."""

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        """state [1, E] of the last token that the target has read, before the last norm → logits [K, Vd]."""
        last = self.target.norm_out(state)
        guesses = last + F.silu(self.linear(last)).view(self.count, self.width)
        if len(self.outputs) == 1:
            return self.outputs[0](guesses)
        return torch.cat([output(row[None]) for output, row in zip(self.outputs, guesses, strict=True)])


def _count(weights) -> int:
    """The number of heads. Unavailable if the tensors are not exactly those of one layout."""
    names, count = {*weights.names} - {*_MAPS}, 0
    while f"{count}.0.linear.weight" in names:
        count += 1
    shared = {f"{k}.0.linear.{part}" for k in range(count) for part in ("weight", "bias")}
    own = {f"{k}.1.weight" for k in range(count)}
    if not count or names not in (shared, shared | own, shared | {"lm_head.weight"}):
        strange = sorted(names ^ (shared | (own if names & own else set())))[:1] or ["0.0.linear.weight"]
        raise Unavailable(
            f"The tensors in {weights.folder} are not those of Medusa heads with one layer each: {strange[0]!r} is "
            "missing or too many."
        )
    return count

"""Runs the target's first layers and a small head on their state: a guess at the next token (LayerSkip, Elhoushi et
al. 2024; there the whole target is trained for it, here only the head is).

The head adds a gated layer to the state, then takes rows of the target's output layer. Layout: config.json as
`ExitConfig`; `gate.weight` and `up.weight` [R, E], `down.weight` [E, R], `norm_in` and `norm` [E], `d2t` as in an
EAGLE-3 head, and `lm_head.weight` [Vd, E] unless the target's output layer is its embedding.

Dimension key: E hidden size, R inner size of the head, Vd words it can guess, V the target's vocabulary.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from pydantic import BaseModel, PositiveInt

from engine.errors import Unavailable, quantity
from engine.models.decoder.attention import SequenceSlice
from engine.models.heads.reader import HeadReader
from engine.models.heads.reduced_output import MAP, mapped_words, output_rows
from engine.models.tensors.linear import Linear
from engine.weights.head_config import read_config


class ExitConfig(BaseModel, strict=True):
    """The fields of a head's config.json. ``exit_layer``: how many of the target's layers run before it."""

    exit_layer: PositiveInt
    hidden_size: PositiveInt
    intermediate_size: PositiveInt
    vocab_size: PositiveInt


class ExitModel:
    """``target_ids`` [Vd]: the target's ids that it can guess. `DecoderRunner` runs it on the target's own cache."""

    taps, on_host, trees = (), False, True

    def __init__(self, folder: Path, target: Any, config: ExitConfig | None = None, weights=None):
        """Loads the head; ``config`` and ``weights`` replace the folder's own. Raises Unavailable."""
        config = config or read_exit_config(folder)
        self.target, self.dtype, self.device, self.eps = target, target.dtype, target.device, target.eps
        self.exit_layer, self.inner, self.max_length = config.exit_layer, config.intermediate_size, target.max_length
        if (config.hidden_size, config.vocab_size) != (target.width, target.vocab_size):
            raise Unavailable(
                f"The exit head in {folder} was made for a target of width {config.hidden_size} and "
                f"{config.vocab_size} words, this one has {target.width} and {target.vocab_size}; use the target it "
                "was made for."
            )
        if self.exit_layer > target.layers_count:
            raise Unavailable(
                f"The exit head in {folder} reads the state after {quantity(self.exit_layer, 'layer')}, but this "
                f"target has {target.layers_count}; use the target it was made for."
            )
        weights = weights or HeadReader(folder, self.dtype, self.device)
        if MAP not in weights:
            raise Unavailable(f"The exit head in {weights.folder} has no map of its words ({MAP}); export it again.")
        self.target_ids = mapped_words(weights, target.vocab_size).to(self.device)
        self.vocab_size = len(self.target_ids)
        self._load(weights)

    def _load(self, weights) -> None:
        E, R = self.target.width, self.inner
        self.norm_in, self.norm = (weights(name, (E,)) for name in ("norm_in", "norm"))
        self.gate_up = Linear(torch.cat([weights(name, (R, E)) for name in ("gate.weight", "up.weight")]))
        self.down = Linear(weights("down.weight", (E, R)))
        self.output = Linear(output_rows(weights, self.target, self.target_ids))

    def forward(self, ids: torch.Tensor, spans: Sequence[SequenceSlice], rows=slice(None)):
        """Returns logits [rows, Vd] of the token after each of ids [T], and None, because it has no features."""
        return self.guess(self.target.states(ids, spans, self.exit_layer)[0][rows]), None

    def guess(self, x: torch.Tensor) -> torch.Tensor:
        """Returns logits [T, Vd] of the token after each of x [T, E], the states after the first layers."""
        x = F.rms_norm(x, x.shape[-1:], self.norm_in, self.eps)
        gate_up = self.gate_up(x)
        x = x + self.down(F.silu(gate_up[:, : self.inner]) * gate_up[:, self.inner :])
        return self.output(F.rms_norm(x, x.shape[-1:], self.norm, self.eps))


def read_exit_config(folder: Path) -> ExitConfig:
    """Reads the head's config.json. Unavailable names the wrong field."""
    return read_config(folder, ExitConfig, "exit head", ExitConfig.model_fields)

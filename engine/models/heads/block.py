"""Runs a block head: an EAGLE-3 head that guesses several places in one pass (P-EAGLE, arXiv 2602.01469).

The last position that it reads is slot 0, an EAGLE-3 head's own. Masked slots follow: the embedding of a mask token,
and one learnt vector (`mask_hidden`) in place of the target's features. All pass through its layers together, each sees
those before it, and slot d guesses token t + d + 2. Loads the layouts of vLLM, of SpecForge and of the speculators
library, with one layer or several.

A head may have a bias (DSpark, arXiv 2607.05147): once a slot's guess is drawn, its row of one small matrix times
another is added to the next slot's logits. Their names are DSpark's. Its first matrix there has a row for each word of
the target, and biases slot 0, too, by the last committed token; here it has one for each word that can be guessed,
because slot 0 reads that token itself.

Dimension key: W positions read and m masked slots of a pass, E hidden size, Vd draft words, R the rank of the bias.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from engine.errors import Unavailable
from engine.models.decoder.attention import SequenceSlice
from engine.models.heads.eagle3 import EagleModel
from engine.models.heads.eagle_config import BlockConfig, read_config
from engine.models.tensors.safetensors_reader import TensorReader

MASK = -1  # in place of the id of a token that is not known yet
BIAS = {"w1": "markov_head.markov_w1.weight", "w2": "markov_head.markov_w2.weight"}  # [Vd, R] each


class BlockModel(EagleModel):
    """``slots``: the most guesses of a pass."""

    config: BlockConfig

    def __init__(self, folder: Path, target: Any, config: BlockConfig | None = None, weights=None):
        config = config or read_config(folder, BlockConfig, "block head")
        self.slots = config.num_depths
        super().__init__(folder, target, config, weights)

    def _load(self, weights: TensorReader) -> None:
        super()._load(weights)
        mask, width = weights("mask_hidden").flatten(), len(self.reads) * self.target.width
        if len(mask) != width:
            raise Unavailable(
                f"mask_hidden in {weights.folder} has {len(mask)} numbers, where this target needs {width}."
            )
        self._bias = self._read_bias(weights)
        self._masked, self._mask = self._fuse_features(mask[None]), self._mask_embedding(weights)

    def _read_bias(self, weights: TensorReader) -> tuple[torch.Tensor, ...] | None:
        """Returns the bias's two matrices, and the draft's number of each of the target's words [V]."""
        if not self.config.markov_rank:
            return None
        w1, w2 = (weights(name, (self.vocab_size, self.config.markov_rank)) for name in BIAS.values())
        own = torch.zeros(self.target.vocab_size, dtype=torch.long, device=self.device)
        own[self.target_ids] = torch.arange(self.vocab_size, device=self.device)
        return w1, w2, own

    def add_bias(self, guess: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        """Returns the logits [1, Vd] of a slot as they are after the ``guess`` [1], a token of the target."""
        if self._bias is None:
            return logits
        w1, w2, own = self._bias
        return logits + F.linear(w1[own[guess]], w2)

    def _mask_embedding(self, weights: TensorReader) -> torch.Tensor:
        """Returns the mask token's row [1, E]. A head's own embedding may have words that its target lacks."""
        token, rows = self.config.mask_token, self.target.vocab_size if self.embed is None else len(self.embed)
        if token >= rows:
            raise Unavailable(f"The mask of the head in {weights.folder}, token {token}, has no embedding.")
        return super()._embedding(torch.full((1,), token, device=self.device))

    def _embedding(self, ids: torch.Tensor) -> torch.Tensor:
        return torch.where((ids == MASK)[:, None], self._mask, super()._embedding(ids.clamp_min(0)))

    def forward(self, ids: torch.Tensor, spans: Sequence[SequenceSlice], rows=slice(None), features: Any = None):
        """Runs one pass over ids [W + m], of which the last m are MASK; features [W, taps·F]. Returns the
        logits [m + 1, Vd] of the block, and its states; without ``rows`` neither."""
        W = len(features)
        hidden = torch.cat([self._fuse_features(features), self._masked.expand(len(ids) - W, -1)])
        return super().forward(ids, spans, None if rows is None else slice(W - 1, None), state=hidden)

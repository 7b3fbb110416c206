"""Runs a block head: an EAGLE-3 head that guesses several places in one pass (P-EAGLE, arXiv 2602.01469).

The last position that it reads is slot 0, an EAGLE-3 head's own. Masked slots follow: the embedding of a mask token,
and one learnt vector (`mask_hidden`) in place of the target's features. All pass through its layers together, each sees
those before it, and slot d guesses token t + d + 2. Loads the layouts of vLLM and of the speculators library, with one
layer or several; without `lm_head`, its words' rows of the target's output layer.

Dimension key: W positions read and m masked slots of a pass, E hidden size, Vd draft words.
"""

from collections.abc import Sequence
from pathlib import Path

import torch

from engine.models.attention import SequenceSlice
from engine.models.eagle3_head import EagleModel
from engine.models.eagle_config import BlockConfig, read_config
from engine.models.llama import LlamaModel
from engine.models.reduced_output import output_rows
from engine.models.safetensors_reader import TensorReader

_EMBEDDING = "embed_tokens.weight"


class BlockModel(EagleModel):
    """``slots``: the most guesses of a pass; ``mask_token``: the id that stands in a masked slot."""

    def __init__(self, folder: Path, target: LlamaModel, config: BlockConfig | None = None, weights=None):
        config = config or read_config(folder, BlockConfig, "block head")
        self.slots, self.mask_token = config.num_depths, config.mask_token
        super().__init__(folder, target, config, weights)

    def _load(self, weights: TensorReader) -> None:
        super()._load(weights)
        width = len(self.reads) * self.width
        self._masked = self._projected(weights("mask_hidden").reshape(-1, width)[:1])
        self._mask = None  # a head with an embedding of its own has learnt the mask's
        if _EMBEDDING in weights:
            self._mask = weights.raw(_EMBEDDING)[self.mask_token].to(self.device, self.dtype)

    def _output_rows(self, weights: TensorReader) -> torch.Tensor:
        return output_rows(weights, self.target, self.target_ids)

    def _embedding(self, ids: torch.Tensor) -> torch.Tensor:
        embedded = super()._embedding(ids)
        return embedded if self._mask is None else torch.where((ids == self.mask_token)[:, None], self._mask, embedded)

    def forward(self, ids: torch.Tensor, spans: Sequence[SequenceSlice], rows=slice(None), features=None):
        """ids [W + m], of which the last m are masks; features [W, taps·E]. Returns the logits [m + 1, Vd] of the
        block, and its states; without ``rows`` neither."""
        W = len(features)
        hidden = torch.cat([self._projected(features), self._masked.expand(len(ids) - W, -1)])
        return super().forward(ids, spans, None if rows is None else slice(W - 1, None), state=hidden)

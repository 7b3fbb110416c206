"""Runs an EAGLE-1 head (Li et al. 2024), the one that EAGLE-2 drafts its trees with.

One layer without its first norm, on [embedding, the target's last hidden state]; the words are read from the target's
own output layer. Loads what the authors, SGLang and vLLM publish: `fc`, `layers.0.*`, biases where there are any.
"""

from collections.abc import Sequence

import torch

from engine.models.attention import CachedAttention, SequenceSlice
from engine.models.eagle3_head import EagleModel, HeadLayer
from engine.models.eagle_config import EagleConfig
from engine.models.linear import Linear
from engine.models.llama import LlamaModel
from engine.models.safetensors_reader import TensorReader


class Eagle1Model(EagleModel):
    """Guesses every word of the target."""

    def _layers_read(self, config: EagleConfig, target: LlamaModel) -> tuple[int, ...]:
        return (target.layers_count,)

    def _target_ids(self, weights: TensorReader) -> torch.Tensor:
        self.vocab_size = self.target.vocab_size
        return torch.arange(self.vocab_size)

    def _load(self, weights: TensorReader) -> None:
        E = self.width
        bias = weights("fc.bias", (E,)) if "fc.bias" in weights else None
        self.fc = Linear(weights("fc.weight", (E, 2 * E)), bias)
        self.layer = HeadLayer(self, weights, "layers.0.", E)

    def forward(self, ids, spans: Sequence[SequenceSlice], rows=slice(None), features=None, state=None):
        """As that of EAGLE-3; ``features`` [W, E] is what the target's last layer gave."""
        last = self.target.norm_out(features) if state is None else state
        attend = CachedAttention(spans, self.H // self.K, self.frequencies, self.rope_scaling, last.dtype)
        hidden = self.fc(torch.cat([self.target.embedding(ids), last], -1))
        return self._outputs(self.layer(hidden, hidden, attend, 0), rows)

    def _logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.target.head(hidden)

"""Runs an EAGLE-1 head (Li et al. 2024), the one that EAGLE-2 drafts its trees with.

Its first layer has no norm before it and reads [embedding, the target's last hidden state]; the words are read from the
target's own output layer. Loads what the authors, SGLang and vLLM publish: `fc`, `layers.0.*`, biases where there are
any. An output layer in its file has no effect, because none of them reads it.
"""

from collections.abc import Sequence
from typing import Any

import torch

from engine.errors import Unavailable
from engine.models.decoder.attention import CachedAttention, SequenceSlice
from engine.models.heads.eagle3 import FIRST, EagleModel
from engine.models.heads.eagle_config import EagleConfig
from engine.models.heads.layer import HeadLayer
from engine.models.heads.reader import HeadReader
from engine.models.heads.reduced_output import ROWS
from engine.models.tensors.linear import Linear
from engine.models.tensors.safetensors_reader import TensorReader
from engine.weights.head_config import LAYER_IDS


class Eagle1Model(EagleModel):
    """Guesses every word of the target."""

    def _layers_read(self, config: EagleConfig, target: Any) -> tuple[int, ...]:
        named = {"fc_norm", "norm_before_fc", "norm_output", "norm_before_residual", "layers", "draft_vocab_size"}
        strange = sorted(name for name in named if getattr(config, name) not in (False, None, config.vocab_size))
        if strange or config.target_hidden_size not in (None, config.hidden_size):
            name = strange[0].replace("layers", LAYER_IDS) if strange else "target_hidden_size"
            raise Unavailable(
                f"By its tensors this is an EAGLE-1 head, which has no {name}, but config.json names one; correct that."
            )
        return (target.layers_count,)

    def _target_ids(self, weights: HeadReader) -> torch.Tensor:
        weights.ignore({ROWS} & {*weights.names})
        return torch.arange(self.target.vocab_size)

    def _load(self, weights: TensorReader) -> None:
        E = self.width
        bias = weights("fc.bias", (E,)) if "fc.bias" in weights else None
        self.fc = Linear(weights("fc.weight", (E, 2 * E)), bias)
        self.layer = HeadLayer(self, weights, FIRST, E)
        self._load_further(weights)

    def forward(self, ids, spans: Sequence[SequenceSlice], rows=slice(None), features: Any = None, state: Any = None):
        """Runs a pass as EAGLE-3 does; ``features`` [W, E] are the outgoing states of the target's last layer."""
        last = self.target.norm_out(features) if state is None else state
        attend = CachedAttention(spans, self.H // self.K, self.frequencies, self.rope_scaling, last.dtype)
        hidden = self.fc(torch.cat([self._embedding(ids), last], -1))
        return self._outputs(self._through_further(self.layer(hidden, hidden, attend, 0), attend), rows)

    def _logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.target.head(hidden)

"""Checks how far rounding moves a model's guesses: against its own weights in fp32, which are read a layer at a time.

Dimension key: T tokens of the text, E hidden size, V vocabulary.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
import torch.nn.functional as F

from engine.models.decoder.attention import SequenceSlice
from engine.models.decoder.llama import Layer, LlamaModel
from engine.models.decoder.runner import Runner
from engine.models.decoder.unread_tensors import embedding_name, reads_own_head

TEXT = """The river rises in the hills north of the town and reaches the sea after ninety miles. In spring it floods the
meadows, and the farmers move their cattle to higher ground.

def mean(values: list[float]) -> float:
    if not values:
        raise ValueError("values is empty")
    return sum(values) / len(values)
"""
_TOKENS, _FIRST = 96, 16  # tokens that are read; the first ones have too little before them to guess from


@torch.inference_mode()
def moved_probability(folder: Path, config, runner: Runner, tokenizer) -> float:
    """Returns the share of probability that rounding moves to other words: the mean total variation between the
    distributions of ``runner`` and of the folder's own weights in fp32. Acceptance falls by no more than that.

    Reads all weights once, and holds one layer of them at a time."""
    ids = tokenizer(TEXT, add_special_tokens=False).input_ids[:_TOKENS]
    runner.reset(len(ids))
    try:
        rounded = runner.forward(torch.tensor(ids))[_FIRST:].float().softmax(-1)
    finally:
        runner.release()
    exact = _LayerByLayer(folder, config, torch.float32, "cpu").logits(ids)[_FIRST:].softmax(-1)
    return float((exact - rounded).abs().sum(-1).mean() / 2)


class _LayerByLayer(LlamaModel):
    """A model whose layers are read when a pass comes to them."""

    def _load(self, weights, progress) -> None:
        self._weights = weights
        self._embedding = embedding_name(weights, self.config)
        self._output = "lm_head.weight" if reads_own_head(weights, self.config) else self._embedding
        self.layers = _Layers(self)
        self.norm = weights("model.norm.weight", (self.width,))

    def read_layer(self, i: int) -> Layer:
        return self._layer(self._weights, f"model.layers.{i}.")

    def embedding(self, ids: torch.Tensor) -> torch.Tensor:
        rows = torch.empty(len(ids), self.width)
        for start, part in self._vocabulary(self._embedding):
            here = (ids >= start) & (ids < start + len(part))
            rows[here] = part[ids[here] - start]
        return rows

    def logits(self, ids: Sequence[int]) -> torch.Tensor:
        """Returns the logits [T, V] of a text."""
        T = len(ids)
        places, cache = torch.arange(T), self.new_cache(T)
        span = SequenceSlice(places, places, torch.ones(T, T, dtype=torch.bool).tril(), T, cache)
        x = self.norm_out(self.states(torch.tensor(ids), [span])[0])
        return torch.cat([F.linear(x, part) for _, part in self._vocabulary(self._output)], -1)

    def _vocabulary(self, name: str):
        return self._weights.parts(name, (self.vocab_size, self.width))


class _Layers:
    """Reads the layers of a slice one after another, as a pass takes them."""

    def __init__(self, model: _LayerByLayer):
        self._model = model

    def __getitem__(self, numbers: slice):
        return map(self._model.read_layer, range(self._model.layers_count)[numbers])

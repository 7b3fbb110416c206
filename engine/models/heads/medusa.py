"""Runs Medusa-1 heads (Cai et al. 2024): each guesses one place further from the target's last hidden state.

Loads the layouts that are published, by the names of the first: Medusa 0.1's, where each head has an output layer of
its own (`{k}.0.linear.*`, `{k}.1.weight`), TGI's version 2, where all heads use the target's, and vLLM's
(`blocks.{k}.layers.0.*`, `lm_heads.{k}.weight`). A map of words (`d2t` as in an EAGLE-3 head, or vLLM's `token_map`)
reduces those layers to the rows of these words.

Dimension key: K heads, E hidden size, V the target's vocabulary, Vd words that the heads guess among. Head k (from 0)
reads the state of token t after the last norm, from which the target guesses token t + 1, and guesses token t + 2 + k.
"""

from pathlib import Path
from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from engine.errors import Unavailable
from engine.models.heads.reader import HeadReader
from engine.models.heads.reduced_output import KNOWN, MAP, ROWS, fitting, mapped_words, output_rows, word_ids
from engine.models.tensors.linear import Linear
from engine.weights.head_config import DEFAULTS, read_config

_TOKENS = "token_map"  # vLLM's: the target's ids themselves
_MAPS = (MAP, KNOWN, _TOKENS)
_OF_THE_TARGET = {*DEFAULTS["qwen3"], "rope_scaling", "rope_parameters", "num_hidden_layers", "tie_word_embeddings"}


class MedusaConfig(BaseModel):
    """The fields that decide what the heads compute. Their number is counted in the file, because published configs
    differ from it. ``truncated_vocab_size``: the words of vLLM's map."""

    model_config = ConfigDict(strict=True)

    hidden_size: PositiveInt | None = None
    vocab_size: PositiveInt | None = None
    truncated_vocab_size: PositiveInt | None = None
    layers: Literal[1] = Field(1, validation_alias="medusa_num_layers")


_OF_MEDUSA = {
    *MedusaConfig.model_fields, "medusa_num_layers", "medusa_num_heads", "num_heads", "original_lm_head", "max_paths",
    "topk", "medusa_choices", "medusa_hidden_size",
}  # fmt: skip


class MedusaModel:
    """``count``: heads; ``reads``: the layer of the target whose incoming state they read, which is after the last one;
    ``target_ids`` [Vd]: the target's ids that they can guess. It has no state, so every run shares it."""

    def __init__(self, folder: Path, target: Any, weights=None, config: MedusaConfig | None = None):
        """Loads the heads; ``weights`` and ``config`` replace the folder's own. Raises Unavailable if they fit no
        layout, or another target."""
        config = config or read_config(folder, MedusaConfig, "Medusa heads", _OF_MEDUSA | _OF_THE_TARGET)
        self.target, self.dtype, self.device = target, target.dtype, target.device
        self.width, self.max_length, self.reads = target.width, target.max_length, (target.layers_count,)
        self.is_on_cuda = torch.device(self.device).type == "cuda"
        weights = weights or HeadReader(folder, self.dtype, self.device)
        made_for = (config.hidden_size or self.width, config.vocab_size or target.vocab_size)
        if made_for != (self.width, target.vocab_size):
            raise Unavailable(
                f"The Medusa heads in {folder} were made for a target of width {made_for[0]} and {made_for[1]} words, "
                f"this one has {self.width} and {target.vocab_size}; use the target they were made for."
            )
        self.count, has_bias = _count(weights)
        words = self._words(weights, config)
        self.target_ids, self.vocab_size = words.to(self.device), len(words)
        E, heads = self.width, range(self.count)
        layers = torch.cat([fitting(weights, f"{k}.0.linear.weight", (E, E)) for k in heads])  # one product for all
        biases = [fitting(weights, f"{k}.0.linear.bias", (E,)) for k in heads] if has_bias else []
        bias = torch.cat(biases) if biases else torch.zeros(len(layers), dtype=layers.dtype, device=layers.device)
        self._load(layers, bias, self._outputs(weights))

    def _words(self, weights, config: MedusaConfig) -> torch.Tensor:
        """Returns the target's ids [Vd] that the heads guess among."""
        vocabulary = self.target.vocab_size
        if MAP in weights:
            return mapped_words(weights, vocabulary)
        if _TOKENS in weights and (config.truncated_vocab_size or vocabulary) < vocabulary:  # else vLLM ignores it
            ids = weights.raw(_TOKENS)
            return word_ids(ids - torch.arange(len(ids)), vocabulary, weights.folder)
        return torch.arange(vocabulary)

    def _outputs(self, weights) -> list[Any]:
        """Reads output layers [Vd, E]: of each head, one for all, or none where they use the target's."""
        if "0.1.weight" not in weights:
            uses_targets = ROWS not in weights and self.vocab_size == self.target.vocab_size and MAP not in weights
            return [] if uses_targets else [output_rows(weights, self.target, self.target_ids)]
        size = (self.vocab_size, self.width)
        of_all = (self.target.vocab_size, self.width)  # vLLM takes a map's rows from it
        has_all = _TOKENS in weights and tuple(weights.raw("0.1.weight").shape) == of_all
        outputs = [fitting(weights, f"{k}.1.weight", of_all if has_all else size) for k in range(self.count)]
        return [output[self.target_ids] for output in outputs] if has_all else outputs

    def _load(self, weight: torch.Tensor, bias: torch.Tensor, outputs: list[torch.Tensor]) -> None:
        """Stores weight [K·E, E] and bias [K·E] of the heads' layers; ``outputs`` as `_outputs` returns them."""
        self.linear = Linear(weight, bias)
        self.outputs = [Linear(output) for output in outputs] or [self.target.head]

    def fork(self) -> "MedusaModel":
        """Returns itself, because heads keep nothing of a sequence; see `Runner.fork`."""
        return self

    def close(self) -> None:
        """Gives the weights back; see `Runner.close`."""

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        """Returns logits [K, Vd] from state [1, E] of the last token that the target has read, before the last norm."""
        last = self.target.norm_out(state)
        guesses = last + F.silu(self.linear(last)).view(self.count, self.width)
        if len(self.outputs) == 1:
            return self.outputs[0](guesses)
        return torch.cat([output(row[None]) for output, row in zip(self.outputs, guesses, strict=True)])


def _count(weights) -> tuple[int, bool]:
    """Counts the heads, and says whether their layers have biases. Raises Unavailable for other tensors."""
    names, count = {*weights.names} - {*_MAPS}, 0
    while f"{count}.0.linear.weight" in names:
        count += 1
    has_bias = "0.0.linear.bias" in names
    shared = {f"{k}.0.linear.{part}" for k in range(count) for part in ("weight", "bias")[: 1 + has_bias]}
    own = {f"{k}.1.weight" for k in range(count)}
    if not count or names not in (shared, shared | own, shared | {ROWS}):
        strange = sorted(names ^ (shared | (own if names & own else set())))[:1] or ["0.0.linear.weight"]
        raise Unavailable(
            f"The tensors in {weights.folder} are not Medusa heads with one layer each: {strange[0]!r} is "
            "missing or too many."
        )
    return count, has_bias

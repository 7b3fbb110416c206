"""An EAGLE-3 head for decoding: the same layer as `training/eagle.py`, in place on a KV cache, linears packed.

Loads the layout that vLLM and SGLang use (`midlayer.*`, `fc`, `norm`, `lm_head`, `d2t`); the embedding is the
target's own. Runs under `DecoderRunner`, which knows slots, buckets and graphs.

Dimension key: W positions fed at once, E hidden size, H query heads, K key/value heads, D head size, L visible slots,
Vd draft words, V the target's vocabulary. Position t reads the target's features of token t and the embedding of
token t + 1, and guesses token t + 2.
"""

import json
from pathlib import Path

import torch
import torch.nn.functional as F

from engine.attention import attend, rotary_frequencies, shared_rows, turns
from engine.cache import KVCache
from engine.checkpoint import Checkpoint
from engine.decoder import Decoder
from engine.errors import Unavailable
from engine.folders import HEAD
from engine.linear import linear_for

_SIZES = ("hidden_size", "vocab_size", "draft_vocab_size", "num_attention_heads", "num_key_value_heads", "head_dim",
          "intermediate_size")  # fmt: skip


class EagleModel:
    """``reads``: layers of the target whose incoming states it reads; ``words`` [Vd]: the target ids it can guess."""

    layers_count = 1
    taps = ()

    def __init__(self, folder: Path, target: Decoder, packed=None, config: dict | None = None, weights=None):
        """``config`` and ``weights`` stand in for what is in the folder."""
        config = config or read_config(folder)
        self.config, self.target, self.dtype, self.device = config, target, target.dtype, target.device
        self.H, self.K, self.D = (config[n] for n in ("num_attention_heads", "num_key_value_heads", "head_dim"))
        self.inner, self.eps = config["intermediate_size"], config["rms_norm_eps"]
        self.vocab_size, self.max_length = config["draft_vocab_size"], target.max_length
        self.reads = tuple(config["eagle_config"]["eagle_aux_hidden_state_layer_ids"])
        self.width = target.width
        made_for = (config["hidden_size"], config["vocab_size"])
        if made_for != (target.width, target.vocab_size):
            raise Unavailable(
                f"The head in {folder} was made for a target of width {made_for[0]} and {made_for[1]} words, this one "
                f"has {target.width} and {target.vocab_size}; use the target it was made for."
            )
        if max(self.reads) > target.layers_count:
            raise Unavailable(
                f"The head in {folder} reads layer {max(self.reads)}, but this target has {target.layers_count} "
                "layers; use the target it was made for."
            )
        self._load(weights or Checkpoint(folder, target.dtype, target.device), packed)
        self.frequencies, self.rope_scaling = rotary_frequencies(target.config, self.D, self.device)

    def _load(self, weights: Checkpoint, packed: bool | None) -> None:
        E, Vd, heads, shared, at = self.width, self.vocab_size, self.H * self.D, self.K * self.D, "midlayer."
        linear = linear_for(self.dtype, self.device, packed, quantised=True)

        def fused(names: dict[str, int], width: int):
            return linear(torch.cat([weights(f"{at}{n}_proj.weight", (size, width)) for n, size in names.items()]))

        # The target's states hold outliers a hundred times the rest: no 8 bits for what reads them.
        self.fc = linear_for(self.dtype, self.device, packed)(weights("fc.weight", (E, len(self.reads) * E)))
        self.norm_embed = weights(at + "input_layernorm.weight", (E,))
        self.norm_hidden = weights(at + "hidden_norm.weight", (E,))
        self.norm_mid = weights(at + "post_attention_layernorm.weight", (E,))
        self.norm = weights("norm.weight", (E,))
        self.qkv = fused({"self_attn.q": heads, "self_attn.k": shared, "self_attn.v": shared}, 2 * E)
        self.out = fused({"self_attn.o": E}, heads)
        self.gate_up = fused({"mlp.gate": self.inner, "mlp.up": self.inner}, E)
        self.down = fused({"mlp.down": E}, self.inner)
        self.head = linear(weights("lm_head.weight", (Vd, E)))
        self.words = word_ids(weights.raw("d2t"), self.target.vocab_size, weights.folder).to(self.device)
        if len(self.words) != Vd:
            raise Unavailable(f"The vocabulary map in {weights.folder} has {len(self.words)} words, not {Vd}.")

    def new_cache(self, slots: int) -> KVCache:
        return KVCache(1, self.K, slots, self.D, self.dtype, self.device)

    def forward(self, ids, slots, positions, mask, visible, cache, rows=slice(None), features=None, state=None):
        """One pass. ids [W]: token t + 1 at position t; with it ``features`` [W, taps·E] of the target, or ``state``
        [W, E], the head's own from the step before. Returns logits [rows, Vd] and the outgoing state [rows, E]."""
        hidden = self.fc(features) if state is None else state
        rotary = turns(positions, self.frequencies, self.rope_scaling, hidden.dtype)
        mask = shared_rows(mask, self.H // self.K, self.dtype)
        embedded = self._normed(F.embedding(ids, self.target.embed), self.norm_embed)
        x = torch.cat([embedded, self._normed(hidden, self.norm_hidden)], -1)
        hidden = hidden + self._attend(x, rotary, slots, mask, visible, cache.keys[0], cache.values[0])
        gate_up = self.gate_up(self._normed(hidden, self.norm_mid))
        hidden = hidden + self.down(F.silu(gate_up[:, : self.inner]) * gate_up[:, self.inner :])
        if rows is None:
            return None, None
        hidden = hidden[rows]
        return self.head(self._normed(hidden, self.norm)), hidden

    def _attend(self, x, rotary, slots, mask, visible, keys, values):
        qk, v = self.qkv(x).view(len(x), self.H + 2 * self.K, self.D).split([self.H + self.K, self.K], 1)
        return self.out(attend(qk, v, rotary, slots, mask, visible, keys, values))

    def _normed(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, weight.shape, weight, self.eps)


def read_config(folder: Path) -> dict:
    """The head's config.json, looked through. Unavailable with what is wrong."""
    try:
        config = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
        sizes = [config[name] for name in _SIZES]
        reads = config["eagle_config"]["eagle_aux_hidden_state_layer_ids"]
        if not all(type(n) is int for n in (*sizes, *reads)) or min(sizes) < 1:
            raise ValueError("sizes are whole numbers")
        if config["architectures"] != [HEAD] or reads != sorted({*reads}) or reads[0] < 0:
            raise ValueError("layers are read from low to high")
        config["rms_norm_eps"] = float(config["rms_norm_eps"])
    except OSError as error:
        raise Unavailable(f"There is no EAGLE head in {folder}: config.json cannot be read.") from error
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise Unavailable(f"{Path(folder) / 'config.json'} describes no EAGLE-3 head ({HEAD}).") from error
    return config


def word_ids(d2t: torch.Tensor, vocabulary: int, folder: Path) -> torch.Tensor:
    """The stored map holds target id − draft id for each draft word; → target ids [Vd]. Unavailable if it cannot be.

    >>> word_ids(torch.tensor([0, 0, 5]), 10, Path("."))     # draft word 2 is target word 7
    tensor([0, 1, 7])
    """
    flat = d2t.dtype == torch.int64 and d2t.ndim == 1 and len(d2t) > 0
    words = d2t + torch.arange(len(d2t)) if flat else torch.tensor([-1])
    if int(words.min()) < 0 or int(words.max()) >= vocabulary or len(words.unique()) != len(words):
        raise Unavailable(f"The vocabulary map (d2t) in {folder} names words that the target does not have, or twice.")
    return words

"""Runs the forward pass of the Llama family on a CPU, as an ONNX Runtime graph that is built from the checkpoint.

It takes the place of `LlamaModel` and answers to the same calls. Keys and values stay in our own `KVCache`, so a
rollback stays an assignment.

Dimension key: T rows of a pass, R rows of logits, E hidden size, H query heads, K key/value heads, D head size,
V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engine.config import ROUNDED
from engine.device import return_memory
from engine.models.decoder.attention import HostSequenceSlice, rotary_frequencies
from engine.models.decoder.kv_cache import KVCache
from engine.models.decoder.llama import LlamaSizes
from engine.models.decoder.unread_tensors import check_all_read, check_layers, embedding_name, reads_own_head
from engine.models.onnx.attention import SPARE, Attention, CachedPasses, RotaryTables
from engine.models.onnx.graph import FLOAT, INT64, Graph, Heads, Weights
from engine.models.onnx.session import share_cores
from engine.models.tensors.gguf_reader import open_weights
from engine.models.tensors.grouped import GroupedWeight
from engine.weights.preflight import available_memory

ONNX_PRECISIONS = ("fp32", *ROUNDED)
_PREPACKING = 1.5  # times the weights: as ONNX Runtime packs them, and some room for runs
_PROBED, _PROBES = 24, (12, 1, 2, 3, 5, 8)  # tokens before, and widths of, the passes that are compared at load
_CHUNKS = (*(8 * [1]), 7, 9)  # sizes in which the tokens before are read; a single row may agree by chance
# The fewest rows of an attention and of a product, to be tried in this order. Without AVX-512 a product by 4 bits takes
# another kernel for a single row (ONNX Runtime 1.32).
_FEWEST = ((1, 1), (2, 1), (2, 2), (4, 1), (8, 1))


class OnnxLlama(LlamaSizes):
    """A checkpoint folder as a graph. ``precision`` of its products: one of ONNX_PRECISIONS; ``trees``: whether a pass
    may hold a token tree, which rounded inputs do not allow; ``same_bits``: whether a row has the same bits in every
    pass."""

    on_host, spare = True, SPARE
    sequences = 8  # in a shared pass, where an empty place costs, too; further ones take turns
    device, dtype = "cpu", torch.float32

    def __init__(self, folder: Path, config, precision: str = "fp32", progress=None, weights=None):
        """Builds the graph of a folder. ``weights``: a replacement for the folder's reader."""
        super().__init__(config)
        share_cores(is_onnx=False)  # torch converts the weights
        self.precision, self.trees = precision, precision == "fp32"
        reader = weights or open_weights(folder, torch.float32, "cpu")
        check_layers(reader, config, reader.folder)
        self.weights, self.is_tied = Weights(reader, precision), not reads_own_head(reader, config)
        self.rotary = RotaryTables(*rotary_frequencies(config, self.D, "cpu"))
        self._embedding = embedding_name(reader, config)
        self.embed = self.weights.table(self._embedding, self.vocab_size, self.width)
        self._alone = self._passes(1, progress)
        self._several: Any = None  # passes of several sequences, from the first shared one on
        share_cores()
        check_all_read(reader)
        self.same_bits = self._choose_fewest()

    def _shared_passes(self) -> CachedPasses | None:
        """Returns the passes of several sequences, which are made when first needed, because another graph packs the
        weights once more; None where memory does not hold them."""
        if self._several is None:
            free = available_memory(self.device)
            if free is not None and free < _PREPACKING * self._alone.weight_bytes:
                return None
            self._several = self._passes(self.sequences)
            self._several.fewest = self._alone.fewest
            self.same_bits = self.same_bits and self._sequences_agree()
            return_memory()
        return self._several

    @torch.inference_mode()
    def _choose_fewest(self) -> bool:
        """Sets the fewest rows of a pass from which a row has the same bits in every pass. Returns whether there are
        any on this processor; an attention takes two where there are none."""
        for self._alone.fewest, self._fewest in _FEWEST:
            if self._widths_agree() and self._chunks_agree():
                return True
        self._alone.fewest, self._fewest = _FEWEST[1]
        return False

    @property
    def doubles_rows(self) -> bool:
        """Returns whether a single row takes a second one through every product, only to have the same bits."""
        return self._fewest > 1

    def give_up_same_bits(self) -> None:
        """Takes the quickest passes from now on, for a model that only drafts."""
        self._alone.fewest, self._fewest, self.same_bits = 1, 1, False

    def _widths_agree(self) -> bool:
        """Tests whether passes of several widths give the same logits."""
        ids = torch.arange(_PROBED + max(_PROBES)) % self.vocab_size
        cache = self._cache_after(ids[:_PROBED], [_PROBED])
        passes = (self.forward(ids[_PROBED:][:W], [HostSequenceSlice(_PROBED, W, None, cache)])[0] for W in _PROBES)
        widest = next(passes)
        return all(torch.equal(some, widest[: len(some)]) for some in passes)  # none after the first that differs

    def _chunks_agree(self) -> bool:
        """Tests whether a prompt in several chunks leaves the same keys and values."""
        ids = torch.arange(_PROBED) % self.vocab_size
        caches = [self._cache_after(ids, chunks) for chunks in ([_PROBED], _CHUNKS)]
        first, second = ([side[:, :, :_PROBED] for side in (cache.keys, cache.values)] for cache in caches)
        return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))

    def _sequences_agree(self) -> bool:
        """Tests whether two sequences give in the shared graph what each gives alone."""
        ids = torch.arange(2 * _PROBED) % self.vocab_size
        widths = (1, 3)
        caches = [self._cache_after(ids[:start], [start]) for start in (_PROBED, _PROBED - 5)]
        spans = [
            HostSequenceSlice(start, W, None, cache)
            for start, W, cache in zip((_PROBED, _PROBED - 5), widths, caches, strict=True)
        ]
        alone = [self.forward(ids[: span.width], [span])[0] for span in spans]
        x = self.embedding(torch.cat([ids[:W] for W in widths]))
        together = self._pass(self._several, x, spans, torch.arange(sum(widths)))[0]
        return torch.equal(together, torch.cat(alone))

    def _cache_after(self, ids: torch.Tensor, chunks: Sequence[int]) -> KVCache:
        """Returns a cache with these tokens, which are read in chunks."""
        cache, start = self.new_cache(len(ids) + max(_PROBES)), 0
        for chunk in chunks:
            self.forward(ids[start : start + chunk], [HostSequenceSlice(start, chunk, None, cache)], None)
            start += chunk
        return cache

    def output_matrix(self) -> torch.Tensor | GroupedWeight:
        """Returns the output layer [V, E]."""
        name = self._embedding if self.is_tied else "lm_head.weight"
        if self.is_tied and isinstance(self.embed, torch.Tensor):
            return self.embed
        return self.weights.matrix({name: self.vocab_size}, self.width, bits=8)

    def embedding(self, ids: torch.Tensor) -> torch.Tensor:
        """Embeds ids [T] as [T, E]."""
        return self.embed[ids] if isinstance(self.embed, torch.Tensor) else self.embed.dense_rows(ids)

    def forward(
        self, ids: torch.Tensor, spans: Sequence[HostSequenceSlice], rows: slice | torch.Tensor | None = slice(None)
    ):
        """Runs one pass, as `LlamaModel.forward` does. Returns logits [R, V] (None where ``rows`` is None), and the
        states that enter the tapped layers [T, taps·E] (None without taps)."""
        x, numbers = self.embedding(ids), row_numbers(rows, len(ids))
        if len(spans) == 1:
            results = [self._pass(self._alone, x, spans, numbers)]
        else:
            passes = self._shared_passes()
            turns = _in_turn(x, spans, numbers, self.sequences if passes else 1)
            results = [self._pass(passes or self._alone, *turn) for turn in turns]
        logits, features = ([part for part in side if part is not None] for side in zip(*results, strict=True))
        return None if rows is None else _concatenate(logits), _concatenate(features) if features else None

    def _pass(self, passes: CachedPasses, x: torch.Tensor, spans: Sequence[HostSequenceSlice], rows: torch.Tensor):
        T, R = len(x), len(rows)
        if self._fewest > T:  # a copy of the row, whose key the next pass replaces
            x, spans = x.repeat(2, 1), [replace(spans[0], width=2)]
        if 0 < R < self._fewest:
            rows = rows.repeat(2)
        states = {state_name(i): (len(x), self.width) for i in self.taps if i}
        outputs = {"logits": (len(rows), self.vocab_size)} | states
        results = passes.run(spans, [span.width for span in spans], {"x": x, "rows": rows}, outputs)
        tapped = [(x if i == 0 else results[state_name(i)])[:T] for i in self.taps]
        return results["logits"][:R], _concatenate(tapped, -1) if tapped else None

    def _passes(self, sequences: int, progress=None) -> CachedPasses:
        graph = Graph(self.precision)
        attention = Attention(graph, sequences, Heads(self.H, self.K, self.D, self.eps), self.trees)
        final = add_layers(graph, self.weights, self, self.layers_count, attention, progress)
        rows = graph.node("Gather", [final, graph.input("rows", INT64, ["R"])], "final", axis=0)
        graph.linear(rows, "logits", self.output_matrix())
        graph.output("logits", ["R", self.vocab_size])
        return CachedPasses(graph, attention, self.rotary)


def _concatenate(parts: Sequence[torch.Tensor], dim: int = 0) -> torch.Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), dim)


def _in_turn(x: torch.Tensor, spans: Sequence[HostSequenceSlice], rows: torch.Tensor, limit: int):
    """Yields at most ``limit`` sequences at a time: their states, their spans and the numbers of their rows."""
    start = 0
    for at in range(0, len(spans), limit):
        some = spans[at : at + limit]
        end = start + sum(span.width for span in some)
        yield x[start:end], some, rows[(rows >= start) & (rows < end)] - start
        start = end


def row_numbers(rows: slice | torch.Tensor | None, T: int) -> torch.Tensor:
    if rows is None:
        return torch.zeros(0, dtype=torch.long)
    return _numbers_within(rows.start, rows.stop, T) if isinstance(rows, slice) else rows


@lru_cache(maxsize=256)
def _numbers_within(start: int | None, end: int | None, T: int) -> torch.Tensor:
    """Returns a tensor that passes of one width share, so that it stays bound."""
    return torch.arange(T)[start:end].contiguous()


def state_name(layer: int) -> str:
    """Names the states that enter a layer; for the number of layers, those after the last."""
    return f"norm{layer}.sum"


def add_layers(
    graph: Graph, weights: Weights, model: LlamaSizes, count: int, attention: Attention, progress=None
) -> str:
    """Adds the first ``count`` layers to input x [T, E]; returns the name of what the output layer reads."""
    E, eps, heads = model.width, model.eps, Heads(model.H, model.K, model.D, model.eps)
    norms = [f"model.layers.{i}.input_layernorm.weight" for i in range(model.layers_count)] + ["model.norm.weight"]
    x = graph.input("x", FLOAT, ["T", E])
    normed = graph.norm(x, "norm0", weights.vector(norms[0], E), eps)
    for i in range(count):
        at = f"model.layers.{i}."
        qkv = add_qkv(graph, weights, at, f"qkv{i}", normed, E, heads)
        normed, x = add_after_attention(graph, weights, at, str(i), attention(qkv), x, model)
        normed, x = graph.add_norm(normed, x, f"norm{i + 1}", weights.vector(norms[i + 1], E), eps)
        graph.output(x, ["T", E])
        if progress:
            progress((i + 1) / count)
    return normed


def add_qkv(graph: Graph, weights: Weights, at: str, name: str, x: str, width: int, heads: Heads) -> str:
    """Adds queries, keys and values side by side [T, (H + 2·K)·D], q and k normed if the checkpoint has weights."""
    sizes = (heads.H * heads.D, heads.K * heads.D, heads.K * heads.D)
    qkv = add_product(graph, weights, f"{at}self_attn.", "qkv", name, x, width, sizes)
    if f"{at}self_attn.q_norm.weight" not in weights:
        return qkv
    parts = [f"{name}.{side}" for side in "qkv"]
    graph.node("Split", [qkv, graph.weight(f"{name}.sizes", np.array(sizes))], parts, axis=-1)
    for i, count in enumerate((heads.H, heads.K)):
        part, weight = parts[i], weights.vector(f"{at}self_attn.{'qk'[i]}_norm.weight", heads.D)
        apart = graph.weight(f"{part}.apart", np.array([-1, count, heads.D]))
        flat = graph.weight(f"{part}.flat", np.array([-1, count * heads.D]))
        rows = graph.norm(graph.node("Reshape", [part, apart], f"{part}.heads"), f"{part}.norm", weight, heads.eps)
        parts[i] = graph.node("Reshape", [rows, flat], f"{part}.normed")
    return graph.node("Concat", parts, f"{name}.normed", axis=-1)


def add_after_attention(
    graph: Graph, weights: Weights, at: str, name: str, seen: str, x: str, model
) -> tuple[str, str]:
    """Adds the rest of a layer after attention ``seen`` over residual ``x``. Returns what its MLP adds, and the
    residual to add it to. ``model``: its H, D, width, inner and eps."""
    E = model.width
    out = add_product(graph, weights, f"{at}self_attn.", "o", f"out{name}", seen, model.H * model.D, (E,))
    norm = weights.vector(f"{at}post_attention_layernorm.weight", E)
    mid, x = graph.add_norm(out, x, f"mid{name}", norm, model.eps)
    both = add_product(graph, weights, f"{at}mlp.", ("gate", "up"), f"both{name}", mid, E, (model.inner, model.inner))
    active = graph.gate(both, f"active{name}")
    return add_product(graph, weights, f"{at}mlp.", ("down",), f"down{name}", active, model.inner, (E,)), x


def add_product(
    graph: Graph, weights: Weights, at: str, parts: Sequence[str], name: str, x: str, width: int, sizes: Sequence[int]
) -> str:
    """Adds one product by the projections ``parts`` side by side, with their biases where there are any."""
    names = [f"{at}{part}_proj" for part in parts]
    matrix = weights.matrix({f"{part}.weight": size for part, size in zip(names, sizes, strict=True)}, width)
    return graph.linear(x, name, matrix, weights.bias([f"{part}.bias" for part in names], sizes))

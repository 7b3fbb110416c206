"""Adds attention to ONNX Runtime graphs: of one or several sequences, each over its own KV cache, written in place.

Products, norms and activations give a row the same bits in every pass (of products by 4 bits that holds from two rows
on without AVX-512; `llama.py`). Attention does so from two rows on (AVX-512, onnxruntime 1.32), because a single row
takes another kernel, which adds in another order: rounding inputs to 8 bits then makes a last bit into a difference of
logits up to 5. So no attention here has fewer rows than that, and none ends in a block of fewer: a sequence's last row
is attended to again, and the further keys land in slots that the next pass writes first. With that a plain step, a
chain of any length, a chunk of a prompt and a neighbour in a batch agree to the bit.

The nodes of a tree do not: the keys of a path lie apart, and are added in another order.

Dimension key: T rows of a pass, W rows of one sequence, H query heads, K key/value heads, D head size, B sequences.
"""

import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import numpy as np
import torch

from engine.models.decoder.attention import HostSequenceSlice
from engine.models.decoder.kv_cache import KVCache
from engine.models.decoder.tree_shape import within
from engine.models.onnx.graph import FLOAT, INT32, INT64, MS, Graph, Heads
from engine.models.onnx.session import Binding, OnnxSession

HEAD_SIZES = 16  # the attention takes their multiples (ONNX Runtime 1.32)
SPARE = 7  # slots of a cache that only copies of a row are written to
_BLOCK = 32  # divides the rows that the attention takes at once, twice the head size (ONNX Runtime 1.32)
_TABLE = 1024  # positions that the rotary tables grow by


class RotaryTables:
    """Cosines and sines [positions, D/2] of positions 0, 1, …, as many as are needed."""

    def __init__(self, frequencies: torch.Tensor, scaling: float):
        self.frequencies, self.scaling = frequencies, scaling
        self._tables: dict[str, torch.Tensor] = {}

    def __call__(self, positions: int) -> dict[str, torch.Tensor]:
        if not self._tables or len(self._tables["cos"]) < positions:
            angle = torch.arange(-(-positions // _TABLE) * _TABLE).float()[:, None] * self.frequencies
            self._tables = {"cos": angle.cos() * self.scaling, "sin": angle.sin() * self.scaling}
        return self._tables


class Attention:
    """Adds attention to the layers of a graph of ``sequences``, each with its keys and values. ``layout`` is the row at
    each place of the attention, ``back`` the place of each row."""

    def __init__(self, graph: Graph, sequences: int, heads: Heads, trees: bool):
        self.graph, self.heads, self.trees = graph, heads, trees
        self.names, self.layers = [f".{b}" for b in range(sequences)], 0
        graph.input("layout", INT64, [1, "A"]), graph.input("back", INT64, ["T", 2])
        graph.input("cos", FLOAT, ["P", heads.D // 2]), graph.input("sin", FLOAT, ["P", heads.D // 2])
        if sequences > 1:
            graph.input("widths", INT64, [sequences])
        for b in self.names:
            graph.input(f"last{b}", INT32, [1]), graph.input(f"total{b}", INT32, [1])
            if trees:
                graph.input(f"positions{b}", INT64, [1, f"W{b}"])
                graph.input(f"bias{b}", FLOAT, [1, 1, f"W{b}", f"L{b}"])

    def __call__(self, qkv: str) -> str:
        """Adds the next layer's: queries, keys and values [T, (H + 2·K)·D] → [T, H·D]."""
        graph, name = self.graph, f"attention{self.layers}"
        parts = [graph.node("Gather", [qkv, "layout"], f"{name}.rows", axis=0)]
        if len(self.names) > 1:
            rows, parts = parts[0], [f"{name}.rows{b}" for b in self.names]
            graph.node("Split", [rows, "widths"], parts, axis=1)
        seen = [self._node_of(part, b) for part, b in zip(parts, self.names, strict=True)]
        seen = seen[0] if len(seen) == 1 else graph.node("Concat", seen, f"{name}.places", axis=1)
        self.layers += 1
        return graph.node("GatherND", [seen, "back"], name)

    def _node_of(self, rows: str, b: str) -> str:
        """Adds the nodes of one sequence: turns its queries and keys, writes keys and values to its cache, attends."""
        graph, heads, sides = self.graph, self.heads, [f"{side}{self.layers}{b}" for side in "kv"]
        shape = [1, heads.K, f"S{b}", heads.D]
        for side in sides:
            graph.input(f"past.{side}", FLOAT, shape), graph.output(f"next.{side}", shape)
        inputs = [rows, "", "", *(f"past.{side}" for side in sides), f"last{b}", f"total{b}", "cos", "sin"]
        inputs += [f"positions{b}", f"bias{b}"] if self.trees else []
        outputs = [f"seen{self.layers}{b}", *(f"next.{side}" for side in sides)]
        settings = {"num_heads": heads.H, "kv_num_heads": heads.K, "do_rotary": 1}
        return graph.node("GroupQueryAttention", inputs, outputs, MS, **settings)


class CachedPasses:
    """Runs a graph with attention over the caches of the sequences in each pass. ``window``: tokens that each attends
    to, None for all; it takes the inputs of trees."""

    def __init__(self, graph: Graph, attention: Attention, rotary: RotaryTables, window: int | None = None):
        assert attention.trees or window is None, "a window needs the inputs of trees"
        self.window = window
        self.heads, self.layers, self.trees, self.rotary = attention.heads, attention.layers, attention.trees, rotary
        self.sequences = len(attention.names)
        self.weight_bytes = graph.weights.bytes
        self._binding = Binding(OnnxSession(graph))
        self._scratch = KVCache(self.layers, self.heads.K, 1, self.heads.D, torch.float32, "cpu")
        self.fewest = 2  # rows of an attention
        # The references are weak, so that a cache is freed with its run.
        self._caches: list[Callable[[], KVCache | None]] = [lambda: None] * self.sequences
        self._slots = 0  # the largest cache that rotary tables were bound for
        self._lengths = torch.zeros(self.sequences, 2, dtype=torch.int32)
        for b, (last, total) in enumerate(self._lengths):
            self._binding.keep({f"last.{b}": last.view(1), f"total.{b}": total.view(1)})

    def run(
        self, spans: Sequence[HostSequenceSlice], widths: Sequence[int], inputs: Mapping[str, torch.Tensor],
        outputs: Mapping[str, Sequence[int]],
    ) -> dict[str, torch.Tensor]:  # fmt: skip
        """Runs one pass of at most B ``spans`` with these numbers of rows; ``inputs`` and ``outputs`` as for
        `Binding.run`, of all rows in order."""
        assert self.trees or all(span.shape is None for span in spans), "these passes hold chains only"
        padded = [W + max(0, self.fewest - 1 - (W - 1) % _BLOCK) for W in widths]
        padded += [1] * (self.sequences - len(spans))
        inputs = {**inputs, **_places(tuple(widths), tuple(padded))}
        lengths = self._lengths.numpy()  # in torch each number would be an operation
        for b in range(self.sequences):
            span = spans[b] if b < len(spans) else None
            self._bind(b, self._scratch if span is None else span.cache)
            total = padded[b] + (span.start if span else 0)
            lengths[b] = total - 1, total
            if self.trees:
                inputs |= _tree_inputs(b, span, padded[b], self.window)
        return self._binding.run(inputs, outputs)

    def _bind(self, b: int, cache: KVCache) -> None:
        if self._caches[b]() is cache:
            return
        for side, layers in (("k", cache.keys), ("v", cache.values)):
            for i, layer in enumerate(layers[: self.layers]):
                self._binding.keep_in_place(f"{side}{i}.{b}", layer[None])
        if (slots := cache.keys.shape[2]) > self._slots:
            self._binding.keep(self.rotary(slots))
            self._slots = slots
        self._caches[b] = weakref.ref(cache)


@lru_cache(maxsize=256)
def _places(widths: tuple[int, ...], padded: tuple[int, ...]) -> dict[str, torch.Tensor]:
    """Returns the graph's inputs about the places of rows. Passes of equal widths share them, so they stay bound."""
    layout, back = _layout(widths, padded)
    inputs = {"layout": layout[None].contiguous(), "back": torch.stack([torch.zeros_like(back), back], 1)}
    return inputs | ({"widths": torch.tensor(padded)} if len(padded) > 1 else {})


def _layout(widths: Sequence[int], padded: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the row at each place, a sequence's last one again where it has too few; and the place of each row.

    >>> _layout([1, 3], [2, 3, 1])     # a third sequence takes no part
    (tensor([0, 0, 1, 2, 3, 0]), tensor([0, 2, 3, 4]))
    """
    if len(padded) == 1:
        rows = torch.arange(padded[0])
        return rows.clamp_max(widths[0] - 1), rows[: widths[0]]
    layout, back, row = [], [], 0
    for b, places in enumerate(padded):
        W = widths[b] if b < len(widths) else 0
        back += range(len(layout), len(layout) + W)
        layout += [row + min(i, W - 1) for i in range(places)] if W else [0] * places
        row += W
    return torch.tensor(layout), torch.tensor(back)


def _tree_inputs(b: int, span: HostSequenceSlice | None, places: int, window: int | None) -> dict[str, torch.Tensor]:
    """Returns positions [1, places] and a bias [1, 1, places, L] that hides all but ancestors in the ``window``."""
    start = span.start if span else 0
    positions, bias = torch.arange(start, start + places), torch.zeros(places, start + places)
    if span and span.shape is not None:
        depth, ancestors = span.shape
        W, nodes = ancestors.shape
        first = start + W - nodes  # the slot of the root
        positions[:W] = first + torch.as_tensor(np.asarray(depth))
        seen = within(np.asarray(ancestors), window)
        bias[:W, first : first + nodes].masked_fill_(~torch.as_tensor(seen), -torch.inf)
    if window:
        slots = torch.arange(bias.shape[1])
        bias.masked_fill_(slots[None] <= positions[:, None] - window, -torch.inf)
    return {f"positions.{b}": positions[None], f"bias.{b}": bias[None, None]}

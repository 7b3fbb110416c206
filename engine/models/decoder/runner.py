"""Runs a model with its KV cache: appends tokens, returns logits, rolls tokens back.

`Runner` is the protocol that drafters and the loop use. `DecoderRunner` runs `LlamaModel` and `EagleModel`;
`TransformersRunner` runs any other model. Dimension key: W tokens fed at once, V vocabulary.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from engine.device import to_device
from engine.errors import BadInput
from engine.models.decoder.attention import HostSequenceSlice, SequenceSlice
from engine.models.decoder.cuda_graphs import SMALLEST_CACHE, EagerGraphs, graphs_for, long_enough, wide_enough
from engine.models.decoder.tree_shape import HostShape, TreeShape, on_device, pad, tree_shape

Slice = SequenceSlice | HostSequenceSlice
_PREFILL_CHUNK = 512


class Tokens(NamedTuple):
    """New tokens [W] of one sequence in a pass over several; ``parents`` as in `Runner.forward`. Without
    ``wants_logits`` they are ids on the host that are only appended, as a prompt's are."""

    runner: Any  # a Runner of the model that the pass is over
    ids: Any
    parents: Sequence[int] | None = None
    wants_logits: bool = True

    def alone(self) -> torch.Tensor | None:
        """Runs these tokens in a pass of their own."""
        return self.runner.forward(self.ids, self.parents) if self.wants_logits else self.runner.prefill(self.ids)


class StoredTokens(NamedTuple):
    """A copy of what a `DecoderRunner` holds of W tokens: keys and values [2, layers, K, W, D], and the states [W,
    taps·E] that entered the tapped ``layers``."""

    sides: torch.Tensor
    states: Any  # None where no layer was tapped
    layers: tuple[int, ...]

    @property
    def bytes(self) -> int:
        return sum(part.nbytes for part in (self.sides, self.states) if part is not None)

    def has(self, runner: "DecoderRunner") -> bool:
        """Returns whether the states are here that the runner stores."""
        return {*runner.tapped_layers} <= {*self.layers}


def check_capacity(capacity: int, max_length: int) -> None:
    """Raises BadInput for more tokens than a model's context holds."""
    if capacity > max_length:
        raise BadInput(
            f"Prompt and answer together need {capacity} tokens, but this model's context is {max_length}; "
            "shorten the prompt or ask for fewer new tokens."
        )


class Runner(Protocol):
    vocab_size: int
    max_length: int
    device: str
    trees: bool  # whether forward takes parents

    @property
    def length(self) -> int:
        """Tokens whose keys and values are cached."""
        ...

    @property
    def captured(self) -> bool:
        """Whether passes are CUDA graphs, one for each width."""
        return False

    @property
    def same_bits(self) -> bool | None:
        """Whether a row was found to have the same bits in every pass; None where it was not tried."""
        return None

    def reset(self, capacity: int) -> None:
        """Empties the cache and makes room for ``capacity`` tokens. Raises BadInput beyond the context length."""

    def prefill(self, ids: Sequence[int]) -> None:
        """Appends tokens without computing logits."""

    def forward(self, tokens: torch.Tensor, parents: Sequence[int] | None = None, last: bool = False) -> torch.Tensor:
        """Appends tokens [W]; returns logits [W, V], or [1, V] with ``last``. With ``parents`` [W−1] the tokens are a
        tree: token 0 its root, parents[i] the parent of token i+1; position = base + depth."""
        ...

    def fork(self) -> "Runner":
        """Returns a runner of another sequence on the same weights, with a cache of its own, never captured."""
        ...

    def forward_many(self, batch: Sequence[Tokens]) -> list[torch.Tensor | None]:
        """Appends tokens to several sequences of this model, in one pass where it can. Returns the logits [W, V] of
        each, None where they are not wanted."""
        return [tokens.alone() for tokens in batch]

    def memory(self, capacity: int) -> int:
        """Returns the bytes that `reset` takes for ``capacity`` tokens."""
        ...

    def loop(self, key: Any, total: int, body: Callable) -> Any:
        """Appends ``total`` tokens in several passes and returns the result of ``body(step)``. ``step(ids, offset)``
        gives the last row's logits [1, V] and features; ``offset``: tokens appended before in this loop. The caller
        rolls back if the body appended fewer. On CUDA the loop is one captured graph per ``key``."""
        return body(lambda ids, offset: (self.forward(ids, last=True), None))

    def rollback(self, length: int) -> None:
        """Discards all tokens from ``length`` on."""

    def keep(self, base: int, nodes: list[int]) -> None:
        """Keeps the path ``nodes`` of the tree that was appended at ``base``, discards the rest."""

    def release(self) -> None:
        """Releases the cache's memory."""

    def close(self) -> None:
        """Releases all memory; the runner cannot be used again."""


class DecoderRunner:
    """Runs our own models. On CUDA each width is one captured graph over a bucket of the cache; on a CPU the same code
    runs eagerly."""

    def __init__(self, model: Any, graphs=None):
        """Runs ``model``, a `LlamaModel`, or a head with the same interface."""
        self.model, self.device, self.trees = model, model.device, model.trees
        self.vocab_size, self.max_length = model.vocab_size, model.max_length
        self.graphs = graphs or graphs_for(model.device)
        self.cache: Any = None  # a KVCache between reset and release
        self.tapped: torch.Tensor | None = None  # [slots, taps·E]: features of every token, when the model has taps
        self.tapped_layers: tuple[int, ...] = ()  # those that ``tapped`` comes from: the model's taps at the reset
        self._base = torch.zeros((), dtype=torch.long, device=model.device)  # first slot of this pass
        self._inputs: dict[Any, torch.Tensor] = {}  # the inputs of captured passes, by name and shape

    @property
    def captured(self) -> bool:
        return self.graphs.captured

    @property
    def same_bits(self) -> bool | None:
        return self.model.same_bits

    @property
    def length(self) -> int:
        return self.cache.length if self.cache else 0

    def fork(self) -> "DecoderRunner":
        return DecoderRunner(self.model, EagerGraphs())

    def memory(self, capacity: int) -> int:
        model = self.model
        cached = 2 * model.layers_count * model.K * model.D * (capacity + model.spare)
        return model.dtype.itemsize * (cached + capacity * len(model.taps) * model.width)

    def reset(self, capacity: int) -> None:
        check_capacity(capacity, self.max_length)
        slots = max(long_enough(capacity), SMALLEST_CACHE) if self.graphs.captured else capacity
        if self.cache is None or self.cache.slots < slots:
            self.graphs.clear()  # captured graphs write to the old cache's addresses
            self.cache = None
            self.cache = self.model.new_cache(slots)
        self.cache.length = 0
        if self.graphs.captured:
            self._empty_buffers()
        self._make_room_for_features()

    @torch.inference_mode()  # because passes in inference mode made the buffers
    def _empty_buffers(self) -> None:
        """Clears the buffers, because numbers that are not finite would spoil the next run: 0 · NaN is NaN."""
        for tensor in (self.cache.keys, self.cache.values, *self._inputs.values()):
            tensor.zero_()

    def tap(self, layers: Sequence[int]) -> None:
        """Stores the hidden states that enter these layers from the next reset on: ``tapped[i]`` is token i's."""
        if tuple(layers) != self.model.taps:
            self.model.taps = tuple(layers)
            self.graphs.clear()

    def features(self, layers: Sequence[int], start: int, end: int) -> torch.Tensor:
        """Returns the states [end − start, layers·E] of the tokens start … end − 1 that entered these tapped layers."""
        assert self.tapped is not None, "the layers were tapped before the reset"
        return self._of_layers(self.tapped[start:end], self.tapped_layers, tuple(layers))

    @torch.inference_mode()
    def copy_tokens(self, start: int, end: int) -> StoredTokens:
        """Returns a copy of the tokens start … end − 1."""
        sides = torch.stack([side[:, :, start:end] for side in (self.cache.keys, self.cache.values)])
        return StoredTokens(sides, None if self.tapped is None else self.tapped[start:end].clone(), self.tapped_layers)

    @torch.inference_mode()
    def append_copy(self, tokens: StoredTokens) -> bool:
        """Appends tokens that `copy_tokens` returned after the same text. Returns False where they lack states."""
        if not tokens.has(self):
            return False
        start, end = self.length, self.length + tokens.sides.shape[3]
        for side, copy in zip((self.cache.keys, self.cache.values), tokens.sides, strict=True):
            side[:, :, start:end] = copy
        if self.tapped is not None:
            self.tapped[start:end] = self._of_layers(tokens.states, tokens.layers, self.tapped_layers)
        self.cache.length = end
        return True

    def _of_layers(self, features: torch.Tensor, tapped: tuple[int, ...], layers: tuple[int, ...]) -> torch.Tensor:
        if layers == tapped:
            return features
        states = dict(zip(tapped, features.split(self.model.width, -1), strict=True))
        return torch.cat([states[layer] for layer in layers], -1)

    def _make_room_for_features(self) -> None:
        self.tapped_layers = self.model.taps
        width = len(self.tapped_layers) * self.model.width
        if not width:
            self.tapped = None
        elif self.tapped is None or self.tapped.shape != (self.cache.slots, width):
            self.tapped = torch.zeros(self.cache.slots, width, dtype=self.model.dtype, device=self.device)

    def _remember(self, features: torch.Tensor | None, count: int) -> None:
        if self.tapped is not None:
            assert features is not None, "the layers stay tapped until the next reset"
            own = self._of_layers(features, self.model.taps, self.tapped_layers)  # more may be tapped since
            self.tapped[self.length : self.length + count] = own

    @torch.inference_mode()
    def prefill(self, ids: Sequence[int], **inputs: Any) -> None:
        """Reads the prompt. ``inputs``: further inputs of the model, one row per id."""
        for start in range(0, len(ids), _PREFILL_CHUNK):
            chunk = to_device(ids[start : start + _PREFILL_CHUNK], self.device)
            self._base.fill_(self.length)
            beside = {name: rows[start : start + len(chunk)] for name, rows in inputs.items()}
            self._remember(self.step(chunk, 0, rows=None, **beside)[1], len(chunk))
            self.cache.length += len(chunk)

    @torch.inference_mode()
    def forward(self, tokens, parents=None, last=False):
        W = len(tokens)
        assert parents is None or self.trees, "this model runs chains only"
        assert self.length + W <= self.cache.slots, f"{W} more tokens than the cache was made for"
        shape = None if parents is None else tree_shape(parents)
        logits, features = self._run(tokens, slice(W - 1, W) if last else slice(None), shape)
        self._remember(features, W)
        self.cache.length += W
        return logits

    def _run(self, ids: torch.Tensor, rows: slice, shape: HostShape | None, **inputs: Any):
        """Runs `step` after all tokens that are cached, on CUDA as a captured graph. A pass that is wider than its
        tokens ends with rows that are not read; their keys are overwritten by the next pass."""
        self._base.fill_(self.length)
        W = len(ids)
        if not self.graphs.captured:
            return self.step(ids, 0, rows, self._place(shape), **inputs)
        width = min(wide_enough(W), self.free_slots) if rows == slice(None) else W
        placed = self._place(shape, width)
        placed = placed and TreeShape(*map(self._store, TreeShape._fields, placed))
        ids = self._store("ids", ids, width)
        inputs = {name: self._store(name, values, width) for name, values in inputs.items()}
        key = ("pass", width, rows.start, self.visible(width), placed and placed.ancestors.shape, *inputs)
        logits, features = self.graphs.run(key, lambda: self.step(ids, 0, rows, placed, **inputs))
        return logits[:W], None if features is None else features[:W]

    def _store(self, name: str, values: torch.Tensor, width: int | None = None) -> torch.Tensor:
        """Copies ``values`` into a buffer, of ``width`` rows if given, whose address captured graphs know."""
        key = (name, values.shape if width is None else (width, *values.shape[1:]))
        if key not in self._inputs:
            self._inputs[key] = values.new_zeros(key[1])
        (self._inputs[key] if width is None else self._inputs[key][: len(values)]).copy_(values)
        return self._inputs[key]

    def _place(self, shape: HostShape | None, width: int | None = None):
        """Returns the shape of the next tokens as `span` takes it; with a ``width`` it is padded."""
        if shape is None or self.model.on_host:
            return shape
        W, M = shape[1].shape
        shape = pad(shape, width) if width else shape
        return on_device(shape, self.length + W - M, getattr(self.model, "window", None), self.device)

    @torch.inference_mode()
    def forward_many(self, batch: Sequence[Tokens]) -> list[torch.Tensor | None]:
        """Runs one pass for all sequences; the products see their tokens as one matrix. A sequence alone takes its
        usual path; a shared pass is never captured."""
        if len(batch) == 1:
            return [batch[0].alone()]
        widths = [len(tokens.ids) for tokens in batch]
        spans = [tokens.runner.next_span(W, tokens.parents) for tokens, W in zip(batch, widths, strict=True)]
        scored = np.repeat([tokens.wants_logits for tokens in batch], widths).nonzero()[0]
        rows = to_device(scored, self.device) if len(scored) else None
        ids = [tokens.ids if tokens.wants_logits else to_device(tokens.ids, self.device) for tokens in batch]
        logits, features = self.model.forward(torch.cat(ids), spans, rows)
        parts = iter(() if logits is None else logits.split([len(t.ids) for t in batch if t.wants_logits]))
        features = [None] * len(batch) if features is None else features.split(widths)
        for tokens, W, own in zip(batch, widths, features, strict=True):
            tokens.runner._remember(own, W)
            tokens.runner.cache.length += W
        return [next(parts) if tokens.wants_logits else None for tokens in batch]

    def visible(self, more: int) -> int:
        """Counts the slots that a pass over ``more`` further tokens reads."""
        length = self.length + more
        return min(long_enough(length), self.cache.slots) if self.graphs.captured else length

    def step(
        self, ids: torch.Tensor, offset: int, rows=slice(None), shape=None, visible: int | None = None, **inputs: Any
    ):
        """Runs one pass at slots base + offset + 0 … W−1. It changes no host state, so that it can be captured."""
        return self.model.forward(ids, [self.span(len(ids), offset, shape, visible)], rows, **inputs)

    def next_span(self, W: int, parents: Sequence[int] | None = None) -> Slice:
        """Returns `span` after all tokens that are cached; ``parents`` as in `forward`."""
        assert parents is None or self.trees, "this model runs chains only"
        assert self.free_slots >= W, f"{W} more tokens than the cache was made for"
        self._base.fill_(self.length)
        return self.span(W, 0, None if parents is None else self._place(tree_shape(parents)))

    def span(self, W: int, offset: int = 0, shape=None, visible: int | None = None) -> Slice:
        """Says where the next W tokens go, and what they attend to. ``shape``: a `TreeShape`, or a pair on the host."""
        if self.model.on_host:
            return HostSequenceSlice(self.length + offset, W, shape, self.cache)
        visible = visible or self.visible(offset + W)
        order = torch.arange(W, device=self.device)
        slots = self._base + offset + order
        positions, window = slots, getattr(self.model, "window", None)
        mask: Any = None
        seen = torch.arange(visible, device=self.device)
        if shape is not None:
            positions, nodes = shape.root + shape.depth, shape.ancestors.shape[1]
            inside = seen - shape.root  # node number at that slot; negative for the committed context
            mask = (inside < 0) | ((inside < nodes) & shape.ancestors[:, inside.clamp(0, nodes - 1)])
        elif W > 1 or self.graphs.captured or window:
            mask = seen[None] <= slots[:, None]
        if window:
            mask &= seen[None] > positions[:, None] - window
        return SequenceSlice(slots, positions, mask, visible, self.cache)

    @property
    def free_slots(self) -> int:
        """Tokens that still fit into the cache."""
        return self.cache.slots - self.length

    @torch.inference_mode()
    def extend(self, ids: torch.Tensor, shape=None, **inputs) -> tuple[torch.Tensor, torch.Tensor]:
        """Appends tokens. Returns logits and features of the last one, or of each with a ``shape``."""
        W = len(ids)
        assert self.free_slots >= W, f"{W} more tokens than the cache was made for"
        result = self._run(ids, slice(W - 1, W) if shape is None else slice(None), shape, **inputs)
        self.cache.length += W
        return result

    @torch.inference_mode()
    def loop(self, key, total: int, body: Callable):
        """Runs ``body(step)`` as one graph: several passes and the work between them, ``total`` tokens in all.

        A captured body reads the same stretch of the cache in every pass, because a replay must not inherit a shorter
        one from the length at capture.
        """
        assert self.length + total <= self.cache.slots, f"{total} more tokens than the cache was made for"
        self._base.fill_(self.length)
        visible = self.visible(total) if self.graphs.captured else None

        def step(ids, offset, **inputs):
            return self.step(ids, offset, slice(len(ids) - 1, len(ids)), None, visible, **inputs)

        result = self.graphs.run(("loop", key, visible), lambda: body(step))
        self.cache.length += total
        return result

    def rollback(self, length: int) -> None:
        self.cache.rollback(length)

    @torch.inference_mode()
    def keep(self, base: int, nodes: list[int]) -> None:
        self.cache.keep(base, nodes)
        if self.tapped is not None and nodes != list(range(len(nodes))):
            source = to_device([base + n for n in nodes], self.device)
            self.tapped[base : base + len(nodes)] = self.tapped[source]

    def release(self) -> None:
        """Releases the cache on a CPU; on CUDA it stays for the captured graphs until ``close``."""
        if not self.graphs.captured:
            self.cache = self.tapped = None

    def close(self) -> None:
        self.graphs.clear()
        self._inputs.clear()
        self.cache = self.tapped = None

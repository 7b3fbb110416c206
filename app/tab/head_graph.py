"""Builds the fp32 graph of a block head for the engine in a browser tab, and packs the head's weights for it.

The graph is that of `engine.models.onnx.eagle`, with the projection of the target's states in it. A masked slot reads
the learnt vector in place of those states, so that one pass serves both.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from app.tab.graph import Named, NamedWeights, PortableGraph
from engine.errors import BadInput, Unavailable
from engine.models.decoder.config import context_length
from engine.models.heads.eagle3 import EMBEDDING, FIRST
from engine.models.heads.reader import HeadReader
from engine.models.heads.reduced_output import ROWS
from engine.models.onnx.attention import Attention
from engine.models.onnx.eagle import OnnxBlock
from engine.models.onnx.graph import FLOAT, INT64, Heads
from engine.models.tensors.grouped import GROUP

WORDS = "words"  # the rows of the target's output layer, which the tab takes from the model's own file
_MASK = "mask_hidden"
_GROUP = np.dtype([("scale", "<f4"), ("n", "i1", GROUP)])  # how gguf_tensors.js reads weights of 8 bits: Q8_F32


class _PortableBlock(OnnxBlock):
    """``graph`` has names in place of the weights."""

    def _load(self, weights: Any) -> None:
        E, taps = self.width, len(self.reads) * self.target.width
        if self.layers_count > 1 or self.window or self._norms_before is not None or ROWS in weights:
            raise BadInput("The browser's engine runs block heads of one plain layer that read the target's own words.")
        if self.config.markov_rank:
            raise BadInput("The browser's engine runs block heads without a bias by the guess before.")
        if weights.raw(_MASK).numel() != taps:
            raise Unavailable(f"{_MASK} in {weights.folder} does not have {taps} numbers, as this target needs.")
        graph = PortableGraph("fp32")
        read: Any = NamedWeights(weights)
        features, embedded = graph.input("features", FLOAT, ["T", taps]), graph.input("x", FLOAT, ["T", E])
        hidden = graph.linear(features, "hidden", read.matrix({"fc.weight": E}, taps), read.bias(["fc.bias"], [E]))
        parts = [
            graph.norm(x, f"{x}.normed", read.vector(f"{FIRST}{name}.weight", E), self.eps)
            for x, name in ((embedded, "input_layernorm"), (hidden, "hidden_norm"))
        ]
        pair = graph.node("Concat", parts, "pair", axis=-1)
        self._attention = Attention(graph, 1, Heads(self.H, self.K, self.D, self.eps), trees=False)
        residual = parts[1] if self.config.norm_before_residual else hidden
        add, residual = self._add_layer(graph, read, FIRST, pair, 2 * E, residual, "")
        final, _ = graph.add_norm(add, residual, "final", read.vector("norm.weight", E), self.eps)
        rows = graph.node("Gather", [final, graph.input("rows", INT64, ["R"])], "final.rows", axis=0)
        words: Any = Named((WORDS,), (self.vocab_size, E))
        graph.linear(rows, "logits", words)
        graph.output("logits", ["R", self.vocab_size])
        self.graph = graph


def portable_head(folder: Path, config) -> tuple[bytes, bytes, dict]:
    """Returns the graph of the block head in ``folder`` for a target of this ``config``, its weights, and its
    description as plain data. BadInput for a head that the browser's engine cannot run."""
    weights = HeadReader(folder, torch.float32, "cpu")
    if EMBEDDING in weights:
        raise BadInput("The browser's engine runs block heads that read the target's own embedding.")
    target = SimpleNamespace(
        dtype=torch.float32, device="cpu", on_host=True, width=config.hidden_size, vocab_size=config.vocab_size,
        layers_count=config.num_hidden_layers, max_length=context_length(config),
    )  # fmt: skip
    head = _PortableBlock(folder, target, weights=weights)
    graph = head.graph
    data, places = _pack(weights, [name for names in graph.recipe for name in names if name != WORDS] + [_MASK])
    weights.check_all_read()
    return graph.build().SerializeToString(), data, {
        "layers": 1, "heads": head.K, "headSize": head.D, "width": head.width, "vocabulary": head.vocab_size,
        "context": head.max_length, "frequencies": head.frequencies.tolist(), "scaling": head.rope_scaling,
        "tensors": places, "recipe": graph.recipe, "bytes": graph.bytes, "reads": list(head.reads),
        "slots": head.slots, "words": head.target_ids.tolist(), "mask": _MASK, "maskToken": head.config.mask_token,
    }  # fmt: skip


def _pack(weights: HeadReader, names: list[str]) -> tuple[bytes, dict[str, dict]]:
    """Packs the tensors one after the other, matrices of 8 bits as they are stored. Returns where each lies, too."""
    parts, places, offset = [], {}, 0
    for name in names:
        groups = weights.blocks(name)
        tensor = weights(name) if groups is None else groups.n
        if groups is None:
            kind, data = "F32", tensor.numpy().astype("<f4").tobytes()
        else:
            packed: Any = np.empty(groups.scale.shape, _GROUP)
            packed["scale"], packed["n"] = groups.scale.numpy(), tensor.numpy().reshape(*groups.scale.shape, GROUP)
            kind, data = "Q8_F32", packed.tobytes()
        places[name] = {"type": kind, "shape": list(tensor.shape), "offset": offset}
        parts.append(data)
        offset += len(data)
    return b"".join(parts), places

"""Runs EAGLE heads as ONNX Runtime graphs, in 8 bits: beside a target that runs so, a draft step must be as quick.

Rounded or not, q is the distribution that drafts were drawn from, so the output stays exact and only α can fall.

Dimension key: T positions fed at once, R rows of logits, E hidden size, Vd draft words.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from engine.errors import Unavailable
from engine.models.decoder.attention import HostSequenceSlice
from engine.models.heads.block import BlockModel
from engine.models.heads.eagle1 import Eagle1Model
from engine.models.heads.eagle3 import FIRST, EagleModel, further_norm
from engine.models.heads.reduced_output import ROWS
from engine.models.onnx.attention import HEAD_SIZES, SPARE, Attention, CachedPasses, RotaryTables
from engine.models.onnx.graph import FLOAT, INT64, Graph, Heads, Weights, draft_precision, rounded_matrix
from engine.models.onnx.llama import add_after_attention, add_qkv, row_numbers
from engine.models.onnx.session import OnnxSession


class OnnxEagle(EagleModel):
    on_host, spare = True, SPARE

    def _load(self, weights) -> None:
        E, at = self.width, FIRST
        self.precision = draft_precision(E, self.inner, self.H * self.D)
        read, graph = Weights(weights, self.precision), Graph(self.precision)
        self._project = self._projection(read, len(self.reads) * self.target.width)
        embedded, hidden = (graph.input(name, FLOAT, ["T", E]) for name in ("embedded", "hidden"))
        parts = [
            graph.norm(x, f"{x}.normed", read.vector(f"{at}{name}.weight", E), self.eps)
            for x, name in ((embedded, "input_layernorm"), (hidden, "hidden_norm"))
        ]
        pair = graph.node("Concat", parts, "pair", axis=-1)
        residual = parts[1] if self.config.norm_before_residual else hidden
        add, residual = self._layers_graph(graph, read, pair, 2 * E, residual)
        final, state = graph.add_norm(add, residual, "final", read.vector("norm.weight", E), self.eps)
        self._finish(graph, final, final if self.config.norm_output else state, self._output_matrix(read))

    def _output_matrix(self, read: Weights):
        if ROWS in read:
            return read.matrix({ROWS: self.vocab_size}, self.width)
        return rounded_matrix(self._output_rows(read.reader), self.precision)

    def _projection(self, read: Weights, width: int) -> OnnxSession:
        """Returns the matrix that turns the target's features [T, width] into a state."""
        graph = Graph(self.precision)
        x = graph.input("features", FLOAT, ["T", width])
        bias = read.bias(["fc.bias"], [self.width])
        graph.linear(x, "hidden", read.matrix({"fc.weight": self.width}, width), bias)
        graph.output("hidden", ["T", self.width])
        return OnnxSession(graph)

    def _layers_graph(self, graph: Graph, read: Weights, x: str, width: int, residual: str) -> tuple[str, str]:
        """Adds all layers: in the first, attention over ``x`` and the MLP. Returns what to add to which residual."""
        if self.D % HEAD_SIZES:
            raise Unavailable(
                f"This EAGLE head has {self.D} numbers for each attention head, and ONNX Runtime takes multiples of "
                f"{HEAD_SIZES}; use another method."
            )
        self._attention = Attention(graph, 1, Heads(self.H, self.K, self.D, self.eps), trees=True)
        add, residual = self._add_layer(graph, read, FIRST, x, width, residual, "")
        for i in range(1, self.layers_count):
            norm = read.vector(further_norm(read, i), self.width)
            x, residual = graph.add_norm(add, residual, f"norm{i}", norm, self.eps)
            add, residual = self._add_layer(graph, read, f"layers.{i}.", x, self.width, residual, str(i))
        return add, residual

    def _add_layer(self, graph: Graph, read: Weights, at: str, x: str, width: int, residual: str, name: str):
        seen = self._attention(add_qkv(graph, read, at, f"qkv{name}", x, width, self._attention.heads))
        return add_after_attention(graph, read, at, name, seen, residual, self)

    def _finish(self, graph: Graph, final: str, state: str, words) -> None:
        """Adds the output layer and the outgoing state of some rows."""
        rows = graph.input("rows", INT64, ["R"])
        graph.node("Gather", [state, rows], "state", axis=0)
        graph.linear(graph.node("Gather", [final, rows], "final.rows", axis=0), "logits", words)
        graph.output("state", ["R", self.width]), graph.output("logits", ["R", self.vocab_size])
        rotary = RotaryTables(self.frequencies, self.rope_scaling)
        self._passes = CachedPasses(graph, self._attention, rotary, self.window)

    def forward(
        self, ids, spans: Sequence[HostSequenceSlice], rows=slice(None), features: Any = None, state: Any = None
    ):
        """Runs one sequence as `EagleModel.forward` does."""
        hidden, numbers = self._fuse_features(features) if state is None else state, row_numbers(rows, len(ids))
        inputs = {"embedded": self._embedding(ids), "hidden": hidden, "rows": numbers}
        outputs = {"logits": (len(numbers), self.vocab_size), "state": (len(numbers), self.width)}
        results = self._passes.run(spans, [len(ids)], inputs, outputs)
        return (None, None) if rows is None else (results["logits"], results["state"])

    def _fuse_features(self, features: torch.Tensor) -> torch.Tensor:
        outputs = {"hidden": (len(features), self.width)}
        return self._project.run({"features": self._norm_features(features)}, outputs)["hidden"]


class OnnxEagle1(OnnxEagle, Eagle1Model):
    """An EAGLE-1 head, which reads its words from the target's output layer."""

    def _load(self, weights) -> None:
        E = self.width
        self.precision = draft_precision(E, self.inner, self.H * self.D)
        read, graph = Weights(weights, self.precision), Graph(self.precision)
        self._target_norm = self.target.weights.reader("model.norm.weight", (E,)).float()
        embedded, last = (graph.input(name, FLOAT, ["T", E]) for name in ("embedded", "hidden"))
        both = graph.node("Concat", [embedded, last], "pair", axis=-1)
        hidden = graph.linear(both, "fc", read.matrix({"fc.weight": E}, 2 * E), read.bias(["fc.bias"], [E]))
        add, residual = self._layers_graph(graph, read, hidden, E, hidden)
        final = graph.node("Add", [add, residual], "final")
        self._finish(graph, final, final, rounded_matrix(self.target.output_matrix(), self.precision))

    def _fuse_features(self, features: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(features, (self.width,), self._target_norm, self.target.eps)


class OnnxBlock(BlockModel, OnnxEagle):
    """A block head."""

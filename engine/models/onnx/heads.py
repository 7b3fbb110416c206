"""Runs Medusa and exit heads as ONNX Runtime graphs, in 8 bits (`eagle.py` says why they may be rounded).

Dimension key: K Medusa heads, E hidden size, Vd words that a head can guess.
"""

from collections.abc import Sequence

import numpy as np
import torch

from engine.models.decoder.attention import HostSequenceSlice
from engine.models.heads.exit import ExitModel
from engine.models.heads.medusa import MedusaModel
from engine.models.heads.reduced_output import output_rows
from engine.models.onnx.attention import Attention, CachedPasses
from engine.models.onnx.graph import FLOAT, INT64, MS, Graph, Heads, Weights, draft_precision, rounded_matrix
from engine.models.onnx.llama import add_layers, row_numbers, state_name
from engine.models.onnx.session import OnnxSession


class OnnxMedusa(MedusaModel):
    """The Medusa heads as one graph; ``forward`` works like `MedusaModel.forward`."""

    def _load(self, weight: torch.Tensor, bias: torch.Tensor, outputs: list[torch.Tensor]) -> None:
        E, K, target = self.width, self.count, self.target
        self.precision = draft_precision(E)
        graph = Graph(self.precision)
        state = graph.input("state", FLOAT, [1, E])
        last = graph.norm(state, "last", target.weights.vector("model.norm.weight", E), target.eps)
        layers = graph.linear(last, "layers", rounded_matrix(weight, self.precision), bias.float().numpy())
        apart = graph.node("Reshape", [layers, graph.weight("apart", np.array([K, E]))], "heads")
        silu = graph.node("QuickGelu", [apart], "silu", MS, alpha=1.0)  # as in `Graph.gate`
        guesses = graph.node("Add", [silu, last], "guesses")
        if len(outputs) == K > 1:
            rows = [f"guess{k}" for k in range(K)]
            graph.node("Split", [guesses], rows, axis=0, num_outputs=K)
            of_each = [
                graph.linear(row, f"logits{k}", rounded_matrix(output, self.precision))
                for k, (row, output) in enumerate(zip(rows, outputs, strict=True))
            ]
            graph.node("Concat", of_each, "logits", axis=0)
        else:
            words = rounded_matrix(outputs[0] if outputs else target.output_matrix(), self.precision)
            graph.linear(guesses, "logits", words)
        graph.output("logits", [K, self.vocab_size])
        self._session = OnnxSession(graph)

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        return self._session.run({"state": state}, {"logits": (self.count, self.vocab_size)})["logits"]


class OnnxExit(ExitModel):
    """The target's first layers and the head, on the target's cache."""

    on_host, trees = True, False

    def _load(self, weights) -> None:
        target, E, R = self.target, self.target.width, self.inner
        self.precision = draft_precision(E, R, target.inner, target.H * target.D)
        read, graph = Weights(weights, self.precision), Graph(self.precision)
        attention = Attention(graph, 1, Heads(target.H, target.K, target.D, target.eps), trees=False)
        add_layers(graph, Weights(target.weights.reader, self.precision), target, self.exit_layer, attention)
        x = graph.node("Gather", [state_name(self.exit_layer), graph.input("rows", INT64, ["R"])], "exit", axis=0)
        normed = graph.norm(x, "norm_in", read.vector("norm_in", E), self.eps)
        both = graph.linear(normed, "both", read.matrix({"gate.weight": R, "up.weight": R}, E))
        down = graph.linear(graph.gate(both, "active"), "down", read.matrix({"down.weight": E}, R))
        final, _ = graph.add_norm(down, normed, "norm_out", read.vector("norm", E), self.eps)
        graph.linear(final, "logits", rounded_matrix(output_rows(weights, target, self.target_ids), self.precision))
        graph.output("logits", ["R", self.vocab_size])
        self._passes = CachedPasses(graph, attention, target.rotary)

    def forward(self, ids: torch.Tensor, spans: Sequence[HostSequenceSlice], rows=slice(None)):
        numbers = row_numbers(rows, len(ids))
        inputs = {"x": self.target.embedding(ids), "rows": numbers}
        outputs = {"logits": (len(numbers), self.vocab_size)}
        return self._passes.run(spans, [len(ids)], inputs, outputs)["logits"], None

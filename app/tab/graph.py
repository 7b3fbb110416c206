"""Builds the fp32 pass graph of a GGUF file without its weights, for a runtime that makes them from the file itself.

The browser's engine is such a runtime: it gets the graph, which is small, and a recipe that says which tensors of the
file each weight of the graph consists of.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onnx import TensorProto

from engine.errors import BadInput
from engine.models.decoder.attention import rotary_frequencies
from engine.models.decoder.config import unsupported_reason
from engine.models.decoder.llama import LlamaSizes
from engine.models.decoder.unread_tensors import check_all_read, check_layers, embedding_name, reads_own_head
from engine.models.onnx.attention import Attention
from engine.models.onnx.graph import FLOAT, INT64, Graph, Heads
from engine.models.onnx.llama import add_layers
from engine.models.tensors.gguf_reader import GgufReader

TYPES = ("F32", "Q8_0", "Q4_1")  # the types of tensors that assets/web/tab/gguf_tensors.js expands
LOCATION = "weights"  # the name that the graph has for the file of its weights
_FP32 = 4  # bytes


@dataclass(frozen=True)
class Named:
    """The fp32 values of tensors, one below the other, by name only. A graph takes it in place of an array."""

    tensors: tuple[str, ...]
    shape: tuple[int, ...]

    def numpy(self) -> "Named":
        return self


@dataclass
class NamedWeights:
    """Takes the place of `engine.models.onnx.graph.Weights`: it names tensors and reads none."""

    reader: GgufReader

    def __contains__(self, name: str) -> bool:
        return name in self.reader

    def vector(self, name: str, size: int) -> Any:
        return Named((name,), (size,))

    def matrix(self, rows: dict[str, int], width: int) -> Any:
        return Named(tuple(rows), (sum(rows.values()), width))

    def bias(self, names: Sequence[str], sizes: Sequence[int]) -> Any:
        return Named(tuple(names), (sum(sizes),)) if any(name in self for name in names) else None


@dataclass
class PortableGraph(Graph):
    """``recipe``: the tensors of each weight, in the order of the weights' bytes. ``bytes``: the size of all
    weights."""

    recipe: list[list[str]] = field(default_factory=list)
    bytes: int = 0

    def weight(self, name: str, array: Any) -> str:
        if not isinstance(array, Named):
            return super().weight(name, array)
        size = math.prod(array.shape) * _FP32
        tensor = TensorProto(name=name, data_type=FLOAT, dims=array.shape, data_location=TensorProto.EXTERNAL)
        for key, value in {"location": LOCATION, "offset": self.bytes, "length": size}.items():
            tensor.external_data.add(key=key, value=str(value))
        self.constants.append(tensor)
        self.recipe.append(list(array.tensors))
        self.bytes += size
        return name


def portable_graph(folder: Path, config) -> tuple[bytes, dict]:
    """Returns the graph of the model in ``folder``, prepared from a GGUF file, and its description as plain data: the
    sizes, the rotary frequencies, where each tensor lies in the file, and the recipe. BadInput for a model that the
    browser's engine cannot run."""
    if reason := unsupported_reason(config):
        raise BadInput(f"This model cannot run in a browser: {reason}.")
    reader, sizes = GgufReader(folder), LlamaSizes(config)
    check_layers(reader, config, reader.folder)
    graph, embedding = PortableGraph("fp32"), embedding_name(reader, config)
    attention = Attention(graph, 1, Heads(sizes.H, sizes.K, sizes.D, sizes.eps), trees=False)
    weights: Any = NamedWeights(reader)
    final = add_layers(graph, weights, sizes, sizes.layers_count, attention)
    rows = graph.node("Gather", [final, graph.input("rows", INT64, ["R"])], "final", axis=0)
    head = "lm_head.weight" if reads_own_head(reader, config) else embedding
    graph.linear(rows, "logits", weights.matrix({head: config.vocab_size}, sizes.width))
    graph.output("logits", ["R", config.vocab_size])
    tensors = _tensors(reader, [embedding, *(name for names in graph.recipe for name in names)])
    check_all_read(reader)
    frequencies, scaling = rotary_frequencies(config, sizes.D, "cpu")
    return graph.build().SerializeToString(), {
        "layers": sizes.layers_count, "heads": sizes.K, "headSize": sizes.D, "width": sizes.width,
        "vocabulary": config.vocab_size, "context": config.max_position_embeddings,
        "frequencies": frequencies.tolist(), "scaling": scaling, "embedding": embedding,
        "tensors": tensors, "recipe": graph.recipe, "bytes": graph.bytes,
    }  # fmt: skip


def _tensors(reader: GgufReader, names: Iterable[str]) -> dict[str, dict]:
    """Lists where each tensor lies in the file, as `GgufReader.place` says. Raises BadInput."""
    tensors = {name: reader.place(name) for name in names}
    for name, place in tensors.items():
        if place["type"] not in TYPES:
            raise BadInput(f"{name} is stored as {place['type']}; the browser's engine reads {', '.join(TYPES)}.")
    return tensors

"""Builds ONNX graphs of decoder layers: products, norms, gated MLPs and attention over a KV cache in place.

The operators are ONNX Runtime's own (domain com.microsoft): a product by weights of 4 or 8 bits rounds its inputs to 8
bits for each row and each 32 of them, and sums integers; attention turns the keys, writes them to the cache and attends
in one node; a residual is added and normed in one node.

Dimension key: W tokens of a pass, E hidden size, H query heads, K key/value heads, D head size, N outputs of a product.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from engine.config import ROUNDED
from engine.models.tensors.grouped import (
    GROUP,
    VOCABULARY,
    GroupedWeight,
    check_finite,
    check_groups,
    read_grouped,
    row_ranges,
)
from engine.models.tensors.weight_file import WeightFile

MS = "com.microsoft"
FLOAT, INT32, INT64 = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64
DRAFTS = "int8"  # the precision of heads
_OPSETS = {"": 21, MS: 1}
_IR_VERSION = 10
_INLINE = 1 << 16  # bytes; larger weights lie in a file, because a graph may hold 2 GB at most


@dataclass(frozen=True, slots=True)
class Heads:
    """H, K, D of an attention, and its eps where q and k are normed."""

    H: int
    K: int
    D: int
    eps: float = 0.0


class Weights:
    """Reads a checkpoint's tensors for a graph in ``precision``: fp32, int8 or int4. ``reader`` as `open_weights`
    returns it. Raises Unavailable, naming the tensor, for numbers that are not finite: a product that rounds its inputs
    would hide them, and so would ONNX Runtime's attention in fp32 (1.32)."""

    def __init__(self, reader, precision: str):
        self.reader, self.precision = reader, precision

    def __contains__(self, name: str) -> bool:
        return name in self.reader

    def vector(self, name: str, size: int) -> np.ndarray:
        return self._read(name, (size,)).numpy()

    def matrix(self, rows: dict[str, int], width: int, bits: int | None = None) -> torch.Tensor | GroupedWeight:
        """Stacks tensors, given by name with their numbers of rows: [N, width]. ``bits``: how many to round to where
        they are not stored in groups, by default as many as the precision has."""
        if self.precision == "fp32":
            return torch.cat([self._read(name, (size, width)) for name, size in rows.items()])
        check_groups(width, ROUNDED[self.precision])
        bits = bits or ROUNDED[self.precision]
        return read_grouped(self.reader, {name: (size, width) for name, size in rows.items()}, bits)

    def _read(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        tensor = self.reader(name, shape).float()
        if name not in VOCABULARY:
            check_finite(f"{name} in {self.reader.folder}", tensor)
        return tensor

    def table(self, name: str, rows: int, width: int):
        """Returns a table that rows are read from: the bytes of a GGUF file or 8-bit groups, which take the least
        memory, else as `matrix`."""
        if hasattr(self.reader, "stored_rows"):
            return self.reader.stored_rows(name, (rows, width))
        stored = self.reader.blocks(name, (rows, width)) if hasattr(self.reader, "blocks") else None
        return stored or self.matrix({name: rows}, width, bits=8)

    def bias(self, names: Sequence[str], sizes: Sequence[int]) -> np.ndarray | None:
        """Returns the biases of stacked tensors; None where there are none."""
        if not any(name in self.reader for name in names):
            return None
        return np.concatenate([self.vector(name, size) for name, size in zip(names, sizes, strict=True)])


@dataclass
class Graph:
    """Nodes, and the weights that they read; large ones lie in a file. ``precision``: the precision of products.
    ``inputs`` and ``outputs`` are named tensors with a type and a shape, whose dimensions are numbers or names."""

    precision: str
    nodes: list[NodeProto] = field(default_factory=list)
    constants: list[TensorProto] = field(default_factory=list)
    weights: WeightFile = field(default_factory=WeightFile)
    inputs: list[ValueInfoProto] = field(default_factory=list)
    outputs: list[ValueInfoProto] = field(default_factory=list)

    def input(self, name: str, kind: int, shape: Sequence[int | str]) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def output(self, name: str, shape: Sequence[int | str]) -> None:
        self.outputs.append(helper.make_tensor_value_info(name, FLOAT, shape))

    def weight(self, name: str, array: np.ndarray) -> str:
        array = np.ascontiguousarray(array)
        if array.nbytes > _INLINE:
            return self._in_file(name, array.dtype, array.shape, [array])
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def _in_file(self, name: str, dtype: Any, shape: Sequence[int], parts: Iterable[np.ndarray]) -> str:
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        tensor = TensorProto(name=name, data_type=kind, dims=shape, data_location=TensorProto.EXTERNAL)
        for key, value in self.weights.add(dtype, shape, parts).items():
            tensor.external_data.add(key=key, value=value)
        self.constants.append(tensor)
        return name

    def _add_once(self, name: str, array: np.ndarray) -> str:
        """Adds a weight that several nodes read."""
        return name if any(constant.name == name for constant in self.constants) else self.weight(name, array)

    def node(
        self, kind: str, inputs: Sequence[str], outputs: Sequence[str] | str, domain: str = "", **attributes
    ) -> str:
        """Returns the name of the first output."""
        outputs = [outputs] if isinstance(outputs, str) else list(outputs)
        self.nodes.append(helper.make_node(kind, list(inputs), outputs, domain=domain, **attributes))
        return outputs[0]

    def linear(self, x: str, name: str, weight: torch.Tensor | GroupedWeight, bias: np.ndarray | None = None) -> str:
        """Multiplies x […, K] by weight [N, K] to […, N]."""
        if not isinstance(weight, GroupedWeight):
            added = [] if bias is None else [self.weight(f"{name}.bias", bias)]
            return self.node("Gemm", [x, self.weight(f"{name}.w", weight.numpy()), *added], name, transB=1)
        if bias is None:
            return self._multiply_grouped(x, name, weight)
        product = self._multiply_grouped(x, f"{name}.product", weight)
        return self.node("Add", [product, self.weight(f"{name}.bias", bias)], name)

    def _multiply_grouped(self, x: str, name: str, weight: GroupedWeight) -> str:
        N, K = weight.n.shape
        if self.precision == "int4" and weight.bits == 4:
            return self._four_bits(x, name, weight, N, K)
        scale, zero = np.empty((N, K // GROUP), np.float32), np.empty((N, K // GROUP), np.uint8)

        def parts():
            for start, end in row_ranges(N, K):
                n, scale[start:end], zero[start:end] = eight_bits(weight.rows(slice(start, end)))
                yield n

        n = self._in_file(f"{name}.n", np.uint8, (N, K // GROUP, GROUP), parts())
        inputs = [x, n, self.weight(f"{name}.s", scale.reshape(-1))]
        if weight.offset is not None:
            inputs.append(self.weight(f"{name}.z", zero.reshape(-1)))
        return self._multiply_rounded(inputs, name, N, K, 8)

    def _four_bits(self, x: str, name: str, weight: GroupedWeight, N: int, K: int) -> str:
        """Multiplies by a weight of four bits. The product reads n − 8; the rest of w, offset + 8 · scale, is one
        number a group, and so a small product with each group's sum of inputs. Zero points would have to be whole
        steps, which ruins a model (KL 0.8)."""
        n = weight.n.view(N, K // GROUP, GROUP).numpy()
        packed = self.weight(f"{name}.n", n[..., 0::2] | (n[..., 1::2] << 4))
        scales = self.weight(f"{name}.s", weight.scale.numpy().reshape(-1))
        steps = self._multiply_rounded([x, packed, scales], f"{name}.steps", N, K, 4)
        members = self._add_once(f"members{K}", np.repeat(np.eye(K // GROUP, dtype=np.float32), GROUP, 0))
        sums = self.node("MatMul", [x, members], f"{name}.sums")
        assert weight.offset is not None
        rest = self.weight(f"{name}.o", (weight.offset + 8 * weight.scale).T.contiguous().numpy())
        return self.node("Gemm", [sums, rest, steps], name)

    def _multiply_rounded(self, inputs: Sequence[str], name: str, N: int, K: int, bits: int) -> str:
        # Without accuracy_level 4 the kernel multiplies in fp32 and takes ten times as long (onnxruntime 1.32).
        attributes = {"K": K, "N": N, "bits": bits, "block_size": GROUP, "accuracy_level": 4}
        return self.node("MatMulNBits", inputs, name, MS, **attributes)

    def norm(self, x: str, name: str, weight: np.ndarray, eps: float) -> str:
        """Adds the RMS norm over the last axis."""
        return self.node(
            "SimplifiedLayerNormalization", [x, self.weight(f"{name}.w", weight)], name, axis=-1, epsilon=eps
        )

    def add_norm(self, x: str, residual: str, name: str, weight: np.ndarray, eps: float) -> tuple[str, str]:
        """Returns the norm of x + residual, and the sum itself."""
        outputs = [name, "", "", f"{name}.sum"]
        inputs = [x, residual, self.weight(f"{name}.w", weight)]
        self.node("SkipSimplifiedLayerNormalization", inputs, outputs, MS, epsilon=eps)
        return outputs[0], outputs[3]

    def gate(self, x: str, name: str) -> str:
        """Computes silu(gate) · up from x […, 2·I], gate and up side by side."""
        self.node("Split", [x], [f"{name}.gate", f"{name}.up"], axis=-1, num_outputs=2)
        silu = self.node("QuickGelu", [f"{name}.gate"], f"{name}.silu", MS, alpha=1.0)  # x · sigmoid(x)
        return self.node("Mul", [silu, f"{name}.up"], name)

    def build(self) -> ModelProto:
        graph = helper.make_graph(self.nodes, "pass", self.inputs, self.outputs, self.constants)
        opsets = [helper.make_opsetid(domain, version) for domain, version in _OPSETS.items()]
        return helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)


def draft_precision(*widths: int) -> str:
    """Returns DRAFTS, which is quickest; fp32 for a head whose products have inputs that 32 does not divide."""
    return "fp32" if any(width % GROUP for width in widths) else DRAFTS


def rounded_matrix(weight: torch.Tensor | GroupedWeight, precision: str) -> torch.Tensor | GroupedWeight:
    """Returns a weight [N, K] as `Graph.linear` takes it in this precision; one that is in groups already stays."""
    if isinstance(weight, GroupedWeight):
        return weight
    return weight.float() if precision == "fp32" else GroupedWeight.round(weight, ROUNDED[precision])


def eight_bits(weight: GroupedWeight) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the parts of w = scale · (n − zero): n [N, G, 32] and zero [N, G] uint8, scale [N, G]."""
    exact = weight.in_eight_bits()
    assert exact.offset is not None
    zero = (-exact.offset / exact.scale).round().to(torch.uint8)
    return exact.n.view(*exact.scale.shape, GROUP).numpy(), exact.scale.numpy(), zero.numpy()

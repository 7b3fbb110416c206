"""Reads the header of a GGUF file: its fields, and where each tensor lies. Finds the parts of a split file.

The gguf package's own reader makes an array for every string, which takes eight seconds for 150,000 tokens (0.19), so
the header is read here. The sizes of types come from that package.
"""

import mmap
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_VERSIONS = (2, 3)
_DEEPEST = 3  # arrays in arrays
_OTHERS = "choose a file in another, such as Q8_0 or Q4_K_M"
_PART = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf")


@dataclass(frozen=True)
class GgufTensor:
    """``shape``: as torch counts, the longest stride first. ``offset``: in ``file``, in bytes."""

    name: str
    type: str
    shape: tuple[int, ...]
    file: Path
    offset: int
    bytes: int


@dataclass(frozen=True)
class GgufHeader:
    """``fields`` by name: numbers, texts and lists of them. ``size``: the bytes that the file must have. Bytes that are
    not UTF-8 stay in a text as lone surrogates, because most fields only describe the file and nothing reads them."""

    fields: dict[str, object]
    tensors: tuple[GgufTensor, ...]
    size: int


class CutOff(ValueError):
    """A header that is longer than what there is of the file, or damaged."""


class OtherFormat(ValueError):
    """A GGUF file that is whole, but not of a kind that is read here."""


def read_header(file: Path) -> GgufHeader:
    """Returns the header; the start of the file is enough for that. Raises ValueError with the reason if the file is
    damaged, cut off or no GGUF file."""
    with open(file, "rb") as opened:
        try:
            data = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:
            raise ValueError("it is empty") from None
        with data:
            try:
                return _Cursor(data).header(file)
            except (struct.error, IndexError, OverflowError, MemoryError) as error:
                raise CutOff("its header is cut off or damaged") from error


class _Cursor:
    """Reads one value after another."""

    def __init__(self, data: mmap.mmap):
        self.data, self.at = data, 0

    def header(self, file: Path) -> GgufHeader:
        if self.data[:12] == b"version http":
            raise OtherFormat("it is a Git LFS pointer, not the file itself; run `git lfs pull` in its folder")
        if self.data[:4] != b"GGUF":
            raise ValueError("it does not begin with GGUF")
        self.at = 4
        version = self._number("I")
        if version.to_bytes(4, "big") in (number.to_bytes(4, "little") for number in _VERSIONS):
            raise OtherFormat("it was written for big-endian machines; convert it for this one")
        if version == 1:
            raise OtherFormat("its GGUF version is 1; convert the model again, to version 3")
        if version not in _VERSIONS:
            raise ValueError(f"its GGUF version would be {version}")
        tensors, count = self._number("Q"), self._number("Q")
        fields = {}
        for _ in range(count):
            name = self._text()
            if name in fields:  # programs differ in which of the two they take, and llama.cpp takes neither
                raise OtherFormat(f"it has the field {name!a} twice; convert it again")
            fields[name] = self._value(self._number("I"))
        infos = [self._tensor() for _ in range(tensors)]
        alignment = fields.get("general.alignment", 32)
        if type(alignment) is not int or alignment < 1:
            raise ValueError(f"its alignment is {alignment}")
        start = -(-self.at // alignment) * alignment
        listed = tuple(
            GgufTensor(name, kind, shape, file, start + offset, _bytes(name, kind, shape))
            for name, shape, kind, offset in infos
        )
        if len({tensor.name for tensor in listed}) < len(listed):
            raise ValueError("it has two tensors of one name")
        return GgufHeader(fields, listed, max((t.offset + t.bytes for t in listed), default=start))

    def _number(self, kind: str):
        (value,) = struct.unpack_from(f"<{kind}", self.data, self.at)
        self.at += struct.calcsize(f"<{kind}")
        return value

    def _text(self) -> str:
        length = self._number("Q")
        end = self.at + length
        if end > len(self.data):
            raise IndexError("text past the end")
        self.at, start = end, self.at
        return self.data[start:end].decode("utf-8", "surrogateescape")

    def _value(self, kind: int, depth: int = 0):
        if kind == _STRING:
            return self._text()
        if kind == _ARRAY:
            return self._array(depth)
        if kind not in _SCALARS:
            raise ValueError(f"it has a field of the unknown type {kind}")
        return self._number(_SCALARS[kind])

    def _array(self, depth: int) -> list:
        kind, count = self._number("I"), self._number("Q")
        if depth > _DEEPEST or count > len(self.data) - self.at:
            raise IndexError("array past the end")
        if kind in _SCALARS:
            values = struct.unpack_from(f"<{count}{_SCALARS[kind]}", self.data, self.at)
            self.at += struct.calcsize(f"<{count}{_SCALARS[kind]}")
            return [*values]
        return [self._value(kind, depth + 1) for _ in range(count)]

    def _tensor(self) -> tuple[str, tuple[int, ...], str, int]:
        from gguf.constants import GGMLQuantizationType

        name, dimensions = self._text(), self._number("I")
        if dimensions > 4:
            raise ValueError(f"its tensor {name!r} has {dimensions} dimensions")
        shape = tuple(self._number("Q") for _ in range(dimensions))[::-1]
        kind, offset = self._number("I"), self._number("Q")
        try:
            return name, shape, GGMLQuantizationType(kind).name, offset
        except ValueError:
            raise OtherFormat(
                f"its tensor {name!r} is stored in type {kind}, which nothing here knows; {_OTHERS}"
            ) from None


def _bytes(name: str, kind: str, shape: Sequence[int]) -> int:
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

    per_block, size = GGML_QUANT_SIZES[GGMLQuantizationType[kind]]
    if not shape or min(shape) < 1 or shape[-1] % per_block:
        raise ValueError(f"its tensor {name!r} has the shape {tuple(shape)}, which {kind} cannot store")
    return prod(shape) // per_block * size


@cache
def check_type(kind: str) -> None:
    """Raises ValueError for a type that the gguf package does not turn into numbers, though it knows its size."""
    import numpy as np
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
    from gguf.quants import dequantize

    type_ = GGMLQuantizationType[kind]
    try:
        dequantize(np.zeros((1, GGML_QUANT_SIZES[type_][1]), np.uint8), type_)
    except NotImplementedError:
        raise ValueError(f"it holds tensors of type {kind}, which is not read here; {_OTHERS}") from None


def parts_of(file: Path) -> list[Path]:
    """Returns all parts of a split file, of which any one may be named; or the file itself if it is not split.

    >>> [part.name for part in parts_of(Path("m-00002-of-00002.gguf"))]
    ['m-00001-of-00002.gguf', 'm-00002-of-00002.gguf']
    """
    match = _PART.fullmatch(file.name)
    if not match:
        return [file]
    stem, count = match[1], int(match[3])
    return [file.with_name(f"{stem}-{i:05}-of-{count:05}.gguf") for i in range(1, count + 1)]

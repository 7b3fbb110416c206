"""Reads tensors of a GGUF file by name: dense, or as the groups they are stored in."""

import json
from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np
import torch

from engine.errors import Unavailable
from engine.models.tensors import gguf_blocks
from engine.models.tensors.grouped import GroupedWeight, row_ranges
from engine.models.tensors.safetensors_reader import TensorReader
from engine.weights.checkpoint_dir import AGAIN
from engine.weights.gguf.layout import gguf_files, is_prepared, places

_ADJACENT_PAIRS = ("llama",)  # architectures whose q and k have the halves of a rotary pair in adjacent rows
_SHORT, _MOST = 16, 2048  # rows of a call that keeps them, and rows kept; 12 MB of a model of width 1,536
_NOT_ROUNDED = ("F32", "F16", "BF16")


def open_weights(folder: Path, dtype: torch.dtype, device: str):
    """Returns the reader of a folder's weights. Raises Unavailable for missing or damaged files."""
    return (GgufReader if is_prepared(folder) else TensorReader)(folder, dtype, device)


class GgufReader:
    """Call it with a tensor's name to read it in ``dtype`` on ``device``, as `TensorReader`."""

    def __init__(self, folder: Path, dtype: torch.dtype = torch.float32, device: str = "cpu"):
        self.folder, self.dtype, self.device = Path(folder), dtype, device
        self.read: set[str] = set()
        try:
            self._places = places(self.folder)
            config = json.loads((self.folder / "config.json").read_text(encoding="utf-8"))
            heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
            self._heads = heads if config["model_type"] in _ADJACENT_PAIRS else {}
            self.folder = gguf_files(folder)[0]  # the file that sentences name
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Unavailable(f"The weights in {self.folder} are damaged. {AGAIN}") from error

    @property
    def names(self) -> Collection[str]:
        return self._places.keys()

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def __call__(self, name: str, shape: tuple[int, ...] | None = None) -> torch.Tensor:
        place = self._place(name, shape)
        if len(place["shape"]) == 1:
            vector = gguf_blocks.dense(place["type"], self._rows(place))[0]
            return self._in_halves(name, vector).to(self.device, self.dtype)
        weight = torch.empty(*place["shape"], dtype=self.dtype, device=self.device)
        for start, part in self._dense_parts(place):
            weight[start : start + len(part)] = part
        return self._in_halves(name, weight)

    def blocks(self, name: str, shape: tuple[int, ...] | None = None) -> GroupedWeight | None:
        """Returns the matrix in groups of 32: exactly where the file has such groups, in 8 bits where it is rounded in
        another way; None if it is not rounded."""
        place = self._place(name, shape)
        if place["type"] in _NOT_ROUNDED:
            return None
        if place["type"] in gguf_blocks.SPLIT:
            size, split = gguf_blocks.SPLIT[place["type"]]
            weight = split(torch.from_numpy(self._rows(place)).unflatten(-1, (-1, size)))
        else:
            weight = GroupedWeight.cat([GroupedWeight.round(part, 8) for _, part in self._dense_parts(place)])
        return weight.map(lambda rows: self._in_halves(name, rows))

    def stored_rows(self, name: str, shape: tuple[int, ...]) -> "StoredRows":
        """Returns a matrix that only some rows are read from, in the file's own bytes."""
        place = self._place(name, shape)
        return StoredRows(place["type"], self._rows(place))

    def place(self, name: str) -> dict:
        """Says where a tensor lies in its file, as plain data. ``heads``: how many heads have the halves of a
        rotary pair side by side; absent where they are apart."""
        place, heads = self._place(name), self._heads.get(name.split(".")[-2])
        known = {"type": place["type"], "shape": list(place["shape"]), "offset": place["offset"]}
        return known | ({"heads": heads} if heads else {})

    def parts(self, name: str, shape: tuple[int, ...]) -> Iterator[tuple[int, torch.Tensor]]:
        """Yields a matrix of the vocabulary in parts: the first row's number, and rows in fp32."""
        return self._dense_parts(self._place(name, shape))

    def _dense_parts(self, place: dict) -> Iterator[tuple[int, torch.Tensor]]:
        """Yields some rows at a time in fp32, so that a large matrix is never whole in fp32 beside what it becomes."""
        for start, end in row_ranges(*place["shape"]):
            yield start, gguf_blocks.dense(place["type"], self._rows(place, start, end))

    def _place(self, name: str, shape: tuple[int, ...] | None = None) -> dict:
        if name not in self._places:
            raise Unavailable(f"{self.folder} has no tensor {name!r}; its weights do not fit its config.json.")
        stored = tuple(self._places[name]["shape"])
        if shape and stored != shape:
            raise Unavailable(f"{name} in {self.folder} is {stored}, but config.json says {shape}.")
        self.read.add(name)
        return self._places[name]

    def _rows(self, place: dict, start: int = 0, end: int | None = None) -> np.ndarray:
        """Copies the bytes of rows [N, bytes], because a mapped file counts as memory while it is open."""
        count = place["shape"][0] if len(place["shape"]) > 1 else 1
        width, end = place["bytes"] // count, count if end is None else end
        try:
            data = np.fromfile(place["file"], np.uint8, (end - start) * width, offset=place["offset"] + start * width)
        except OSError as error:
            raise Unavailable(f"{place['file']} cannot be read ({error.strerror}).") from error
        if len(data) < (end - start) * width:
            raise Unavailable(f"{place['file']} is cut off. {AGAIN}")
        return data.reshape(end - start, width)

    def _in_halves(self, name: str, rows: torch.Tensor) -> torch.Tensor:
        """Reorders the rows of each head from a0 b0 a1 b1 … to a0 a1 … b0 b1 …, because llama's GGUF files store the
        halves of a rotary pair adjacent, and `LlamaModel` expects them half a head apart."""
        heads = self._heads.get(name.split(".")[-2])
        if heads is None:
            return rows
        return rows.view(heads, len(rows) // heads // 2, 2, -1).transpose(1, 2).reshape(rows.shape)


class StoredRows:
    """A matrix as the bytes of its rows in a GGUF file. The rows of recent short calls are kept in fp32: a head and the
    pass that scores its drafts read the same ones, and texts repeat their words."""

    def __init__(self, kind: str, rows: np.ndarray):
        self.kind, self.bytes = kind, rows
        self._recent: dict[int, torch.Tensor] = {}

    def dense_rows(self, ids: torch.Tensor) -> torch.Tensor:
        """Returns rows in fp32 [len(ids), K]."""
        if len(ids) > _SHORT:
            return self._expand(ids.numpy())
        numbers = ids.tolist()
        if new := [i for i in dict.fromkeys(numbers) if i not in self._recent]:
            if len(self._recent) > _MOST:
                self._recent, new = {}, [*dict.fromkeys(numbers)]
            self._recent |= zip(new, self._expand(np.array(new)), strict=True)
        return torch.stack([self._recent[i] for i in numbers])

    def _expand(self, ids: np.ndarray) -> torch.Tensor:
        return gguf_blocks.dense(self.kind, self.bytes[ids])

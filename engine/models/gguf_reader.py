"""Reads tensors of a prepared GGUF file by name: dequantised, or as the blocks they are stored in.

Q4_1 stores w = d·n + m with a nibble n in 0 … 15, Q8_0 w = d·n with n in −128 … 127; d and m are fp16, one pair for 32
weights of a row.
"""

import json
from pathlib import Path

import numpy as np
import torch

from engine.errors import Unavailable
from engine.models.grouped import GROUP, GroupedWeight
from engine.models.safetensors_reader import TensorReader
from engine.weights.checkpoint_dir import AGAIN, GGUF, LAYOUT, is_prepared


def open_weights(folder: Path, dtype: torch.dtype, device: str):
    """Returns the reader of a folder's weights. Raises Unavailable for missing or damaged files."""
    kind = GgufReader if is_prepared(Path(folder)) else TensorReader
    return kind(folder, dtype, device)


class GgufReader:
    """Call it with a tensor's name to read it in ``dtype`` on ``device``, as `TensorReader`."""

    def __init__(self, folder: Path, dtype: torch.dtype, device: str):
        self.folder, self.dtype, self.device = Path(folder), dtype, device
        try:
            self._layout = json.loads((self.folder / LAYOUT).read_text(encoding="utf-8"))
            config = json.loads((self.folder / "config.json").read_text(encoding="utf-8"))
            self._heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
            self._data = np.memmap(self.folder / GGUF, mode="r")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Unavailable(f"The weights in {self.folder} are damaged. {AGAIN}") from error

    def __contains__(self, name: str) -> bool:
        return name in self._layout

    def __call__(self, name: str, shape: tuple[int, ...] | None = None) -> torch.Tensor:
        blocks = self.blocks(name, shape)
        weight = self._dense(name) if blocks is None else blocks.dense()
        return weight.to(self.device, self.dtype)

    def blocks(self, name: str, shape: tuple[int, ...] | None = None) -> GroupedWeight | None:
        """The weight as it is stored; None if the file stores it in another way than Q4_1 and Q8_0."""
        place = self._place(name, shape)
        if place["type"] not in _SPLIT:
            return None
        rows, width = place["shape"]
        parts = _SPLIT[place["type"]](self._bytes(place).reshape(rows, width // GROUP, -1))
        return GroupedWeight(*(self._in_halves(name, torch.from_numpy(part)) for part in parts))

    def _dense(self, name: str) -> torch.Tensor:
        from gguf.constants import GGMLQuantizationType
        from gguf.quants import dequantize

        place = self._place(name)
        plain = {"F32": np.float32, "F16": np.float16}.get(place["type"])
        data = self._bytes(place).reshape(*place["shape"][:-1], -1)
        values = dequantize(data.view(plain) if plain else data, GGMLQuantizationType[place["type"]])
        return self._in_halves(name, torch.from_numpy(values.astype(np.float32)))

    def _place(self, name: str, shape: tuple[int, ...] | None = None) -> dict:
        if name not in self._layout:
            raise Unavailable(f"{self.folder} has no tensor {name!r}; its weights do not fit its config.json.")
        stored = tuple(self._layout[name]["shape"])
        if shape and stored != shape:
            raise Unavailable(f"{name} in {self.folder} is {stored}, but config.json says {shape}.")
        return self._layout[name]

    def _bytes(self, place: dict) -> np.ndarray:
        return np.asarray(self._data[place["offset"] : place["offset"] + place["bytes"]])

    def _in_halves(self, name: str, rows: torch.Tensor) -> torch.Tensor:
        """Reorders the rows of each head from a0 b0 a1 b1 … to a0 a1 … b0 b1 …, because GGUF stores the halves of a
        rotary pair adjacent, and `LlamaModel` expects them half a head apart."""
        heads = self._heads.get(name.split(".")[-2])
        if heads is None:
            return rows
        return rows.view(heads, len(rows) // heads // 2, 2, -1).transpose(1, 2).reshape(rows.shape)


def _q4_1(blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bytes [N, G, 20]: d, m, 16 bytes: in their low halves the first 16 weights, in their high halves the rest."""
    d, m = (_fp16(blocks[..., at : at + 2]) for at in (0, 2))
    nibbles = np.concatenate([blocks[..., 4:] & 15, blocks[..., 4:] >> 4], -1)
    return nibbles.reshape(len(blocks), -1), d, m


def _q8_0(blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bytes [N, G, 34]: d, then 32 weights."""
    return blocks[..., 2:].copy().view(np.int8).reshape(len(blocks), -1), _fp16(blocks[..., :2])


def _fp16(two_bytes: np.ndarray) -> np.ndarray:
    return two_bytes.copy().view(np.float16)[..., 0].astype(np.float32)


_SPLIT = {"Q4_1": _q4_1, "Q8_0": _q8_0}

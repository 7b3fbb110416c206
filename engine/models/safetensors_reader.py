"""Reads tensors of a checkpoint folder by name, from one safetensors file or many; never from a pickle.

Matrices may be stored in 8 bits, as `engine/weights/eight_bits.py` describes.
"""

import json
from collections.abc import Collection
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from engine.errors import Unavailable
from engine.models.grouped import GROUP, GroupedWeight
from engine.weights.eight_bits import SCALE, ZERO


class TensorReader:
    """Call it with a tensor's name to read it in ``dtype`` on ``device``. Raises Unavailable for missing or damaged
    files and for unexpected shapes."""

    def __init__(self, folder: Path, dtype: torch.dtype, device: str, file: str = "model.safetensors"):
        """``file``: where all tensors of a folder without an index are."""
        self.folder, self.dtype, self.device = Path(folder), dtype, device
        self._files: dict[str, object] = {}
        index = self.folder / "model.safetensors.index.json"
        try:
            if index.exists():
                self._where = json.loads(index.read_text())["weight_map"]
                if not all(Path(file).name == file for file in self._where.values()):
                    raise ValueError("shards lie beside their index")
            else:
                self._where = dict.fromkeys(self._open(file).keys(), file)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._damaged(index.name) from error

    @property
    def names(self) -> Collection[str]:
        return self._where.keys()

    def __contains__(self, name: str) -> bool:
        return name in self._where

    def __call__(self, name: str, shape: tuple[int, ...] | None = None) -> torch.Tensor:
        tensor = self._stored(name, shape)
        if tensor.dtype == torch.int8 or f"{name}{SCALE}" in self:
            tensor = self._groups(name, tensor).dense()
        return tensor.to(self.device, self.dtype)

    def blocks(self, name: str, shape: tuple[int, ...] | None = None) -> GroupedWeight | None:
        """A matrix as it is stored in 8 bits; None if it is stored in another way."""
        return self._groups(name, self._stored(name, shape)) if f"{name}{SCALE}" in self else None

    def _stored(self, name: str, shape: tuple[int, ...] | None) -> torch.Tensor:
        tensor = self.raw(name)
        if shape and tuple(tensor.shape) != shape:
            raise Unavailable(f"{name} in {self.folder} is {tuple(tensor.shape)}, but config.json says {shape}.")
        return tensor

    def _groups(self, name: str, n: torch.Tensor) -> GroupedWeight:
        """Whole numbers n [N, K] with their scales [N, G], each repeated for the groups of 32 that share it."""
        what = f"{name} in {self.folder} is stored in 8 bits"
        if n.dtype != torch.int8:
            raise Unavailable(f"{name} in {self.folder} has scales, but is not stored as whole numbers of 8 bits.")
        if f"{name}{SCALE}" not in self:
            raise Unavailable(f"{what} without {name}{SCALE}; export or fetch the folder again.")
        if f"{name}{ZERO}" in self:
            raise Unavailable(f"{what} around zero points, which are not read here; store it symmetrically.")
        scale = self.raw(f"{name}{SCALE}")
        fits = n.dim() == scale.dim() == 2 and scale.dtype.is_floating_point and len(scale) == len(n) > 0
        if not fits or not scale.shape[1] or n.shape[1] % (GROUP * scale.shape[1]):
            raise Unavailable(
                f"{what}, {tuple(n.shape)}, with scales {tuple(scale.shape)}: each row needs one for a group of "
                f"{GROUP} weights, or of a multiple."
            )
        if not scale.isfinite().all():
            raise Unavailable(f"{what}, but its scales are not all finite; export or fetch the folder again.")
        repeats = n.shape[1] // (GROUP * scale.shape[1])
        return GroupedWeight(n, scale.float().repeat_interleave(repeats, 1))

    def raw(self, name: str) -> torch.Tensor:
        """The tensor as stored, on the CPU: for integers."""
        if name not in self._where:
            raise Unavailable(f"{self.folder} has no tensor {name!r}; its weights do not fit its config.json.")
        file = self._where[name]
        try:
            return self._open(file).get_tensor(name)
        except SafetensorError as error:
            raise self._damaged(file) from error

    def _open(self, file: str):
        if file not in self._files:
            try:
                self._files[file] = safe_open(self.folder / file, "pt")
            except FileNotFoundError as error:
                raise Unavailable(f"{self.folder} holds no {file}; fetch the pair again.") from error
            except (SafetensorError, OSError) as error:
                raise self._damaged(file) from error
        return self._files[file]

    def _damaged(self, file: str) -> Unavailable:
        return Unavailable(f"{self.folder / file} is damaged; delete that folder and fetch the pair again.")

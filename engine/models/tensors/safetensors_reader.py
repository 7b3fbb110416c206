"""Reads tensors of a checkpoint folder by name, from one safetensors file or many; never from a pickle.

Matrices may be stored in 8 bits, as `engine/weights/eight_bits.py` describes. The reader notes which tensors it read,
so that those left over after a load can be named (`engine/models/decoder/unread_tensors.py`).
"""

from collections.abc import Collection, Iterator
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from engine.errors import Unavailable
from engine.models.tensors.grouped import GROUP, GroupedWeight, row_ranges
from engine.weights.checkpoint_dir import INDEX, weight_files
from engine.weights.eight_bits import SCALE, ZERO

_PREFIX = "model."  # a file that was saved from the model below its output layer leaves it out


class TensorReader:
    """Call it with a tensor's name to read it in ``dtype`` on ``device``. A name may be stored with or without its
    leading ``model.``. ``read``: the stored names of those read so far. Raises Unavailable for missing or damaged
    files, and for unexpected shapes."""

    def __init__(self, folder: Path, dtype: torch.dtype, device: str, file: str = ""):
        """Opens a folder's weights. ``file``: where all tensors are, instead of in the folder's usual files."""
        self.folder, self.dtype, self.device = Path(folder), dtype, device
        self._where: dict[str, str] = {}
        self.read: set[str] = set()
        for each in self._tensor_names(file):
            for name in [*self._open(each).keys()]:
                if name in self._where:
                    self._refuse_unlike(name, each)
                self._where[name] = each

    def _tensor_names(self, file: str) -> list[str]:
        """Lists the names of the files to open. Tensors that an index leaves out count, too, as in transformers."""
        try:
            files = [self.folder / file] if file else weight_files(self.folder)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._damage(INDEX) from error
        return [each.name for each in files] or ["model.safetensors"]

    def _refuse_unlike(self, name: str, file: str) -> None:
        both = [self._open(each).get_tensor(name) for each in (self._where[name], file)]
        if both[0].shape != both[1].shape or not torch.equal(*both):
            raise Unavailable(
                f"{self.folder} holds two tensors {name!r}, in {self._where[name]} and in {file}; delete the file that "
                "does not belong to the model."
            )

    @property
    def names(self) -> Collection[str]:
        return self._where.keys()

    def __contains__(self, name: str) -> bool:
        return self._stored_name(name) in self._where

    def _stored_name(self, name: str) -> str:
        if name in self._where:
            return name
        return name.removeprefix(_PREFIX) if name.startswith(_PREFIX) else f"{_PREFIX}{name}"

    def __call__(self, name: str, shape: tuple[int, ...] | None = None) -> torch.Tensor:
        tensor = self._read_stored(name, shape)
        if tensor.dtype == torch.int8 or f"{name}{SCALE}" in self:
            tensor = self._groups(name, tensor).dense()
        return tensor.to(self.device, self.dtype)

    def blocks(self, name: str, shape: tuple[int, ...] | None = None) -> GroupedWeight | None:
        """Returns a matrix as it is stored in 8 bits; None if it is stored in another way."""
        return self._groups(name, self._read_stored(name, shape)) if f"{name}{SCALE}" in self else None

    def parts(self, name: str, shape: tuple[int, ...]) -> Iterator[tuple[int, torch.Tensor]]:
        """Yields a matrix in parts: the first row's number, and rows in fp32."""
        blocks = self.blocks(name, shape)
        rows = self._read_stored(name, shape).__getitem__ if blocks is None else blocks.dense_rows
        for start, end in row_ranges(*shape):
            yield start, rows(slice(start, end)).float()

    def _read_stored(self, name: str, shape: tuple[int, ...] | None) -> torch.Tensor:
        tensor = self.raw(name)
        if shape and tuple(tensor.shape) != shape:
            raise Unavailable(f"{name} in {self.folder} is {tuple(tensor.shape)}, but config.json says {shape}.")
        return tensor

    def _groups(self, name: str, n: torch.Tensor) -> GroupedWeight:
        """Returns whole numbers n [N, K] with their scales [N, G], each repeated for the groups of 32 that share it."""
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
        """Returns the tensor as stored, on the CPU: for integers."""
        stored = self._stored_name(name)
        if stored not in self._where:
            raise Unavailable(f"{self.folder} has no tensor {name!r}; its weights do not fit its config.json.")
        file = self._where[stored]
        self.read.add(stored)
        try:
            return self._open(file).get_tensor(stored)
        except SafetensorError as error:
            raise self._damage(file) from error

    def _open(self, file: str):
        """Maps the file again for each tensor, because the parts of it that were read count as memory until then."""
        try:
            return safe_open(self.folder / file, "pt")
        except FileNotFoundError as error:
            raise Unavailable(f"{self.folder} holds no {file}; fetch the pair again.") from error
        except (SafetensorError, OSError) as error:
            raise self._damage(file) from error

    def _damage(self, file: str) -> Unavailable:
        return Unavailable(f"{self.folder / file} is damaged; delete that folder and fetch the pair again.")

"""Reads tensors of a checkpoint folder by name, from one safetensors file or many; never from a pickle."""

import json
from collections.abc import Collection
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from engine.errors import Unavailable


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
        tensor = self.raw(name)
        if shape and tuple(tensor.shape) != shape:
            raise Unavailable(f"{name} in {self.folder} is {tuple(tensor.shape)}, but config.json says {shape}.")
        return tensor.to(self.device, self.dtype)

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

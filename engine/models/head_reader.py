"""Reads a head's tensors by one name each, in whichever layout they are stored, and accounts for all of them."""

from collections.abc import Collection
from pathlib import Path

import torch
from safetensors import SafetensorError

from engine.errors import Unavailable
from engine.models.safetensors_reader import TensorReader
from engine.weights.checkpoint_dir import weight_files
from engine.weights.head_kinds import own_name

# Tensors of training that no pass reads: what the head was compared with, and frequencies that config.json gives.
_NOT_READ = ("verifier_lm_head.weight", "verifier_norm.weight")
_FREQUENCIES = "rotary_emb.inv_freq"


class HeadReader(TensorReader):
    """``names`` are those of `own_name`. An index is not needed, because each file lists its tensors."""

    def __init__(self, folder: Path, dtype: torch.dtype, device: str):
        self.folder, self.dtype, self.device = Path(folder), dtype, device
        self._files: dict[str, object] = {}
        self._where: dict[str, str] = {}
        self._spelled: dict[str, str] = {}
        self._read: set[str] = set()
        for file in weight_files(self.folder):
            for stored in self._open(file.name).keys():  # noqa: SIM118
                name = own_name(stored)
                if name in self._spelled:
                    raise Unavailable(
                        f"{folder} holds {self._spelled[name]!r} and {stored!r}, two names of one tensor; keep one."
                    )
                self._where[name], self._spelled[name] = file.name, stored

    def raw(self, name: str) -> torch.Tensor:
        if name not in self._where:
            return super().raw(name)
        self._read.add(name)
        try:
            return self._open(self._where[name]).get_tensor(self._spelled[name])
        except SafetensorError as error:
            raise self._damaged(self._where[name]) from error

    def ignore(self, names: Collection[str]) -> None:
        """Counts tensors as read that have no effect."""
        self._read.update(names)

    def check_all_read(self) -> None:
        """Raises Unavailable, which names one, if a tensor was not read: the head might draft otherwise than it was
        trained to."""
        left = {name for name in self._where if not name.endswith(_FREQUENCIES)} - self._read - {*_NOT_READ}
        if left:
            raise Unavailable(
                f"{self.folder} holds {self._spelled[min(left)]!r}, which no head of this kind reads here, so it might "
                "draft otherwise than it was trained to; take the tensor out if it changes nothing."
            )

"""Reads a head's tensors by one name each, in whichever layout they are stored, and accounts for all of them."""

from collections.abc import Collection
from pathlib import Path

import torch

from engine.errors import Unavailable
from engine.models.decoder.unread_tensors import is_harmless
from engine.models.tensors.grouped import check_finite
from engine.models.tensors.safetensors_reader import TensorReader
from engine.weights.head_kinds import own_name

_OF_TRAINING = ("verifier_lm_head.weight", "verifier_norm.weight")  # what the head was compared with


class HeadReader(TensorReader):
    """``names`` are as `own_name` gives them."""

    def __init__(self, folder: Path, dtype: torch.dtype, device: str):
        super().__init__(folder, dtype, device)
        self._spelled: dict[str, str] = {}
        for stored in self._where:
            name = own_name(stored)
            if name in self._spelled:
                raise Unavailable(
                    f"{folder} holds {self._spelled[name]!r} and {stored!r}, two names of one tensor; keep one."
                )
            self._spelled[name] = stored

    def raw(self, name: str) -> torch.Tensor:
        tensor = super().raw(name)
        if self.device != "meta":  # there a trial reads no numbers
            check_finite(f"{self._stored_name(name)} in {self.folder}", tensor.float())
        return tensor

    @property
    def names(self) -> Collection[str]:
        return self._spelled.keys()

    def _stored_name(self, name: str) -> str:
        return self._spelled.get(name, name)

    def ignore(self, names: Collection[str]) -> None:
        """Counts tensors as read that have no effect."""
        self.read.update(self._stored_name(name) for name in names)

    def check_all_read(self) -> None:
        """Raises Unavailable, which names one, if a tensor was not read: the head might draft in another way."""
        self.ignore(_OF_TRAINING)
        left = [name for name in sorted({*self._where} - self.read) if not is_harmless(name)]
        if left:
            raise Unavailable(
                f"{self.folder} holds {left[0]!r}, which no head of this kind reads here, so it might draft otherwise "
                "than it was trained to; take the tensor out if it changes nothing."
            )

"""Keeps a graph's large weights in a temporary file until ONNX Runtime has packed them.

ONNX Runtime maps such a file tensor by tensor and lets go of each once it is packed, so that a load needs little more
memory than the packed weights. Weights handed over in memory stay until all are packed, which takes twice as much.
"""

import shutil
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from engine.files import cache_root, disk_errors

_ALIGNMENT = 1 << 16  # enough for mapped tensors on every system
_NAME = "weights"
_LEFT = 24 * 3600  # seconds after which a file is one that a killed process left


class WeightFile:
    """``bytes``: written so far. The folder is made with the first weight, and removed by `close`."""

    def __init__(self):
        self.folder: Any = None  # a Path from the first weight on
        self.bytes = 0
        self._file: Any = None

    def add(self, dtype: np.dtype, shape: Iterable[int], parts: Iterable[np.ndarray]) -> dict[str, str]:
        """Appends a tensor that comes in parts, and returns where it is as ONNX describes it. Raises Unavailable."""
        length = int(np.prod([*shape], dtype=np.int64)) * np.dtype(dtype).itemsize
        if self._file is None:
            self._open()
        offset = -(-self._file.tell() // _ALIGNMENT) * _ALIGNMENT
        with disk_errors(self.folder):
            self._file.seek(offset)
            for part in parts:
                self._file.write(np.ascontiguousarray(part, dtype))
        assert self._file.tell() == offset + length, "the parts of a weight do not add up to its shape"
        self.bytes += length
        return {"location": _NAME, "offset": str(offset), "length": str(length)}

    def _open(self) -> None:
        root = cache_root() / "graphs"
        with disk_errors(root):
            root.mkdir(parents=True, exist_ok=True)
            for folder in root.iterdir():
                with suppress(FileNotFoundError):  # another process may just be done with its own
                    if time.time() - folder.stat().st_mtime > _LEFT:
                        shutil.rmtree(folder, ignore_errors=True)
            self.folder = Path(tempfile.mkdtemp(dir=root))
            self._file = open(self.folder / _NAME, "xb")  # noqa: SIM115 - it is written to until `flush`

    def flush(self) -> None:
        """Writes all that is still buffered, so that the file can be read."""
        if self._file is not None:
            with disk_errors(self.folder):
                self._file.flush()

    def close(self) -> None:
        """Removes the file. Mapped parts of it stay readable. Windows keeps a mapped file, which the next day's first
        graph removes."""
        if self._file is not None:
            self._file.close()
            shutil.rmtree(self.folder, ignore_errors=True)
            self._file: Any = None

    def __del__(self):
        self.close()

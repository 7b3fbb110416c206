"""Hides byte order marks in a model folder from transformers, which takes them for damage (5.23)."""

import shutil
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

_TEXTS = (".json", ".txt", ".jinja")


@contextmanager
def hide_byte_order_marks(folder: Path) -> Iterator[Path]:
    """Yields the folder itself, or a copy whose text files have no mark while the block runs. Weights are linked."""
    texts = [file for file in folder.glob("*") if file.suffix in _TEXTS and file.is_file()]
    if not any(_has_mark(file) for file in texts):
        yield folder
        return
    with TemporaryDirectory(prefix="speclens-") as name:
        clean = Path(name) / folder.resolve().name
        clean.mkdir()
        for file in folder.iterdir():
            if file in texts:
                (clean / file.name).write_bytes(file.read_bytes().removeprefix(BOM_UTF8))
            elif file.suffix in (".safetensors", ".gguf"):
                (clean / file.name).symlink_to(file.resolve())
            elif file.is_file():
                shutil.copy(file, clean)
        yield clean


def _has_mark(file: Path) -> bool:
    with open(file, "rb") as data:
        return data.read(len(BOM_UTF8)) == BOM_UTF8

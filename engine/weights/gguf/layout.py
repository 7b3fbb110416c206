"""Describes a folder that was prepared for a GGUF file: where the file is, and where each tensor lies in it.

The folder has everything that transformers needs besides the weights. A file that was downloaded for it lies in the
folder itself; a file of the user's own stays where it is, and `sources.json` says how it looked when it was read.
"""

import json
from pathlib import Path

from engine.files import read_json

GGUF, LAYOUT, SOURCES = "model.gguf", "tensors.json", "sources.json"


def is_prepared(folder: Path) -> bool:
    """Returns whether the folder's weights come from a GGUF file. A user's folder may hold such files, too, without
    having been prepared."""
    return (Path(folder) / LAYOUT).is_file()


def places(folder: Path) -> dict[str, dict]:
    """Returns the type, shape, file, offset and bytes of each tensor by its name. Raises ValueError and OSError."""
    folder = Path(folder)
    layout = json.loads((folder / LAYOUT).read_text(encoding="utf-8"))
    return {name: place | {"file": Path(place.get("file", folder / GGUF))} for name, place in layout.items()}


def gguf_files(folder: Path) -> list[Path]:
    """Returns the GGUF file, or all its parts in order."""
    sources = _sources(folder)
    return [Path(source["path"]) for source in sources] if sources else [Path(folder) / GGUF]


def stamp(file: Path) -> dict:
    """Returns what tells whether a file was replaced."""
    stat = file.stat()
    return {"path": str(file), "size": stat.st_size, "changed": stat.st_mtime_ns}


def changed_source(folder: Path) -> str | None:
    """Returns a sentence about a file of the user's own that is gone or was replaced; None if all are as they were."""
    for source in _sources(folder):
        file = Path(source["path"])
        if not file.is_file():
            return f"{file} is no longer there."
        if stamp(file) != source:
            return f"{file} has changed since it was read."
    return None


def _sources(folder: Path) -> list[dict]:
    return read_json(Path(folder) / SOURCES).get("files", [])

"""Finds a user's own GGUF file and prepares a folder for it in the cache; the file itself stays where it is.

file.py reads it, and refuses types of numbers that are not known.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

from engine.errors import BadInput, Unavailable
from engine.files import cache_root, work_folder
from engine.weights.gguf.file import parts_of, read_header
from engine.weights.gguf.folder import prepare
from engine.weights.gguf.layout import changed_source, is_prepared, stamp

ENDING = ".gguf"
_VERSION = 4  # the format of prepared folders; a higher number makes all of them again
_BESIDE_A_MODEL = {"clip", "imatrix", "adapter", "mmproj"}  # general.type or architecture


def is_gguf(path: Path) -> bool:
    """Returns whether the path names a GGUF file, or a folder with such files and no other weights."""
    if path.is_dir():
        return not is_prepared(path) and bool(_gguf_files(path)) and not any(path.glob("*.safetensors"))
    return path.suffix.lower() == ENDING or (path.is_file() and _begins_as_gguf(path))


def prepared_folder(path: Path) -> Path:
    """Returns the folder that was prepared for a GGUF file, or for the only model in a folder; prepares it where it is
    not there yet. Raises BadInput where no file or more than one model is there, Unavailable for one that cannot be
    read."""
    files = [file.resolve() for file in model_files(path)]
    key = hashlib.sha256(json.dumps([_VERSION, *map(stamp, files)]).encode()).hexdigest()[:12]
    folder = cache_root() / "gguf" / f"{files[0].stem[:60]}-{key}"
    if is_prepared(folder) and not changed_source(folder):
        return folder
    with work_folder(folder) as work:
        try:
            prepare(files, work, is_copied=False)
            if not is_prepared(folder):
                os.replace(work, folder)
        except OSError:
            if not is_prepared(folder):  # else another process was faster
                raise
    return folder


def model_files(path: Path) -> list[Path]:
    """Returns the parts of the file, or of the only model in the folder. Raises BadInput."""
    if path.is_dir():
        models = {tuple(parts_of(file)) for file in _gguf_files(path)}
        if len(models) > 1:  # else preparing it says what it is
            models = {files for files in models if not _is_beside_a_model(files[0])}
        if not models:
            raise BadInput(f"{path} holds GGUF files, but none of them is a language model.")
        if len(models) > 1:
            names = ", ".join(sorted(files[0].name for files in models))
            raise BadInput(f"{path} holds {len(models)} models ({names}); name the file that you want.")
        files: Sequence[Path] = next(iter(models))
    else:
        files = parts_of(path)
    absent = [file.name for file in files if not file.is_file()]
    if absent and len(files) > 1:
        raise BadInput(f"{path.name} is one of {len(files)} parts, and {absent[0]} is not beside it; download it, too.")
    if absent:
        raise BadInput(f"There is no file {files[0]}.")
    return [*files]


def _gguf_files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.suffix.lower() == ENDING and file.is_file())


def _is_beside_a_model(file: Path) -> bool:
    """Returns whether it is an image encoder, an adapter or statistics, which a model's folder may hold, too."""
    try:
        fields = read_header(file).fields
    except (ValueError, OSError):  # loading describes the damage
        return False
    return bool({fields.get("general.type"), fields.get("general.architecture")} & _BESIDE_A_MODEL)


def _begins_as_gguf(path: Path) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"GGUF"
    except OSError as error:
        raise Unavailable(f"{path} cannot be read ({error.strerror}).") from error

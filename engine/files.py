"""Reads and writes files: the cache folder, atomic writes, checksums, disk errors as sentences, cells of a CSV."""

import errno
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.errors import BadInput, Unavailable

ProgressCallback = Callable[[float, str], None]  # (fraction done from 0 to 1, the present step in words)

ASSETS = Path(__file__).resolve().parent.parent / "assets"
# Some spreadsheet takes a cell that begins so for a formula; East Asian versions take the wide forms, too.
_STARTS_FORMULA = tuple("=+-@|%\t\r\n＝＋－＠")


def cache_root() -> Path:
    """Returns the folder of prepared weights and measurements: SPECLENS_CACHE, or the platform's cache folder. Raises
    Unavailable for a user without a home folder who has not set it."""
    if chosen := os.environ.get("SPECLENS_CACHE"):
        return expand_home(chosen).absolute()
    try:
        if sys.platform == "win32":
            base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
        elif sys.platform == "darwin":
            base = Path.home() / "Library" / "Caches"
        else:
            base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError as error:
        raise Unavailable("This user has no home folder; set SPECLENS_CACHE to a folder for models.") from error
    return Path(base) / "speclens"


def expand_home(path: str) -> Path:
    """Replaces a leading ~ or ~user by that home folder. Raises BadInput where there is none."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise BadInput(f"There is no home folder for {path[:80]!r}; write the whole path.") from error


def sha256(path: Path, progress: Callable[[float], None] = lambda fraction: None) -> str:
    """Computes the file's digest in hex; ``progress`` is called with the share that is read."""
    digest, size, done = hashlib.sha256(), max(path.stat().st_size, 1), 0
    with open(path, "rb") as file:
        while block := file.read(1 << 22):
            digest.update(block)
            done += len(block)
            progress(done / size)
    return digest.hexdigest()


def read_text(path: Path, what: str) -> str:
    """Reads a file in any encoding of Unicode. Raises BadInput, which says ``what`` it is."""
    try:
        return decode_text(path.read_bytes())
    except UnicodeDecodeError as error:
        raise BadInput(f"The {what} {path} is not in UTF-8; save it in that encoding.") from error
    except OSError as error:
        raise BadInput(f"The {what} {path} cannot be read: {error.strerror or error}.") from error


def decode_text(content: bytes, errors: str = "strict") -> str:
    """Decodes UTF-8, UTF-16 or UTF-32, as PowerShell and Notepad write them, without the byte order mark and with one
    kind of line end. Raises UnicodeDecodeError for anything else unless ``errors`` says what Python should do then."""
    text = content.decode(json.detect_encoding(content), errors)
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def read_json(path: Path) -> dict:
    """Reads the object in a JSON file, in any encoding of Unicode; an empty one if it cannot be read."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def write_atomically(path: Path, content: str | bytes | memoryview) -> None:
    """Replaces the file. Where that fails, a full disk included, the old file stays and no other is left."""
    temporary = path.with_name(f".{path.name}-{os.urandom(4).hex()}")
    try:
        with open(temporary, "xb") as file:
            file.write(content.encode("utf-8") if isinstance(content, str) else content)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_file(path: Path, content: str | bytes | memoryview) -> None:
    """Replaces a file, after making the folders above it. Raises Unavailable for a full or read-only disk."""
    with disk_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)


def escape_formula(text: str) -> str:
    """Makes a cell of a CSV that a spreadsheet shows and never runs: after an apostrophe if it would begin a formula.

    >>> escape_formula("=1+1")
    "'=1+1"
    """
    begins = text.startswith(_STARTS_FORMULA) or text.lstrip().startswith(_STARTS_FORMULA)
    return f"'{text}" if begins else text


def need_disk(folder: Path, needed: int, name: str) -> None:
    """Raises Unavailable if fewer than ``needed`` bytes are free; ``name`` opens the message."""
    existing = next(p for p in (folder, *folder.parents) if p.is_dir())
    free = shutil.disk_usage(existing).free
    if free < needed:
        raise Unavailable(
            f"{name} needs {gigabytes(needed)} on disk, but {existing} has {gigabytes(free)} free; "
            "free some space or name another cache folder with SPECLENS_CACHE (for hub models HF_HOME)."
        )


@contextmanager
def disk_errors(folder: Path, all_errors: bool = False) -> Iterator[None]:
    """Raises Unavailable for a full or read-only disk inside the with block; other OSErrors pass through, unless
    ``all_errors``."""
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, getattr(errno, "EDQUOT", None)}:
            raise Unavailable(
                f"The disk that holds {folder} is full; free some space or name another cache folder with "
                "SPECLENS_CACHE (for hub models HF_HOME)."
            ) from error
        if all_errors or error.errno in {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST}:
            raise Unavailable(
                f"{folder} cannot be written to ({error.strerror}); name another cache folder with SPECLENS_CACHE "
                "(for hub models HF_HOME)."
            ) from error
        raise


@contextmanager
def work_folder(beside: Path) -> Iterator[Path]:
    """Yields a new folder, which may be renamed to the one that it is ``beside``, and deletes it if it is still there.
    Raises Unavailable for a full or read-only disk."""
    with disk_errors(beside.parent):
        beside.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(dir=beside.parent, prefix=f".{beside.name}-"))
        try:
            yield work
        finally:
            shutil.rmtree(work, ignore_errors=True)


def check_cache() -> None:
    """Raises Unavailable where the cache folder takes no files."""
    with disk_errors(cache_root(), all_errors=True):
        try_writing(cache_root())


def try_writing(folder: Path) -> None:
    """Raises OSError where a folder cannot be made or takes no files."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(bytes(4096))
        file.flush()


def gigabytes(n: int) -> str:
    return f"{n / 1e9:.1f} GB" if n >= 1e8 else f"{n / 1e6:.1f} MB"

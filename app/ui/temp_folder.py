"""Chooses the folder of the page's temporary files, tries it at start, and says later why it takes no more.

Gradio copies every file that a visitor can save into one folder, by default /tmp/gradio, which belongs to the user who
ran a Gradio app on this machine first. An event whose files cannot be copied fails after its handler has returned, so
the page asks here before it offers any.
"""

import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from engine.errors import Unavailable
from engine.files import cache_root, gigabytes, try_writing

VARIABLE = "GRADIO_TEMP_DIR"
LEAST_FREE = 10**7  # bytes, for the files of some runs
_OLDEST = 7 * 24 * 3600  # seconds; a server that was killed could not delete its own
_PREFIX = "speclens-page-"


def choose() -> Path:
    """Sets GRADIO_TEMP_DIR to a new folder below the cache, or below the system's temporary folder where the cache
    cannot be written; an operator's own choice stays. Call it before Gradio's components are made. Raises Unavailable
    where no folder takes files."""
    if named := os.environ.get(VARIABLE):
        if reason := _problem(Path(named)):
            raise Unavailable(f"{reason} Name another folder with {VARIABLE}.")
        return Path(named)
    reasons = []
    for parent in (cache_root() / "tmp", *_system_folder()):
        reason = _problem(parent)
        if reason is None:
            _tidy(parent)
            os.environ[VARIABLE] = tempfile.mkdtemp(prefix=_PREFIX, dir=parent)
            return Path(os.environ[VARIABLE])
        reasons.append(reason)
    raise Unavailable(f"{' '.join(reasons)} Free some space, or name a folder for them with {VARIABLE}.")


def _system_folder() -> list[Path]:
    """Returns the system's temporary folder; nothing where it has none that takes files."""
    try:
        return [Path(tempfile.gettempdir())]
    except FileNotFoundError:
        return []


def problem() -> str | None:
    """Returns why the folder takes no files now, as a sentence; None if it does."""
    return _problem(current())


def current() -> Path:
    """Returns the folder that Gradio copies files to: the chosen one, or its own where none was chosen."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else Path(tempfile.gettempdir()) / "gradio"


def _problem(folder: Path) -> str | None:
    try:
        try_writing(folder)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return f"Temporary files cannot be written to {folder} ({error.strerror})."
    if free < LEAST_FREE:
        return f"The disk of {folder}, for temporary files, has only {gigabytes(free)} free."
    return None


def _tidy(parent: Path) -> None:
    """Deletes folders of servers long gone. One that cannot be read or deleted stays."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            newest = max(path.lstat().st_mtime for path in (folder, *folder.iterdir()))
            if newest < time.time() - _OLDEST:
                shutil.rmtree(folder)

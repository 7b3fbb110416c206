"""Writes a run's files after it has ended, and reads uploaded traces. Knows no gradio."""

import errno
import re
import shutil
import tempfile
import threading
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from app.jobs.visitor import Session
from app.ui import temp_folder
from app.views.run_facts import when
from app.views.token_csv import tokens_csv
from engine.errors import BadInput
from engine.trace.trace import MAX_BYTES, Trace, from_json, save

MOST_TOKENS = 20_000  # as many as a browser can show; the engine writes up to 8,192 and their drafts
MOST_FILES = 32  # at once; each may be as large as the largest trace that is read
PROMPT_LETTERS = 24  # of it, in a file's name
MAX_FOLDERS = 32  # gradio serves a copy of its own, so older folders can go


class WrittenFiles(NamedTuple):
    """The path of each file; None where there was nothing to write."""

    trace: str | None = None
    baseline: str | None = None
    table: str | None = None
    page: str | None = None


class Exports:
    """Writes each session's files into a new folder and deletes the oldest folders."""

    def __init__(self, max_folders: int = MAX_FOLDERS):
        parent = temp_folder.current()
        parent.mkdir(parents=True, exist_ok=True)
        self._root = tempfile.TemporaryDirectory(prefix="speclens-", dir=parent, ignore_cleanup_errors=True)
        self._folders: deque[Path] = deque()
        self._max_folders, self._lock = max_folders, threading.Lock()

    def write(self, session: Session, page: Callable[[Trace, Trace | None], str]) -> WrittenFiles:
        """Writes the files of a result. ``page`` returns the HTML of a run and its baseline. Raises OSError."""
        run, baseline = session.trace, session.baseline
        if run is None or not run.rounds:
            return WrittenFiles()
        _check_room()
        folder, name = self._folder(), _name(run)
        (folder / f"{name}.csv").write_text(tokens_csv(run), encoding="utf-8-sig", errors="backslashreplace")
        written = [_save(run, folder / f"{name}.json")]
        written.append(_save(baseline, folder / f"{name}-baseline.json") if baseline and baseline.rounds else None)
        # Newlines are not translated, because the page's content policy holds a hash of its script.
        (folder / f"{name}.html").write_text(page(run, baseline), encoding="utf-8", newline="\n")
        return WrittenFiles(*written, str(folder / f"{name}.csv"), str(folder / f"{name}.html"))

    def texts(self, files: Mapping[str, str | bytes]) -> list[str]:
        """Writes texts or bytes under their names into a new folder. Returns their paths in order. Raises OSError."""
        _check_room()
        folder = self._folder()
        for name, text in files.items():
            if isinstance(text, bytes):
                (folder / name).write_bytes(text)
                continue
            encoding = "utf-8-sig" if name.endswith(".csv") else "utf-8"  # spreadsheets need the mark
            (folder / name).write_text(text, encoding=encoding, errors="backslashreplace", newline="\n")
        return [str(folder / name) for name in files]

    def _folder(self) -> Path:
        folder = Path(self._root.name) / uuid.uuid4().hex
        folder.mkdir(parents=True)
        with self._lock:
            self._folders.append(folder)
            old = [self._folders.popleft() for _ in range(len(self._folders) - self._max_folders)]
        for path in old:
            shutil.rmtree(path, ignore_errors=True)
        return folder


def _check_room() -> None:
    """Raises OSError where Gradio could not copy the files; its event would fail after the handler has returned."""
    if reason := temp_folder.problem():
        raise OSError(errno.ENOSPC, reason)


def _save(trace: Trace, path: Path) -> str | None:
    """Saves a trace and returns the path; None for a trace that JSON cannot hold (half a surrogate pair)."""
    try:
        save(trace, path)
    except BadInput:
        return None
    return str(path)


def _name(run: Trace) -> str:
    """Makes a file name from prompt, pair, method, seed and time, so that a class hands in different names; a trace may
    claim any of them."""
    begin = re.sub(r"[^a-z0-9]+", "-", run.started.prompt_text[:PROMPT_LETTERS].lower())
    time = re.sub(r"\D", "", when(run.started.at))
    parts = [begin, run.started.pair, run.started.method, f"seed{run.started.config.get('seed', 0)}", time]
    return "-".join(["speclens", *filter(None, map(safe_letters, parts))])


def safe_letters(text: object) -> str:
    """Returns the last letters of a name, as every file system takes them."""
    letters = "".join(c if c.isascii() and (c.isalnum() or c in "._") else "-" for c in str(text))
    return letters[-40:].strip("-.")


def read_session(paths: Sequence[str]) -> Session:
    """Reads one trace, or a run and its baseline. Raises BadInput with a sentence for the visitor."""
    if not 1 <= len(paths) <= 2:
        raise BadInput(f"{len(paths)} files were given; open one trace, or a run and its baseline.")
    traces = read_each(paths)
    if len(traces) == 1:
        return Session(traces[0])
    plain = [trace for trace in traces if trace.started.method == "none"]
    plain = plain or [trace for trace in traces if not trace.has_drafts]
    if len(plain) != 1:
        raise BadInput("Two traces are shown together when one drafted and the other, its baseline, did not.")
    (ours,) = (trace for trace in traces if trace is not plain[0])
    if _request(ours) != _request(plain[0]):
        raise BadInput("These two traces are not of the same request, so one is not the other's baseline.")
    return Session(ours, plain[0], is_recorded=True)


def read_each(paths: Sequence[str]) -> list[Trace]:
    """Reads every file by itself. Raises BadInput with a sentence for the visitor.

    The files stay, because gradio (6.31) stores equal uploads of several visitors at one path; it deletes them later
    (`delete_cache`)."""
    if len(paths) > MOST_FILES:
        raise BadInput(f"These are {len(paths)} files; open up to {MOST_FILES} at once.")
    return [_read(Path(path)) for path in paths]


def _read(path: Path) -> Trace:
    try:
        if path.stat().st_size > MAX_BYTES:  # before reading any of it
            size = path.stat().st_size / 2**20
            raise BadInput(f"This file is {size:.0f} MiB; traces up to {MAX_BYTES // 2**20} MiB are read.")
        trace = from_json(path.read_bytes())
    except OSError as error:
        raise BadInput("This file could not be read; open it again.") from error
    _check(trace)
    return trace


def _check(trace: Trace) -> None:
    """Checks what display needs: token limit, monotonic times, types of the settings. Raises BadInput."""
    count = sum(len(event.tokens) for event in trace.rounds)
    if count > MOST_TOKENS:
        raise BadInput(f"This trace has {count:,} tokens; this page shows up to {MOST_TOKENS:,}.")
    if not trace.rounds:
        raise BadInput("This trace has no rounds, so there is nothing to show.")
    if any(later.start < event.start or later.end < event.end for event, later in pairwise(trace.rounds)):
        raise BadInput("This trace is not valid: its clock runs backwards.")
    config = trace.started.config
    sampling = config.get("sampling", {})
    temperature = sampling.get("temperature", 0) if isinstance(sampling, dict) else None
    known = isinstance(temperature, int | float) and isinstance(config.get("method", ""), str)
    if not known or not isinstance(config.get("prompt", ""), str):
        raise BadInput("This trace is not valid: its settings are not a run's.")
    if trace.branch:
        _check(trace.branch)


def _request(trace: Trace) -> tuple:
    """Returns what a run and its baseline share: the request but for what drafts, and what computed it."""
    started = trace.started
    config = {name: value for name, value in started.config.items() if name not in ("method", "gamma")}
    computed = (started.pair, started.revision, started.weights.get("target"), started.device, started.dtype)
    return config, started.prompt, started.prefix, computed, started.versions

"""Traces as files: written when a run has ended, read when a visitor brings one. Knows no gradio."""

import shutil
import tempfile
import threading
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from app.session import Session
from app.views.table import tokens_csv
from engine.errors import BadInput
from engine.trace import MAX_BYTES, Trace, from_json, save

MOST_TOKENS = 20_000  # that a browser is asked to show; the engine itself writes up to 8,192 and their drafts
KEPT = 32  # folders; gradio serves a copy of its own, so ours are done with at once


class Written(NamedTuple):
    """Where each file stands; None where there is nothing to write."""

    trace: str | None = None
    baseline: str | None = None
    table: str | None = None
    page: str | None = None


class Exports:
    """Writes a session's files, each session into a folder of its own; the oldest folders go."""

    def __init__(self, kept: int = KEPT):
        self._root = tempfile.TemporaryDirectory(prefix="speclens-", ignore_cleanup_errors=True)
        self._folders: deque[Path] = deque()
        self._kept, self._lock = kept, threading.Lock()

    def write(self, session: Session, page: Callable[[Trace, Trace | None], str]) -> Written:
        """``page``: makes the HTML file's text of a run and its baseline."""
        run, baseline = session.trace, session.baseline
        if run is None or not run.rounds:
            return Written()
        folder, name = self._folder(), _name(run)
        (folder / f"{name}.csv").write_text(tokens_csv(run), encoding="utf-8-sig", errors="backslashreplace")
        written = [_saved(run, folder / f"{name}.json")]
        written.append(_saved(baseline, folder / f"{name}-baseline.json") if baseline and baseline.rounds else None)
        # Newlines as they are: the page's own policy knows its script by a hash.
        (folder / f"{name}.html").write_text(page(run, baseline), encoding="utf-8", newline="\n")
        return Written(*written, str(folder / f"{name}.csv"), str(folder / f"{name}.html"))

    def texts(self, files: Mapping[str, str | bytes]) -> list[str]:
        """Texts (or bytes) under their names, in a folder of their own; where each stands, in order. Raises OSError."""
        folder = self._folder()
        for name, text in files.items():
            if isinstance(text, bytes):
                (folder / name).write_bytes(text)
                continue
            mark = "utf-8-sig" if name.endswith(".csv") else "utf-8"  # how a spreadsheet knows UTF-8
            (folder / name).write_text(text, encoding=mark, errors="backslashreplace", newline="\n")
        return [str(folder / name) for name in files]

    def _folder(self) -> Path:
        folder = Path(self._root.name) / uuid.uuid4().hex
        folder.mkdir()
        with self._lock:
            self._folders.append(folder)
            old = [self._folders.popleft() for _ in range(len(self._folders) - self._kept)]
        for path in old:
            shutil.rmtree(path, ignore_errors=True)
        return folder


def _saved(trace: Trace, path: Path) -> str | None:
    """None for a trace that JSON cannot hold (half a surrogate pair); the other files need not go with it."""
    try:
        save(trace, path)
    except BadInput:
        return None
    return str(path)


def _name(run: Trace) -> str:
    """Says what is in it; an imported trace may claim any pair, so only harmless letters of it are kept."""
    parts = [run.started.pair, run.started.config.get("method", ""), f"seed{run.started.config.get('seed', 0)}"]
    kept = ["".join(c if c.isascii() and (c.isalnum() or c in "._") else "-" for c in str(p))[:40] for p in parts]
    return "speclens-" + "-".join(part.strip("-.") for part in kept if part.strip("-."))


def read(paths: Sequence[str]) -> Session:
    """One trace, or a run and its baseline. BadInput says what is wrong, in words for the one who brought it."""
    if not 1 <= len(paths) <= 2:
        raise BadInput(f"{len(paths)} files were given; bring one trace, or a run and its baseline.")
    traces = [_read(Path(path)) for path in paths]
    if len(traces) == 1:
        return Session(traces[0])
    plain = [trace for trace in traces if not _drafted(trace)]
    ours = [trace for trace in traces if _drafted(trace)]
    if len(plain) != 1:
        raise BadInput("Two traces are shown together when one drafted and the other, its baseline, did not.")
    if ours[0].started.prompt != plain[0].started.prompt or _setting(ours[0]) != _setting(plain[0]):
        raise BadInput("These two traces are not of the same request, so one is not the other's baseline.")
    return Session(ours[0], plain[0])


def _read(path: Path) -> Trace:
    try:
        if path.stat().st_size > MAX_BYTES:  # told before a byte of it is read
            size = path.stat().st_size / 2**20
            raise BadInput(f"This file is {size:.0f} MiB; traces up to {MAX_BYTES // 2**20} MiB are read.")
        trace = from_json(path.read_bytes())
    except OSError as error:
        raise BadInput("This file could not be read; bring it again.") from error
    _check(trace)
    return trace


def _check(trace: Trace) -> None:
    """What a screen relies on and a trace leaves open: a size it can show, clocks that go on, settings of one shape."""
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
        raise BadInput("This trace is not valid: its settings are not those of a run.")


def _drafted(trace: Trace) -> bool:
    return any(event.parents for event in trace.rounds)


def _setting(trace: Trace) -> Trace:
    """What must be alike for two runs to be compared."""
    started, config = trace.started, dict(trace.started.config)
    for own in ("method", "gamma"):
        config.pop(own, None)
    return replace(
        trace, started=replace(started, config=config, weights={}, costs=None, at=""), rounds=(), finished=None
    )

"""Helps experiments whose work comes in units: warms each engine up once, and deletes the oldest result files."""

import weakref
from collections.abc import Callable
from pathlib import Path

MOST_FILES = 50


class WarmUpOnce:
    """Warms an engine up once. Because another visitor's pair may replace it between two units, it is remembered."""

    def __init__(self):
        self._engine = lambda: None

    def is_due(self, engine) -> bool:
        return self._engine() is not engine

    def __call__(self, engine, warm: Callable[[], None]) -> None:
        if self.is_due(engine):
            warm()
            self._engine = weakref.ref(engine)


def tidy(keep: Path) -> None:
    """Deletes the oldest files beside ``keep``, and of its kind. Otherwise a page open to many would fill its disk."""
    kind = keep.name.partition("-")[0]
    files = sorted(keep.parent.glob(f"{kind}-*.jsonl"), key=lambda path: path.stat().st_mtime)
    for path in files[:-MOST_FILES]:
        if path != keep:
            path.unlink(missing_ok=True)

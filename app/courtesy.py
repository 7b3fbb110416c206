"""While the model is being loaded it gives way to whoever opens the page: on few cores each would slow the other down.

Most of loading is imports, so it waits before those as well: where importing begins to go through `sys.meta_path`.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_TO_OPEN = 1.6  # seconds that a page takes to open, about
_REST = 2.0  # seconds of rest for each second of loading while a page opens: a load takes thrice as long at most


class Courtesy:
    def __init__(self, to_open: float = _TO_OPEN, rest: float = _REST):
        self.to_open, self.rest = to_open, rest
        self._opened = self._until = 0.0
        self._resumed = 0.0
        self._loading: int | None = None  # the thread that loads

    def opens(self) -> None:
        """Somebody has asked for the page."""
        now = time.monotonic()
        if now >= self._until:
            self._opened = now
        self._until = now + self.to_open

    @contextmanager
    def while_loading(self) -> Iterator[None]:
        # A new list each time: another thread may be on its way through the old one, and would miss a finder.
        sys.meta_path = _Finders(sys.meta_path, self._before_import)
        try:
            yield
        finally:
            self._loading = None
            sys.meta_path = list(sys.meta_path)

    def wait(self) -> None:
        """On the thread that loads, which from then on waits before each import, too."""
        self._loading = threading.get_ident()
        now = time.monotonic()
        worked = now - max(self._resumed, self._opened)
        time.sleep(max(0.0, min(self.rest * worked, self._until - now)))
        self._resumed = time.monotonic()

    def _before_import(self) -> None:
        if threading.get_ident() == self._loading:
            self.wait()


class _Finders(list):
    """``before`` is called before they are asked. A finder that waited would hold the lock of all imports, and so
    whatever imports something to answer the visitor who is waited for."""

    def __init__(self, finders: list, before: Callable[[], None]):
        super().__init__(finders)
        self.before = before

    def __iter__(self) -> Iterator:
        self.before()
        return super().__iter__()

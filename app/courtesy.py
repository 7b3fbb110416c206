"""While the model is being loaded it gives way to whoever opens the page: on few cores each would slow the other down.

Most of loading is imports, so it waits between those as well: as a finder that is asked first, and finds nothing.
"""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_TO_OPEN = 1.6  # seconds that a page takes to open, about
_IN_ALL = 10.0  # seconds that a load is held at most, however many pages are opened
_LOOK = 0.02


class Courtesy:
    def __init__(self, to_open: float = _TO_OPEN, in_all: float = _IN_ALL):
        self.to_open, self.left = to_open, in_all
        self._until = 0.0
        self._loading: int | None = None  # the thread that loads

    def opens(self) -> None:
        """Somebody has asked for the page."""
        self._until = time.monotonic() + self.to_open

    @contextmanager
    def while_loading(self) -> Iterator[None]:
        # A new list each time: another thread may be on its way through the old one, and would miss a finder.
        sys.meta_path = [self, *sys.meta_path]
        try:
            yield
        finally:
            sys.meta_path = [finder for finder in sys.meta_path if finder is not self]
            self._loading = None

    def wait(self) -> None:
        """On the thread that loads, which from then on waits before each import, too."""
        self._loading = threading.get_ident()
        began = now = time.monotonic()
        end = began + self.left
        while now < min(self._until, end):
            time.sleep(_LOOK)
            now = time.monotonic()
        self.left -= now - began

    def find_spec(self, name: str, path=None, target=None) -> None:
        if threading.get_ident() == self._loading:
            self.wait()

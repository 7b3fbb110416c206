"""Keeps the state of one page's newest press of Run, between the events that begin it, stream it and end it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from app.jobs.visitor import Session
from engine.config import RunConfig


@dataclass
class Press:
    """In gr.State, changed in place and only ever an input. Otherwise each streamed update would also cost time on the
    machine that is being measured.

    ``is_stopped``: Stop was pressed, perhaps before the stream began. ``session``: the result, None until there is one.
    ``shown``: the request whose result is on the stage, which another press runs again. ``choice``: the place and the
    token of a branch. ``linked``: the request, place and token of a link, whose branch follows its run.
    """

    is_stopped: bool = False
    session: Session | None = None
    shown: RunConfig | None = None
    choice: tuple[int, int] | None = None
    linked: tuple[RunConfig, int, int] | None = None
    _stream: object = None

    def begin(self) -> None:
        self.is_stopped, self.session = False, None

    @contextmanager
    def streaming(self) -> Iterator[None]:
        stream = self._stream = object()
        try:
            yield
        finally:
            if self._stream is stream:
                self._stream = None

    @property
    def is_streaming(self) -> bool:
        """Also true where another press has replaced the one that ended."""
        return self._stream is not None

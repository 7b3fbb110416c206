"""Keeps the newest press of one page's button, from the event that begins it to the event that ends it."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TypeVar

from app.jobs.request import Replaced, Request
from app.jobs.runs import Runs
from engine.errors import EngineError

T = TypeVar("T")


@dataclass
class Press:
    """In gr.State, changed in place and only ever an input. Otherwise each streamed update would also cost time on the
    machine that is being measured. ``request``: of the newest press."""

    request: Request | None = None

    def begin(self, runs: Runs, visitor: str) -> None:
        """Registers the press's request before it streams, so that a Stop finds it; the one before it ends."""
        self.request = runs.open(visitor)

    def lose(self, runs: Runs) -> None:
        """Ends a request whose stream never reached the server, for example because Gradio's queue was full."""
        if self.request is not None:
            runs.close(self.request)

    @property
    def is_waiting(self) -> bool:
        """Whether its request is registered, and no stream has taken it."""
        return self.request is not None and not self.request.is_taken

    @property
    def is_over(self) -> bool:
        return self.request is None or self.request.is_over

    def stream(self, runs: Runs, visitor: str, updates: Callable[[Request], Iterator[T]]) -> Iterator[T]:
        """Yields what ``updates`` yields for the request, and ends it. Once another request of the visitor has
        replaced this one, nothing more of it is passed on."""
        if self.request is None or not self.request.take():  # an earlier stream came late and took it
            self.begin(runs, visitor)
            self.request.take()
        request = self.request
        try:
            with closing(updates(request)) as stream:
                for update in stream:
                    if request.is_replaced:
                        return
                    yield update
        except Replaced:
            return
        except EngineError:
            if not request.is_replaced:
                raise
        except GeneratorExit:  # the page is gone, perhaps to come back
            if not request.is_replaced:
                runs.leave(visitor)
            raise
        finally:
            if not request.is_left:
                runs.close(request)

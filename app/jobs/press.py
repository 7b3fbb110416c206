"""Keeps the newest press of one page's button, from the event that begins it to the event that ends it."""

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TypeVar, cast

from app.jobs.request import Replaced, VisitorRequest
from app.jobs.runs import Runs
from engine.errors import EngineError

T = TypeVar("T")
SECONDS_TO_END = 1.0  # from a stream's last update, which lets the page's buttons in, to its end
SECONDS_FOR_EARLIER = 2.0  # for a replaced stream to end; one that downloads a model takes longer


@dataclass
class Press:
    """A page's newest press of a button. It is in gr.State, is changed in place and is only ever an input; otherwise
    each streamed update would also cost time on the machine that is being measured. ``request``: the newest
    press's. ``streamed``: the one whose updates were passed on last."""

    request: VisitorRequest | None = None
    streamed: VisitorRequest | None = None

    def begin(self, runs: Runs, visitor: str) -> None:
        """Registers the press's request before it streams, so that a Stop finds it; the one before it ends."""
        self.request = runs.open(visitor)

    def close_orphan(self, runs: Runs) -> None:
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

    def has_ended(self) -> bool:
        """Returns whether its stream is over; waits a moment for one that has sent its last update."""
        return self.request is None or self.request.over.wait(SECONDS_TO_END)

    def stream(self, runs: Runs, visitor: str, updates: Callable[[VisitorRequest], Iterator[T]]) -> Iterator[T]:
        """Yields what ``updates`` yields for the request, and ends it. Once another request of the visitor has
        replaced this one, nothing more of it is passed on."""
        request = self._take(runs, visitor)
        earlier, self.streamed = self.streamed, request
        if earlier is not None:  # Gradio sends its last value again at its end, which would hide this one's first
            earlier.over.wait(SECONDS_FOR_EARLIER)
        try:
            with closing(cast(Generator[T, None, None], updates(request))) as stream:
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

    def _take(self, runs: Runs, visitor: str) -> VisitorRequest:
        """Returns the newest press's request, or a new one where an earlier press's stream came late and took it. A
        Stop for that one holds for the new one, too."""
        request = self.request
        if request is not None and request.take():
            return request
        self.begin(runs, visitor)
        newest = cast(VisitorRequest, self.request)
        newest.take()
        if request is not None and request.was_stopped:
            newest.stop()
        return newest

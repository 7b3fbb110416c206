"""Loads the model before the first run, and says what the engine is doing."""

import threading
import time
from dataclasses import dataclass

from app.jobs.engine_facade import EngineFacade
from app.server.hosting import is_hosted
from engine.config import RunConfig
from engine.errors import EngineError, Unavailable
from engine.trace.events import Progress

_SECONDS_FOR_A_VISITOR = 4.0  # to wait for a visitor; then the model is loaded without one
_SECONDS_TO_DRAW = 0.5  # for a page to draw itself after its first request


@dataclass(frozen=True)
class State:
    """The engine's state as every visitor sees it: ``kind`` is "asleep", "loading", "ready" or "busy"; ``together``:
    runs under way."""

    kind: str
    device: str | None = None
    precision: str | None = None
    waiting: int = 0
    together: int = 0
    progress: Progress | None = None


class EngineState:
    def __init__(self, engine: EngineFacade):
        self.engine, self.is_warming_up = engine, False  # while it loads the first pair
        self._has_visitor = threading.Event()  # a page requests the state as soon as it is open

    def now(self) -> State:
        """Returns the status that every visitor sees. It waits for no lock of the engine, so it is cheap."""
        self._has_visitor.set()
        worker = self.engine.worker
        running, waiting = worker.running, worker.waiting
        progress = running.progress if running else None
        if self.is_warming_up and progress is None:
            progress = Progress("Loading the model")
        if progress:
            return State("loading", waiting=waiting, progress=progress)
        device, precision = self.engine.device(), self.engine.precision()
        kind = "busy" if running else "ready" if device else "asleep"
        return State(kind, device, precision, waiting, worker.batch_size)

    def warm(self, pair: str) -> None:
        """Loads the pair in the background if its weights are here; otherwise the first run fetches them (a hosted page
        fetches them now).

        Loading would slow down the first page, so it begins when that page is open, or a few seconds after the start. A
        failure is not lost: the first run meets it again and shows it.
        """
        if not self.engine.worker.is_remote:
            self.is_warming_up = True
            threading.Thread(target=self._load, args=(pair,), name="speclens-warm-up", daemon=True).start()

    def _load(self, pair: str) -> None:
        worker = self.engine.worker
        if self._has_visitor.wait(_SECONDS_FOR_A_VISITOR):
            time.sleep(_SECONDS_TO_DRAW)
        try:
            if worker.running or self.engine.device():  # a run was quicker, and loads the model itself
                return
            if is_hosted() or self.engine.has_weights(pair):
                config = RunConfig("Hello", pair=pair, max_new_tokens=2, chat=False)  # not every model takes a chat
                job = worker.submit([("warm-up", config)], is_warm_up=True)
                job.wait()
                job.raise_error()
            elif problem := self.engine.storage_problem(pair):
                raise Unavailable(problem)
        except EngineError as error:
            print(f"The model could not be loaded yet: {error}", flush=True)
        finally:
            self.is_warming_up = False

"""Prepares the engine that a page offers for its visitors' own tabs, or says in the log why it offers none."""

import threading
import time

from app.jobs.engine_facade import EngineFacade
from app.tab.package import WEIGHTS, BrowserEngine, browser_engine
from engine.errors import BadInput, EngineError, Unavailable

_SECONDS_BETWEEN_LOOKS = 1.0


class TabOffer:
    """``engine``: this pair's, None until its files are ready and on a page that offers none. ``weights``: one of
    package.WEIGHTS; another raises BadInput."""

    def __init__(self, facade: EngineFacade, pair: str, weights: str):
        if weights not in WEIGHTS:
            raise BadInput(f"SPECLENS_TAB is {weights[:40]!r}; set it to {', '.join(WEIGHTS)}, or not at all.")
        self.facade, self.pair, self.weights = facade, pair, weights
        self.engine: BrowserEngine | None = None

    def is_ready(self) -> bool:
        return self.engine is not None

    def prepare(self) -> None:
        """Makes the files in the background. That takes a core for some seconds, so it waits until a model is loaded
        and nothing runs: otherwise it would slow down the loading, or a run that is being measured."""
        if self.weights != "none":
            threading.Thread(target=self._prepare, name="speclens-tab", daemon=True).start()

    def _prepare(self) -> None:
        while not self.facade.device() or self.facade.worker.running:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        try:
            if self.facade.worker.is_remote:
                raise Unavailable("The models are loaded by other processes, so this page cannot build its files.")
            self.engine = browser_engine(self.pair, self.weights)
        except EngineError as error:
            print(f"The page does not offer “Run it here”: {error}", flush=True)

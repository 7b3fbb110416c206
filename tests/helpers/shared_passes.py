"""Lets an engine that only plays events take part in a batch: a pass of no work follows each event."""

from dataclasses import replace
from types import SimpleNamespace

from engine.decoding.batch import Prefill
from engine.trace.events import Round


class _NoPass:
    @staticmethod
    def together(batch):
        return [None] * len(batch)


class SharedPasses:
    """``memory``: bytes a run is said to take; ``best``: how many runs should share; ``slow``: methods to load."""

    device, memory, best, slow = "cpu", 0, 4, frozenset()

    def decoder(self, config, cancelled, is_row=False):
        return SimpleNamespace(config=config, cancelled=cancelled, memory=self.memory, sharers=lambda: 1), None

    def steps(self, decoding, costs):
        for event in self.run(decoding.config, decoding.cancelled):
            yield replace(event, rows=decoding.rows()) if isinstance(event, Round) else event
            yield Prefill(_NoPass, [0])

    def is_ready(self, method) -> bool:
        return method not in self.slow

    def best_batch(self) -> int:
        return self.best

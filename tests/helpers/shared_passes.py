"""Runs a batch to its end; and makes an engine that only plays events fit for one: a pass of no work follows each."""

from dataclasses import replace

from engine.decoding.batch import Prefill
from engine.models.decoder.prompt_cache import PromptCache
from engine.trace.events import Round


class _NoPass:
    @staticmethod
    def forward_many(batch):
        return [None] * len(batch)


class _Request:
    def __init__(self, events, memory):
        self._events, self.memory = events, memory

    def share(self, sharers):
        self._sharers = sharers

    def steps(self):
        for event in self._events:
            yield replace(event, rows=self._sharers()) if isinstance(event, Round) else event
            yield Prefill(_NoPass, [0])


class SharedPasses:
    """``memory``: bytes a run is said to take; ``best``: how many runs should share; ``slow``: methods to load."""

    device, memory, best, slow, prompts = "cpu", 0, 4, frozenset(), PromptCache(0)

    def prepare(self, config, cancelled, own_cache=False, keeps_prompt=False):
        return _Request(self.run(config, cancelled), self.memory)

    def is_ready(self, method) -> bool:
        return method not in self.slow

    def best_batch(self) -> int:
        return self.best


def drive(batch, arrivals=(), leaves=()) -> dict:
    """Runs a `Batch` or a `RunBatch` to its end; gives the events of each request. ``arrivals``: {step: [(name,
    decoder)]}; ``leaves``: {step: names that are removed}."""
    found, step, arrivals, leaves = {}, 0, dict(arrivals), dict(leaves)
    while len(batch) or any(at >= step for at in arrivals):
        for name, decoder in arrivals.get(step, ()):
            batch.add(name, decoder.steps())
        for name in leaves.get(step, ()):
            batch.remove(name)
        for name, event in batch.step():
            if isinstance(event, Exception):
                raise event
            found.setdefault(name, []).append(event)
        step += 1
    return found

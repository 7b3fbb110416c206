"""A recorded run is the middle one of several pairs with plain decoding, and says how they compared."""

from dataclasses import replace

import pytest

from engine.config import RunConfig, SamplingParams
from engine.errors import EngineError
from engine.tools.bench import recording
from engine.trace.trace import fold, from_json, to_json

TOKENS = 8


@pytest.fixture
def lm(engine):
    return RunConfig("one two three", engine.pair.name, "lm", 3, max_new_tokens=TOKENS, chat=False)


class Clock:
    """Runs of an engine, of which each takes the next of ``seconds`` for its method."""

    def __init__(self, engine, **seconds):
        self.engine, self.seconds, self.run_methods = engine, seconds, []

    def run(self, config):
        *events, finished = self.engine.run(config)
        self.run_methods.append(config.method)
        if config.max_new_tokens == TOKENS and (left := self.seconds[config.method]):
            finished = replace(finished, decode_seconds=left.pop(0))
        return [*events, finished]


def test_the_middle_run_is_recorded_with_the_median_of_the_ratios(engine, lm):
    clock = Clock(engine, none=[99, 8.0, 9.0, 8.0], lm=[99, 4.0, 2.0, 8.0])  # the first of each warms up
    trace = recording.record(clock, lm, 3)
    assert trace.finished.decode_seconds == 4.0
    assert trace.finished.extra["speedup"] == {"median": 2.0, "lowest": 1.0, "highest": 4.5, "pairs": 3}
    assert clock.run_methods[2:] == ["lm", "none", "none", "lm", "lm", "none"], "the order alternates"
    assert from_json(to_json(trace)) == trace


def test_plain_decoding_has_no_speedup(engine, lm):
    trace = recording.record(engine, replace(lm, method="none", gamma=0), 1)
    assert "speedup" not in trace.finished.extra and "cores" in trace.finished.extra["processor"]


def test_repeats_that_differ_are_refused(engine, lm):
    class Unsteady:
        seed = 0

        def run(self, config):
            self.seed += 1
            return engine.run(replace(config, sampling=SamplingParams(1.5), seed=self.seed))

    assert fold(Unsteady().run(lm)).output
    with pytest.raises(EngineError, match="different tokens"):
        recording.record(Unsteady(), lm, 3)

"""Records a run beside plain decoding of its prompt: several pairs in turn, of which the run with the middle time is
kept. What `python -m lessons record` does for each run of the lessons."""

import statistics
from dataclasses import replace

from engine.bench.sample import BASELINE
from engine.config import RunConfig
from engine.device import processor
from engine.errors import EngineError
from engine.runtime.engine import Engine
from engine.trace.trace import Trace, fold


def record(engine: Engine, config: RunConfig, repeats: int) -> Trace:
    """Returns the run whose decoding took the middle time of ``repeats``, an odd number. Its ``finished.extra`` holds
    the processor and, unless it is plain decoding itself, the measured speedup: the median of the pairs' ratios, the
    lowest, the highest and how many. Raises EngineError if the repeats did not write the same tokens."""
    plain = replace(config, method=BASELINE, gamma=0)
    for each in dict.fromkeys((plain, config)):  # the first run pays for loading and calibrating
        fold(engine.run(replace(each, max_new_tokens=min(16, config.max_new_tokens))))
    pairs = []
    for turn in range(repeats):
        order = (plain, config) if turn % 2 else (config, plain)
        traces = {each: fold(engine.run(each)) for each in dict.fromkeys(order)}
        pairs.append((traces[plain], traces[config]))
    runs = sorted((run for _, run in pairs), key=_seconds_per_token)
    if any(run.output != runs[0].output for run in runs):
        raise EngineError("The repeats wrote different tokens, so none of them was recorded.")
    extra = {"processor": processor()}
    if config != plain:
        ratios = [_seconds_per_token(base) / _seconds_per_token(run) for base, run in pairs]
        median, lowest, highest = statistics.median(ratios), min(ratios), max(ratios)
        extra["speedup"] = {"median": median, "lowest": lowest, "highest": highest, "pairs": repeats}
    middle = runs[len(runs) // 2]
    assert middle.finished is not None
    return replace(middle, finished=replace(middle.finished, extra=extra))


def _seconds_per_token(run: Trace) -> float:
    assert run.finished is not None, "no run was stopped"
    return run.finished.decode_seconds / len(run.output)

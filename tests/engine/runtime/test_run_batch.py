"""Several requests on one engine at once: each method as alone, and refusals before memory is taken."""

import pytest
from real_model import PAIR, PROMPTS
from shared_passes import drive
from tiny_pairs import engine_of, request

from engine.config import AUTO, MAX_NODES, MAX_SHARERS, RunConfig, SamplingParams
from engine.errors import BadInput, EngineError, Unavailable
from engine.runtime.run_batch import RunBatch
from engine.trace.costs import CostModel
from engine.trace.events import RunFinished, RunStarted
from engine.trace.metrics import NEAR_TIE
from engine.trace.trace import fold


@pytest.fixture
def tiny(pairs):
    engine = engine_of(pairs, draft="draft")
    engine._costs = {method: CostModel(0.1, {1: 1.0, 8: 1.5}, 64, 0.001) for method in ("none", "lm")}
    return engine


def test_batch_refuses_one_too_many_and_the_others_continue(tiny, monkeypatch):
    for limit in (0, MAX_SHARERS + 1):
        with pytest.raises(BadInput, match="choose 1 to 64"):
            RunBatch(tiny, limit)
    batch = RunBatch(tiny, 3)
    for name, method in enumerate(("none", "ngram", "lm")):
        batch.add(name, request(tiny.pair.name, method))
    with pytest.raises(BadInput, match="3 runs share the engine already"):
        batch.add("more", request(tiny.pair.name))
    list(batch.step())
    batch.remove(0)
    monkeypatch.setattr("engine.runtime.run_batch.available_memory", lambda device: 1000)
    with pytest.raises(Unavailable, match=r"keys and values, but beside the 2 under way cpu has .* left"):
        batch.add("more", request(tiny.pair.name, max_new_tokens=200))
    with pytest.raises(BadInput, match="attends to"):
        batch.add("long", request(tiny.pair.name, max_new_tokens=500))
    found = drive(batch)
    assert sorted(found) == [1, 2] and all(isinstance(events[-1], RunFinished) for events in found.values())
    with pytest.raises(EngineError, match="does not exist"):
        batch.add("bad", request(tiny.pair.name, prefix=(10**6,)))
    assert len(batch) == 0 and batch._memory == {}


@pytest.mark.usefixtures("own_cache")
def test_a_shorter_run_of_auto_that_joins_calibrates_nothing(pairs):
    """The calibration of the draft that was too short for the first run took that run's cache."""
    engine = engine_of(pairs, draft="short")  # 48 tokens
    batch = RunBatch(engine, 2)
    batch.add("long", request(engine.pair.name, AUTO, max_new_tokens=40))
    list(batch.step())
    batch.add("brief", request(engine.pair.name, AUTO, max_new_tokens=4))
    ends = {name: events[-1] for name, events in drive(batch).items()}
    assert ends.keys() == {"long", "brief"} and all(isinstance(end, RunFinished) for end in ends.values()), ends


def test_memory_is_counted_once(tiny, monkeypatch):
    """Memory that runs have yet to write to is no longer free; memory that they have written to counts once."""
    some = request(tiny.pair.name)
    needed = tiny.prepare(some, own_cache=True).memory
    free = [2.5 * needed]
    monkeypatch.setattr("engine.runtime.run_batch.available_memory", lambda device: free[0])
    batch = RunBatch(tiny, 4)
    batch.add("a", some)
    batch.add("b", some)
    with pytest.raises(Unavailable, match="beside the 2 under way"):
        batch.add("c", some)
    batch.remove("b")
    free[0] = 1.5 * needed  # "a" has written to all of its memory
    batch.add("c", some)
    free[0] = 0.5 * needed
    with pytest.raises(Unavailable, match="beside the 2 under way"):
        batch.add("d", some)
    batch.close()


def test_memory_is_that_of_the_caches(tiny):
    """The budget is the size of both caches, and of a round's rows of words."""
    decoding = tiny.prepare(request(tiny.pair.name, "lm"), own_cache=True, drafts_first=True).decoding
    steps = decoding.steps()
    steps.send(len(next(steps).ids))
    caches = [runner.cache for runner in (decoding.target, decoding.drafters[0].runner)]
    took = sum(side.numel() * side.element_size() for cache in caches for side in (cache.keys, cache.values))
    assert took > 0 and decoding.memory == took + 12 * (MAX_NODES + 1) * decoding.target.vocab_size


@pytest.mark.slow
@pytest.mark.xdist_group("real-model")
def test_every_method_beside_the_others_is_as_alone(engine):
    """The real pair runs greedily, the heads with their hidden states, and a sampled row with its own draws."""
    methods = ["none", "ngram", "eagle", "eagle-chain", "block", "medusa", "exit", "lm", "corpus", "lookahead"]
    configs = [
        RunConfig(prompt, pair=PAIR, method=method, gamma=0 if method == "none" else 3, max_new_tokens=8)
        for prompt, method in zip([*PROMPTS.values()] * 2, methods, strict=False)
    ]
    configs.append(RunConfig("A short story:", pair=PAIR, method="lm", gamma=2, max_new_tokens=8, seed=5,
                             sampling=SamplingParams(0.7)))  # fmt: skip
    batch = RunBatch(engine, len(configs))
    for name, config in enumerate(configs):
        batch.add(name, config)
    for name, events in drive(batch).items():
        assert isinstance(events[0], RunStarted) and events[-1].reason in ("length", "eos")
        alone, ours = fold(engine.run(configs[name])).emitted, fold(events).emitted
        at = next((i for i, (a, b) in enumerate(zip(ours, alone, strict=False)) if a.id != b.id), None)
        assert at is None or (alone[at].gap is not None and alone[at].gap < NEAR_TIE), configs[name].method

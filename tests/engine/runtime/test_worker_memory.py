"""Memory that the engine's thread frees, on real models: caches after a cancel or a bug, weights after a switch."""

import gc
import weakref

import pytest
from fake_engine import rest
from tiny_pairs import request

from engine.errors import EngineError
from engine.runtime.worker import Worker
from engine.trace.events import Round
from engine.trace.trace import fold


@pytest.fixture
def real(own_cache, monkeypatch, quick_collections):
    for name, function in quick_collections.items():  # other tests freeze and thaw nothing
        monkeypatch.setattr(gc, name, function)
    found = Worker("cpu", "fp32")
    yield found
    found.close()


def ask_for(worker, config):
    return worker.submit([("run", config)])


def test_after_a_cancel_the_caches_are_free(real, pairs):
    job = ask_for(
        real, request(f"{pairs.root / 'target'}+{pairs.root / 'draft'}", "lm", max_new_tokens=200, prompt="a b c d")
    )
    stream = (e for _, e in job.entries() if isinstance(e, Round))
    rounds = [next(stream), next(stream)]
    runners = [real.engine.target.runner, real.engine.drafts.loaded["lm"].runner]
    caches = [weakref.ref(r.cache) for r in runners if r.cache is not None]
    job.cancel()
    assert job.wait(max(r.end - r.start for r in rounds) + 0.1 + 1.0)  # a second's grace on a busy machine
    assert [r.cache for r in runners] == [None, None]
    assert [c() for c in caches] == [None] * len(caches), "the keys and values are still held by something"


def test_after_a_bug_in_the_loop_the_cache_is_free_and_the_next_run_works(real, pairs, monkeypatch):
    pair = str(pairs.root / "target")
    before = fold(rest(ask_for(real, request(pair))))
    runner = real.engine.target.runner
    with monkeypatch.context() as patch:
        patch.setattr(runner, "forward", lambda *args, **kwargs: 1 / 0)
        with pytest.raises(EngineError, match="stumbled"):
            rest(ask_for(real, request(pair)))
    assert runner.cache is None
    assert fold(rest(ask_for(real, request(pair)))).text == before.text


@pytest.mark.parametrize("first", ["target", "gpt2"])
def test_switching_pairs_frees_the_first_models_weights(real, pairs, first):
    rest(ask_for(real, request(pairs.root / first, max_new_tokens=2)))
    runner = real.engine.target.runner
    weights = runner.model.embed if first == "target" else next(runner.model.parameters())
    gone = weakref.ref(weights)
    del runner, weights
    rest(ask_for(real, request(pairs.root / "draft", max_new_tokens=2)))
    gc.collect()
    assert gone() is None and real.engine.pair.target.name == "draft"


def test_a_method_first_asked_for_later_loads_its_draft(real, pairs):
    pair = f"{pairs.root / 'target'}+{pairs.root / 'draft'}"
    plain = fold(rest(ask_for(real, request(pair))))
    engine = real.engine
    assert not engine.has("lm")
    assert fold(rest(ask_for(real, request(pair, "lm")))).text == plain.text
    assert real.engine is engine and engine.has("lm")

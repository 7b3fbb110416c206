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


def ask_for(worker, pair, method="none", **settings):
    return worker.submit([("run", request(pair, method, **settings))])


def test_caches_are_free_after_a_cancel_and_a_bug(real, pairs, monkeypatch):
    pair = f"{pairs.root / 'target'}+{pairs.root / 'draft'}"
    plain, engine = fold(rest(ask_for(real, pair))), real.engine
    assert not engine.has("lm")
    job = ask_for(real, pair, "lm", max_new_tokens=200, prompt="a b c d")
    stream = (e for _, e in job.entries() if isinstance(e, Round))
    rounds = [next(stream), next(stream)]
    runners = [engine.target.runner, engine.drafts.loaded["lm"].runner]
    caches = [weakref.ref(r.cache) for r in runners if r.cache is not None]
    job.cancel()
    assert job.wait(max(r.end - r.start for r in rounds) + 0.1 + 1.0)  # a second's grace on a busy machine
    assert [r.cache for r in runners] == [None, None]
    assert [c() for c in caches] == [None] * len(caches), "the keys and values are still held by something"
    with monkeypatch.context() as patch:
        patch.setattr(runners[0], "forward", lambda *args, **kwargs: 1 / 0)
        with pytest.raises(EngineError, match="unexpected error"):
            rest(ask_for(real, pair))
    assert runners[0].cache is None
    assert fold(rest(ask_for(real, pair, "lm"))).text == plain.text and real.engine is engine


@pytest.mark.parametrize("first", ["target", pytest.param("gpt2", marks=pytest.mark.slow)])
def test_switching_pairs_frees_the_models_weights(real, pairs, first):
    rest(ask_for(real, pairs.root / first, max_new_tokens=2))
    model = real.engine.target.runner.model
    weights = weakref.ref(model.embed if first == "target" else next(model.parameters()))
    del model
    rest(ask_for(real, pairs.root / "draft", max_new_tokens=2))
    gc.collect()
    assert weights() is None and real.engine.pair.target.name == "draft"

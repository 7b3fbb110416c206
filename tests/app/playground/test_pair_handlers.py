"""The list of pairs and the options of each, on a made-up catalogue."""

import json
import time

from fake_worker import FakeEngine

from app.jobs.service import Service
from app.playground.pair_handlers import PairHandlers, precision_info
from app.server.limits import Limits
from app.ui.widgets import SKIP
from engine.weights.rounding_distances import Distance


def pairs() -> PairHandlers:
    return PairHandlers(Service(FakeEngine(), Limits()))


def test_pairs_that_cannot_run_are_marked_and_looked_up_only_once(monkeypatch):
    handlers, asked = pairs(), []
    engine, found = handlers.service.engine, handlers.service.engine.problems
    monkeypatch.setattr(engine, "problems", lambda pair, *more: asked.append(pair) or found(pair, *more))
    shown = {value: words for words, value in handlers.list_pairs()["choices"]}
    assert shown["giant"].endswith("(not on this machine)") and shown["thinker"] == "A model that thinks"
    assert "value" not in handlers.list_pairs(), "what was chosen stays"
    assert asked == ["smollm2-135m", "thinker", "giant"]
    clock = time.monotonic() + 31
    monkeypatch.setattr("app.jobs.offer.time.monotonic", lambda: clock)
    handlers.list_pairs()
    assert len(asked) == 6


def test_the_note_below_the_pair_says_what_works_by_translation(monkeypatch):
    handlers, said = pairs(), "The lm draft has a tokenizer of its own: its tokens are translated."
    assert json.loads(handlers.select("smollm2-135m", "lm").note)["text"] == ""
    monkeypatch.setattr(handlers.service.engine, "notes", lambda pair: [said])
    note = json.loads(handlers.select("smollm2-135m", "lm").note)
    assert note["text"] == said and note["kind"] == "quiet"
    assert json.loads(handlers.select("thinker", "lm").note)["text"].endswith(f"2.4 GB. {said}")
    assert said not in handlers.select("giant", "lm").note, "what cannot run says only why"


def test_an_own_model_that_cannot_run_is_refused_and_not_offered(monkeypatch):
    shared = PairHandlers(Service(FakeEngine(), Limits(own_models=False)))
    for handlers, name, words in (
        (pairs(), "us/giant", "needs about 900 GB"),
        (pairs(), "us/none", "has no public repository"),
        (pairs(), " ", "Name a model"),
        (shared, "us/large", "run SpecLens on your own machine"),
    ):
        listed, note = handlers.add_own(name)
        assert listed is SKIP and json.loads(note)["kind"] == "error" and words in json.loads(note)["text"]
        assert name not in handlers.service.offer.pairs
    monkeypatch.setenv("SPACE_ID", "alice/lens")
    assert not Limits.from_env().own_models and Limits.from_env().log


def test_a_precision_says_what_it_brings_here():
    offered, steps = ("auto", "fp32", "int8"), {"int8": 0.008, "fp32": 0.0125}
    assert "KL" not in precision_info(offered, steps, {})
    known = precision_info(offered, steps, {"int8": Distance(0.0033, 0.984, 692)})
    assert "80 in fp32, 125 in int8." in known and "at 98.4\u00a0% of tokens (KL 0.0033)" in known

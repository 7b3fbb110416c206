"""Measures points at an acceptance set by hand, on a real engine: kept after a stop, continued, cleared."""

import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from fake_worker import FakeEngine
from lab_pages import VISITOR, WorkingWorker, rows, said

from app.jobs.service import Service
from app.jobs.visitor import Session
from app.lab.experiment import PageState
from app.lab.theory.handlers import ALPHAS, GAMMAS, TheoryHandlers
from app.server.limits import Limits
from engine.bench.sample import Point
from engine.errors import Unavailable


def page(engine=None, before=lambda count: None, **limits) -> TheoryHandlers:
    return TheoryHandlers(Service(FakeEngine(WorkingWorker(engine, before)), Limits(**limits)))


def press(handlers, state, alphas=(0.1, 0.9), gammas=(2,), repeats=1, method="lm", tokens=24):
    handlers.begin(VISITOR, state)
    form = ("smollm2-135m", method, list(alphas), list(gammas), tokens, repeats)
    return list(handlers.run(VISITOR, state, Session(), *form))


def units(handlers) -> int:
    return handlers.service.engine.worker.units


def test_points_are_measured_beside_plain_decoding(engine):
    handlers, state = page(engine), PageState()
    updates = press(handlers, state, gammas=(1, 4), repeats=2)
    measured = state.result
    assert measured.points.keys() == {(a, g) for a in (0.1, 0.9) for g in (1, 4)}
    assert all(len(p.turns) == 2 and p.speedup > 0 for p in measured.ordered) and measured.costs.model.v[1] == 1.0
    assert measured.points[0.9, 4].tau > 2 > measured.points[0.1, 4].tau and measured.points[0.9, 4].seen > 0.6
    assert said(updates[-1])["kind"] in ("good", "slow") and len(rows(updates[-1].points)) == 4
    _, _, *files, restart = handlers.end(state)
    assert restart["interactive"]
    for file, name in zip(files, (".csv", ".json"), strict=True):
        assert file["value"].endswith(name) and "0.9" in Path(file["value"]).read_text(encoding="utf-8")


def test_the_same_settings_go_on_and_measure_nothing_twice(engine):
    handlers, state = page(engine), PageState()
    press(handlers, state)
    first, before = state.result, units(handlers)
    assert "had been measured" in said(press(handlers, state)[-1])["text"] and units(handlers) == before
    press(handlers, state, alphas=(0.1, 0.5, 0.9))
    assert state.result.points[0.9, 2] is first.points[0.9, 2] and (0.5, 2) in state.result.points
    assert units(handlers) == before + 2  # the costs, and one turn
    press(handlers, state, repeats=2)
    twice = state.result.points[0.9, 2].turns
    assert twice[0] is first.points[0.9, 2].turns[0] and len(twice) == 2
    press(handlers, state, alphas=(0.9,), tokens=32)  # other settings begin anew
    assert state.result.points.keys() == {(0.9, 2)} and state.result.tokens == 32


def test_stop_keeps_the_points_and_the_next_press_goes_on(engine):
    reached, go = threading.Event(), threading.Event()

    def before(count):
        if count == 2:  # after the costs and one point
            reached.set()
            go.wait(20)

    handlers, state, updates = page(engine, before), PageState(), []
    thread = threading.Thread(target=lambda: updates.extend(press(handlers, state, alphas=(0.1, 0.5, 0.9))))
    thread.start()
    assert reached.wait(20)
    handlers.stop(VISITOR)
    go.set()
    thread.join(10)
    assert not thread.is_alive()
    first = state.result.points
    assert list(first) == [(0.1, 2)] and said(updates[-1])["text"].startswith("Stopped: 1 of 3")
    press(handlers, state, alphas=(0.1, 0.5, 0.9))
    assert len(state.result.points) == 3 and state.result.points[0.1, 2] is first[0.1, 2]


def test_stop_before_the_stream_has_begun_ends_it(engine):
    handlers, state = page(engine), PageState()
    handlers.begin(VISITOR, state)
    handlers.stop(VISITOR)
    form = ("smollm2-135m", "lm", [0.1, 0.5, 0.9], [2], 24, 1)
    list(handlers.run(VISITOR, state, Session(), *form))
    assert not state.result or not state.result.points


def test_an_error_keeps_the_points(engine):
    def fail(count):
        if count == 2:
            raise Unavailable("The device is gone; plug it in again.")

    handlers, state = page(engine, fail), PageState()
    text = "The device is gone; plug it in again. The points so far stay: measure again to go on with the rest."
    assert said(press(handlers, state)[-1]) == {"kind": "error", "fraction": None, "text": text}
    assert list(state.result.points) == [(0.1, 2)]
    press(handlers, state)
    assert len(state.result.points) == 2


def test_start_over_forgets_the_points(engine):
    handlers, state = page(engine), PageState()
    press(handlers, state, alphas=(0.9,))
    _, curves, break_even, points, csv, _, restart = handlers.clear(Session(), state)
    assert state.result is None and rows(points) == rows(break_even) == [] and '"here":null' in curves
    assert csv["value"] is None and not csv["interactive"] and not restart["interactive"]


@pytest.mark.timing
def test_noise_is_measured_again_and_nothing_else(engine, monkeypatch):
    handlers, state = page(engine), PageState()
    press(handlers, state, alphas=(0.1, 0.5, 0.9))
    before, sound = dict(state.result.points), Point.measured.fget
    wrong = before[0.5, 2]
    monkeypatch.setattr(
        Point, "measured", property(lambda own: replace(sound(own), ceiling=0.0 if own is wrong else 99.0))
    )
    form = ("smollm2-135m", "lm", [0.1, 0.5, 0.9], [2], 24, 1)
    list(handlers.replace_noise(VISITOR, state, Session(), *form))
    after = state.result.points
    assert [place for place in before if before[place].turns != after[place].turns] == [(0.5, 2)]


def test_the_time_limit_keeps_the_points(engine):
    handlers, state = page(engine, lambda count: time.sleep(0.6) if count else None, lab_seconds=2), PageState()
    assert "may take up to 2 s" in said(press(handlers, state, alphas=ALPHAS, gammas=GAMMAS)[-1])["text"]
    assert 0 < len(state.result) < len(ALPHAS) * len(GAMMAS)


@pytest.mark.parametrize(
    ("changes", "limits", "words"),
    [
        ({"alphas": ()}, {}, "at least one α"),
        ({"tokens": 100}, {"new_tokens": 64}, "this page allows 1 to 64"),
        ({}, {"lab_seconds": 0}, "offers no experiments that need a model; run SpecLens on your own machine"),
    ],
)
def test_a_refused_form_reaches_no_engine_and_loses_no_points(engine, changes, limits, words):
    state = PageState()
    press(page(engine), state, alphas=(0.9,))
    measured, handlers = state.result, page(**limits)
    update = press(handlers, state, **changes)[-1]
    assert said(update)["kind"] == "error" and words in said(update)["text"]
    assert handlers.service.engine.worker.jobs == [] and (changes.get("tokens") or state.result is measured)


def test_the_pair_says_which_methods_can_be_measured():
    handlers = page()
    assert handlers.drafting_methods("smollm2-135m") == ["lm", "ngram"]
    for method in ("ngram", "lm"):
        update, _ = handlers.select_pair("thinker", method)
        assert update["value"] == "ngram" and [v for _, v in update["choices"]] == ["ngram"]
    assert "900 GB" in handlers.select_pair("giant", "lm")[1]

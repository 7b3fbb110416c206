"""Any α on the page: what is measured, kept and gone on with; charts, tables and files say what was measured."""

import csv
import io
import json
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_worker import FakeEngine, FakeWorker
from pairs import model_folder
from tiny import one_thread  # noqa: F401

from app.experiments.spots import Costs, Measured, Spot, Wanted
from app.lab.synthetic import ALPHAS, GAMMAS, SKIP, Screen, Synthetic, asked
from app.service import Limits, Service
from app.views import lab_synthetic as view
from engine.config import RunConfig
from engine.errors import BadInput, Unavailable
from engine.lab.synthetic import Timed, Turn
from engine.loading import load_engine
from engine.theory import break_even, idealised_speedup

COSTS = Costs("cpu", "fp32", 0.1, {1: 1.0, 2: 1.1, 4: 1.3, 8: 1.7}, 256, 0.03, 0.01)
VISITOR = SimpleNamespace(session_hash="a")


def spot(alpha, gamma, speedup, turns=1) -> Spot:
    one = Turn(Timed(48, 48, 1.0, 0, 0), Timed(48, 20, 1.0 / speedup, 28, 40))
    return Spot(alpha, gamma, alpha, 2.0, speedup, (one,) * turns)


def measured(*spots: Spot, **about) -> Measured:
    return Measured(**({"pair": "tiny", "method": "lm", "tokens": 48, "costs": COSTS} | about),
                    spots={s.place: s for s in spots})  # fmt: skip


def rows(text: str) -> list:
    return [[cell for cell, _ in row] for row in json.loads(text)["rows"]]


# ── what is still to be measured ──


def test_every_place_comes_once_before_any_comes_twice():
    wanted, spots = Wanted((0.3, 0.7), (1, 2), repeats=2), {}
    order = []
    for place in wanted.missing(spots):
        order.append(place)
        before = spots[place].turns if place in spots else ()
        spots[place] = replace(spot(*place, 1.0), turns=(*before, "turn"))
    once = [(0.3, 1), (0.7, 1), (0.3, 2), (0.7, 2)]
    assert order == [*once, *once] and wanted.left(spots) == 0 and wanted.turns == 8


def test_only_what_is_missing_is_asked_for():
    wanted = Wanted((0.3, 0.7), (2,), repeats=2)
    spots = {(0.3, 2): spot(0.3, 2, 1.0, turns=2), (0.7, 2): spot(0.7, 2, 1.0)}
    assert list(wanted.missing(spots)) == [(0.7, 2)]
    assert Wanted((0.3,), (2,)).left(spots) == 0 and Wanted((0.3, 0.9), (2, 4)).left(spots) == 3


@pytest.mark.parametrize(
    ("alphas", "gammas", "repeats", "words"),
    [
        ([], [2], 1, "at least one α"),
        ([0.5], [], 1, "at least one draft length"),
        ([0.55], [2], 1, "among the boxes"),
        ([0.5], [3], 1, "among the boxes"),
        ([0.5], [2], 99, "Repeats is 99"),
        ([0.5], [2], 1.5, "whole number"),
        ([0.5], [2], None, "whole number"),
        ([0.5], [2], float("nan"), "whole number"),
    ],
)
def test_nonsense_is_refused_in_words(alphas, gammas, repeats, words):
    with pytest.raises(BadInput, match=words):
        asked(alphas, gammas, repeats)


# ── chart, tables, files ──


def drawn(text: str) -> dict:
    return json.loads(text)["figures"][view.CHART]


def test_points_lie_on_the_axes_of_the_curves():
    found = drawn(view.chart(measured(spot(0.5, 2, 0.9), spot(0.8, 2, 1.4), spot(0.8, 4, 1.5)), gammas=(1,)))
    by_name = {trace["name"]: trace for trace in found["data"]}
    assert {f"γ = {g} predicted" for g in (1, 2, 4)} <= by_name.keys()
    assert by_name["γ = 2 measured"]["x"] == [0.5, 0.8] and by_name["γ = 2 measured"]["y"] == [0.9, 1.4]
    line = by_name["γ = 4 predicted"]
    assert line["x"][0] == 0 and line["x"][-1] == 1
    at = line["x"].index(0.5)
    assert line["y"][at] == pytest.approx(idealised_speedup(0.5, 4, COSTS.c, COSTS.v), rel=1e-5)
    start = by_name["γ = 2 pays from here"]
    assert start["x"] == [pytest.approx(break_even(2, COSTS.c, COSTS.v), rel=1e-4)] and start["y"] == [1.0]
    assert found["layout"]["shapes"][0]["y0"] == 1.0
    assert "γ = 1 measured" not in by_name and len(set(map(str, view.LOOKS.values()))) == len(GAMMAS)


def test_before_the_costs_are_known_the_chart_says_so():
    assert drawn(view.chart(Measured()))["data"] == [] and drawn(view.chart(Measured()))["note"] == view.EMPTY
    dear = replace(COSTS, c=3.0)
    names = [trace["name"] for trace in drawn(view.chart(measured(costs=dear), gammas=(1,)))["data"]]
    assert names == ["γ = 1 predicted"], "a curve that never reaches 1× has nowhere to cross it"


def test_the_table_has_every_point_and_marks_the_fastest():
    text = view.points(measured(spot(0.8, 2, 1.4), spot(0.5, 2, 0.9), spot(0.8, 4, 1.2, turns=3)))
    assert [row[:2] for row in rows(text)] == [["0.5", "2"], ["0.8", "2"], ["0.8", "4"]]
    assert [row[-1] for row in rows(text)] == ["1", "1", "3"]
    should = idealised_speedup(0.5, 2, COSTS.c, COSTS.v)
    assert rows(text)[0][5:8] == ["0.90×", f"{should:.2f}×", f"{0.9 / should:.2f}"]
    marked = [row[5] for row in json.loads(text)["rows"] if row[5][1]]
    assert marked == [["1.40×", "best"]]
    slow = json.loads(view.points(measured(spot(0.5, 2, 0.9))))["rows"]
    assert slow[0][5] == ["0.90×", ""], "nothing slower than plain decoding is a best"


@pytest.mark.parametrize(
    ("speeds", "words"),
    [
        ((0.8, 0.9, 1.1), "between α = 0.5 and 0.7"),
        ((0.8, 0.9, 0.95), "at none measured, up to 0.7"),
        ((1.0, 1.1, 1.2), "at every α measured, from 0.3"),
        ((0.8, 1.1, 0.9), "too noisy"),
        ((1.1, 0.9, 1.2), "too noisy"),
    ],
)
def test_where_points_rise_to_1_is_said_no_more_exactly_than_they_tell(speeds, words):
    spots = [spot(alpha, 2, speed) for alpha, speed in zip((0.3, 0.5, 0.7), speeds, strict=True)]
    assert words in view.crossing(spots)
    assert words in rows(view.thresholds(measured(*spots)))[0][2]


def test_the_table_can_be_opened_in_a_spreadsheet():
    named = measured(spot(0.5, 2, 0.9), pair="=cmd()", costs=replace(COSTS, device="@here"))
    found = list(csv.DictReader(io.StringIO(view.to_csv(named))))
    assert len(found) == 1 and found[0]["pair"] == "'=cmd()" and found[0]["device"] == "'@here"
    assert float(found[0]["speedup"]) == 0.9 and tuple(found[0]) == view.COLUMNS


def test_the_json_holds_the_single_runs():
    found = json.loads(view.to_json(measured(spot(0.5, 2, 0.9, turns=2))))
    assert found["costs"]["v"]["8"] == 1.7 and len(found["points"][0]["turns"]) == 2
    assert found["points"][0]["turns"][0]["plain"]["seconds"] == 1.0
    assert found["points"][0]["speedup"] == 0.9


def test_the_summary_never_calls_a_slowdown_a_gain():
    assert view.summary(measured(spot(0.5, 2, 0.9), spot(0.6, 2, 0.95))).startswith("No point was faster")
    assert view.summary(measured(spot(0.5, 2, 0.9), spot(0.9, 2, 1.6))).startswith("The fastest was α = 0.9")


def test_points_far_from_their_line_are_called_so():
    should = idealised_speedup(0.9, 2, COSTS.c, COSTS.v)
    for speedup, far in ((should, False), (1.25 * should, False), (2.5 * should, True), (0.5 * should, True)):
        both = measured(spot(0.9, 2, speedup), spot(0.9, 4, idealised_speedup(0.9, 4, COSTS.c, COSTS.v)))
        assert (view.NOISY in view.summary(both)) is far


# ── on the real engine, with a tiny model ──


class TinyWorker(FakeWorker):
    """Runs pieces of work on a real engine; ``before`` is called ahead of each."""

    def __init__(self, engine, before=lambda count: None):
        super().__init__()
        self.tiny, self.before, self.pieces = engine, before, 0

    def _work_on(self, job):
        try:
            self.pieces += 1
            self.before(self.pieces - 1)
            for item in job.work(self.tiny, lambda: job.cancelled):
                job.put(item)
        except Exception as error:
            return job.put(error)
        job.put(None)


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    root = tmp_path_factory.mktemp("any-alpha")
    model_folder(root / "target")
    model_folder(root / "draft", noise=0.3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("engine.loading.cache_root", lambda: root / "cache")
        yield load_engine(f"{root / 'target'}+{root / 'draft'}", "cpu")


def page(engine, before=lambda count: None, **limits) -> Synthetic:
    return Synthetic(Service(FakeEngine(TinyWorker(engine, before)), Limits(**limits)))


def press(handlers, kept=None, alphas=(0.0, 0.9), gammas=(2,), repeats=1, method="lm", tokens=24, who=VISITOR):
    alphas = [ALPHAS[0] if alpha == 0.0 else alpha for alpha in alphas]
    return handlers.run(who, "smollm2-135m", method, alphas, list(gammas), tokens, repeats, kept or Measured())


def last(screens, name):
    return next(getattr(s, name) for s in reversed(screens) if getattr(s, name) is not SKIP)


def said(screen: Screen) -> dict:
    return json.loads(screen.notice)


def test_points_are_measured_beside_plain_decoding(engine):
    handlers = page(engine)  # its files go with it
    screens = list(press(handlers, gammas=(1, 4), repeats=2))
    found = last(screens, "kept")
    assert found.spots.keys() == {(a, g) for a in (0.1, 0.9) for g in (1, 4)}
    assert all(len(s.turns) == 2 and s.speedup > 0 for s in found.points)
    assert found.spots[0.9, 4].tau > 2 > found.spots[0.1, 4].tau and found.spots[0.9, 4].seen > 0.6
    assert screens[0].run["value"] == "Running…" and screens[-1].run["value"] == "Run"
    assert screens[0].stop["interactive"] and not screens[-1].stop["interactive"]
    assert said(screens[-1])["kind"] in ("good", "slow") and found.costs.v[1] == 1.0
    for button, name in (("table_file", ".csv"), ("whole_file", ".json")):
        path = getattr(screens[-1], button)["value"]
        assert path.endswith(name) and "0.9" in Path(path).read_text(encoding="utf-8")


def test_the_same_settings_go_on_and_measure_nothing_twice(engine):
    handlers = page(engine)
    first = last(list(press(handlers)), "kept")
    before = handlers.service.engine.worker().pieces
    again = list(press(handlers, first))
    assert handlers.service.engine.worker().pieces == before and "had been measured" in said(again[-1])["text"]
    more = last(list(press(handlers, first, alphas=(0.0, 0.5, 0.9))), "kept")
    assert more.spots[0.9, 2] is first.spots[0.9, 2] and (0.5, 2) in more.spots
    assert handlers.service.engine.worker().pieces == before + 2  # the costs, and one turn
    twice = last(list(press(handlers, more, repeats=2)), "kept")
    assert twice.spots[0.9, 2].turns[0] is first.spots[0.9, 2].turns[0] and len(twice.spots[0.9, 2].turns) == 2


def test_other_settings_begin_anew(engine):
    handlers = page(engine)
    first = last(list(press(handlers)), "kept")
    other = last(list(press(handlers, first, alphas=(0.9,), tokens=32)), "kept")
    assert other.spots.keys() == {(0.9, 2)} and other.tokens == 32


def test_stop_keeps_what_was_measured_and_run_goes_on(engine):
    there, go = threading.Event(), threading.Event()

    def before(count):
        if count == 2:  # after the costs and one point
            there.set()
            go.wait(20)

    handlers = page(engine, before)
    screens: list[Screen] = []
    thread = threading.Thread(target=lambda: screens.extend(press(handlers, alphas=(0.0, 0.5, 0.9))))
    thread.start()
    assert there.wait(20)
    handlers.stop(VISITOR)
    go.set()
    thread.join(10)
    assert not thread.is_alive()
    found = last(screens, "kept")
    assert list(found.spots) == [(0.1, 2)]
    assert said(screens[-1])["text"].startswith("Stopped: 1 of 3") and screens[-1].run["value"] == "Run"
    assert screens[-1].restart["interactive"] and screens[-1].table_file["value"]
    whole = last(list(press(handlers, found, alphas=(0.0, 0.5, 0.9))), "kept")
    assert len(whole.spots) == 3 and whole.spots[0.1, 2] is found.spots[0.1, 2]


def test_an_error_is_a_sentence_and_the_points_stay(engine):
    def fail(count):
        if count == 2:
            raise Unavailable("The device is gone; plug it in again.")

    handlers = page(engine, fail)
    screens = list(press(handlers))
    assert said(screens[-1]) == {
        "kind": "error", "fraction": None,
        "text": "The device is gone; plug it in again. The points measured so far stay.",
    }  # fmt: skip
    found = last(screens, "kept")
    assert list(found.spots) == [(0.1, 2)] and screens[-1].run["value"] == "Run"
    assert len(last(list(press(handlers, found)), "kept").spots) == 2


def test_start_over_forgets():
    screen = Synthetic(Service(FakeEngine(), Limits())).restart()
    assert screen.kept == Measured() and rows(screen.points) == [] and rows(screen.thresholds) == []
    assert drawn(screen.charts)["data"] == [] and screen.table_file == {"__type__": "update", "value": None,
                                                                       "interactive": False}  # fmt: skip


def test_the_time_limit_ends_it_and_keeps_the_points(engine):
    slow = page(engine, lambda count: time.sleep(0.6) if count else None, lab_seconds=1)
    screens = list(press(slow, alphas=ALPHAS, gammas=GAMMAS))
    assert "may take up to 1 s" in said(screens[-1])["text"]
    assert 0 < len(last(screens, "kept").spots) < len(ALPHAS) * len(GAMMAS)


@pytest.mark.parametrize(
    ("changes", "limits", "words"),
    [
        ({"alphas": ()}, {}, "at least one α"),
        ({"tokens": 0}, {}, "max_new_tokens is 0"),
        ({"tokens": 100}, {"new_tokens": 64}, "this page allows 64"),
        ({}, {"lab_seconds": 0}, "offers no experiments"),
    ],
)
def test_what_cannot_be_measured_is_told_and_nothing_reaches_the_engine(changes, limits, words):
    handlers = Synthetic(Service(FakeEngine(FakeWorker()), Limits(**limits)))
    kept = measured(spot(0.5, 2, 1.2), pair="smollm2-135m", tokens=24)
    screens = list(press(handlers, kept, **changes))
    assert said(screens[-1])["kind"] == "error" and words in said(screens[-1])["text"]
    assert handlers.service.engine.worker().jobs == [] and screens[-1].run["value"] == "Run"


def test_a_bad_request_loses_no_points():
    handlers = Synthetic(Service(FakeEngine(), Limits()))
    kept = measured(spot(0.5, 2, 1.2), pair="smollm2-135m", tokens=24)
    assert list(press(handlers, kept, alphas=()))[-1].kept == kept


def test_another_visitor_gets_a_turn_between_two_points(engine):
    handlers = page(engine, lambda count: time.sleep(0.15))
    thread = threading.Thread(target=lambda: list(press(handlers, alphas=ALPHAS[:6])))
    thread.start()
    time.sleep(0.5)
    list(handlers.service.race("other", RunConfig("Hi", method="none", gamma=0, max_new_tokens=2)))
    assert thread.is_alive(), "the experiment was still going on"
    handlers.stop(VISITOR)
    thread.join(10)
    assert not thread.is_alive()


def test_the_pair_says_which_methods_can_be_measured():
    handlers = Synthetic(Service(FakeEngine(), Limits()))
    assert handlers.methods("smollm2-135m") == ["lm", "ngram"]
    kept = handlers.chosen("thinker", "ngram")
    assert kept.method["value"] == "ngram" and [v for _, v in kept.method["choices"]] == ["ngram"]
    assert handlers.chosen("thinker", "lm").method["value"] == "ngram"
    assert "900 GB" in handlers.chosen("giant", "lm").notice
    assert "does not offer" in handlers.chosen("nonsense", "lm").notice

"""Is it lossless? on the page: pieces add up to the whole, verdicts in words, mistakes that raise α are caught."""

import csv
import io
import json
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from fake_worker import FakeEngine
from pairs import model_folder
from tiny import one_thread  # noqa: F401

import app.experiments.distribution as experiment
from app.experiments.trials import MISTAKES, RIGHT, SHOWS, TOY, Asked, Finding, Trials
from app.lab.distribution import CONTROLS, NAMES, QUICK, SKIP, TOY_METHODS, Distribution, Screen, asked
from app.service import Limits, Service
from app.views import lab_distribution as view
from engine.broken import MUTANTS
from engine.config import SamplingParams
from engine.lab.distribution import drawn, judge, on_toy, toy_runs
from engine.loading import load_engine
from engine.toy import PLAIN, drafter_for, weather

VISITOR = SimpleNamespace(session_hash="a")
FEW = 300


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    root = tmp_path_factory.mktemp("lossless")
    model_folder(root / "target")
    model_folder(root / "draft", noise=0.3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("engine.loading.cache_root", lambda: root / "cache")
        yield load_engine(f"{root / 'target'}+{root / 'draft'}", "cpu")


def page(**limits) -> Distribution:
    return Distribution(Service(FakeEngine(), Limits(**limits)))


def values(**changes) -> list:
    start = {control.name: control.default for control in CONTROLS} | {"runs": FEW} | changes
    return [start[name] for name in NAMES]


def said(screen: Screen) -> dict:
    return json.loads(screen.notice)


def rows(text: str) -> list:
    return [[cell for cell, _ in row] for row in json.loads(text)["rows"]]


def finding(**changes) -> Finding:
    """Two outcomes, seen a little more and a little less often than they should be."""
    known = {
        "asked": Asked(runs=100), "law": {(0, 0): 0.5, (0, 1): 0.3, (1, 0): 0.2},
        "counts": {(0, 0): 52, (0, 1): 30, (1, 0): 18}, "accepted": 60, "tested": 100, "statistic": 0.28, "freedom": 2,
        "words": {(0, 0): ("sun", "sun"), (0, 1): ("sun", "rain"), (1, 0): ("rain", "sun")}, "p_value": 0.87,
        "distance": 0.02, "band": (0.01, 0.09), "false_alarm": 1e-3,
    }  # fmt: skip
    return Finding(**known | changes)


# ── what the page says of the engine without importing it ──


def test_the_mistakes_are_those_of_the_engine():
    assert [(name, rule.words) for name, rule in MISTAKES.items()] == [(m.name, m.wrong) for m in MUTANTS]
    for mutant in MUTANTS:
        rule = MISTAKES[mutant.name]
        assert rule.method == mutant.method
        assert rule.anywhere == (mutant.drafts is None and mutant.method == "lm")
    assert set(QUICK) <= MISTAKES.keys()


def test_the_toys_words_and_methods_are_the_engines():
    target, draft = weather()
    assert target.words == view.WORDS
    assert all(drafter_for(method, draft) for method in TOY_METHODS)


# ── runs that add up ──


def test_draws_of_other_seeds_add_up_to_the_whole():
    target, draft = weather()
    runs = toy_runs(target, draft, 2, PLAIN, 3, None, "lm")
    parts = drawn(runs, range(40), 2) + drawn(runs, range(40, 100), 2)
    assert parts == on_toy(target, draft, 100)[1] and parts.runs == 100


def test_pieces_take_up_where_the_last_one_stopped(monkeypatch):
    asked_ = Asked(runs=120)
    one = made(asked_)
    monkeypatch.setattr(experiment, "SECONDS", 0.0)  # a piece is over with its first batch
    many = made(asked_)
    assert many.found[asked_] == one.found[asked_]
    assert (many.pieces, one.pieces) == (120 / experiment.BATCH, 1)


def made(asked_: Asked, engine=None, cancelled=lambda: False) -> Trials:
    """All pieces of one test, one after the other."""
    trials = Trials([asked_])
    trials.pieces = 0
    for work in experiment.pieces(trials):
        trials.pieces += 1
        assert trials.pieces < 1000, "no piece got anywhere"
        for report in work(engine, cancelled):
            trials.add(report.value)
        if cancelled():
            break
    return trials


def test_another_first_seed_makes_other_runs():
    counts = [made(Asked(runs=60, first=first)).found.popitem()[1].counts for first in (0, 0, 10_000)]
    assert counts[0] == counts[1] != counts[2]


def test_a_finding_is_what_the_engines_own_test_says():
    asked_ = Asked(runs=FEW, rule="no-residual")
    got = made(asked_).found[asked_]
    mutant = next(mutant for mutant in MUTANTS if mutant.name == "no-residual")
    law, draws = on_toy(*weather(), FEW, 3, asked_.sampling, 2, mutant, "lm")
    test = judge(law, draws)
    assert (got.statistic, got.freedom, got.p_value, got.distance, got.band) == (
        test.statistic, test.freedom, test.p_value, test.distance, test.band,
    )  # fmt: skip
    assert got.alpha == draws.alpha and got.runs == FEW and got.law == law


def test_a_real_pair_is_tested_and_a_broken_one_accused(engine):
    asked_ = Asked(engine.pair.name, RIGHT, "lm", 2, SamplingParams(1.5, top_k=3), 250, prompt="say")
    right = made(asked_, engine).found[asked_]
    assert right.verdict == "right" and right.tested > right.accepted > 0
    assert set(right.words) == {*right.law, *right.counts}
    assert all(len(words) == len(outcome) for outcome, words in right.words.items())
    broken = replace(asked_, rule="ratio-inverted")
    assert made(broken, engine).found[broken].verdict == "wrong"


@pytest.mark.parametrize("looks", range(40, 44))  # Stop may come before a run, in its middle, or behind it
def test_a_run_that_was_broken_off_is_no_outcome(engine, looks):
    asked_ = Asked(engine.pair.name, RIGHT, "lm", 2, SamplingParams(1.5, top_k=3), 200, prompt="say")
    left = [looks]

    def cancelled():
        left[0] -= 1
        return left[0] < 0

    trials = made(asked_, engine, cancelled)
    got = trials.found[asked_]
    assert 0 < got.runs < 200 and not got.whole
    assert all(got.law.get(outcome, 0) > 0 for outcome in got.counts), "a torn run would look like proof of a mistake"


# ── what is asked for ──


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"temperature": 0}, "one outcome and nothing to test"),
        ({"runs": None}, "Runs is empty"),
        ({"runs": 5}, "Runs is 5"),
        ({"runs": 10**6}, "Runs is 1000000"),
        ({"length": 9}, "Tokens looked at is 9"),
        ({"gamma": 0}, "Draft length γ is 0"),
        ({"first": -1}, "First seed is -1"),
        ({"top_p": 0}, "top_p is 0"),
        ({"rule": "nonsense"}, "no rule 'nonsense'"),
        ({"pair": "smollm2-135m", "rule": "raw-q"}, "only the toy has"),
        ({"pair": "smollm2-135m", "prompt": " "}, "prompt is empty"),
    ],
)
def test_nonsense_is_a_sentence_and_the_next_run_works(changes, words):
    handlers = page()
    last = list(handlers.run(VISITOR, {}, *values(**changes)))[-1]
    assert said(last)["kind"] == "error" and words in said(last)["text"]
    assert last.run["value"] == "Run" and last.stop["interactive"] is False
    assert said(list(handlers.run(VISITOR, {}, *values()))[-1])["kind"] == "good"


def test_what_stands_in_the_hidden_prompt_is_no_business_of_the_toys():
    assert asked(values(prompt="something")) == asked(values(prompt=""))
    assert asked(values()).config is None
    config = asked(values(pair="smollm2-135m", prompt="The sky", runs=50)).config
    assert (config.prompt, config.max_new_tokens, config.chat, config.gamma) == ("The sky", 3, False, 2)


def test_a_mistake_on_the_toy_brings_the_drafter_that_shows_it():
    assert asked(values(method="ngram")).drafted_by == "ngram"
    assert asked(values(method="ngram", rule="sibling-q")).drafted_by == "without_replacement"


def test_choosing_a_pair_offers_what_it_has():
    handlers = page()
    chosen = handlers.chosen("smollm2-135m", "raw-q")
    assert chosen.rule["value"] == RIGHT and "raw-q" not in dict(map(reversed, chosen.rule["choices"]))
    assert chosen.method["value"] == "lm" and {v for _, v in chosen.method["choices"]} == {"none", "ngram", "lm"}
    assert chosen.prompt["visible"] and (chosen.top_k, chosen.runs) == (3, 150)
    assert said(handlers.chosen("giant", RIGHT))["kind"] == "error"
    back = handlers.chosen(TOY, "no-residual")
    assert back.rule["value"] == "no-residual" and len(back.rule["choices"]) == 1 + len(MUTANTS)
    assert not back.prompt["visible"]


# ── on the page ──


def test_the_toy_needs_no_model_and_is_found_lossless():
    handlers = page(lab_seconds=0)
    screens = list(handlers.run(VISITOR, {}, *values()))
    assert screens[0].run["value"] == "Running…" and screens[0].stop["interactive"]
    assert any("of 300 runs" in said(s)["text"] for s in screens if s.notice is not SKIP)
    counting = [rows(s.rules)[0][-2] for s in screens if s.rules is not SKIP and rows(s.rules)]
    assert counting[0] == "being counted" and counting[-1].startswith("lossless"), "no verdict before the end"
    last = screens[-1]
    assert said(last)["kind"] == "good" and "300 runs" in said(last)["text"] and "α = 0." in said(last)["text"]
    assert "one right engine in 1,000" in said(last)["text"]
    assert last.run["value"] == "Run" and handlers.service.engine.fake.jobs == []
    assert [row[0] for row in rows(last.rules)] == ["the right rule"]
    assert all(file["interactive"] for file in (last.whole_file, last.rules_file, last.outcomes_file))


def test_a_pair_is_refused_in_words_where_experiments_are_off():
    last = list(page(lab_seconds=0).run(VISITOR, {}, *values(pair="smollm2-135m", method="lm")))[-1]
    assert said(last)["kind"] == "error" and "no experiments" in said(last)["text"]


def test_every_rule_is_run_in_turn_and_the_sum_is_told():
    last = list(page().every(VISITOR, {}, *values(runs=40)))[-1]
    assert list(last.found) == [RIGHT, *MISTAKES] and all(f.whole for f in last.found.values())
    noticed = sum(f.verdict == "wrong" for f in last.found.values())
    assert said(last)["text"].startswith(f"{noticed} of 19 mistakes were noticed; the right rule was not accused")
    hidden = [rule for rule, f in last.found.items() if f.verdict != "wrong" and rule != RIGHT]
    assert f"Not noticed with these settings: {', '.join(hidden)}." in said(last)["text"] and noticed > 4
    assert "Buttons above bring settings that show " in said(last)["text"]


@pytest.mark.timeout(600)  # thousands of runs, and a busy machine is no failure
@pytest.mark.parametrize("rule", SHOWS)
def test_a_mistake_that_the_start_hides_shows_under_the_settings_that_a_button_brings(rule):
    handlers = page()
    updates = dict(zip(NAMES, handlers.revealing(rule)(), strict=True))
    brought = {name: update["value"] for name, update in updates.items() if "value" in update}
    assert brought["pair"] == TOY and brought["rule"] == rule and set(brought) == {*NAMES} - {"first", "prompt"}
    asked_for = values(**brought)
    found = list(handlers.only(rule)(VISITOR, {}, *asked_for))[-1].found
    assert found[rule].verdict == "wrong" and found[rule].whole and found[rule].p_value < 1e-6
    at_start = list(handlers.only(rule)(VISITOR, {}, *values(runs=1000)))[-1]
    assert at_start.found[rule].verdict == "right"
    assert "Buttons above bring settings that show" in view.tally([at_start.found[rule]], 1)[1]
    assert "Buttons above" not in view.tally([replace(found[rule], p_value=0.5)], 1)[1]


def test_acceptance_rises_with_a_rule_that_is_caught():
    """With what the page starts with. Seeds are fixed, so this is no matter of luck."""
    handlers, found = page(), {}
    for rule in (RIGHT, "raw-q"):
        last = list(handlers.only(rule)(VISITOR, found, *values(runs=1000)))[-1]
        found = last.found
    assert found[RIGHT].verdict == "right" and found["raw-q"].verdict == "wrong"
    assert found["raw-q"].alpha > found[RIGHT].alpha
    note = json.loads(last.charts)["figures"]["lossless-rules"]["note"]
    assert note.startswith("1 wrong rule keeps more drafts than the right one") and note.endswith(": raw-q.")


def test_rules_gather_in_the_table_while_the_settings_stay():
    handlers = page()
    first = list(handlers.run(VISITOR, {}, *values()))[-1].found
    both = list(handlers.only("no-residual")(VISITOR, first, *values()))[-1].found
    assert list(both) == [RIGHT, "no-residual"] and list(first) == [RIGHT]
    again = list(handlers.only(RIGHT)(VISITOR, both, *values()))[-1].found
    assert list(again) == ["no-residual", RIGHT]
    other = list(handlers.run(VISITOR, both, *values(gamma=1)))[-1].found
    assert list(other) == [RIGHT]


def test_a_button_for_one_rule_sets_the_list_too():
    screens = list(page().only("raw-q")(VISITOR, {}, *values()))
    assert screens[0].rule == "raw-q" and "On purpose: q is taken before temperature" in said(screens[-1])["text"]


def start(handler, *arguments) -> tuple[threading.Thread, list[Screen]]:
    screens: list[Screen] = []
    thread = threading.Thread(target=lambda: screens.extend(handler(VISITOR, {}, *arguments)))
    thread.start()
    return thread, screens


def wait_for(condition, seconds=10):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.01)


def test_stop_judges_what_there_is():
    handlers = page()
    thread, screens = start(handlers.run, *values(runs=20_000))
    wait_for(lambda: any(s.found for s in screens if s.found is not SKIP))
    handlers.stop(VISITOR)
    thread.join(5)
    assert not thread.is_alive()
    last = screens[-1]
    got = last.found[RIGHT]
    assert 0 < got.runs < 20_000 and "Stopped early" in said(last)["text"] and last.run["value"] == "Run"
    assert last.whole_file["interactive"] and rows(last.rules)[0][-2].endswith("(stopped early)")


def test_a_second_press_takes_the_screen_over():
    handlers = page()
    thread, screens = start(handlers.run, *values(runs=20_000))
    wait_for(lambda: any(s.found for s in screens if s.found is not SKIP))
    second = list(handlers.only("tail-kept")(VISITOR, {}, *values()))
    thread.join(5)
    assert not thread.is_alive() and screens[-1].stop is SKIP, "the first must not hide the second one's Stop"
    assert said(second[-1])["kind"] == "slow" and second[-1].run["value"] == "Run"
    assert handlers._latest == {}


# ── charts, tables, words, files ──


def test_the_law_stands_beside_what_was_seen_with_its_noise():
    figure = json.loads(view.charts(finding(), {RIGHT: finding()}))["figures"]["lossless-law"]
    bars, law = figure["data"]
    assert bars["x"] == law["x"] == ["sun sun", "sun rain", "rain sun"]
    assert bars["y"] == [0.52, 0.3, 0.18] and law["y"] == [0.5, 0.3, 0.2]
    assert law["error_y"]["array"][0] == pytest.approx(1.96 * 0.05, rel=1e-3)
    assert law["error_y"]["arrayminus"] == law["error_y"]["array"] and law["error_y"]["symmetric"] is False


def test_the_noise_of_few_runs_leaves_no_share_below_none_or_above_all():
    few = replace(finding(), counts={(0, 0): 1})
    law = json.loads(view.charts(few, {RIGHT: few}))["figures"]["lossless-law"]["data"][1]
    assert [y - down for y, down in zip(law["y"], law["error_y"]["arrayminus"], strict=True)] == [0, 0, 0]
    assert [y + up for y, up in zip(law["y"], law["error_y"]["array"], strict=True)] == pytest.approx([1, 1, 0.984])


def test_the_distance_stands_in_its_band():
    figure = json.loads(view.charts(finding(), {}))["figures"]["lossless-distance"]
    assert figure["data"][0]["x"] == [0.02] and "inside the grey box" in figure["note"]
    band = figure["layout"]["shapes"][0]
    assert (band["x0"], band["x1"]) == (0.01, 0.09)
    assert (
        "above the grey box"
        in json.loads(view.charts(finding(distance=0.3), {}))["figures"]["lossless-distance"]["note"]
    )


def test_what_the_target_never_writes_comes_first_and_is_said():
    got = finding(counts={(0, 0): 99, (2, 2): 1}, words=finding().words | {(2, 2): ("wind", "wind")}, p_value=0.0,
                  statistic=float("inf"), freedom=1)  # fmt: skip
    assert view.shown(got)[0] == (2, 2)
    assert "never" in rows(view.outcomes(got))[0]
    kind, text = view.verdict(got)
    assert kind == "slow" and "χ² is infinite" in text
    assert "The first bar stands for what the target would never write" in view.charts(got, {RIGHT: got})
    assert json.loads(view.to_json({RIGHT: got}))["tests"][0]["chi_squared"] is None


def test_many_outcomes_are_cut_and_said_to_be():
    law = {(i, 0): 0.01 for i in range(100)}
    got = finding(law=law, counts={(0, 0): 100}, words={}, asked=Asked("tiny", prompt="x"))
    assert len(view.shown(got)) == view.MOST_OUTCOMES == len(rows(view.outcomes(got)))
    assert "20 of 100 outcomes are drawn" in json.loads(view.charts(got, {}))["figures"]["lossless-law"]["note"]


def test_a_models_text_never_meets_a_chart_nor_a_formula():
    words = {(0, 0): ("<b>bold", " =1+1"), (0, 1): ("=cmd()", "\n"), (1, 0): ("{{1}}", "${1}")}
    got = finding(words=words, asked=Asked("tiny", prompt="x", runs=100))
    drawn_ = view.charts(got, {RIGHT: got})
    assert not any(text in drawn_ for text in ("bold", "cmd", "{{1}}", "${1}"))
    assert [bar["x"] for bar in json.loads(drawn_)["figures"]["lossless-law"]["data"]] == [["1", "2", "3"]] * 2
    table = view.outcomes(got)
    assert "<" not in table and rows(table)[0][0] == "1: <b>bold | ␣=1+1" and rows(table)[1][0] == "2: =cmd() | ⏎"
    read = list(csv.DictReader(io.StringIO(view.outcomes_csv(got))))
    assert [row["text"] for row in read] == ["<b>bold =1+1", "'=cmd()\n", "{{1}}${1}"]
    assert [row["seen"] for row in read] == ["52", "30", "18"]


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({}, "good", "Lossless, as far as 100 runs can tell. χ² = 0.3 with 2 degrees of freedom, p = 0.87"),
        ({"p_value": 1e-9}, "slow", "p = 1·10⁻⁹ after 100 runs"),
        ({"freedom": 0, "p_value": 1.0, "statistic": 0.0}, "quiet", "This cannot tell"),
        ({"tested": 0}, "good", "nothing was drafted"),
        ({"asked": Asked(runs=500)}, "good", "Stopped early: 500 runs were asked for."),
        ({"asked": Asked(runs=100, rule="raw-q")}, "quiet", "These settings hide the mistake"),
    ],
)
def test_verdicts(changes, kind, words):
    got = view.verdict(finding(**changes))
    assert got[0] == kind and words in got[1]


def test_files_hold_every_number():
    both = {RIGHT: finding(), "raw-q": finding(asked=Asked(runs=100, rule="raw-q"), p_value=1e-5)}
    read = list(csv.DictReader(io.StringIO(view.rules_csv(both))))
    assert [(row["rule"], row["alpha"], row["verdict"]) for row in read] == [
        (RIGHT, "0.6", "right"), ("raw-q", "0.6", "wrong"),
    ]  # fmt: skip
    whole = json.loads(view.to_json(both))["tests"][1]
    assert whole["asked"]["sampling"]["top_p"] == 0.95 and whole["band"] == [0.01, 0.09]
    assert whole["outcomes"][0] == {"tokens": [0, 0], "text": ["sun", "sun"], "probability": 0.5, "seen": 52}

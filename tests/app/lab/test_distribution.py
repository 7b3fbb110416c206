"""Tests of rules on the page: units add up to the whole, verdicts in words, wrong rules that raise α are caught."""

import csv
import io
import json
from collections import Counter
from dataclasses import replace

import pytest
from fake_worker import FakeEngine
from lab_pages import VISITOR, form, notice_of, rows

from app.jobs.service import Service
from app.lab.distribution import view, work
from app.lab.distribution.page import TOY_START, Distribution
from app.lab.distribution.work import REVEALING, TOY_PROMPT, RuleReport, RuleTest, RuleTests, rules_of
from app.lab.experiment import PageState
from app.server.limits import Limits
from app.ui.widgets import SKIP
from engine.config import RunConfig, SamplingParams
from engine.errors import BadInput
from engine.tools.exactness.results import JSON_TOY, MISTAKES, RIGHT, TOY, Draws, RuleTestResult

FEW = 300


def page(**limits) -> Distribution:
    return Distribution(Service(FakeEngine(), Limits(**limits)))


def press(handlers, state=None, rules=None, **changes) -> list:
    state = PageState() if state is None else state
    handlers.begin(VISITOR, state)
    return list(handlers.press(rules)(VISITOR, state, *form(handlers, **{"runs": FEW} | changes)))


def toy(rule=RIGHT, runs=FEW, first=0) -> RuleTest:
    sampling = SamplingParams(TOY_START["temperature"], top_p=TOY_START["top_p"])
    return RuleTest(RunConfig(TOY_PROMPT, TOY, "lm", 2, sampling, 3, first, chat=False), rule, runs)


def on_pair(pair="tiny", runs=100) -> RuleTest:
    return RuleTest(RunConfig("say", pair, "lm", 2, SamplingParams(1.5, top_k=3), 2, chat=False), RIGHT, runs)


def report(test=None, words=None, **changes) -> RuleReport:
    """Three outcomes, seen a little more and a little less often than they should be."""
    draws = Draws(Counter({(0, 0): 52, (0, 1): 30, (1, 0): 18}), 60, 100)
    known = {
        "law": {(0, 0): 0.5, (0, 1): 0.3, (1, 0): 0.2}, "draws": draws, "statistic": 0.28, "freedom": 2,
        "p_value": 0.87, "distance": 0.02, "band": (0.01, 0.09),
    }  # fmt: skip
    text = {(0, 0): ("sun", "sun"), (0, 1): ("sun", "rain"), (1, 0): ("rain", "sun")} if words is None else words
    return RuleReport(test or toy(runs=100), RuleTestResult(**known | changes), text)


def saved(results) -> list[str]:
    return [*view.files(results, {"saved": "2026-11-26T00:00:00Z"}).values()]


def figure(name: str, result: RuleReport, results=None) -> dict:
    return json.loads(view.draw({**(results or {}), result.rule: result})["charts"])["figures"][f"lossless-{name}"]


def measure(test: RuleTest, engine=None, cancelled=lambda: False) -> tuple[RuleReport, int]:
    """The result of one test, and how many units of work it took."""
    tests, units = RuleTests([test]), 0
    for unit in work.work_units(tests):
        units += 1
        assert units < 1000, "no unit got anywhere"
        for report in unit(engine, cancelled):
            tests.add(report.value)
        if cancelled():
            break
    return tests.results[test], units


def test_each_unit_continues_the_one_before(monkeypatch):
    one, units = measure(toy(runs=120))
    assert units == 1
    monkeypatch.setattr(work, "SECONDS", 0.0)  # a unit is over with its first batch
    assert measure(toy(runs=120)) == (one, 120 / work.BATCH)
    assert measure(toy(runs=120, first=10_000))[0].result.draws != one.result.draws


@pytest.mark.parametrize("looks", range(40, 44))  # Stop may come before a run, in its middle, or after it
def test_a_run_that_was_stopped_is_no_outcome(engine, looks):
    left = [looks]

    def cancelled():
        left[0] -= 1
        return left[0] < 0

    stopped = measure(on_pair(engine.pair.name, runs=200), engine, cancelled)[0]
    assert 0 < stopped.result.runs < 200 and not stopped.is_complete
    assert all(stopped.mass(o) > 0 for o in stopped.result.draws.counts), "half a run would look like a mistake"


def test_the_form_becomes_a_test():
    def parse(rule: str = RIGHT, **changes) -> RuleTest:
        return page().parse(form(page(), **changes), rule)

    assert parse(prompt="hidden on the toy") == parse() == toy(runs=2_000)
    config = parse(pair="smollm2-135m", prompt="The sky", runs=50, first=7).config
    assert (config.prompt, config.max_new_tokens, config.chat, config.gamma, config.seed) == ("The sky", 3, False, 2, 7)
    assert parse(method="ngram").method == "ngram"
    assert parse("sibling-q", method="ngram").method == "without_replacement", "it shows the mistake"


def test_the_toy_needs_no_model_and_is_lossless():
    handlers, state = page(lab_seconds=0), PageState()
    updates = press(handlers, state)
    assert any("of 300 runs" in str(update.notice) for update in updates)
    assert handlers.service.runs.worker.engine is None
    verdicts = [rows(u.rules)[0][-2] for u in updates if u.rules is not SKIP and rows(u.rules)]
    assert verdicts[0] == "being counted" and verdicts[-1].startswith("lossless"), "no verdict before the end"
    last = notice_of(updates[-1])
    assert last["kind"] == "good" and "300 runs" in last["text"] and "α = 0." in last["text"]
    assert "a correct engine fails once in 1,000 times" in last["text"]
    assert [row[0] for row in rows(updates[-1].rules)] == ["the right rule"]
    assert all(file["interactive"] for file in handlers.end(state)[2:])


@pytest.mark.slow
def test_every_rule_is_tested_in_turn():
    state = PageState()
    last = press(page(), state, "every", runs=40)[-1]
    mistakes = rules_of(TOY)[1:]
    assert len(mistakes) == 22 and not any(MISTAKES[name].masks for name in mistakes)
    assert list(state.result) == [RIGHT, *mistakes] and all(each.is_complete for each in state.result.values())
    hidden = [rule for rule, each in state.result.items() if each.result.verdict != "wrong" and rule != RIGHT]
    text = notice_of(last)["text"]
    noticed = f"{len(mistakes) - len(hidden)} of {len(mistakes)} mistakes were noticed"
    assert text.startswith(f"{noticed}; the right rule passed")
    rows_ = dict(zip([RIGHT, *mistakes], (row[0] for row in rows(last.rules)), strict=True))
    words = ", ".join(f"“{rows_[rule]}”" for rule in hidden)
    assert f"Not noticed with these settings: {words}." in text and 0 < len(hidden) < 16, "as the table calls them"
    assert "Buttons above load settings that show " in text


@pytest.mark.slow
@pytest.mark.timeout(600)  # thousands of runs, however busy the machine is
@pytest.mark.parametrize("rule", REVEALING)
def test_a_button_loads_settings_that_reveal_a_mistake(rule):
    handlers, state = page(), PageState()
    names = [field.name for field in handlers.fields]
    updates = dict(zip(names, handlers.reveal(rule), strict=True))
    loaded = {name: update["value"] for name, update in updates.items() if "value" in update}
    assert loaded["pair"] == TOY and loaded["rule"] == rule and set(loaded) == {*names} - {"first", "prompt"}
    press(handlers, state, **loaded)
    shown = state.result[rule]
    assert shown.is_complete and shown.result.verdict == "wrong" and shown.result.p_value < 1e-6
    press(handlers, state, rules=[rule], runs=1000)
    assert state.result[rule].result.verdict == "right", "the toy's first settings hide it"
    assert "Buttons above load settings that show" in view.tally([state.result[rule]], 1)
    passing = replace(shown, result=replace(shown.result, p_value=0.5))
    assert "Buttons above" not in view.tally([passing], 1)


def test_text_that_the_target_never_writes_comes_first():
    draws = Draws(Counter({(0, 0): 99, (2, 2): 1}))
    result = report(draws=draws, words={(2, 2): ("wind", "wind")}, p_value=0.0, statistic=float("inf"), freedom=1)
    assert view.outcomes_to_show(result)[0] == (2, 2)
    assert "never" in rows(view.outcomes(result))[0]
    kind, text = view.judge(result)
    assert kind == "slow" and "χ² is infinite" in text
    assert "The first bar is text that the target never writes" in figure("law", result)["note"]
    assert json.loads(saved({RIGHT: result})[0])["tests"][0]["chi_squared"] is None


def test_note_calls_rules_that_accept_more_as_the_table_does():
    worse = report(toy("raw-q", 100), p_value=1e-9, draws=Draws(Counter({(0, 0): 100}), 99, 100))
    results = {RIGHT: report(), "raw-q": worse}
    note = figure("rules", worse, results)["note"]
    assert note.endswith("would call that an improvement: “q before temperature”.")
    assert rows(view.rules(results))[1][0] == "q before temperature"


def test_a_models_text_never_meets_a_chart_nor_a_formula():
    words = {(0, 0): ("<b>bold", " =1+1"), (0, 1): ("=cmd()", "\n"), (1, 0): ("{{1}}", "${1}")}
    result = report(on_pair(), words)
    charts = view.draw({RIGHT: result})["charts"]
    assert not any(text in charts for text in ("bold", "cmd", "{{1}}", "${1}"))
    assert [bar["x"] for bar in figure("law", result)["data"]] == [["1", "2", "3"]] * 2
    table = view.outcomes(result)
    assert "<" not in table and rows(table)[0][0] == "1: <b>bold | ␣=1+1" and rows(table)[1][0] == "2: =cmd() | ⏎"
    read = list(csv.DictReader(io.StringIO(view.outcomes_csv(result, {"device": "here"}))))
    assert [row["text"] for row in read] == ["<b>bold =1+1", "'=cmd()\n", "{{1}}${1}"]
    assert [row["seen"] for row in read] == ["52", "30", "18"]


def test_files_hold_every_number():
    both = {RIGHT: report(), "raw-q": report(toy("raw-q", 100), p_value=1e-5)}
    read = csv.DictReader(io.StringIO(view.rules_csv(both, {})))
    assert [(row["rule"], row["verdict"]) for row in read] == [(RIGHT, "right"), ("raw-q", "wrong")]
    content = json.loads(saved(both)[0])["tests"][1]
    assert content["asked"]["sampling"]["top_p"] == 0.95 and content["band"] == [0.01, 0.09]
    assert content["outcomes"][0] == {"tokens": [0, 0], "text": ["sun", "sun"], "probability": 0.5, "seen": 52}


@pytest.mark.parametrize(
    ("test", "changes", "kind", "words"),
    [
        (toy(runs=100), {}, "good", "Lossless, as far as 100 runs can tell. χ² = 0.3 with 2 degrees of freedom, p"),
        (toy(runs=100), {"p_value": 1e-9}, "slow", "p = 1·10⁻⁹ after 100 runs"),
        (toy(runs=100), {"freedom": 0, "p_value": 1.0, "statistic": 0.0}, "quiet", "This cannot tell"),
        (toy(runs=100), {"draws": Draws(Counter({(0, 0): 100}))}, "good", "nothing was drafted"),
        (toy(runs=500), {}, "good", "Stopped early: 100 of 500 runs."),
        (toy("raw-q", 100), {}, "quiet", "These settings hide the mistake"),
    ],
)
def test_a_verdict_says_what_the_draws_showed(test, changes, kind, words):
    verdict = view.judge(report(test, **changes))
    assert verdict[0] == kind and words in verdict[1]


def loaded(handlers, rule: str) -> dict:
    """Returns the values that a button puts into the form."""
    updates = zip((field.name for field in handlers.fields), handlers.reveal(rule), strict=True)
    values = {name: update.get("value", SKIP) if isinstance(update, dict) else update for name, update in updates}
    return {name: value for name, value in values.items() if value is not SKIP}


def test_broken_json_is_shown_beside_the_right_one():
    handlers, state = page(), PageState()
    values = loaded(handlers, "ends-early") | {"runs": 50}
    assert (values["pair"], values["rule"], values["temperature"]) == (JSON_TOY, "ends-early", 1.0)
    last = press(handlers, state, rules=[RIGHT, "ends-early"], **values)[-1]
    right, wrong = state.result[RIGHT], state.result["ends-early"]
    assert not right.impossible and right.result.verdict == "right" and right.result.draws.tested > 50
    assert {*map(right.json, right.outcomes)} == {f'{{"sky":"{word}"}}' for word in ("sun", "rain", "wind")}
    assert wrong.result.verdict == "wrong" and len(wrong.impossible) >= 2
    broken = rows(last.outcomes)[0]
    assert broken[1] == "never" and not broken[0].endswith('"} ∎') and broken[-1] in map(right.json, right.outcomes)
    kind, words = view.judge(wrong)
    assert kind == "slow" and "of 50 answers are broken JSON, most often “" in words and "” instead of “{" in words
    assert "broken" not in view.judge(right)[1]
    again = view.read_saved(saved(state.result)[0].encode()).result
    assert again[RIGHT] == right and handlers.draw(again)[:-1] == handlers.draw(state.result)[:-1]


def test_each_toy_offers_the_mistakes_that_it_shows():
    masks = {name for name, mistake in MISTAKES.items() if mistake.masks}
    assert {*rules_of(JSON_TOY)} == {RIGHT, *masks} and masks.isdisjoint(rules_of("smollm2-135m"))
    assert notice_of(press(page(), pair=JSON_TOY, rule="raw-q")[-1])["text"].startswith(
        "This model cannot show this mistake"
    )
    with pytest.raises(BadInput, match="cannot show this mistake"):
        toy("mask-stays")
    assert Distribution.select_rule(JSON_TOY, "raw-q") is SKIP

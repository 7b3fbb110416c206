"""The plan of many users, and the charts, sentences and files of made-up rows."""

import json
from dataclasses import replace

import pytest
from fake_worker import FakeEngine
from lab_pages import PAIR, rows, short_form

from app.jobs.service import Service
from app.lab.experiment import PageState
from app.lab.users import view, work
from app.lab.users.page import Users
from app.lab.users.work import LONG, SHORT, UsersResult
from app.server.limits import Limits
from app.ui.widgets import SKIP
from engine.config import AUTO
from engine.tools.bench.users_results import UsersRow
from engine.trace.costs import CostModel

USERS = Users(Service(FakeEngine(), Limits()))


def form(**changes) -> list:
    return short_form("users", USERS, **changes)


def row(users: int, method: str, total: float, gain: float | None = 1.0, **more) -> UsersRow:
    values = {
        "prompts": 4, "tokens": 40, "seconds": 2.0, "total_tokens_per_second": total - 1, "tokens_per_second": 1.0,
        "all_writing_tokens_per_second": total, "predicted_tokens_per_second": total + 2, "over_fewest_users": None,
        "over_plain": None, "all_writing_over_plain": gain, "drafted_per_round": 0.5, "acceptance": None, "ttft": 0.1,
        "differs": 0, "tau": 3.0,
    } | more  # fmt: skip
    return UsersRow(users, method, **values)


ROWS = {
    SHORT: (
        row(1, "lm", 15.0, 1.5, acceptance=0.5, low=1.4, high=1.6), row(1, "none", 10.0),
        row(4, "lm", 25.0, 1.25, acceptance=0.6, low=1.2, high=1.3), row(4, "none", 20.0),
        row(16, "lm", 35.0, 0.875, acceptance=0.7, low=0.8, high=0.9), row(16, "none", 40.0),
    ),
    LONG: (row(1, "lm", 16.0, 2.0), row(1, "none", 8.0)),
}  # fmt: skip
COSTS = {name: CostModel(c, {1: 1.0, 2: 1.1, 16: 2.5}, 256, 0.1) for name, c in (("none", 0.0), ("lm", 0.1))}


def result(short=ROWS[SHORT], costs=COSTS, methods=("lm",), **more) -> UsersResult:
    plan = USERS.parse(form(methods=list(methods), contexts=[SHORT, LONG]))[1]
    return UsersResult(PAIR, plan, {SHORT: tuple(short)} | more, costs, True)


def figures(*args, **more) -> dict:
    return json.loads(view.draw(result(*args, **more), SHORT)["charts"])["figures"]


def test_a_plan_of_users_counts_its_work():
    asked = {"methods": ["ngram", AUTO], "contexts": [LONG, SHORT], "gamma": AUTO, "repeats": 3.0}
    _, plan = USERS.parse(form(numbers=" 16;2 2\n1", **asked))
    assert plan.users == (1, 2, 16) and plan.contexts == (SHORT, LONG) and plan.gamma == AUTO
    assert plan.texts == 16 and plan.cells == 2 * 3 * (2 + 1) * 3
    short, long = plan.prompts(SHORT), plan.prompts(LONG)
    assert len(short) == len(long) == 16 and len({prompt.category for prompt in short}) == 6
    for before, after in zip(short, long, strict=True):
        assert after.text.endswith(before.text) and len(after.text) - len(before.text) >= work.LONG_TEXT
    assert json.loads(USERS.size(*form()))["text"] == "4 points, each of 2 answers with 8 tokens."
    assert "choose from 1 to 32" in json.loads(USERS.size(*form(numbers="0")))["text"]
    ticked = USERS.select_pair(PAIR, ["ngram", "eagle", AUTO])
    assert ticked["value"] == ["ngram", AUTO] and "none" not in dict(ticked["choices"]).values()


def test_two_users_never_get_more_than_two_tokens_a_pass():
    one = row(1, "none", 15.8)
    words = view.advice(result((one, row(2, "none", 44.7))), SHORT)
    assert "2.8" not in words and "noise, so measure again" in words
    within = view.advice(result((one, row(2, "none", 33.2))), SHORT)
    assert "2.1 times" in within, "within the noise of the clock"


def test_price_of_a_draft_rises_with_users_beside_its_chance():
    figure = figures()["users-price"]
    needs, alpha, cross = figure["data"]
    assert [x for x, size in zip(needs["x"], needs["marker"]["size"], strict=True) if size] == [1], "v(1) and v(2) only"
    assert (needs["line"]["dash"], alpha["line"]["dash"]) == ("dash", "dot") and "Dashed: predicted" in figure["note"]
    assert needs["y"][0] == pytest.approx(0.2) and needs["y"] == sorted(needs["y"]) and alpha["y"] == [0.5, 0.6, 0.7]
    assert (cross["x"], cross["y"], alpha["x"]) == ([16], [0.7], [1, 4, 16]), "the one that was measured to be slower"
    assert "6.4 times as much" in figure["note"], "16 ÷ v(16)"
    v = {1: 1.0, 2: 1.1, 3: 1.2, 5: 1.4, 6: 1.5}
    needs = figures(costs={name: replace(costs, v=v) for name, costs in COSTS.items()})["users-price"]["data"][0]
    assert [x for x, size in zip(needs["x"], needs["marker"]["size"], strict=True) if size] == [1, 2, 5]
    for method in (AUTO, "lookahead", "medusa"):
        costs = COSTS | {method: COSTS["lm"]}
        unpriced = json.loads(view.figures.encode_figures({"p": view.draw_break_even(ROWS[SHORT], [method], costs)}))
        assert "one token after another" in unpriced["figures"]["p"]["note"], method


def test_no_predicted_price_is_drawn_where_a_measurement_excludes_it():
    """The costs say that 4 users gain 1.23×; where their gain was measured to be 0.80×, the curve says nothing."""
    slower = row(4, "lm", 16.0, 0.8, predicted_tokens_per_second=27.0, acceptance=0.6, low=0.75, high=0.85)
    figure, before = figures((*ROWS[SHORT][:2], slower, *ROWS[SHORT][3:]))["users-price"], figures()["users-price"]
    needs, alpha, cross = figure["data"]
    assert [users for users, chance in zip(needs["x"], needs["y"], strict=True) if chance is not None] == [1]
    drawn = before["data"][0]["y"][:4]
    assert None not in drawn and drawn == sorted(drawn), "where it was drawn up to 4 users and beyond"
    assert alpha["y"] == [0.5, 0.6, 0.7] and cross["x"] == [4, 16]
    assert "Near 4 users the prediction is left out" in figure["note"] and "left out" not in before["note"]


def test_the_table_marks_the_fastest_with_as_many_users():
    table = json.loads(view.table(ROWS[SHORT], ("lm",), SHORT))
    marked = [(r[0][0], r[1][0]) for r in table["rows"] if any(mark for _, mark in r)]
    assert marked == [("1", "draft model"), ("4", "draft model"), ("16", "plain decoding")]
    assert [r[1][0] for r in table["rows"][:2]] == ["plain decoding", "draft model"]
    assert "1.25× (1.20–1.30)" in [cell for cell, _ in table["rows"][3]]
    once = [replace(each, low=None, high=None) for each in ROWS[SHORT]]
    assert not any(mark for r in json.loads(view.table(once, ("lm",), SHORT))["rows"] for _, mark in r)


def test_impossible_point_is_marked_as_noise_and_left_out_of_lines():
    wrong = row(1, "lm", 22.1, 2.21, tau=1.4, low=2.0, high=2.4, busy=0.45)
    noisy = result((wrong, row(1, "none", 10.0), row(4, "lm", 25.0, 1.25, tau=1.5), row(4, "none", 20.0)))
    shown = "".join(view.draw(noisy, SHORT).values()) + view.advice(noisy, SHORT)
    assert "2.21" not in shown and "22.1" not in shown and "noise" in shown
    assert "Press Measure again" in shown and "Other programs took 45\u00a0% of the processor" in shown


def test_no_line_is_drawn_over_a_number_that_has_no_point():
    """The line went straight from 1 to 16 users, as if 4 had been measured; there is only noise."""
    plain = [row(users, "none", total) for users, total in ((1, 10.0), (4, 20.0), (16, 42.0))]
    wrong = row(4, "lm", 99.0, 4.95, tau=1.4)
    drawn = figures((*plain, row(1, "lm", 15.0, 1.5), wrong, row(16, "lm", 31.5, 0.75)))
    for name, values in (("users-gain", [1.5, None, 0.75]), ("users-total", [15.0, None, 31.5])):
        line = next(each for each in drawn[name]["data"] if each["name"] == "draft model")
        assert (line["x"], line["y"]) == ([1, 4, 16], values) and "lines" in line["mode"], name
    each, predicted = drawn["users-each"]["data"][:2]
    assert each["y"] == [10.0, 5.0, 2.625] and len(predicted["x"]) == len(predicted["y"]) == 3


@pytest.mark.parametrize(
    ("gains", "words"),
    [
        ((1.5, 1.25, 0.75), "Draft model pays with 4 users at once (1.25×) and no longer with 16. It stops paying"),
        ((1.5, 1.25, 1.1), "Draft model still pays with 16 users at once: 1.10×."),
        ((0.8, 0.7, 0.6), "Draft model does not pay with any number of users here."),
        ((1.5, 0.99, 0.98), "Draft model pays with one user; with more there is no certain difference."),
        ((1.02, 0.99, 0.98), "Draft model makes no difference that could be measured."),
    ],
)
def test_the_finding_says_from_how_many_users_on_drafting_no_longer_pays(gains, words):
    totals = dict(zip((1, 4, 16), (10.0, 20.0, 42.0), strict=True))
    plain = [row(users, "none", total) for users, total in totals.items()]
    measured = [row(n, "lm", gain * totals[n], gain) for n, gain in zip(totals, gains, strict=True)]
    advice = view.advice(result([*measured, *plain]), SHORT)
    assert advice.startswith(f"Without drafting, 16 users together get 4.2 times the tokens of one. {words}")
    assert "Nothing could be compared" in view.advice(result([row(1, "none", 10.0)], methods=()), SHORT)


def test_prompts_of_one_length_are_chosen_and_files_hold_all():
    state = PageState(result=result(**ROWS))
    assert [name for _, name in USERS.end(state)[-1]["choices"]] == [SHORT, LONG]
    table = USERS.select_part(state, LONG).table
    assert json.loads(table)["caption"].startswith("After a long text") and len(rows(table)) == 2
    assert set(map(str, USERS.select_part(state, "endless"))) == {str(SKIP)}
    table, numbers = USERS.files(state.result).values()
    assert "passes" not in table.splitlines()[0] and json.loads(numbers).keys() >= {"device", "precision", "saved"}
    assert len(table.splitlines()) == 1 + 8 and len(json.loads(numbers)["rows"][LONG]) == 2

"""Many users on the page: plans, views on made-up rows, and the handlers with a real engine on a tiny pair."""

import csv
import json
from dataclasses import replace

import pytest
from lab_pages import VISITOR, Tiny, notices, rows, said
from tiny_pairs import model_folder

from app.jobs.service import Service
from app.lab.experiment import PageState
from app.lab.users import view, work
from app.lab.users.handlers import SKIP, UsersHandlers, parse_form
from app.lab.users.work import LONG, SHORT
from app.server.limits import Limits
from engine.bench.users_results import UsersRow
from engine.config import AUTO
from engine.errors import BadInput
from engine.trace.events import CostModel


def row(users: int, method: str, total: float, gain: float | None = 1.0, **more) -> UsersRow:
    values = {
        "prompts": 4, "tokens": 40, "seconds": 2.0, "total_tokens_per_second": total - 1, "tokens_per_second": 1.0,
        "all_writing_tokens_per_second": total, "predicted_tokens_per_second": total + 2, "over_fewest_users": None,
        "over_plain": None, "all_writing_over_plain": gain, "drafted_per_round": 0.5, "acceptance": None, "ttft": 0.1,
        "differs": 0,
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
COSTS = {
    "none": CostModel(0.0, {1: 1.0, 2: 1.1, 16: 2.5}, 256, 0.1),
    "lm": CostModel(0.1, {1: 1.0, 2: 1.1, 16: 2.5}, 256, 0.1),
}


# ── plans ──


def form(**changes) -> list:
    values = {
        "pair": "tiny", "methods": ["ngram"], "users": "1, 2", "gamma": "2", "contexts": [SHORT], "tokens": 6,
        "repeats": 1,
    } | changes  # fmt: skip
    return list(values.values())


def test_a_plan_counts_its_work():
    _, plan = parse_form(
        *form(users=" 16;2 2\n1", methods=["ngram", AUTO], contexts=[LONG, SHORT], gamma=AUTO, repeats=3.0)
    )
    assert plan.users == (1, 2, 16) and plan.contexts == (SHORT, LONG) and plan.gamma == AUTO
    assert plan.texts == 16 and plan.cells == 2 * 3 * (2 + 1) * 3
    short, long = plan.prompts(SHORT), plan.prompts(LONG)
    assert len(short) == len(long) == 16 and len({prompt.category for prompt in short}) == 6
    for before, after in zip(short, long, strict=True):
        assert after.text.endswith(before.text) and len(after.text) - len(before.text) >= work.LONG_TEXT


def test_two_users_never_get_more_than_two_tokens_a_pass():
    rows_ = (row(1, "none", 15.8), row(2, "none", 44.7))
    words = view.finding(rows_, ())
    assert "2.8" not in words and "noise, so measure again" in words
    assert "2.1 times" in view.finding((rows_[0], row(2, "none", 33.2)), ()), "within the noise of the clock"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"users": ""}, "at least one number of users"),
        ({"users": None}, "at least one number of users"),
        ({"users": "1, many"}, "Users at once must be a whole number"),
        ({"users": "0, 1"}, "Users at once is 0; choose from 1 to 32"),
        ({"users": "-3"}, "choose from 1 to 32"),
        ({"users": "1,1000000"}, "is 1,000,000; choose from 1 to 32"),
        ({"users": "1 2 3 4 5 6 7 8 9"}, "at most 8 numbers"),
        ({"contexts": []}, "kind of prompts"),
        ({"contexts": ["endless"]}, "kind of prompts"),
        ({"gamma": "99"}, "choose from 1 to 32"),
        ({"tokens": 0}, "from 1 to"),
        ({"repeats": 6}, "from 1 to 5"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(changes, words):
    with pytest.raises(BadInput, match=words):
        parse_form(*form(**changes))


# ── views ──


def figures(context=SHORT, methods=("lm",), rows_=ROWS, costs=COSTS) -> dict:
    return json.loads(view.drawn(rows_, context, methods, costs))["figures"]


def test_each_method_is_a_line_with_its_prediction_dashed():
    plain, _, lm, predicted = figures()["users-total"]["data"]
    assert plain["x"] == [1, 4, 16] and plain["y"] == [10, 20, 40] and lm["y"] == [15, 25, 35]
    assert predicted["y"] == [17, 27, 37] and predicted["line"]["dash"] == "dash" and predicted["showlegend"] is False
    each = figures()["users-each"]["data"]
    assert each[2]["y"] == [15, 6.25, 2.1875] and each[0]["y"] == [10, 5, 2.5]


def test_both_contexts_are_compared_with_plain_decoding():
    figure = figures()["users-gain"]
    short, long = figure["data"]
    assert (short["y"], long["y"]) == ([1.5, 1.25, 0.875], [2.0]) and short["line"]["dash"] != long["line"]["dash"]
    assert short["error_y"]["array"] == pytest.approx([0.1, 0.05, 0.025]) and long["error_y"]["array"] == [0]
    assert short["showlegend"] and not long["showlegend"] and "Dotted: after a long text" in figure["note"]
    assert figure["layout"]["shapes"][0]["y0"] == 1.0 and "after a long text" in long["hovertemplate"]
    assert "Choose a method" in figures(methods=())["users-gain"]["note"]


def test_the_price_of_a_drafted_token_rises_with_users_until_it_is_dearer_than_its_chance():
    figure = figures()["users-price"]
    needs, alpha, cross = figure["data"]
    assert needs["y"][0] == pytest.approx(0.2) and needs["y"] == sorted(needs["y"]) and alpha["y"] == [0.5, 0.5]
    first = cross["x"][0]
    assert needs["y"][needs["x"].index(first)] > 0.5 >= needs["y"][needs["x"].index(first) - 1]
    assert "6.4 times as much" in figure["note"], "16 ÷ v(16)"
    assert "other than auto" in figures(methods=(AUTO,))["users-price"]["note"]


def test_nothing_measured_yet_is_said():
    for drawn in (json.loads(view.blank())["figures"], figures(rows_={SHORT: (), LONG: ()})):
        assert set(drawn) == set(view.CHARTS) and all(not each["data"] and each["note"] for each in drawn.values())


def test_the_table_marks_the_fastest_with_as_many_users():
    table = json.loads(view.table(ROWS[SHORT], ("lm",), SHORT))
    marked = [(r[0][0], r[1][0]) for r in table["rows"] if any(mark for _, mark in r)]
    assert marked == [("1", "draft model"), ("4", "draft model"), ("16", "plain decoding")]
    assert [r[1][0] for r in table["rows"][:2]] == ["plain decoding", "draft model"]
    assert [cell for cell, _ in table["rows"][3]][2:] == [
        "25.0",
        "27.0",
        "6.2",
        "1.25× (1.20–1.30)",
        "0.50",
        "0.60",
        "24.0",
    ]
    once = [replace(each, low=None, high=None) for each in ROWS[SHORT]]
    assert not any(mark for r in json.loads(view.table(once, ("lm",), SHORT))["rows"] for _, mark in r)


def test_a_point_that_cannot_be_is_marked_as_noise_and_left_out_of_the_lines():
    wrong = row(1, "lm", 22.1, 2.21, tau=1.4, low=2.0, high=2.4, busy=0.45)
    rows_ = {SHORT: (wrong, row(1, "none", 10.0), row(4, "lm", 25.0, 1.25, tau=1.5), row(4, "none", 20.0))}
    shown = view.drawn(rows_, SHORT, ("lm",), COSTS) + view.table(rows_[SHORT], ("lm",), SHORT)
    shown += view.finding(rows_[SHORT], ("lm",))
    assert "2.21" not in shown and "22.1" not in shown and "noise" in shown
    assert "Measure again beside" in shown and "Other programs took 45% of the processor" in shown


@pytest.mark.parametrize(
    ("gains", "words"),
    [
        (
            (1.5, 1.25, 0.75),
            "Draft model pays with 4 users (1.25×) and no longer with 16. It turns somewhere between 4 and",
        ),
        ((1.5, 1.25, 1.1), "Draft model still pays with 16 users: 1.10×."),
        ((0.8, 0.7, 0.6), "Draft model does not pay with any number of users here."),
        ((1.1, 0.5, 0.4), "Draft model pays with one user (1.10×) and no longer with 4."),
        ((1.5, 0.99, 0.98), "Draft model pays with up to one user; with more there is no certain difference."),
        ((1.02, 0.99, 0.98), "Draft model makes no difference that could be measured."),
    ],
)
def test_the_finding_says_from_how_many_users_on_drafting_no_longer_pays(gains, words):
    totals = dict(zip((1, 4, 16), (10.0, 20.0, 42.0), strict=True))
    plain = [row(users, "none", total) for users, total in totals.items()]
    measured = [row(n, "lm", gain * totals[n], gain) for n, gain in zip(totals, gains, strict=True)]
    found = view.finding([*measured, *plain], ("lm",))
    assert found.startswith(f"Without drafting, 16 users together get 4.2 times the tokens of one. {words}")
    assert "Nothing could be compared" in view.finding([row(1, "none", 10.0)], ())


# ── the handlers, on a tiny pair ──


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    root = tmp_path_factory.mktemp("users")
    model_folder(root / "target", max_position_embeddings=4096)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECLENS_CACHE", str(root / "cache"))
        patch.setattr(work, "SECONDS_BETWEEN_REPORTS", 0.0)  # its passes are over sooner
        patch.setattr(work, "LONG_TEXT", 40)
        engine = Tiny()
        service = Service(engine, Limits(pairs=(str(root / "target"),)))
        yield UsersHandlers(service), service.offer.pair
        engine.worker.close()


def test_users_are_measured_stopped_and_measured_on(served):
    handlers, pair = served
    values, state, updates = form(pair=pair, contexts=[SHORT, LONG]), PageState(), []
    for update in handlers.run(VISITOR, state, *values):
        updates.append(update)
        if len(state.result) == 2:
            handlers.stop(VISITOR)
    stopped, texts = state.result, notices(updates)
    assert "press the button again" in texts[-1] and len(stopped) == 2 and not stopped.is_complete
    assert any("warming up" in text for text in texts) and any("Point 2 of 8: 1 at once" in text for text in texts)
    shares = [said(update).get("fraction") for update in updates if update.notice is not SKIP]
    assert any(share % 0.125 > 0 for share in shares if share), "progress within a point"

    handlers.begin(VISITOR, state)
    texts = notices(list(handlers.run(VISITOR, state, *values)))
    assert not any("Point 2 of" in text and "at once" in text for text in texts), "it was measured before"
    assert state.result.is_complete and state.result.rows[SHORT][:2] == stopped.rows[SHORT]
    assert "Without drafting, 2 users together" in texts[-1] and "N-gram lookup" in texts[-1]
    run, stop, table, numbers, shown = handlers.end(state)
    assert run["value"] == handlers.RUN and not stop["interactive"]
    assert shown["visible"] and [name for _, name in shown["choices"]] == [SHORT, LONG] and shown["value"] == SHORT
    with open(table["value"], encoding="utf-8-sig", newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["prompts_are"] for line in lines] == [SHORT] * 4 + [LONG] * 4 and lines[1]["users"] == "1"
    with open(numbers["value"], encoding="utf-8") as file:
        content = json.load(file)
    assert content["users"] == [1, 2] and len(content["rows"][LONG]) == 4 and content["costs"]["ngram"]["v"]

    selected = handlers.select_part(state, LONG)
    assert json.loads(selected[2])["caption"].startswith("After a long text") and len(rows(selected[2])) == 4
    assert set(map(str, handlers.select_part(state, "endless"))) == {str(SKIP)}
    again, anew = PageState(), PageState()
    assert not any("at once" in text for text in notices(handlers.run(VISITOR, again, *values)))
    assert again.result == state.result
    list(handlers.start_over(VISITOR, anew, *values))
    assert anew.result.is_complete and anew.result.rows != again.result.rows, "other times"


def test_noise_is_measured_again_with_plain_decoding_beside_it(served, monkeypatch):
    handlers, pair = served
    values, state = form(pair=pair, contexts=[SHORT]), PageState()
    list(handlers.run(VISITOR, state, *values))
    before, sound = {(row.users, row.method): row for row in state.result.rows[SHORT]}, UsersRow.measured.fget

    def measured(own):
        speedup = sound(own)
        is_wrong = own == before[2, "ngram"]
        return speedup and replace(speedup, ceiling=0.0 if is_wrong else 99.0)

    monkeypatch.setattr(UsersRow, "measured", property(measured))
    texts = notices(handlers.replace_noise(VISITOR, state, *values))
    after = {(row.users, row.method): row for row in state.result.rows[SHORT]}
    again = [place for place in before if before[place].seconds != after[place].seconds]
    assert state.result.is_complete and sorted(again) == [(2, "ngram"), (2, "none")]
    assert not any("1 at once" in text for text in texts)


def test_what_cannot_run_here_is_said(served, monkeypatch):
    handlers, pair = served
    assert json.loads(handlers.size(*form(pair=pair)))["text"] == "4 points, each of 2 answers with 6 tokens."
    assert "choose from 1 to 32" in json.loads(handlers.size(*form(users="0")))["text"]
    for changes, words in (
        ({"methods": ["eagle"]}, "no method 'eagle'"), ({"users": "64"}, "choose from 1 to 32"),
        ({"tokens": 8_000}, "this page allows"), ({"pair": "unknown"}, "does not offer the pair"),
    ):  # fmt: skip
        update = list(handlers.run(VISITOR, PageState(), *form(**({"pair": pair} | changes))))[-1]
        assert said(update)["kind"] == "error" and words in said(update)["text"], changes


def test_too_little_memory_is_said_and_the_points_so_far_stay(served, monkeypatch):
    handlers, pair = served
    state = PageState()
    room = {False: 10**12, True: 0}  # before the first point, and from then on
    monkeypatch.setattr("engine.runtime.run_batch.available_memory", lambda device: room[bool(state.result)])
    update = list(handlers.run(VISITOR, state, *form(pair=pair, methods=[], users="2", repeats=2, tokens=5)))[-1]
    assert said(update)["kind"] == "error" and "1 of 2 users" in said(update)["text"]
    assert "The points so far are kept" in said(update)["text"] and len(state.result) == 1


def test_methods_that_two_pairs_share_keep_their_tick(served):
    handlers, pair = served
    update = handlers.select_pair(pair, ["ngram", "eagle", AUTO])
    assert update["value"] == ["ngram", AUTO] and update["choices"][-1] == ("auto", AUTO)
    assert "none" not in dict(update["choices"]).values()

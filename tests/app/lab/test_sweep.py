"""The sweep on the page: plans, views on made-up cells, and the handlers with a real engine on a tiny model."""

import csv
import json
import os
import threading
from dataclasses import replace

import pytest
from lab_pages import VISITOR, Tiny, notices, said
from tiny_pairs import model_folder

from app.jobs.baseline import with_baseline
from app.jobs.service import Service
from app.lab import work_units
from app.lab.experiment import PageState
from app.lab.sweep import view
from app.lab.sweep.handlers import SKIP, SweepHandlers, parse_form
from app.lab.sweep.work import OWN, SweepPlan, prompts
from app.server.limits import Limits
from engine.bench.sweep_results import Cell
from engine.config import AUTO, RunConfig
from engine.errors import BadInput


def cell(method, gamma, category="all", speedup=1.0, temperature=0.0, low=None, high=None, turns=2) -> Cell:
    return Cell(method, gamma, temperature, category, turns, speedup, low, high, 20 * speedup, 0.5, max(1.5, speedup))


CELLS = (
    cell("none", 0),
    cell("ngram", 1, speedup=1.2, low=1.1, high=1.3), cell("ngram", AUTO, speedup=1.5, low=0.9, high=2),
    cell("lm", 1, speedup=0.8, low=0.7, high=0.9), cell("lm", AUTO, speedup=0.9, low=0.8, high=1.0),
    cell("none", 0, "chat"), cell("ngram", 1, "chat", 0.9), cell("ngram", AUTO, "chat", 0.95),
    cell("lm", 1, "chat", 1.1), cell("lm", AUTO, "chat", 1.05),
)  # fmt: skip


# ── plans ──


def form(**changes) -> list:
    values = {
        "pair": "tiny", "methods": ["ngram"], "gammas": ["1", "auto"], "temperatures": [0.0], "categories": ["chat"],
        "each": 1, "own": "", "repeats": 1, "tokens": 6,
    } | changes  # fmt: skip
    return list(values.values())


def test_a_plan_counts_its_work():
    _, plan = parse_form(*form(categories=["quote", "chat"], each=2.0, temperatures=[0, 1], repeats=3, own=" mine "))
    assert plan.gammas == (1, AUTO) and plan.categories == ("chat", "quote")
    assert [name for name, _ in plan.texts] == [OWN, "chat", "quote", "chat", "quote"]
    assert plan.turns == 5 * 2 * 3 and plan.runs == 30 * (1 + 2)
    assert plan.texts[1][1] == prompts()["chat"][0] and plan.texts[3][1] == prompts()["chat"][1]
    assert len(prompts()) == 6 and {len(texts) for texts in prompts().values()} == {8}, "as the page offers"
    mine = SweepPlan(("ngram",), (1,), (0.0,), (), own="Mine")
    assert mine.texts == [(OWN, "Mine")] and mine.runs == 2


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"methods": []}, "at least one method"),
        ({"gammas": []}, "at least one draft length"),
        ({"temperatures": []}, "at least one temperature"),
        ({"categories": [], "own": "  "}, "kind of text"),
        ({"gammas": ["x"]}, "Draft length must be a whole number"),
        ({"gammas": ["99"]}, "choose from 1 to 32"),
        ({"each": 9}, "from 1 to 8"),
        ({"each": float("inf")}, "must be a whole number"),
        ({"repeats": None}, "must be a whole number"),
        ({"tokens": 0}, "from 1 to"),
    ],
)
def test_a_plan_that_cannot_be_is_told(changes, said):
    with pytest.raises(BadInput, match=said):
        parse_form(*form(**changes))


# ── views ──


def figures(cells=CELLS, temperature=0.0) -> dict:
    return json.loads(view.drawn(cells, temperature))["figures"]


def test_the_map_has_a_row_a_setting_and_one_is_its_middle():
    (heat,) = figures()["sweep-heat"]["data"]
    assert heat["y"] == [f"{name}, γ = {gamma}" for name in ("n-gram lookup", "draft model") for gamma in (1, "auto")]
    assert heat["x"] == ["all", "chat"]
    assert heat["z"] == [[1.2, 0.9], [1.5, 0.95], [0.8, 1.1], [0.9, 1.05]]
    assert (heat["zmin"] + heat["zmax"]) / 2 == 1.0 and heat["zmax"] >= 1.5
    assert heat["text"][1] == ["≈ 1.50", "0.95"] and heat["text"][0] == ["1.20", "0.90"], "an interval around 1"


def test_lengths_stand_in_order_with_their_intervals():
    figure = figures((*CELLS, cell("ngram", 8, speedup=1.1, low=1.0, high=1.2)))["sweep-lengths"]
    ngram, lm = figure["data"]
    assert figure["layout"]["xaxis"]["categoryarray"] == ["1", "8", "auto"]
    assert ngram["x"] == ["1", "8", "auto", "auto"] and ngram["y"] == [1.2, 1.1, None, 1.5]  # a gap before auto
    assert lm["x"] == ["1", "auto", "auto"]
    assert ngram["error_y"]["arrayminus"] == [0.1, 0.1, 0, 0.6]
    assert ngram["error_y"]["array"] == [0.1, 0.1, 0, 0.166667], "the last ends at the most that its τ of 1.5 allows"
    assert "2 turns" in figure["note"]
    assert "no interval yet" in figures((CELLS[0], cell("lm", 1, turns=1)))["sweep-lengths"]["note"]


def test_only_the_temperature_asked_for_is_shown():
    other = cell("ngram", 1, speedup=7.0, temperature=1.0)
    assert "7" not in json.dumps(figures((*CELLS, other))["sweep-heat"]["data"][0]["z"])
    assert figures((*CELLS, other), 1.0)["sweep-heat"]["data"][0]["text"] == [["7.00"]]
    assert figures((), 0.0)["sweep-heat"]["data"] == []


def test_the_table_marks_the_best_on_each_kind():
    table = json.loads(view.table(CELLS, 0.0))
    assert table["heads"][-1] == "chat" and len(table["rows"]) == 5
    marked = {(row[0][0], place) for row in table["rows"] for place, (_, mark) in enumerate(row) if mark}
    assert marked == set(), "the best interval holds others, and on chat nothing was measured twice"
    assert table["rows"][2][1][0] == "1.50× (0.90–1.67)" and table["rows"][0][1][0] == "1"
    table = json.loads(view.table((*CELLS[:2], cell("lm", 1, speedup=1.5, low=1.4, high=1.6)), 0.0))
    assert [row[0][0] for row in table["rows"] if row[1][1]] == ["draft model, γ = 1"]


def test_advice_says_what_is_best_how_sure_it_is_and_where_not():
    unsure = view.advice(CELLS, 0.0)
    assert unsure.startswith("These cannot be told apart, not all surely faster: n-gram lookup, γ = 1, 1.20× (1.10–")
    sure = view.advice((CELLS[0], CELLS[1]), 0.0)
    assert sure == "Best for you on these texts: n-gram lookup, γ = 1, 1.20× (1.10–1.30) plain decoding."
    other = (cell("none", 0, "chat"), cell("lm", 1, "chat", 1.5, low=1.4, high=1.6))
    assert "On some kinds another was certainly faster: chat: draft" in view.advice((*CELLS[:2], *other), 0.0)
    assert "No setting of this sweep was faster" in view.advice((CELLS[0], CELLS[3]), 0.0)
    level = view.advice((CELLS[0], cell("lm", 1, speedup=1.1, low=0.9, high=1.2)), 0.0)
    assert level.startswith("No difference from plain decoding")


def test_a_setting_that_cannot_be_is_marked_as_noise_and_never_recommended():
    wrong = replace(cell("lm", 1, speedup=2.21, low=2.1, high=2.3), tau=1.4, busy=0.5)
    swept = (CELLS[0], CELLS[1], wrong)
    drawn = view.drawn(swept, 0.0) + view.table(swept, 0.0)
    assert "2.2" not in drawn and "2.3" not in drawn and "noise" in drawn
    assert "Other programs took 50% of the processor" in drawn
    assert view.advice(swept, 0.0).startswith("Good on these texts: n-gram lookup"), "noise may hide a faster one"
    assert view.advice((CELLS[0], wrong), 0.0).startswith("Nothing is certain yet"), "plain decoding has not won"
    assert "press Measure again beside" in view.advice(swept, 0.0)


# ── the handlers, on a tiny model ──


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    root = tmp_path_factory.mktemp("swept")
    model_folder(root / "target", max_position_embeddings=4096)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECLENS_CACHE", str(root / "cache"))
        engine = Tiny()
        service = Service(engine, Limits(pairs=(str(root / "target"),)))
        yield SweepHandlers(service), service.offer.pair, root / "cache"
        engine.worker.close()


def test_a_sweep_runs_and_is_offered_as_files(served):
    handlers, pair, cache = served
    state = PageState()
    updates = list(handlers.run(VISITOR, state, *form(pair=pair, categories=["chat", "code"])))
    texts = notices(updates)
    assert any("Run 3 of 6: chat" in text for text in texts) and any("warming up" in text for text in texts)
    assert said(updates[-1])["kind"] == "good" and state.result.is_complete
    assert {cell.category for cell in state.result.cells} == {"all", "chat", "code"}
    run, stop, table, numbers, shown, recipes = handlers.end(state)
    assert run["value"] == "Run the sweep" and not stop["interactive"] and not shown["visible"]
    with open(table["value"], encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(state.result.cells) == 9 and rows[0]["method"] == "none"
    with open(numbers["value"], encoding="utf-8") as file:
        content = json.load(file)
    assert content["sweep"]["pair"] == pair and len(content["cells"]) == 9
    assert json.loads(recipes)["lead"] and len(list((cache / "lab").glob("sweep-*.jsonl"))) == 1


def test_measured_again_nothing_runs_until_it_is_started_over(served):
    handlers, pair, _ = served
    values, first, again, anew = form(pair=pair, gammas=["2"]), PageState(), PageState(), PageState()
    list(handlers.run(VISITOR, first, *values))
    texts = notices(handlers.run(VISITOR, again, *values))
    assert again.result == first.result and not any("warming up" in text for text in texts)
    assert any("warming up" in text for text in notices(handlers.start_over(VISITOR, anew, *values)))
    assert anew.result.is_complete and anew.result.cells != first.result.cells  # other times


def test_noise_is_measured_again_and_nothing_else(served, monkeypatch):
    """A text whose speedup cannot be is measured again; the turns of the others stay as they are."""
    handlers, pair, cache = served
    values, state = form(pair=pair, gammas=["6"], categories=["chat", "code", "maths"], tokens=7), PageState()
    list(handlers.run(VISITOR, state, *values))
    sound = Cell.measured.fget
    cannot_be = True

    def measured(own):
        speedup = sound(own)
        is_wrong = cannot_be and own.category == "code" and own.method != "none"
        return replace(speedup, value=2.0, ceiling=1.0) if is_wrong else replace(speedup, ceiling=99.0)

    monkeypatch.setattr(Cell, "measured", property(measured))
    newest = max((cache / "lab").glob("sweep-*.jsonl"), key=os.path.getmtime)

    def turns() -> dict:
        lines = map(json.loads, newest.read_text().splitlines()[1:])
        return {tuple(line["key"]): line["result"] for line in lines}

    before = turns()
    assert "noise" in view.table(state.result.cells, 0.0)
    for _ in handlers.replace_noise(VISITOR, state, *values):
        if state.result and not state.result.is_complete:
            assert len(state.result.cells) == 6, "one of three texts is missing, and of all two cells"
    cannot_be = False
    after = turns()
    assert state.result.is_complete and after.keys() == before.keys()
    assert [key for key in before if before[key] != after[key]] == [(0.0, 1, 0)]


def test_a_stopped_sweep_keeps_its_turns_and_goes_on(served):
    handlers, pair, _ = served
    values = form(pair=pair, gammas=["3"], categories=["maths", "quote", "code"], temperatures=[0.0, 1.0])
    state, updates = PageState(), []
    for update in handlers.run(VISITOR, state, *values):
        updates.append(update)
        if state.result:
            handlers.stop(VISITOR)
    stopped = state.result
    assert "goes on from here" in said(updates[-1])["text"] and stopped and not stopped.is_complete
    handlers.begin(VISITOR, state)
    went_on = handlers.run(VISITOR, state, *values)
    while not state.result or state.result is stopped:
        next(went_on)
    assert state.result.cells == stopped.cells, "the earlier turns are shown before any other is measured"
    list(went_on)
    assert state.result.is_complete
    _, _, table, recipes = handlers.select_part(state, 1.0)
    assert "temperature 1" in json.loads(table)["caption"] and json.loads(recipes)["lead"]
    assert set(map(str, handlers.select_part(state, 0.7))) == {str(SKIP)}


def test_others_get_their_turn_between_two_turns_of_a_sweep(served):
    handlers, pair, _ = served
    service, seen, state = handlers.service, [], PageState()
    values = form(pair=pair, gammas=["4"], categories=["chat", "code", "maths", "quote"], each=4)

    def run():
        config = RunConfig("between", pair=pair, method="none", gamma=0, max_new_tokens=4)
        with service.runs.request("b") as request:
            seen.append(list(service.runs.run(request, with_baseline(config))))

    thread = threading.Thread(target=run)
    for _ in handlers.run(VISITOR, state, *values):
        if state.result and not thread.ident:
            thread.start()
        if seen and state.result and not state.result.is_complete:
            handlers.stop(VISITOR)
            break
    thread.join(60)
    assert seen and not service.runs.is_busy("b")
    assert not state.result.is_complete, "the other visitor waited for the whole sweep"


def test_the_size_and_what_this_server_does_not_offer_are_told(served):
    handlers, pair, _ = served
    assert json.loads(handlers.size(*form(pair=pair)))["text"] == "1 turn, 3 runs of up to 6 tokens."
    assert "at least one" in json.loads(handlers.size(*form(methods=[])))["text"]
    for changes, words in (
        ({"methods": ["lm"]}, "no method 'lm'"),
        ({"own": "x" * 9000}, "9,000 characters"),
        ({"methods": []}, "at least one method"),
    ):
        update = list(handlers.run(VISITOR, PageState(), *form(**({"pair": pair} | changes))))[-1]
        assert said(update)["kind"] == "error" and words in said(update)["text"], changes


def test_old_sweeps_go(tmp_path, monkeypatch):
    monkeypatch.setattr(work_units, "MOST_FILES", 2)
    for number in range(4):
        path = tmp_path / f"sweep-{number}.jsonl"
        path.write_text("")
        os.utime(path, (number, number))
    work_units.tidy(tmp_path / "sweep-0.jsonl")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sweep-0.jsonl", "sweep-2.jsonl", "sweep-3.jsonl"]

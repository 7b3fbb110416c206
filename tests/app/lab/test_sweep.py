"""The sweep's plan, and the charts, sentences and files of made-up cells."""

import csv
import io
import json
import os
from dataclasses import replace

from fake_worker import FakeEngine
from lab_pages import PAIR, rows, short_form

from app.jobs.service import Service
from app.lab import work_units
from app.lab.experiment import PageState
from app.lab.sweep import view
from app.lab.sweep.page import Sweep
from app.lab.sweep.work import OWN, SweepPlan, SweepResult, prompts
from app.server.limits import Limits
from app.ui.widgets import SKIP
from engine.config import AUTO
from engine.tools.bench.sweep_results import Cell

SWEEP = Sweep(Service(FakeEngine(), Limits()))


def form_values(**changes) -> list:
    return short_form("sweep", SWEEP, **changes)


def cell(method, gamma, category="all", speedup=1.0, temperature=0.0, low=None, high=None, turns=2) -> Cell:
    return Cell(method, gamma, temperature, category, turns, speedup, low, high, 20 * speedup, 0.5, max(1.5, speedup))


def certain(method, gamma, speedup, category="all", half=0.1, **more) -> Cell:
    return cell(method, gamma, category, speedup, low=speedup - half, high=speedup + half, **more)


def result_of(*cells: Cell, **changes) -> SweepResult:
    return SweepResult(PAIR, SWEEP.parse(form_values(**changes))[1], cells, True)


PLAIN, LOOKUP = cell("none", 0), certain("ngram", 1, 1.2)
CELLS = (
    PLAIN, LOOKUP, cell("ngram", AUTO, speedup=1.5, low=0.9, high=2), certain("lm", 1, 0.8), certain("lm", AUTO, 0.9),
    cell("none", 0, "chat"), cell("ngram", 1, "chat", 0.9), cell("ngram", AUTO, "chat", 0.95),
    cell("lm", 1, "chat", 1.1), cell("lm", AUTO, "chat", 1.05),
)  # fmt: skip


def test_length_of_this_engine_alone_is_no_configuration_for_another():
    auto, one = certain("ngram", AUTO, 1.4, half=0.05), LOOKUP

    def lead(*cells: Cell) -> str:
        return json.loads(SWEEP.draw_part(result_of(PLAIN, *cells), 0.0).recipes)["lead"]

    assert "no γ = auto" in lead(auto, one) and "γ = 1" in lead(auto, one)
    assert lead(auto).startswith("Only γ = auto")


def test_a_plan_of_a_sweep_counts_its_work():
    changes = {"kinds": ["quote", "chat"], "each": 2.0, "temperatures": [0, 1], "repeats": 3, "own": " mine "}
    _, plan = SWEEP.parse(form_values(gammas=[1, AUTO], **changes))
    assert plan.gammas == (1, AUTO) and plan.categories == ("chat", "quote")
    assert [name for name, _ in plan.texts] == [OWN, "chat", "quote", "chat", "quote"]
    assert plan.turns == 5 * 2 * 3 and plan.runs == 30 * (1 + 2)
    assert plan.texts[1][1] == prompts()["chat"][0] and plan.texts[3][1] == prompts()["chat"][1]
    assert len(prompts()) == 6 and {len(texts) for texts in prompts().values()} == {8}, "as the page offers"
    mine = SweepPlan(("ngram",), (1,), (0.0,), (), own="Mine")
    assert mine.texts == [(OWN, "Mine")] and mine.runs == 2
    assert json.loads(SWEEP.size(*form_values()))["text"] == "3 turns, 6 runs of up to 8 tokens."
    assert "at least one" in json.loads(SWEEP.size(*form_values(methods=[])))["text"]


def figures(*cells: Cell, temperature=0.0) -> dict:
    return json.loads(view.draw(result_of(*cells), temperature)["charts"])["figures"]


def test_charts_mark_uncertain_speedups_and_show_one_temperature():
    heat, (ngram, _) = figures(*CELLS)["sweep-heat"]["data"][0], figures(*CELLS)["sweep-lengths"]["data"]
    assert heat["text"][:2] == [["1.20", "0.90"], ["≈ 1.50", "0.95"]]
    assert (heat["zmin"] + heat["zmax"]) / 2 == 1.0, "white is plain decoding"
    assert ngram["x"] == ["1", "auto", "auto"] and ngram["y"] == [1.2, None, 1.5], "a gap before auto"
    assert ngram["error_y"]["array"][-1] == 0.166667, "the last ends at the most that its τ of 1.5 allows"
    other = (*CELLS, cell("ngram", 1, speedup=7.0, temperature=1.0))
    assert "7.00" not in str(figures(*other))
    assert figures(*other, temperature=1.0)["sweep-heat"]["data"][0]["text"] == [["7.00"]]
    assert "no interval yet" in figures(PLAIN, cell("lm", 1, turns=1))["sweep-lengths"]["note"]
    assert figures()["sweep-heat"]["data"] == []


def test_the_table_marks_the_best_on_each_kind():
    def marked(*cells: Cell) -> set:
        drawn = json.loads(view.draw(result_of(*cells), 0.0)["table"])["rows"]
        return {(row[0][0], place) for row in drawn for place, (_, mark) in enumerate(row) if mark}

    table = view.draw(result_of(*CELLS), 0.0)["table"]
    assert json.loads(table)["heads"][-1] == "chat" and len(rows(table)) == 5
    assert rows(table)[2][1] == "1.50× (0.90–1.67)" and rows(table)[0][1] == "1"
    assert marked(*CELLS) == set(), "the best interval holds others, and on chat nothing was measured twice"
    assert marked(PLAIN, LOOKUP, certain("lm", 1, 1.5)) == {("draft model, γ = 1", 1)}


def advice(*cells: Cell) -> str:
    return view.advice(result_of(*cells), 0.0)


def test_advice_says_what_is_best_how_sure_it_is_and_where_not():
    unsure = advice(*CELLS)
    assert unsure.startswith("Faster than plain decoding: n-gram lookup, γ = 1, 1.20× (1.10–")
    assert "1.50× (0.90" not in unsure and "1 other may be as fast; more texts or repeats" in unsure
    best = "Best for you on these texts: n-gram lookup, γ = 1, 1.20× (1.10–1.30) the speed of plain decoding."
    assert advice(PLAIN, LOOKUP) == best
    other = (cell("none", 0, "chat"), certain("lm", 1, 1.5, "chat"))
    assert "On chat, draft model, γ = 1, leads with 1.50× (1.40–1.60)." in advice(PLAIN, LOOKUP, *other)
    larger = (cell("none", 0, "chat"), cell("ngram", 1, "chat", 2.16, low=1.8, high=2.6))
    words = "On chat, n-gram lookup, γ = 1, leads with 2.16× (1.80–2.40)."
    assert advice(PLAIN, LOOKUP, *larger).endswith(words)
    assert "No setting of this sweep was faster" in advice(PLAIN, CELLS[3])
    level = advice(PLAIN, cell("lm", 1, speedup=1.1, low=0.9, high=1.2))
    assert level.startswith("No difference from plain decoding")


def test_impossible_setting_is_marked_as_noise_and_not_recommended():
    wrong = replace(certain("lm", 1, 2.21), tau=1.4, busy=0.5)
    parts = view.draw(result_of(PLAIN, LOOKUP, wrong), 0.0)
    drawn = "".join([*parts.values(), *view.files(result_of(wrong), {}).values()][:3])
    assert "2.2" not in drawn and "2.3" not in drawn and "noise" in drawn
    assert "Other programs took 50\\u00a0% of the processor" in drawn
    cells = json.loads(view.draw(result_of(PLAIN, LOOKUP, wrong), 0.0)["table"])["rows"]
    assert cells[2][1] == ["noise", "noise"], "the mark beside which the page offers to measure again"
    words = advice(PLAIN, LOOKUP, wrong)
    assert words.startswith("Good on these texts: n-gram lookup"), "noise may hide a faster one"
    assert "Press Measure again" in words
    assert advice(PLAIN, wrong).startswith("Nothing is certain yet"), "plain decoding has not won"
    level = advice(PLAIN, certain("lm", 1, 1.3), certain("lm", 2, 1.3), wrong)
    assert level.startswith("Faster than plain decoding: draft model, γ = 1, 1.30×"), "noise says nothing of the others"
    assert "These cannot be told apart; more texts" in level


def test_a_temperature_is_chosen_and_files_hold_every_cell_as_on_screen():
    wide = replace(cell("lm", 1, speedup=1.3, low=0.2, high=530.4, temperature=1.0), tau=1.4)
    result = result_of(*CELLS, wide, temperatures=[0.0, 1.0])
    shown = SWEEP.select_part(PageState(result=result), 1.0)
    assert "temperature 1" in json.loads(shown.table)["caption"] and json.loads(shown.recipes)["lead"]
    assert set(map(str, SWEEP.select_part(PageState(result=result), 0.7))) == {str(SKIP)}
    table, numbers = view.files(result, {"device": "here"}).values()
    saved, read = json.loads(numbers), list(csv.DictReader(io.StringIO(table)))
    assert saved["sweep"]["pair"] == PAIR and len(saved["cells"]) == len(read) == 11 and read[-1]["device"] == "here"
    assert (saved["cells"][-1]["low"], saved["cells"][-1]["high"]) == wide.measured.ends
    assert float(read[-1]["high"]) == wide.measured.ends[1] < 2 and float(read[-1]["low"]) == 0.2


def test_old_sweeps_go(tmp_path, monkeypatch):
    monkeypatch.setattr(work_units, "MOST_FILES", 2)
    for number in range(4):
        path = tmp_path / f"sweep-{number}.jsonl"
        path.write_text("")
        os.utime(path, (number, number))
    work_units.tidy(tmp_path / "sweep-0.jsonl")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sweep-0.jsonl", "sweep-2.jsonl", "sweep-3.jsonl"]

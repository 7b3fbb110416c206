"""The sweep's plan, and the charts, sentences and files of made-up cells."""

import csv
import io
import json
import os
from dataclasses import replace

from fake_worker import FakeEngine
from lab_pages import PAIR, short_form

from app.jobs.service import Service
from app.lab import work_units
from app.lab.experiment import PageState
from app.lab.sweep import view
from app.lab.sweep.page import Sweep
from app.lab.sweep.work import OWN, SweepPlan, SweepResult, prompts
from app.server.limits import Limits
from app.ui.widgets import SKIP
from engine.config import AUTO
from engine.tools.bench.sweep_results import Cell, to_csv

SWEEP = Sweep(Service(FakeEngine(), Limits()))


def asked(**changes) -> list:
    return short_form("sweep", SWEEP, **changes)


def cell(method, gamma, category="all", speedup=1.0, temperature=0.0, low=None, high=None, turns=2) -> Cell:
    return Cell(method, gamma, temperature, category, turns, speedup, low, high, 20 * speedup, 0.5, max(1.5, speedup))


CELLS = (
    cell("none", 0),
    cell("ngram", 1, speedup=1.2, low=1.1, high=1.3), cell("ngram", AUTO, speedup=1.5, low=0.9, high=2),
    cell("lm", 1, speedup=0.8, low=0.7, high=0.9), cell("lm", AUTO, speedup=0.9, low=0.8, high=1.0),
    cell("none", 0, "chat"), cell("ngram", 1, "chat", 0.9), cell("ngram", AUTO, "chat", 0.95),
    cell("lm", 1, "chat", 1.1), cell("lm", AUTO, "chat", 1.05),
)  # fmt: skip


def test_length_of_this_engine_alone_is_no_configuration_for_another():
    auto, one = cell("ngram", AUTO, speedup=1.4, low=1.35, high=1.45), cell("ngram", 1, speedup=1.2, low=1.1, high=1.3)
    _, plan = SWEEP.parse(asked(gammas=[1, AUTO]))

    def told(*cells: Cell) -> dict:
        result = SweepResult(PAIR, plan, (cell("none", 0), *cells))
        return json.loads(SWEEP.draw_part(result, 0.0).recipes)

    assert "no γ = auto" in told(auto, one)["lead"] and "γ = 1" in told(auto, one)["lead"]
    assert "Only γ = auto" in told(auto)["lead"] and not told(auto)["engines"]


def test_a_plan_counts_its_work():
    changes = {"kinds": ["quote", "chat"], "each": 2.0, "temperatures": [0, 1], "repeats": 3, "own": " mine "}
    _, plan = SWEEP.parse(asked(gammas=[1, AUTO], **changes))
    assert plan.gammas == (1, AUTO) and plan.categories == ("chat", "quote")
    assert [name for name, _ in plan.texts] == [OWN, "chat", "quote", "chat", "quote"]
    assert plan.turns == 5 * 2 * 3 and plan.runs == 30 * (1 + 2)
    assert plan.texts[1][1] == prompts()["chat"][0] and plan.texts[3][1] == prompts()["chat"][1]
    assert len(prompts()) == 6 and {len(texts) for texts in prompts().values()} == {8}, "as the page offers"
    mine = SweepPlan(("ngram",), (1,), (0.0,), (), own="Mine")
    assert mine.texts == [(OWN, "Mine")] and mine.runs == 2


def figures(cells=CELLS, temperature=0.0) -> dict:
    return json.loads(view.draw_charts(cells, temperature))["figures"]


def test_charts_mark_uncertain_speedups_and_show_one_temperature():
    heat, (ngram, _) = figures()["sweep-heat"]["data"][0], figures()["sweep-lengths"]["data"]
    assert heat["text"][:2] == [["1.20", "0.90"], ["≈ 1.50", "0.95"]]
    assert (heat["zmin"] + heat["zmax"]) / 2 == 1.0, "white is plain decoding"
    assert ngram["x"] == ["1", "auto", "auto"] and ngram["y"] == [1.2, None, 1.5], "a gap before auto"
    assert ngram["error_y"]["array"][-1] == 0.166667, "the last ends at the most that its τ of 1.5 allows"
    other = (*CELLS, cell("ngram", 1, speedup=7.0, temperature=1.0))
    assert "7.00" not in str(figures(other)) and figures(other, 1.0)["sweep-heat"]["data"][0]["text"] == [["7.00"]]
    assert "no interval yet" in figures((CELLS[0], cell("lm", 1, turns=1)))["sweep-lengths"]["note"]
    assert figures(())["sweep-heat"]["data"] == []


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
    assert unsure.startswith("Faster than plain decoding: n-gram lookup, γ = 1, 1.20× (1.10–")
    assert "1.50× (0.90" not in unsure and "1 other may be as fast; more texts or repeats" in unsure
    sure = view.advice((CELLS[0], CELLS[1]), 0.0)
    assert sure == "Best for you on these texts: n-gram lookup, γ = 1, 1.20× (1.10–1.30) the speed of plain decoding."
    other = (cell("none", 0, "chat"), cell("lm", 1, "chat", 1.5, low=1.4, high=1.6))
    assert "On chat, draft model, γ = 1, leads with 1.50× (1.40–1.60)." in view.advice((*CELLS[:2], *other), 0.0)
    larger = (cell("none", 0, "chat"), cell("ngram", 1, "chat", 2.16, low=1.8, high=2.6))
    assert view.advice((*CELLS[:2], *larger), 0.0).endswith(
        "On chat, n-gram lookup, γ = 1, leads with 2.16× (1.80–2.40)."
    )
    assert "No setting of this sweep was faster" in view.advice((CELLS[0], CELLS[3]), 0.0)
    level = view.advice((CELLS[0], cell("lm", 1, speedup=1.1, low=0.9, high=1.2)), 0.0)
    assert level.startswith("No difference from plain decoding")


def test_impossible_setting_is_marked_as_noise_and_not_recommended():
    wrong = replace(cell("lm", 1, speedup=2.21, low=2.1, high=2.3), tau=1.4, busy=0.5)
    swept = (CELLS[0], CELLS[1], wrong)
    drawn = view.draw_charts(swept, 0.0) + view.table(swept, 0.0) + to_csv(swept, {})
    assert "2.2" not in drawn and "2.3" not in drawn and "noise" in drawn
    assert "Other programs took 50% of the processor" in drawn
    assert view.advice(swept, 0.0).startswith("Good on these texts: n-gram lookup"), "noise may hide a faster one"
    assert view.advice((CELLS[0], wrong), 0.0).startswith("Nothing is certain yet"), "plain decoding has not won"
    assert "Press Measure again" in view.advice(swept, 0.0)
    both = (cell("lm", 1, speedup=1.3, low=1.2, high=1.4), cell("lm", 2, speedup=1.3, low=1.2, high=1.4))
    level = view.advice((CELLS[0], *both, wrong), 0.0)
    assert level.startswith("Faster than plain decoding: draft model, γ = 1, 1.30×"), "noise says nothing of the others"
    assert "These cannot be told apart; more texts" in level


def test_a_saved_interval_is_the_one_on_screen():
    wide = replace(cell("lm", 1, speedup=1.3, low=0.2, high=530.4), tau=1.4)
    (row,) = csv.DictReader(io.StringIO(to_csv((wide,), {"device": "here"})))
    assert float(row["high"]) == wide.measured.ends[1] < 2 and float(row["low"]) == 0.2 and row["device"] == "here"
    numbers = view.files(SweepResult(PAIR, SWEEP.parse(asked())[1], (wide,)), {})["speclens-sweep.json"]
    (saved,) = json.loads(numbers)["cells"]
    assert (saved["low"], saved["high"]) == wide.measured.ends


def test_a_temperature_is_chosen_and_files_hold_every_cell():
    _, plan = SWEEP.parse(asked(temperatures=[0.0, 1.0]))
    result = SweepResult(PAIR, plan, (*CELLS, cell("ngram", 2, speedup=7.0, temperature=1.0)), True)
    shown = SWEEP.select_part(PageState(result=result), 1.0)
    assert "temperature 1" in json.loads(shown.table)["caption"] and json.loads(shown.recipes)["lead"]
    assert set(map(str, SWEEP.select_part(PageState(result=result), 0.7))) == {str(SKIP)}
    table, numbers = SWEEP.files(result).values()
    assert len(table.splitlines()) == 1 + 11
    assert json.loads(numbers)["sweep"]["pair"] == PAIR and len(json.loads(numbers)["cells"]) == 11
    assert json.loads(SWEEP.size(*asked()))["text"] == "3 turns, 6 runs of up to 8 tokens."
    assert "at least one" in json.loads(SWEEP.size(*asked(methods=[])))["text"]


def test_old_sweeps_go(tmp_path, monkeypatch):
    monkeypatch.setattr(work_units, "MOST_FILES", 2)
    for number in range(4):
        path = tmp_path / f"sweep-{number}.jsonl"
        path.write_text("")
        os.utime(path, (number, number))
    work_units.tidy(tmp_path / "sweep-0.jsonl")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sweep-0.jsonl", "sweep-2.jsonl", "sweep-3.jsonl"]

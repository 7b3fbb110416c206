"""Each tab of the Lab opens on a recorded result, with its mark; the visitor's own takes its place."""

import json
from dataclasses import replace
from functools import cache

import gradio as gr
import pytest
from fake_worker import FakeEngine
from lab_pages import VISITOR, WorkingWorker, notice_of, short_form

from app.jobs.service import Service
from app.lab import __main__ as recorder
from app.lab.experiment import PageState
from app.lab.page import EXPERIMENTS, QUESTIONS, lab
from app.lab.recorded import FOLDER, Recorded
from app.server.limits import Limits
from app.ui.widgets import SKIP
from app.views.notice import notice
from engine.errors import QueueFull
from lessons.schema import LABS

WRONG = {  # a value that each form refuses
    "theory": {"gammas": None}, "sweep": {"methods": None}, "compare": {"pair": None}, "distribution": {"method": None},
    "users": {"numbers": None}, "answer": {"users": None},
}  # fmt: skip
MOST_BYTES = 200_000  # for all files together


def make(name: str, worker=None, **limits):
    return EXPERIMENTS[name](Service(FakeEngine(worker), Limits(**limits)))


opened = cache(make)  # for tests that change nothing


def test_all_recorded_results_fit():
    assert {path.name for path in FOLDER.iterdir()} == {opened(name).RECORDED for name in EXPERIMENTS}
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < MOST_BYTES


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.parametrize(
    "limits", [{}, {"lab_seconds": 0}, {"pairs": ("thinker",)}], ids=["own", "shared", "other models"]
)
def test_tab_opens_on_what_is_recorded_with_its_mark(name, limits):
    opening = opened(name, **limits).opening()
    mark = json.loads(opening.mark)
    assert mark["kind"] == "recorded" and mark["text"].startswith("Recorded on ") and " 20" in mark["text"]
    assert "with settings of its own, not the form's." in mark["text"]
    assert len(mark["text"].split(". ")) >= 2, "a verdict"
    for part, value in opening._asdict().items():
        assert part == "notice" or (value and value is not SKIP), f"{part} is drawn"
    shown = json.dumps(opening)
    assert "Drawn as soon as" not in shown and "Drawn as the runs" not in shown


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_recorded_file_is_of_a_quiet_machine_and_as_the_page_saves_it(name):
    experiment = opened(name)
    result, ending = experiment.opening_result.result, experiment.RECORDED.rpartition(".")[2]
    assert not experiment.view.doubts(result)
    saved = next(content for file, content in experiment.files(result).items() if file.endswith(ending))
    assert experiment.view.read_saved(saved.encode() if isinstance(saved, str) else saved).result == result


def busy_run(trace):
    return replace(trace, finished=replace(trace.finished, extra=trace.finished.extra | {"busy": 0.4}))


def slow_run(trace):
    return replace(trace, rounds=tuple(replace(r, end=r.start + 99 * (r.end - r.start)) for r in trace.rounds))


def each(values, **changes):
    return tuple(replace(value, **changes) for value in values)


def plain_column(result, change):
    first, *others = result.columns
    return replace(result, columns=(replace(first, trace=change(first.trace)), *others))


def busy_point(point):
    turns = (replace(point.turns[0], ours=replace(point.turns[0].ours, busy=0.4)), *point.turns[1:])
    return replace(point, turns=turns)


def shared_by_most(rows):
    """Plain decoding as if the most users got more together than passes can give."""
    most = max(row.users for row in rows)
    return tuple(
        replace(row, all_writing_tokens_per_second=99 * row.all_writing_tokens_per_second)
        if (row.method, row.users) == ("none", most) else row
        for row in rows
    )  # fmt: skip


NOISE, BUSY = "marked as noise", "Other programs took 40\u00a0% of the processor"
DOUBTS = [
    ("answer", lambda r: replace(r, cells=each(r.cells, speedup=99.0)), NOISE),
    ("answer", lambda r: replace(r, cells=each(r.cells, busy=0.4)), BUSY),
    ("theory", lambda r: replace(r, points={at: replace(p, speedup=99.0) for at, p in r.points.items()}), NOISE),
    ("theory", lambda r: replace(r, points={at: busy_point(p) for at, p in r.points.items()}), BUSY),
    ("theory", lambda r: replace(r, costs=replace(r.costs, model=replace(r.costs.model, spread=0.3))), "take it with"),
    ("sweep", lambda r: replace(r, cells=each(r.cells, speedup=99.0)), NOISE),
    ("sweep", lambda r: replace(r, cells=each(r.cells, busy=0.4)), BUSY),
    ("users", lambda r: replace(r, rows={"short": each(r.rows["short"], busy=0.4)}), BUSY),
    ("users", lambda r: replace(r, rows={"short": each(r.rows["short"], all_writing_over_plain=99.0)}), NOISE),
    ("users", lambda r: replace(r, rows={"short": shared_by_most(r.rows["short"])}), NOISE),
    ("compare", lambda r: plain_column(r, busy_run), BUSY),
    ("compare", lambda r: plain_column(r, slow_run), NOISE),
]  # fmt: skip


@pytest.mark.parametrize(("name", "spoil", "words"), DOUBTS)
def test_doubts_are_about_the_numbers_of_a_result(name, spoil, words):
    experiment = opened(name)
    assert words in experiment.view.doubts(spoil(experiment.opening_result.result))


@pytest.mark.parametrize("name", ["users", "compare"])
def test_result_of_a_busy_machine_is_stored_only_on_demand(name, tmp_path, monkeypatch):
    kind, recorded = EXPERIMENTS[name], opened(name).opening_result.result
    spoil = next(spoil for tab, spoil, words in DOUBTS if (tab, words) == (name, BUSY))
    saved = (FOLDER / kind.RECORDED).read_bytes()

    def updates(experiment, request, state, values, how):
        state.result = spoil(recorded)
        yield experiment.Outputs(notice("quiet", "Done."))

    monkeypatch.setattr(kind, "updates", updates)
    monkeypatch.setattr(kind, "files", lambda experiment, result: {experiment.RECORDED: saved})
    monkeypatch.setattr(recorder, "FOLDER", tmp_path)
    with pytest.raises(SystemExit, match=r"Other programs took 40\u00a0% .* quiet machine"):
        recorder.record(Service(FakeEngine(), Limits()), name)
    assert not any(tmp_path.iterdir())
    recorder.record(Service(FakeEngine(), Limits()), name, despite_noise=True)
    assert (tmp_path / kind.RECORDED).read_bytes() == saved


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_own_result_takes_the_place_of_the_recorded_one(name, engine, tmp_path, monkeypatch):
    monkeypatch.setenv("SPECLENS_CACHE", str(tmp_path))
    monkeypatch.setattr("engine.tools.bench.answer._UNDECIDED", 1)
    experiment, state = make(name, WorkingWorker(engine, step=0.0)), PageState()
    before = shown = opened(name).opening()
    experiment.begin(VISITOR, state)
    for update in experiment.press()(VISITOR, state, *short_form(name, experiment)):
        shown = shown._replace(**{part: value for part, value in update._asdict().items() if value is not SKIP})
        is_own = any(getattr(shown, part) != getattr(before, part) for part in before._fields[1:-1])
        assert (shown.mark == before.mark) is not is_own, "the mark goes with the recorded result"
    assert is_own and state.result and experiment.on_page(state) is state.result
    for part in before._fields[1:-1]:
        assert getattr(shown, part) != getattr(before, part), f"{part} is still the recorded one"


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.parametrize("how", ["wrong form", "full queue", "stopped"])
def test_refused_press_leaves_the_recorded_result(name, how, monkeypatch):
    experiment, state, kind = opened(name), PageState(), "error"
    runs, work = experiment.service.runs, len(experiment.service.runs.worker.runs)
    if how == "full queue":  # after the form has been read, as on a server without experiments

        def refuse(*_):
            raise QueueFull("The queue is full; try again in a minute.")

        monkeypatch.setattr(runs, "experiment", refuse)
        monkeypatch.setattr(runs, "run", refuse)
    experiment.begin(VISITOR, state)
    if how == "stopped":
        experiment.stop(VISITOR)
        kind = "quiet"
    form = short_form(name, experiment, **WRONG[name] if how == "wrong form" else {})
    updates = list(experiment.press()(VISITOR, state, *form))
    assert notice_of(updates[-1])["kind"] == kind and len(runs.worker.runs) == work
    if how == "stopped":
        early = f"Stopped before {experiment.FIRST}, so nothing is kept of it. Below is still the recorded example."
        assert notice_of(updates[-1])["text"] == early
    assert {str(part) for update in updates for part in update[1:]} == {str(SKIP)}
    assert state.result is None and experiment.on_page(state) is experiment.opening_result.result


def test_page_without_a_recorded_result_opens_empty(monkeypatch):
    monkeypatch.setattr("app.lab.experiment.FOLDER", FOLDER / "nowhere")
    with gr.Blocks():
        lab(Service(FakeEngine(), Limits()), gr.State())  # is laid out without one
    assert not any(part for name in EXPERIMENTS for part in make(name).opening())


def test_the_day_is_written_out():
    assert Recorded(None, "2026-11-26T00:48:00Z").day == "26 November 2026"
    recorded = Recorded.from_file(None, {"saved": "2026-01-02T03:04:05Z", "pair": "a", "device": None})
    assert (recorded.day, recorded.pair, recorded.device) == ("2 January 2026", "a", "")


def test_each_tab_says_in_a_line_whom_it_is_for():
    assert [*QUESTIONS] == [*LABS] == [*EXPERIMENTS]
    for question, audience in QUESTIONS.values():
        assert question.endswith("?") and audience.startswith("For ") and len(audience.split()) <= 30

"""Recordings of servers in the Lab: columns beside this page's runs, and an answer from one's own acceptance."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from fake_worker import FakeEngine, recorded
from lab_pages import VISITOR, notice_of, rows, short_form
from server_recordings import ONE, PLAIN, THREE, file_of, hidden_recording, uncounted_recording, vllm_recording

from app.jobs.service import Service
from app.lab.answer import recordings as answers
from app.lab.answer.page import Answer
from app.lab.compare import columns, view
from app.lab.compare.page import Compare
from app.lab.experiment import PageState
from app.lab.theory.server_view import line_from_trace
from app.server.limits import Limits
from app.ui.widgets import SKIP
from app.views import servers
from engine.errors import BadInput, QueueFull

UNKNOWN = replace(PLAIN.started.server, has_counts=False, hidden_tokens=None)


@pytest.fixture
def compare() -> Compare:
    return Compare(Service(FakeEngine(), Limits()))


def files(folder: Path, *traces) -> list[str]:
    return [file_of(trace, folder, f"{i}.json") for i, trace in enumerate(traces)]


def heads(grid: str) -> list[dict]:
    """The last head of each column."""
    lines = [json.loads(line) for line in grid.splitlines()]
    return [*{line["column"]: line for line in lines if line["type"] == "head"}.values()]


# ── Compare ──


def test_recordings_are_columns_that_are_compared_with_their_own_kind(compare, tmp_path):
    state, paths = PageState(), files(tmp_path, PLAIN, THREE)
    screen = compare.open_recordings(state, paths)
    assert heads(compare.open_recordings(PageState(), paths).grid) == heads(screen.grid), "another visitor, at once"
    assert json.loads(screen.mark)["text"] == "", "the result that the page opens with is gone, and so is its mark"
    plain, drafting = heads(screen.grid)
    assert plain["name"] == "vLLM 0.33.0, your recording, no drafts seen" and drafting["server"]
    assert (plain["state"], drafting["setting"]) == ("recorded", "m, temperature 0")
    assert "Run 2 is 1." in notice_of(screen)["text"] and "its server's plain decoding" in notice_of(screen)["text"]
    found = list(csv.DictReader(io.StringIO(view.to_csv(state.result.columns))))
    assert [(row["gamma"], row["exact"]) for row in found] == [("0", "unknown"), ("3", "unknown")]
    assert len(view.to_zip(state.result.columns)) > 100 and compare.files(state.result)


def test_recordings_stay_beside_the_runs_and_no_speed_is_mixed(compare, tmp_path):
    state = PageState()
    compare.open_recordings(state, files(tmp_path, THREE))
    screens = list(compare.press()(VISITOR, state, *short_form("compare", compare, shown=2)))
    assert [bool(column.source) for column in state.result.columns] == [False, False, True]
    ours, _, theirs = heads(screens[-1].grid)
    assert not ours["server"] and theirs["server"] and theirs["speedup"] == ""
    assert theirs["said"] == "From another server, model or prompt, so it is not compared."
    table = rows(screens[-1].table)
    assert table[2][4] == "–" and table[2][8] == "–", "neither a speedup over our machine nor a text of our model"
    assert "compared with that server's alone" in notice_of(screens[-1])["text"]
    assert "★" not in table[2][3] and json.loads(screens[-1].table)["rows"][2][3][1] == ""
    first = next(screen.grid for screen in screens if isinstance(screen.grid, str))
    assert [head["state"] for head in heads(first)] == ["waiting", "waiting", "recorded"]
    assert notice_of(next(s for s in screens if "Run 1 of" in s.notice))["text"].startswith("Run 1 of 2")


def test_recordings_beside_cached_runs_leave_them_recorded(compare, tmp_path):
    state = PageState()
    for _ in range(2):
        list(compare.press()(VISITOR, state, *short_form("compare", compare, shown=2)))
    made = state.result.recorded_at
    screen = compare.open_recordings(state, files(tmp_path, THREE))
    assert made and state.result.recorded_at == made and compare.end(state)[-1]["visible"], "Run again is offered"
    assert notice_of(screen)["text"].startswith("Recorded ") and heads(screen.grid)[0]["state"] == "recorded"


def test_refused_run_leaves_the_recordings_on_the_page(compare, tmp_path, monkeypatch):
    state = PageState()
    compare.open_recordings(state, files(tmp_path, PLAIN, THREE))
    shown, refuse = state.result, Mock(side_effect=QueueFull("The queue is full."))
    monkeypatch.setattr(compare.service.runs, "run", refuse)
    *_, last = compare.press()(VISITOR, state, *short_form("compare", compare, shown=2))
    assert notice_of(last)["kind"] == "error" and state.result is shown and len(heads(last.grid)) == 2


def test_another_prompt_on_the_same_server_is_not_another_model(tmp_path):
    other = replace(THREE, started=replace(THREE.started, config=THREE.started.config | {"prompt": "Other"}))
    pair = columns.read_columns(files(tmp_path, PLAIN, other))
    assert view.text_sentence(pair, 1) == "From another server, model or prompt, so it is not compared."


def test_what_a_server_does_not_tell_stays_open_in_its_column(tmp_path):
    (column,) = columns.read_columns(files(tmp_path, uncounted_recording()))
    assert column.gamma is None and column.exactness == "unknown" and not column.is_plain
    (head,) = heads(view.full_grid("r", [column]))
    assert ["α, drafts accepted", "–"] in head["facts"]


def test_texts_without_ids_are_compared_as_texts(tmp_path):
    first, same = columns.read_columns(files(tmp_path, uncounted_recording(), uncounted_recording()))
    assert view.text_sentence([first, same], 1) == "The same text as run 1, token for token."
    tokens = tuple(
        replace(token, text="dog ") if token.text == "sat on " else token for token in same.trace.rounds[1].tokens
    )
    rounds = (same.trace.rounds[0], replace(same.trace.rounds[1], tokens=tokens), *same.trace.rounds[2:])
    other = replace(same, trace=replace(same.trace, rounds=rounds))
    assert view.text_sentence([first, other], 1).startswith("Differs from run 1 from token 3 on")


def test_compare_refuses_other_files_and_too_many(compare, tmp_path):
    for traces, words in (
        ([recorded()], "the recording of a server"),
        ([ONE] * 3, "up to 2 recordings"),
        ([], "0 files"),
    ):
        screen = compare.open_recordings(PageState(), files(tmp_path, *traces))
        assert notice_of(screen)["kind"] == "error" and words in notice_of(screen)["text"] and screen.grid == SKIP


# ── The answer ──


def test_three_draft_lengths_predict_for_the_readers_own_model(tmp_path):
    page = Answer(Service(FakeEngine(), Limits()))
    state = PageState()
    screen = page.open_recordings(state, files(tmp_path, PLAIN, ONE, THREE))
    words = json.loads(screen.answer)
    assert "× plain decoding" in words["answer"] and "With γ = 3 a pass gives" in words["alone"]
    assert "m on vLLM 0.33.0" in words["sure"] and "are predicted" in words["sure"] and "--users" in words["change"]
    assert json.loads(screen.charts)["figures"]["answer-picture"]["data"]
    assert "No model of this page was used." in notice_of(screen)["text"] and json.loads(screen.mark)["text"] == ""
    best = answers.Recordings([PLAIN, ONE, THREE]).parts.best
    assert f"set its number of drafts to {best}." in json.loads(screen.recipes)["lead"]


def test_opened_recordings_take_the_place_of_the_measurement(tmp_path):
    page, state = Answer(Service(FakeEngine(), Limits())), PageState()
    state.result = page.opening_result.result
    assert page.end(state)[2]["interactive"], "its table can be saved"
    page.open_recordings(state, files(tmp_path, PLAIN, THREE))
    _, _, table, numbers, rule, over = page.end(state)
    assert not any(each["interactive"] for each in (table, numbers, rule, over)) and not table["value"]
    assert page.name_model(state, "us/theirs") == SKIP, "the configuration stays that of the recordings"


def test_recordings_wait_until_the_measurement_has_ended(tmp_path):
    page, state = Answer(Service(FakeEngine(), Limits())), PageState()
    page.begin(VISITOR, state)
    paths = files(tmp_path, PLAIN)
    screen = page.open_recordings(state, paths)
    assert "Let the measurement end" in notice_of(screen)["text"] and screen.answer == SKIP


def test_uncounted_recording_is_plain_only_by_a_stated_assumption(tmp_path):
    server = replace(PLAIN.started.server, has_counts=False)
    unsure = replace(PLAIN, started=replace(PLAIN.started, server=server))
    assert servers.longest_draft(unsure) is None and not unsure.has_drafts
    assert line_from_trace(unsure).startswith("? ") and columns.read_columns(files(tmp_path, unsure))[0].gamma is None
    assert answers.ASSUMED in answers.sentences(answers.Recordings([unsure, THREE]))["sure"]
    assert answers.ASSUMED not in answers.sentences(answers.Recordings([PLAIN, THREE]))["sure"]


def test_a_recording_with_hidden_tokens_is_no_point():
    server = replace(THREE.started.server, hidden_tokens=3)
    made = answers.Recordings([PLAIN, replace(THREE, started=replace(THREE.started, server=server))])
    assert [point.gamma for point in made.points] == [0]


def test_fewer_recordings_give_a_measurement_or_nothing():
    measured = answers.sentences(answers.Recordings([PLAIN, THREE]))
    assert measured["answer"].startswith("With γ = 3 it ran at 1.") and "Nothing is predicted" in measured["sure"]
    alone = answers.sentences(answers.Recordings([THREE]))
    assert (
        "no speedup is known" in alone["answer"] and "a pass gives 2." in alone["alone"] and "record" in alone["change"]
    )
    assert not answers.picture(answers.Recordings([THREE])).data
    impossible = answers.sentences(answers.Recordings([PLAIN, vllm_recording(3, 0.001, (1,))]))
    assert "noise" in impossible["answer"]


@pytest.mark.parametrize(
    ("traces", "words"),
    [
        ([recorded()], "recordings of a server"), ([], "recordings of a server"),
        ([uncounted_recording()], "does not tell how many tokens it drafted"),
        ([replace(PLAIN, started=replace(PLAIN.started, server=UNKNOWN))], "does not tell how many tokens it drafted"),
        ([hidden_recording()], "does not tell how many tokens it drafted"),
        ([hidden_recording(drafts=7)], "does not tell how many tokens it drafted"),
        ([THREE, replace(PLAIN, started=replace(PLAIN.started, pair="other"))], "several models"),
    ],
)  # fmt: skip
def test_the_answer_refuses_what_it_cannot_use(traces, words):
    with pytest.raises(BadInput, match=words):
        answers.Recordings(traces)

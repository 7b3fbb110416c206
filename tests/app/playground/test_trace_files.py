"""Traces out and in: tables that a spreadsheet will not run, files that are read back, files that are refused."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import gradio as gr
import pytest
from fake_worker import FakeEngine, FakeWorker, play, recorded
from lab_pages import VISITOR
from presses import line, status_of
from sample_traces import constrained, small
from tiny_pairs import request

from app.form import NAMES, defaults, settings
from app.jobs.service import Service
from app.jobs.visitor import Session
from app.playground import html_export, trace_files
from app.playground.form_values import values_of
from app.playground.result_handlers import Results
from app.playground.run_handlers import RunHandlers
from app.playground.run_press import RunPress
from app.playground.trace_files import MOST_FILES, Exports, read_each, read_session
from app.server.limits import Limits
from app.ui.widgets import SKIP
from app.views import run_facts
from app.views.token_csv import COLUMNS, tokens_csv
from engine.errors import BadInput
from engine.files import escape_formula
from engine.runtime.engine import load_engine
from engine.trace.branch import config_of
from engine.trace.trace import fold, load, to_json

OTHER_VISITOR = SimpleNamespace(session_hash="b")

FORMULAS = ["=1+1", "+1", "-2", "@SUM(A1)", "=HYPERLINK(A1)", "\t=1", "\r=1", " =1", "\n=cmd|' /C calc'!A0", "＝1+1"]
HARMLESS = [" the", "a=b", "3-2", "", "🌊", "'quoted'", 'say "hi", you', "two\nlines", "שלום"]
LATE = replace(small().rounds[0], start=5.0, end=6.0)


@pytest.fixture
def session() -> Session:
    return Session(recorded(tokens=40), recorded("none", 0, 40))


@pytest.fixture
def exports() -> Exports:
    return Exports()


def rows(text: str) -> list[dict]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def file(folder: Path, text: str, name="trace.json") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_row_a_token_with_every_number(session):
    trace = session.trace
    found = rows(tokens_csv(trace))
    tokens = [(event, token) for event in session.trace.rounds for token in event.tokens]
    assert len(found) == len(tokens) and tuple(found[0]) == COLUMNS
    for row, (event, token) in zip(found, tokens, strict=True):
        assert (int(row["round"]), row["status"], int(row["id"])) == (event.index, token.status, token.id)
        assert row["u"] == ("" if token.u is None else str(token.u)) and row["exact"] == "exact"
    config = trace.started.config | {"acceptance": "typical", "sampling": {"temperature": 0.8}}
    lossy = replace(trace, started=replace(trace.started, config=config))
    assert {row["exact"] for row in rows(tokens_csv(lossy))} == {"lossy"}
    facts = dict(run_facts.facts(lossy))
    assert "Lossy" in facts and facts["Typical acceptance"] == "ε 0.09, δ 0.3"
    assert not {"Lossy", "Typical acceptance", "Lookahead"} & set(dict(run_facts.facts(trace)))


def test_table_has_the_drafts_that_a_grammar_forbids_and_its_share_of_p():
    first, *_, forbidden, closing, plain, alone = rows(tokens_csv(constrained()))[:7]
    assert first["removed"] == "0.75" and first["from_grammar"] == "1" and closing["from_grammar"] == "0"
    known = {name: forbidden[name] for name in ("round", "position", "depth", "status", "id", "text", "lane", "exact")}
    assert list(known.values()) == ["0", "3", "4", "forbidden", "5", "<i>", "run", "exact"]
    assert forbidden["p"] == forbidden["removed"] == "" and closing["status"] == "resampled"
    assert (alone["status"], alone["depth"], plain["status"]) == ("plain", "1", "forbidden")


def test_an_opened_run_brings_its_constraint_back():
    config = settings({"prompt": "Hi", "constraint": "regex", "regex": "[a-z]+"})
    values = values_of(fold(play(config)), Service(FakeEngine(), Limits()))
    assert values == defaults() | {"prompt": "Hi", "constraint": "regex", "regex": "[a-z]+"}
    assert settings(values) == config


def test_no_cell_begins_a_formula_and_other_cells_keep_their_text():
    trace = small()
    one = trace.rounds[0].tokens[0]
    tokens = tuple(replace(one, text=text, label=None) for text in (*FORMULAS, *HARMLESS))
    table = rows(tokens_csv(replace(trace, rounds=(replace(trace.rounds[0], tokens=tokens),))))
    assert [row["text"] for row in table] == [f"'{text}" for text in FORMULAS] + HARMLESS
    assert [escape_formula(text) for text in FORMULAS] == [f"'{text}" for text in FORMULAS]


def test_what_is_written_is_read_back_as_it_was(session, exports):
    written = exports.write(session, html_export.page)
    assert load(written.trace) == session.trace and load(written.baseline) == session.baseline
    assert Path(written.trace).name == "speclens-hi-smollm2-135m-ngram-seed0.json"
    with open(written.table, encoding="utf-8-sig", newline="") as table:
        assert len(list(csv.reader(table))) == 1 + sum(len(event.tokens) for event in session.trace.rounds)
    for order in ((written.trace, written.baseline), (written.baseline, written.trace)):
        assert read_session(order) == replace(session, is_recorded=True)
    assert read_session([written.trace]) == Session(session.trace)
    started = replace(session.trace.started, at="2026-11-21T10:43:34+00:00")
    name = Path(exports.write(Session(replace(session.trace, started=started)), html_export.page).trace).name
    assert name == "speclens-hi-smollm2-135m-ngram-seed0-202611211043.json"
    started = replace(session.trace.started, pair="../../etc/passwd\x00 ＝🌊")
    name = Path(exports.write(Session(replace(session.trace, started=started)), html_export.page).trace).name
    assert name.isascii() and "/" not in name and ".." not in name.removesuffix(".json"), "it cannot leave its folder"


def test_only_the_newest_folders_are_kept(session):
    exports = Exports(max_folders=3)
    written = [exports.write(session, html_export.page) for _ in range(5)]
    assert [Path(one.trace).exists() for one in written] == [False, False, True, True, True]


def test_half_a_character_costs_the_json_and_not_the_table(session, exports):
    token = replace(session.trace.rounds[0].tokens[0], text="\ud800")
    trace = replace(session.trace, rounds=(replace(session.trace.rounds[0], tokens=(token,)),))
    written = exports.write(Session(replace(trace, finished=None)), html_export.page)
    assert written.trace is None and "\\ud800" in Path(written.table).read_text(encoding="utf-8-sig")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<script>alert(1)</script>", "not a trace"),
        ('{"schema": 99}', "schema version 99"),
        (to_json(replace(small(), rounds=())), "no rounds"),
        (to_json(replace(small(), rounds=(LATE, small().rounds[1]))), "runs backwards"),
        (to_json(replace(small(), started=replace(small().started, config={"prompt": 3}))), "are not a run's"),
        (None, "could not be read"),
    ],
)
def test_what_is_no_trace_is_refused_in_words_without_its_path(tmp_path, text, words):
    with pytest.raises(BadInput, match=words) as refused:
        read_session([str(tmp_path / "gone.json") if text is None else file(tmp_path, text)])
    assert str(tmp_path) not in str(refused.value) and "<" not in str(refused.value)


def test_more_tokens_or_files_than_a_page_can_show_are_refused(session, tmp_path, monkeypatch):
    paths = [file(tmp_path, to_json(session.trace))]
    count = sum(len(event.tokens) for event in session.trace.rounds)
    monkeypatch.setattr(trace_files, "MOST_TOKENS", count)
    assert read_session(paths) == Session(session.trace)
    monkeypatch.setattr(trace_files, "MOST_TOKENS", count - 1)
    with pytest.raises(BadInput, match=f"{count} tokens; this page shows up to {count - 1}"):
        read_session(paths)
    with pytest.raises(BadInput, match=f"{MOST_FILES + 1} files; open up to {MOST_FILES}"):
        read_each(["nowhere"] * (MOST_FILES + 1))  # before any is read


def test_two_files_must_be_a_run_and_its_baseline(tmp_path):
    one = file(tmp_path, to_json(recorded()), "one.json")
    for two, words in (
        (recorded(), "one drafted and the other"),
        (recorded("none", 0, prompt="Another"), "not of the same request"),
    ):
        with pytest.raises(BadInput, match=words):
            read_session([one, file(tmp_path, to_json(two), "two.json")])


@pytest.mark.slow
def test_a_saved_run_opens_with_its_baseline_for_every_method(real_folder, tmp_path):
    """What a run alone has, such as its draft's precision and notes, makes it no other request."""
    engine = load_engine("smollm2-135m", "cpu", "fp32")
    for method in engine.methods[1:]:
        config = request("smollm2-135m", method, gamma="auto", max_new_tokens=4)
        run, baseline = (fold(engine.run(each)) for each in (config, config.baseline()))
        paths = [file(tmp_path, to_json(trace), f"{i}.json") for i, trace in enumerate((baseline, run))]
        assert read_session(paths) == Session(run, baseline, is_recorded=True), method


def test_a_run_that_drafted_nothing_opens_with_its_baseline(tmp_path):
    plain = recorded("none", 0)
    idle = replace(plain, started=replace(plain.started, config=plain.started.config | {"method": "auto"}))
    paths = [file(tmp_path, to_json(trace), f"{i}.json") for i, trace in enumerate((plain, idle))]
    assert read_session(paths) == Session(idle, plain, is_recorded=True)
    moved = replace(idle, started=replace(idle.started, weights={"target": "another"}))
    with pytest.raises(BadInput, match="not of the same request"):
        read_session([paths[0], file(tmp_path, to_json(moved), "moved.json")])


@pytest.fixture
def page() -> Results:
    return Results(Service(FakeEngine(), Limits()))


def test_a_brought_trace_is_shown_as_recorded_and_not_kept(page, session, tmp_path):
    paths = [file(tmp_path, to_json(session.trace), "a.json"), file(tmp_path, to_json(session.baseline), "b.json")]
    screen = page.bring(paths, VISITOR)
    assert screen.session == replace(session, is_recorded=True)
    again = page.bring(paths, OTHER_VISITOR).session
    assert again == screen.session, "equal uploads have one path, and nobody takes it away"
    assert "Opened from a file" in status_of(screen.stage)["text"]
    assert line(screen.stage, "numbers")["tiles"]["speedup"][0].endswith("×")
    kinds = [json.loads(line)["type"] for line in screen.stage.splitlines()]
    assert kinds.count("round") == len(session.trace.rounds)
    plain = page.bring([file(tmp_path, to_json(session.baseline), "b.json")], VISITOR)
    assert "in which nothing was drafted" in status_of(plain.stage)["text"]
    values = {name: getattr(screen, name)["value"] for name in NAMES}
    assert settings(values) == config_of(session.trace), "Run would repeat it here"


def test_a_brought_trace_that_cannot_run_here_leaves_the_form(page, session, tmp_path):
    started = session.trace.started
    for change, words in (
        ({"pair": "other"}, "Its models are not on this server."),
        ({"config": started.config | {"gamma": 20}}, "Draft length γ is outside this server's limits."),
        ({"config": started.config | {"max_new_tokens": 4000}}, "Max tokens is outside this server's limits."),
    ):
        trace = replace(session.trace, started=replace(started, **change))
        screen = page.bring([file(tmp_path, to_json(trace))], VISITOR)
        assert status_of(screen.stage)["text"].endswith(words) and screen.session.trace.emitted
        assert all(getattr(screen, name) == SKIP for name in NAMES)


def test_a_file_is_never_opened_into_a_run(session, tmp_path):
    """A run that begins while the file is read counts too, so the handler checks after reading."""
    worker = FakeWorker(step=0.05)
    page = Results(Service(FakeEngine(worker), Limits()))
    text = to_json(session.trace)
    run = RunHandlers(page.service).run(VISITOR, RunPress(), *(defaults() | {"prompt": "Hi", "tokens": 40}).values())
    next(value for value in run if '"about"' in value)
    with pytest.raises(gr.Error, match="press Stop or let it end"):
        page.bring([file(tmp_path, text)], VISITOR)
    somebody_else = page.bring([file(tmp_path, text)], OTHER_VISITOR)
    assert somebody_else.session.trace == session.trace
    worker.step = 0  # for the baseline
    for _ in run:
        pass
    assert page.bring([file(tmp_path, text)], VISITOR).session.trace == session.trace


def test_a_brought_run_says_where_it_comes_from(page, session, tmp_path):
    started = replace(session.trace.started, at="2026-11-21T12:43:34+02:00", versions={"speclens": "0.1.0"})
    for trace, date in ((replace(session.trace, started=started), "2026-11-21 10:43 UTC"), (session.trace, "unknown")):
        screen = page.bring([file(tmp_path, to_json(trace))], VISITOR)
        about = json.loads(screen.stage.splitlines()[1])
        assert date in about["origin"] and "cpu" in about["origin"] and about["recorded"] is True
    started = replace(started, at="<b>" * 999, device="x" * 9999, versions={"<i>": "y" * 9999})
    screen = page.bring([file(tmp_path, to_json(replace(session.trace, started=started)))], VISITOR)
    assert len(json.loads(screen.stage.splitlines()[1])["origin"]) < 400

"""The form of `server explain`: points typed in, from recordings and from a log; the parts are the command line's."""

import json
import re

import pytest
from fake_worker import recorded
from lab_pages import rows
from server_recordings import ONE, PLAIN, THREE, file_of, uncounted_recording, vllm_recording

from app.jobs.visitor import Session
from app.lab.theory import server_form, server_view
from app.lab.theory.server_form import BOX
from app.ui.widgets import SKIP
from engine.errors import BadInput
from engine.tools.servers.costs import ServerPoint, split, verdict
from engine.trace.metrics import compute_metrics

LOG = (
    "INFO 11-25 21:23:40 [metrics.py:120] SpecDecoding metrics: Mean acceptance length: 1.28, "
    "Accepted throughput: 0.10 tokens/s, Drafted throughput: 1.05 tokens/s, Accepted: 5 tokens, "
    "Drafted: 54 tokens, Per-position acceptance rate: 0.222, 0.056, 0.000, Avg Draft acceptance rate: 9.3%"
)


def test_its_cost_of_a_row_becomes_the_curve():
    points, lookup = "0 25\n1 30 1.75\n3 40 2.5", "2 50 2.2"
    words, value = server_form.use_row_cost(points, lookup)
    curve = json.loads(value)
    assert notice_of(words)[0] == "good" and curve["source"] == "server explain" and curve["c"] is not None
    assert curve["text"].splitlines()[0] == "a plain step: 40.0 ms" and curve["v"]["2"] > 1
    words, skipped = server_form.use_row_cost(points, "")
    assert notice_of(words)[0] == "error" and "does not say the time of" in notice_of(words)[1] and skipped is SKIP
    assert notice_of(server_form.use_row_cost("0 x", lookup)[0])[0] == "error"


def notice_of(value: str) -> tuple[str, str]:
    notice = json.loads(value)
    return notice["kind"], notice["text"]


@pytest.mark.parametrize("text", ["0 26.5\n1 17.7 1.747\n7 12.2 3.107", "0:26.5\n\n 1, 17.7, 1.747 \n7;12.2;3.107\n"])
def test_points_are_the_numbers_of_each_line(text):
    assert server_view.parse(text, BOX) == [
        ServerPoint(0, 26.5),
        ServerPoint(1, 17.7, 1.747),
        ServerPoint(7, 12.2, 3.107),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0 26.5\n3 ? 2.1", f"^{BOX}, line 2: Put a number"), ("0 26.5\nγ", f"^{BOX}, line 2: These are not numbers"),
        ("1.5 2", f"^{BOX}, line 1: A point is a whole γ"), ("1 2 1.5 4", f"^{BOX}, line 1: A point"),
        ("1 nan 1", f"^{BOX}, line 1: nan tokens/s cannot be"), ("inf 3", f"^{BOX}, line 1: A point"),
        ("3 5 9", "from 1 to γ"), ("0 1\n" * 201, f"^{BOX}: .*up to 200"),
    ],
)  # fmt: skip
def test_a_line_that_is_no_point_is_named(text, words):
    with pytest.raises(BadInput, match=words):
        server_view.parse(text, BOX)
    kind, sentence = notice_of(server_form.explain(text, "")[0])
    assert kind == "error" and re.search(words, sentence) and "GAMMA" not in sentence


def test_an_error_names_its_box():
    for text, lookup, words in (
        ("1 2 1.5", "", f"{BOX}: Give a point without drafts"),
        (server_form.EXAMPLE, "γ", f"{server_form.LOOKUP_BOX}, line 1: These are not numbers."),
    ):
        assert notice_of(server_form.explain(text, lookup)[0])[1].startswith(words)


def test_the_page_says_what_the_command_line_says():
    text = server_form.EXAMPLE
    parts = split(server_view.parse(text, BOX))
    words, table, speeds, chart = server_form.explain(text, "")
    assert all(sentence in notice_of(words)[1] for sentence in verdict(parts))
    assert rows(table)[1] == ["fixed cost of drafting", f"{1000 * parts.fixed.seconds:.1f} ms", "–"]
    assert rows(speeds)[2][2] == f"{parts.speed(2):.1f}" and len(rows(speeds)) == 9
    drawn = json.loads(chart)["figures"]["server-speeds"]["data"]
    assert drawn[1]["x"] == [0, 1, 7] and drawn[0]["y"][0] == pytest.approx(26.5, rel=1e-4)
    twice = server_form.explain(f"{text}\n{text.replace('26.5', '27')}", "3 30 1.2")
    assert "For 16 users" in notice_of(twice[0])[1] and "For 16 users" not in notice_of(words)[1]
    assert "±" in rows(twice[1])[0][2] and rows(twice[1])[3][0] == "scoring its row alone"


def test_one_draft_length_gives_a_plain_step_and_says_what_is_missing():
    words, table, speeds, chart = server_form.explain("0 26.5\n3 20 2.1", "")
    assert notice_of(words)[1].endswith("a second one. Times are derived from your points."), "nothing is predicted"
    assert len(rows(table)) == 1 and not rows(speeds)
    assert json.loads(chart)["figures"]["server-speeds"]["note"] == server_view.WAITING.note


def test_points_that_no_cost_explains_are_refused():
    kind, words = notice_of(server_form.explain("0 100\n1 300 2\n2 1000 3", "")[0])
    assert kind == "error" and "no time at all" in words


def test_recordings_fill_the_form(tmp_path):
    paths = [file_of(trace, tmp_path, f"{i}.json") for i, trace in enumerate((PLAIN, ONE, THREE))]
    text, words = server_form.fill_from_files("", paths)
    assert notice_of(words)[1] == "Filled in from 3 recordings." and server_form.fill_from_files("", paths)[0] == text
    plain, one, three = server_view.parse(text, BOX)
    assert (plain.gamma, one.gamma, three.gamma) == (0, 1, 3) and plain.speed == pytest.approx(1 / 0.03, rel=1e-3)
    assert three.length == pytest.approx(compute_metrics(THREE).tau.value, abs=1e-3)
    parts = split([plain, one, three])
    assert parts.plain.seconds == pytest.approx(0.03, rel=1e-3)
    assert parts.fixed.seconds + parts.draft.seconds == pytest.approx(0.015, rel=0.01)
    again, _ = server_form.fill_from_files(text, [file_of(THREE, tmp_path, "3.json")])
    assert again == text, "a recording that is there already adds nothing"


def test_an_unknown_draft_length_or_speed_is_a_gap(tmp_path):
    text, words = server_form.fill_from_files("0 26.5", [file_of(uncounted_recording(), tmp_path, "a.json")])
    assert text == "0 26.5\n? 22.5 2.250" and "question mark" in notice_of(words)[1]
    assert server_view.line_from_trace(vllm_recording(3, 0.0, (2,))).startswith("3 ? ")


def test_a_file_that_is_no_trace_is_refused(tmp_path):
    path = tmp_path / "x.json"
    path.write_text("{}")
    text, words = server_form.fill_from_files("0 26.5", [str(path)])
    assert text == SKIP and notice_of(words)[0] == "error"


def test_a_log_fills_in_the_acceptance_lengths():
    text, words = server_form.fill_from_log("0 26.5", LOG)
    assert text == "0 26.5\n3 ? 1.280" and "Read as vLLM" in notice_of(words)[1]
    assert notice_of(server_form.fill_from_log("", "no log")[1])[0] == "error"


def test_an_opened_recording_fills_an_empty_form_only():
    assert server_form.fill_from_session(Session(THREE, PLAIN), " ").splitlines()[0].startswith("0 33.3")
    assert server_form.fill_from_session(Session(THREE), "0 26.5") == SKIP
    for session in (Session(), Session(recorded())):
        assert server_form.fill_from_session(session, "") == SKIP

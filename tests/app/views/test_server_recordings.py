"""A server's recording on the stage: a heading of its own, and nothing worded as known that the server did not tell."""

import json

import pytest
from fake_worker import FakeEngine
from server_recordings import PLAIN, hidden_recording, uncounted_recording, vllm_recording
from server_recordings import THREE as DRAFTING
from stand_in_server import RECORDED

from app.jobs.service import Service
from app.jobs.visitor import Session
from app.playground import html_export
from app.playground.result_handlers import Results
from app.server.limits import Limits
from app.views import lanes, player_feed, run_charts, servers, tiles
from app.views.statuses import legend
from engine.tools.servers.log_trace import read_traces
from engine.trace.events import Server

UNCOUNTED = uncounted_recording()


def lines(trace, baseline=None) -> list[dict]:
    return [json.loads(line) for line in player_feed.replay("r", trace, baseline).splitlines()]


def about(trace) -> dict:
    return next(line for line in lines(trace) if line["type"] == "about")


def shown(trace, baseline=None) -> dict:
    return json.loads(tiles.tiles(trace, baseline, recorded=True))["tiles"]


def test_a_recording_has_its_own_heading_and_says_what_is_told():
    for trace, title in ((DRAFTING, "vLLM 0.33.0, your recording"), (UNCOUNTED, "A server, your recording")):
        assert about(trace)["source"] == title and title in html_export.page(trace)
        assert "No server tells q, u or the residual." in about(trace)["server"][0]
    assert "how many it rejected" in about(DRAFTING)["server"][0]
    assert "How many guesses it rejected is unknown. vLLM, llama-server" in about(UNCOUNTED)["server"][0]
    without = Server("vLLM", "0.33.0", "m", "vLLM")
    assert "--per-request-spec-decode-metrics detailed" in servers.inspector_sentences(without)[0]
    long = Server("x" * 500, "", "m", "vLLM")
    assert len(servers.title(long)) < 90


def test_each_round_says_whether_its_drafts_were_counted():
    for trace, is_counted in ((DRAFTING, True), (PLAIN, True), (UNCOUNTED, False)):
        rounds = [line for line in lines(trace) if line["type"] == "round"]
        assert [line["counted"] for line in rounds] == [is_counted] * len(trace.rounds)


def test_the_sentence_of_an_opened_recording_fits_what_is_told():
    assert "Dashed boxes are guesses that it rejected" in servers.opening_sentence(DRAFTING, None)
    assert "Open a recording without drafts, too" in servers.opening_sentence(DRAFTING, None)
    assert "Beside it is the recording without drafts" in servers.opening_sentence(DRAFTING, PLAIN)
    assert "so none are drawn" in servers.opening_sentence(UNCOUNTED, None)
    assert "Its stream shows no drafts" in servers.opening_sentence(PLAIN, None)
    log = read_traces((RECORDED / "llama_b11434_draft_log.txt").read_bytes(), "log")[0]
    assert "Its log tells the guesses that it rejected, too, with q." in servers.opening_sentence(log, None)


def test_tiles_name_no_number_that_a_server_did_not_tell():
    assert shown(UNCOUNTED)["alpha"] == ["–", "the server does not count its drafts"]
    assert shown(PLAIN)["speedup"] == ["–", "its stream shows no drafts"]
    assert shown(DRAFTING)["speedup"] == ["–", "open a recording without drafts, too"]
    ratio = shown(DRAFTING, PLAIN)["speedup"][0]
    rounds = len(DRAFTING.rounds) - 1
    assert float(ratio[:-1]) == pytest.approx(47 / (rounds * 0.06) / (1 / 0.03), abs=0.005)
    assert "by the clock of the client" in shown(DRAFTING)["speed"][1]


def test_tokens_that_no_piece_shows_leave_tau_unknown_but_count_as_speed():
    hidden = hidden_recording(drafts=7)
    assert "so none are drawn" in servers.opening_sentence(hidden, None)
    assert shown(hidden)["tau"][0] == "–" and shown(hidden)["alpha"][1].endswith("in total only: 2 of 7 accepted")
    assert shown(hidden)["speed"][0] == "40.0" and "8 tokens" in shown(hidden)["speed"][1], "8 tokens in 0.2 seconds"
    assert "is unknown" in json.loads(run_charts.complete(hidden)[1])["figures"]["rounds"]["note"]


def test_no_chart_predicts_from_costs_that_a_server_does_not_tell():
    race = json.loads(run_charts.complete(DRAFTING, PLAIN)[0])["figures"]
    assert not race["prediction"]["data"] and "Lab → Theory" in race["prediction"]["note"]
    assert "× measured" in race["tokens"]["note"]


def test_a_samples_law_is_not_claimed_for_a_server():
    sampled = [vllm_recording(gamma, 0.03, temperature=0.8) for gamma in (3, 0)]
    assert "different samples, here" in lanes.note(*sampled)


def test_the_recipes_are_those_of_the_form_beside_a_recording():
    page = Results(Service(FakeEngine(), Limits()))
    form = ("smollm2-135m", "auto", True, 4, 0.0)
    assert page.configure(*form, Session(DRAFTING)) == page.configure(*form, Session())


def test_the_legend_has_the_marks_of_recordings():
    assert "sl-means-unknown" in legend() and "sl-means-closing" in legend()

"""A branch on the page: its lines, its place in the session and in files, refusals, Stop, and its link."""

import csv
import io
import json
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest
from fake_worker import FakeEngine, FakeWorker, number, recorded, wait_for
from presses import form, line, page, press_run, status_of, visitor

from app.jobs.request import VisitorRequest
from app.jobs.service import Service
from app.jobs.visitor import Session
from app.playground import html_export
from app.playground.branch_handlers import BranchHandlers, read_choice
from app.playground.conclusion import conclusion
from app.playground.link_handlers import LinkHandlers
from app.playground.run_press import RunPress
from app.playground.trace_files import read_session
from app.server.limits import Limits
from app.ui.widgets import SKIP
from app.views import run_facts
from app.views.token_csv import tokens_csv
from engine.trace.trace import Trace, from_json, to_json

PLACE, TOKEN = 5, number(" perhaps")


def lines(values: list[str], kind: str) -> list[dict]:
    return [found for value in values for found in map(json.loads, value.splitlines()) if found["type"] == kind]


def fork(handlers: BranchHandlers, press: RunPress, session: Session, place=PLACE, token=TOKEN) -> list[str]:
    """The first two events of a fork button; the third hands out the session that is then in ``press``."""
    handlers.begin(visitor(), press, SimpleNamespace(_data={"place": place, "id": token}))
    return list(handlers.run(visitor(), press, session))


@pytest.fixture
def branches() -> BranchHandlers:
    return BranchHandlers(Service(FakeEngine(FakeWorker()), Limits()))


@pytest.fixture
def session() -> Session:
    return Session(recorded(), recorded("none", 0))


def test_a_branch_is_a_second_lane_and_the_run_keeps_its_numbers(branches, session):
    press = RunPress()
    values = fork(branches, press, session)
    begun, rounds = lines(values, "branch")[0], lines(values, "branch_round")
    assert begun["place"] == PLACE and begun["forced"] == {"id": TOKEN, "text": " perhaps"}
    assert begun["text"] == "".join(token.text for token in session.trace.emitted[:PLACE])
    whole = press.session.trace
    assert {each["index"] for each in rounds} == set(range(len(whole.branch.rounds)))
    assert whole.branch.output[: PLACE + 1] == [*session.trace.output[:PLACE], TOKEN]
    assert replace(whole, branch=None) == session.trace and press.session.baseline == session.baseline
    assert lines(values, "numbers") == [] and lines(values, "about") == [], "no speedup of the branch"
    words = status_of(values[-1])["text"]
    round_ = next(each for each in whole.rounds if PLACE in [token.position for token in each.emitted])
    assert f"“perhaps” was forced in round {round_.index + 1}" in words
    assert "The numbers above describe the run" in words
    assert all(json.loads(value.splitlines()[0])["run"] is None for value in values), "the run stays on the stage"


def test_the_files_hold_the_branch(branches, session, tmp_path):
    press = RunPress()
    fork(branches, press, session)
    whole = press.session.trace
    assert from_json(to_json(whole)) == whole
    for name, trace in (("run", whole), ("plain", session.baseline)):
        (tmp_path / name).write_text(to_json(trace))
    assert read_session([tmp_path / "run", tmp_path / "plain"]) == replace(session, trace=whole, is_recorded=True)
    rows = list(csv.DictReader(io.StringIO(tokens_csv(whole))))
    own, other = ([row for row in rows if row["lane"] == lane] for lane in ("run", "branch"))
    assert len(own) == sum(len(each.tokens) for each in whole.rounds)
    assert (other[0]["status"], other[0]["position"], other[0]["text"]) == ("forced", str(PLACE), " perhaps")
    assert len(other) == 1 + sum(len(each.tokens) for each in whole.branch.rounds)
    assert '\\"branch_round\\"' in html_export.page(whole, session.baseline)
    assert ["Forced", "' perhaps' at place 6, beside this run"] in run_facts.facts(whole)


def test_keep_makes_it_the_run_and_drop_takes_it_away(branches, session):
    press = RunPress()
    fork(branches, press, session)
    whole = press.session
    stage, dropped = branches.drop(press, session)
    verdict = conclusion(session.trace, session.baseline)
    assert dropped == session and status_of(stage)["text"] == f"The branch is dropped. {verdict[1]}"
    assert status_of(stage)["kind"] == verdict[0] and "instead of" in verdict[1], "the speed of the run is said again"
    assert branches.end(press)[1] is SKIP, "an end that comes after it brings nothing back"
    stage, taken = branches.keep(press, whole)
    assert taken == Session(whole.trace.branch, forced=(PLACE, TOKEN))
    assert "then this branch" in status_of(stage)["text"]
    assert line(stage, "about")["prefix"]["place"] == PLACE
    assert "not measured" in line(stage, "numbers")["tiles"]["speedup"][1]
    place = len(taken.trace.output) - 3
    fork(branches, press, taken, place)  # a branch of a branch, once that is the run
    again = press.session.trace
    assert again.branch.output[: place + 1] == [*taken.trace.output[:place], TOKEN]
    assert from_json(to_json(again)) == again
    press = RunPress()
    assert branches.keep(press, Session()) == branches.drop(press, Session()) == [SKIP, SKIP]


def test_dropping_a_branch_of_the_opening_run_claims_no_measurement(branches, session, monkeypatch):
    monkeypatch.setattr("app.playground.branch_handlers.load_recorded", lambda: (session.trace, session.baseline))
    press = RunPress()
    fork(branches, press, Session())
    stage, _ = branches.drop(press, press.session)
    assert "measured then" in status_of(stage)["text"] and "just now" not in status_of(stage)["text"]


def test_keep_waits_for_the_stream_that_has_just_shown_its_end(branches, session):
    press = RunPress()
    fork(branches, press, session)
    whole, press.request = press.session, VisitorRequest("somebody")  # not over yet
    ending = threading.Timer(0.05, press.request.over.set)
    ending.start()
    _, taken = branches.keep(press, whole)
    ending.join()
    assert taken == Session(whole.trace.branch, forced=(PLACE, TOKEN))


def test_what_names_no_token_is_nothing():
    for data in (None, [], {"place": True, "id": 3}, {"place": "1", "id": 3}, {"place": 2**31, "id": 3}, {"id": 3}):
        assert read_choice(data) is None
    assert read_choice({"place": 1, "id": 3}) == (1, 3)


def changed(session: Session, **fields) -> Session:
    return Session(replace(session.trace, started=replace(session.trace.started, **fields)))


@pytest.mark.parametrize("fields, words", [
    ({"pair": "elsewhere"}, "does not offer the pair"), ({}, "not at 61"),
    ({"weights": {"target": "ab"}}, "other weights"), ({"config": {"prompt": 3}}, "prompt is empty"),
    ({"config": {"surprise": 3}}, "incomplete"),
])  # fmt: skip
def test_a_place_or_a_model_that_is_not_here_is_refused_in_a_sentence(branches, session, fields, words):
    values = fork(branches, press := RunPress(), changed(session, **fields), PLACE if fields else 60)
    assert status_of(values[-1])["kind"] == "error" and words in status_of(values[-1])["text"]
    assert press.session is None or press.session.trace.branch is None
    assert lines(values, "branch_round") == []


def test_during_a_run_it_is_refused_and_stop_ends_it(session):
    worker = FakeWorker(step=0.05)
    branches = BranchHandlers(Service(FakeEngine(worker), Limits()))
    with branches.service.runs.request("a"):
        assert "the run has ended" in status_of(fork(branches, RunPress(), session)[-1])["text"]
    press, values = RunPress(), []
    branches.begin(visitor(), press, SimpleNamespace(_data={"place": PLACE, "id": TOKEN}))
    for value in branches.run(visitor(), press, session):
        values.append(value)
        if lines([value], "branch_round"):
            branches.service.runs.stop("a")
    assert "Stopped" in status_of(values[-1])["text"]
    assert 0 < len(press.session.trace.branch.rounds) < 15
    wait_for(lambda: worker.running is None)


def test_a_link_restores_the_run_and_its_branch():
    runs = page()
    links, press = LinkHandlers(runs.service), RunPress()
    press_run(runs)
    result = runs.service.runs.results.get(next(iter(runs.service.runs.results._runs)))
    shown = Session(result.run, result.baseline)
    fork(runs.branches, press, shown)
    branched: Trace = press.session.trace
    answer = json.loads(links.link(press.session, *form()))
    assert answer["link"].endswith(f"force={PLACE}:{TOKEN}")
    assert "force" not in json.loads(links.link(press.session, *form(seed=3)))["link"], "of other settings"
    assert "force" in json.loads(links.branch_address(press.session, *form()))["address"]
    kept = Session(branched.branch, forced=(PLACE, TOKEN))
    assert json.loads(links.link(kept, *form()))["link"] == answer["link"], "a kept branch has the link it had"
    assert links.branch_address(press.session, *form(seed=3)) == SKIP
    opened = SimpleNamespace(_data={"query": answer["link"]})
    _, stage, session, *_ = links.open_link(RunPress(), opened)
    assert session.trace == branched and line(stage, "branch")["place"] == PLACE, "both have run here"
    runs.service.runs.results._runs.clear()
    jobs, later = len(runs.service.runs.worker.jobs), RunPress()
    _, stage, *_ = links.open_link(later, opened)
    assert "forced at place 6" in status_of(stage)["text"] and len(runs.service.runs.worker.jobs) == jobs
    values = list(runs.run(visitor(), later, *form()))
    assert later.session.trace.output == branched.output and later.session.trace.branch.output == branched.branch.output
    assert later.linked is None and lines(values[-1:], "branch_round")


@pytest.mark.parametrize("force, words", [
    ("5:99999999", "forces token 99,999,999, but"), ("5", "not a place and a token's number"),
    ("-1:5", "not a place"), ("9" * 400, "not a place"),
])  # fmt: skip
def test_a_link_with_a_token_that_does_not_exist_gets_a_sentence(monkeypatch, force, words):
    service = Service(FakeEngine(), Limits())
    service.offer.pairs = {name: replace(pair, vocabulary=50_000) for name, pair in service.offer.pairs.items()}
    press = RunPress()
    _, stage, *_ = LinkHandlers(service).open_link(press, SimpleNamespace(_data={"query": f"force={force}&seed=7"}))
    assert words in status_of(stage)["text"] and press.linked is None

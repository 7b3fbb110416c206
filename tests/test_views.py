"""Views on a recorded run, without a server."""

import json
from dataclasses import replace

import pytest
from fake_worker import play

from app.views import ribbon, summary
from app.views.encode import encode, short
from app.views.notice import notice
from engine.config import RunConfig, SamplingParams
from engine.events import Round, Timings, Token
from engine.trace import Trace, fold

HOSTILE = '<script>alert(1)</script> </script> {{1+1}} ${1+1} \\u003c \u202e 🌊 \ud800 "\n'


def record(method="ngram", gamma=4, tokens=60, temperature=0.0) -> Trace:
    config = RunConfig("Hi", method=method, gamma=gamma, max_new_tokens=tokens, sampling=SamplingParams(temperature))
    return fold(play(config))


@pytest.fixture
def run() -> Trace:
    return record()


@pytest.fixture
def baseline() -> Trace:
    return record("none", 0)


def slowed(trace: Trace, factor: float, part: str) -> Trace:
    """The same run with one part of every round taking ``factor`` times as long."""
    rounds, clock = [], 0.0
    for event in trace.rounds:
        timings = replace(event.timings, **{part: getattr(event.timings, part) * factor})
        rounds.append(replace(event, timings=timings, start=clock, end=clock + timings.total))
        clock += timings.total
    return replace(trace, rounds=tuple(rounds))


def lines(text: str) -> list[dict]:
    assert text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


# ── the ribbon ──


def test_a_line_per_round_with_every_token_in_order(run):
    drawn = lines(ribbon.rounds(run.rounds))
    assert [line["index"] for line in drawn] == [event.index for event in run.rounds]
    for line, event in zip(drawn, run.rounds, strict=True):
        assert [(t["text"], t["status"]) for t in line["tokens"]] == [(t.text, t.status) for t in event.tokens]
        assert line["kept"] == sum(token.status == "accepted" for token in event.tokens)
        assert line["drafted"] == len(event.parents)


def test_the_emitted_pieces_join_to_the_output(run):
    dropped = ("rejected", "discarded")
    tokens = [token for line in lines(ribbon.rounds(run.rounds)) for token in line["tokens"]]
    assert "".join(token["text"] for token in tokens if token["status"] not in dropped) == run.text


def test_numbers_that_are_not_there_are_left_out():
    bare = Token(1, "a", "plain", 0, 1)
    line = lines(ribbon.rounds((Round(0, 0, (bare,), (), 0, 5, Timings(0, 0.1, 0, 0), 0, 0.1),)))[0]
    assert line["tokens"] == [{"text": "a", "status": "plain", "position": 0, "id": 1}]


def test_hostile_text_stays_text(run):
    token = replace(run.rounds[0].tokens[0], text=HOSTILE, label=HOSTILE)
    text = ribbon.rounds((replace(run.rounds[0], tokens=(token,)),))
    assert "<" not in text and text.isascii() and text.count("\n") == 1
    assert lines(text)[0]["tokens"][0]["text"] == HOSTILE


def test_greedy_runs_are_compared_token_by_token(run, baseline):
    assert lines(ribbon.compared(run, baseline))[0]["verdict"] == "same"
    first = baseline.rounds[0]
    odd = replace(first, tokens=(replace(first.tokens[0], id=12345, gap=0.0004),))
    other = replace(baseline, rounds=(odd, *baseline.rounds[1:]))
    assert lines(ribbon.compared(run, other))[0] == {"type": "compared", "verdict": "differs", "at": 0, "gap": 0.0004}


def test_samples_are_not_compared_token_by_token():
    run, baseline = record(temperature=0.8), record("none", 0, temperature=0.8)
    assert lines(ribbon.compared(run, baseline))[0]["verdict"] == "sampled"


# ── the numbers ──


def test_tiles_before_a_run_are_dashes():
    assert set(json.loads(summary.tiles(None))["tiles"]) == {"alpha", "tau", "speed", "speedup"}


def test_tiles_of_a_finished_race(run, baseline):
    drawn = json.loads(summary.tiles(run, baseline))
    statuses = [token.status for event in run.rounds for token in event.tokens]
    kept, refused = statuses.count("accepted"), statuses.count("rejected")
    assert drawn["tiles"]["alpha"] == [
        f"{kept / (kept + refused):.2f}",
        f"{kept} of {kept + refused} tested drafts were kept",
    ]
    assert drawn["tiles"]["speedup"][0] == f"{summary.speedup(run, baseline):.2f}×"
    assert "measured just now, one run each" in drawn["tiles"]["speedup"][1]
    assert [bar["label"] for bar in drawn["bars"]] == ["this run", "no drafting"]
    assert max(bar["width"] for bar in drawn["bars"]) == 1
    assert drawn["tone"] == "faster"


def test_no_speedup_until_both_runs_have_ended_by_themselves(run, baseline):
    assert summary.speedup(run, baseline) > 1
    assert summary.speedup(run, replace(baseline, finished=None)) is None
    assert summary.speedup(run, replace(baseline, finished=replace(baseline.finished, reason="cancelled"))) is None
    assert summary.speedup(run, None) is None


def test_waiting_for_the_baseline_is_not_called_a_result(run):
    waiting = json.loads(summary.tiles(replace(run, finished=None), None, measuring=True))["tiles"]["speedup"]
    assert waiting[0] == "…" and "right after" in waiting[1]
    assert json.loads(summary.tiles(run, None, measuring=True))["tiles"]["speedup"][0] == "…"


def test_plain_decoding_has_no_acceptance_and_no_race(baseline):
    drawn = json.loads(summary.tiles(baseline))
    assert drawn["tiles"]["alpha"] == ["–", "no draft was tested"]
    assert "this is the baseline" in drawn["tiles"]["speedup"][1]


@pytest.mark.parametrize(("part", "word"), [("draft", "drafting"), ("verify", "verifying"), ("host", "bookkeeping")])
def test_a_slowdown_is_said_and_its_largest_cost_named(run, baseline, part, word):
    slow = slowed(run, 200, part)
    sentence = summary.verdict(slow, baseline)
    assert summary.tone(summary.speedup(slow, baseline)) == "slower"
    assert sentence.startswith("Slower here: 0.") and f"cost was {word}:" in sentence


def test_noise_is_not_called_a_gain():
    assert [summary.tone(ratio) for ratio in (None, 0.9, 0.99, 1.0, 1.01, 1.3)] == [
        "level",
        "slower",
        "level",
        "level",
        "level",
        "faster",
    ]


# ── encoding ──


def test_notices_carry_text_as_text():
    assert "<" not in notice("error", HOSTILE)
    assert json.loads(notice("error", HOSTILE))["text"] == HOSTILE


def test_numbers_are_short_and_finite():
    assert short(1 / 3) == 0.333333
    assert short(float("nan")) is None and short(None) is None
    with pytest.raises(ValueError):
        encode({"x": float("inf")})

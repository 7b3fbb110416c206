"""Views on a recorded run, without a server."""

import json
from dataclasses import replace

import pytest
from fake_worker import recorded
from sample_traces import constrained

from app.playground.startup_run import BASELINE, OPENING, opening
from app.views import figures, player_feed, run_facts, status_words, tiles
from app.views.totals import Totals
from engine.trace.events import SERVER_ONLY, STATUSES
from engine.trace.metrics import compute_metrics
from engine.trace.trace import Trace, load


@pytest.fixture
def run() -> Trace:
    return recorded()


@pytest.fixture
def baseline() -> Trace:
    return recorded("none", 0)


def slowed(trace: Trace, factor: float, part: str) -> Trace:
    """Returns the run with one part of every round taking ``factor`` times as long."""
    rounds, clock = [], 0.0
    for event in trace.rounds:
        timings = replace(event.timings, **{part: getattr(event.timings, part) * factor})
        rounds.append(replace(event, timings=timings, start=clock, end=clock + timings.total))
        clock += timings.total
    return replace(trace, rounds=tuple(rounds))


def lines(text: str) -> list[dict]:
    assert text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def test_a_run_with_auto_says_what_auto_chose_and_why(run, baseline):
    config, names = run.started.config | {"method": "auto", "gamma": "auto"}, ("ngram", "eagle", "")
    rounds = [replace(event, drafter=names[event.index % 3]) for event in run.rounds[:8]]
    for index in (2, 4, 5):  # in one of them the head was chosen, but no guess was worth its row
        rounds[index] = replace(rounds[index], parents=(), tokens=rounds[index].tokens[-1:])
    rounds = tuple(rounds)
    several = Trace(replace(run.started, config=config), rounds, run.finished)
    (line,) = (line for line in lines(player_feed.numbers(several, baseline)) if line["type"] == "chosen")
    assert "· auto: n-gram lookup in 3, EAGLE head in 2, no draft in 3 of 8 rounds ·" in line["words"]
    assert "most tokens for its time" in line["why"]
    note = figures.draw_acceptance(several, compute_metrics(several)).note
    tokens = [token for event in rounds if event.drafter == "eagle" for token in event.tokens]
    accepted, rejected = (sum(token.status == status for token in tokens) for status in ("accepted", "rejected"))
    assert f"EAGLE head in 2 rounds, α = {accepted / (accepted + rejected):.2f}; no draft in 3." in note
    assert "chosen" not in player_feed.numbers(run, baseline)


def test_a_very_long_trace_is_sent_without_its_candidates(run):
    many = replace(run, rounds=run.rounds * 150, finished=None)
    told = lines(player_feed.complete("run", many))
    assert told[1]["lean"] is True and "p_top" not in str(told) and told[2]["tokens"][0]["u"] is not None
    assert "lean" not in lines(player_feed.complete("run", run))[1]


def test_the_opening_recording_shows_every_verdict_of_a_draft():
    trace = load(OPENING)
    statuses = {token.status for event in trace.rounds for token in event.tokens}
    assert statuses == set(STATUSES) - {"rescued", "plain"} - SERVER_ONLY
    assert trace.started.config["sampling"]["temperature"] > 0
    stage, drawn = opening()
    assert stage.startswith('{"type":"start"') and len(stage) < 100_000
    numbers, *_, status = lines(stage)[-4:]
    assert numbers["tiles"]["tau"][0] != "–" and numbers["plain"]["counts"][-1] == len(load(BASELINE).output)
    assert "guesses up to 16 tokens" in status["text"] and json.loads(drawn[1])["figures"]["rounds"]["data"]
    assert all(token.p is not None for event in trace.rounds for token in event.tokens)


def test_greedy_runs_are_compared_token_by_token_and_samples_are_not(run, baseline):
    assert lines(player_feed.comparison_line(run, baseline))[0]["verdict"] == "same"
    first = baseline.rounds[0]
    odd = replace(first, tokens=(replace(first.tokens[0], id=12345, gap=0.0004),))
    other = replace(baseline, rounds=(odd, *baseline.rounds[1:]))
    differs = {"type": "compared", "verdict": "differs", "at": 0, "gap": 0.0004}
    assert lines(player_feed.comparison_line(run, other)) == [differs]
    sample, plain = recorded(temperature=0.8), recorded("none", 0, temperature=0.8)
    assert lines(player_feed.comparison_line(sample, plain))[0]["verdict"] == "sampled"


def test_tiles_of_a_finished_race_of_plain_decoding_and_of_nothing(run, baseline):
    assert set(json.loads(tiles.tiles(None))["tiles"]) == {"alpha", "tau", "speed", "speedup"}
    alone = json.loads(tiles.tiles(baseline))["tiles"]
    assert alone["alpha"] == ["–", "no draft was tested"] and "this is the baseline" in alone["speedup"][1]
    drawn = json.loads(tiles.tiles(run, baseline))
    statuses = [token.status for event in run.rounds for token in event.tokens]
    kept, refused = statuses.count("accepted"), statuses.count("rejected")
    assert f"{kept} of {kept + refused} tested drafts were accepted" in drawn["tiles"]["alpha"][1]
    assert drawn["tiles"]["speedup"][0] == f"{tiles.speedup(run, baseline).value:.2f}×"
    assert drawn["plain"]["counts"][-1] == len(baseline.emitted)
    assert drawn["tone"] == "faster"


def test_no_speedup_until_both_runs_have_ended_by_themselves(run, baseline):
    assert tiles.speedup(run, baseline).value > 1
    assert tiles.speedup(run, replace(baseline, finished=None)) is None
    assert tiles.speedup(run, replace(baseline, finished=replace(baseline.finished, reason="cancelled"))) is None
    assert tiles.speedup(run, None) is None


def test_a_slowdown_is_said_and_its_largest_cost_named(run, baseline):
    for part, word in (("draft", "drafting"), ("verify", "verifying"), ("host", "bookkeeping")):
        slow = slowed(run, 200, part)
        sentence = tiles.verdict(slow, baseline)
        assert tiles.speedup(slow, baseline).tone == "slower"
        assert sentence.startswith("Slower here: 0.") and f"extra time went into {word}: try " in sentence
        assert "ms" not in sentence
        assert f"cost was {word}:" in figures.draw_times(slow, compute_metrics(slow), baseline).note


def test_a_run_with_a_constraint_tells_what_the_grammar_did():
    trace = constrained()
    told = lines(player_feed.complete("run", trace))
    assert told[1]["constraint"] == "regular expression" and "· regular expression ·" in told[1]["words"]
    first, second = (line for line in told if line["type"] == "round")
    assert first["forbidden"] == [{"text": "<i>", "position": 3, "id": 5, "parent": 3}]
    assert first["drafted"] == 3 and second["drafted"] == 0, "forbidden drafts are not counted"
    assert [token.get("grammar") for token in first["tokens"]] == [True, None, None, None]
    assert first["tokens"][0]["removed"] == {"top": [[3, "The", 0.5], [8, "<b>", 0.125]], "rest": 0.125}
    assert told[-1] == {"type": "finish", "reason": "length", "tokens": 3, "notes": trace.finished.notes[0]}
    number, words = json.loads(tiles.tiles(trace))["tiles"]["grammar"]
    assert number == "1 of 3" and words.startswith("1 of 3 tokens came from the grammar")
    assert "2 drafts were forbidden and not scored" in words
    assert ["Constraint", "regular expression: x+"] in run_facts.facts(trace)


def test_a_grammar_that_drafted_nothing_says_why():
    trace, always = constrained(), "no token came from the grammar: it never left only one text"
    first = trace.rounds[0]
    first = replace(first, tokens=tuple(replace(token, from_grammar=False) for token in first.tokens))
    only = "the grammar drafts only with the methods auto and grammar"
    for method, words in (("auto", always), ("grammar", always), ("ngram", only)):
        started = replace(trace.started, config=trace.started.config | {"method": method})
        drafting = replace(trace, started=started, rounds=(first, *trace.rounds[1:]))
        assert json.loads(tiles.tiles(drafting))["tiles"]["grammar"][1].startswith(words)


def test_a_run_has_no_word_of_a_constraint_and_a_made_up_one_does_no_harm(run):
    text = player_feed.complete("run", run) + tiles.tiles(run)
    assert not any(f'"{word}"' in text for word in ("constraint", "grammar", "forbidden", "removed", "notes"))
    assert "Constraint" not in dict(run_facts.facts(run))
    for constraint in (7, {"kind": ["<b>"], "text": {}}):
        odd = replace(run, started=replace(run.started, config=run.started.config | {"constraint": constraint}))
        assert lines(player_feed.complete("run", odd)) and tiles.tiles(odd)
        assert all(isinstance(value, str) for _, value in run_facts.facts(odd))


@pytest.mark.parametrize("run", [recorded("ngram", 3), recorded("none", 0)])
def test_the_running_totals_are_the_metrics_of_the_whole(run):
    totals, numbers = Totals.from_trace(run), compute_metrics(run)
    assert (totals.tokens, totals.rounds, totals.accepted, totals.tested) == (
        numbers.tokens, numbers.passes, numbers.accepted, numbers.tested,
    )  # fmt: skip
    assert totals.tau == pytest.approx(numbers.tau.value) and totals.others == run.others
    assert totals.tokens_per_second == pytest.approx(numbers.tokens_per_second)
    assert totals.alpha == (numbers.alpha and numbers.alpha.value)


def test_status_of_a_load_has_a_share_only_where_one_is_known():
    """A head's load reports none, and the page said 0 % until it was over."""
    words = [status_words.status("loading", message="Loading a head", fraction=share)["text"] for share in (0.0, 0.4)]
    assert words == ["Loading a head", "Loading a head, 40\u00a0%"]

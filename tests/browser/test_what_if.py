"""What another γ or temperature would change in a run: the browser's sums against the engine's on a recorded trace."""

import json
from dataclasses import replace

import pytest
from player_page import page_with

from app.playground.startup_run import OPENING
from app.views import player_feed
from engine.trace.metrics import compute_metrics, depths
from engine.trace.noise import monotone_costs
from engine.trace.speedup_model import interpolate
from engine.trace.trace import Trace, load
from lessons.schema import TRACES

pytestmark = pytest.mark.browser
TRACE = load(TRACES / "sky_lm.json")  # a sample in chains, of one drafter


def rounds_of(trace: Trace) -> list[dict]:
    return [json.loads(line) for line in player_feed.rounds(trace.rounds).splitlines()]


@pytest.fixture(scope="module")
def script(browser):
    with page_with(browser, "player/what_if.js") as page:
        yield lambda code, *arguments: page.evaluate(code, list(arguments))


def about(method: str, **costs) -> dict:
    """The page's line about the recorded run, as if it had been drafted by ``method``."""
    started = TRACE.started
    started = replace(started, config=started.config | {"method": method}, costs=replace(started.costs, **costs))
    return json.loads(player_feed.about_line(started))


def test_costs_are_sent_where_one_drafter_pays_them_in_chains():
    assert about("lm")["costs"]["once"] is False and about("block")["costs"]["once"] is True
    assert about("lookahead")["costs"] is None, "its window is scored, too"
    assert about("auto", draft_costs={"eagle": 0.4, "ngram": 0.0})["costs"] is None, "each drafter has its own c"


def test_a_resampled_token_replaces_the_draft_at_its_own_place(browser):
    """A younger sibling of an accepted draft is rejected, too, a place before, if acceptance is typical."""
    tokens = [("accepted", 5), ("rejected", 6), ("rejected", 5), ("resampled", 6)]
    drafts = [{"status": status, "position": position, "index": i} for i, (status, position) in enumerate(tokens)]
    with page_with(browser, "player/probabilities.js") as page:
        assert page.evaluate("tokens => rejectedAt(tokens[3], { tokens }).index", drafts) == 1


def test_at_the_runs_own_temperature_as_many_guesses_hold_as_did(script):
    sample = load(OPENING)
    rounds, warmth = rounds_of(sample), sample.started.config["sampling"]["temperature"]
    held = script("([rounds, t]) => heldAt(rounds, t, t)", rounds, warmth)
    assert held == pytest.approx(compute_metrics(sample).alpha.value), "α, as the tile has it"
    greedy, cold, hotter = (
        script("([rounds, t, to]) => heldAt(rounds, t, to)", rounds, warmth, to) for to in (0, 0.01, 2.0)
    )
    assert greedy == pytest.approx(cold, abs=0.02) and hotter < held
    blocks = [{**r, "tokens": [{**t, "h": 0.5} for t in r["tokens"]]} for r in rounds]
    assert script("([rounds, t]) => heldAt(rounds, t, t)", blocks, warmth) is None, "another rule decided"


def test_a_guess_after_a_rejected_sibling_is_left_out(script):
    sample = load(OPENING)
    rounds, warmth = rounds_of(sample), sample.started.config["sampling"]["temperature"]
    tested = [token for each in rounds for token in each["tokens"] if token["status"] in ("accepted", "rejected")]
    younger = next(token for token in tested if token["status"] == "accepted")
    younger["sibling"] = True
    kept = sum(token["status"] == "accepted" for token in tested) - 1
    held = script("([rounds, t]) => heldAt(rounds, t, t)", rounds, warmth)
    assert held == pytest.approx(kept / (len(tested) - 1))


def test_another_length_is_predicted_from_the_acceptance_at_each_depth(script):
    costs, rounds = monotone_costs(TRACE.started.costs), rounds_of(TRACE)
    plain = {"c": 0.3, "v": {str(width): cost for width, cost in costs.v.items()}}
    chances = [accepted / tested for accepted, tested in depths(TRACE.rounds).values()]
    drafting = sum(len(r.parents) > 0 for r in TRACE.rounds) / len(TRACE.rounds)
    for gamma in (1, 2, 4):
        reached, tokens = 1.0, 1.0
        for chance in chances[:gamma]:
            reached *= chance
            tokens += reached
        tokens = drafting * tokens + 1 - drafting
        for once in (True, False):  # as a block's drafts, or one after the other
            cost = drafting * ((1 if once else gamma) * 0.3 + interpolate(costs.v, gamma + 1)) + 1 - drafting
            arguments = rounds, gamma, plain | {"once": once}
            found = script("([rounds, gamma, costs]) => withLength(rounds, gamma, costs)", *arguments)
            assert found["tokens"] == pytest.approx(tokens)
            assert found["speedup"] == pytest.approx(tokens / cost, rel=1e-4)
    numbers = compute_metrics(TRACE)
    assert found["tokens"] == pytest.approx(numbers.tau.value, abs=0.15), "the run's own γ gives the run's own τ"
    assert numbers.alpha, "a run without a tested draft shows nothing"

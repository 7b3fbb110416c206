"""What another γ or temperature would change in a run: the browser's sums against the engine's on a recorded trace."""

import json

import pytest
from player_page import page_with

from app.playground.startup_run import OPENING
from app.views import player_feed
from engine.trace.metrics import compute_metrics, depths
from engine.trace.noise import settled
from engine.trace.speedup_model import interpolate
from engine.trace.trace import load

pytestmark = pytest.mark.browser
TRACE = load(OPENING)
ROUNDS = [json.loads(line) for line in player_feed.rounds(TRACE.rounds).splitlines()]
FROM = TRACE.started.config["sampling"]["temperature"]


@pytest.fixture(scope="module")
def script(browser):
    with page_with(browser, "player/what_if.js") as page:
        yield lambda code, *arguments: page.evaluate(code, list(arguments))


def test_at_the_runs_own_temperature_the_guesses_hold_as_often_as_they_did_on_average(script):
    held = script("([rounds, t]) => heldAt(rounds, t, t)", ROUNDS, FROM)
    tested = [t for r in TRACE.rounds for t in r.tokens if t.status in ("accepted", "rejected") and t.p_top]
    assert held == pytest.approx(sum(t.accept for t in tested) / len(tested), abs=0.03)
    colder, hotter = (script("([rounds, t, to]) => heldAt(rounds, t, to)", ROUNDS, FROM, to) for to in (0, 2.0))
    assert 0 <= colder <= 1 and hotter < held


def test_another_length_is_predicted_from_the_acceptance_at_each_depth(script):
    costs = settled(TRACE.started.costs)
    plain = {"c": costs.c, "v": {str(width): cost for width, cost in costs.v.items()}}
    chances = [accepted / tested for accepted, tested in depths(TRACE.rounds).values()]
    drafting = sum(len(r.parents) > 0 for r in TRACE.rounds) / len(TRACE.rounds)
    for gamma in (1, 2, 4):
        reached, tokens = 1.0, 1.0
        for chance in chances[:gamma]:
            reached *= chance
            tokens += reached
        tokens = drafting * tokens + 1 - drafting
        cost = drafting * (gamma * costs.c + interpolate(costs.v, gamma + 1)) + 1 - drafting
        found = script("([rounds, gamma, costs]) => withLength(rounds, gamma, costs)", ROUNDS, gamma, plain)
        assert found["tokens"] == pytest.approx(tokens)
        assert found["speedup"] == pytest.approx(tokens / cost, rel=1e-4)
    numbers = compute_metrics(TRACE)
    assert found["tokens"] == pytest.approx(numbers.tau.value, abs=0.15), "the run's own γ gives the run's own τ"
    assert numbers.alpha, "a run without a tested draft shows nothing"

"""A trace is a file: it round-trips exactly and replays without a model. Hostile ones: test_hostile_trace.py."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_traces import small

from engine.config import MAX_NEW_TOKENS
from engine.tools.exactness.toy_models import ToyLM, make_drafter, toy_decoder
from engine.trace import trace as traces
from engine.trace.events import Candidate, Distribution, PromptToken, Round, Timings, Token
from engine.trace.trace import Trace, fold, from_json, to_json, with_branch


def test_a_file_of_a_lossy_run_says_so_first():
    whole = small()
    sampled = whole.started.config | {"acceptance": "typical", "sampling": {"temperature": 0.8}}
    lossy = replace(whole, started=replace(whole.started, config=sampled))
    assert to_json(lossy).startswith('{"schema":1,"lossy":"typical acceptance: above temperature 0')
    assert from_json(to_json(lossy)) == lossy and '"lossy"' not in to_json(whole)
    for change in ({"sampling": {"temperature": 0.0}}, {"method": "none"}, {"gamma": 0}, {"acceptance": ["typical"]}):
        exact = replace(lossy, started=replace(lossy.started, config=sampled | change))
        assert '"lossy"' not in to_json(exact), change


def test_fold_gathers_events_in_order():
    whole = small()
    assert fold([whole.started, *whole.rounds, whole.finished]) == whole
    assert whole.text == "xxx" and [t.position for t in whole.emitted] == [0, 1, 2]
    with pytest.raises(ValueError, match="begins with RunStarted"):
        fold(whole.rounds)
    with pytest.raises(ValueError, match="not an event"):
        fold([whole.started, "round"])


shares = st.floats(0, 1)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
distributions = st.none() | st.builds(
    Distribution, st.lists(st.builds(Candidate, st.integers(0, 2**31), texts, shares), max_size=3).map(tuple), shares
)
numbers = {name: st.none() | shares for name in ("p", "q", "u", "accept", "running", "h")}
numbers |= {name: distributions for name in ("p_top", "q_top", "residual")} | {"label": st.none() | texts}


@st.composite
def make_trace(draw, prefix=()) -> Trace:
    """Any trace that keeps the rules: trees and chains, one closing token or none, numbers anywhere in range.
    ``prefix``: the tokens that its output begins with."""
    rounds, position, clock = [], len(prefix), 0.0
    for index in range(draw(st.integers(0, 4))):
        parents, depth = [], [0]
        for i in range(draw(st.integers(0, 5))):
            parents.append(draw(st.integers(0, i)))
            depth.append(depth[parents[-1]] + 1)
        kept = draw(st.integers(0, len(parents)))
        known = [draw(st.fixed_dictionaries(numbers)) for _ in range(len(parents) + 1)]
        tokens = []
        for i in range(len(parents)):
            status = draw(st.sampled_from(["accepted", "rescued"] if i < kept else ["rejected", "discarded"]))
            at = position + i if i < kept else draw(st.integers(0, 200_000))
            tokens.append(Token(draw(st.integers(0, 2**31)), draw(texts), status, at, depth[i + 1], **known[i]))
        position += kept
        if draw(st.booleans()) or not tokens:
            closing = draw(st.sampled_from(["resampled", "bonus", "plain"]))
            tokens.append(Token(3, draw(texts), closing, position, draw(st.integers(0, 9)), **known[-1]))
            position += 1
        times = [draw(st.floats(0, 100)) for _ in range(5)]
        start, clock = clock, clock + times[4]
        rounds.append(Round(index, draw(st.integers(0, 32)), tuple(tokens), tuple(parents), draw(st.integers(0, 9)),
                            draw(st.integers(0, 9999)), Timings(*times[:4]), start, clock))  # fmt: skip
    prompt = draw(st.lists(st.builds(PromptToken, st.integers(0, 2**31), texts), max_size=3).map(tuple))
    finished = draw(st.sampled_from([small().finished, None]))  # None: of a run that was lost
    started = replace(small().started, prompt=prompt, pair=draw(texts), prefix=prefix)
    return Trace(started, tuple(rounds), finished)


@st.composite
def forked(draw) -> Trace:
    """Any trace, perhaps with a branch from any place of its output, perhaps a branch that was kept."""
    known = st.builds(PromptToken, st.integers(0, 2**31), texts, st.none() | texts)
    run = draw(make_trace(draw(st.lists(known, max_size=2).map(tuple))))
    if not run.output or draw(st.booleans()):
        return run
    place = draw(st.integers(0, len(run.output) - 1))
    prefix = (*(PromptToken(i, "x") for i in run.output[:place]), draw(known))
    branch = draw(make_trace(prefix))
    return with_branch(run, replace(branch, started=replace(branch.started, prompt=run.started.prompt)))


@given(forked())
@settings(max_examples=40)
def test_any_trace_round_trips(whole):
    again = from_json(to_json(whole).encode())
    assert again == whole and to_json(again) == to_json(whole)


def test_limits_hold_what_the_engine_can_write():
    """A run at every limit of the settings, at the default width of the trace, stays readable."""
    run = toy_decoder(ToyLM.random(8, 1), make_drafter("lm", ToyLM.random(8, 2)), [1, 2, 3], gamma=3, max_new_tokens=40)
    text = to_json(Trace(small().started, rounds := tuple(run.rounds()), small().finished))
    assert MAX_NEW_TOKENS * len(text.encode()) / len(rounds) < traces.MAX_BYTES and MAX_NEW_TOKENS < traces.MAX_ROUNDS
    assert MAX_NEW_TOKENS * text.count(",") / len(rounds) < traces.MAX_VALUES

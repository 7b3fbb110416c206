"""A branch: a run that begins with a part of another's output and a forced token, and has the same draws."""

from collections import Counter
from dataclasses import replace

import pytest
from chi_squared import FALSE_ALARM, joint_p_value

from engine.config import RunConfig, SamplingParams
from engine.drafters.none import NoDrafter
from engine.errors import BadInput
from engine.exactness.toy_models import ToyLM, exact_distribution, generate, make_drafter, record_trace, toy_decoder
from engine.trace.branch import branch_request, check_models

GREEDY, WARM, PENALISED = SamplingParams(), SamplingParams(0.8), SamplingParams(0.8, repetition_penalty=1.5)
METHODS = ["none", "ngram", "lm", "independent", "without_replacement", "top"]
TARGET = ToyLM.random(8, seed=1, spread=1.2)
DRAFT = TARGET.with_noise(0.8, seed=2)
MOST = 40


def rounds_of(method, sampling, prefix=(), acceptance="token"):
    drafter = make_drafter(method, DRAFT)
    settings = {"gamma": 3, "max_new_tokens": MOST, "seed": 3, "prefix": prefix, "acceptance": acceptance}
    return list(toy_decoder(TARGET, drafter, [0, 1], sampling, **settings).rounds())


def ids_of(rounds) -> list[int]:
    return [token.id for each in rounds for token in each.emitted]


def timeless(rounds):
    return [replace(each, index=0, timings=None, start=0.0, end=0.0) for each in rounds]


@pytest.mark.parametrize("sampling", [GREEDY, WARM, PENALISED], ids=["greedy", "warm", "penalised"])
@pytest.mark.parametrize("method, acceptance", [*((method, "token") for method in METHODS), ("lm", "block")])
def test_with_the_token_that_was_there_a_branch_at_a_rounds_end_is_the_rest_of_the_run(method, acceptance, sampling):
    """In every number of every token: places, draws, p, q, residuals and the tokens that the penalty counts."""
    first = rounds_of(method, sampling, (), acceptance)
    for ended in range(1, len(first), 4):
        prefix = ids_of(first[:ended])
        assert timeless(rounds_of(method, sampling, prefix, acceptance)) == timeless(first[ended:])


@pytest.mark.parametrize("method, sampling", [("none", PENALISED), *((method, GREEDY) for method in METHODS)])
def test_without_drafts_or_greedy_it_is_so_at_every_place(method, sampling):
    output = ids_of(rounds_of(method, sampling))
    for place in range(1, MOST - 1, 5):
        assert output[:place] + ids_of(rounds_of(method, sampling, output[:place])) == output


def test_inside_a_round_a_sampled_draft_may_be_another():
    """Because a draft is drawn by its place and its step in the round, which begins elsewhere in the branch."""
    first = rounds_of("lm", WARM)
    inside = [sum(len(r.emitted) for r in first[:i]) + 1 for i, r in enumerate(first) if len(r.emitted) > 1]
    output = ids_of(first)
    assert any(output[:at] + ids_of(rounds_of("lm", WARM, output[:at])) != output for at in inside)


@pytest.mark.parametrize("method", METHODS)
def test_both_lanes_share_the_draws_of_a_place(method):
    """With another token forced, a closing token at the same place was drawn with the same u."""
    first = rounds_of(method, WARM)
    output, place = ids_of(first), 7
    other = rounds_of(method, WARM, (*output[:place], (output[place] + 1) % 8))
    assert other[0].tokens[0].position == place + 1
    drawn = [{t.position: t.u for r in rounds for t in r.tokens if t.status in ("plain", "bonus", "resampled")}
             for rounds in (first, other)]  # fmt: skip
    shared = drawn[0].keys() & drawn[1].keys()
    assert shared and all(drawn[0][at] == drawn[1][at] for at in shared)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["lm", "without_replacement"])
def test_over_all_seeds_a_branch_keeps_the_targets_law(method):
    """Each prefix comes from a run with the same seed, so that a draw of both lanes that decides twice would show."""
    settings = {"sampling": WARM, "gamma": 3, "max_new_tokens": 6}
    counts: dict[int, Counter] = {}
    for seed in range(1200):
        before = generate(TARGET, make_drafter(method, DRAFT), [0, 1], seed=seed, **settings)[:3]
        written = generate(TARGET, make_drafter(method, DRAFT), [0, 1], seed=seed, prefix=(*before, 5), **settings)
        counts.setdefault(before[-1], Counter())[tuple(written[4:])] += 1
    for last, seen in counts.items():
        assert joint_p_value(seen, exact_distribution(TARGET, [last, 5], 2, WARM)) > FALSE_ALARM / len(counts)


# ---- ends and refusals ---------------------------------------------------------------------------------------------


def test_the_given_tokens_count_as_output():
    run = toy_decoder(TARGET, NoDrafter(), [0, 1], WARM, max_new_tokens=9, prefix=(2, 3, 4))
    rounds = list(run.rounds())
    assert len(ids_of(rounds)) == 6 and run.reason == "length" and run.committed[2:5] == [2, 3, 4]
    assert run.text.startswith("c d e") and rounds[0].context == 4 and rounds[0].tokens[0].position == 3


def test_a_stop_text_may_begin_in_the_given_tokens():
    free = toy_decoder(TARGET, NoDrafter(), [0, 1], GREEDY, prefix=(2, 3))
    list(free.rounds())
    run = toy_decoder(TARGET, NoDrafter(), [0, 1], GREEDY, prefix=(2, 3), stop=(free.text[2:5],))
    assert len(list(run.rounds())) == 1 and run.reason == "stop"


@pytest.mark.parametrize("prefix, words", [
    ((2, 99), "Token 99 does not exist: the vocabulary has 8 tokens"), ((2, 6), "ends the text"),
    ((6, 2), "ends the text"), ((2, 4), "ends the text"), ((1,) * 8, "number 8 of the 8 allowed"),
    ((1, -1), "numbers of tokens"), ((1, True), "numbers of tokens"),
])  # fmt: skip
def test_a_token_that_cannot_be_forced_is_refused_before_the_run(prefix, words):
    with pytest.raises(BadInput, match=words):
        toy_decoder(TARGET, NoDrafter(), [0, 1], eos=(6,), stop=("c e",), max_new_tokens=8, prefix=prefix)


# ---- the request ---------------------------------------------------------------------------------------------------


def test_a_recorded_run_gives_the_request_of_its_branch():
    run = record_trace(TARGET, make_drafter("lm", DRAFT), [0, 1], sampling=WARM, max_new_tokens=12, seed=9)
    output = [token.id for token in run.emitted]
    config = branch_request(run, 3, 7)
    assert config == RunConfig(
        "a b", "toy", "lm", 4, WARM, max_new_tokens=12, seed=9, prefix=(*output[:3], 7)
    )  # fmt: skip
    for place in (-1, 12, 10**9):
        with pytest.raises(BadInput, match="at the places 1 to 12 of this output"):
            branch_request(run, place, 7)
    for strange in ({"surprise": 1}, {"sampling": 3}, {"seed": "x"}, {"prompt": " "}):
        broken = replace(run, started=replace(run.started, config=run.started.config | strange))
        with pytest.raises(BadInput):
            branch_request(broken, 3, 7)
    with pytest.raises(BadInput, match="other weights"):
        check_models(run.started, replace(run.started, weights={"target": "another"}))
    with pytest.raises(BadInput, match="other tokens"):
        check_models(run.started, replace(run.started, prompt=run.started.prompt[1:]))

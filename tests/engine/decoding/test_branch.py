"""A branch: a run that begins with a part of another's output and a forced token, and has the same draws."""

from collections import Counter
from dataclasses import replace

import pytest
from chi_squared import FALSE_ALARM, joint_p_value
from toy_runs import DRAFT, GREEDY, METHODS, TARGET, WARM, ids_of, timeless

from engine.config import RunConfig, SamplingParams
from engine.drafters.none import NoDrafter
from engine.errors import BadInput
from engine.tools.exactness.toy_models import exact_distribution, generate, make_drafter, record_trace, toy_decoder
from engine.trace.branch import branch_config, check_models

PENALISED = SamplingParams(0.8, repetition_penalty=1.5)
MOST = 40


def rounds_of(method, sampling, prefix=(), acceptance="token"):
    drafter = make_drafter(method, DRAFT)
    settings = {"gamma": 3, "max_new_tokens": MOST, "seed": 3, "prefix": prefix, "acceptance": acceptance}
    return list(toy_decoder(TARGET, drafter, [0, 1], sampling, **settings).rounds())


@pytest.mark.parametrize("sampling", [GREEDY, WARM, PENALISED], ids=["greedy", "warm", "penalised"])
@pytest.mark.parametrize("method, acceptance", [*((method, "token") for method in METHODS), ("lm", "block")])
def test_branch_with_the_same_token_at_a_rounds_end_repeats_the_run(method, acceptance, sampling):
    """Every number of every token agrees: places, draws, p, q, residuals and the tokens that the penalty counts."""
    first = rounds_of(method, sampling, (), acceptance)
    for ended in range(1, len(first), 4):
        prefix = ids_of(first[:ended])
        assert timeless(rounds_of(method, sampling, prefix, acceptance), index=0) == timeless(first[ended:], index=0)


@pytest.mark.parametrize("method, sampling", [("none", PENALISED), *((method, GREEDY) for method in METHODS)])
def test_without_drafts_or_greedy_it_is_so_at_every_place(method, sampling):
    output = ids_of(rounds_of(method, sampling))
    for place in range(1, MOST - 1, 5):
        assert output[:place] + ids_of(rounds_of(method, sampling, output[:place])) == output


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


def test_the_given_tokens_count_as_output():
    run = toy_decoder(TARGET, NoDrafter(), [0, 1], WARM, max_new_tokens=9, prefix=(2, 3, 4))
    rounds = list(run.rounds())
    assert len(ids_of(rounds)) == 6 and run.text.reason == "length" and run.text.ids[2:5] == [2, 3, 4]
    assert run.text.output.startswith("c d e") and rounds[0].context == 4 and rounds[0].tokens[0].position == 3


def test_a_stop_text_may_begin_in_the_given_tokens():
    text = "c d " + TARGET.words[ids_of(toy_decoder(TARGET, NoDrafter(), [0, 1], GREEDY, prefix=(2, 3)).rounds())[0]]
    run = toy_decoder(TARGET, NoDrafter(), [0, 1], GREEDY, prefix=(2, 3), stop=(text[2:5],))
    assert len(list(run.rounds())) == 1 and run.text.reason == "stop"


@pytest.mark.parametrize("prefix, words", [
    ((2, 99), "Token 99 does not exist: the vocabulary has 8 tokens"), ((2, 6), "ends the text"),
    ((6, 2), "ends the text"), ((2, 4), "ends the text"), ((1,) * 8, "number 8 of the 8 allowed"),
    ((1, -1), "numbers of tokens"), ((1, True), "numbers of tokens"),
])  # fmt: skip
def test_a_token_that_cannot_be_forced_is_refused_before_the_run(prefix, words):
    with pytest.raises(BadInput, match=words):
        toy_decoder(TARGET, NoDrafter(), [0, 1], eos=(6,), stop=("c e",), max_new_tokens=8, prefix=prefix)


def test_a_recorded_run_gives_the_request_of_its_branch():
    run = record_trace(TARGET, make_drafter("lm", DRAFT), [0, 1], sampling=WARM, max_new_tokens=12, seed=9)
    output = [token.id for token in run.emitted]
    config = branch_config(run, 3, 7)
    assert config == RunConfig("a b", "toy", "lm", 4, WARM, max_new_tokens=12, seed=9, prefix=(*output[:3], 7))
    for place in (-1, 12, 10**9):
        with pytest.raises(BadInput, match="at the places 1 to 12 of this output"):
            branch_config(run, place, 7)
    for strange in ({"surprise": 1}, {"sampling": 3}, {"seed": "x"}, {"prompt": " "}):
        broken = replace(run, started=replace(run.started, config=run.started.config | strange))
        with pytest.raises(BadInput):
            branch_config(broken, 3, 7)
    with pytest.raises(BadInput, match="other weights"):
        check_models(run.started, replace(run.started, weights={"target": "another"}))
    with pytest.raises(BadInput, match="other tokens"):
        check_models(run.started, replace(run.started, prompt=run.started.prompt[1:]))

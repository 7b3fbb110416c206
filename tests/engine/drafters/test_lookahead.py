"""Lookahead: its window, its pool of n-grams, and the law of its output."""

from collections import Counter

import pytest
import torch
from chi_squared import CAUGHT, FALSE_ALARM, joint_p_value
from exact_laws import paths_of

from engine.config import METHODS, SamplingParams
from engine.decoding.loop import TRUE_RULES
from engine.drafters.base import DrafterSetup
from engine.drafters.lookahead import LookaheadDrafter
from engine.sampling.random_streams import Uniforms
from engine.tools.exactness.mutants import rules
from engine.tools.exactness.toy_models import ToyLM, ToyRunner, exact_distribution, generate, toy_decoder

PROMPT = [0, 1, 2, 5, 0, 1, 3, 0, 1, 4, 4, 0, 1]
TARGET = ToyLM.random(6, seed=0, spread=0.8)


def started(committed: list[int], capacity=200, copy_from=0, **sizes) -> LookaheadDrafter:
    drafter = LookaheadDrafter()
    setup = DrafterSetup(SamplingParams(), 6, Uniforms(0, 8), None, capacity, "cpu", copy_from=copy_from)
    drafter.start(committed, setup, **METHODS["lookahead"].defaults | sizes)
    return drafter


def a_round(drafter: LookaheadDrafter, committed: list[int]):
    """Drafts, and feeds the target's rows after the tree back."""
    runner, draft = ToyRunner(TARGET), drafter.propose(committed, 16)
    runner.prefill(committed[:-1])
    drafter.observe_target(runner.forward(torch.cat([torch.tensor(committed[-1:]), draft.tokens]), draft.parents))
    return draft


def test_a_column_of_the_window_is_what_the_target_would_say_next():
    """Each new level holds the likeliest tokens after the one below it, of the same column (a Jacobi iteration)."""
    drafter, committed = started(PROMPT, window=3, ngram_size=4, guesses=2), list(PROMPT)
    for level in (1, 2):
        below = drafter.levels
        draft = a_round(drafter, committed)
        assert len(drafter.levels) == level + 1 and drafter.levels[:-1] == below
        tops = [[*committed, *path] for path in paths_of(draft.tokens.tolist(), draft.parents)[-3:]]
        assert drafter.levels[-1] == [int(TARGET.logits(path).argmax()) for path in tops]
        assert [path[-1] for path in tops] == below[-1]
        assert {len(path) - len(committed) - level for path in tops} == {0, 1, 2}
        committed.append(3)
        drafter._move_window(len(committed))


def test_a_full_window_becomes_n_grams_and_drops_its_lowest_level():
    drafter, committed = started([0, 1, 2], window=2, ngram_size=2, guesses=2), [0, 1, 2]
    first = list(drafter.levels[0])
    a_round(drafter, committed)
    (level,) = drafter.levels
    assert level == [int(TARGET.logits([2, first[0]]).argmax()), int(TARGET.logits(first).argmax())]
    assert all((after,) in drafter.pool[token] for token, after in zip(first, level, strict=True))
    drafter.propose([*committed, 5], 4)
    assert drafter.levels == [level], "one token later the next level stands for the same places"
    drafter.propose([*committed, 5, 5, 5], 4)
    assert len(drafter.levels[0]) == 2 and drafter._window_at == 6


def test_n_grams_share_nodes_and_the_latest_is_tried_first():
    drafter = started([1, 2, 3, 1, 2, 4, 1, 5, 5, 1], window=1, ngram_size=3, guesses=2)
    draft = drafter.propose([1, 2, 3, 1, 2, 4, 1, 5, 5, 1], 16)
    assert draft.tokens.tolist()[:-1] == [5, 5, 2, 4] and draft.parents == (0, 1, 0, 3, 0), "two of three, G = 2"
    assert drafter.propose([1, 2, 3, 1, 2, 4, 1, 5, 5, 1], 1).tokens.tolist()[:-1] == [5, 2]


def test_window_is_cut_and_learns_nothing_where_the_cache_ends():
    drafter = started(PROMPT, capacity=len(PROMPT) + 4)
    before = drafter.levels
    assert len(a_round(drafter, PROMPT)) == 3 and drafter.levels == before
    assert set(started([1, 1, 1, 2, 3], copy_from=3).propose([1, 1, 1, 2, 3], 8).tokens.tolist()) == {2, 3}


WRONG = rules(closing_row=lambda row, q: row)  # after refused guesses


@pytest.mark.parametrize(
    ("sampling", "rule"),
    [
        (SamplingParams(0.8, top_k=5, top_p=0.95), TRUE_RULES),
        *(pytest.param(SamplingParams(*each), TRUE_RULES, marks=pytest.mark.slow) for each in ((1.0,), (0.6, 3))),
        pytest.param(SamplingParams(1.0), WRONG, marks=pytest.mark.slow),
    ],
)
def test_the_joint_law_is_the_targets_and_a_wrong_row_is_caught(sampling, rule):
    outputs, settings = Counter(), {"sampling": sampling, "gamma": 3, "max_new_tokens": 5, "rules": rule}
    for seed in range(300):
        outputs[tuple(generate(TARGET, LookaheadDrafter(), PROMPT, seed=seed, **settings)[:2])] += 1
    p_value = joint_p_value(outputs, exact_distribution(TARGET, PROMPT, 2, sampling))
    assert p_value < CAUGHT if rule is WRONG else p_value > FALSE_ALARM


def test_sizes_of_a_request_reach_the_drafter():
    sizes, method = {"window": 2, "ngram_size": 2, "guesses": 1}, METHODS["lookahead"]
    run = toy_decoder(TARGET, LookaheadDrafter(), PROMPT, own_settings=sizes, max_new_tokens=8)
    assert {len(r.parents) for r in run.rounds()} <= {0, 2, 3}
    assert method.rows(**sizes) == 3 and method.rows(**method.defaults) == 30

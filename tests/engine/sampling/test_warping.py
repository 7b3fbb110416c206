"""Warping equals transformers' own, draws are exact inverse-CDF lookups, uniforms are a pure function of the seed."""

import numpy as np
import pytest
import torch
from closeness import assert_each_close
from scipy.stats import kstest
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, LogitsProcessorList
from transformers.generation.logits_process import (
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from engine.config import SamplingParams
from engine.sampling.random_streams import ACCEPTING, CLOSING, Uniforms
from engine.sampling.warping import History, draw, penalise, warp

ONE = 1 - 2.0**-24


def logits_of(count: int, vocabulary: int, seed: int, spread: float) -> torch.Tensor:
    return spread * torch.randn(count, vocabulary, generator=torch.Generator().manual_seed(seed))


def transformers_probs(logits, params: SamplingParams, ids=None) -> torch.Tensor:
    """Applies transformers' processors instead, in the order its `generate` uses."""
    steps = [
        RepetitionPenaltyLogitsProcessor(params.repetition_penalty), TemperatureLogitsWarper(params.temperature),
        *([TopKLogitsWarper(params.top_k)] if params.top_k else []), TopPLogitsWarper(params.top_p),
        MinPLogitsWarper(params.min_p),
    ]  # fmt: skip
    ids = torch.zeros(len(logits), 1, dtype=torch.long) if ids is None else ids
    return LogitsProcessorList(steps)(ids, logits.clone()).softmax(-1)


SETTINGS = [SamplingParams(*each) for each in [
    (0.7,), (2.5,), (1.0, 1), (0.9, 40), (1.0, 1_000_000), (1.0, 0, 0.9), (1.0, 0, 1e-6), (1.0, 0, 0.999),
    (1.0, 0, 1.0, 0.1), (1.0, 0, 1.0, 1.0), (0.6, 50, 0.8, 0.02),
]]  # fmt: skip


@pytest.mark.parametrize("spread", [0.01, 1.0, 6.0], ids=["flat", "usual", "peaked"])
@pytest.mark.parametrize("params", SETTINGS, ids=str)
def test_warping_equals_transformers(params, spread):
    """Flat rows hold more than 128 tokens inside top-p, so the partial search has to fall back to a full one."""
    logits = logits_of(6, 3000, 72, spread)  # no sum is within 4e-6 of a top_p, so no rounding decides who is kept
    assert_each_close(warp(logits, params), transformers_probs(logits, params))


def kept_by_transformers(logits, top_p: float) -> int:
    return int(torch.isfinite(TopPLogitsWarper(top_p)(None, logits.clone())).sum())


@pytest.mark.parametrize("equal", [2, 3, 4, 5, 10, 16, 100, 1000])
def test_top_p_keeps_as_many_equal_words_as_transformers(equal):
    flat, steps = torch.full((1, equal), 3.0), torch.arange(equal)[None] % 4 * 1.0
    for logits in (flat, steps):
        for percent in range(1, 100):
            kept = warp(logits, SamplingParams(1.0, top_p=percent / 100)) > 0
            assert int(kept.sum()) == kept_by_transformers(logits, percent / 100), percent
            least = logits[kept].min()
            assert kept[logits > least].all(), "none is kept before a likelier one"
            assert kept[logits == least].tolist() == sorted(kept[logits == least].tolist()), "the last of equal ones"


def test_top_p_treats_each_row_by_itself():
    logits = torch.tensor([[1.0, 1.0, 1.0, 1.0], [4.0, 2.0, 2.0, -1.0], [0.0, 9.0, 0.0, 0.0]])
    kept = warp(logits, SamplingParams(1.0, top_p=0.5)) > 0
    assert kept.tolist() == [[False, False, True, True], [True, False, False, False], [False, True, False, False]]


@pytest.mark.parametrize("penalty", [0.7, 1.3])
def test_the_repetition_penalty_equals_transformers(penalty):
    logits, ids = logits_of(1, 50, 4, 3.0), torch.tensor([[3, 7, 7, 49]])
    params = SamplingParams(0.8, top_k=20, repetition_penalty=penalty)
    seen = History(ids[0].tolist(), 50, "cpu").seen[None]
    ours = warp(penalise(logits, seen, penalty), params)
    assert_each_close(ours, transformers_probs(logits, params, ids))


def test_the_order_is_the_one_that_generate_uses():
    """Were transformers to reorder its processors, the comparison above would compare with a stale order."""
    sizes = {"vocab_size": 8, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    model = LlamaForCausalLM(LlamaConfig(num_attention_heads=1, **sizes))
    given = {"repetition_penalty": 1.1, "temperature": 0.5, "top_k": 5, "top_p": 0.9, "min_p": 0.1}
    config = GenerationConfig(do_sample=True, max_new_tokens=1, **given)
    expected = [
        RepetitionPenaltyLogitsProcessor, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper, MinPLogitsWarper,
    ]  # fmt: skip
    assert [type(step) for step in model._get_logits_processor(config, input_ids_seq_length=1)] == expected


def test_greedy_is_one_hot_at_the_first_of_the_largest():
    probs = warp(torch.tensor([[0.0, 3.0, 3.0], [5.0, 1.0, 2.0]]), SamplingParams())
    assert probs.tolist() == [[0, 1, 0], [1, 0, 0]]
    logits = torch.cat([logits_of(2, 5000, 2, 8.0), logits_of(1, 5000, 3, 0.01)])
    params = SamplingParams(1.0, top_p=0.95)
    assert_each_close(warp(logits, params), transformers_probs(logits, params))


def test_penalty_by_position_equals_one_at_a_time():
    """Row i of a verify counts the drafts before it as seen, exactly as stepping would; also along a tree's paths."""
    history, drafts = History([1, 2], 9, "cpu"), torch.tensor([4, 5, 4])
    for parents in (None, (0, 0, 2)):
        rows = history.rows(drafts, parents)
        paths = [[], [4], [4, 5], [4, 5, 4]] if parents is None else [[], [4], [5], [5, 4]]
        for row, path in zip(rows, paths, strict=True):
            assert row.nonzero()[:, 0].tolist() == sorted({1, 2, *path})
    assert history.seen.nonzero()[:, 0].tolist() == [1, 2], "drafts must not count before they are committed"


@pytest.mark.parametrize("total", [1.0, 0.999999, 1.000001, 1e-30, 3.0])
def test_the_ends_of_the_interval(total):
    """The CDF of an fp32 row does not end at 1: the last token of positive mass still owns the end."""
    probs = total * torch.tensor([[0.0, 0.25, 0.0, 0.75, 0.0]])
    assert draw(probs, torch.tensor([0.0])).tolist() == [1]
    assert draw(probs, torch.tensor([ONE])).tolist() == [3]


def test_a_draw_is_the_inverse_of_the_cdf_in_a_large_vocabulary_too():
    probs = warp(logits_of(1, 150_000, 5, 1.0), SamplingParams(1.0))
    u = torch.arange(1024) / 1024
    ids = draw(probs.expand(1024, -1), u)
    assert [int(draw(probs, u[i : i + 1])) for i in range(1024)] == ids.tolist(), "a single row is drawn from alike"
    below = probs.double().cumsum(-1)[0]
    below /= below[-1].clone()
    share = probs[0, ids].double()
    assert (below[ids] > u - 2e-7).all() and (below[ids] - share < u + 2e-7).all()


def test_streams_siblings_and_seeds_are_independent():
    tables = [Uniforms(seed, 4000).table(s, sibling) for seed in (0, 1) for s in range(3) for sibling in (0, 1)]
    correlations = np.corrcoef(tables) - np.eye(len(tables))
    assert np.abs(correlations).max() < 4.5 / np.sqrt(4000)
    following = [np.corrcoef(t[:-1], t[1:])[0, 1] for t in tables]
    assert np.abs(following).max() < 4.5 / np.sqrt(4000)


@pytest.mark.parametrize("seed", [0, 2**63 - 1])
def test_uniforms_are_uniform_exact_and_the_same_however_many_there_are(seed):
    table = Uniforms(seed, 5000).table(CLOSING)
    assert table.dtype == np.float32 and table.min() >= 0 and table.max() < 1
    assert np.array_equal(table * 2**24, np.floor(table * 2**24)), "not a multiple of 2⁻²⁴"
    assert kstest(table, "uniform").pvalue > 1e-4 and np.array_equal(Uniforms(seed, 5).table(CLOSING), table[:5])
    assert np.array_equal(Uniforms(seed, 5).table(ACCEPTING, 3), Uniforms(seed, 500).table(ACCEPTING, 3)[:5])

"""Rows reduced to the words that matter give every rule's verdict on whole rows; the largest values are the largest."""

import pytest
import torch

from engine.config import SamplingParams
from engine.sampling.rejection import verify_chain, verify_tree
from engine.sampling.top_words import gap, greedy_words, top
from engine.sampling.warping import warp

V = 256 * 20
PARENTS = (0, 0, 1, 1, 2)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("parents", [None, PARENTS])
def test_greedy_words_give_the_verdict_of_whole_rows(seed, parents):
    draw = torch.Generator().manual_seed(seed)
    logits = torch.randn(6, V, generator=draw)
    best = logits.argmax(-1)
    tokens = torch.where(torch.rand(5, generator=draw) < 0.7, best[:5], torch.randint(0, V, (5,), generator=draw))
    u, closing = torch.rand(5, generator=draw), torch.rand(6, generator=draw)
    words, p, places = greedy_words(logits, tokens)
    assert p.shape == (6, len(words)) and torch.equal(words[places], tokens) and len(words) <= 11

    def verdict(p, tokens):
        rest = (u, closing) if parents is None else (parents, u, closing)
        return (verify_chain if parents is None else verify_tree)(p, None, tokens, *rest)

    ours, whole = verdict(p, places), verdict(warp(logits, SamplingParams(0.0)), tokens)
    assert torch.equal(ours.path, whole.path) and torch.equal(ours.tested, whole.tested)
    assert int(ours.last) == int(whole.last) and int(words[ours.closing]) == int(whole.closing)


def test_gap_is_that_of_the_two_largest_logits():
    logits = torch.randn(7, V)
    two, before = logits.topk(2).values, logits.clone()
    assert torch.equal(gap(logits), two[:, 0] - two[:, 1]) and torch.equal(logits, before)
    words, p, places = greedy_words(logits[:1], torch.zeros(0, dtype=torch.long))
    assert words.tolist() == [int(logits[0].argmax())] and p.tolist() == [[1.0]] and not len(places)


@pytest.mark.parametrize("vocabulary", [V, V + 64, V + 1, 40, 3])
def test_the_top_is_the_top_of_the_row_whatever_its_size(vocabulary):
    rows = torch.randn(5, vocabulary).softmax(-1)
    rows[0] = 0.0
    rows[0, vocabulary // 2] = 1.0  # all others equal
    values, ids = top(rows, 8)
    right = rows.topk(min(8, vocabulary))
    assert torch.equal(values, right.values) and torch.equal(rows.gather(1, ids), values)
    assert torch.equal(ids[1:], right.indices[1:])
    assert all(len({*row}) == len(row) for row in ids.tolist()), "a word twice"

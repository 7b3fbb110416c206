"""What a constraint leaves of a draft: which drafts are scored, in which form, and what the policy hears of them."""

import pytest
import torch

from engine.config import Constraint, SamplingParams
from engine.decoding.constrained import Constrained
from engine.decoding.draft_length import FixedGamma
from engine.drafters.base import Draft, Estimates
from engine.errors import BadInput
from engine.tools.exactness.toy_grammar import text_reader
from engine.tools.exactness.toy_models import ToyLM, make_drafter, toy_decoder

WORDS, END = ("a", "b", "c", "."), 3
A, B, C = range(3)


def scored(tokens, parents=None, **fields):
    draft = Draft(torch.tensor(tokens), parents=parents, **fields)
    return Constrained(text_reader(("aab", "aba", "b"), WORDS, END), len(WORDS), "cpu").mask_draft(draft)


def test_a_tree_that_is_cut_to_a_chain_is_scored_as_one():
    """A chain is one captured pass on a GPU, and keeps its bits on a CPU; a tree does neither."""
    numbers = {"keys": tuple("xyzw"), "estimates": Estimates((0.5, 0.3, 0.4, 0.2), 0.1)}
    allowed = scored([C, A, A, B], (0, 0, 2, 3), **numbers)
    assert allowed.draft.tokens.tolist() == [A, A, B] and allowed.draft.parents is None
    assert allowed.draft.keys == tuple("yzw") and [*allowed.forbidden] == [(C, 0, "x")]
    assert allowed.draft.estimates is None, "they were those of the whole tree"
    whole = scored([A, B, A, B], (0, 0, 1, 3), **numbers).draft
    assert whole.parents == (0, 0, 1, 3) and whole.estimates == numbers["estimates"]


def test_a_tree_that_still_branches_is_renumbered():
    allowed = scored([A, C, A, B, A], (0, 0, 1, 1, 2))
    assert allowed.draft.tokens.tolist() == [A, A, B] and allowed.draft.parents == (0, 1, 1)
    assert [(each.token, each.parent) for each in allowed.forbidden] == [(C, 0)], "what follows it is not counted"


class Listening(FixedGamma):
    def __init__(self):
        super().__init__(3)
        self.heard = []

    def observe(self, keys, outcomes, path=(), steps=0, scored=None):
        self.heard.append((len(outcomes), scored))


@pytest.mark.parametrize("method", ["ngram", "top"])
def test_a_policy_hears_how_many_drafts_were_scored(method):
    target, policy = ToyLM(ToyLM.random(4, seed=1).table, WORDS), Listening()
    run = toy_decoder(
        target, make_drafter(method, target.with_noise(1.0, 2)), [0, 1, 2, 0, 1, 2, 0], SamplingParams(), eos=[END],
        gamma_policy=policy, reader=text_reader(("aab" * 4,), WORDS, END), constraint=Constraint("regex", "(aab){4}"),
    )  # fmt: skip
    rounds = list(run.rounds())
    assert [scored for _, scored in policy.heard] == [len(each.parents) for each in rounds]
    assert any(outcomes > scored for outcomes, scored in policy.heard) and any(each.forbidden for each in rounds)


@pytest.mark.parametrize("sampling", [SamplingParams(), SamplingParams(1.0), SamplingParams(0.7, 3, 0.9, 0.1, 1.3)])
@pytest.mark.parametrize("acceptance", ["token", "block"])
@pytest.mark.parametrize("method", ["lm", "ngram", "without_replacement"])
def test_a_text_that_no_token_can_write_ends_in_a_sentence(method, acceptance, sampling):
    target = ToyLM(ToyLM.random(4, seed=1).table, WORDS)
    run = toy_decoder(
        target, make_drafter(method, target.with_noise(1.0, 2)), [0, 1, 2, 0, 1, 2, 0], sampling, 3, eos=[END],
        reader=text_reader(("abé",), WORDS, END), constraint=Constraint("choice", "abé"), acceptance=acceptance,
    )  # fmt: skip
    with pytest.raises(BadInput, match=r"^After 2 new tokens the constraint demands a text that .* cannot write"):
        list(run.rounds())

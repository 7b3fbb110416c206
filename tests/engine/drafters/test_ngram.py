"""Lookup in the text itself: what it copies, and what it never shows."""

import pytest
from real_model import PAIR
from tiny_pairs import engine_of, model_folder, run

from engine.config import RunConfig, SamplingParams
from engine.decoding.draft_length import AdaptiveGamma, ReplayedGamma
from engine.decoding.tokenization import encode_prompt, template_length
from engine.drafters.base import DrafterSetup
from engine.drafters.ngram import NgramDrafter
from engine.models.decoder.transformers_config import load_tokenizer
from engine.sampling.random_streams import Uniforms
from engine.weights.catalogue import get_pair

END, MARK = 90, 91  # the end of a text, and another mark of the template


def proposal(committed: list[int], first: int = 0) -> list[int]:
    drafter, own = NgramDrafter(), {"copy_from": first, "eos_ids": {END}, "control_ids": {END, MARK}}
    drafter.start(committed, DrafterSetup(SamplingParams(), 99, Uniforms(0, 8), None, 99, "cpu", **own))
    offer = drafter.offer(committed)
    return offer.draft(len(offer.keys), None).tokens.tolist() if offer else []


@pytest.mark.parametrize(("committed", "first", "tokens"), [
    ([1, 2, 3, 4, 7, 1, 2], 0, [3, 4, 7, 1, 2, 3]),  # and then its own copy
    ([5, 6, END, 8, 7, 5], 0, [6, END]),  # not past the end of a text
    ([5, 6, MARK, 8, 7, 5], 0, [6]), ([5, MARK, 8, 7, 5], 0, []),  # nor a mark of the template
    ([1, 2, 3, 9, 1, 2], 3, []), ([1, 2, 3, 9, 1, 2], 2, [3, 9, 1]),  # nor before the first that may be copied
    ([1, 2, 3, 9, 1, 2, 5, 9, 1], 4, [2, 5, 9]),
])  # fmt: skip
def test_it_copies_what_followed_and_nothing_that_is_no_text(committed, first, tokens):
    assert proposal(committed, first)[: len(tokens) or None] == tokens


def tree(committed: list[int], gamma: int, policy=None, trees: bool = True):
    drafter = NgramDrafter()
    drafter.start(committed, DrafterSetup(SamplingParams(), 99, Uniforms(0, 8), None, 99, "cpu", trees=trees))
    return drafter.offer(committed).draft(gamma, policy)


FREE = AdaptiveGamma(0.0, {1: 1.0, 2: 1.0}, NgramDrafter.priors)
TWICE = [1, 2, 3, 7, 1, 2, 4, 8, 1, 2]  # "1 2" was followed by 3, then by 4


def test_another_follower_is_another_branch():
    """The most recent one is tried first, and where rows are free all are; a fixed γ is a chain."""
    draft = tree(TWICE, 3, FREE)
    assert draft.tokens.tolist() == [4, 8, 1, 3, 7, 1] and draft.parents == (0, 1, 2, 0, 4, 5)
    assert draft.keys == (2, 3, 4, ("later", 2), 3, 4) and draft.q is None
    assert tree(TWICE, 3).tokens.tolist() == [4, 8, 1] and tree(TWICE, 3).parents is None


def test_a_branch_must_be_worth_its_row():
    """0.58 · 0.19 is the chance of the second follower of two tokens."""
    cheap, dear = (tree(TWICE, 1, AdaptiveGamma(0.0, {1: 1.0, 2: 1 + row}, NgramDrafter.priors)) for row in (0.05, 0.2))
    assert cheap.parents == (0, 0) and len(dear) == 1
    assert cheap.estimates.expected == pytest.approx((0.42, 0.58 * 0.19))
    assert cheap.estimates.row_cost == pytest.approx(0.05)


@pytest.mark.parametrize(("committed", "tokens"), [([1, 2, 3, 1, 2], [3, 1, 2]), (TWICE, [4, 8, 1])])
def test_a_chain_where_there_is_one_follower_or_the_target_takes_no_tree(committed, tokens):
    draft = tree(committed, 3, FREE, trees=committed != TWICE)
    assert draft.parents is None and draft.tokens.tolist() == tokens


def test_a_recorded_tree_is_drafted_again():
    first = tree(TWICE, 4, FREE)
    again = tree(TWICE, 4, ReplayedGamma([(4, 0, "", first.parents)]))
    assert again.tokens.tolist() == first.tokens.tolist() and again.parents == first.parents
    assert tree(TWICE, 4, ReplayedGamma([(4, 0)])).parents is None


def test_the_users_own_text_begins_after_the_system_turn():
    """It does so in the pair's own template, with a custom system prompt and with the default one."""
    tokenizer = load_tokenizer(get_pair(PAIR).drafts["lm"].folder)
    for prompt in ("xylophones", "Why is the sky blue?", "\n  spaces"):
        for system in (None, "", "Say only: purple cat."):
            config = RunConfig(prompt, system=system)
            ids = encode_prompt(tokenizer, config)
            at = template_length(tokenizer, config, ids)
            assert tokenizer.decode(ids[:at]).rstrip().endswith("user") and prompt.strip() in tokenizer.decode(ids[at:])
    assert template_length(tokenizer, RunConfig("hello", chat=False), [1, 2]) == 0


def test_a_hidden_system_prompt_is_never_drafted(tmp_path, own_cache):
    model_folder(tmp_path / "target")
    pairs = type("Pairs", (), {"root": tmp_path})
    settings = {"chat": True, "max_new_tokens": 24, "prompt": "ab ab", "system": "zq zq zq zq"}
    drafted = [t.text for r in run(engine_of(pairs), "ngram", **settings).rounds for t in r.tokens[: len(r.parents)]]
    assert not any("q" in text for text in drafted)

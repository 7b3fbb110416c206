"""Drafts in other tokens leave the output's distribution as it is: by tokens that both vocabularies have, and as text.

The toy draft has the target's letters in another order, lacks one, and has two longer tokens.
"""

from dataclasses import replace

import pytest
import torch
from chi_squared import FALSE_ALARM, is_caught, markov_p_value
from toy_laws import slow, whole_p_value
from unlike_tokenizers import toy_translation

from engine.config import SamplingParams
from engine.decoding.draft_length import AdaptiveGamma, FixedGamma, ReplayedGamma
from engine.drafters.intersection import IntersectionDrafter
from engine.drafters.reencoding import ReencodingDrafter
from engine.sampling.random_streams import ACCEPTING
from engine.sampling.warping import warp
from engine.tools.exactness.toy_models import ToyLM, ToyRunner, generate, toy_decoder

PROMPT = [0, 1]
TARGET = ToyLM.random(6, 0, spread=0.8)
PLAIN = SamplingParams(1.0)
SAMPLINGS = {"plain": PLAIN, "all": SamplingParams(0.7, top_k=5, top_p=0.95, min_p=0.05, repetition_penalty=1.3)}


def toy_draft() -> ToyLM:
    """The target's own table in the draft's order, and noise: the two often agree."""
    order = [5, 2, 0, 1, 3, 1, 3]  # the target's letter with which each of the draft's tokens ends
    table = TARGET.table[torch.tensor([*order, 6])][:, order][:, :, order]
    return ToyLM(table, "fcabdgh").with_noise(0.7, 1)


def drafter(kind=IntersectionDrafter):
    return kind(ToyRunner(toy_draft()), toy_translation())


KINDS = pytest.mark.parametrize("kind", [IntersectionDrafter, ReencodingDrafter])


@pytest.mark.parametrize("name", ["all", *slow("plain")])
@KINDS
def test_the_joint_law_of_whole_outputs_with_other_tokens(kind, name):
    assert whole_p_value(TARGET, drafter(kind), SAMPLINGS[name], 300, 3, gamma=2, max_new_tokens=5) > FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize(("gamma", "acceptance"), [(4, "block"), ("auto", "token")])
@KINDS
def test_a_long_run(kind, gamma, acceptance):
    one, settings = drafter(kind), {"sampling": PLAIN, "max_new_tokens": 1000, "acceptance": acceptance}
    policy = AdaptiveGamma(0.05, {1: 1.0, 2: 1.05, 20: 1.4}, one.priors) if gamma == "auto" else FixedGamma(gamma)
    tokens = generate(TARGET, one, PROMPT, gamma_policy=policy, **settings)
    assert markov_p_value(TARGET, tokens, PLAIN) > FALSE_ALARM


@KINDS
def test_greedy_has_one_answer_and_drafts_are_accepted(kind):
    run = toy_decoder(TARGET, drafter(kind), PROMPT, SamplingParams(), 3, max_new_tokens=40)
    rounds = list(run.rounds())
    plain = [TARGET.logits(run.text.ids[:i]).argmax().item() for i in range(2, 42)]
    assert run.text.ids[2:] == plain
    assert any(t.status == "accepted" for r in rounds for t in r.tokens)


@KINDS
def test_the_draft_has_read_the_committed_text_and_nothing_else(kind):
    """Its cache begins with its own reading of the text after refusals, accepted rounds and rounds without drafts."""
    one, seen, policy = drafter(kind), [], ReplayedGamma([3, 4, 0, 1, 4, 0, 0, 4] * 20)
    go_on = one._go_on

    def checked(text, u, policy):
        draft = go_on(text, u, policy)
        assert one.runner.ids[: len(text)] == list(text)
        seen.append(tuple(text))
        return draft

    one._go_on = checked
    run = toy_decoder(TARGET, one, PROMPT, SamplingParams(0.7), gamma_policy=policy, max_new_tokens=120)
    assert {t.status for r in run.rounds() for t in r.tokens} >= {"accepted", "rejected", "bonus", "plain"}
    texts = toy_translation().draft.vocabulary.texts
    written = bytes(b"abcdef"[i] for i in run.text.ids).replace(b"e", b"")  # the letter that it lacks
    assert all(written.startswith(b"".join(texts[i] for i in text)) for text in seen)
    assert len(seen) > 20 and len(seen[-1]) > 80


class Remembering(IntersectionDrafter):
    """Keeps the logits of the draft's own vocabulary."""

    def guesses(self, logits):
        self._all = logits
        return super().guesses(logits)


class Unscaled(Remembering):
    """q is masked to the common tokens, but reported without scaling it to 1 again."""

    def sample(self, logits, seen, u):
        token, q = super().sample(logits, seen, u)
        return token, q * warp(self._all, SamplingParams(1.0))[:, self._columns].sum()


class MaskedLate(Remembering):
    """Drafts are drawn from the scaled q, but tested with the q of the draft's own vocabulary."""

    def sample(self, logits, seen, u):
        token, q = super().sample(logits, seen, u)
        whole = warp(self._all, self.setup.sampling)[:, self._columns]
        return token, torch.zeros_like(q).index_copy_(1, self.target_ids, whole)


class ReportedQ(ReencodingDrafter):
    """Encoded drafts are tested as if they had been drawn, with the draft's own probabilities."""

    def guesses(self, logits):
        self._rows.append(warp(logits, SamplingParams(1.0)))
        return super().guesses(logits)

    def propose(self, text, gamma, policy=None):
        self._rows = []
        draft = super().propose(text, gamma, policy)
        rows = self._rows[: len(draft)]
        q = [torch.full((6,), 0.02).index_fill(0, t, float(r.max())) for t, r in zip(draft.tokens, rows, strict=True)]
        return replace(draft, q=torch.stack(q)) if q else draft


class OwnDraws(ReencodingDrafter):
    """A draft is left out where the target's draw will refuse it."""

    def propose(self, text, gamma, policy=None):
        draft = super().propose(text, gamma, policy)
        position = self.setup.position(text)
        u = self.setup.uniforms.table(ACCEPTING)[position : position + len(draft)]
        count = next((i for i, x in enumerate(u) if x > 0.5), len(draft))
        self._token_ends = self._token_ends[:count]
        return replace(draft, tokens=draft.tokens[:count])


@pytest.mark.parametrize("mutant", [Unscaled, ReportedQ, *slow(MaskedLate, OwnDraws)])
def test_a_wrong_q_is_caught(mutant):
    sampling = SamplingParams(1.0)
    run = toy_decoder(TARGET, drafter(mutant), PROMPT, sampling, 3, max_new_tokens=3000, trace=False)
    assert is_caught(run, TARGET, sampling)

"""γ = auto where a draft model tells as it goes: whom it asks, what the answers are, and the output stays exact."""

from itertools import pairwise

import pytest
import torch
from chi_squared import CAUGHT, FALSE_ALARM, markov_p_value

from engine.config import SamplingParams
from engine.decoding.draft_length import AdaptiveGamma, FixedGamma, ReplayedGamma
from engine.drafters.base import PER_TOKEN, Draft, DrafterSetup, DraftPolicy
from engine.drafters.draft_model import DraftModelDrafter
from engine.sampling.random_streams import Uniforms
from engine.tools.exactness.toy_models import ToyLM, ToyRunner, generate, make_drafter, toy_decoder

CHEAP = {1: 1.0, 2: 1.1, 4: 1.2, 8: 1.5, 16: 3.0}
PRIORS = {PER_TOKEN: 0.5, **{tenth: (tenth + 0.5) / 10 for tenth in range(10)}}
TARGET = ToyLM.random(6, seed=0, spread=0.8)
DRAFT = TARGET.with_noise(0.8, seed=1)
PROMPT = [0, 1]
SAME = (0,) * 32  # the keys of a drafter whose guesses are all alike


def auto(c=0.1, v=CHEAP, priors=PRIORS, **settings) -> AdaptiveGamma:
    return AdaptiveGamma(c, v, priors, **settings)


def test_it_learns_to_draft_more_and_less_and_tries_again_after_a_while():
    policy = auto(priors={0: 0.5})
    at_first = policy.length(SAME, 32)
    for _ in range(30):
        policy.observe(SAME, [True] * 4)
    high = policy.length(SAME, 32)
    for _ in range(60):
        policy.observe(SAME, [False])
    assert high > at_first > policy.length(SAME, 32) == 0
    waited = next(i for i in range(1000) if policy.length(SAME, 32) > 0)
    assert 20 < waited < 400, "a probe should be rare, and come"


def test_keys_are_kept_apart_and_followed_deeper():
    policy = auto(0.0, priors={1: 0.1, 2: 0.9, 3: 0.9})
    policy.observe((1, 2, 3), [True, True, False])  # kept at 1 and 2, refused at 3
    assert policy.alpha(1) > 0.1 and policy.alpha(2) > 0.9 and policy.alpha(3) < 0.9


@pytest.mark.parametrize("at_once", [False, True])
def test_a_promise_counts_the_steps_that_its_drafts_take(at_once):
    costs = [cost for _, _, cost in auto(c=0.4, at_once=at_once).promises(SAME, 3)]
    assert costs == pytest.approx([0.4 * (1 if at_once else n) + v for n, v in ((1, 1.1), (2, 1.15), (3, 1.2))])


@pytest.mark.parametrize("limit", [0, 1, 3, 16, 32])
def test_no_policy_exceeds_what_there_is_room_for(limit):
    replayed = ReplayedGamma([9])
    for policy in (auto(limit=5), auto(0.0, priors={0: 0.99}), FixedGamma(9), replayed):
        assert 0 <= policy.length(SAME, limit) <= min(limit, getattr(policy, "limit", limit))
    replayed.observe(SAME, [])
    assert replayed.length(SAME, limit) == 0, "a trace that is over drafts nothing more"


def test_guess_is_kept_and_a_step_taken_when_each_is_worth_its_cost():
    """At first the α of a certainty is its middle, and a plain step earns one token per cost."""
    policy = auto(v={1: 1.0, 2: 1.3, 3: 1.5})
    assert [policy.worth_verifying([s]) for s in range(10)] == [s >= 3 for s in range(10)], "0.25 < 0.3 < 0.35"
    assert policy.worth_verifying([5, 4]), "0.55 · 0.45 > 1.5 − 1.3"
    assert not policy.worth_verifying([4, 3]), "1.5 − 1.3 > 0.45 · 0.35"
    cheap, dear = (auto(c=c, v={1: 1.0, 2: 1.1, 3: 1.2}) for c in (0.05, 0.3))
    assert [s for s in (2, 5, 9) if cheap.worth_drafting([s])] == [5, 9], "0.25 · 0.5 < 0.1 + c < 0.55 · 0.5"
    assert [s for s in (2, 5, 9) if dear.worth_drafting([s])] == [9], "0.55 · 0.5 < 0.1 + c < 0.95 · 0.5"


def test_a_better_rate_asks_for_better_guesses():
    """While rounds bring many tokens for their time, a draft that barely beats a plain step is a waste."""
    policy = auto(c=0.0, v={1: 1.0, 2: 1.3, 20: 6.7})
    assert policy.worth_verifying([3])
    for _ in range(60):
        policy.observe(PER_TOKEN, [True] * 4, path=(9,) * 4, steps=4)  # 5 tokens in the time of 2.2 plain steps
    assert not policy.worth_verifying([3]) and policy.worth_verifying([9])


def test_a_draft_that_was_not_scored_lowers_its_alpha_and_costs_no_row():
    dear = {1: 1.0, 2: 1.5, 20: 10.5}
    scored, cut = auto(c=0.0, v=dear), auto(c=0.0, v=dear)
    for _ in range(60):
        scored.observe(PER_TOKEN, [True, False], path=(9, 5), steps=2)
        cut.observe(PER_TOKEN, [True, False], path=(9, 5), steps=2, scored=1)
    assert scored.alpha(5) == cut.alpha(5) < 0.2
    assert (scored.rate.value, cut.rate.value) == pytest.approx((1.0, 2 / 1.5), abs=0.05)


def test_it_learns_what_a_certainty_is_worth():
    dear = {1: 1.0, 2: 1.3, 20: 6.7}
    policy = auto(v=dear)
    before = {s: policy.alpha(s) for s in (PER_TOKEN, 9, 2)}
    for _ in range(30):
        policy.observe(PER_TOKEN, [False, None], path=(9, 2), steps=2)
    assert policy.alpha(9) < 0.3 < before[9] and policy.alpha(PER_TOKEN) < before[PER_TOKEN]
    assert policy.alpha(2) == before[2], "behind a refusal nothing was tested"
    for _ in range(30):
        policy.observe(PER_TOKEN, [True, True], path=(2, 2), steps=2)
    assert policy.alpha(2) > 0.7 and policy.worth_verifying([2]) and not auto(v=dear).worth_verifying([2])


def test_a_draft_that_cannot_pay_is_never_asked():
    assert auto(c=0.91).length(PER_TOKEN, 9) == 0 and auto(c=0.5, v={1: 1.0, 2: 1.5}).length(PER_TOKEN, 9) == 0
    assert auto(c=0.89).length(PER_TOKEN, 9) == 9 and auto(c=0.89, limit=4).length(PER_TOKEN, 9) == 4


def test_asking_in_vain_rests_longer_and_longer_until_it_pays_again():
    def pauses(rounds: int) -> list[int]:
        asked = [0]
        for at in range(1, rounds):
            if policy.length(PER_TOKEN, 9):
                policy.observe(PER_TOKEN, [False], path=(5,), steps=2)
                asked.append(at)
            else:
                policy.observe(PER_TOKEN, [])
        return [b - a - 1 for a, b in pairwise(asked) if b - a > 1]

    policy = auto(c=0.2)
    assert pauses(260)[:5] == [8, 16, 32, 64, 64]
    while not policy.length(PER_TOKEN, 9):
        policy.observe(PER_TOKEN, [])
    policy.observe(PER_TOKEN, [True] * 4, path=(9,) * 4, steps=4)
    assert pauses(60)[0] == 8
    pays = auto(c=0.2)
    for i in range(300):
        assert pays.length(PER_TOKEN, 9), "a draft that pays never rests"
        pays.observe(PER_TOKEN, [False, None, None] if i % 3 == 2 else [True, True, False], path=(7, 7, 7), steps=3)


class Script(DraftPolicy):
    """Answers from lists, then with yes."""

    def __init__(self, keep=(), more=()):
        self.keep, self.more = list(keep), list(more)

    def worth_verifying(self, path):
        return self.keep.pop(0) if self.keep else True

    def worth_drafting(self, path):
        return self.more.pop(0) if self.more else True


def proposed(policy):
    drafter = DraftModelDrafter(ToyRunner(DRAFT))
    drafter.start([0, 1, 2], DrafterSetup(SamplingParams(1.0), 6, Uniforms(3, 40), None, 40, "cpu"))
    return drafter, drafter.propose([0, 1, 2], 4, policy)


@pytest.mark.parametrize("policy, drafts, steps", [
    (Script(), 4, 4), (Script(keep=[False]), 0, 1), (Script(keep=[True, False]), 1, 2), (Script(more=[False]), 1, 1),
    (Script(more=[True, False]), 2, 2),
])  # fmt: skip
def test_a_chain_that_is_cut_short_is_the_beginning_of_the_whole(policy, drafts, steps):
    _, whole = proposed(None)
    drafter, draft = proposed(policy)
    assert (len(draft), draft.passes, len(draft.keys)) == (drafts, steps, drafts)
    assert draft.tokens.tolist() == whole.tokens[:drafts].tolist() and whole.keys == ()
    assert drafts == 0 or torch.equal(draft.q, whole.q[:drafts])
    rows = [DRAFT.logits([0, 1, 2, *whole.tokens[:i].tolist()]).softmax(-1) for i in range(drafts)]
    assert list(draft.keys) == [int(10 * float(row.max())) for row in rows], "in tenths"
    kept = max(drafts - 1, 0)
    drafter.commit(kept)
    assert drafter.runner.ids == [0, 1, 2, *whole.tokens[:kept].tolist()], "its cache goes back to what was kept"


class Picky(FixedGamma, DraftPolicy):
    """Stops chains early and often, for reasons that say nothing about the token drawn."""

    def worth_verifying(self, path):
        return path[-1] % 2 == 0

    def worth_drafting(self, path):
        return (sum(path) + len(path)) % 3 != 0


class Peeking(DraftModelDrafter):
    """Wrong: lets a guess go because of the token that was drawn. Improbable tokens then come too rarely."""

    def draft(self, step, ids, inputs, u, seen, policy):
        draft = super().draft(step, ids, inputs, u, seen, None)
        n = int((draft.q.gather(1, draft.tokens[:, None])[:, 0] > 0.25).long().cumprod(0).sum())
        return Draft(draft.tokens[:n], draft.q[:n], passes=draft.passes, keys=("any",) * n)


@pytest.mark.parametrize(("policy", "acceptance"), [("auto", "token"), ("picky", "token"), ("picky", "block")])
def test_chains_that_are_judged_keep_the_targets_law(policy, acceptance):
    sampling = SamplingParams(0.7, top_k=5, top_p=0.95)
    policy = Picky(4) if policy == "picky" else auto(c=0.15, v={1: 1.0, 2: 1.2, 20: 4.8})
    settings = {"max_new_tokens": 1500, "gamma_policy": policy, "acceptance": acceptance}
    run = toy_decoder(TARGET, make_drafter("lm", DRAFT), PROMPT, sampling, **settings)
    shapes = {(r.gamma, r.draft_steps - r.gamma) for r in run.rounds()}
    assert len({gamma for gamma, _ in shapes}) > 2 and {0, 1} == {more for _, more in shapes}, "too much alike to tell"
    assert markov_p_value(TARGET, run.text.ids, sampling) > FALSE_ALARM


def test_a_judge_that_looks_at_the_token_is_caught():
    tokens = generate(TARGET, Peeking(ToyRunner(DRAFT)), PROMPT, gamma=3, max_new_tokens=1800)
    assert markov_p_value(TARGET, tokens, SamplingParams(1.0)) < CAUGHT


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_run_repeats_from_its_own_pins(temperature):
    """It repeats rests, dropped guesses and chains of every length, with no policy left to decide."""

    def rounds(policy):
        settings = {"gamma_policy": policy, "max_new_tokens": 200, "trace": False}
        run = toy_decoder(TARGET, make_drafter("lm", DRAFT), PROMPT, SamplingParams(temperature), **settings)
        return [(r.gamma, r.draft_steps, [(t.id, t.status) for t in r.tokens]) for r in run.rounds()]

    first = rounds(auto(c=0.3, v={1: 1.0, 2: 1.35, 20: 7.65}))
    pins = [(gamma, steps) for gamma, steps, _ in first]
    assert (0, 0) in pins and any(steps > gamma for gamma, steps in pins) and any(0 < g == s for g, s in pins)
    assert rounds(ReplayedGamma(pins)) == first


def test_drafting_fades_out_as_requests_come_and_returns_as_they_leave():
    """Each token of a pass costs 0.08 plain steps more: requests make γ shorter bit by bit, not at a threshold."""
    policy = AdaptiveGamma(0.0, {1: 1.0, 21: 2.6}, {0: 0.8})
    lengths = []
    for rows in (1, 2, 4, 8, 12, 16, 30, 1):
        policy.share(rows)
        lengths.append(policy.length(SAME, 16))
    assert lengths[0] == lengths[-1] > 5 and lengths[:-1] == sorted(lengths[:-1], reverse=True)
    assert len({*lengths}) >= 4 and lengths[6] <= 1

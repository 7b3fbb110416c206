"""γ = auto where a draft model tells as it goes: whom it asks, what the answers are, and the output stays exact."""

from collections import Counter

import pytest
import torch
from tiny import CAUGHT, FALSE_ALARM, joint_p_value, markov_p_value, one_thread  # noqa: F401

from engine.adaptive import AutoGamma, FixedGamma, PinnedGamma
from engine.config import SamplingParams
from engine.drafters.base import ASK, Draft, Setup
from engine.drafters.chain import certainty
from engine.drafters.lm import LmDrafter
from engine.sampling import Uniforms
from engine.toy import ToyLM, ToyRunner, decoding, drafter_for, generate, joint

CHEAP = {1: 1.0, 2: 1.1, 4: 1.2, 8: 1.5, 16: 3.0}
PRIORS = {ASK: 0.5, **{tenth: (tenth + 0.5) / 10 for tenth in range(10)}}
TARGET = ToyLM.random(6, seed=0, spread=0.8)
DRAFT = TARGET.near(0.8, seed=1)
PROMPT = [0, 1]


def auto(c=0.1, v=CHEAP, **settings) -> AutoGamma:
    return AutoGamma(c, v, PRIORS, **settings)


# ---- what is answered ----------------------------------------------------------------------------------------------


def test_a_fixed_gamma_asks_nobody():
    chooser = FixedGamma(3)
    assert [chooser.choose(ASK, most) for most in (0, 2, 9)] == [0, 2, 3]
    assert chooser.keep([0]) and chooser.more([0, 0, 0])


def test_a_guess_is_kept_when_it_is_likelier_right_than_it_costs():
    """At the start: α of a certainty is its middle, and a plain step earns one token per cost."""
    chooser = auto(v={1: 1.0, 2: 1.3, 3: 1.5})
    assert [chooser.keep([s]) for s in range(10)] == [s >= 3 for s in range(10)], "0.25 < 0.3 < 0.35"
    assert chooser.keep([5, 4]) and not chooser.keep([4, 3]), "0.55 · 0.45 > 1.5 − 1.3 > 0.45 · 0.35"


def test_one_more_step_costs_the_step_too():
    cheap, dear = auto(c=0.05, v={1: 1.0, 2: 1.1, 3: 1.2}), auto(c=0.3, v={1: 1.0, 2: 1.1, 3: 1.2})
    assert cheap.more([9]) and dear.more([9]), "0.95 · 0.5 ≥ 0.1 + c"
    assert cheap.more([5]) and not dear.more([5]), "0.55 · 0.5 < 0.1 + 0.3"
    assert not cheap.more([2]), "0.25 · 0.5 < 0.15"


def test_a_better_rate_asks_for_better_guesses():
    """While rounds bring many tokens for their time, a draft that barely beats a plain step is a waste."""
    chooser = auto(c=0.0, v={1: 1.0, 2: 1.3, 20: 6.7})
    assert chooser.keep([3])
    for _ in range(60):
        chooser.observe(ASK, 4, 4, path=(9,) * 4, steps=4)  # 5 tokens in the time of 2.2 plain steps
    assert not chooser.keep([3]) and chooser.keep([9])


def test_it_learns_what_a_certainty_is_worth():
    dear = {1: 1.0, 2: 1.3, 20: 6.7}
    chooser = auto(v=dear)
    before = {s: chooser.alpha(s) for s in (ASK, 9, 2)}
    for _ in range(30):
        chooser.observe(ASK, 1, 0, path=(9, 2), steps=2)
    assert chooser.alpha(9) < 0.3 < before[9] and chooser.alpha(ASK) < before[ASK]
    assert chooser.alpha(2) == before[2], "behind a refusal nothing was tested"
    for _ in range(30):
        chooser.observe(ASK, 2, 2, path=(2, 2), steps=2)
    assert chooser.alpha(2) > 0.7 and chooser.keep([2]) and not auto(v=dear).keep([2])


def test_a_draft_that_cannot_pay_is_never_asked():
    assert auto(c=0.91).choose(ASK, 9) == 0 and auto(c=0.5, v={1: 1.0, 2: 1.5}).choose(ASK, 9) == 0
    assert auto(c=0.89).choose(ASK, 9) == 9 and auto(c=0.89, most=4).choose(ASK, 9) == 4


def rounds_rested(chooser, rounds: int) -> list[int]:
    """Lengths of the pauses between times when it asked in vain."""
    pauses, pause = [], 0
    for _ in range(rounds):
        if chooser.choose(ASK, 9):
            chooser.observe(ASK, 1, 0, path=(5,), steps=2)
            pauses, pause = [*pauses, pause] if pause else pauses, 0
        else:
            chooser.observe(ASK, 0, 0)
            pause += 1
    return pauses


def test_asking_in_vain_rests_longer_and_longer_until_it_pays_again():
    chooser = auto(c=0.2)
    assert rounds_rested(chooser, 260)[:5] == [8, 16, 32, 64, 64]
    while not chooser.choose(ASK, 9):
        chooser.observe(ASK, 0, 0)
    chooser.observe(ASK, 4, 4, path=(9,) * 4, steps=4)
    assert rounds_rested(chooser, 60)[0] == 8


def test_a_draft_that_pays_never_rests():
    chooser = auto(c=0.2)
    for i in range(300):
        assert chooser.choose(ASK, 9)
        chooser.observe(ASK, 3, 0 if i % 3 == 2 else 2, path=(7, 7, 7), steps=3)


def test_pins_say_what_was_done_round_by_round():
    """(γ, steps): one step more than drafts where the last guess was looked at and let go."""
    pinned = PinnedGamma([(2, 3), (0, 1), (0, 0), (2, 2), 1])
    plan = []
    for _ in range(7):
        paths = [("x",) * n for n in (1, 2, 3)]
        plan.append((pinned.choose(ASK, 9), [pinned.keep(p) for p in paths], [pinned.more(p) for p in paths]))
        assert pinned.choose(ASK, 1) <= 1 and pinned.choose("chosen before", 9) == min(plan[-1][0], sum(plan[-1][1]))
        pinned.observe(None, 0, 0)
    yes, no = True, False
    assert plan[:5] == [
        (3, [yes, yes, no], [yes, yes, no]), (1, [no, no, no], [no, no, no]), (0, [no, no, no], [no, no, no]),
        (2, [yes, yes, no], [yes, no, no]), (1, [yes, no, no], [no, no, no]),
    ]  # fmt: skip
    assert plan[5:] == [(0, [no] * 3, [no] * 3)] * 2


@pytest.mark.parametrize("row, tenth", [([0.05, 0.3, 0.65], 6), ([0.55, 0.45], 5), ([1.0, 0.0], 9), ([0.05] * 20, 0)])
def test_certainty_is_the_highest_probability_in_tenths(row, tenth):
    assert certainty(torch.tensor([row]).log() + 3) == tenth


# ---- when it is asked ----------------------------------------------------------------------------------------------


class Script:
    """Answers from lists, and keeps what it was asked."""

    def __init__(self, keep=(), more=()):
        self.answers, self.asked = {"keep": list(keep), "more": list(more)}, []

    def keep(self, path):
        return self._answer("keep", path)

    def more(self, path):
        return self._answer("more", path)

    def _answer(self, what, path):
        self.asked.append((what, len(path)))
        return self.answers[what].pop(0) if self.answers[what] else True


def proposed(judge, gamma=4, monkeypatch=None):
    drafter = LmDrafter(ToyRunner(DRAFT))
    drafter.start([0, 1, 2], Setup(SamplingParams(1.0), 6, Uniforms(3, 40), None, 40, "cpu", judge))
    if monkeypatch:
        real = drafter._drawn
        monkeypatch.setattr(drafter, "_drawn", lambda *args: judge.asked.append("drawn") or real(*args))
    return drafter, drafter.propose([0, 1, 2], gamma, 0)


def test_it_is_asked_before_a_token_is_drawn_and_never_told_which(monkeypatch):
    judge = Script(keep=[True, True, False])
    _, draft = proposed(judge, monkeypatch=monkeypatch)
    one = [("keep", 1), "drawn", ("more", 1), ("keep", 2), "drawn", ("more", 2), ("keep", 3)]
    assert judge.asked == one and (len(draft), draft.steps) == (2, 3)


@pytest.mark.parametrize("judge, drafts, steps", [
    (Script(), 4, 4), (Script(keep=[False]), 0, 1), (Script(keep=[True, False]), 1, 2), (Script(more=[False]), 1, 1),
    (Script(more=[True, False]), 2, 2),
])  # fmt: skip
def test_a_chain_that_is_cut_short_is_the_beginning_of_the_whole(judge, drafts, steps):
    _, whole = proposed(None)
    drafter, draft = proposed(judge)
    assert (len(draft), draft.steps, len(draft.situations)) == (drafts, steps, drafts)
    assert draft.tokens.tolist() == whole.tokens[:drafts].tolist() and whole.situations == ()
    assert drafts == 0 or torch.equal(draft.q, whole.q[:drafts])
    assert list(draft.situations) == [
        certainty(DRAFT.logits([*[0, 1, 2], *whole.tokens[:i].tolist()])[None]) for i in range(drafts)
    ]
    kept = max(drafts - 1, 0)
    drafter.commit(kept)
    assert drafter.runner.ids == [0, 1, 2, *whole.tokens[:kept].tolist()], "its cache goes back to what was kept"


# ---- and the output stays exact ------------------------------------------------------------------------------------


class Picky:
    """Stops chains early and often, for reasons that say nothing about the token drawn."""

    def __init__(self, gamma=4):
        self.gamma = gamma

    def choose(self, situation, most):
        return min(self.gamma, most)

    def keep(self, path):
        return path[-1] % 2 == 0

    def more(self, path):
        return (sum(path) + len(path)) % 3 != 0

    def observe(self, *args):
        pass


class Peeking(LmDrafter):
    """Wrong: lets a guess go because of the token that was drawn. What is improbable then comes too rarely."""

    def _draft(self, advance, u, gamma, judge):
        draft = super()._draft(advance, u, gamma, None)
        likely = draft.q.gather(1, draft.tokens[:, None])[:, 0] > 0.25
        n = int(likely.long().cumprod(0).sum())
        return Draft(draft.tokens[:n], draft.q[:n], steps=draft.steps, situations=("any",) * n)


SAMPLINGS = {"plain": SamplingParams(1.0), "cut": SamplingParams(0.7, top_k=5, top_p=0.95)}


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
@pytest.mark.parametrize("judge", ["auto", "picky"])
def test_chains_that_are_judged_keep_the_targets_law(judge, sampling):
    chooser = Picky() if judge == "picky" else auto(c=0.15, v={1: 1.0, 2: 1.2, 20: 4.8})
    run = decoding(TARGET, drafter_for("lm", DRAFT), PROMPT, sampling=sampling, max_new_tokens=1500, chooser=chooser)
    rounds = list(run.rounds())
    shapes = Counter((r.gamma, r.draft_steps - r.gamma) for r in rounds)
    assert len({gamma for gamma, _ in shapes}) > 2 and {0, 1} == {more for _, more in shapes}, "too much alike to tell"
    assert markov_p_value(TARGET, run.committed, sampling) > FALSE_ALARM


def test_the_joint_law_of_short_texts_with_a_penalty():
    """Each seed is a run of its own, so a judge sees nothing but its own round."""
    sampling = SamplingParams(1.0, repetition_penalty=2.0)
    settings = {"sampling": sampling, "max_new_tokens": 3}
    outputs = Counter(
        tuple(generate(TARGET, drafter_for("lm", DRAFT), PROMPT, chooser=Picky(2), seed=s, **settings))
        for s in range(600)
    )
    assert joint_p_value(outputs, joint(TARGET, PROMPT, 3, sampling)) > FALSE_ALARM


def test_a_judge_that_looks_at_the_token_is_caught():
    tokens = generate(TARGET, Peeking(ToyRunner(DRAFT)), PROMPT, gamma=3, max_new_tokens=2400)
    assert markov_p_value(TARGET, tokens, SamplingParams(1.0)) < CAUGHT


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_run_repeats_from_its_own_pins(temperature):
    """Rests, guesses let go and chains of every length, with nobody left to be asked."""
    settings = {"sampling": SamplingParams(temperature), "max_new_tokens": 300, "trace": False}

    def rounds(chooser):
        made = decoding(TARGET, drafter_for("lm", DRAFT), PROMPT, chooser=chooser, **settings)
        return [(r.gamma, r.draft_steps, [(t.id, t.status) for t in r.tokens]) for r in made.rounds()]

    first = rounds(auto(c=0.3, v={1: 1.0, 2: 1.35, 20: 7.65}))
    pins = [(gamma, steps) for gamma, steps, _ in first]
    assert (0, 0) in pins and any(steps > gamma for gamma, steps in pins) and any(0 < g == s for g, s in pins)
    assert rounds(PinnedGamma(pins)) == first

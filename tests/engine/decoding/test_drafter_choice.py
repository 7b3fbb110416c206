"""Several drafters on one run: who drafts which round, that it repeats, and that the output stays exact."""

from collections import Counter
from itertools import pairwise
from types import SimpleNamespace
from typing import cast

import pytest
from chi_squared import CAUGHT, FALSE_ALARM, chi_squared, joint_p_value, markov_p_value
from scipy.stats import chi2
from toy_runs import ids_of

from engine.config import SamplingParams
from engine.decoding.draft_length import AdaptiveGamma, FixedGamma, Rate, ReplayedGamma
from engine.decoding.drafter_choice import DrafterChoice
from engine.drafters.base import PER_TOKEN, Draft, Drafter, DraftOffer
from engine.sampling.random_streams import Uniforms
from engine.tools.exactness.toy_models import (
    PLAIN,
    ToyLM,
    exact_distribution,
    generate,
    make_drafter,
    toy_decoder,
    weather_pair,
)
from engine.trace.costs import CostModel

COSTS = {1: 1.0, 2: 1.08, 3: 1.16, 20: 2.5}
PROMPT = [0, 1]
SURE, UNSURE = (1,) * 8, (2,) * 8
TARGET = ToyLM.random(6, 0, spread=0.8)
DRAFT, OTHER = TARGET.with_noise(1.0, 1), TARGET.with_noise(0.4, 2)


def members(names=("ngram", "lm")):
    return {name: make_drafter(name, DRAFT) for name in names}


def choice(drafters, c=0.05, gamma=None, v=COSTS):
    rate, costs = Rate(), {"ngram": 0.0, "lm": c}
    each = {n: AdaptiveGamma(costs[n], v, d.priors, rate=rate) for n, d in drafters.items()}
    return DrafterChoice(each, rate, gamma)


def run(drafters, policy, sampling=PLAIN, tokens=60):
    settings = {"max_new_tokens": tokens, "gamma_policy": policy}
    return list(toy_decoder(TARGET, [*drafters.values()], PROMPT, sampling, **settings).rounds())


def chosen(policy, room: int, **keys) -> tuple[str, int]:
    """Returns who drafts, "" for none, and how much."""
    offers = [DraftOffer(cast(Drafter, SimpleNamespace(name=name)), own, Draft) for name, own in keys.items()]
    offer, gamma = policy.choose(offers, room)
    return offer.drafter.name if offer else "", gamma


@pytest.mark.parametrize(("gamma", "acceptance"), [(None, "token"), (3, "token"), (None, "block")])
def test_the_output_is_the_targets_own(gamma, acceptance):
    drafters = members()
    settings = {"max_new_tokens": 1000, "gamma_policy": choice(drafters, gamma=gamma), "acceptance": acceptance}
    tokens = generate(TARGET, [*drafters.values()], PROMPT, **settings)
    assert markov_p_value(TARGET, tokens, PLAIN) > FALSE_ALARM


def test_greedy_output_is_plain_decoding_whoever_drafts():
    plain = generate(TARGET, make_drafter("none", DRAFT), PROMPT, sampling=SamplingParams(), max_new_tokens=60)
    drafters = members()
    rounds = run(drafters, choice(drafters), SamplingParams())
    assert ids_of(rounds) == plain
    assert {r.drafter for r in rounds if r.parents} == {"ngram", "lm"}, "both were needed"
    assert all(r.drafter == "" for r in rounds if not r.draft_steps and not r.parents)


def test_a_run_repeats_with_its_choices_pinned():
    drafters = members()
    first = run(drafters, choice(drafters))
    pinned = ReplayedGamma([(r.gamma, r.draft_steps, r.drafter, r.parents) for r in first])
    again = run(members(), pinned)
    assert ids_of(again) == ids_of(first) and [r.drafter for r in again] == [r.drafter for r in first]


def test_each_takes_the_rounds_that_suit_it():
    sure, unsure = AdaptiveGamma(0.0, COSTS, {1: 0.9, 2: 0.1}), AdaptiveGamma(0.05, COSTS, {PER_TOKEN: 0.5})
    policy = DrafterChoice({"ngram": sure, "lm": unsure}, Rate())
    name, gamma = chosen(policy, 8, ngram=SURE, lm=PER_TOKEN)
    assert name == "ngram" and gamma > 2
    assert chosen(policy, 8, ngram=UNSURE, lm=PER_TOKEN) == ("lm", 8), "it stops by itself"
    assert chosen(policy, 3, lm=PER_TOKEN) == ("lm", 3)


def test_nobody_drafts_where_it_does_not_pay():
    dear = {1: 1.0, 2: 1.9, 20: 18.0}
    policy = choice(members(), c=0.8, v=dear)
    both = {"ngram": SURE, "lm": PER_TOKEN}
    assert chosen(policy, 8, **both) == ("", 0)
    name, gamma = chosen(choice(members(), c=0.8, v=dear, gamma=4), 8, **both)
    assert name and gamma == 4, "a fixed length is always drafted"
    assert chosen(choice(members(), gamma=0), 8, **both) == ("", 0)


@pytest.mark.parametrize("fails", ["target", "drafter"])
def test_run_whose_start_fails_ends_with_its_error_and_frees_drafters(fails):
    drafters, released = members(("lm",)), []
    runner = drafters["lm"].runner
    decoder = toy_decoder(TARGET, [*drafters.values()], PROMPT, max_new_tokens=9, gamma_policy=choice(drafters))
    (runner if fails == "drafter" else decoder.target).prefill = lambda ids: 1 / 0
    runner.release = lambda: released.append(True)
    with pytest.raises(ZeroDivisionError):
        list(decoder.rounds())
    assert released or fails == "target"


def test_a_drafter_that_fails_is_left_and_tried_again_later():
    policy, names = choice(members()), []
    for _ in range(400):
        name, gamma = chosen(policy, 8, lm=PER_TOKEN)
        names.append(name)
        tried = min(gamma, 1)
        policy.observe(PER_TOKEN, [False] * tried, (0,) * tried, steps=tried)
    assert "" in names and "lm" in names[names.index("") :]


def test_a_drafter_whose_prior_does_not_pay_can_prove_itself():
    """A step costs 0.4, so the prior of 0.5 promises 1.5 tokens for 1.5 plain steps; after turn 9 all are right."""
    names, policy = [], choice(members(("lm",)), c=0.4, v={1: 1.0, 2: 1.1, 20: 2.9})
    for turn in range(60):
        name, gamma = chosen(policy, 8, lm=PER_TOKEN)
        names.append(name)
        drafted = min(gamma, 2)
        policy.observe(PER_TOKEN, [turn > 9] * drafted, (9,) * drafted, steps=drafted)
    assert names[0] == "lm" and names[1:9].count("") > 5, "it pauses once it has cost half a plain step"
    assert set(names[-30:]) == {"lm"}


def test_a_drafter_that_pauses_promises_nothing_until_its_rounds_are_over():
    """Its promise pays all the while, because what failed were second guesses, of a class of their own."""
    policy = DrafterChoice({"lm": AdaptiveGamma(0.1, COSTS, {PER_TOKEN: 0.9})}, Rate())
    names, floors = [], []
    for _ in range(20):
        name, gamma = chosen(policy, 8, lm=PER_TOKEN)
        names.append(name)
        floors.append(policy.rate.floor)
        tried = min(gamma, 1)
        policy.observe(PER_TOKEN, [False] * tried, (("later", 1),) * tried, steps=3 * tried)
    pause = names.index("")
    assert 0 < pause < 8 and names[pause : pause + 9] == [""] * 8 + ["lm"]
    assert floors[pause] == 1.0 < floors[0]


def duty(rounds: int, outcome, **settings) -> list[str]:
    """Returns who is chosen in each of ``rounds`` between two drafters with a model, whose (c, pace, α) are given.
    ``outcome``: tokens that a round of each yields."""
    rate, members = Rate(), {}
    for name, (c, pace, alpha) in settings.items():
        v = {w: x if w == 1 else pace * x for w, x in COSTS.items()}
        members[name] = AdaptiveGamma(pace * c, v, {PER_TOKEN: alpha}, rate=rate)
    policy, names = DrafterChoice(members, rate), []
    for turn in range(rounds):
        name, gamma = chosen(policy, 8, **dict.fromkeys(settings, PER_TOKEN))
        names.append(name)
        right, drafted = (outcome(turn)[name], min(gamma, 2)) if name else (0, 0)
        policy.observe(PER_TOKEN, [True] * right + [False] * (drafted > right), (9,) * drafted, steps=drafted)
    return names


@pytest.mark.parametrize(
    ("first", "second", "outcome", "names"),
    [
        ((0.1, 1.0, 0.6), (0.1, 1.0, 0.5), {"lm": 2, "eagle": 1}, {"lm"}),
        ((0.1, 1.4, 0.6), (0.1, 1.0, 0.5), {"lm": 2, "eagle": 1}, {"eagle"}),  # the clock says that it is slow
        ((0.1, 1.0, 0.9), (0.1, 1.0, 0.6), {"lm": 0, "eagle": 2}, {"lm", "eagle"}),  # it promised too much
    ],
)
def test_one_drafter_with_a_model_is_on_duty_at_a_time(first, second, outcome, names):
    chosen_names = duty(40, lambda turn: outcome, lm=first, eagle=second)
    assert {*chosen_names[:1]} | {*chosen_names[-20:]} == names
    assert chosen_names.index(chosen_names[-1]) < 12, "one that loses time is left within some rounds"


def test_one_that_was_unlucky_comes_back_on_duty_for_a_little_more():
    """It promises 1.1 times as much as the other comes to, once its bad rounds have faded."""
    settings = {"lm": (0.1, 1.0, 0.75), "eagle": (0.1, 1.0, 0.5)}
    names = duty(200, lambda turn: {"lm": 0 if turn < 12 else 2, "eagle": 1}, **settings)
    assert names[0] == "lm" and names[20] == "eagle" and {*names[-60:]} == {"lm"}


def test_duty_changes_a_few_times_at_most():
    def turned(turn):
        return {"lm": 2, "eagle": 0} if turn // 15 % 2 else {"lm": 0, "eagle": 2}

    names = [name for name in duty(400, turned, lm=(0.1, 1.0, 0.6), eagle=(0.1, 1.0, 0.6)) if name]
    assert 1 <= sum(a != b for a, b in pairwise(names)) <= 4


def contest():
    """Returns drafters of every kind that a toy has: lookup, two models of different acceptance, and a tree."""
    drafters = [make_drafter(name, model) for name, model in (("ngram", DRAFT), ("lm", DRAFT), ("lm", OTHER))]
    drafters[2].name = "quantised"
    return [*drafters, make_drafter("independent", OTHER)]


def judged(drafters, paces, kind=DrafterChoice):
    rate, costs = Rate(), CostModel(0.08, COSTS, 9, 1.0, draft_costs={"ngram": 0.0}, paces=dict(paces))
    members = {d.name: AdaptiveGamma(*costs.costs_of(d.name), d.priors, rate=rate) for d in drafters}
    return kind(members, rate, 1 if kind is Peeking else None)


class Peeking(DrafterChoice):
    """Drafts only where the word that it is about to draw is one of the first three, as one would whose clock reads the
    round at hand: how long a round takes depends on its draws."""

    first_kept = 3

    def choose(self, offers, room):
        offer, gamma = super().choose(offers, room)
        if offer and gamma and offer.keys == PER_TOKEN and hasattr(offer.drafter, "setup"):
            gamma = 0 if offer.draft(1, None).tokens[0] < self.first_kept else gamma
        return offer, gamma


@pytest.mark.parametrize(
    ("kind", "paces"),
    [(DrafterChoice, {}), (DrafterChoice, {"lm": 1.4}), (DrafterChoice, {"lm": 0.7, "quantised": 1.5}), (Peeking, {})],
)
def test_output_is_the_targets_own_whoever_the_clock_prefers(kind, paces):
    drafters = contest()[1:3] if kind is Peeking else contest()  # it peeks at models alone
    settings = {"max_new_tokens": 1500, "gamma_policy": judged(drafters, paces, kind)}
    p_value = markov_p_value(TARGET, generate(TARGET, drafters, PROMPT, **settings), PLAIN)
    assert p_value < CAUGHT if kind is Peeking else p_value > FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize("kind", [DrafterChoice, Peeking])
def test_whole_texts_have_the_targets_law_whoever_drafts(kind):
    """Every text is a run with paces of its own, as runs are whose clocks differ."""
    (target, draft), texts = weather_pair(), Counter()
    for seed in range(1500):
        drafters = [make_drafter("ngram", draft), make_drafter("lm", draft), make_drafter("lm", target)]
        drafters[2].name = "quantised"
        policy = judged(drafters, {"lm": 0.8 + seed % 7 / 10, "quantised": 0.8 + seed % 5 / 5}, kind)
        policy.first_kept = 1
        settings = {"seed": seed, "sampling": SamplingParams(1.0), "max_new_tokens": 5, "gamma_policy": policy}
        texts[tuple(generate(target, drafters, [0], **settings)[:3])] += 1
    p_value = joint_p_value(texts, exact_distribution(target, [0], 3))
    assert p_value < CAUGHT if kind is Peeking else p_value > FALSE_ALARM


def test_greedy_texts_are_equal_whoever_the_clock_prefers():
    plain = generate(TARGET, make_drafter("none", DRAFT), PROMPT, sampling=SamplingParams(), max_new_tokens=60)
    who = set()
    for paces in ({}, {"lm": 1.5, "toy-tree": 1.5}, {"quantised": 1.6, "lm": 0.7}):
        drafters = contest()
        rounds = run({d.name: d for d in drafters}, judged(drafters, paces), SamplingParams())
        assert ids_of(rounds) == plain
        who |= {each.drafter for each in rounds}
    assert {"lm", "quantised"} <= who


class Nosy(FixedGamma):
    """Drafts a place again only if the token that was discarded there was one of the first three words."""

    def __init__(self):
        super().__init__(3)
        self.discarded, self.at = {}, 0

    def length(self, keys, room):
        return min(3, room) if self.discarded.get(self.at, 0) < 3 else 0

    def watch(self, round_):
        self.discarded |= {token.position: token.id for token in round_.tokens[: len(round_.parents)]}
        self.at += len(round_.emitted)


def p_value_of_places_drafted_again():
    policy, observed, expected = Nosy(), Counter(), Counter()
    settings = {"max_new_tokens": 3000, "gamma_policy": policy, "trace": False}
    decoder = toy_decoder(TARGET, make_drafter("lm", DRAFT), PROMPT, **settings)
    for round_ in decoder.rounds():
        if round_.gamma and policy.at in policy.discarded:
            before = [*PROMPT, *decoder.text.ids[len(PROMPT) :][: policy.at]]
            observed[round_.emitted[0].id] += 1
            expected.update(dict(enumerate(TARGET.probabilities(before, PLAIN).tolist())))
        policy.watch(round_)
    statistic, freedom = chi_squared(observed, expected)
    return chi2.sf(statistic, freedom)


def test_what_was_discarded_may_decide_whether_its_place_is_drafted_again():
    """γ = auto counts what a round cost, and so depends on discarded tokens; every draft draws a number of its own."""
    assert p_value_of_places_drafted_again() > FALSE_ALARM


def test_one_number_for_every_draft_of_a_place_is_caught(monkeypatch):
    table = Uniforms.table
    monkeypatch.setattr(Uniforms, "table", lambda self, stream, sibling=0: table(self, stream))
    assert p_value_of_places_drafted_again() < CAUGHT

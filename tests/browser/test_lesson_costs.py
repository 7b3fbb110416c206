"""What a round of the lessons' tools costs, beside the engine's formulas and a search through all choices."""

import math
import random
from itertools import product

import numpy as np
import pytest
from lesson_references import pass_time

from app.lessons_tab.one_round import side_by_side
from app.lessons_tab.variables import variables_of
from engine.config import SamplingParams
from engine.drafters.base import DrafterSetup
from engine.drafters.ngram import NgramDrafter
from engine.sampling.random_streams import Uniforms
from engine.tools.bench.whole_request import weigh
from engine.trace.speedup_model import expected_tokens, idealised_speedup, interpolate, pays_from, predicted_speedup
from engine.trace.trace import load
from lessons.schema import TRACES

pytestmark = pytest.mark.browser


def test_a_pass_of_many_users_takes_as_long_as_reading_or_arithmetic(bare):
    made = random.Random(6)
    for _ in range(30):
        users, gamma = made.randint(1, 256), made.randint(0, 8)
        free, cache = made.choice([2, 32, 128, 512]), made.choice([0, 0.01, 1])
        for experts in (False, True):
            values = [users * (gamma + 1), users, {"free": free, "cache": cache, "experts": experts}]
            found = bare.evaluate("([tokens, users, rest]) => passTime(tokens, users, rest)", values)
            assert found == pytest.approx(pass_time(users * (gamma + 1), users, free, cache, experts))


HEALTHY = {"alpha": 0.6, "gamma": 2, "c": 0.035, "slope": 0.08, "users": 1, "launch": 0}


def test_a_round_takes_the_time_of_the_speedup_formula(bare):
    made = random.Random(4)
    for _ in range(40):
        alpha, c, slope = made.choice([0, 1, made.random()]), made.choice([0, 1, made.random()]), made.random()
        gamma, users, launch = made.randint(0, 16), made.choice([1, 40, 128, 256]), made.random()
        alone = {"alpha": alpha, "gamma": gamma, "c": c, "slope": slope, "users": 1, "launch": 0}
        ideal, time = bare.evaluate("all => all.map(roundTime)", [alone, alone | {"users": users, "launch": launch}])
        assert ideal["speedup"] == pytest.approx(idealised_speedup(alpha, gamma, c, {1: 1.0, 2: 1 + slope}))
        assert time["drafting"] + time["pass"] + time["overhead"] == pytest.approx(time["total"])
        assert time["pass"] == pytest.approx(max(1, users * (gamma + 1) / 128) + slope * gamma)
        assert time["overhead"] == pytest.approx(launch * (gamma + 1) if gamma else 0)
        assert time["plain"] == pytest.approx(expected_tokens(alpha, gamma) * max(1, users / 128))


def test_each_mystery_is_mended_by_its_own_cause_alone(bare):
    causes, cases = bare.evaluate("[CAUSES, MYSTERIES]")
    speed = lambda values: bare.evaluate("values => roundTime(values).speedup", values)  # noqa: E731
    assert speed(HEALTHY) > 1.4
    assert len({case["cause"] for case in cases}) == len(cases) == 5
    for case in cases:
        assert speed(case) < 0.95
        for name, cause in causes.items():
            mended = speed(case | {cause["setting"]: HEALTHY[cause["setting"]]})
            assert (mended > 1.2) if name == case["cause"] else (mended < 1), (case, name)


def test_round_costs_what_the_speedup_formula_says(bare):
    runs = {name: load(TRACES / f"code_{name}.json") for name in ("ngram", "eagle", "medusa", "lm")}
    data = side_by_side(27, runs)["drafters"]
    assert [guess[1] for guess in data["ngram"]["guesses"]] == ["accepted"] * 4 and data["ngram"]["copied"]
    for name, shown in data.items():
        costs = runs[name].started.costs
        width = len(shown["guesses"]) + 1
        cost = shown["steps"] * costs.draft_cost(runs[name].started.config["method"]) + interpolate(costs.v, width)
        found = bare.evaluate("round => roundCost(round)", shown)
        assert found == pytest.approx({"cost": cost, "rate": shown["emitted"] / cost})
    reads = "([kind, parents]) => parents.map((_, i) => parents.map((_, j) => readsGuess(kind, parents, i, j)))"
    chain, tree = [0, 1, 2], [0, 1, 0]
    assert bare.evaluate(reads, ["small", chain])[2] == [True, True, False]
    assert bare.evaluate(reads, ["tree", chain])[2] == [True, True, False]
    assert bare.evaluate(reads, ["tree", tree]) == [[False] * 3, [True, False, False], [False] * 3]
    assert bare.evaluate(reads, ["heads", chain]) == [[False] * 3] * 3
    assert bare.evaluate(reads, ["block", chain])[0] == [False, True, True]


def test_a_request_takes_what_the_bench_weighs(bare):
    """The page has one request, the bench the same one twelve times, so that its intervals have no width."""
    random.seed(3)
    for _ in range(20):
        setting = {"prompt": random.randint(100, 9000), "answer": random.randint(2, 900)}
        setting |= {"isCached": random.random() < 0.5, "isHybrid": random.random() < 0.5}
        plain = {"read": random.uniform(500, 4000), "write": random.uniform(10, 90)}
        drafting = {"read": plain["read"] * random.uniform(0.5, 0.99), "write": plain["write"] * random.uniform(0.7, 3)}
        shown = bare.evaluate(
            "([setting, rates]) => requests(setting, rates)", [setting, {"plain": plain, "drafting": drafting}]
        )
        sides = [[[part["total"] - part["rest"], setting["answer"] - 1, part["rest"]]] * 12
                 for part in (shown["withDrafts"], shown["without"])]  # fmt: skip
        weighed = weigh(*map(np.array, sides))
        assert weighed.seconds == pytest.approx((shown["withDrafts"]["total"], shown["without"]["total"]))
        assert weighed.request.value == pytest.approx(shown["speedup"])
        later = weighed.firsts[0] - weighed.firsts[1]
        assert shown["pays"] == pays_from(later, 1 / plain["write"], 1 / drafting["write"])
        if weighed.pays_from:  # it says so only where both differences are certain
            assert shown["pays"] == weighed.pays_from


def test_own_numbers_are_judged_as_the_bench_weighs_them(bare):
    for tau, drafting, first, cause in (
        (1.8, 60, 0.4, ""), (1.8, 52, 3.0, "first"), (1.1, 45, 0.4, "few"), (2.5, 45, 0.4, "costly")
    ):  # fmt: skip
        told = bare.evaluate(
            "([tau, drafting, firstDrafting]) =>"
            " weighMeasured({ plain: 50, drafting, tau, firstPlain: 0.4, firstDrafting, length: 200 })",
            [tau, drafting, first],
        )
        ours, plain = [[first, 199, 199 / drafting]] * 12, [[0.4, 199, 199 / 50]] * 12
        weighed = weigh(np.array(ours), np.array(plain))
        assert told["whole"] == pytest.approx(weighed.request.value) and told["cause"] == cause
        assert told["cost"] == pytest.approx(tau * 50 / drafting) and told["from"] == weighed.pays_from


def test_runs_with_unlike_texts_are_not_laid_side_by_side():
    with pytest.raises(ValueError, match="another text"):
        side_by_side(3, {name: load(TRACES / f"{name}.json") for name in ("code_eagle", "story_ngram")})


def test_rounds_of_own_text_equal_those_of_the_engines_loop(bare):
    """Greedy: a draft is accepted if it is the text's token, and the token after the accepted ones closes the round."""
    made, v = random.Random(4), {1: 1.0, 2: 1.1, 4: 1.3, 8: 1.9}
    for _ in range(50):
        tokens = made.choices("abc", k=made.randint(4, 60))
        gamma, known = made.randint(0, 8), made.randint(1, 3)
        ids, drafter, at, expected = [ord(token) for token in tokens], NgramDrafter(), known, []
        drafter.start(ids[:known], DrafterSetup(SamplingParams(), 999, Uniforms(0, 8), None, 99, "cpu"))
        while at < len(ids):
            limit = min(gamma, len(ids) - at - 1)
            offer = drafter.offer(ids[:at])
            drafts = offer.draft(limit, None).tokens.tolist() if offer else []
            right = next((i for i, draft in enumerate(drafts) if draft != ids[at + i]), len(drafts))
            expected.append((right + 1, 0.0, len(drafts)))
            at += right + 1
        found = bare.evaluate("([tokens, known, gamma]) => ownRounds(tokens, known, gamma)", [tokens, known, gamma])
        assert [(each["emitted"], 0.0, each["rows"] - 1) for each in found] == expected
        speed = bare.evaluate("([rounds, v]) => ownSpeedup(rounds, width => interpolate(v, width))", [found, v])
        assert speed == pytest.approx(predicted_speedup(expected, v))


def test_second_place_to_copy_from_never_costs_a_pass(bare):
    made, helped = random.Random(5), 0
    for _ in range(50):
        tokens = made.choices("abc", k=40)
        one, two = bare.evaluate("tokens => [1, 2].map(ways => ownRounds(tokens, 10, 3, ways))", tokens)
        assert sum(each["emitted"] for each in two) == sum(each["emitted"] for each in one) == 30
        for each in two:
            assert not each["others"] or each["others"][0] != each["drafts"][0]
            assert not each["isOther"] or each["others"][: each["accepted"]] == tokens[each["at"] :][: each["accepted"]]
            assert each["rows"] == 1 + len(each["drafts"]) + len(each["others"])
        helped += len(two) < len(one)
    assert helped > 25


def test_a_pass_takes_the_measured_time_or_that_of_the_data_sheet(bare):
    v = variables_of(load(TRACES / "code_eagle.json"))["v"]
    table = {str(width): v(width) for width in (1, 2, 4, 8, 16)}
    found = bare.evaluate("v => [1, 5, 16].map(width => pictureTime(width, { v }))", table)
    assert found == pytest.approx([1, (v(4) * 3 + v(8)) / 4, v(16)])
    assert bare.evaluate("() => [1, 100, 400].map(width => pictureTime(width, { free: 200 }))") == [1, 1, 2]


def test_surest_drafts_first_bring_more_than_any_others(bare):
    """They are compared with every other choice that tests each user's drafts from the first on."""
    made = random.Random(8)
    for users in (1, 3, 4):
        kinds = [sorted((made.random() for _ in range(3)), reverse=True) for _ in range(users)]
        kinds = [[*row, made.random() * row[-1]] for row in kinds]
        script = "kinds => { const c = survivals(kinds); return [c, surestFirst(c), tokensAStep(c, surestFirst(c))]; }"
        chances, depths, rate = bare.evaluate(script, kinds)
        assert chances[0] == pytest.approx([kinds[0][0], *(math.prod(kinds[0][:n]) for n in (2, 3, 4))])
        every = list(product(range(5), repeat=users))
        rates = bare.evaluate("([c, all]) => all.map(depths => tokensAStep(c, depths))", [chances, every])
        assert rate == pytest.approx(max(rates)) and sum(depths) <= 4 * users
    few, many = bare.evaluate(
        "() => [2, 24].map(n => { const c = survivals(Array.from({ length: n }, (_, i) => SURENESS[i % 8]));"
        " return [surestFirst(c), sameForAll(c), tokensAStep(c, surestFirst(c)), tokensAStep(c, sameForAll(c))]; })"
    )
    assert sum(few[0]) == 8 and many[0] == [0] * 24, "all fits for two users, and nothing for more users than rows"
    assert few[2] >= few[3] and many[2] == many[3]

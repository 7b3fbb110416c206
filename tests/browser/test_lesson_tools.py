"""What there is to play with in the lessons: sums beside the libraries', and the page."""

import json
import math
import random
import re
from dataclasses import asdict
from itertools import product

import pytest
import torch
from engine_logs import CASES, text_of
from page_actions import open_lesson
from player_page import page_with
from playwright.sync_api import Page, expect
from visits import Visits

from app.lessons_tab.one_round import side_by_side
from app.lessons_tab.variables import of
from engine.config import SamplingParams
from engine.drafters.base import DrafterSetup
from engine.drafters.ngram import NgramDrafter
from engine.exactness.toy_models import make_drafter, record_trace, weather_pair
from engine.models.runner import tree_shape
from engine.sampling.random_streams import Uniforms
from engine.trace.log_reader import report as report_on
from engine.trace.speedup_model import expected_tokens, idealised_speedup, interpolate, predicted_speedup
from engine.trace.trace import load
from lessons import bpe_demo, check_server
from lessons.schema import TRACES

pytestmark = pytest.mark.browser
TOOLS = """acceptance_log batching budget bursts cost drafter_kinds drafters experts float_sums grow_tree
    guess_share guess_words json_masks log_reader lookup_rounds merges overlap pass_picture place_memory pass_places
    reports ruler temperature tokenizer_mismatch unknown_runs"""
MODULES = ["lib/speedup_model.js", *(f"lessons/{name}.js" for name in TOOLS.split())]
TEXTS = (
    "The target cuts again\n    return tokens[0]  # done ✓",
    "",
    " ",
    "   three   spaces and a tab\tand\r\n\n\nlines  ",
    "for i in range(10):\n\tif it's_x != 'y': print(f\"{i:>3}\")\n",
    "don't we've they'll I'd 'S 12345 3.14 ½ ² x²",
    "héllo Straße 日本語 данные مرحبا नमस्ते 👩‍👩‍👧 🇫🇷 e\u0301",
    "nel\u0085 nbsp\u00a0 bom\ufeff ideographic\u3000 zero\u200bwidth \u2028line",
    "<b>&amp;</b> {{x}} ${y} `z` \\n \x00\x7f\x1b",
)


@pytest.fixture(scope="module")
def bare(browser):
    """A page with nothing on it, where the tools' functions are global."""
    with page_with(browser, *MODULES) as page:
        yield page


def test_the_page_cuts_as_the_library_does(bare):
    cases = [(name, text) for name in bpe_demo.SOURCES for text in TEXTS]
    found = bare.evaluate(
        "cases => cases.map(([name, text]) => { const t = makeTokenizer(MERGES[name]), cut = t.cut(text);"
        " return { cut, ids: cut.map(piece => t.number.get(piece)), text: textOf(cut) }; })",
        cases,
    )
    for (name, text), cut in zip(cases, found, strict=True):
        expected = bpe_demo.tokenizer(name).encode(text)
        assert cut == {"cut": expected.tokens, "ids": expected.ids, "text": text}, name


def borders(name: str, text: str) -> set[int]:
    found, at = set(), 0
    for piece in bpe_demo.tokenizer(name).encode(text).tokens:
        at += len(piece)
        found.add(at)
    return found


def test_what_is_left_of_a_draft_is_what_the_library_leaves(bare):
    cases = [(text, count) for text in (TEXTS[0], TEXTS[4], TEXTS[6]) for count in (1, 4, 9, 16, 20)]
    found = bare.evaluate(
        "cases => cases.map(([text, count]) =>"
        " translated(makeTokenizer(MERGES.code), makeTokenizer(MERGES.prose), text, count))",
        cases,
    )
    draft, target = bpe_demo.tokenizer("code"), bpe_demo.tokenizer("prose")
    for (text, count), left in zip(cases, found, strict=True):
        ids = draft.encode(text).ids[:count]
        assert left["text"] == draft.decode(ids) and left["misread"] == target.decode(ids)
        assert left["anew"] == target.encode(draft.decode(ids)).tokens
        assert max(0, len(left["anew"]) - 1) == bpe_demo.testable(text, count)


@pytest.mark.parametrize(
    ("name", "kind", "end"),
    [("fp32", torch.float32, torch.float32), ("fp16", torch.float16, torch.float16),
     ("bf16", torch.bfloat16, torch.bfloat16), ("mixed", torch.float32, torch.bfloat16)],
)  # fmt: skip
def test_a_sum_is_what_torch_adds_up_in_that_precision_and_order(bare, name, kind, end):
    for seed in (1, 2):
        pair = bare.evaluate("seed => twoLogits(0.25, seed)", seed)
        made = bare.evaluate(
            "([pair, name]) => pair.map(row =>"
            " ['forwards', 'backwards', 'blocks'].map(way => WAYS[way](row, PRECISIONS[name])))",
            [pair, name],
        )
        for row, sums in zip(pair, made, strict=True):
            terms = torch.tensor(row, dtype=torch.float32).to(kind)
            blocks = torch.stack([added(block) for block in terms.view(8, 8)])
            wanted = [added(each).to(end).item() for each in (terms, terms.flip(0), blocks)]
            assert sums == wanted


def added(terms: torch.Tensor) -> torch.Tensor:
    """One after the other, each sum rounded."""
    total = torch.zeros((), dtype=terms.dtype)
    for term in terms:
        total = total + term
    return total


@pytest.mark.parametrize(("first", "second", "row"), [(0.6, 0.5, 0.05), (0.9, 0.1, 0.2), (0.3, 0.3, 0), (0, 0, 0.1)])
def test_the_best_tree_is_the_best_of_all_shapes(bare, first, second, row):
    """Of up to five words, by trying every shape; the chance of each word from the definition."""

    def shapes(words: int) -> list[list]:
        """Every list of subtrees with so many words in all."""
        if words == 0:
            return [[]]
        return [[head, *rest] for n in range(words) for head in shapes(n) for rest in shapes(words - 1 - n)]

    def tokens(tree: list) -> float:
        total, left = 0.0, 1.0
        for rank, child in enumerate(tree):
            accepted = left * (first if rank == 0 else second)
            total, left = total + accepted * (1 + tokens(child)), left - accepted
        return total

    def speed(tree: list, words: int) -> float:
        return (1 + tokens(tree)) / (1 + row * words)

    best = max(speed(tree, words) for words in range(6) for tree in shapes(words))
    script = "([f, s, r]) => { const tree = bestTree(f, s, r, 5); return [tree, worth(tree, f, s, r)]; }"
    tree, found = bare.evaluate(script, [first, second, row])
    assert found["tokens"] == pytest.approx(1 + tokens(tree))
    assert found["speedup"] == pytest.approx(speed(tree, found["words"])) == pytest.approx(best)


def test_temperature_divides_logits_as_torch_does_and_zero_is_greedy(bare):
    logits = [1.79, 1.1, 0.0]
    for temperature in (0.1, 0.5, 1, 2):
        wanted = torch.softmax(torch.tensor(logits, dtype=torch.float64) / temperature, 0).tolist()
        assert bare.evaluate("([row, t]) => softmax(row, t)", [logits, temperature]) == pytest.approx(wanted, abs=1e-9)
    assert bare.evaluate("row => softmax(row, 0)", logits) == [1, 0, 0]


def test_accepted_and_replaced_drafts_make_p_only_with_the_residual(bare):
    made = random.Random(3)
    for _ in range(20):
        p, q = ([x / sum(row) for x in row] for row in ([made.random() ** 3 for _ in range(3)] for _ in range(2)))
        right, wrong = (bare.evaluate("([p, q, s]) => outcome(p, q, s)", [p, q, how]) for how in ("residual", "p"))
        assert [a + b for a, b in zip(right["accepted"], right["replaced"], strict=True)] == pytest.approx(p, abs=1e-9)
        out = [a + b for a, b in zip(wrong["accepted"], wrong["replaced"], strict=True)]
        assert sum(out) == pytest.approx(1) and out != pytest.approx(p, abs=1e-6)
        assert all(o > x for o, x, y in zip(out, p, q, strict=True) if y >= x > 0)  # what q favours overshoots
    assert bare.evaluate("outcome([1, 0], [1, 0], 'residual').replaced") == [0, 0]


def test_a_row_sees_what_the_mask_of_the_engine_lets_it_see(bare):
    made = random.Random(2)
    chains = [tuple(range(n)) for n in range(4)]
    for parents in (*chains, *(tuple(made.randint(0, i) for i in range(8)) for _ in range(10))):
        rows = bare.evaluate(
            "parents => [0, ...parents].map((_, row) => [0, ...parents].map((_, column) =>"
            " column <= row && sees(parents, row, column)))",
            parents,
        )
        assert rows == tree_shape(parents)[1].tolist(), parents


@pytest.mark.parametrize(("method", "gamma"), [("lm", 3), ("without_replacement", 2)])
def test_a_round_is_judged_as_the_engine_did(bare, method, gamma):
    """Runs of the lesson's models: with the engine's rejections, the same drafts are accepted, and the same kind of
    token closes the round. Its chances are the residual of each rejected sibling after the other."""
    target, draft = weather_pair()
    seen = set()
    for seed in range(12):
        trace = record_trace(target, make_drafter(method, draft), [2, 1, 0], gamma=gamma, max_new_tokens=8, seed=seed)
        one = trace.rounds[0]
        *drafts, closing = one.tokens
        rejected = [i for i, token in enumerate(drafts, 1) if token.status == "rejected"]
        found = bare.evaluate("([parents, rejected]) => judged(parents, new Set(rejected))", [one.parents, rejected])
        path = [i for i, token in enumerate(drafts, 1) if token.status == "accepted"]
        assert (found["path"], found["closing"]) == ([0, *path], closing.status), seed
        states = {"rejected": "rejected", "accepted": "accepted"}
        assert [states.get(token.status) for token in drafts] == [states.get(state) for state in found["states"][1:]]
        shares, offers = (lambda d: {c.text.strip(): c.mass for c in d.top}), [drafts[i - 1] for i in found["failed"]]
        chances = bare.evaluate(
            "([p, offers]) => closingChances(p, offers)", [shares(closing.p_top), [shares(t.q_top) for t in offers]]
        )
        assert chances[closing.text.strip()] > 0 and sum(chances.values()) == pytest.approx(1)
        if len(offers) == 1:
            assert {word: mass for word, mass in chances.items() if mass} == pytest.approx(shares(closing.residual))
        seen.add(len(offers))
    assert seen == ({0, 1} if method == "lm" else {0, 2})
    assert bare.evaluate("closingChances({ a: 0.5, b: 0.5 }, [{ a: 0.5, b: 0.5 }])") is None


def pass_time(tokens: int, users: int, free: float, cache: float, experts: bool) -> float:
    """In readings of the weights for one token: reading or arithmetic, whichever takes longer.

    ``cache``: of all weights."""
    one = 1.5 + 29 * 8 / 128
    read = (1.5 + 29 * (1 - (1 - 8 / 128) ** tokens)) / one if experts else 1
    return max(read + users * cache * (30.5 / one if experts else 1), tokens / free)


def test_a_pass_of_many_users_takes_as_long_as_reading_or_arithmetic(bare):
    made = random.Random(6)
    for _ in range(30):
        users, gamma = made.randint(1, 256), made.randint(0, 8)
        free, cache = made.choice([2, 32, 128, 512]), made.choice([0, 0.01, 1])
        for experts in (False, True):
            values = [users * (gamma + 1), users, {"free": free, "cache": cache, "experts": experts}]
            found = bare.evaluate("([tokens, users, rest]) => passTime(tokens, users, rest)", values)
            assert found == pytest.approx(pass_time(users * (gamma + 1), users, free, cache, experts))


HEALTHY = {"alpha": 0.6, "gamma": 2, "c": 0.035, "slope": 0.08, "users": 1, "launch": 0}  # as in why_is_mine_slower


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


def test_each_cause_slows_a_healthy_round_and_mending_it_helps(bare):
    causes, cases = bare.evaluate("[CAUSES, MYSTERIES]")
    speed = lambda values: bare.evaluate("values => roundTime(values).speedup", values)  # noqa: E731
    assert speed(HEALTHY) > 1.4
    assert all(speed(HEALTHY | {cause["setting"]: cause["value"]}) < 0.95 for cause in causes.values())
    assert len({case["cause"] for case in cases}) == len(cases) == 5
    for case in cases:
        assert speed(case) < 0.95
        for name, cause in causes.items():
            mended = speed(case | {cause["setting"]: HEALTHY[cause["setting"]]})
            assert (mended > 1.2) if name == case["cause"] else (mended < 1), (case, name)


@pytest.mark.parametrize("method", ["lm", "eagle", "ngram"])
def test_guesses_are_judged_and_counted_as_the_engine_did(bare, method):
    """The drafts of each recorded round as the guesses: the same α and τ."""
    trace, at, rounds = load(TRACES / f"guess_note_{method}.json"), 0, []
    text = [token.text for token in trace.emitted]
    for one in trace.rounds:
        drafts = [token.text for token in one.tokens[: len(one.parents)]]
        rounds.append(bare.evaluate("([drafts, text]) => judgeGuesses(drafts, text)", [drafts, text[at:]]))
        at += rounds[-1]["emitted"]
    numbers, score = of(trace), bare.evaluate("rounds => guessScore(rounds)", rounds)
    assert at == len(text) and (score["alpha"], score["tau"]) == pytest.approx((numbers["alpha"], numbers["tau"]))


def test_game_is_written_as_squares_with_the_best_drafter(bare):
    rounds = bare.evaluate(
        "[['a', 'x', 'c'], ['d', 'e']].map((guesses, i) => judgeGuesses(guesses, ['abc', 'def'][i]))"
    )
    rounds.append({"drafted": 0, "accepted": 0, "tested": 0, "emitted": 1})
    told = {"name": "A story", "tau": 2, "rounds": rounds, "link": "https://x.y/#lesson-7-guess-2",
            "drafters": [["copying", 0.1, 1.04], ["EAGLE head", 0.2, 1.26]]}  # fmt: skip
    assert bare.evaluate("told => messageOf(told)", told).splitlines() == [
        "I guessed 2.00 tokens a pass on “A story”. The EAGLE head gets 1.26.",
        "🟦🟧⬜🟨", "🟦🟦🟨", "🟨", "Can you beat that? https://x.y/#lesson-7-guess-2",
    ]  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_text_is_read_in_the_browser_as_in_python(bare, name):
    wanted, found = report_on(text_of(name)), bare.evaluate("text => readLog(text)", text_of(name))
    assert found["unused"] == wanted.unused
    assert found["readings"] == [asdict(r) | {"reached": pytest.approx(list(r.reached))} for r in wanted.readings]


@pytest.mark.parametrize(
    ("name", "tau", "gamma", "is_exact"),
    [
        ("vLLM 0.32", 1.28, 3, True), ("vLLM before positions", 5, 4, False), ("SGLang with zeros alone", 1, 4, False),
        ("llama.cpp of 2025", 1 + 171 / (297 / 4), 4, False), ("llama.cpp mean len", 4.3, 5, False),
        ("vLLM, two draft lengths", 1.28, 3, True), ("OpenAI predictions", 4, 4, False),
    ],
)  # fmt: skip
def test_the_tool_fills_in_what_a_text_does_not_tell(bare, name, tau, gamma, is_exact):
    found = bare.evaluate("text => readAcceptance(text, 4)", text_of(name))
    assert (found["gamma"], found["exact"]) == (gamma, is_exact) and found["tau"] == pytest.approx(tau, abs=0.01)
    if not is_exact and tau > 1:  # one α for all positions, which gives this τ
        assert expected_tokens(found["alphas"][0], gamma) == pytest.approx(found["tau"], rel=0.001)


def test_best_length_follows_alpha_by_position_and_bad_logs_are_refused(bare):
    found, speedups = bare.evaluate(
        "log => { const found = readAcceptance(log, 4); return [found, speedupsOf(found, 0.1, 0.02, 16)]; }",
        text_of("llama.cpp of spring 2026"),
    )
    tokens = [1, 1 + 0.804, 1 + 0.804 + 0.701, 1 + 0.804 + 0.701 + 0.629]
    assert speedups[:4] == pytest.approx([n / (1 + 0.12 * gamma) for gamma, n in enumerate(tokens)], rel=1e-3)
    advice = "([found, best]) => adviceFor(found, best, 16)"
    for given, best, said in (
        (found, 2, "Draft 2 instead of 4"), (found, 0, "turn drafting off"), (found, 16, "Try 16 or more"),
        (found | {"alphas": [0.2]}, 3, "chat template"),
    ):  # fmt: skip
        assert said in bare.evaluate(advice, [given, best])
    for text, said in (
        ("   ", "Paste lines"), (text_of("nothing"), "No acceptance found"),
        (text_of("trtllm-bench, cut"), "end before their numbers"),
        (text_of("vLLM, numbers that cannot be"), "cannot be"),
        (text_of("vLLM counters of a fresh server"), "drafted nothing"),
    ):  # fmt: skip
        assert said in bare.evaluate("text => readAcceptance(text, 4).problem", text), text
    long = "text => readAcceptance('x '.repeat(5e6) + text, 4).engine"
    assert bare.evaluate(long, text_of("vLLM 0.32")) == "vLLM", "in seconds"


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
            most = min(gamma, len(ids) - at - 1)
            drafts = drafter.propose(ids[:at], most, 0).tokens.tolist() if drafter.confidence_classes(ids[:at]) else []
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


def test_reports_of_the_script_are_judged_by_its_own_limits(bare):
    for report in bare.evaluate("() => REPORTS"):
        gaps = [float(gap) for gap in re.findall(r"gap (\d+\.\d+)", report["lines"][1])]
        pattern = r"Sampled, (\d+) a side: chi-squared ([\d.]+), (\d+) degrees of freedom, p = ([\d.e-]+)\."
        printed = re.fullmatch(pattern, report["lines"][3]).groups()
        change, tie = map(float, re.findall(r"up to (\d\.\d+)", report["lines"][2]))
        assert tie == max(check_server.NEAR_TIE, 2 * change)
        draws, statistic, freedom, p = map(float, printed)
        assert printed[3] == f"{check_server.p_value(statistic, freedom):.2g}"
        bad = max(gaps, default=0) > tie or p < 1e-4
        assert report["verdict"] == ("bug" if bad else "tie" if gaps else "little")
        assert (draws < 50) == (report["verdict"] == "little")


def test_a_pass_takes_the_measured_time_or_that_of_the_data_sheet(bare):
    v = of(load(TRACES / "code_eagle.json"))["v"]
    table = {str(width): v(width) for width in (1, 2, 4, 8, 16)}
    found = bare.evaluate("v => [1, 5, 16].map(width => pictureTime(width, { v }))", table)
    assert found == pytest.approx([1, (v(4) * 3 + v(8)) / 4, v(16)])
    assert bare.evaluate("() => [1, 100, 400].map(width => pictureTime(width, { free: 200 }))") == [1, 1, 2]


def test_the_right_masks_give_json_and_each_mistake_breaks_it(bare):
    found = bare.evaluate("() => Object.fromEntries(Object.keys(MASK_RULES).map(rule => [rule, writeAnswer(rule)]))")
    for rule in ("right", "forced"):
        assert not found[rule]["isBroken"] and json.loads(found[rule]["answer"]) == {"ok": True, "n": 7}
        assert found[rule]["passes"] < 8, "plain decoding needs eleven"
    for rule in found.keys() - {"right", "forced"}:
        assert found[rule]["isBroken"]
        with pytest.raises(ValueError, match=r"Expecting|Extra"):
            json.loads(found[rule]["answer"])
    rows = bare.evaluate("maskedRound(['<think>', 'easy'], 'right').rows")
    assert [row["status"] for row in rows] == ["accepted", "rejected", "discarded", "discarded", "discarded"]
    assert rows[0]["mask"] is None and rows[1]["mask"] == ["{"], "the mask moves along with the drafts"


def test_surest_drafts_first_bring_more_than_any_others(bare):
    """Against every other choice, as long as each user's drafts are tested from the first on."""
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


def test_a_defence_hides_the_bursts_and_has_its_price(bare):
    bursts = [1, 5, 5, 1, 1, 2]
    script = "([bursts, how]) => defended(bursts, how, 5)"
    found = {how: bare.evaluate(script, [bursts, how]) for how in ("open", "padded", "lumps", "single")}
    assert found["open"] == {"seen": bursts, "sent": 1, "wait": 0}
    assert found["padded"] == {"seen": [5] * 6, "sent": 30 / 15, "wait": 0}
    assert set(found["lumps"]["seen"]) == {6} and found["lumps"]["wait"] > 0
    arrived = [at for at, size in enumerate(bursts) for _ in range(size)]
    assert found["single"]["seen"] == [1] * 15
    assert found["single"]["wait"] == pytest.approx(sum(i - at for i, at in enumerate(arrived)) / 15)


def test_each_unknown_run_has_the_trouble_that_its_counts_show(bare):
    names = {"story_ngram": "nothing", "story_lm8": "long", "rewrite_ngram": "healthy", "code_lookahead": "wide"}
    for name, trouble in names.items():
        counts = of(load(TRACES / f"{name}.json"))["symptoms"]
        assert bare.evaluate("run => causeOf(run)", counts) == trouble, name
        assert counts["tokens"] == sum(counts["bursts"]) and counts["passes"] == len(counts["bursts"])
    assert bare.evaluate("causeOf({ passes: 40, drafted: 158, accepted: 0, tested: 40, empty: 0 })") == "wiring"


@pytest.fixture(scope="module")
def lessons_page(browser, fake_server):
    """One visitor's page for all tools. At the end no error was logged and no other server asked."""
    visits = Visits(browser)
    page = visits.open(f"{fake_server}/#lessons", fresh=True)
    page.get_by_role("tab", name="Lessons").click()
    expect(page.locator(".sl-lesson-card").first).to_be_visible()
    yield page
    visits.close()


@pytest.fixture
def at_tool(lessons_page):
    """Opens a lesson at the step that has the tool."""

    def open_(lesson: str, titled: str) -> Page:
        page = lessons_page
        open_lesson(page, lesson)
        page.locator(f'.sl-dot[title="{titled}"]').click()
        expect(page.locator(".sl-dot[aria-current=step]")).to_have_attribute("title", titled)
        expect(page.locator(".sl-lesson-next")).to_have_text("Skip")
        return page

    return open_


def slide(page: Page, label: str, value: float) -> None:
    page.get_by_label(label).evaluate(
        "(node, value) => { node.value = value; node.dispatchEvent(new Event('input', { bubbles: true })); }", value
    )


def chosen(page: Page):
    return page.locator(".sl-figure-box .sl-pick select")


def result(page: Page):
    return page.locator(".sl-figure-box .sl-result")


def every_slider_to_its_ends(page: Page) -> None:
    for key in ("End", "Home"):
        for each in page.locator(".sl-figure-box input").all():
            each.press(key)
        assert "NaN" not in page.locator(".sl-figure-box").inner_text()


def test_a_text_is_cut_by_both_and_what_is_left_of_the_draft_is_told(at_tool):
    page = at_tool("two_tokenizers", "Cut it twice")
    code, prose = (bpe_demo.tokenizer(name).get_vocab() for name in ("code", "prose"))
    shared = f"They share {len(code.keys() & prose.keys())}"
    expect(page.locator(".sl-figure-box > .sl-figure-note").last).to_contain_text(shared)
    expect(result(page)).to_have_text("4 drafted, 3 to test. “u” may be unfinished. In the whole text it is “ut”.")
    page.get_by_label("Tokens the draft proposes").press("End")
    drafted, tested = min(20, bpe_demo.pieces("code", TEXTS[0])), bpe_demo.testable(TEXTS[0], 20)
    expect(result(page)).to_contain_text(f"{drafted} drafted, {tested} to test.")
    expect(page.locator(".sl-lesson-next")).to_have_text("Next")
    hostile = "<img src=x onerror=alert(1)> {{1+1}}"
    page.get_by_label("Your text").fill(hostile)
    page.keyboard.press("n")  # typed, and no way on
    text = hostile + "n"
    expect(page.get_by_label("Your text")).to_have_value(text)
    expect(page.locator(".sl-cut-pair")).to_have_count(len(borders("code", text) & borders("prose", text)))
    assert page.locator(".sl-figure-box img").count() == 0


def test_the_near_tie_turns_in_bf16_and_not_in_fp32(at_tool):
    page = at_tool("one_token_differs", "Add it up yourself")
    told = lambda: json.loads(result(page).evaluate("node => JSON.stringify(node.dataset)"))  # noqa: E731
    assert int(told()["behind"]) > 0 and int(told()["ahead"]) > 0
    chosen(page).select_option(label="fp32")
    expect(result(page)).to_have_text("A wins in all 400 shuffled orders: no rounding reaches that far.")
    expect(page.locator(".sl-lesson-next")).to_have_text("Next")
    chosen(page).select_option(label="bf16")
    page.get_by_label("True lead of A").press("End")
    expect(result(page)).to_contain_text("A wins in all 400")
    page.keyboard.press("Home")
    expect(result(page)).to_contain_text("Neither leads in truth")
    assert sum(map(int, told().values())) == 400


@pytest.mark.slow
def test_tree_is_grown_by_keyboard_and_traffic_gives_a_command(at_tool):
    page = at_tool("token_trees", "Grow one")
    page.get_by_role("button", name="last token, 0 children; add one").press("Enter")
    expect(result(page)).to_contain_text("1.60 tokens expected from a pass over 2 rows: 1.52 ×")
    expect(page.get_by_role("button", name="last token, 1 child; add one")).to_be_focused()
    page = at_tool("turn_it_on", "Your command")
    for label, option, method in (
        ("Engine", "vLLM", "ngram"), ("You serve", "chat, reasoning, stories", "mtp"),
        ("You also have", "a head trained for the model", "eagle3"),
    ):  # fmt: skip
        page.get_by_label(label).select_option(label=option)
        expect(page.locator(".sl-command")).to_contain_text(f'"method": "{method}"')
    page.get_by_label("Engine").select_option(label="transformers")
    expect(page.locator(".sl-command")).to_be_hidden()
    expect(page.locator(".sl-figure-note").last).to_contain_text("no EAGLE head")


def test_draws_stack_up_to_p_and_redrawing_from_p_overshoots(at_tool):
    page = at_tool("accept_reject_resample", "See it stack up")
    stack, told = page.locator(".sl-stack"), page.locator(".sl-figure-box .sl-result").last
    expect(told).to_contain_text("Σ min(p, q) = 0.80")
    draw = page.get_by_role("button", name="Draw 200")
    for _ in range(5):
        draw.click()
    expect(told).to_contain_text("Counted in 1,000 draws")
    shares = re.findall(r"p ([\d.]+), out ([\d.]+)", stack.get_attribute("aria-label"))
    assert len(shares) == 3 and all(abs(float(p) - float(out)) < 0.08 for p, out in shares)  # five standard errors
    page.get_by_label("Replaced").select_option(label="from p (a mistake)")
    expect(page.locator(".sl-figure-box > .sl-figure-note")).to_contain_text("sun will overshoot by 0.04")
    page.get_by_label("Drafter").select_option(label="greedy or a copy: one word, q = 1")
    expect(told).to_contain_text("Σ min(p, q) = 0.20")  # p of that word
    page.locator(".sl-figure-box").get_by_label("Temperature").focus()
    page.keyboard.press("Home")
    expect(told).to_contain_text("Σ min(p, q) = 0.00")
    expect(page.locator(".sl-lesson-next")).to_have_text("Next")


def test_pass_gives_a_row_for_each_place_and_greys_those_after_rejection(at_tool):
    page = at_tool("draft_then_verify", "One pass, many places")
    rows, slots = page.locator(".sl-places tbody tr"), page.locator(".sl-slots li")
    states = lambda found: found.evaluate_all("all => all.map(each => each.dataset.state)")  # noqa: E731
    expect(page.get_by_role("button", name="Reject draft 1, rain")).to_be_disabled()
    page.get_by_role("button", name="Run the pass").press("Enter")
    expect(result(page)).to_contain_text("4 rows, 4 sets of chances")
    expect(page.locator(".sl-lesson-next")).to_have_text("Next")
    assert states(slots) == ["old", "old", *["new"] * 4]
    rows.nth(3).locator(".sl-place-name").focus()
    expect(page.locator(".sl-meter-number")).to_have_text(["0.30", "0.30", "0.40"])  # the target after wind
    page.get_by_role("button", name="Reject draft 2, sun").press("Space")
    assert states(rows) == ["accepted", "accepted", "rejected", "gone"]
    assert states(slots) == ["old", "old", "new", "new", "cut", "cut"]
    expect(page.locator(".sl-figure-box")).to_contain_text(
        "Resampled: rain 0.50, wind 0.50. The cache now holds 4 of 6"
    )
    memory = page.get_by_label("Its memory is")
    memory.select_option(label="one running state")
    assert states(slots) == ["cut"]
    expect(page.locator(".sl-figure-box")).to_contain_text("reads 2 tokens again")
    memory.select_option(label="one running state, saved at every place")
    assert states(slots) == ["cut", "new", "cut", "cut"]
    expect(page.locator(".sl-figure-box")).to_contain_text("goes on from the state it saved after “rain”")
    assert states(rows) == ["accepted", "accepted", "rejected", "gone"], "the same pass"
    memory.select_option(label="a slot for each token (attention)")
    page.get_by_role("button", name="Reject draft 2, sun").focus()
    page.keyboard.press("Space")
    assert states(rows) == ["accepted"] * 4
    chosen(page).first.select_option(label="a tree, two words a place")
    expect(rows).to_have_count(7)
    page.get_by_role("button", name="Run the pass").click()
    page.get_by_role("button", name="Reject draft 1, rain").click()
    assert states(rows) == ["accepted", "rejected", "accepted", "gone", "gone", "accepted", "branch"]


@pytest.mark.slow
def test_a_round_is_drawn_to_scale_and_its_cause_is_found(at_tool):
    page = at_tool("why_is_mine_slower", "Fix it")
    speed = lambda: float(result(page).get_attribute("data-speedup"))  # noqa: E731
    widths = lambda: page.locator(".sl-ruler-bar").evaluate_all(  # noqa: E731
        "bars => bars.map(bar => [...bar.children].reduce((sum, each) => sum + each.getBoundingClientRect().width, 0))"
    )
    assert speed() < 0.9  # the lesson calls it much slower
    assert widths()[1] / widths()[0] == pytest.approx(speed(), rel=0.02)
    page.get_by_label("γ, tokens drafted").press("Home")
    expect(result(page)).to_have_text("1 token in 1 plain step: as fast as plain.")
    expect(page.locator(".sl-lesson-next")).to_have_text("Next")
    every_slider_to_its_ends(page)

    page.locator('.sl-dot[title="Name the cause"]').click()
    wrong = "Not this one. It is “launches”"
    for number, name in enumerate(
        ("drafts cost too much", "few accepted", "full batch", "γ too long", "drafts cost too much"), 1
    ):
        expect(page.locator(".sl-figure-box")).to_contain_text(f"Case {number} of 5. It is slower")
        page.get_by_role("button", name=name).press("Enter")
        expect(result(page)).to_contain_text(re.compile(wrong if number == 5 else "^(?!Not this one)"))
        if number < 5:
            page.get_by_role("button", name="Next case").click()
    expect(page.locator(".sl-figure-box")).to_contain_text("You found 4 of 5 causes.")


def press(*names: str):
    """Presses buttons of the step's tool, one after the other."""
    return lambda page: [
        page.locator(".sl-figure-box").get_by_role("button", name=name).first.click() for name in names
    ]


def move(**values: float):
    """Moves sliders of the step's tool, by the beginning of their labels."""

    def act(page: Page) -> None:
        for label, value in values.items():
            row = page.locator(".sl-figure-box .sl-slide").filter(has_text=re.compile(f"^{LABELS.get(label, label)}"))
            row.locator("input").evaluate(
                "(node, value) => { node.value = value; node.dispatchEvent(new Event('input', { bubbles: true })); }",
                value,
            )

    return act


def choose(label: str, option: str):
    return lambda page: page.locator(".sl-figure-box").get_by_label(label).select_option(label=option)


def data(name: str, place: str = ".sl-result"):
    """A number that the tool has written into its result."""
    return lambda page: float(page.locator(f".sl-figure-box [data-{name}]{place}").get_attribute(f"data-{name}"))


def shown(pattern: str):
    """A number in the text of the tool."""
    return lambda page: float(re.search(pattern, page.locator(".sl-figure-box").inner_text(), re.S)[1].replace(",", ""))


def came_out(word: str):
    return shown(rf"{word}, came out\s+([\d.]+)")


LABELS = {"alpha": "α", "gamma": "γ", "c": "c, cost", "extra": "extra cost", "eps": "Threshold", "q_wind": r"q\(wind\)"}
HELD, OVERLAP = shown(r"γ = \d+: ([\d.]+) ×"), shown(r"Σ min\(p, q\) = ([\d.]+)")
PASSES, FAVOURITE = shown(r"([\d.,]+) passes per second"), shown(r"comes in ([\d.]+)")
BREAKS = ("few accepted", "γ too long", "drafts cost too much", "wide passes cost too much", "full batch", "launches")


def lose_with_four(page: Page) -> None:
    """Moves α to a little below where four drafts pay."""
    move(alpha=shown(r"once α is above (\d\.\d+)")(page) - 0.02)(page)


# Lesson, step, [(an action, a reading after it)], and the condition on the readings that shows the point of the step.
STEPS = [
    ("memory_wall", "Read once, used by many",
     [(move(W=1), data("time")), (move(W=5), data("time")),
      (choose("Machine", "H100 SXM, by its data sheet"), data("time"))],
     lambda one, five, large: one == 1 < five < 3 and large == 1),
    ("memory_wall", "The ceiling",
     [(choose("Model", "SmolLM2 135M"), PASSES), (choose("Model", "Qwen3 8B"), PASSES)],
     lambda small, large: small > 10 * large),
    ("accept_reject_resample", "Where the chances come from",
     [(move(Temperature=0.5), FAVOURITE), (move(Temperature=0.9), FAVOURITE)],
     lambda cold, warm: cold > warm + 0.05),
    ("accept_reject_resample", "Try to cheat it",
     [(press("Draw 10,000"), data("accepted")), (move(q_wind=10), None), (press("Draw 10,000"), data("accepted")),
      (press("Draw 10,000"), came_out("wind"))],
     lambda good, bad, wind: bad < good - 0.2 and 0.08 < wind < 0.12),
    ("is_it_lossless", "Lossy on purpose",
     [(press("Draw 10,000"), came_out("wind")), (move(eps=0.15), None), (press("Draw 10,000"), came_out("wind"))],
     lambda often, never: often > 0.17 and never == 0),
    ("acceptance_tau_speedup", "Build the formula",
     [(press("τ,"), data("value")), (press("v(γ + 1)", "v(γ + 1)"), data("value")),
      (press("γ · c", "γ · c"), data("value"))],
     lambda tokens, free_drafts, right: tokens > free_drafts > right > 1),
    ("acceptance_tau_speedup", "The curve",
     [(lose_with_four, HELD), (move(gamma=1), HELD), (move(gamma=4, c=0), HELD)],
     lambda four, one, free_drafts: four < 1 < one and free_drafts > four + 0.02),
    ("how_many_drafts", "Move the costs",
     [(move(), data("best", "")), (move(extra=0), data("best", "")), (move(extra=0.05, alpha=0.3), data("best", "")),
      (move(extra=0), data("best", ""))],
     lambda best, free, low, low_free: best + 2 <= free and low_free - low <= 1),
    ("easy_and_hard_text", "And with temperature?",
     [(choose("Drafter", "greedy or a copy: one word, q = 1"), None), (move(Temperature=0), OVERLAP),
      (move(Temperature=2), OVERLAP)],
     lambda cold, hot: cold == 0 and hot > 0.2),
    ("easy_and_hard_text", "Six kinds of text",
     [(press("Show what was measured"), lambda page: page.locator(".sl-kinds-dots").count()),
      (press(), lambda page: page.locator(".sl-kinds-dots i:not(.sl-kinds-plain)").count())],
     lambda cells, dots: (cells, dots) == (18, 18 * 8)),
    ("why_is_mine_slower", "Fix it",
     [(move(), data("speedup")), (move(gamma=1), data("speedup")), (move(gamma=8, c=0), data("speedup")),
      (move(alpha=0.9), data("speedup"))],
     lambda run, one, free, good: run < 0.9 and one > run + 0.1 and run < free and good > 2),
    ("why_is_mine_slower", "Which cause is it?",
     [(press(name), data("speedup")) for name in ("A healthy run", *BREAKS)],
     lambda healthy, *broken: healthy > 1.4 and max(broken) < 1),
    ("token_trees", "Grow one",
     [(move(Cost=0), None), (press("Best shape"), data("words")), (move(Cost=0.2), None),
      (press("Best shape"), data("words")), (press("Best shape"), lambda page: page.locator(".sl-grow-word").count())],
     lambda free, costly, words: free > 2 * costly and words == costly + 1),
    ("two_models_one_memory", "Does it fit?",
     [(choose("Device", "H200: 141 GB at 4,800 GB/s"), data("alone", "")),
      (move(**{"Tokens of text": 131072}), data("alone", "")), (move(), data("both", ""))],
     lambda short, long, both: short > 4 * long and both < long),
    ("many_users", "Find the turning point",
     [(choose("Device", "as set above"), data("gain")), (move(Users=64), data("gain")), (move(Users=200), data("gain")),
      (move(alpha=0.4), data("gain"))],
     lambda one, some, many, hard: one > 2 > some > many and hard < many),
    ("many_users", "Experts",
     [(move(Drafts=4), data("ratio")), (move(Users=30), data("ratio")), (move(Users=200), data("ratio"))],
     lambda one, thirty, crowd: one > 2 > thirty > crowd and crowd < 1.05),
    ("many_users", "Long texts pull both ways",
     [(choose("Device", "as set above"), data("gain")), (move(**{"Tokens of text": 0}), data("gain")),
      (move(**{"Tokens of text": 32768}), data("gain")), (move(alpha=0.2), data("gain"))],
     lambda long, short, longer, doubtful: longer >= long > short + 0.5 and doubtful < longer - 1),
]  # fmt: skip


@pytest.mark.parametrize(
    ("lesson", "titled", "actions", "holds"), STEPS, ids=lambda each: each if isinstance(each, str) else ""
)
def test_what_a_step_asks_for_shows_its_point(at_tool, lesson, titled, actions, holds):
    page, readings = at_tool(lesson, titled), []
    for act, read in actions:
        act(page)
        if read:
            readings.append(read(page))
    assert holds(*readings), readings


def test_a_finished_game_can_be_sent_and_its_link_opens_the_same_text(at_tool):
    page = at_tool("easy_and_hard_text", "Be the drafter")
    chosen(page).first.select_option(label="A fact")
    options = page.locator(".sl-guess-options .sl-option")
    for _ in range(100):
        if not options.first.is_visible():
            break
        options.first.click()
    grid = page.locator(".sl-guess-grid")
    expect(grid).to_contain_text("tokens a pass on “A fact”")
    assert grid.inner_text().count("🟨") == page.locator(".sl-guess-text span:not(.sl-guess-accepted)").count()
    page.get_by_role("button", name="Copy it for a friend").click()
    expect(page.get_by_role("button", name=re.compile("Copied|Selected"))).to_be_visible()
    link = grid.inner_text().split()[-1]
    assert link.endswith("#lesson-easy_and_hard_text-guess-3")
    open_lesson(page, "draft_then_verify")
    page.evaluate("hash => { location.hash = hash; }", link.split("#")[1])
    expect(page.locator(".sl-dot[aria-current=step]")).to_have_attribute("title", "Be the drafter")
    expect(page.locator(".sl-figure-box .sl-pick select").first.locator("option:checked")).to_have_text("A fact")


@pytest.mark.slow
def test_a_device_is_kept_between_calculators(at_tool):
    page = at_tool("memory_wall", "The ceiling")
    lists = lambda label: page.locator(".sl-figure-box").get_by_label(label)  # noqa: E731
    lists("Device").select_option(label="H200: 141 GB at 4,800 GB/s")
    lists("Model").select_option(label="Qwen3 8B")
    lists("Precision").select_option(label="4-bit, half a byte")
    expect(result(page)).to_contain_text("Over 1,000 passes per second")

    open_lesson(page, "two_models_one_memory")
    page.locator('.sl-dot[title="Does it fit?"]').click()
    expect(lists("Device").locator("option:checked")).to_have_text("H200: 141 GB at 4,800 GB/s")
    cache, draft_cache = (2 * layers * 8 * 128 * 2 * 8192 / 1e9 for layers in (36, 28))  # Qwen3 8B, Qwen3 0.6B
    lists("Draft model").select_option(label="Qwen3 0.6B")
    alone, both = (141 - 8.19 / 2) // cache, (141 - 8.19 / 2 - 0.596 * 2) // (cache + draft_cache)
    expect(page.locator(".sl-figure-box")).to_contain_text(f"{alone:.0f} without a draft model, {both:.0f} with it")

    open_lesson(page, "many_users")
    page.locator('.sl-dot[title="Find the turning point"]').click()
    gain = lambda: float(result(page).get_attribute("data-gain"))  # noqa: E731
    tokens = expected_tokens(0.7, 4)

    def brings(users, free, experts=False):
        times = [pass_time(users * width, users, free, 0, experts) for width in (1, 5)]
        return pytest.approx(tokens * times[0] / times[1], abs=1e-3)

    expect(lists("Weights in").locator("option:checked")).to_have_text("4-bit")
    slide(page, "Users at once", 20)
    assert gain() == brings(20, 128 / 4)
    lists("Weights in").select_option(label="bf16")
    lists("Device").select_option(label="H200")
    lists("Layers").select_option(index=1)
    assert gain() == brings(20, 208, experts=True)
    every_slider_to_its_ends(page)


def test_rows_of_a_pass_are_spent_by_keyboard_and_the_surest_win(at_tool):
    page = at_tool("many_users", "One budget, many users")
    rate = lambda name: float(result(page).get_attribute(f"data-{name}"))  # noqa: E731
    plain = rate("plain")
    page.get_by_role("button", name="User 1, draft 2: the drafter is 0.94 sure").press("Enter")
    expect(page.locator(".sl-budget-card[aria-pressed=true]")).to_have_count(2)  # and the one before it
    expect(page.locator('[data-card="0.1"]')).to_be_focused()
    assert rate("mine") > plain == rate("plain")
    page.get_by_role("button", name="The surest first").press("Enter")
    assert rate("mine") == rate("surest") > rate("same") > plain
    expect(page.locator(".sl-lesson-next")).to_have_text("Next")
    for users, won in ((2, True), (24, False)):
        slide(page, "Users at once", users)
        assert (rate("surest") > rate("plain")) is won
    every_slider_to_its_ends(page)


def test_json_is_written_pass_by_pass_and_each_mistake_breaks_it(at_tool):
    page = at_tool("one_token_differs", "JSON, with drafts on")
    rules = page.locator(".sl-figure-box .sl-pick option").all_inner_texts()
    for rule in rules:
        chosen(page).select_option(label=rule)
        for _ in range(6):
            if page.get_by_role("button", name="Start over").count():
                break
            page.get_by_role("button", name="Next pass").press("Enter")
        is_right = rule.startswith("the right masks")
        expect(result(page)).to_have_attribute("data-broken", str(not is_right).lower())
        expect(result(page)).to_contain_text('Valid: {"ok":true,"n":7}' if is_right else "isn’t JSON")
    assert len(rules) == 6
    expect(page.locator(".sl-masks tbody tr")).not_to_have_count(0)
    page.keyboard.press("3")  # the question of the step
    expect(page.locator(".sl-reply")).to_contain_text("the mask belongs to the row")


def test_grey_bars_are_matched_to_prompts_and_defences_hide_them(at_tool):
    page = at_tool("unknown_runs", "What the wire tells")
    expect(page.locator(".sl-lesson-stage[data-dark]")).to_have_count(1)  # the run's text would tell
    boxes = page.locator(".sl-bursts")
    heights = lambda: boxes.evaluate_all(  # noqa: E731
        "all => all.map(box => [...box.children].map(bar => Number(bar.style.getPropertyValue('--at'))))"
    )
    seen = heights()
    runs = {
        "Correct the spelling in this note.": "rewrite_ngram",
        "Write a Python class Stack.": "code_ngram",
        "Tell a short story.": "story_ngram",
        "Correct the same note, on a server without drafts.": "rewrite_plain",
    }
    bursts = {prompt: of(load(TRACES / f"{name}.json"))["bursts"] for prompt, name in runs.items()}
    lists = page.locator(".sl-bursts-guess select")
    for i, each in enumerate(seen):
        lists.nth(i).select_option(label=next(prompt for prompt, row in bursts.items() if row == each))
    expect(result(page)).to_have_text("4 of 4 right, without one letter of text.")
    expect(page.locator(".sl-lesson-next")).to_have_text("Next")
    lists.nth(0).select_option(index=0)
    expect(result(page)).to_contain_text("3 of 4")
    for label in ("pad every packet to the largest", "one token in the time of a pass"):
        page.get_by_label("Defence").select_option(label=label)
        assert len({height for row in heights() for height in row}) == 1
        expect(page.locator(".sl-figure-box")).to_contain_text("Price: ")


def test_unknown_runs_are_diagnosed_from_their_counts(at_tool):
    page = at_tool("unknown_runs", "Find the trouble")
    names = ("little to copy", "γ too long", "nothing is wrong", "wired up wrongly", "γ too long")
    for number, name in enumerate(names, 1):
        expect(page.locator(".sl-figure-box")).to_contain_text(f"Run {number}, {number} of 5.")
        page.get_by_role("button", name=name).press("Enter")
        expect(result(page)).to_contain_text("Right." if number < 5 else "It is “too many rows a pass”")
        if number < 5:
            page.get_by_role("button", name="Next run").click()
    expect(page.locator(".sl-figure-box")).to_contain_text("You found 4 of 5.")


def test_the_block_heads_round_is_played_beside_the_others(at_tool):
    page = at_tool("heads_and_blocks", "The target drafts for itself")
    page.get_by_role("button", name="block head", exact=True).press("Enter")
    for name in ("Let it guess", "Let the target test"):
        page.get_by_role("button", name=name).press("Enter")
    expect(result(page)).to_contain_text("1 of 4 accepted, 2 tokens.")
    page = at_tool("who_guesses", "Three ways to guess")
    expect(page.locator(".sl-drafter-tab")).to_have_text(["n-gram lookup", "small model", "EAGLE"])


def test_the_bill_adds_up(at_tool):
    page = at_tool("turn_it_on", "The bill")
    good, bad = (float(page.get_by_label(f"Speedup where it fits {how}").input_value()) for how in ("well", "badly"))
    assert good > 2 and bad < 0.9  # the lesson's two runs, to two digits

    def cost(share, well, badly):
        return 2 / 3600 / 50 * 1e6 * ((1 - share) / well + share / badly)

    slide(page, "Share of tokens that are hard to guess", 0.3)
    for policy, pair in (("always", (good, bad)), ("never", (1, 1)), ("not for the bad kind", (good, 1))):
        chosen(page).select_option(label=policy)
        expect(result(page)).to_contain_text(f"{cost(0.3, *pair):.2f} a million")
    expect(page.locator(".sl-lesson-next")).to_have_text("Next")
    turn = (1 - 1 / good) / (1 / bad - 1 / good)  # there a token takes as long as a plain one
    chosen(page).select_option(label="always")
    for share, words in ((turn + 0.03, "more than without drafts"), (turn - 0.03, "less than without drafts")):
        slide(page, "Share of tokens that are hard to guess", round(share, 2))
        expect(result(page)).to_contain_text(words)

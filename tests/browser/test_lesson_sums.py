"""What the lessons' tools draw, cut and decide, beside torch, the tokenizers' library and the engine."""

import random

import pytest
import torch
from lesson_references import TEXTS

from app.lessons_tab.variables import variables_of
from engine.models.decoder.tree_shape import tree_shape
from engine.tools.exactness.toy_models import make_drafter, record_trace, weather_pair
from engine.trace.trace import load
from lessons import bpe_demo
from lessons.schema import TRACES

pytestmark = pytest.mark.browser


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


def test_what_is_left_of_a_draft_is_what_the_library_leaves(bare):
    cases = [(text, count) for text in (TEXTS[0], TEXTS[4], TEXTS[6]) for count in (1, 4, 9, 16, 20)]
    found = bare.evaluate(
        "cases => cases.map(([text, count]) =>"
        " translate(makeTokenizer(MERGES.code), makeTokenizer(MERGES.prose), text, count))",
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
    """Adds one after the other and rounds each sum."""
    total = torch.zeros((), dtype=terms.dtype)
    for term in terms:
        total = total + term
    return total


def test_rounding_once_makes_equal_what_lies_between_two_neighbours(bare):
    """bf16's neighbours are 0.125 apart near 20. With all sums at one place A always wins, or never."""
    lead, seeds = 0.054, 200
    equal = bare.evaluate(
        "([lead, seeds]) => Array.from({ length: seeds }, (_, seed) =>"
        " twoLogits(lead, seed).map(row => WAYS.forwards(row, PRECISIONS.mixed))).filter(([a, b]) => a === b).length",
        [lead, seeds],
    )
    share = 1 - lead / 0.125
    assert abs(equal / seeds - share) < 4 * (share * (1 - share) / seeds) ** 0.5


@pytest.mark.parametrize(("first", "second", "row"), [(0.6, 0.5, 0.05), (0.9, 0.1, 0.2), (0.3, 0.3, 0), (0, 0, 0.1)])
def test_the_best_tree_is_the_best_of_all_shapes(bare, first, second, row):
    """Every shape of up to five words is tried; the chance of each word comes from the definition."""

    def shapes(words: int) -> list[list]:
        """Returns every list of subtrees that have ``words`` words in all."""
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
        found = bare.evaluate("([parents, rejected]) => judge(parents, new Set(rejected))", [one.parents, rejected])
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


@pytest.mark.parametrize("method", ["lm", "eagle", "ngram"])
def test_guesses_are_judged_and_counted_as_the_engine_did(bare, method):
    """The drafts of each recorded round are the guesses, and α and τ are the same."""
    trace, at, rounds = load(TRACES / f"guess_note_{method}.json"), 0, []
    text = [token.text for token in trace.emitted]
    for one in trace.rounds:
        drafts = [token.text for token in one.tokens[: len(one.parents)]]
        rounds.append(bare.evaluate("([drafts, text]) => judgeGuesses(drafts, text)", [drafts, text[at:]]))
        at += rounds[-1]["emitted"]
    numbers, score = variables_of(trace), bare.evaluate("rounds => guessScore(rounds)", rounds)
    assert at == len(text) and (score["alpha"], score["tau"]) == pytest.approx((numbers["alpha"], numbers["tau"]))


def test_game_is_written_as_squares_with_the_best_drafter(bare):
    rounds = bare.evaluate(
        "[['a', 'x', 'c'], ['d', 'e']].map((guesses, i) => judgeGuesses(guesses, ['abc', 'def'][i]))"
    )
    rounds.append({"drafted": 0, "accepted": 0, "tested": 0, "emitted": 1})
    told = {"name": "A story", "tau": 2, "rounds": rounds, "link": "https://x.y/#lesson-7-guess-2",
            "drafters": [["copying", 0.1, 1.04], ["EAGLE head", 0.2, 1.26]]}  # fmt: skip
    assert bare.evaluate("told => messageOf(told)", told).splitlines() == [
        "I guessed 2.00 tokens per pass on “A story”. The EAGLE head gets 1.26.",
        "🟦🟧⬜🟨", "🟦🟦🟨", "🟨", "Can you beat that? https://x.y/#lesson-7-guess-2",
    ]  # fmt: skip


def test_the_right_mask_moves_along_with_the_drafts(bare):
    rows = bare.evaluate("maskedRound(['<think>', 'easy'], 'right').rows")
    assert [row["status"] for row in rows] == ["accepted", "rejected", "discarded", "discarded", "discarded"]
    assert rows[0]["mask"] is None and rows[1]["mask"] == ["{"]

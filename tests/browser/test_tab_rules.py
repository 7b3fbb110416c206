"""The engine in a tab against the one in Python, function by function: draws, rule, drafter, tokens, weights, lines."""

import base64
import itertools
import json
import unicodedata
from collections import Counter
from dataclasses import asdict

import numpy as np
import pytest
import torch
from chi_squared import CAUGHT, FALSE_ALARM, joint_p_value
from closeness import assert_each_close
from paths import ASSETS
from player_page import page_with
from playwright.sync_api import Page
from tab_model import tab_model

from app.tab.model import describe, draft_costs
from app.ui.html_component import bundle
from app.views import player_feed, tiles
from app.views.trees import branches
from engine.config import RunConfig, SamplingParams
from engine.decoding.draft_length import AdaptiveGamma
from engine.decoding.tokenization import Detokenizer, encode_prompt, template_length
from engine.decoding.unwritten_text import unwritten, unwritten_notes
from engine.drafters.base import DrafterSetup
from engine.drafters.ngram import NgramDrafter
from engine.errors import BadInput
from engine.models.decoder.transformers_config import load_tokenizer
from engine.models.tensors.gguf_reader import GgufReader
from engine.sampling.random_streams import ACCEPTING, CLOSING, Uniforms
from engine.sampling.rejection import verify_chain
from engine.sampling.warping import draw, warp
from engine.trace.events import Round, Timings, Token
from engine.trace.noise import single_speedup
from engine.trace.trace import from_json, load
from engine.weights.gguf.own import prepared_folder

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("tab-rules")]
CASES, N, V = 4_000, 3, 12
FLOATS = "text => new Float32Array(Uint8Array.from(atob(text), mark => mark.charCodeAt(0)).buffer)"


def packed(array) -> str:
    return base64.b64encode(np.ascontiguousarray(array, np.float32).tobytes()).decode()


def answer(page: Page, function: str, *arguments):
    """What a function of the page returns. Both ways it is one text, because Playwright takes ten times as long for
    hundreds of thousands of values."""
    ask = f"texts => JSON.stringify(({function})(...JSON.parse(texts)))"
    return json.loads(page.evaluate(ask, json.dumps(arguments)))


# ── draws ──


def test_uniforms_are_numpys(browser):
    seeds, places = (0, 7, 2**53 - 1, 2**63 - 1), [0, 1, 2, 3, 4, 5, 63, 64, 300]
    ask = f"([seed, places]) => [{ACCEPTING}, {CLOSING}].map(s => places.map(i => makeUniforms(BigInt(seed))(s, i)))"
    with page_with(browser, "tab/random_streams.js") as page:
        for seed in seeds:
            tables = [Uniforms(seed, 301).table(stream)[places].tolist() for stream in (ACCEPTING, CLOSING)]
            assert page.evaluate(ask, [str(seed), places]) == tables
        assert page.evaluate("[ACCEPTING, CLOSING]") == [ACCEPTING, CLOSING]


# ── the rule ──


def rounds():
    """p [CASES, N+1, V], peaked rows among flat ones, with zeros, and draws that lie on a border; tokens [CASES, N] and
    u [CASES, 2·N+1]. Drafts are one-hot, as a lookup's are."""
    random = np.random.default_rng(5)
    p = random.dirichlet(np.full(V, 0.15), (CASES, N + 1)) * (random.random((CASES, N + 1, V)) > 0.2)
    p[p < 1e-5] = 0  # less is rounded away in a sum of fp32, so that a draw next to 1 may fall on either side of it
    p[p.sum(-1) < 1e-3, 0] = 1
    p = (p / p.sum(-1, keepdims=True)).astype(np.float32)
    likely = p[:, :N].argmax(-1)  # drafts that are often accepted
    tokens = np.where(random.random((CASES, N)) < 0.8, likely, random.integers(0, V, (CASES, N)))
    u = (random.integers(0, 2**24, (CASES, 2 * N + 1)) / 2**24).astype(np.float32)
    u[::5, N:] = random.choice([0, 1 - 2**-24], (CASES, N + 1))[::5]
    p[::9, 0] = 0
    p[::9, 0, :2], tokens[::9, 0], u[::9, 0] = 0.5, 1, 0.5  # u = p, which rejects
    p[1::9, 0] = 0
    p[1::9, 0, 3], tokens[1::9, 0], u[1::9, 0] = 0.5, 3, 0.75  # rejected, and nothing is left of p
    return p, tokens, u


def decided(page: Page, case) -> list:
    p, tokens, u = case
    page.evaluate(f"arrays => {{ [window.p, window.u] = arrays.map({FLOATS}); }}", [packed(p), packed(u)])
    return answer(
        page,
        """(tokens, N, V) => tokens.map((drafts, i) => {
            const row = at => p.subarray(at * V, (at + 1) * V);
            const rows = Array.from({ length: N + 1 }, (_, k) => row(i * (N + 1) + k));
            const draws = Array.from(u.subarray(i * (2 * N + 1), (i + 1) * (2 * N + 1)));
            const { accept, last, tested, closing } = verifyChain(rows, drafts, draws.slice(0, N), draws.slice(N));
            return [last, tested, closing, accept.slice(0, tested)];
        })""",
        tokens.tolist(), N, V,
    )  # fmt: skip


@pytest.mark.parametrize("cases", [1_000, pytest.param(CASES, marks=pytest.mark.slow)])
def test_rule_decides_rounds_as_the_engines(browser, cases):
    case = [part[:cases] for part in rounds()]
    p, tokens, u = map(torch.from_numpy, case)
    expected = []
    for i in range(cases):
        verdict = verify_chain(p[i], None, tokens[i], u[i, :N], u[i, N:])
        tested = int(verdict.tested.sum())
        expected.append([int(verdict.last), tested, int(verdict.closing), verdict.accept[:tested].tolist()])
    counts = np.bincount([last for last, *_ in expected], minlength=N + 1)
    assert counts.min() > cases // 20  # every outcome is among them
    script = bundle("tab/rejection.js")
    with page_with(browser, "tab/rejection.js") as page:
        assert decided(page, case) == expected
        for mutant in MUTANTS:
            assert script.count(mutant[0]) == 1, mutant
            changed = script.replace(*mutant)
            page.evaluate(f"() => {{ {changed} window.verifyChain = modules['tab/rejection.js'].verifyChain; }}")
            assert decided(page, case) != expected, mutant


MUTANTS = [  # changes to rejection.js, and to the two functions of warping.js that it calls
    ("u[last] < p[last]", "u[last] <= p[last]"),
    ("u[last] < p[last]", "u[0] < p[last]"),
    ("draw(row, uClosing[last])", "draw(row, uClosing[0])"),
    ("residual(p[last], tokens[last])", "p[last]"),
    ("residual(p[last], tokens[last])", "residual(p[last], tokens[0])"),
    ("if (!(sum > 0)) return p;", ""),
    ("Math.max(left[draft] - 1, 0)", "Math.abs(left[draft] - 1)"),
    ("if (fround(sum) > point) return i;", "if (fround(sum) >= point) return i;"),
    ("Math.min(fround(u * end), below(end))", "u"),
]


# ── the law of the texts ──

TOY = np.random.default_rng(8).normal(0, 1.2, (4, 4)).astype(np.float32)  # logits after each of four tokens
SAMPLE = """async ([logits, seeds, gamma]) => {
    const model = { context: 512, reset() {}, pass: async (ids, start, wanted) =>
        ids.slice(ids.length - wanted).map(id => Float32Array.from(logits[id])) };
    const tokenizer = { size: 4, join: () => '', nameOf: String, labelOf: () => null, templateLength: () => 0 };
    const costs = { v: { 1: 1, 2: 1.1, 3: 1.4 }, priors: Array(9).fill(0.5) };
    const sampling = { temperature: 1, top_k: 0, top_p: 1, min_p: 0 }, counts = {};
    let tested = 0;
    for (let seed = 0; seed < seeds; seed++) {
        const config = { prompt: 'x', sampling, method: 'ngram', gamma, seed, max_new_tokens: 5, trace_top: 4 };
        const run = modules['tab/loop.js'].decode({ config, prompt: [0, 1, 2, 3, 0, 1, 2, 3, 0], model, tokenizer,
            eos: new Set(), control: new Set(), costs, isCancelled: async () => false, now: () => 0 });
        const written = [];
        for await (const event of run) for (const token of event.tokens ?? []) {
            if (/accepted|resampled|bonus|plain/.test(token.status)) written.push(token.id);
            tested += /accepted|rejected/.test(token.status);
        }
        const text = written.slice(0, 3);
        counts[text] = (counts[text] ?? 0) + 1;
    }
    return [counts, tested];
}"""


@pytest.fixture(scope="module")
def empty(browser):
    page = browser.new_page()
    yield page
    page.close()


def law_p_value(page: Page, *change: str, gamma: int | str = 3) -> float:
    """How probable the texts of 4,000 seeds are by the toy's own law; ``change``: of the engine's script."""
    p = warp(torch.from_numpy(TOY), SamplingParams(1.0)).double().numpy()
    places = list(itertools.product(range(4), repeat=3))
    law = {f"{a},{b},{c}": p[0, a] * p[a, b] * p[b, c] for a, b, c in places}
    script = bundle("tab/loop.js")
    assert not change or script.count(change[0]) == 1
    page.evaluate(f"() => {{ {script.replace(*change) if change else script} window.modules = modules; }}")
    counts, tested = page.evaluate(SAMPLE, [TOY.tolist(), 4_000, gamma])
    assert tested > 4_000  # drafts are at work
    return joint_p_value(Counter(counts), law)


def test_tab_writes_by_the_law_of_its_model(empty):
    """The seeds are fixed; a right engine would fail with another 4,000 of them once in 10,000 times."""
    assert law_p_value(empty) > FALSE_ALARM
    assert law_p_value(empty, gamma="auto") > FALSE_ALARM
    for mutant in [
        ("uniform(CLOSING, position", "uniform(ACCEPTING, position"),
        ("row = last < tokens.length ? residual(p[last], tokens[last]) : p[last]", "row = p[last]"),
        ("uniform(ACCEPTING, position + i)", "uniform(ACCEPTING, position)"),
    ]:
        assert law_p_value(empty, *mutant) < CAUGHT, mutant


@pytest.fixture(scope="module")
def probabilities(browser):
    with page_with(browser, "tab/warping.js") as page:
        yield page


@pytest.mark.parametrize("params", [
    SamplingParams(), SamplingParams(0.8), SamplingParams(0.7, top_k=5), SamplingParams(1.0, top_k=300),
    SamplingParams(1.2, top_p=0.9), SamplingParams(2.0, top_p=0.999), SamplingParams(1.0, min_p=0.05),
    SamplingParams(0.9, top_k=40, top_p=0.95, min_p=0.01),
])  # fmt: skip
def test_probabilities_and_draws_are_the_engines(probabilities, params):
    size, rows = 4_096, 4
    logits = np.random.default_rng(1).normal(0, 4, (rows, size)).astype(np.float32)
    logits[-1] = np.random.default_rng(2).normal(0, 0.01, size)  # flat: top-p keeps more than its first guess
    u = Uniforms(3, 200).table(CLOSING)
    p = warp(torch.from_numpy(logits), params)
    expected = [[int(draw(row[None], torch.tensor([x]))) for x in u.tolist()] for row in p]
    settings = {name: getattr(params, name) for name in ("temperature", "top_k", "top_p", "min_p")}
    got, drawn = answer(
        probabilities,
        f"""(texts, settings, rows, us) => {{
            const [logits, p] = texts.map({FLOATS}), size = logits.length / rows;
            const row = (all, i) => all.slice(i * size, (i + 1) * size);
            return [Array.from({{ length: rows }}, (_, i) => Array.from(warp(row(logits, i), settings))),
              Array.from({{ length: rows }}, (_, i) => us.map(u => draw(row(p, i), u)))];
        }}""",
        [packed(logits), packed(p)], settings, rows, u.tolist(),
    )  # fmt: skip
    got = torch.tensor(got, dtype=torch.float32)
    both = (got > 0) & (p > 0)
    # The sum that ends the nucleus of a flat row may be rounded to the other side of top_p.
    assert int(((got > 0) ^ (p > 0)).sum()) <= (params.top_p < 1)
    assert_each_close(got[both], p[both])
    assert drawn == expected


def test_top_p_keeps_the_same_of_equal_words(probabilities):
    random = np.random.default_rng(4)
    rows = [np.full(300, 2.0), *(np.round(random.normal(0, 2, 200)) for _ in range(30)), [4, 2, 2, 2, -1], [1, 1, 1, 1]]
    for row in (np.array(each, np.float32) for each in rows):
        for top_p in (0.25, 0.5, 0.75, 0.85, 0.999, 1e-6):
            kept = (warp(torch.from_numpy(row)[None], SamplingParams(1.0, top_p=top_p)) > 0)[0].tolist()
            settings = "{ temperature: 1, top_k: 0, top_p, min_p: 0 }"
            ask = f"([text, top_p]) => Array.from(warp(({FLOATS})(text), {settings}))"
            assert [mass > 0 for mass in probabilities.evaluate(ask, [packed(row), top_p])] == kept


# ── the model's numbers ──

DECODE = """async ([values, temperature]) => {
    const model = { context: 9, reset() {}, pass: async (ids, start, wanted) =>
        ids.slice(-wanted).map(() => Float32Array.from(values, Number)) };
    const config = { prompt: 'x', sampling: { temperature, top_k: 0, top_p: 1, min_p: 0 }, method: 'none', gamma: 0,
        seed: 0, max_new_tokens: 2, trace_top: 4 };
    const tokenizer = { size: 4, join: () => '', nameOf: String, labelOf: () => null, templateLength: () => 0 };
    const run = decode({ config, prompt: [0, 1], model, tokenizer, eos: new Set(), control: new Set(), costs: null,
        isCancelled: async () => false, now: () => 0 });
    try {
        for await (const _ of run);
        return '';
    } catch (error) {
        return error.message;
    }
}"""


def test_numbers_that_are_not_finite_end_a_run(browser):
    """Minus infinity is a logit of a word that has no chance, wherever it stands."""
    with page_with(browser, "tab/loop.js") as page:
        for bad, place, temperature in itertools.product(("NaN", "Infinity", "-Infinity"), range(4), (0, 1)):
            words = page.evaluate(DECODE, [["1", "2", "0", "-1"][:place] + [bad] + ["1"] * (3 - place), temperature])
            assert bool(words) == (bad != "-Infinity"), (bad, place, temperature)
        assert "not finite" in page.evaluate(DECODE, [["-Infinity"] * 4, 1])


# ── the device ──

MAC, LINUX = (
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) Safari/605.1.15",
    "Mozilla/5.0 (X11; Linux x86_64; rv:150.0)",
)


@pytest.fixture(scope="module")
def device(browser):
    with page_with(browser, "tab/device.js") as page:
        yield page


@pytest.mark.parametrize(("agent", "memory", "fingers", "has_mouse", "is_small"), [
    (MAC, None, 0, True, False), (MAC, None, 5, False, True), (MAC, None, 5, True, True),  # an iPad, with a trackpad
    (LINUX, None, 0, True, False), (LINUX, None, 5, False, True), (LINUX, None, 10, True, False),
    (LINUX, 8, 10, False, False), (LINUX, 2, 0, True, True), ("Mozilla/5.0 (Windows NT 10.0)", 8, 10, False, False),
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 26_0)", None, 5, False, True),
    ("Mozilla/5.0 (Linux; Android 16)", 8, 5, False, True),
])  # fmt: skip
def test_tablets_are_small_also_as_desktops(device, agent, memory, fingers, has_mouse, is_small):
    facts = {"userAgent": agent, "maxTouchPoints": fingers} | ({"deviceMemory": memory} if memory else {})
    assert device.evaluate("([facts, hasMouse]) => isTooSmall(facts, hasMouse)", [facts, has_mouse]) is is_small


# ── the drafter ──


def test_lookup_proposes_what_the_engines_does(browser):
    random = np.random.default_rng(2)
    with page_with(browser, "tab/ngram.js") as page:
        for case in range(40):
            copy_from, prompt = int(random.integers(0, 6)), random.integers(0, 6, 12).tolist()
            text = random.integers(0, 6 if case % 2 else 3, 40).tolist()
            drafter, grown, steps = NgramDrafter(), list(prompt), []
            own = {"copy_from": copy_from, "eos_ids": frozenset({5}), "control_ids": frozenset({4, 5})}
            drafter.start(grown, DrafterSetup(SamplingParams(), 6, Uniforms(0, 8), None, 200, "cpu", **own))
            while len(grown) < 50:
                offer = drafter.offer(grown)
                tokens = offer.draft(4, None).tokens.tolist() if offer else []
                steps.append([len(grown), tokens, list(offer.keys if offer else ())[: len(tokens)]])
                grown += text[: (new := int(random.integers(1, 4)))]
                text = text[new:] or [1, 2, 1, 2]
            got = page.evaluate(
                """([copyFrom, all, lengths]) => {
                    const look = makeNgram(copyFrom, new Set([5]), new Set([4, 5]));
                    return lengths.map(n => [n, ...Object.values(look(all.slice(0, n), 4))]);
                }""",
                [copy_from, grown, [n for n, *_ in steps]],
            )
            assert got == steps
            assert any(tokens for _, tokens, _ in steps)


def test_draft_length_is_what_the_engines_policy_chooses(browser):
    random, costs = np.random.default_rng(4), draft_costs()
    policy = AdaptiveGamma(0, costs["v"], costs["priors"], at_once=True)
    asked, chosen = [], []
    for turn in range(300):
        first, limit = int(random.integers(0, 8)), int(random.integers(1, 20))
        keys = [min(first + i, 8) for i in range(1, 13)]
        length = policy.length(keys, limit)
        accepted = int(random.binomial(length, (0.95, 0.05, 0.6)[turn // 25 % 3]))
        outcomes = [i < accepted for i in range(min(accepted + 1, length))]
        policy.observe(keys, [*outcomes, *[None] * (length - len(outcomes))])
        asked.append([keys, limit, outcomes])
        chosen.append(length)
    ask = """([costs, asked]) => {
        const { choose, observe } = makeDraftLength('auto', costs);
        return asked.map(([keys, most, outcomes]) => {
            const length = choose(keys, most);
            observe(keys, outcomes);
            return length;
        });
    }"""
    with page_with(browser, "tab/draft_length.js") as page:
        given = {name: {str(key): x for key, x in each.items()} for name, each in costs.items()}
        assert page.evaluate(ask, [given, asked]) == chosen and {*chosen} >= {0, 1, 2, 3}
        assert page.evaluate("makeDraftLength(5, null).choose([1, 2], 3)") == 3


# ── tokens ──

TEXTS = [
    "Why is the sky blue?",
    "  two spaces,\ttabs\n\nand lines  ",
    "In 2026 it's 3.14159 × 10² and ½ or Ⅷ",
    "l'été à Zürich, naïve",
    "漢字とかな、混ぜて。",
    "👩‍👩‍👧 family 🙂🙂",
    "<|im_start|>user\nhello<|im_end|> <|end|><|user|>",
    "don't we'll I'M",
    "a\u00a0b\u2003c\u200bd",
    "x" * 40,
    "def f(x):\n    return x ** 2  # code",
    "e\u0301 combining, \ufeffmark",
    "\u0001\u0007 control",
    "1,000,000 12 345",
    "a\x13b",
    " \x13! \x13the",
    "see \U00046131.",
    "\x13é\x13\ufffd",
]
NOTHING_LEFT = ["\x13", "\U00046131\x13 \n", "\U00046131\x1c"]  # fmt: skip


def tokenizer_of(page: Page, folder):
    """Makes the tokenizer of a model's folder in the page, and returns Python's."""
    answer(page, "all => Boolean(window.tokenizer = makeTokenizer(all))", describe(folder)[1]["tokenizer"])
    return load_tokenizer(folder)


def check_tokens(page: Page, folder) -> None:
    tokenizer = tokenizer_of(page, folder)
    for text in TEXTS:
        config = RunConfig(text)
        ids = encode_prompt(tokenizer, config)
        assert page.evaluate("text => tokenizer.encodePrompt(text)", text) == ids, text
        assert page.evaluate("text => tokenizer.templateLength(text)", text) == template_length(tokenizer, config, ids)
        notes = "".join(unwritten_notes(tokenizer, config))
        assert page.evaluate("text => tokenizer.unwritten(text)", text) == {"isRefusal": False, "sentence": notes}
        assert bool(notes) == bool({*text} & {"\x13", "\U00046131"})
    for text in NOTHING_LEFT:
        with pytest.raises(BadInput) as refusal:
            encode_prompt(tokenizer, RunConfig(text))
        expected = {"isRefusal": True, "sentence": str(refusal.value)}
        assert page.evaluate("text => tokenizer.unwritten(text)", text) == expected
    random = np.random.default_rng(0)
    samples = [random.integers(0, len(tokenizer), 30).tolist() for _ in range(30)]
    samples += [tokenizer(text).input_ids for text in TEXTS]
    for ids in samples:
        ours = Detokenizer(tokenizer)
        pieces = [ours.push(token) for token in ids]
        shown = [[ours.name(token), ours.label(token, piece)] for token, piece in zip(ids, pieces, strict=True)]
        expected = [pieces, ours.tail(), Detokenizer(tokenizer).peek(ids), shown]
        got = page.evaluate(
            """ids => { const text = makeDetokenizer(tokenizer), peeked = makeDetokenizer(tokenizer).peek(ids);
                const pieces = ids.map(text.push);
                return [pieces, text.tail(), peeked,
                  ids.map((id, i) => [tokenizer.nameOf(id), tokenizer.labelOf(id, pieces[i])])]; }""",
            ids,
        )
        assert got == expected


def test_tokens_and_pieces_are_the_tokenizers(browser, tmp_path):
    with page_with(browser, "tab/tokens.js") as page:
        check_tokens(page, prepared_folder(tab_model(tmp_path)))


@pytest.mark.slow
def test_tokens_of_the_embedded_model_are_its_tokenizers(browser, real_folder):
    with page_with(browser, "tab/tokens.js") as page:
        check_tokens(page, real_folder)


# Characters that are assigned, and one in 97 of the others, which a later Unicode may assign.
CHARACTERS = [
    chr(i) for i in range(0x110000)
    if (kind := unicodedata.category(chr(i))) != "Cs" and (kind not in ("Cn", "Co") or i % 97 == 0)
]  # fmt: skip
AROUND = ("{}", " {}!a")
ENCODE_ALL = """(characters, forms) => characters.map(char =>
    [...forms.map(form => tokenizer.encode(form.replace('{}', () => char))),
     tokenizer.unwritten(char).sentence !== ''])"""


@pytest.mark.slow
def test_every_character_has_the_ids_of_the_served_engine(browser, real_folder):
    """Neither engine leaves a character out without a sentence."""
    told = 0
    with page_with(browser, "tab/tokens.js") as page:
        tokenizer = tokenizer_of(page, real_folder)
        for first in range(0, len(CHARACTERS), 5_000):
            characters = CHARACTERS[first : first + 5_000]
            texts = [form.format(each) for each in characters for form in AROUND]
            ours = tokenizer(texts, add_special_tokens=False).input_ids
            theirs = answer(page, ENCODE_ALL, characters, AROUND)
            assert [ids for *both, _ in theirs for ids in both] == ours, ascii(characters[0])
            lost = [each for each, (*_, is_lost) in zip(characters, theirs, strict=True) if is_lost]
            assert lost == list(unwritten(tokenizer, "\n".join(characters))), ascii(characters[0])
            told += len(lost)
    assert told > 8 * 0x10000 // 97  # the planes whose bytes begin with F1 and F2


@pytest.mark.slow
def test_random_texts_and_broken_bytes_have_the_ids_of_the_served_engine(browser, real_folder):
    random = np.random.default_rng(0)
    broken = [random.bytes(40).decode(errors="replace") for _ in range(500)]
    alphabet = [
        *map(chr, range(256)), *"\u0301\u200d\ufeff漢字🙂½Ⅷ١\u2028\U00046131\U0010ffff", "<|im_end|>", "  ", "\r\n"
    ]  # fmt: skip
    texts = broken + ["".join(random.choice(alphabet, 30)) for _ in range(2_000)]
    with page_with(browser, "tab/tokens.js") as page:
        tokenizer = tokenizer_of(page, real_folder)
        theirs = answer(page, "texts => texts.map(tokenizer.encode)", texts)
        told = answer(page, "texts => texts.map(text => tokenizer.unwritten(text).sentence)", texts)
    assert theirs == tokenizer(texts, add_special_tokens=False).input_ids
    assert [bool(sentence) for sentence in told] == [bool(unwritten(tokenizer, text)) for text in texts]


# ── weights ──


@pytest.mark.parametrize("kind", ["Q4_1", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("F32", "Q8_0"))])
def test_weights_are_expanded_to_the_same_bits(browser, tmp_path, kind):
    file = tab_model(tmp_path, kind)
    folder = prepared_folder(file)
    sizes, reader = describe(folder)[1]["graph"], GgufReader(folder, torch.float32, "cpu")
    weights = torch.cat([reader(name).flatten() for names in sizes["recipe"] for name in names])
    assert {place["type"] for place in sizes["tensors"].values()} == {"F32", kind}
    assert 4 * len(weights) == sizes["bytes"]
    text = base64.b64encode(file.read_bytes()).decode()
    ask = """(text, sizes) => {
        const file = new DataView(Uint8Array.from(atob(text), mark => mark.charCodeAt(0)).buffer);
        return Array.from(expandAll(file, sizes.tensors, sizes.recipe, sizes.bytes));
    }"""
    with page_with(browser, "tab/gguf_tensors.js") as page:
        assert answer(page, ask, text, sizes) == weights.tolist()


# ── the player's lines ──


@pytest.fixture(scope="module")
def feed(browser):
    with page_with(browser, "tab/player_feed.js") as page:
        yield page


def test_player_gets_the_lines_of_the_served_page(feed):
    file = ASSETS / "data" / "traces" / "opening.json"
    trace, data = load(file), json.loads(file.read_text())
    assert any(branches(event) for event in trace.rounds) and len(trace.rounds) > 5
    lines = feed.evaluate("rounds => rounds.map(round => JSON.parse(roundLine(round)))", data["rounds"])
    for event, ours in zip(trace.rounds, lines, strict=True):
        theirs = player_feed.round_line(event, lean=False) | {"parents": list(event.parents)}
        ours.setdefault("parents", list(event.parents))
        # The tab has one drafter, whose name is in the line about the run.
        assert ours == {name: value for name, value in theirs.items() if name not in ("by", "method")}


def test_player_gets_the_numbers_of_the_served_page(feed):
    files = [ASSETS / "data" / "traces" / f"opening{name}.json" for name in ("", "-baseline")]
    run, plain = map(load, files)
    texts = [file.read_text() for file in files]
    ask = "([run, plain, both]) => numbersLine(JSON.parse(run), both ? JSON.parse(plain) : null, !both)"
    for baseline in (plain, None):
        ours = json.loads(feed.evaluate(ask, [*texts, baseline is not None]))
        theirs = json.loads(tiles.tiles(run, baseline, measuring=baseline is None))
        assert ours == theirs | {"note": ""}
    compared = feed.evaluate("texts => comparedLine(...texts.map(text => JSON.parse(text)))", texts)
    assert json.loads(compared)["verdict"] in json.loads(player_feed.comparison_line(run, plain))["verdict"]


def passes(*seconds: float, tokens: int = 1) -> list[Round]:
    """Makes rounds that took these seconds and wrote ``tokens`` each."""
    made, clock = [], 0.0
    for index, each in enumerate(seconds):
        emitted = tuple(Token(1, "x", "plain", index + place, place + 1) for place in range(tokens))
        made.append(Round(index, 0, emitted, (), 0, 1, Timings(0, each, 0, 0), clock, clock := clock + each))
    return made


STEADY, UNSTEADY = [1.0] * 8, [0.4, 1.6] * 4


@pytest.mark.parametrize(("seconds", "tokens", "plain", "tone"), [
    ([0.97] * 8, 1, STEADY, "level"), ([0.92] * 8, 1, STEADY, "faster"), ([0.8] * 8, 1, STEADY, "noise"),
    ([1.0] * 8, 3, STEADY, "faster"), ([1.3] * 8, 1, STEADY, "slower"), ([2.1] * 8, 2, STEADY, "level"),
    ([0.7] * 8, 1, UNSTEADY, "noise"), ([1.7] * 8, 2, UNSTEADY, "level"), ([2.3] * 8, 2, UNSTEADY, "level"),
    ([0.7, 2.7] * 4, 2, STEADY, "level"), ([3.4] * 8, 2, UNSTEADY, "slower"), ([1.0] * 8, 2, UNSTEADY, "faster"),
])  # fmt: skip
def test_speedup_has_the_tone_of_the_served_page(feed, seconds, tokens, plain, tone):
    runs = [passes(*seconds, tokens=tokens), passes(*plain)]
    value = tokens * sum(plain) / sum(seconds)
    assert single_speedup(value, tokens, None, *runs).tone == tone
    traces = [{"rounds": list(map(asdict, rounds)), "finished": {"reason": "length"}} for rounds in runs]
    assert feed.evaluate("traces => toneOf(...traces)", traces) == tone


def test_impossible_speedup_names_its_bound(feed):
    files = [ASSETS / "data" / "traces" / f"opening{name}.json" for name in ("", "-baseline")]
    data = [json.loads(file.read_text()) for file in files]
    data[0]["started"]["costs"] = None  # a tab measures none
    for event in data[0]["rounds"]:
        event["start"], event["end"] = event["start"] / 100, event["end"] / 100
    run, plain = (from_json(json.dumps(each)) for each in data)
    ours = json.loads(feed.evaluate("([run, plain]) => numbersLine(run, plain, false)", data))["tiles"]["speedup"]
    assert ours == json.loads(tiles.tiles(run, plain))["tiles"]["speedup"] and ours[1].startswith("more than τ")

"""What there is to play with in lessons ten, twelve and thirteen: sums beside the libraries', and the page."""

import json
import random
import re

import pytest
import torch
from playwright.sync_api import Page, expect

from app.ui.html_component import WEB
from lessons import bpe_demo

pytestmark = pytest.mark.browser
SCRIPTS = (
    "lib/dom.js",
    "lib/format.js",
    "lessons/widgets.js",
    *(f"lessons/{n}.js" for n in ("merges", "tokenizer_mismatch", "float_sums", "cost")),
)
TEXTS = (
    "The target cuts anew\n    return tokens[0]  # done ✓",
    "",
    " ",
    "   three   spaces and a tab\tand\r\n\n\nlines  ",
    "for i in range(10):\n\tif it's_x != 'y': print(f\"{i:>3}\")\n",
    "don't we've they'll I'd 'S 12345 3.14 ½ ² x²",
    "héllo Straße 日本語 данные مرحبا नमस्ते 👩‍👩‍👧 🇫🇷 e\u0301",
    "nel\u0085 nbsp\u00a0 bom\ufeff ideographic\u3000 zero\u200bwidth \u2028line",
    "<b>&amp;</b> {{x}} ${y} `z` \\n \x00\x7f\x1b",
)


@pytest.fixture
def bare(open_page):
    """A page with nothing but the tools' scripts on it."""
    page = open_page("about:blank")
    for script in SCRIPTS:
        page.add_script_tag(content=(WEB / script).read_text(encoding="utf-8"))
    return page


# ── cuts ──


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


def test_a_stretch_ends_where_both_are_cut(bare):
    found = bare.evaluate(
        "texts => texts.map(text => { let at = 0;"
        " return stretches(...[MERGES.code, MERGES.prose].map(each => makeTokenizer(each).cut(text))).map(pair => {"
        " const [above, below] = pair.map(pieces => pieces.join(''));"
        " if (above !== below) throw Error('torn'); return at += above.length; }); })",
        TEXTS,
    )
    assert found == [sorted(borders("code", text) & borders("prose", text)) for text in TEXTS]


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


# ── adding ──


def floats(count: int) -> list[float]:
    """Of every size that fp32 has, and of the sizes where fp16 ends; ties and their neighbours are among them."""
    made = random.Random(5)
    bits = [made.getrandbits(32) for _ in range(count)]
    bits += [(b & 0xFFFF0000) | low for b in bits[: count // 2] for low in (0x8000, 0x7FFF, 0x8001)]
    fields = torch.tensor(bits, dtype=torch.int64).to(torch.int32).view(torch.float32)
    near = torch.tensor([made.uniform(-2, 2) * 2.0 ** made.randint(-26, 17) for _ in range(count)])
    ties = torch.tensor([(2 * made.randint(-3000, 3000) + 1) * 2.0 ** made.randint(-26, 5) for _ in range(count)])
    every = torch.cat([fields, near, ties])
    return every[every.isfinite()].tolist()


@pytest.mark.parametrize(("name", "kind"), [("bf16", torch.bfloat16), ("fp16", torch.float16)])
def test_rounding_is_the_machines(bare, name, kind):
    numbers = floats(4000)
    wanted = torch.tensor(numbers, dtype=torch.float32).to(kind).double().tolist()
    made = bare.evaluate(f"numbers => numbers.map(x => String({name}(x)))", numbers)
    made = [float(text.replace("Infinity", "inf")) for text in made]
    wrong = [(x, a, b) for x, a, b in zip(numbers, made, wanted, strict=True) if a != b]
    assert len(numbers) > 10_000 and wrong == []


@pytest.mark.parametrize(
    ("name", "kind", "end"),
    [("fp32", torch.float32, torch.float32), ("fp16", torch.float16, torch.float16),
     ("bf16", torch.bfloat16, torch.bfloat16), ("mixed", torch.float32, torch.bfloat16)],
)  # fmt: skip
def test_a_sum_is_what_torch_adds_up_in_that_precision_and_order(bare, name, kind, end):
    for seed in range(1, 6):
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


def test_a_wide_lead_holds_in_every_order_and_a_near_tie_does_not(bare):
    """What lesson twelve says, out of the computation: 64 products of five seeds, 400 orders each."""
    count = (
        "([name, lead]) => [1, 2, 3, 4, 5].reduce((won, seed) =>"
        " won + orders(twoLogits(lead, seed), PRECISIONS[name], 400, seed).ahead, 0) / 2000"
    )
    won = {
        (name, lead): bare.evaluate(count, [name, lead])
        for name in ("fp32", "fp16", "bf16")
        for lead in (3.8, 0.0069, 1e-6)
    }
    assert all(won[name, 3.8] == 1 for name in ("fp32", "fp16", "bf16"))
    assert 0.2 < won["bf16", 0.0069] < 0.8 and 0.2 < won["fp16", 0.0069] < 0.8
    assert won["fp32", 0.0069] == 1
    assert 0.2 < won["fp32", 1e-6] < 0.8
    for seed in (1, 2, 3):
        a, b = bare.evaluate("seed => twoLogits(0, seed)", seed)
        assert sorted(a) == sorted(b) and a != b and 19 < sum(a) < 21


# ── price ──


@pytest.mark.parametrize(("share", "good", "bad"), [(0, 2.65, 0.57), (0.2, 2.65, 0.57), (0.5, 1.4, 0.9), (1, 3, 0.25)])
def test_times_add_up(bare, share, good, bad):
    """A thousand tokens by the clock."""
    seconds = (1000 * (1 - share)) / (50 * good) + (1000 * share) / (50 * bad)
    speed = bare.evaluate(
        "([share, good, bad]) => overall([[1 - share, 50 * good], [share, 50 * bad]])", [share, good, bad]
    )
    assert speed == pytest.approx(1000 / seconds)
    assert bare.evaluate("speed => perMillion(2, speed)", speed) == pytest.approx(2 / 3600 * seconds * 1000)
    turn = bare.evaluate("([good, bad]) => turningShare(good, bad)", [good, bad])
    assert (1 - turn) / good + turn / bad == pytest.approx(1)  # there a token takes as long as a plain one


# ── on the page ──


@pytest.fixture
def at_tool(visit):
    """Opens a lesson at the step that has the tool."""

    def open_(number: int, titled: str) -> Page:
        page = visit(f"#lesson-{number}")
        expect(page.locator("#sl-lesson-title")).to_contain_text(f"{number}. ")
        page.locator(f'.sl-dot[title="{titled}"]').click()
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


def test_a_text_is_cut_by_both_and_what_is_left_of_the_draft_is_told(at_tool):
    page = at_tool(10, "Cut it twice")
    code, prose = (bpe_demo.tokenizer(name).get_vocab() for name in ("code", "prose"))
    shared = code.keys() & prose.keys()
    same = sum(code[piece] == prose[piece] for piece in shared)
    expect(page.locator(".sl-figure-box > .sl-figure-note").last).to_contain_text(
        f"They share {len(shared)}, and {same} of these have the same number in both"
    )
    misread = bpe_demo.tokenizer("prose").decode(bpe_demo.tokenizer("code").encode(TEXTS[0]).ids[:4])
    expect(page.locator(".sl-cut-wrong.sl-cut")).to_have_text(misread.replace(" ", "␣"))
    expect(result(page)).to_have_text("4 drafted, 3 to test. “u” may be unfinished. In the whole text it is “ut”.")
    slider = page.get_by_label("Tokens the draft proposes")
    slider.focus()
    page.keyboard.press("End")
    drafted = bpe_demo.pieces("code", TEXTS[0])
    tested = bpe_demo.testable(TEXTS[0], 20)
    expect(result(page)).to_contain_text(f"{min(20, drafted)} drafted, {tested} to test.")
    expect(page.locator(".sl-lesson-next")).to_have_text("Next")
    hostile = "<img src=x onerror=alert(1)> {{1+1}}"
    page.get_by_label("Your text").fill(hostile)
    page.keyboard.press("n")  # typed, and no way on
    text = hostile + "n"
    expect(page.get_by_label("Your text")).to_have_value(text)
    rows = page.locator(".sl-cut-both")
    for name, kind in (("code", "draft"), ("prose", "target")):
        expect(rows.locator(f".sl-cut-{kind}.sl-cut")).to_have_text(
            [piece.replace("Ġ", "␣") for piece in bpe_demo.tokenizer(name).encode(text).tokens]
        )
    expect(page.locator(".sl-cut-pair")).to_have_count(len(borders("code", text) & borders("prose", text)))
    assert page.locator(".sl-figure-box img").count() == 0
    page.get_by_label("Your text").fill("")
    expect(result(page)).to_have_text("Nothing is drafted: write something.")


def test_the_near_tie_turns_in_bf16_and_not_in_fp32(at_tool):
    page = at_tool(12, "Add it up yourself")
    told = lambda: json.loads(result(page).evaluate("node => JSON.stringify(node.dataset)"))  # noqa: E731
    assert int(told()["behind"]) > 0 and int(told()["ahead"]) > 0
    gap = page.get_by_label("True lead of A").locator("xpath=../output").inner_text()
    row = page.locator(".sl-add-row").nth(1)
    before = row.inner_text()
    chosen(page).select_option(label="fp32")
    expect(row).not_to_have_text(before)
    expect(result(page)).to_have_text("A wins in all 400 shuffled orders: no rounding reaches that far.")
    assert gap == "0.0069"
    expect(page.locator(".sl-lesson-next")).to_have_text("Next")
    chosen(page).select_option(label="bf16")
    page.get_by_label("True lead of A").focus()
    page.keyboard.press("End")
    expect(result(page)).to_contain_text("A wins in all 400")
    expect(page.locator(".sl-add-row").nth(1)).to_contain_text("A")
    page.keyboard.press("Home")
    expect(result(page)).to_contain_text("Neither leads in truth")
    assert sum(map(int, told().values())) == 400
    before = row.inner_text()
    page.get_by_role("button", name="Other numbers").click()
    expect(row).not_to_have_text(re.compile(re.escape(before.split("\n")[1])))


def test_the_bill_adds_up(at_tool):
    page = at_tool(13, "The bill")
    good, bad = (float(page.get_by_label(f"Speedup where it fits {how}").input_value()) for how in ("well", "badly"))
    assert good > 2.5 and bad < 0.6  # the lesson's two runs, to two digits

    def cost(share, well, badly):
        return 2 / 3600 / 50 * 1e6 * ((1 - share) / well + share / badly)

    slide(page, "Tokens that the draft fits badly", 0.3)
    for policy, pair in (("always", (good, bad)), ("never", (1, 1)), ("not for the bad kind", (good, 1))):
        chosen(page).select_option(label=policy)
        expect(result(page)).to_contain_text(f"{cost(0.3, *pair):.2f} a million")
    expect(page.locator(".sl-lesson-next")).to_have_text("Next")
    turn = (1 - 1 / good) / (1 / bad - 1 / good)
    expect(page.locator(".sl-figure-box > .sl-figure-note")).to_contain_text(f"From {100 * turn:.0f} %")
    chosen(page).select_option(label="always")
    slide(page, "Tokens that the draft fits badly", round(turn + 0.03, 2))
    expect(result(page)).to_contain_text("more than without drafts")
    slide(page, "Tokens that the draft fits badly", round(turn - 0.03, 2))
    expect(result(page)).to_contain_text("less than without drafts")
    slide(page, "Speedup where it fits badly", 1)
    expect(page.locator(".sl-figure-box > .sl-figure-note")).to_contain_text("never costs more")

"""Compare in a real browser on the fake worker: columns, rounds beside rounds, the same text cut alike, files, Stop."""

import re

import pytest
from fake_worker import ALIKE
from page_actions import check_light_and_dark, open_lab, saved_table, set_number
from playwright.sync_api import Page, expect

pytestmark = [pytest.mark.browser, pytest.mark.slow]
ENDED = re.compile("was the fastest|No difference")  # as the clock has it


@pytest.fixture
def page(page) -> Page:
    open_lab(page, "Compare")
    return page


def run_all(page: Page, tokens: int = 32, words: str | re.Pattern = ENDED) -> None:
    set_number(page, "compare-tokens", tokens)
    page.locator("#compare-run").click()
    expect(page.locator("#compare-notice")).to_contain_text(words)
    expect(page.locator("#compare-run")).to_have_text("Run all")


def texts(page: Page, column: int) -> str:
    """Returns the text that a column wrote, from the chips of its output."""
    cells = page.locator(f".sl-compare-row .sl-compare-cell:nth-child({column + 1})")
    chips = cells.locator(".sl-token:not(.sl-rejected, .sl-discarded) :is(.sl-lead, .sl-piece)")
    return "".join(chips.all_text_contents()).replace("\u00a0", " ").replace("⏎", "\n")


def test_rounds_stand_beside_rounds_all_write_the_same_and_files_hold_it(page):
    columns = page.locator(".sl-compare-column:visible")
    page.locator("#compare-add").click()
    expect(columns).to_have_count(4)
    expect(page.locator("#compare-add")).to_be_disabled()
    page.locator("#compare-remove-4").click()
    expect(columns).to_have_count(3)
    run_all(page)
    heads = page.locator(".sl-compare-names .sl-compare-name")
    expect(heads).to_have_text(["1: Plain decoding", "2: N-gram lookup, γ = 4", "3: Draft model, γ = 2"])
    page.locator('.sl-compare button[data-by="text"]').click()
    rows = page.locator(".sl-compare-row")
    expect(rows).to_have_count(4)  # 32 tokens, eight in a row
    expect(rows.first.locator(".sl-compare-passes").first).to_have_text("8 passes")
    assert int(rows.first.locator(".sl-compare-passes").nth(1).inner_text().split()[0]) < 8
    assert texts(page, 1) == texts(page, 2) == texts(page, 3) and texts(page, 1).startswith("The lighthouse keeper")
    assert "<script>window.pwned=1</script> {{1+1}} ${1+1}" in texts(page, 1)
    expect(page.locator("#compare-table tbody tr")).to_have_count(3)
    expect(page.locator(".sl-compare-said").nth(1)).to_have_text("The same text as run 1, token for token.")
    expect(page.locator(".sl-compare-row .sl-parted")).to_have_count(0)
    measured = saved_table(page, "compare-csv")
    assert [row["method"] for row in measured] == ["none", "ngram", "lm"] and measured[0]["passes"] == "32"
    with page.expect_download() as download:
        page.locator("#compare-traces").click()
    assert download.value.path().read_bytes()[:2] == b"PK"
    page.locator('.sl-compare button[data-by="round"]').click()
    walk_by_arrow_keys(page)


def walk_by_arrow_keys(page: Page) -> None:
    frame = page.locator(".sl-compare-frame")
    expect(frame.locator(".sl-token").first).to_be_visible()
    frame.focus()
    page.keyboard.press("ArrowDown")
    tip = page.locator(".sl-compare .sl-tip")
    expect(tip).to_be_visible()
    frame.locator(".sl-compare-index").first.hover()  # a pointer on no token takes nothing away
    expect(tip.locator(".sl-tip-head")).to_contain_text("The")
    page.keyboard.press("ArrowDown")
    expect(tip.locator(".sl-tip-head")).to_contain_text("lighthouse")
    page.keyboard.press("ArrowRight")  # into the second column
    expect(frame.locator(".sl-compare-cell:nth-child(3) :focus")).to_be_visible()
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    expect(frame).to_be_focused()


def test_a_number_that_cannot_be_is_noise_and_its_button_measures_again(page, fake):
    fake(draft=-0.005)  # drafts that give time back
    run_all(page, 24, "Nothing is certain yet: runs 1, 2 and 3 may be the fastest.")
    table = page.locator("#compare-table")
    expect(table.locator(".sl-again")).to_have_count(2)
    expect(table).not_to_contain_text("★")
    mark = page.locator("#compare-recorded .sl-notice")
    kind = mark.evaluate("node => [node.dataset.kind, node.dataset.kind = 'recorded'][0]")
    expect(table.locator(".sl-again").first).to_be_hidden()  # below a recorded result
    mark.evaluate("(node, kind) => node.dataset.kind = kind", kind)
    fake(draft=0.001)
    table.get_by_role("button", name="Measure again").first.click()
    expect(page.locator("#compare-notice")).to_contain_text(ENDED)
    expect(table.locator(".sl-again")).to_have_count(0)


def written(page: Page, column: int) -> list[tuple[str, bool]]:
    """(piece, marked as not the text of run 1) of every token that came out in a column."""
    return page.locator(f".sl-compare-row .sl-compare-cell:nth-child({column + 1})").locator(".sl-token").evaluate_all(
        """all => all.filter(node => !node.matches('.sl-rejected, .sl-discarded')).map(node =>
          [node.querySelector('.sl-piece').textContent, node.classList.contains('sl-parted')])"""
    )  # fmt: skip


def test_texts_that_differ_are_marked_from_the_place_where_they_part(page):
    page.locator("#compare-temperature-2 input[type=number]").fill("1")
    page.locator("#compare-temperature-2 input[type=number]").press("Tab")
    run_all(page, 16)
    told = page.locator(".sl-compare-said")
    expect(told.nth(1)).to_contain_text(f"another text from token {ALIKE + 1} on")
    for by in ("round", "text"):
        page.locator(f'.sl-compare button[data-by="{by}"]').click()
        expect(page.locator(".sl-compare-row .sl-compare-cell:nth-child(3) .sl-parted").first).to_be_visible()
        one, two, three = (written(page, column) for column in (1, 2, 3))
        assert [marked for _, marked in two] == [at >= ALIKE for at in range(16)]
        assert three == one and not any(marked for _, marked in one)
    check_light_and_dark(page)
    last = page.locator(".sl-compare-row .sl-parted").last
    expect(last.locator(".sl-unseen")).to_contain_text("not the text of run 1")  # not by a look alone

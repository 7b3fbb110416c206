"""Is it lossless? in a real browser: the toy, a rule broken on purpose, a real pair that is tiny, Stop, the files."""

import csv
import io
import json
import re

import pytest
from page_actions import OVERFLOW, drawn, open_lab, saved, set_number, violations
from playwright.sync_api import Page, expect

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("tiny server")]
CHARTS = ("lossless-law", "lossless-distance", "lossless-rules")


@pytest.fixture
def opened(visit, tiny_server):
    """Opens the tab as a new visitor."""

    def open_(width: int = 1280, **options) -> Page:
        page = visit(server=tiny_server, **options)
        open_lab(page, "Is it lossless?")
        expect(page.locator("#lossless-run")).to_be_visible()
        page.set_viewport_size({"width": width, "height": 900})
        return page

    return open_


def ended(page: Page, words: str | re.Pattern) -> None:
    expect(page.locator("#lossless-notice")).to_contain_text(words, timeout=150_000)
    expect(page.locator("#lossless-run")).to_have_text("Run")


def test_right_then_wrong_then_the_files_then_stop(opened):
    page = opened()
    set_number(page, "lossless-runs", 300)
    page.locator("#lossless-run").click()
    expect(page.locator("#lossless-run")).to_have_text("Running…")
    ended(page, "Lossless, as far as 300 runs can tell")
    for name in CHARTS:
        drawn(page, name)
    page.locator("#lossless-argmax-drafts").click()  # its settings, and the rule
    ended(page, "Not lossless")
    table = page.locator("#lossless-rules tbody tr")
    expect(table).to_have_count(2)
    alphas = [float(row.locator("td").first.inner_text()) for row in table.all()]
    assert alphas[1] > alphas[0], "the wrong rule accepts more"
    expect(page.locator("#lossless-rule input")).to_have_value(re.compile("argmax-drafts"))
    tests = json.loads(saved(page, "lossless-json"))["tests"]
    assert [(test["asked"]["rule"], test["verdict"]) for test in tests] == [
        ("right", "right"), ("argmax-drafts", "wrong"),
    ]  # fmt: skip
    outcomes = list(csv.DictReader(io.StringIO(saved(page, "lossless-outcomes-csv"))))
    assert sum(int(row["seen"]) for row in outcomes) == 300 and outcomes[0]["text"] == "sun sun sun"
    assert "argmax-drafts" in saved(page, "lossless-rules-csv")
    set_number(page, "lossless-runs", 20_000)
    page.locator("#lossless-run").click()
    expect(page.locator("#lossless-notice")).to_contain_text(re.compile(r"[1-9]\d* of 20,000 runs"))
    page.locator("#lossless-stop").click()
    ended(page, re.compile(r"Stopped early: [\d,]+ of 20,000 runs"))
    expect(page.locator("#lossless-stop")).to_be_disabled()


def test_a_real_pair_and_back_to_the_toy(opened):
    page = opened()
    expect(page.locator("#lossless-prompt")).to_be_hidden()
    page.locator("#lossless-pair input").click()
    page.get_by_role("option").nth(1).click()
    expect(page.locator("#lossless-prompt")).to_be_visible()
    expect(page.locator("#lossless-runs input")).to_have_value("150")
    page.locator("#lossless-run").click()
    ended(page, "Lossless, as far as 150 runs can tell")
    cells = page.locator("#lossless-outcomes tbody th")
    expect(cells.first).to_have_text(re.compile(r"^1: .+ \| .+"))
    page.locator("#lossless-raw-q").click()
    ended(page, "only the toy has")
    page.locator("#lossless-pair input").click()
    page.get_by_role("option").first.click()
    expect(page.locator("#lossless-prompt")).to_be_hidden()
    expect(page.locator("#lossless-runs input")).to_have_value("2000")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_axe_finds_nothing_grave_and_nothing_is_too_wide(opened, scheme, width):
    page = opened(width, color_scheme=scheme)
    set_number(page, "lossless-runs", 100)
    page.locator("#lossless-no-residual").click()
    ended(page, "100 runs")
    for name in CHARTS:
        drawn(page, name)
    assert violations(page) == []
    assert page.evaluate(OVERFLOW) <= 0

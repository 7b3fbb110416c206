"""Is it lossless? in a real browser: the toy, a rule broken on purpose, a real pair that is tiny, Stop, the files."""

import json
import re

import pytest
from page_actions import check_light_and_dark, drawn, open_lab, saved, saved_table, set_number
from playwright.sync_api import Page, expect

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("tiny server")]
CHARTS = ("lossless-law", "lossless-distance", "lossless-rules")


def ended(page: Page, words: str | re.Pattern) -> None:
    expect(page.locator("#lossless-notice")).to_contain_text(words, timeout=150_000)
    expect(page.locator("#lossless-run")).to_have_text("Run")


def test_right_then_wrong_then_the_files_then_stop(visit, tiny_server):
    page = visit(server=tiny_server)
    open_lab(page, "Is it lossless?")
    set_number(page, "lossless-runs", 300)
    page.locator("#lossless-run").click()
    ended(page, "Lossless, as far as 300 runs can tell")
    for name in CHARTS:
        drawn(page, name)
    page.locator("#lossless-argmax-drafts").click()  # its settings, and the rule
    ended(page, "Not lossless")
    table = page.locator("#lossless-rules tbody tr")
    expect(table).to_have_count(2)
    alphas = [float(row.locator("td").first.inner_text()) for row in table.all()]
    assert alphas[1] > alphas[0], "the wrong rule accepts more"
    right, wrong = (page.locator(f'td[data-mark="{verdict}"]') for verdict in ("right", "wrong"))
    green = right.evaluate("cell => getComputedStyle(cell).color")
    expect(wrong).not_to_have_css("color", green)
    expect(page.locator("#lossless-rule input")).to_have_value(re.compile("argmax-drafts"))
    tests = json.loads(saved(page, "lossless-json"))["tests"]
    assert [(test["asked"]["rule"], test["verdict"]) for test in tests] == [
        ("right", "right"), ("argmax-drafts", "wrong"),
    ]  # fmt: skip
    outcomes = saved_table(page, "lossless-outcomes-csv")
    assert sum(int(row["seen"]) for row in outcomes) == 300 and outcomes[0]["text"] == "sun sun sun"
    assert "argmax-drafts" in saved(page, "lossless-rules-csv")
    check_light_and_dark(page, "#lab-distribution")
    page.set_viewport_size({"width": 1280, "height": 900})
    set_number(page, "lossless-runs", 20_000)
    page.locator("#lossless-run").click()
    expect(page.locator("#lossless-notice")).to_contain_text(re.compile(r"[1-9]\d* of 20,000 runs"))
    expect(page.locator("#lossless-run")).to_have_text("Running…")
    page.locator("#lossless-stop").click()
    ended(page, re.compile(r"Stopped early: [\d,]+ of 20,000 runs"))
    expect(page.locator("#lossless-stop")).to_be_disabled()


def test_a_wrong_mask_shows_broken_json(visit, tiny_server):
    page = visit(server=tiny_server)
    open_lab(page, "Is it lossless?")
    page.locator("#lossless-masks").click()  # loads the JSON toy with its settings, then tests every rule
    expect(page.locator("#lossless-notice")).to_contain_text("mask stays", timeout=150_000)
    page.locator("#lossless-outcomes td", has_text='{"sky":"').last.wait_for()
    expect(page.locator("#lossless-outcomes")).to_contain_text("What it should have been")
    expect(page.locator("#lossless-outcomes")).to_contain_text("never", timeout=60_000)
    expect(page.locator("#lossless-length")).to_be_hidden()
    page.locator("#lossless-stop").click()
    expect(page.locator("#lossless-run")).to_have_text("Run")
    drawn(page, "lossless-law")

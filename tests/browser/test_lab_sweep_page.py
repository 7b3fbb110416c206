"""A sweep in a real browser, on the real engine with a tiny model: run, cancelled, resumed, exported."""

import csv
import io
import re

import pytest
from page_actions import drawn, open_lab, saved, set_number, tick
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("tiny server")]


def test_a_sweep_is_run_cancelled_resumed_and_exported(visit, tiny_server):
    page = visit(server=tiny_server)
    open_lab(page, "Sweep")
    expect(page.locator("#sweep-run")).to_be_visible()
    tick(page, "sweep-methods", "n-gram lookup")
    tick(page, "sweep-gammas", "1", "2")
    tick(page, "sweep-kinds", "chat", "code", "quote")
    set_number(page, "sweep-each", 6)
    set_number(page, "sweep-repeats", 1)
    words = page.locator("#sweep-notice .sl-words")
    expect(words).to_have_text("18 turns, 54 runs of up to 48 tokens.")
    expect(page.locator("#sweep-production .sl-production")).to_be_hidden()  # nothing to copy yet
    page.locator("#sweep-run").click()
    expect(page.locator("#sweep-table tbody tr").first).to_be_visible(timeout=60_000)  # after the first turn
    page.locator("#sweep-stop").click()
    expect(words).to_contain_text("goes on from here")
    expect(page.locator("#sweep-run")).to_have_text("Run the sweep")

    page.locator("#sweep-run").click()
    expect(words).to_contain_text(re.compile(r"Run ([4-9]|\d\d) of 54"))  # none of the first turn
    expect(words).to_contain_text(re.compile("Best for you|No difference|cannot be told apart"), timeout=200_000)
    expect(page.locator("#sweep-table tbody tr")).to_have_count(3)
    lead = page.locator("#sweep-production .sl-production-lead")
    expect(lead).to_contain_text(re.compile("as fast as any above|the fastest above|nothing to configure"))
    drafting = "nothing to configure" not in lead.inner_text()  # the machine's answer, not the test's
    expect(page.locator("#sweep-production .sl-recipe-copy")).to_be_visible(visible=drafting)
    drawn(page, "sweep-heat")
    rows = list(csv.DictReader(io.StringIO(saved(page, "sweep-csv"))))
    assert len(rows) == 4 * 3 and {row["category"] for row in rows} == {"all", "chat", "code", "quote"}

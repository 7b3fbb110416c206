"""Many users in a real browser, on the real engine with a tiny pair: run and exported."""

import re

import pytest
from page_actions import check_light_and_dark, drawn, open_lab, saved_table, set_number, tick
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("tiny server")]
CHARTS = ("users-total", "users-each", "users-gain", "users-price")


def test_many_users_are_measured_and_exported(visit, tiny_server):
    page = visit(server=tiny_server)
    open_lab(page, "Many users")
    words, numbers = page.locator("#users-notice .sl-words"), page.locator("#users-numbers :is(input, textarea)")
    numbers.fill("0, 1")
    expect(words).to_have_text("Users at once is 0; choose from 1 to 32.")
    numbers.fill("1, 8")
    tick(page, "users-methods", "n-gram lookup", "draft model")
    tick(page, "users-contexts", "Prompts as they are")
    set_number(page, "users-repeats", 1)
    expect(words).to_have_text("6 points, each of 8 answers with 32 tokens.")
    page.locator("#users-run").click()
    expect(page.locator("#users-stop")).to_be_enabled()
    expect(page.locator("#users-notice")).to_be_in_viewport()
    expect(page.locator("#users-stop")).to_be_in_viewport(ratio=1)
    expect(words).to_contain_text(re.compile("Without drafting, 8 users together (seem to )?get"), timeout=200_000)
    expect(page.locator("#users-table tbody tr")).to_have_count(6)
    for name in CHARTS:
        drawn(page, name)
    lines = saved_table(page, "users-csv")
    assert [(line["users"], line["method"]) for line in lines[:3]] == [("1", "lm"), ("1", "ngram"), ("1", "none")]
    assert len(lines) == 6 and {line["prompts_are"] for line in lines} == {"short"}
    assert lines[0]["device"] and lines[0]["saved"]
    check_light_and_dark(page, "#lab-users")

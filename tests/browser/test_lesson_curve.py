"""Lessons 8, 10, 12 and 15 take the v(W) of the reader's own machine, say where it is from, and go back at once."""

import json
import re

import pytest
from page_actions import SLIDE, open_lesson
from playwright.sync_api import Page, expect
from visits import Visits

from engine.tools.servers.curve_reader import read_curve
from engine.trace.speedup_model import expected_tokens, idealised_speedup, interpolate

pytestmark = pytest.mark.browser
TEXT = "1 1.02 1.05 1.6 4"
CURVE = read_curve(TEXT)
LIST = "A wider pass costs"


@pytest.fixture(scope="module")
def page(browser, fake_server):
    kept = json.dumps(CURVE.to_dict() | {"text": TEXT})
    visits = Visits(browser)
    yield visits.open(f"{fake_server}/#lessons", init_script=f"localStorage.setItem('speclens-curve', {kept!r})")
    visits.close()


def at(page: Page, lesson: str, titled: str):
    open_lesson(page, lesson, titled)
    return page.locator(".sl-figure-box")


def slide(box, label: str, value: float) -> None:
    box.locator(".sl-slide").filter(has_text=re.compile(f"^{label}")).locator("input").evaluate(SLIDE, value)


def number(box, name: str) -> float:
    return float(box.locator(f"[data-{name}]").first.get_attribute(f"data-{name}"))


def test_the_curve_gives_the_best_length_and_says_where_it_is_from(page):
    box = at(page, "how_many_drafts", "Move the costs")
    for label, value in (("α", 0.7), ("c, cost", 0.02), ("extra cost", 0.2)):
        slide(box, label, value)
    speedups = [idealised_speedup(0.7, gamma, 0.02, CURVE.v) for gamma in range(11)]
    best = speedups.index(max(speedups))
    assert number(box, "speedup") == pytest.approx(speedups[best], abs=1e-4) and number(box, "best") == best
    expect(box).to_contain_text("From your numbers: v(2) = 1.02, v(4) = 1.05, v(8) = 1.60")
    expect(box.locator("input[disabled]")).to_have_count(1)
    box.get_by_label(LIST).select_option(index=0)
    line = [idealised_speedup(0.7, gamma, 0.02, {1: 1, 2: 1.2}) for gamma in range(11)]
    assert number(box, "speedup") == pytest.approx(max(line), abs=1e-4)
    expect(box).not_to_contain_text("your numbers")


@pytest.mark.slow
def test_a_round_and_a_tree_are_as_long_as_the_curve_says(page):
    box = at(page, "why_is_mine_slower", "Fix it")
    for label, value in (("γ", 3), ("α", 0.5), ("c, cost", 0.1)):
        slide(box, label, value)
    assert number(box, "speedup") == pytest.approx(expected_tokens(0.5, 3) / (0.3 + 1.05), abs=1e-4)
    slide(box, "Users", 4)
    plain, wide = CURVE.v[4], CURVE.v[16]
    assert number(box, "speedup") == pytest.approx(expected_tokens(0.5, 3) * plain / (0.3 + wide), abs=1e-4)
    box = at(page, "token_trees", "Grow one")
    box.get_by_role("button", name="Chain of four").click()
    tokens = number(box, "tokens")
    assert number(box, "speedup") == pytest.approx(tokens / interpolate(CURVE.v, 5), abs=1e-3)
    box.get_by_role("button", name="Best shape").click()
    best, words = number(box, "speedup"), number(box, "words")
    assert best >= tokens / interpolate(CURVE.v, 5) - 1e-3 and 0 < words < 15


@pytest.mark.slow
def test_many_users_share_the_passes_of_the_curve(page):
    box = at(page, "many_users", "When the pass is full")
    slide(box, "Users", 8)
    assert number(box, "time") == pytest.approx(CURVE.v[8], abs=1e-4)
    box.get_by_label(LIST).select_option(index=0)
    assert number(box, "time") != pytest.approx(CURVE.v[8], abs=1e-3)
    box = at(page, "many_users", "Find the turning point")
    for label, value in (("Users", 2), ("γ", 3), ("α", 0.6)):
        slide(box, label, value)
    gain = expected_tokens(0.6, 3) * CURVE.v[2] / CURVE.v[8]
    assert number(box, "gain") == pytest.approx(gain, abs=1e-4)
    slide(box, "Users", 64)
    expect(box).to_contain_text("Your curve ends at 16")


@pytest.mark.slow
def test_a_curve_that_is_forgotten_leaves_the_lessons_at_once(page):
    box = at(page, "how_many_drafts", "Move the costs")
    expect(box.get_by_label(LIST)).to_be_visible()
    page.get_by_role("tab", name="Lab").click()
    page.get_by_role("tab", name="Theory").click()
    page.locator("#theory-own-curve").get_by_role("button", name="Back to the default").click()
    page.get_by_role("tab", name="Lessons").click()
    expect(box.get_by_label(LIST)).to_have_count(0)
    expect(box.locator("input[disabled]")).to_have_count(0)

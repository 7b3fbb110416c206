"""The tables and maps that the lab opens with fit a laptop, and on a phone their first column and numbers stay."""

import pytest
from page_actions import OVERFLOW
from playwright.sync_api import expect

from lessons.schema import LABS

pytestmark = pytest.mark.browser
# The tables that are seen and wider than their frame.
CUT = """() => [...document.querySelectorAll('#lab-tabs .sl-sheet-scroll')].filter(frame => frame.offsetParent)
  .filter(frame => frame.scrollWidth > frame.clientWidth + 1).map(frame => frame.getAttribute('aria-label'))"""
# How far the first column moves when a table is scrolled to its end.
MOVED = """frame => {
  const left = () => frame.querySelector('tbody th').getBoundingClientRect().left, before = left();
  frame.scrollLeft = frame.scrollWidth;
  return [frame.scrollLeft, Math.abs(left() - before)];
}"""
# Pairs of numbers of the map that lie over each other.
MET = """() => {
  const labels = document.querySelectorAll('[data-chart=sweep-heat] .heatmap-label');
  const boxes = [...labels].map(label => label.getBoundingClientRect());
  return [boxes.length, boxes.filter((a, i) => boxes.some((b, j) => j > i &&
    a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1)).length];
}"""


@pytest.mark.slow
def test_no_table_is_cut_on_a_laptop(page):
    page.set_viewport_size({"width": 1280, "height": 800})
    page.get_by_role("tab", name="Lab").click()
    for name in LABS:
        page.locator(f"#lab-{name}-button").click()
        expect(page.locator(f"#lab-{name} .sl-notice[data-kind=recorded]")).to_be_visible()
        assert page.evaluate(CUT) == [] and page.evaluate(OVERFLOW) <= 0, name


@pytest.mark.slow
def test_on_a_phone_names_stay_and_numbers_do_not_meet(page):
    page.get_by_role("tab", name="Lab").click()
    page.locator("#lab-sweep-button").click()
    page.set_viewport_size({"width": 390, "height": 844})
    page.locator("[data-chart=sweep-heat]").scroll_into_view_if_needed()
    page.wait_for_function(f"({MET})()[0] > 40")
    page.wait_for_function(f"({MET})()[1] === 0")
    far, moved = page.locator("#lab-sweep .sl-sheet-scroll").evaluate(MOVED)
    assert far > 50 and moved < 1 and page.evaluate(OVERFLOW) <= 0

"""Points beside the theory, on the real engine with a tiny model: measured, stopped, gone on with, saved, cleared."""

import json
import re

import pytest
from page_actions import check_light_and_dark, open_lab, open_tab, saved, saved_table, set_number, tick
from playwright.sync_api import Page, expect

from engine.trace.noise import NOISE

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("tiny server")]
MEASURE = "Measure these points here"


def measure(page: Page, alphas: tuple, gammas: tuple, **sliders: int) -> None:
    tick(page, "theory-alphas", *alphas)
    tick(page, "theory-gammas", *gammas)
    for name, value in sliders.items():
        set_number(page, f"theory-{name}", value)
    page.locator("#theory-run").click()


def points(page: Page):
    return page.locator("#theory-points tbody tr")


def test_points_are_measured_stopped_gone_on_with_saved_and_cleared(visit, tiny_server):
    page = visit(server=tiny_server)
    open_lab(page, "Theory")
    measure(page, (), ("2",))
    expect(page.locator("#theory-notice .sl-alert")).to_contain_text("Tick at least one α")
    words = page.locator("#theory-notice .sl-words")
    measure(page, ("0.1", "0.5", "0.9", "0.95"), ("1", "2", "4", "8"), tokens=192, repeats=5)
    expect(words).to_contain_text(re.compile(r"Point ([2-9]|\d\d) of 80"))
    page.locator("#theory-stop").click()
    expect(words).to_contain_text(re.compile(r"Stopped at point \d+ of 80, with \d+ kept"))
    expect(page.locator("#theory-run")).to_have_text(MEASURE)
    first = points(page).first.locator("th").inner_text()

    measure(page, ("0.1", "0.5", "0.9", "0.95"), ("1", "2"), repeats=1)  # goes on, with less to do
    expect(words).to_contain_text(re.compile("fastest was|No point was"))
    expect(page.locator("#theory-run")).to_have_text(MEASURE)
    expect(points(page).nth(7)).to_be_visible()
    expect(points(page).first.locator("th")).to_have_text(first)
    marks = page.locator("[data-plot=alpha] .sl-point")
    possible = points(page).filter(has_not_text=NOISE).count()  # noise is in the table and on no curve
    expect(marks).to_have_count(possible)
    expect(page.locator("[data-plot=alpha] .sl-curve-here")).not_to_have_count(0)
    expect(page.locator(".sl-theory-here input")).to_be_checked()  # the sliders went to this machine's costs

    table = saved_table(page, "theory-csv")
    assert len(table) == len(json.loads(saved(page, "theory-json"))["points"]) == points(page).count()
    check_light_and_dark(page, "#lab-theory")
    page.set_viewport_size({"width": 1280, "height": 900})

    for tab in ("Sweep", "Theory"):  # the curves are fed again when the tab is opened again
        open_tab(page, tab, "lab-tabs")
    expect(marks).to_have_count(possible)
    page.locator("#theory-restart").click()
    expect(words).to_contain_text("Cleared")
    expect(page.locator("#theory-recorded")).to_contain_text("Recorded on")
    expect(points(page).first.locator("th")).not_to_have_text(first)
    expect(page.locator("#theory-csv")).to_be_disabled()

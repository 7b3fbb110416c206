"""axe-core on every state of the page, and the page by keyboard alone. The script comes from a Python package."""

import re

import pytest
from page_actions import (
    check_light_and_dark,
    drawn,
    fill,
    open_lesson,
    open_texts,
    press_run,
    tool_places,
    violations,
    wait_for_end,
)
from playwright.sync_api import Page, expect
from sample_traces import tree

from engine.trace.trace import to_json
from lessons.loader import lessons

pytestmark = pytest.mark.browser
CHARTS = ("tokens", "prediction", "acceptance", "rounds", "times", "scoring", "idealised")
# Contrast depends on the scheme and size on the width, so two of the four pairs show what all would.
PAIRS = pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
FOCUSED = """() => {
  const node = document.activeElement, style = getComputedStyle(node), box = node.getBoundingClientRect();
  return { name: node.id || node.className.toString() || node.tagName, isPage: node === document.body,
    ring: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2,
    seen: box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth };
}"""
# The other tabs are hidden, but axe would walk through them, too, and take three times as long.
LEAVE_THE_LESSONS = """() => {
  for (const panel of document.querySelectorAll('[role=tabpanel]')) if (!panel.querySelector('#lesson')) panel.remove();
}"""
MOVING = """() => [...document.querySelectorAll('.gradio-container *')].filter(node => {
  const { animationDuration, transitionDuration } = getComputedStyle(node);
  return [...animationDuration.split(','), ...transitionDuration.split(',')].some(time => parseFloat(time) > 0.05);
}).map(node => `${node.tagName} ${node.id} ${node.getAttribute('class')}`)"""


@pytest.mark.slow
@PAIRS
def test_axe_finds_nothing_grave_in_any_state(visit, fake, scheme, width):
    page = visit(color_scheme=scheme, viewport={"width": width, "height": 900})
    expect(page.locator(".sl-captions")).to_be_visible()
    assert violations(page) == [], "the first visit"
    page.locator("#settings").click()
    assert violations(page, "#drawer") == [], "with the drawer"
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Share", exact=True).click()
    expect(page.get_by_label("Link", exact=True)).not_to_have_value("")
    page.locator("dialog.sl-share summary").first.click()
    assert violations(page, "dialog.sl-share") == [], "with the dialog of a link"
    page.keyboard.press("Escape")
    page.keyboard.press("p")  # a phone has no button for it
    expect(page.get_by_role("button", name="Leave presentation")).to_be_visible()
    page.keyboard.press("End")
    page.locator("#stage .sl-list .sl-rejected").last.click()
    expect(page.locator("#stage .sl-inspector")).to_have_attribute("data-open", "locked")
    assert violations(page) == [], "presenting, with a locked token"
    page.keyboard.press("Escape")
    page.keyboard.press("p")
    fake(step=0.2)
    press_run(page, tokens="40")
    expect(page.locator(".sl-source")).to_have_text("Running now")
    expect(page.locator(".sl-row").nth(3)).to_be_visible()
    assert violations(page) == [], "while running"
    fake()
    wait_for_end(page)
    page.locator(".sl-list .sl-rejected").last.click()
    page.get_by_role("button", name="Re-roll u").click()
    assert violations(page, "#stage") == [], "with a locked token"
    page.keyboard.press("Escape")
    for name in CHARTS:
        drawn(page, name)
    assert violations(page) == [], "after the run, with the charts"
    page.locator(".sl-rows").first.press("?")  # a phone has no button for it
    assert violations(page, "dialog.sl-help") == [], "with the help"
    page.keyboard.press("Escape")
    page.locator("#prompt textarea").fill(" ")
    page.locator("#run").click()
    expect(page.get_by_role("alert").filter(has_text="prompt is empty")).to_be_visible()
    assert violations(page, "#stage-notice") == [], "with an error"
    open_texts(page, to_json(tree()))
    expect(page.locator(".sl-source")).to_have_text("From a file")
    page.locator("#stage .sl-rows").press("End")
    page.locator("#stage .sl-tree .sl-token").nth(1).click()
    assert violations(page, "#stage") == [], "with a tree"
    drawn(page, "ranks")
    assert violations(page, "#results") == [], "with the tab of trees"


@pytest.mark.slow
def test_axe_finds_nothing_grave_in_the_lessons(visit):
    page = visit()
    page.locator("#lessons-tab-button").click()
    expect(page.locator(".sl-lesson-card").first).to_be_visible()
    check_light_and_dark(page, "#lesson")
    who_guesses = next(lesson for lesson in lessons() if lesson.slug == "who_guesses")
    choice = next(i for i, step in enumerate(who_guesses.steps) if step.ask and step.ask.kind == "choice")
    open_lesson(page, who_guesses.slug, choice)
    page.locator(".sl-option").first.click()
    expect(page.locator(".sl-reply")).not_to_be_empty()
    check_light_and_dark(page)  # a question and its answer
    open_lesson(page, "draft_then_verify", 1)
    expect(page.locator("[data-glow]")).to_have_count(1)
    check_light_and_dark(page, "#lesson")
    open_lesson(page, "draft_then_verify", 7)
    expect(page.locator(".sl-option")).not_to_have_count(0)
    for option in page.locator(".sl-option").all():
        if option.get_attribute("aria-disabled") != "true":
            option.click()
    check_light_and_dark(page, "#lesson")  # the quiz
    page.keyboard.press("p")
    check_light_and_dark(page, "#lesson")  # presenting
    page.keyboard.press("p")
    page.get_by_role("button", name="Run it live").click()
    expect(page.locator(".sl-coach")).to_be_visible()
    check_light_and_dark(page, ".sl-coach")
    open_lesson(page, who_guesses.slug)
    page.evaluate(LEAVE_THE_LESSONS)
    for place in tool_places().values():
        open_lesson(page, *place)
        expect(page.locator(".sl-figure-box h4")).to_be_visible()
        for button in page.locator(".sl-figure-box button").all():
            button.click()  # then the tool's result is on the page, too
        check_light_and_dark(page, ".sl-figure-box")  # test_static_site_page.py checks the rest of each lesson


@pytest.mark.slow
def test_tab_goes_once_through_the_page_and_every_stop_can_be_seen(page):
    stops = []
    for _ in range(120):
        page.keyboard.press("Tab")
        stop = page.evaluate(FOCUSED)
        if stop["isPage"]:
            break
        assert stop["ring"] and stop["seen"], stop
        stops.append(stop["name"])
    else:
        pytest.fail(f"120 times Tab and still not through: {stops}")
    landmarks = ["run", "settings", "stage-rows", "sl-text-box", "sl-do", "sl-scrub", "result-race-button"]
    places = [next((i for i, stop in enumerate(stops) if mark in stop), -1) for mark in landmarks]
    assert -1 not in places and places == sorted(places), stops


@pytest.mark.slow
def test_a_whole_visit_by_keyboard(page):
    fill(page, tokens="12")
    page.locator("#prompt textarea").press("Control+A")
    page.keyboard.type("Hello there")
    page.keyboard.press("Shift+Enter")
    expect(page.locator("#stage-notice")).to_contain_text("measured just now")
    expect(page.locator("#run")).to_have_text("Run")
    page.locator("#method input").focus()
    expect(page.get_by_role("listbox")).to_be_visible()
    reach(page, "stage-rows")
    expect(page.get_by_role("listbox")).to_be_hidden()
    for is_open in (True, False, True):
        page.keyboard.press("?")
        expect(page.locator("dialog.sl-help")).to_be_visible(visible=is_open)
    page.keyboard.press("Escape")
    expect(page.locator("dialog.sl-help")).to_be_hidden()
    expect(page.locator("#stage-rows")).to_be_focused()  # the help gives it back
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("tooltip")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.locator(".sl-inspector")).to_have_attribute("data-open", "locked")
    reach(page, "sl-button")
    page.keyboard.press("Escape")
    expect(page.locator(".sl-inspector")).not_to_have_attribute("data-open", "locked")


def reach(page: Page, name: str) -> None:
    """Presses Tab until the focus is there."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if name in page.evaluate(FOCUSED)["name"].split():
            return
    pytest.fail(f"Tab does not reach {name}")


@pytest.mark.slow
def test_axe_reports_pale_words_on_the_page_and_in_a_dialog(page):
    """Otherwise the tests above could pass because axe leaves out a dialog."""
    page.evaluate("document.querySelector('.sl-stage .sl-words').style.color = '#ccc'")
    page.get_by_role("button", name="Share", exact=True).click()
    expect(page.get_by_label("Link", exact=True)).not_to_have_value("")
    page.evaluate("document.querySelector('#sl-share-title').style.color = '#ccc'")
    found = violations(page)
    assert any(line.startswith("color-contrast") and "sl-share-title" in line for line in found)
    page.keyboard.press("Escape")
    assert any(line.startswith("color-contrast") for line in violations(page)), "what the dialog covered"


@pytest.mark.slow
def test_with_reduced_motion_nothing_moves_by_itself(visit):
    page = visit(reduced_motion="reduce")
    expect(page.locator(".sl-place")).to_have_text(re.compile(r"^Round (\d+) of \1$"))  # the recorded run is complete
    assert page.evaluate(MOVING) == []

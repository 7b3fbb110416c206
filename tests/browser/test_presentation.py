"""The presentation on the smallest projector: nothing collides, and what a class looks at is on one screen."""

import pytest
from page_actions import OVERFLOW, SLIDE, open_tab
from playwright.sync_api import Page, expect

from lessons.loader import lessons
from lessons.schema import LABS

pytestmark = pytest.mark.browser
PROJECTOR = {"width": 1280, "height": 720}
LAPTOP = {"width": 1366, "height": 768}
# Pairs of texts of which one covers another. What a scrolling part has cut off is not seen; rows of rounds have
# tests of their own, and the label of u is meant to lie on its bar.
COLLIDING = """root => {
  const texts = [], found = [], walker = document.createTreeWalker(document.querySelector(root), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const { currentNode: text } = walker, { parentElement: owner } = text;
    if (!text.data.trim() || !owner.checkVisibility({ visibilityProperty: true })) continue;
    if (owner.closest('.sl-unseen, select, .sl-rows, .sl-tick, .sl-plot, svg, dialog, [role=tooltip]')) continue;
    const range = document.createRange();
    range.selectNodeContents(text);
    for (let { left, top, right, bottom } of range.getClientRects()) {
      for (let node = owner; node; node = node.parentElement) {
        if (getComputedStyle(node).overflowX === 'visible') continue;
        const box = node.getBoundingClientRect();
        [left, right] = [Math.max(left, box.left), Math.min(right, box.right)];
        [top, bottom] = [Math.max(top, box.top), Math.min(bottom, box.bottom)];
      }
      if (right - left > 1 && bottom - top > 1) texts.push({ text, left, top, right, bottom });
    }
  }
  texts.forEach((a, i) => texts.slice(i + 1).forEach(b => {
    const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (a.text !== b.text && wide > 3 && high > 0.4 * Math.min(a.bottom - a.top, b.bottom - b.top))
      found.push(`${a.text.data.trim()} / ${b.text.data.trim()}`);
  }));
  return found;
}"""
# Parts of an open lesson that are not wholly on the screen.
OUT_OF_SIGHT = """() => ['#sl-lesson-title', '.sl-lesson-nav', '.sl-lesson-keys', '.sl-lesson-tool', '.sl-lesson-stage']
  .map(part => document.querySelector(`.sl-lesson-open ${part}`)).filter(node => node.checkVisibility())
  .filter(node => { const { top, bottom } = node.getBoundingClientRect(); return top < 0 || bottom > innerHeight; })
  .map(node => node.className || node.id)"""


def assert_fits(page: Page, root: str) -> None:
    page.wait_for_function(f"{OVERFLOW} <= 0")
    assert page.evaluate(COLLIDING, root) == []


@pytest.mark.parametrize("size", [PROJECTOR, LAPTOP])
def test_the_presented_strip_has_room_for_its_lanes(visit, size):
    page = visit(viewport=size)
    page.keyboard.press("p")
    page.locator("#stage .sl-scrub").evaluate(SLIDE, 20)  # the longest count is “13 of 54 tokens, 1.41 s in all”
    expect(page.locator("#stage .sl-lane-plain .sl-count")).to_contain_text("in all")
    assert_fits(page, "#stage .sl-strip")
    assert page.locator("#stage .sl-bar").first.bounding_box()["width"] >= 90
    note = page.locator('#stage [data-tile="speedup"] .sl-note')
    assert note.evaluate("node => node.scrollWidth <= node.clientWidth"), "its end is cut off"


def test_a_presented_playground_leads_to_lessons_and_back(visit):
    page = visit(viewport=PROJECTOR)
    page.keyboard.press("p")
    page.get_by_role("tab", name="Lessons").click()
    expect(page.locator("body.sl-present .sl-minute-go")).to_be_in_viewport(ratio=1)  # the idea in sixty seconds
    assert_fits(page, "#lesson .sl-minute")
    page.get_by_role("tab", name="Playground").click()
    expect(page.locator("body.sl-present #stage")).to_be_visible()
    page.get_by_role("tab", name="Lab").click()
    expect(page.get_by_role("tab", name="Theory")).to_be_in_viewport()


@pytest.mark.parametrize(
    ("lesson", "step"),
    [
        ("in_five_minutes", "The same text?"),
        ("accept_reject_resample", "The repair"),
        ("one_token_differs", "Four questions"),
        ("many_users", "One budget, many users"),
    ],
)
def test_a_presented_step_is_on_one_screen(at_step, lesson, step):
    page = at_step(lesson, step)
    page.set_viewport_size(PROJECTOR)
    page.keyboard.press("p")
    page.wait_for_function(f"({OUT_OF_SIGHT})().length === 0 && document.documentElement.scrollHeight <= innerHeight")
    assert_fits(page, ".sl-lesson-open")
    page.keyboard.press("p")


def test_a_presented_round_leaves_the_inspector_its_room(at_step):
    page = at_step("accept_reject_resample", "Two opinions about one place")
    page.set_viewport_size(PROJECTOR)
    page.keyboard.press("p")
    page.wait_for_function("""() => {
      const box = document.querySelector('.sl-lesson-stage .sl-rows'), rows = box.querySelector('.sl-list');
      return box.clientHeight - rows.offsetHeight < 30; }""")
    inspector = page.locator(".sl-lesson-stage .sl-inspector")
    page.wait_for_function("node => node.scrollHeight <= node.clientHeight + 1", arg=inspector.element_handle())
    page.keyboard.press("p")


@pytest.mark.slow
def test_every_presented_step_is_on_one_screen(at_step):
    for lesson in lessons():
        page = at_step(lesson.slug)
        page.set_viewport_size(PROJECTOR)
        page.keyboard.press("p")
        for number in range(page.locator(".sl-dot").count()):
            page.locator(".sl-dot").nth(number).click()
            page.wait_for_function(f"({OUT_OF_SIGHT})().length === 0")
            assert (lesson.slug, number, page.evaluate(COLLIDING, ".sl-lesson-open")) == (lesson.slug, number, [])
        page.keyboard.press("p")


# Where the first picture ends, and the first button that changes it.
IN_VIEW = {
    "answer": (".sl-answer-alone", "#answer-run"),
    "theory": ('[data-plot="gamma"]', "[name=gamma]"),
    "sweep": (".sl-plot", "#sweep-run"),
    "distribution": (".sl-plot", ".sl-lossless-quick button"),
    "users": (".sl-plot", "#users-run"),
}


@pytest.mark.parametrize("name", IN_VIEW)
def test_a_presented_experiment_shows_its_picture_with_its_control(page, name):
    open_tab(page, "Lab", "tabs")
    open_tab(page, LABS[name], "lab-tabs")
    page.set_viewport_size(PROJECTOR)
    page.keyboard.press("p")
    for part in IN_VIEW[name]:
        expect(page.locator(f"#lab-{name} {part}").first).to_be_in_viewport(ratio=1)
    assert_fits(page, f"#lab-{name}")
    page.keyboard.press("p")

"""Numbers in sentences that can be dragged, by keyboard and by pointer; what they say is what the tools compute."""

import json
import re

import pytest
from page_actions import OVERFLOW, open_lesson, violations, wait_for
from playwright.sync_api import Page, expect
from visits import PHONE, Visits

from lessons.loader import lessons

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("static-site")]
ALL = [(lesson, step) for lesson in lessons() for step in lesson.steps if step.sentence]


def answer(page: Page) -> None:
    """Answers the step's question, which hides the sentence until then."""
    if page.get_by_label("Your guess").count():
        page.get_by_label("Your guess").fill("1")
        page.keyboard.press("Enter")
    elif page.locator(".sl-option").count():
        page.locator(".sl-option").first.click()


def number(page: Page, name: str):
    return page.locator(f'.sl-drag[data-drag="{name}"]')


def result(page: Page, name: str) -> str:
    return page.locator(f'.sl-live[data-live="{name}"]').inner_text()


@pytest.fixture(scope="module")
def page(browser, site):
    """One page for all tests that need no phone."""
    visits = Visits(browser)
    yield visits.open(site.as_uri(), offline=True)
    visits.close()


@pytest.mark.slow
def test_each_sentence_says_what_python_computes_after_the_answer(open_offline, site):
    """The text as it is printed comes from the engine's formulas, and the page's from the tools'."""
    page = open_offline(site, several=True, viewport={"width": 390, "height": 844}, color_scheme="dark")
    told = page.evaluate("JSON.parse(document.querySelector('#data').textContent).values.lesson")
    pages = json.loads(told)["pages"]
    for lesson, step in ALL:
        open_lesson(page, lesson.slug, step.title)
        if step.ask:
            expect(page.locator(".sl-drag").first).to_be_hidden()
            answer(page)
        expect(page.locator(".sl-drag").first).to_be_visible()
        printed = next(one for one in pages[str(lesson.number)]["steps"] if one["title"] == step.title)
        for style, text, *name in (piece for block in printed["blocks"] for line in block["lines"] for piece in line):
            if style in ("drag", "live"):
                expect(page.locator(f'[data-{style}="{name[0]}"]')).to_have_text(text)
        assert page.evaluate(OVERFLOW) <= 0 and violations(page, ".sl-lesson-body") == []
    assert len({lesson.slug for lesson, _ in ALL}) >= 4


def test_numbers_follow_keys_and_pointer_and_stop_at_their_ends(page):
    open_lesson(page, "acceptance_tau_speedup", "From α to τ")
    answer(page)
    alpha, gamma = number(page, "alpha"), number(page, "gamma")
    gamma.press("Home")
    assert result(page, "tokens") == "1.00"
    gamma.press("ArrowRight")
    expect(gamma).to_have_attribute("aria-valuetext", "γ, drafts a round: 1")
    assert result(page, "tokens") == "1.80"
    alpha.press("End")
    assert result(page, "tokens") == "2.00"
    alpha.press("ArrowUp")
    expect(alpha).to_have_attribute("aria-valuenow", "1")
    box = alpha.bounding_box()
    page.mouse.move(box["x"] + 10, box["y"] + 8)
    page.mouse.down()
    page.mouse.move(box["x"] - 140, box["y"] + 8, steps=5)
    page.mouse.up()
    assert float(alpha.inner_text()) == pytest.approx(0.5, abs=0.02)
    before = alpha.inner_text()
    page.mouse.move(box["x"] + 90, box["y"] + 8)
    assert alpha.inner_text() == before, "let go"


def swipe(page: Page, x: float, y: float, across: float) -> None:
    """Moves a finger up, as if to scroll, and then to the side."""
    touches = page.context.new_cdp_session(page)
    path = [(x, y - up) for up in range(0, 61, 10)] + [(x + across * part / 10, y - 60) for part in range(1, 11)]
    for i, (to_x, to_y) in enumerate(path):
        kind = "touchMove" if i else "touchStart"
        touches.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": to_x, "y": to_y}]})
        page.wait_for_timeout(20)  # the browser does not scroll for moves that come at once
    touches.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


@pytest.mark.slow
def test_a_finger_drags_a_number_and_does_not_scroll_the_page(open_offline, site):
    page = open_offline(site, several=True, **PHONE)
    open_lesson(page, "acceptance_tau_speedup", "From α to τ")
    answer(page)
    expect(page.locator(".sl-drag")).not_to_have_count(0)
    for each in page.locator(".sl-drag").all():
        size = each.bounding_box()
        assert min(size["width"], size["height"]) >= 24
    alpha = number(page, "alpha")
    alpha.evaluate("node => node.scrollIntoView({ block: 'center', behavior: 'instant' })")
    box, top = alpha.bounding_box(), page.evaluate("scrollY")
    before, tokens = float(alpha.inner_text()), result(page, "tokens")
    swipe(page, box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, -120)
    assert float(alpha.inner_text()) == pytest.approx(before - 0.4, abs=0.02)
    assert result(page, "tokens") != tokens and page.evaluate("scrollY") == top
    swipe(page, box["x"] + box["width"] / 2, box["y"] - 60, 0)  # on the text above, a finger scrolls
    wait_for(page, f"scrollY > {top}")


@pytest.mark.slow
def test_speedup_in_the_sentence_turns_where_the_lesson_says(page):
    open_lesson(page, "acceptance_tau_speedup", "A run that pays")
    answer(page)
    speed = lambda: float(result(page, "speed"))  # noqa: E731
    assert 1.1 < speed() < 1.25
    number(page, "c").press("End")
    assert speed() < 1
    number(page, "c").press("Home")
    for _ in range(5):
        number(page, "alpha").press("PageUp")
    assert speed() > 2


@pytest.mark.slow
def test_u_is_drawn_after_the_bet_and_decides(page):
    open_lesson(page, "accept_reject_resample", "A random number decides")
    u = number(page, "u")
    expect(u).to_be_hidden()
    assert not re.search(r"0\.36", page.locator(".sl-lesson-body").inner_text())
    answer(page)
    expect(page.locator(".sl-lesson-body")).to_contain_text("u was 0.36")
    assert result(page, "verdict") == "accepted"
    u.press("End")
    assert result(page, "verdict") == "rejected"


@pytest.mark.slow
def test_users_in_the_sentence_and_in_the_tool_are_the_same(page):
    open_lesson(page, "many_users", "One budget, many users")
    answer(page)
    users, slider = number(page, "users"), page.get_by_label("Users at once")
    users.press("End")
    expect(slider).to_have_value("24")
    expect(page.locator(".sl-budget-user")).to_have_count(24)
    assert result(page, "plain") == result(page, "same") == result(page, "surest") == "20.00"
    slider.press("Home")
    expect(users).to_have_text("1")
    told = page.locator(".sl-figure-box .sl-result")
    for name in ("plain", "same", "surest"):
        assert float(result(page, name)) == pytest.approx(float(told.get_attribute(f"data-{name}")), abs=0.006)

"""The idea in sixty seconds, in a browser: its sums, the page by keyboard, and the same from disk on a phone."""

import re

import pytest
from page_actions import OVERFLOW, open_lesson, violations
from player_page import page_with
from playwright.sync_api import Page, expect

from app.lessons_tab.minute import page as rendered
from engine.trace.trace import load
from lessons.loader import glossary, minute
from lessons.schema import TRACES

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("static-site")]


def at(page: Page, name: str) -> float:
    return float(page.locator(".sl-minute .sl-result").get_attribute(f"data-{name}"))


def button(page: Page):
    return page.locator(".sl-minute-go")


def test_moves_and_counts_are_those_of_the_run(browser):
    trace, wrong = (load(TRACES / f"{name}.json") for name in (minute().trace, minute().wrong_trace))
    page_data = rendered(minute(), trace, wrong, glossary())
    rounds = page_data["rounds"]
    with page_with(browser, "lessons/page/minute.js") as page:
        moves = page.evaluate("rounds => movesOf(rounds)", rounds)
        assert [m["round"] for m in moves if m["move"] == "keep"] == list(range(len(rounds)))
        assert sum(m["move"] == "guess" for m in moves) == sum(bool(one.parents) for one in trace.rounds)
        for move in moves:
            found = page.evaluate("([rounds, move]) => standing(rounds, move)", [rounds, move])
            over = trace.rounds[: move["round"] + (move["move"] == "keep")]
            assert found["texts"] == [token.text for one in over for token in one.emitted], move
            assert found["alone"] <= len(found["texts"]) and found["waits"] == 0
        last = [page_data["wrong_rounds"], {"round": len(wrong.rounds) - 1, "move": "keep"}]
        found = page.evaluate("([rounds, move]) => standing(rounds, move)", last)
        assert found["waits"] == int(last[0][-1]["at"] + 1e-9) - found["alone"] > 0
        said = [page.evaluate("one => verdictOn(one)", one) for one in rounds]
    assert said[0] == "Nothing to copy here. The model writes “The”."
    assert said[1] == "The model accepts “lighthouse”, “keeper” and rejects “clim”. It writes “climbed” instead."
    assert said[-1] == "All are accepted, and the text is complete."


def play(page: Page) -> None:
    """Plays the first round by keyboard, move by move; the rest then plays by itself."""
    wrong = page.get_by_role("button", name="Make every guess wrong")
    expect(wrong).to_be_hidden()
    button(page).focus()
    for move, states in (("Guess", "minute-open"), ("Check", "minute-open"), ("Keep", "accepted")):
        expect(button(page)).to_have_text(move)
        page.keyboard.press("Enter")
        expect(page.locator(".sl-minute-steps [data-now]")).to_contain_text(f"{move}.")
        expect(page.locator(f".sl-minute-row .sl-{states}")).to_have_count(4 if states == "minute-open" else 2)
    expect(page.locator(".sl-minute .sl-result")).to_contain_text("It writes “climbed” instead.")
    expect(page.locator(".sl-minute-end")).to_be_hidden()
    assert at(page, "tokens") == 4 and at(page, "alone") == 2
    page.keyboard.press("Enter")
    expect(button(page)).to_have_text("Pause")
    page.keyboard.press("Enter")
    expect(button(page)).to_have_text("Play the rest")
    page.keyboard.press("Enter")
    expect(button(page)).to_have_text("Play it again")
    expect(wrong).to_be_visible()
    trace = load(TRACES / f"{minute().trace}.json")
    assert (at(page, "tokens"), at(page, "passes")) == (len(trace.emitted), len(trace.rounds))
    assert at(page, "alone") < at(page, "tokens") / 2
    expect(page.locator(".sl-minute-end")).to_contain_text("the text is the same")


def break_it(page: Page) -> None:
    """Makes every guess wrong: the text stays, the clock doesn't."""
    text = page.locator(".sl-minute-text")
    page.get_by_role("button", name="Make every guess wrong").press("Enter")
    expect(page.locator(".sl-minute-steps li:visible")).to_have_text(re.compile("^Break it[.]"))
    expect(button(page)).to_have_text("Play it again")
    wrong = load(TRACES / f"{minute().wrong_trace}.json")
    assert (at(page, "tokens"), at(page, "passes")) == (len(wrong.emitted), len(wrong.rounds))
    assert at(page, "alone") == at(page, "tokens")  # one at a time it would have been there before
    expect(page.locator(".sl-minute-end")).to_contain_text("Not one guess was accepted, and the text is the same")
    expect(text).to_contain_text("the ships were glad of the")
    button(page).press("Enter")
    expect(button(page)).to_have_text("Guess")
    assert at(page, "tokens") == 1


def test_page_before_the_lessons_is_played_by_keyboard_and_leads_on(visit):
    """It goes to the end at once with reduced motion."""
    page = visit("#minute", reduced_motion="reduce")
    expect(page.locator(".sl-minute h2")).to_have_text("The idea in sixty seconds")
    expect(page.locator(".sl-minute")).to_be_in_viewport()
    for _ in range(4):
        button(page).press("Enter")
    page.get_by_role("button", name="Play it again").press("Enter")
    assert at(page, "tokens") == 1
    break_it(page)
    page.get_by_role("button", name="Try your own text").press("Enter")
    expect(page.locator("#prompt")).to_be_visible()
    assert page.evaluate("location.hash") == ""
    page.locator("#lessons-tab-button").click()
    page.get_by_role("link", name="Be the drafter yourself").press("Enter")
    expect(page.locator("#sl-lesson-title")).to_have_text(re.compile(r"^0\. "))
    page.keyboard.press("n")
    page.get_by_role("button", name="All lessons").click()
    expect(page.locator(".sl-minute-go")).to_be_hidden()  # folded for who has begun
    page.evaluate("location.hash = '#minute'")
    expect(page.locator(".sl-minute-go")).to_be_visible()


@pytest.mark.parametrize(("width", "height", "cards"), [(390, 844, 1), (1366, 768, 3)])
def test_the_first_move_is_on_the_first_screen(open_offline, site, width, height, cards):
    """On a phone the move to make stands alone above its button; the fourth comes after the first run."""
    page = open_offline(site, viewport={"width": width, "height": height})
    expect(button(page)).to_be_in_viewport(ratio=1)
    assert page.evaluate("scrollY") == 0
    place = button(page).bounding_box()["y"]
    shown = page.locator(".sl-minute-steps li:visible")
    expect(shown).to_have_count(cards)
    for name in ("Guess", "Check", "Keep"):
        button(page).click()
        expect(shown.filter(has_text=f"{name}.")).to_have_attribute("data-now", "")
    expect(shown).to_have_count(cards)
    assert abs(button(page).bounding_box()["y"] - place) < 40


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_page_before_the_lessons_plays_from_disk(open_offline, site, width, scheme):
    page = open_offline(site, several=True, viewport={"width": width, "height": 844}, color_scheme=scheme)
    assert violations(page, ".sl-minute") == []
    play(page)
    assert page.evaluate(OVERFLOW) <= 0 and violations(page, ".sl-minute") == []
    page.get_by_role("link", name="Be the drafter yourself").click()
    expect(page.locator("#sl-lesson-title")).to_have_text(re.compile(r"^0\. "))
    open_lesson(page, "draft_then_verify")
    page.get_by_role("button", name="All lessons").click()
    page.locator(".sl-minute > summary").click()
    page.locator(".sl-minute").get_by_role("link", name="Recorded runs").click()
    expect(page.locator("h1")).to_be_visible()
    assert page.url.endswith("runs.html")

"""Lesson 3's exercise: a rule of the learner's own is graded in the browser as on the command line."""

import json
import re

import pytest
from learner_rules import RIGHT_ON_PAGE, RIGHT_WRITINGS, WRONG, with_holes
from page_actions import OVERFLOW, violations
from playwright.sync_api import Page, expect

from engine.tools.exactness.known_rules import WRONG_RULES, law_of
from lessons.own_rule import exercise

pytestmark = pytest.mark.browser
STEP = ("accept_reject_resample", "Write the rule yourself")
EXERCISE = json.loads(json.dumps(exercise()))
GRADE = "([exercise, texts]) => gradeRule(exercise, texts)"


def graded(bare, *texts: str) -> dict:
    return bare.evaluate(GRADE, [EXERCISE, texts])


def refused(bare, *texts: str) -> tuple[int, str]:
    script = "([exercise, texts]) => { try { gradeRule(exercise, texts) } catch (e) { return [e.hole, e.message]; } }"
    return tuple(bare.evaluate(script, [EXERCISE, texts]))


@pytest.mark.parametrize("texts", [page for _, page in RIGHT_WRITINGS], ids=lambda texts: texts[0])
def test_a_right_rule_passes_however_it_is_written(bare, texts):
    grade = graded(bare, *texts)
    assert grade["verdict"] == "right" and not grade["mistakes"] and all(each["isRight"] for each in grade["decisions"])
    assert grade["alpha"] == grade["rightAlpha"] and len(grade["decisions"]) == 11


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_is_named_by_its_law(bare, name):
    (hole,) = WRONG[name][1]
    grade = graded(bare, *with_holes(RIGHT_ON_PAGE, WRONG[name][1]))
    assert grade["verdict"] == "wrong" and [each["hole"] for each in grade["mistakes"]] == [hole]
    assert (
        grade["mistakes"][0]["known"]["name"] == name
        and grade["mistakes"][0]["known"]["words"] == WRONG_RULES[name].words
    )
    assert grade["mistakes"][0]["law"] == pytest.approx(list(law_of(WRONG_RULES[name]).values()))
    most = grade["most"]
    assert abs(most["seen"] - most["wanted"]) > 100, "10,000 draws show it"


def test_the_other_known_rules_are_named_and_two_mistakes_each_by_its_own(bare):
    texts = {
        "good-enough": {0: "p > 0.1"}, "p-row-late": {0: "later / q"}, "no-test": {0: "1"},
        "residual-softmax": {1: "softmax(max(p - q, 0))"}, "residual-overlap": {1: "min(p, q)"},
        "bonus-from-residual": {2: "max(p - q, 0)"},
    }  # fmt: skip
    assert {*texts, *WRONG, "u-shared-by-drafts"} == WRONG_RULES.keys(), "a page has one u for each draft"
    for name, holes in texts.items():
        grade = graded(bare, *with_holes(RIGHT_ON_PAGE, holes))
        assert [each["known"]["name"] for each in grade["mistakes"]] == [name]
    both = graded(bare, "q / p", "p", "p")
    assert [each["known"]["name"] for each in both["mistakes"]] == ["ratio-inverted", "no-residual"]
    unknown = graded(bare, "0.5", "max(p - q, 0)", "p")
    assert unknown["verdict"] == "wrong" and [each["known"] for each in unknown["mistakes"]] == [None]
    plain = graded(bare, "0", "p", "p")
    assert (
        plain["verdict"] == "lossless" and plain["alpha"] == 0 and plain["rightAlpha"] == pytest.approx(0.46, abs=0.02)
    )


UNREADABLE = [
    (0, "", "empty"), (0, "p /", "missing at the end"), (0, "p q", "“q” doesn’t fit"), (0, "min(p", "at the end"),
    (0, "min p", "“p” doesn’t fit"), (0, "p)", "“)” doesn’t fit"), (0, "p[0]", "“[” can’t be read"),
    (0, "alert(1)", "There is no “alert” here"), (0, "constructor", "There is no “constructor”"),
    (0, "p; q", "“;” can’t be read"), (0, "u * q", "Compare u with something"), (0, "0 / 0", "must be one number"),
    (0, "<b>", "“<” doesn’t fit"), (0, "1..2", "“.2” doesn’t fit"), (0, ".", "can’t be read"), (0, "max()", "“)”"),
    (1, "u", "There is no “u”"), (1, "1", "This is one number"), (1, "sum(p)", "This is one number"),
    (1, "p - q", "for sun, which is no probability. It’s the known mistake residual-unclamped"),
    (1, "q - p", "for wind, which is no probability."), (1, "p / 0", "no probability"),
    (2, "p * 0", "0 for every word"), (2, "later", "There is no “later” here"),
]  # fmt: skip


@pytest.mark.parametrize(("hole", "text", "words"), UNREADABLE, ids=[text for _, text, _ in UNREADABLE])
def test_an_expression_without_a_meaning_is_refused_at_its_hole(bare, hole, text, words):
    at, message = refused(bare, *with_holes(RIGHT_ON_PAGE, {hole: text}))
    assert at == hole and words in message, message


def test_a_condition_with_u_has_its_exact_chance(bare):
    """Several borders, and one on the grid itself."""
    for text, chance in (("u < 0.123456789", 0.123456789), ("(u > 0.2) - (u > 0.7)", 0.5), ("u >= 0.25", 0.75)):
        found = bare.evaluate(
            "([text, words]) => readRule([text, 'p', 'p'], words).accept.chance({ p: 0.3, q: 0.5, later: 0.1 })",
            [text, EXERCISE["words"]],
        )
        assert found == pytest.approx(chance, abs=1e-9)


def field(page: Page, label: str):
    return page.get_by_role("textbox", name=label)


def test_blocks_and_keys_fill_the_holes_and_a_reload_keeps_them(at_tool):
    page: Page = at_tool(*STEP)
    box = page.locator(".sl-figure-box")
    box.get_by_role("button", name="Check it").click()
    expect(field(page, "Accept a draft when u <")).to_be_focused()
    expect(box.get_by_role("alert").first).to_have_text("This hole is empty: press a block, or type.")
    field(page, "Accept a draft when u <").fill("p")
    box.get_by_role("button", name="After a rejection, draw from max(p − q, 0)").press("Enter")
    box.get_by_role("button", name="After a full round, draw from p", exact=True).press("Space")
    expect(page.locator(".sl-lesson-next")).to_have_text("Skip")
    field(page, "Accept a draft when u <").press("Enter")
    expect(box.locator(".sl-rule-named")).to_contain_text("the known mistake q-ignored. Accepts when u < p")
    wrong = box.locator(".sl-rule-decisions [data-right=false]")
    expect(wrong.first).to_contain_text("Token 1, “rain”: you rejected it at u = 0.36; the rule accepts it")
    expect(page.locator(".sl-lesson-next")).to_have_text("Next")
    page.requests.clear()  # the tests after this one count what a page loads
    page.reload()
    expect(page.locator("#sl-lesson-title")).to_be_visible()
    expect(box.locator(".sl-rule-named")).to_contain_text("q-ignored")
    field(page, "Accept a draft when u <").fill("p / q")
    expect(box.locator(".sl-result")).to_be_empty()
    box.get_by_role("button", name="Check it").click()
    expect(box.locator(".sl-result")).to_contain_text("You’ve written the rule.")
    expect(box.locator(".sl-result")).to_contain_text(
        re.compile(r"In 10,000 rounds of another pair, “\w+ \w+ \w+” came")
    )
    for size in ({"width": 390, "height": 844}, {"width": 1280, "height": 800}):
        page.set_viewport_size(size)
        page.wait_for_function(f"{OVERFLOW} <= 0")
    assert violations(page, ".sl-figure-box") == []

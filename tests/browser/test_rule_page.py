"""Lesson 3's exercise: a rule of the learner's own is graded in the browser as on the command line."""

import json
import re

import pytest
import torch
from learner_rules import RIGHT_ON_PAGE, RIGHT_WRITINGS, WRONG, with_holes
from page_actions import OVERFLOW, check_light_and_dark, violations
from playwright.sync_api import Page, expect

from engine.sampling.rejection import verify_tree
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
def test_page_passes_a_right_rule_however_it_is_written(bare, texts):
    grade = graded(bare, *texts)
    assert grade["verdict"] == "right" and not grade["mistakes"] and all(each["isRight"] for each in grade["decisions"])
    assert grade["alpha"] == grade["rightAlpha"] and len(grade["decisions"]) == 11


@pytest.mark.parametrize("name", WRONG)
def test_page_names_a_wrong_rule_by_its_law(bare, name):
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
    assert unknown["mistakes"][0]["words"].endswith(" it accepts 50 of 100 drafts, the rule 100.")
    plain = graded(bare, "0", "p", "p")
    assert (
        plain["verdict"] == "lossless" and plain["alpha"] == 0 and plain["rightAlpha"] == pytest.approx(0.46, abs=0.02)
    )


# Mistakes of learners that no program is known for.
DESCRIBED = [
    (0, "u < q", "What the target thinks"), (0, "min(q, p)", "the chance to be drafted and accepted"),
    (0, "q * p", "once more"), (0, "p - q", "a difference accepts none"), (0, "p / (q + p)", "accepts half"),
    (0, "(p / q) ^ 2", "come out as often as p wants"), (1, "q + p", "offers too often come back"),
    (1, "p * q", "What is still missing?"), (1, "p / q", "how much of it is missing"), (1, "1 - p", "doesn’t want"),
    (1, "p * p", "isn’t what is still missing"), (2, "p + q", "the target alone decides"),
    (2, "1 - p", "the target alone decides"),
]  # fmt: skip


@pytest.mark.parametrize(("hole", "text", "words"), DESCRIBED, ids=[text for _, text, _ in DESCRIBED])
def test_a_mistake_without_a_name_is_described_with_its_numbers(bare, hole, text, words):
    (mistake,) = graded(bare, *with_holes(RIGHT_ON_PAGE, {hole: text}))["mistakes"]
    mine, its = map(
        int, re.search(r"(\d+) (?:of|times in) 100(?: drafts)?, the rule (\d+)\.$", mistake["words"]).groups()
    )
    assert mistake["known"] is None and words in mistake["words"] and abs(mine - its) > 4


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
    expect(box.locator(".sl-result")).to_contain_text("No other text was further off, and that much is chance")
    for size in ({"width": 390, "height": 844}, {"width": 1280, "height": 800}):
        page.set_viewport_size(size)
        page.wait_for_function(f"{OVERFLOW} <= 0")
    assert violations(page, ".sl-figure-box") == []


def test_powers_bind_tighter_than_a_sign_and_to_the_right(bare):
    for text, value in (("2 ^ 3 ^ 2", 512), ("-2 ^ 2", -4), ("2 * 3 ** 2", 18), ("2 ^ -1", 0.5)):
        assert bare.evaluate("text => parseExpression(text, []).value({})", text) == value


SIBLINGS = ("max(p - q, 0)", "rest / q", "max(rest - q, 0)")
SIBLING_MISTAKES = [
    (0, "p", "as if nothing had been tested"), (0, "q", "the drafter’s row"), (0, "abs(p - q)", "keeps words"),
    (0, "max(q - p, 0)", "the wrong way round"), (0, "min(p, q)", "covered already"),
    (1, "p / q", "test it against the rest"), (1, "q / rest", "upside down"), (1, "rest", "forgot to divide by q"),
    (1, "1", "without a test"), (1, "p", "the rest, divided by q"), (2, "rest", "comes off once more"),
    (2, "max(p - q, 0)", "comes off once more"), (2, "p", "as if no sibling"), (2, "q", "The target’s is wanted"),
    (2, "max(p - 2 * q, 0)", "scaled to 1 in between"),
]  # fmt: skip


@pytest.mark.parametrize(("hole", "text", "words"), SIBLING_MISTAKES, ids=[f"{h} {t}" for h, t, _ in SIBLING_MISTAKES])
def test_a_wrong_rule_for_siblings_is_told_its_mistake(bare, hole, text, words):
    grade = bare.evaluate("texts => gradeSiblings(texts)", with_holes(SIBLINGS, {hole: text}))
    assert grade["verdict"] == "wrong" and [each["hole"] for each in grade["mistakes"]] == [hole]
    assert words in grade["mistakes"][0]["says"]
    assert abs(grade["most"]["share"] - grade["most"]["wanted"]) > 0.004


def test_the_rule_for_siblings_decides_as_the_engine(bare):
    """Two independent siblings of one place, by `verify_tree`."""
    p, q = (torch.tensor(bare.evaluate(name), dtype=torch.float64) for name in ("SIBLING_P", "SIBLING_Q"))
    for texts in (SIBLINGS, ("normalise(max(p - q, 0))", "min(1, rest / q)", "2 * max(rest - q, 0)")):
        grade = bare.evaluate("texts => gradeSiblings(texts)", texts)
        assert grade["verdict"] == "right" and all(each["isRight"] for each in grade["decisions"])
        assert bare.evaluate("texts => siblingLaw(texts)", texts) == pytest.approx(p.tolist())
    seen = set()
    for first, second, u, other in bare.evaluate("SIBLING_ROUNDS"):
        found = bare.evaluate("round => siblingDecision(['max(p - q, 0)', 'rest / q', 'max(rest - q, 0)'], round)",
                              [first, second, u, other])  # fmt: skip
        verdict = verify_tree(
            torch.stack([p, p, p]), torch.stack([q, q]), torch.tensor([first, second]), torch.tensor([0, 0]),
            torch.tensor([u, other], dtype=torch.float64), torch.full((3,), 0.5, dtype=torch.float64),
        )  # fmt: skip
        accepted = [i for i, is_accepted in enumerate(verdict.path.tolist(), 1) if is_accepted]
        assert [found["accepted"]] == (accepted or [None])
        if not accepted:
            assert found["row"] == pytest.approx(verdict.row.tolist())
        seen.add(found["accepted"])
    assert seen == {1, 2, None}


GAMMA_MISTAKES = [
    ("tokens", "the longest"), ("gamma", "the longest"), ("alpha * gamma / (1 + gamma * c)", "the longest"),
    ("alpha ^ gamma", "never drafts"), ("tokens - gamma * c", "subtracted"), ("tokens - (1 + gamma * c)", "subtracted"),
    ("(tokens - 1) / (1 + gamma * c)", "own token"), ("tokens / (1 + (gamma + 1) * c)", "γ + 1 draft steps"),
    ("(1 - alpha ^ gamma) / (1 - alpha) / (1 + gamma * c)", "γ instead of γ + 1"),
    ("(1 + alpha * gamma) / (1 + gamma * c)", "the chance α"),
]  # fmt: skip


def test_the_choice_of_gamma_is_graded_by_what_it_takes(bare):
    for text in (
        "tokens / (1 + gamma * c)", "(1 - alpha^(gamma + 1)) / (1 - alpha) / (gamma * c + 1)",
        "-(1 + c * gamma) / tokens", "tokens / (1 + gamma * c) - 1",
    ):  # fmt: skip
        assert bare.evaluate("text => gradeGamma([text])", text)["verdict"] == "right", text
    for text, words in GAMMA_MISTAKES:
        grade = bare.evaluate("text => gradeGamma([text])", text)
        assert grade["verdict"] == "wrong" and words in grade["says"], text
        assert grade["worst"]["mine"] < grade["worst"]["its"]
    unknown = bare.evaluate("text => gradeGamma([text])", "max(2 - gamma, gamma - 2) * -1")
    assert unknown["verdict"] == "wrong" and unknown["says"] is None
    for text, words in (("", "empty"), ("tokens / gamma", "divides by 0"), ("0 / 0", "one number")):
        script = "text => { try { gradeGamma([text]) } catch (e) { return e.message; } }"
        assert words in bare.evaluate(script, text)


def test_the_page_of_the_rule_is_filled_by_keyboard_and_outlasts_a_reload(visit):
    page = visit("#lessons")
    page.get_by_role("link", name="Write the rule yourself").press("Enter")
    boxes = page.locator(".sl-rule-page .sl-figure-box")
    expect(boxes).to_have_count(3)
    assert page.url.endswith("#rule")
    boxes.nth(1).get_by_role("button", name="The first is rejected. Go on with max(p − q, 0)").press("Enter")
    boxes.nth(1).get_by_role("button", name="Accept the second when u < p / q").press("Enter")
    field(page, "Both are rejected. Draw from").fill("max(rest - q, 0)")
    field(page, "Both are rejected. Draw from").press("Enter")
    expect(boxes.nth(1).locator(".sl-rule-named")).to_contain_text("test it against the rest")
    field(page, "Take the γ with the largest").fill("tokens / (1 + gamma * c)")
    field(page, "Take the γ with the largest").press("Enter")
    expect(boxes.nth(2).locator(".sl-result")).to_contain_text("the fastest γ at all")
    page.reload()
    expect(boxes.nth(1).locator(".sl-rule-named")).to_contain_text("test it against the rest")
    check_light_and_dark(page, ".sl-rule-page")
    page.locator(".sl-rule-page").get_by_role("link", name="lesson 12").click()
    expect(page.locator("#sl-lesson-title")).to_contain_text("12. ")
    page.go_back()
    expect(boxes).to_have_count(3)
    page.locator(".sl-rule-page").get_by_role("button", name="All lessons").click()
    expect(page.locator("#sl-lesson-list-title")).to_be_visible()

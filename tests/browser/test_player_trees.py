"""Trees and forbidden drafts in the player, in a real browser."""

from dataclasses import replace

import pytest
from page_actions import ROWS, text_of
from player_page import STEPS, stages
from playwright.sync_api import expect
from sample_traces import constrained, constrained_tree, tree

from app.views import player_feed
from engine.trace.events import Round, Timings, Token

pytestmark = pytest.mark.browser


def test_a_forbidden_draft_comes_with_the_scores_and_is_no_rejected_one(open_player):
    page = open_player(constrained(), at_end=False)
    page.keyboard.press("Home")
    steps = page.evaluate(STEPS, 7)
    assert steps[2] == ["waiting"] * 3 and steps[3] == [*["scored"] * 3, "forbidden"]
    assert steps[-1] == ["accepted", "rejected", "discarded", "forbidden", "resampled"]
    page.keyboard.press("End")
    assert stages(page) == ["forbidden", "plain"], "not in a row with plain rounds"
    forbidden = page.get_by_role("button", name="<i> forbidden", exact=True)
    page.locator(".sl-list .sl-discarded").focus()
    page.keyboard.press("ArrowRight")
    expect(forbidden).to_be_focused()
    expect(page.locator(".sl-tip")).to_contain_text("forbids this word here")
    page.keyboard.press("Enter")
    expect(page.locator(".sl-inspector")).to_contain_text("round 1, not scored")
    expect(page.locator(".sl-inspector")).to_contain_text("so the target did not score it. α does not count it.")
    expect(page.locator(".sl-inspector").get_by_role("button", name="Force")).to_have_count(0)


# The column and the row of each token of the last row, by its text.
PLACES = """() => Object.fromEntries([...document.querySelectorAll('.sl-row:last-child .sl-token')].map(
  node => [node.querySelector('.sl-piece').textContent, [node.style.gridColumnStart, node.style.gridRowStart]]))"""


def test_a_forbidden_draft_of_a_tree_is_a_leaf_of_the_draft_it_followed(open_player):
    page = open_player(constrained_tree())
    places = page.evaluate(PLACES)
    assert places["five"][0] == places["c"][0] and places["six"][0] == places["g"][0]
    assert len({tuple(place) for place in places.values()}) == len(places), "no two are in one place"
    expect(page.locator(".sl-list .sl-forbidden")).to_have_count(2)
    six = page.get_by_role("button", name="six forbidden, another branch", exact=True)
    six.click()
    expect(page.locator(".sl-inspector")).to_contain_text("The grammar removed 75.0 % of p")  # where g was tested


def test_tree_shows_siblings_below_each_other_step_by_step(open_player):
    page = open_player(tree(), at_end=False)
    page.keyboard.press("Home")
    *drafted, scored, first_verdict = page.evaluate(STEPS, 9)
    assert drafted == [["waiting"] * step for step in range(1, 8)] and scored == ["scored"] * 7
    assert first_verdict[:2] == ["rejected", "scored"]
    page.keyboard.press("End")
    boxes = {
        node.locator(".sl-piece").inner_text(): node.bounding_box() for node in page.locator(".sl-list .sl-token").all()
    }
    assert len(boxes) == 8

    def places(side: str, names: str) -> set[int]:
        return {round(boxes[name][side]) for name in names}

    assert len(places("x", "ab")) == len(places("x", "cdef")) == 1  # as deep as each other
    assert [boxes[name]["x"] for name in "bdgz"] == sorted(boxes[name]["x"] for name in "bdgz")
    assert len(places("y", "ab")) == 2 and len(places("y", "def")) == 3  # siblings apart
    assert [len(places("y", names)) for names in ("ac", "bd", "fgz")] == [1] * 3  # each on its parent's lane
    assert text_of(page) == "bfz" and page.locator(".sl-kept").inner_text() == "2 of 7 accepted"


def test_tree_is_one_line_until_one_of_its_tokens_is_inspected(open_player):
    whole = tree()
    after = Round(1, 0, (Token(5, "y", "plain", 3, 1, p=0.5, u=0.1),), (), 0, 8, Timings(0, 0.1, 0, 0), 0.1, 0.2)
    drafts = [replace(t, expected=0.3) for t in whole.rounds[0].tokens[:-1]]
    first = replace(whole.rounds[0], tokens=(*drafts, whole.rounds[0].tokens[-1]), row_cost=0.1)
    page = open_player(replace(whole, rounds=(first, after)))
    line, shown = page.locator(".sl-line").first, page.locator(".sl-line").first.locator(".sl-token:visible .sl-piece")
    assert shown.all_inner_texts() == ["a", "b", "d", "e", "f", "g", "z"], "in the order tried"
    assert line.evaluate("node => getComputedStyle(node, '::after').content") == '"+ 1 discarded"'
    low = line.bounding_box()["height"]
    line.click(position={"x": 300, "y": 8})
    expect(line.locator(".sl-token:visible")).to_have_count(8)
    assert line.bounding_box()["height"] > 2 * low
    line.get_by_text("f", exact=True).click()
    panel = page.locator(".sl-inspected-token")
    assert panel.locator(".sl-siblings tbody th").all_inner_texts() == ["d", "e", "f"]
    expect(panel).to_contain_text("a further row would have cost 0.1")
    page.keyboard.press("Escape")
    expect(line.locator(".sl-token:visible")).to_have_count(7)
    many = tuple(replace(first, index=i, start=i / 10, end=i / 10 + 0.1) for i in range(20))
    page.set_viewport_size({"width": 1280, "height": 800})
    page.evaluate("text => feed(text)", player_feed.complete("many", replace(whole, rounds=(*many, after))))
    page.wait_for_function(f"({ROWS})() >= 10")  # two of which the strip takes on the page

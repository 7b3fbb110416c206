"""What the player's inspector says of a token, in a real browser."""

import re
from dataclasses import replace

import pytest
from page_actions import wait_until_above
from player_page import make_trace
from player_runs import by_rule, drafted_by
from playwright.sync_api import expect
from sample_traces import constrained, siblings
from server_recordings import uncounted_recording
from stand_in_server import RECORDED, vllm
from stand_in_server import recorded as served
from visits import PHONE

from app.views import player_feed
from engine.files import ASSETS
from engine.tools.servers.log_trace import read_traces
from engine.trace.trace import load

pytestmark = pytest.mark.browser


def test_a_rescued_draft_shows_the_numbers_of_its_whole_block(open_player):
    trace = by_rule("block")
    round_, token = next((r, t) for r in trace.rounds for t in r.tokens if t.status == "rescued")
    page = open_player(trace)
    expect(page.locator(".sl-rounds .sl-means-rescued")).to_be_visible()
    chip = page.locator(".sl-list .sl-rescued").first
    chip.click()
    inspector, rows = page.locator(".sl-inspector"), page.locator(".sl-inspector .sl-block tbody tr")
    expect(rows).to_have_count(len(round_.parents))
    here = inspector.locator(".sl-block .sl-here td")
    recorded = here.all_inner_texts()
    assert recorded[1:5] == [f"{number:.3f}" for number in (token.accept, token.running, token.h, token.u)]
    table = inspector.locator(".sl-block tbody")
    before = table.text_content()
    inspector.get_by_role("button", name="Re-roll u").click()
    inspector.get_by_role("button", name="100 times").click()
    expect(inspector.locator(".sl-rolled")).to_contain_text("of 101")
    expect(table).not_to_have_text(before)  # one u alone may come again to three digits
    inspector.get_by_role("button", name="Back to the recorded u").click()
    expect(here).to_have_text(recorded)


def test_click_locks_a_tokens_numbers_and_shows_the_residual(open_player):
    page = open_player(make_trace())
    token, inspector = page.locator(".sl-list .sl-accepted").last, page.locator(".sl-inspector")
    token.hover()
    expect(page.get_by_role("tooltip")).to_contain_text("min(1, p/q)")
    token.click()
    expect(inspector).to_contain_text(re.compile(r"too often: draft 83.*target 61.*\) fell below 0\.735: accepted"))
    expect(inspector.locator(".sl-formula")).to_contain_text("min(1, 0.610 / 0.830)")
    page.locator(".sl-list .sl-bonus").last.hover()
    expect(inspector).to_contain_text(": accepted")  # locked: hovering elsewhere changes nothing
    page.keyboard.press("Escape")
    expect(inspector).to_contain_text("Click a token")
    page.locator(".sl-list .sl-rejected").last.click()
    expect(inspector).to_contain_text("fell above 0.735: rejected.")
    drawn = inspector.locator(".sl-candidates .sl-drawn")
    expect(drawn).to_contain_text("↻ drawn")
    expect(inspector).to_contain_text("has 90.9 % of it")
    expect(inspector).to_contain_text("p above q, 0.220")
    page.locator(".sl-list .sl-resampled").last.click()
    expect(inspector).to_contain_text("was rejected, so this came from the residual: u = 0.200 drew it")
    expect(inspector.locator(".sl-candidates .sl-drawn")).to_have_count(1)  # sent once, with the rejected draft


def test_each_mark_and_badge_says_what_it_means_on_hover_focus_and_touch(open_player):
    page = open_player(load(ASSETS / "data" / "traces" / "opening.json"))
    tip, marks = page.get_by_role("tooltip"), page.locator(".sl-rounds .sl-legend button:visible")
    expect(marks).to_have_count(8)
    for mark in marks.all():
        meaning = mark.locator("xpath=..").locator(".sl-meaning").text_content()
        for act in (mark.hover, mark.focus, mark.click):
            act()
            expect(tip).to_have_text(meaning)
            page.mouse.move(1, 1)
            mark.blur()
            expect(tip).to_be_hidden()
    assert marks.last.text_content() == "✗ ✗" and "several guesses for one place" in meaning, "the frame of siblings"
    badges = page.locator(".sl-list .sl-tag", has_text="n-gram")
    badges.first.hover()
    expect(tip).to_have_text("n-gram lookup: copies what came before")
    page.evaluate("text => feed(text)", player_feed.complete("a chain", make_trace()))
    expect(page.locator(".sl-rounds .sl-means-frame")).to_be_hidden()


def test_only_the_last_of_rejected_siblings_shows_what_replaced_it(open_player):
    """The closing token's q is that of the last draw, so it says nothing of the draw before."""
    page = open_player(siblings())
    expect(page.locator(".sl-list .sl-resampled")).to_be_visible()
    rows = page.locator(".sl-inspector .sl-candidates > li").filter(has_text="z")
    page.locator(".sl-list .sl-rejected").first.click()
    expect(rows.locator(".sl-q")).to_have_text("12.5 %")
    expect(page.locator(".sl-inspector .sl-drawn")).to_have_count(0)
    page.locator(".sl-list .sl-rejected").last.click()
    expect(rows.locator(".sl-q")).to_have_text("50.0 %")
    expect(page.locator(".sl-inspector .sl-drawn")).to_contain_text("z")


def test_click_counts_for_the_pressed_token_while_the_list_moves(open_player):
    page = open_player(make_trace(400))
    token = page.locator(".sl-list .sl-token").last
    token.hover()
    word, box = token.inner_text(), token.bounding_box()
    page.mouse.down()
    page.locator(".sl-rows").evaluate("node => node.scrollBy(0, -70)")
    page.mouse.up()
    expect(page.locator(".sl-inspector")).to_have_attribute("data-open", "locked")
    expect(page.locator(".sl-list [aria-current=true]")).to_have_text(word, use_inner_text=True)
    page.keyboard.press("Escape")
    token.hover()
    page.mouse.down()
    page.mouse.move(box["x"] + 5, box["y"] - 90)
    page.mouse.up()
    expect(page.locator(".sl-inspector")).to_have_attribute("data-open", "")


def test_another_token_is_forced_but_never_the_one_that_was_written(open_player):
    page = open_player(make_trace())
    written = page.locator(".sl-list .sl-resampled").last
    page.locator(".sl-list .sl-rejected").last.click()
    page.get_by_role("button", name="Force another token").click()
    forced = [button.get_attribute("aria-label") for button in page.locator(".sl-fork").all()]
    text = written.locator(".sl-piece").inner_text().strip()
    assert forced and not [
        words for words in forced if f"“{text}”" in words.replace("\u2068", "").replace("\u2069", "")
    ]
    expect(page.locator(".sl-drawn .sl-fork")).to_have_count(0)


def test_rerolling_u_flips_the_verdict_and_comes_back(open_player):
    page = open_player(make_trace())
    page.locator(".sl-list .sl-accepted").last.click()
    said, roll = page.locator(".sl-rolled"), page.get_by_role("button", name="Re-roll u")
    page.evaluate("Math.random = () => 0.9")
    roll.click()
    expect(said).to_contain_text("u = 0.900 is not below 0.735: it would be rejected. The verdict flips.")
    expect(said).to_contain_text("Its replacement, drawn from the residual")
    page.evaluate("Math.random = () => 0.1")
    roll.click()
    expect(said).to_contain_text("it would be accepted. The same verdict. So far 1 of 2 accepted; expected 73.5 %")
    expect(roll).to_be_focused()
    page.get_by_role("button", name="Back to the recorded u").click()
    expect(said).to_have_text("")
    expect(roll).to_be_focused()
    roll.click()
    page.evaluate("let state = 1; Math.random = () => (state = (state * 48271) % 2147483647) / 2147483647")
    page.get_by_role("button", name="100 times").click()
    accepted = int(re.search(r"So far (\d+) of 101 accepted", said.inner_text())[1])
    assert 60 <= accepted <= 87  # 73.5 expected, 4.4 the standard deviation


def test_stepping_by_hand_shows_only_what_is_known_by_then(open_player):
    page = open_player(make_trace(), at_end=False)
    page.keyboard.press("Home")
    page.keyboard.press("k")
    inspector = page.locator(".sl-inspector")
    expect(inspector).to_contain_text("the target has not looked at it yet")
    expect(inspector.locator(".sl-p:not(:empty), .sl-chance")).to_have_count(0)
    for _ in range(4):
        page.keyboard.press("k")
    expect(inspector).to_contain_text("It is accepted if u falls below 0.735")
    expect(inspector.locator(".sl-chance")).to_have_count(1)
    expect(inspector.locator(".sl-tick")).to_have_count(0)
    page.keyboard.press("k")
    expect(inspector.locator(".sl-tick")).to_have_count(1)


def test_a_draft_from_the_grammar_tells_what_it_took_of_p(open_player):
    page = open_player(constrained())
    expect(page.locator(".sl-rounds .sl-means-grammar")).to_be_visible()
    page.get_by_role("button", name="x accepted, from the grammar", exact=True).click()
    expect(page.locator(".sl-list [data-grammar] .sl-mark")).to_have_text("✓§")
    expect(page.locator(".sl-inspector")).to_contain_text("The grammar leaves no other text here")
    expect(page.locator(".sl-inspector")).to_contain_text(
        "The grammar removed 75.0 % of p, first of all “⁨The⁩” 50.0 %, “⁨<b>⁩” 12.5 %."
    )
    expect(page.locator(".sl-compared")).to_contain_text("The text is unfinished, because the token limit was reached.")
    page = open_player(make_trace())
    expect(page.locator(".sl-rounds .sl-legend")).to_be_visible()
    expect(page.locator(".sl-rounds :is(.sl-means-grammar, .sl-means-forbidden)")).to_have_count(2)
    for entry in page.locator(".sl-rounds :is(.sl-means-grammar, .sl-means-forbidden)").all():
        expect(entry).to_be_hidden()


def test_on_a_phone_a_tap_brings_the_numbers_up_and_the_way_out_stays(open_player):
    page = open_player(make_trace(), **PHONE)
    sheet = page.locator(".sl-inspector")
    way_out = page.get_by_role("button", name="Unlock the token")
    page.locator(".sl-list .sl-rejected").last.tap()
    expect(sheet).to_be_in_viewport()
    sheet.evaluate("node => { node.style.maxHeight = '180px'; node.scrollTo(0, node.scrollHeight); }")
    assert sheet.evaluate("node => node.scrollTop") > 50  # else the next lines show nothing
    expect(way_out).to_be_in_viewport(ratio=1)
    page.locator(".sl-list .sl-resampled").last.tap()
    page.wait_for_function("document.querySelector('.sl-inspector').scrollTop === 0")  # the next one from its beginning
    expect(sheet.locator(".sl-inspected")).to_be_in_viewport(ratio=1)
    way_out.tap()
    expect(sheet).to_have_attribute("data-open", "")

    page.add_style_tag(content="body { padding-bottom: 900px }")
    sheet.evaluate("node => node.scrollIntoView({ block: 'start', behavior: 'instant' })")
    expect(page.locator(".sl-rows")).not_to_be_in_viewport()
    page.get_by_role("button", name=re.compile("^Why was")).tap()  # the rejected draft comes into sight
    asked = page.locator(".sl-list [aria-current]")
    expect(asked).to_be_in_viewport(ratio=0.99)
    wait_until_above(asked, sheet)


@pytest.mark.parametrize(
    ("method", "part", "how", "guess"),
    [
        ("medusa", "head", "each by a head of its own", "Head 2 guessed it from the state before this round"),
        ("block", "place", "in one pass of a small network", "Place 2 of its block, from the one pass"),
    ],
)
def test_drafts_guessed_at_once_are_columns_while_their_round_is_inspected(open_player, method, part, how, guess):
    page = open_player(drafted_by(method, make_trace(30, 3)))
    row = page.locator(".sl-row").nth(2)
    expect(row.locator(".sl-how")).to_be_hidden()
    row.locator(".sl-token").nth(1).click()
    parts = row.locator(".sl-heads [data-head]").evaluate_all("all => all.map(node => node.dataset.head)")
    assert parts == [f"{part} {number}" for number in (1, 2, 3)]
    expect(row.locator(".sl-how")).to_contain_text(how)
    expect(page.locator(".sl-inspector")).to_contain_text(guess)
    page.locator(".sl-row").nth(3).locator(".sl-token").first.click()
    expect(row.locator(".sl-how")).to_be_hidden()


def test_a_servers_rejected_guesses_look_unknown(open_player):
    page = open_player(served(vllm())[0], is_recorded=True)
    row = page.locator(".sl-row", has=page.locator(".sl-rejected")).first
    chip = row.locator(".sl-rejected")
    expect(chip).to_have_css("border-style", "dashed")
    expect(chip).to_have_css("text-decoration-line", "none")
    expect(chip).to_contain_text("?")
    chip.click()
    inspector = page.locator(".sl-inspected-token")
    expect(inspector.locator(".sl-rejected")).to_have_css("border-style", "dashed")
    expect(inspector).to_contain_text("1 of 3 guesses were rejected.")
    expect(inspector).to_contain_text("not which words they were")
    expect(inspector).to_contain_text("vLLM 0.32.0 tells")
    assert "undefined" not in inspector.inner_text() and "one-hot" not in inspector.inner_text()
    row.locator(".sl-accepted").first.click()
    expect(inspector).not_to_contain_text("Rejected:")
    assert "null" not in page.locator(".sl-player").inner_html()


def test_a_logs_rejected_words_are_explained_and_none_can_be_forced(open_player):
    page = open_player(read_traces((RECORDED / "llama_b11434_draft_log.txt").read_bytes(), "log")[0], is_recorded=True)
    page.locator(".sl-list .sl-token.sl-rejected").first.click()
    inspector = page.locator(".sl-inspected-token")
    expect(inspector).to_contain_text("The server rejected this guess.")
    expect(inspector.locator(".sl-candidates")).to_contain_text("60.9 %")
    expect(inspector.get_by_role("button", name="Force another token")).to_have_count(0)


def test_an_end_in_a_servers_own_word_is_shown_as_it_is(open_player):
    trace = uncounted_recording()
    page = open_player(replace(trace, finished=replace(trace.finished, reason="content_filter")), is_recorded=True)
    expect(page.locator(".sl-compared")).to_contain_text("The server ended it (content_filter) after 10 tokens.")

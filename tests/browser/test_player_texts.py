"""Hostile tokens in the player, in a real browser: they are only text, and fit."""

from dataclasses import replace

import pytest
from page_actions import OVERFLOW, text_of
from player_page import make_trace
from player_runs import HOSTILE, with_texts
from playwright.sync_api import expect

from app.views import player_feed
from engine.files import ASSETS
from engine.trace.events import PromptToken
from engine.trace.trace import Trace, load

pytestmark = pytest.mark.browser
# The texts, heights and fields that each of these values leaves on the page.
FORCED = """values => values.map(value => {
  feed(value);
  const find = selector => document.querySelector(selector), heads = find('.sl-lane-heads');
  return {
    run: find('.sl-text').textContent, branch: find('.sl-branch-text').textContent, height: heads.offsetHeight,
    words: heads.querySelectorAll('.sl-forced-word').length,
    overflow: Math.max(0, OVERFLOW),
  };
})""".replace("OVERFLOW", OVERFLOW)


def test_hostile_tokens_are_only_text(open_player):
    trace = with_texts(HOSTILE)
    page = open_player(trace)
    as_shown = "".join(HOSTILE) * 2
    assert text_of(page).encode("utf-16", "surrogatepass") == as_shown.encode("utf-16", "surrogatepass")
    tokens = page.locator(".sl-list .sl-token")
    tokens.evaluate_all("all => all.forEach(token => token.click())")
    expect(tokens.last.locator(".sl-piece")).to_have_text("␣␣")  # a token of spaces is seen
    page.set_viewport_size({"width": 320, "height": 900})
    runs = [player_feed.complete(f"run {i}", forking(trace, text)) for i, text in enumerate(HOSTILE)]
    for text, shown in zip(HOSTILE, page.evaluate(FORCED, runs), strict=True):
        expected = {"run": as_shown, "branch": HOSTILE[0] + text + as_shown, "words": 1, "overflow": 0}
        height = shown.pop("height")
        assert shown == expected and height < 40, "one line"
    assert page.locator("#stage script, #stage img").count() == 0


def forking(run: Trace, text: str) -> Trace:
    """Adds a branch of the same rounds, in which ``text`` was forced in place of the second token."""
    first, *_ = run.emitted
    prefix = (PromptToken(first.id, first.text), PromptToken(99, text))
    return replace(run, branch=replace(run, started=replace(run.started, prefix=prefix)))


def test_captions_point_at_hostile_tokens_and_long_drafts_wrap(open_player):
    """γ is 16, and the captions point at tokens of markup, also beside a branch."""
    trace = make_trace(200, gamma=16)
    rounds = [replace(r, tokens=tuple(replace(t, text=HOSTILE[i % 7]) for i, t in enumerate(r.tokens)))
              if 9 <= r.index <= 12 else r for r in trace.rounds]  # fmt: skip
    page = open_player(replace(trace, rounds=tuple(rounds)), is_recorded=True, at_end=False, fresh=True)
    expect(page.locator(".sl-captions p b")).to_have_count(3)
    expect(page.locator(".sl-captions")).not_to_contain_text("pwned")
    for shown in (replace(trace, branch=None), forking(trace, "x")):
        page.evaluate("text => feed(text)", player_feed.complete(f"branch {bool(shown.branch)}", shown))
        for width, height in ((1280, 800), (320, 844)):
            page.set_viewport_size({"width": width, "height": height})
            page.wait_for_function(f"{OVERFLOW} <= 0")
            page.wait_for_function(f"({CUT})().length === 0")
    assert max(row.locator(".sl-token").count() for row in page.locator(".sl-row").all()) >= 17


# The classes of the lowest token above each caption's leader; of one without, the word beside its mark.
POINTED_AT = """() => [...document.querySelectorAll('.sl-captions p')].map(caption => {
  const { left } = caption.getBoundingClientRect(), x = left;
  const word = caption.querySelector('b').textContent.toLowerCase();
  const above = [...caption.closest('li').querySelectorAll('.sl-token')]
    .map(chip => [chip, chip.getBoundingClientRect()])
    .filter(([, box]) => box.left <= x && x <= box.right).sort((a, b) => b[1].bottom - a[1].bottom);
  const [mark, status] = word.split(' '), marked = caption.closest('li').querySelector(`.sl-${status} .sl-mark`);
  const isMarked = caption.hasAttribute('data-moved') && marked.textContent === mark;
  return [status, isMarked ? `sl-${status}` : above[0]?.[0].className ?? ''];
})"""


@pytest.mark.parametrize("width", [1366, 390, *(pytest.param(wide, marks=pytest.mark.slow) for wide in (1280, 1440))])
def test_each_caption_points_at_a_token_of_its_kind(open_player, width):
    page = open_player(load(ASSETS / "data" / "traces" / "opening.json"), is_recorded=True, at_end=False, fresh=True)
    page.set_viewport_size({"width": width, "height": 800})
    expect(page.locator(".sl-captions p")).to_have_count(3)
    page.wait_for_function(f"({POINTED_AT})().every(([word, classes]) => classes.includes('sl-' + word))")
    places = page.locator(".sl-captions p").evaluate_all(
        "all => all.map(each => parseFloat(each.style.getPropertyValue('--from')))"
    )
    assert places == sorted(places, reverse=True), "a leader would run through the words of another"
    row = page.locator(".sl-row:has(.sl-captions)")
    (rejected,) = row.locator(".sl-rejected").all_inner_texts()
    assert "glass" in rejected, "the first rejection that is explained is a plain disagreement"
    for meaning in ("the model keeps this guess.", "it ends the round.", "the model’s own word instead."):
        assert meaning in page.locator(".sl-captions").inner_text()
    assert row.locator(".sl-captions p").evaluate_all("all => all.every(each => each.scrollWidth <= each.clientWidth)")


# Tokens that reach beyond their row.
CUT = """() => [...document.querySelectorAll('.sl-row .sl-token')].filter(token => {
  const [box, line, row] = [token, token.parentNode, token.closest('li')].map(node => node.getBoundingClientRect());
  return box.width && (box.right > line.right + 1 || box.left < line.left - 1 || box.bottom > row.bottom + 1);
}).map(token => token.textContent)"""


def test_a_tap_shows_a_long_verdict_whole(open_player):
    page = open_player(make_trace(2))
    page.set_viewport_size({"width": 390, "height": 844})
    words, long = page.locator(".sl-notice .sl-words"), "No certain difference, however long it takes to say so. " * 5
    page.evaluate("text => feed(props.value + text)", player_feed.status("quiet", long))
    expect(words).to_have_text(long.strip())
    is_cut = "words => words.scrollHeight > words.clientHeight"
    assert words.evaluate(is_cut)
    words.click()
    assert not words.evaluate(is_cut)
    words.click()
    assert words.evaluate(is_cut)

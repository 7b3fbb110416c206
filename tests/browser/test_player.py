"""The player in a real browser, alone on a page: what it does with a trace."""

import re
from dataclasses import replace

import pytest
from page_actions import ROWS, text_of
from player_page import STEPS, make_trace, place, stages
from player_runs import by_rule
from playwright.sync_api import expect

from app.page import STYLES
from app.playground.startup_run import OPENING
from app.ui.html_component import read_asset
from app.views import player_feed, tiles
from engine.trace.trace import load

pytestmark = pytest.mark.browser
PRESS = "key => document.body.dispatchEvent(new KeyboardEvent('keydown', { bubbles: true, ...key }))"


def test_a_round_is_told_in_order_draft_scores_verdicts_closing(open_player):
    trace = make_trace()
    first = next(r for r in trace.rounds if any(t.status == "rejected" for t in r.tokens) and r.index == 0)
    page = open_player(trace, at_end=False)
    page.keyboard.press("Home")
    n, tested = len(first.parents), sum(t.status in ("accepted", "rejected") for t in first.tokens)
    told = page.evaluate(STEPS, n + 1 + tested + 1)  # the last verdict settles the drafts that were never tested
    assert told[:n] == [["waiting"] * (i + 1) for i in range(n)]
    assert told[n] == ["scored"] * n  # all at once
    verdicts = [t.status for t in first.tokens[:n]]
    for i in range(1, tested + 1):
        assert told[n + i][:i] == verdicts[:i]
    assert told[n + tested :] == [verdicts, [*verdicts, first.tokens[n].status]]


def test_keys_step_through_rounds_unless_the_reader_types(open_player):
    trace = make_trace()
    page, total = open_player(trace), len(trace.rounds)
    assert place(page) == f"Round {total} of {total}" and text_of(page) == trace.text
    page.keyboard.press("ArrowLeft")
    assert place(page) == f"Round {total - 1} of {total}"
    page.keyboard.press("j")
    page.keyboard.press("j")
    assert place(page) == f"Round {total - 1} of {total}" and len(stages(page)) > 1
    page.keyboard.press("ArrowRight")
    assert place(page) == f"Round {total - 1} of {total}" and "scored" not in stages(page)
    page.keyboard.press("Home")
    assert place(page) == f"Round 0 of {total}" and text_of(page) == ""
    page.keyboard.press("ArrowRight")
    assert text_of(page) == "".join(t.text for t in trace.rounds[0].emitted)
    played = text_of(page)
    page.evaluate(PRESS, {"key": "о", "code": "KeyJ"})  # the key J of a Cyrillic layout
    assert text_of(page) != played
    page.evaluate(PRESS, {"key": "л", "code": "KeyK"})
    page.evaluate(PRESS, {"key": "b", "code": "KeyJ"})  # a Latin layout says what it means
    assert text_of(page) == played
    before = place(page)
    page.evaluate("document.body.dispatchEvent(new Event('keydown', { bubbles: true }))")  # as Chrome's autofill does
    page.locator("#typing").focus()
    page.keyboard.type("jk ? ")
    page.keyboard.press("Home")
    assert place(page) == before and page.locator("#typing").input_value() == "jk ? "
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_a_round_is_summed_up_for_a_screen_reader(open_player):
    trace = make_trace()
    page = open_player(trace, at_end=False)
    page.keyboard.press("Home")
    page.evaluate("now => { performance.now = () => now + 2000; }", page.evaluate("performance.now()"))
    page.keyboard.press("ArrowRight")
    live = page.locator(".sl-live")
    expect(live).to_have_attribute("aria-live", "polite")
    expect(live).to_contain_text(re.compile("Round 1:.*drafts accepted"))
    said = live.inner_text()
    page.keyboard.press("k")  # a step inside the next round is not announced
    assert live.inner_text() == said


def test_a_lossy_run_wears_a_badge(open_player):
    trace = by_rule("typical")
    page = open_player(trace)
    expect(page.locator(".sl-lossy")).to_have_count(2)
    for badge in page.locator(".sl-lossy").all():  # in the head and in the strip, which is hidden without numbers
        expect(badge).to_have_text("lossy")
        expect(badge).to_have_attribute("title", re.compile("does not follow the target's distribution"))
    expect(page.locator(".sl-head .sl-lossy")).to_be_visible()
    page.evaluate("line => feed(props.value + line)", tiles.tiles(trace, None) + "\n")
    expect(page.locator(".sl-strip .sl-lossy")).to_be_visible()
    page.locator(".sl-list .sl-resampled").first.click()
    expect(page.locator(".sl-inspector .sl-verdict")).not_to_be_empty()
    assert page.locator(".sl-residual, .sl-accept").count() == 0


# What a browser says of a mouse at rest when the page has moved beneath it: "over" another element, and no "move".
SLIPPED = """node => node.dispatchEvent(
  new MouseEvent('mouseover', { bubbles: true, screenX: mouse[0], screenY: mouse[1] }))"""


def test_rows_that_scroll_beneath_a_resting_mouse_are_not_pointed_at(open_player):
    page = open_player(make_trace(), at_end=False)
    page.evaluate("document.addEventListener('mousemove', event => { window.mouse = [event.screenX, event.screenY]; })")
    rows, tip = page.locator(".sl-rows"), page.get_by_role("tooltip")
    rows.evaluate("node => { node.scrollTop = 0; }")
    expect(page.locator(".sl-index").first).to_have_text("1")
    here, there = page.locator(".sl-row").nth(2), page.locator(".sl-row").nth(3)

    here.locator(".sl-index").hover()
    there.locator(".sl-token").first.evaluate(SLIPPED)
    expect(tip).to_be_hidden()
    there.locator(".sl-token").first.hover()
    expect(tip).to_be_visible()
    there.locator(".sl-token").first.evaluate(SLIPPED)  # the same token, in a row drawn again
    expect(tip).to_be_visible()
    here.locator(".sl-index").evaluate(SLIPPED)
    expect(tip).to_be_hidden()

    rows.focus()  # who walks by keys keeps the tip of the token they are at
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    expect(tip).to_be_visible()
    told, before = tip.inner_text(), place(page)
    there.locator(".sl-token").last.evaluate(SLIPPED)
    assert tip.is_visible() and tip.inner_text() == told
    page.keyboard.press("ArrowUp")  # walks; the story stays where it is
    expect(tip).not_to_have_text(told)
    assert place(page) == before


def test_plain_runs_share_a_row(open_player):
    trace = make_trace(60, gamma=0, method="none")
    page = open_player(trace)
    expect(page.locator(".sl-row")).to_have_count(3)  # 60 tokens, 24 to a row
    assert text_of(page) == trace.text


# How many underlines there are, and how many nodes and underlines the next step touches.
UNDERLINED = "() => [...CSS.highlights.values()].reduce((sum, one) => sum + one.size, 0)"
TOUCHED = """async key => {
  const touched = { nodes: new Set(), underlines: 0 }, { add, delete: drop } = Highlight.prototype;
  Highlight.prototype.add = function (range) { touched.underlines++; return add.call(this, range); };
  Highlight.prototype.delete = function (range) { touched.underlines++; return drop.call(this, range); };
  const observer = new MutationObserver(all => all.forEach(one => touched.nodes.add(one.target)));
  observer.observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true });
  document.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
  await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
  observer.disconnect();
  Object.assign(Highlight.prototype, { add, delete: drop });
  return [touched.nodes.size, touched.underlines];
}"""


@pytest.mark.slow
def test_step_of_a_long_trace_touches_no_more_than_of_a_short_one(open_player):
    touched = {}
    for tokens in (100, 2000):
        trace = make_trace(tokens)
        page = open_player(trace)
        page.keyboard.press("ArrowLeft")
        steps = [page.evaluate(TOUCHED, key) for key in "jjjkkkkk"]
        touched[tokens] = [max(counts) for counts in zip(*steps, strict=True)]
        assert 0 < page.evaluate(UNDERLINED) <= 400, "those in sight"
    assert touched[2000][0] <= 1.5 * touched[100][0] and touched[2000][1] <= 100, touched
    assert page.locator(".sl-row").count() < 60
    page.locator(".sl-rows").evaluate("node => { node.scrollTop = node.scrollHeight / 2; }")
    numbers = page.locator(".sl-index")
    expect(numbers.filter(has_text=re.compile(f"^{len(trace.rounds) // 2}$"))).to_have_count(1)
    seen = [int(n) for n in numbers.all_inner_texts()]
    assert seen == list(range(seen[0], seen[0] + len(seen)))
    page.keyboard.press("Home")
    assert page.evaluate(UNDERLINED) == 0


# Gradio writes each rule again from what the browser has read: of a shorthand with a variable nothing is left where a
# longhand of it follows.
LOST = """text => {
  const read = text => {
    const sheet = new CSSStyleSheet(), found = [];
    const walk = rules => [...rules].filter(rule => !(rule instanceof CSSKeyframesRule))
      .forEach(rule => (rule.style ? found.push(rule) : walk(rule.cssRules ?? [])));
    sheet.replaceSync(text);
    walk(sheet.cssRules);
    return found;
  };
  const kept = rule => [...read(rule.cssText)[0].style];
  return read(text).filter(rule => [...rule.style].some(name => !kept(rule).includes(name))).map(rule => rule.cssText);
}"""


def test_no_style_is_lost_when_gradio_writes_the_rules_anew(open_player):
    page = open_player(make_trace(2))
    assert page.evaluate(LOST, "p { border: solid var(--x); border-width: 2px }") != []
    assert [rule for name in STYLES for rule in page.evaluate(LOST, read_asset(name))] == []


def test_recorded_run_plays_and_then_offers_a_rejected_draft(open_player):
    page = open_player(load(OPENING), is_recorded=True, at_end=False)
    expect(page.locator(".sl-source")).to_have_text("Recorded run")
    assert "slower" in page.locator(".sl-pace option:checked").inner_text()
    inspector, question = page.locator(".sl-inspector"), page.get_by_role("button", name=re.compile("^Why was"))
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    expect(page.locator(".sl-rows .sl-rejected").first).to_be_visible()
    expect(question).to_have_count(1)
    asked, before = question.inner_text(), place(page)
    page.wait_for_function("place => document.querySelector('.sl-place').textContent !== place", arg=before)
    expect(question).to_have_text(asked)  # otherwise it would be another one all the time
    question.click()
    expect(page.get_by_role("button", name="Play")).to_be_visible()
    expect(page.locator(".sl-list .sl-rejected[aria-current]")).to_be_in_viewport(ratio=1)
    page.keyboard.press("Escape")
    page.locator(".sl-rows").press(" ")
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    page.locator(".sl-rows").press(" ")
    expect(page.get_by_role("button", name="Play")).to_be_visible()
    stopped = place(page)
    page.wait_for_timeout(400)
    assert place(page) == stopped
    page.keyboard.press("End")
    page.keyboard.press("Escape")
    page.locator(".sl-list .sl-accepted").last.click()
    expect(question).to_have_count(0)
    page.keyboard.press("Escape")
    expect(question).to_have_count(1)
    question.click()
    expect(inspector).to_have_attribute("data-open", "locked")
    expect(inspector.locator(".sl-inspected")).to_contain_text("rejected")
    expect(page.locator(".sl-list .sl-rejected[aria-current]")).to_be_visible()


def test_tags_of_competing_drafters_leave_room_for_eight_rounds(open_player):
    trace, names = load(OPENING), ("ngram", "eagle", "lm")
    rounds = [replace(r, drafter=names[r.index % 3] if r.parents else "") for r in trace.rounds]
    page = open_player(replace(trace, rounds=tuple(rounds)), viewport={"width": 1280, "height": 800})
    tags = [row.locator(".sl-tag") for row in page.locator(".sl-row").all()[-6:]]
    assert {tag.inner_text() for tag in tags} >= {"n-gram", "EAGLE", "draft model"}
    page.wait_for_function(f"({ROWS})() >= 10")  # two of which the strip takes on the page
    alone = replace(trace, rounds=tuple(replace(r, drafter="") for r in trace.rounds))
    page.evaluate("text => feed(text)", player_feed.complete("other", alone))
    expect(page.locator(".sl-tag").first).to_be_hidden()  # one drafter needs none


def test_overlapping_values_make_one_run_and_a_gap_is_requested(open_player):
    trace = make_trace(60)
    lines = [player_feed.rounds((event,)) for event in trace.rounds]
    page = open_player(make_trace(2))
    feed = "text => feed(text)"
    page.evaluate(feed, player_feed.start("live", 0) + player_feed.about_line(trace.started) + "".join(lines[:3]))
    page.evaluate(feed, player_feed.start("live", 1) + "".join(lines[1:5]))
    page.keyboard.press("ArrowLeft")
    page.evaluate(feed, player_feed.start("live", 1) + "".join(lines[1:6]))
    assert place(page) == "Round 4 of 6"  # the run goes on, the reader stays
    expect(page.locator(".sl-source")).to_have_text("Running now")
    page.keyboard.press("End")
    assert place(page) == "Round 6 of 6, live"
    late = player_feed.start("live", 2) + "".join(lines[8:]) + player_feed.finish(trace.finished, 40)
    page.evaluate(feed, late)
    expect(page.locator(".sl-player")).to_have_attribute("data-rounds", "6")
    assert page.evaluate("asked") == []
    page.evaluate(feed, late + player_feed.end_line())
    assert page.evaluate("asked") == ["missing"]

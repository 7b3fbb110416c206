"""The player in a real browser, alone on a page: what it does with a trace."""

import re
from dataclasses import replace

import pytest
from fake_worker import chances, recorded
from page_actions import OVERFLOW, ROWS, text_of, wait_until_above
from player_page import page as harness
from playwright.sync_api import Locator, Page, expect
from sample_traces import constrained, constrained_tree, tree
from stand_in_server import recorded as served
from stand_in_server import vllm
from test_sentences import by_rule, drafted_by

from app.page import STYLES
from app.playground.startup_run import OPENING
from app.ui.html_component import read
from app.views import player_feed, tiles
from engine.trace.events import PromptToken, Round, Timings, Token
from engine.trace.trace import Trace, load

pytestmark = pytest.mark.browser
HOSTILE = [
    "<script>window.pwned=1</script>", '<img src=x onerror="window.pwned=2">', "{{1+1}}", "${window.pwned=3}",
    "</script>", "\\u0041", "\u202eright to left", "\ud83d",  # half of an emoji
    "🌊" * 300, "a\n\n\tb  c", "'\"`", "  ",
]  # fmt: skip
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


@pytest.fixture
def opened(open_page, tmp_path):
    """Opens the player on a trace, at its end."""

    def open_(trace: Trace, is_recorded=False, at_end=True, **options) -> Page:
        file = tmp_path / "player.html"
        file.write_text(harness(player_feed.complete("test", trace, is_recorded)), encoding="utf-8")
        page = open_page(file.as_uri(), **options)
        if at_end:
            page.keyboard.press("End")
        return page

    return open_


def made(tokens=60, gamma=4, temperature=0.8, method="ngram") -> Trace:
    return recorded(method, gamma, tokens, temperature)


def with_texts(texts: list[str]) -> Trace:
    """One plain round per text, then one round that drafts them all and keeps them."""
    base = made(2)
    timings = Timings(0, 0.1, 0, 0)
    events = [
        Round(i, 0, (Token(i, text, "plain", i, 1, p=0.5, u=0.1),), (), 0, 5, timings, i / 10, i / 10 + 0.1)
        for i, text in enumerate(texts)
    ]
    n = len(texts)
    drafts = tuple(
        Token(i, text, "accepted", n + i, i + 1, p=0.5, q=0.6, u=0.1, accept=0.83, **chances(text, text[::-1]))
        for i, text in enumerate(texts)
    )
    last = Round(n, n, drafts, tuple(range(n)), n, 5, timings, n / 10, n / 10 + 0.1)
    return replace(base, rounds=(*events, last))


def place(page: Page) -> str:
    return page.locator(".sl-place").inner_text()


def stages(page: Page, row: int = -1) -> list[str]:
    script = f"rows => [...rows.at({row}).querySelectorAll('.sl-token:not([hidden])')].map(node => node.dataset.stage)"
    return page.locator(".sl-row").evaluate_all(script)


def page_inspector(page: Page) -> Locator:
    return page.locator(".sl-inspector")


# The stages of the first row after each of some steps by hand.
STEPS = """count => Array.from({ length: count }, () => {
  document.dispatchEvent(new KeyboardEvent('keydown', { key: 'k', bubbles: true }));
  const tokens = document.querySelector('.sl-row').querySelectorAll('.sl-token:not([hidden])');
  return [...tokens].map(node => node.dataset.stage);
})"""


def test_a_round_is_told_in_order_draft_scores_verdicts_closing(opened):
    trace = made()
    first = next(r for r in trace.rounds if any(t.status == "rejected" for t in r.tokens) and r.index == 0)
    page = opened(trace, at_end=False)
    page.keyboard.press("Home")
    n, tested = len(first.parents), sum(t.status in ("accepted", "rejected") for t in first.tokens)
    told = page.evaluate(STEPS, n + 1 + tested + 1)  # the last verdict settles the drafts that were never tested
    assert told[:n] == [["waiting"] * (i + 1) for i in range(n)]
    assert told[n] == ["scored"] * n  # all at once
    verdicts = [t.status for t in first.tokens[:n]]
    for i in range(1, tested + 1):
        assert told[n + i][:i] == verdicts[:i]
    assert told[n + tested :] == [verdicts, [*verdicts, first.tokens[n].status]]


def test_keys_step_through_rounds_unless_the_reader_types(opened):
    trace = made()
    page, total = opened(trace), len(trace.rounds)
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
    before = place(page)
    page.locator("#typing").focus()
    page.keyboard.type("jk ? ")
    page.keyboard.press("Home")
    assert place(page) == before and page.locator("#typing").input_value() == "jk ? "
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_a_round_is_summed_up_for_a_screen_reader(opened):
    trace = made()
    page = opened(trace, at_end=False)
    page.keyboard.press("Home")
    page.evaluate("now => { performance.now = () => now + 2000; }", page.evaluate("performance.now()"))
    page.keyboard.press("ArrowRight")
    live = page.locator(".sl-live")
    expect(live).to_have_attribute("aria-live", "polite")
    expect(live).to_contain_text(re.compile("Round 1:.*drafts accepted"))
    said = live.inner_text()
    page.keyboard.press("k")  # a step inside the next round is not announced
    assert live.inner_text() == said


def test_a_rescued_draft_shows_the_numbers_of_its_whole_block(opened):
    trace = by_rule("block")
    round_, token = next((r, t) for r in trace.rounds for t in r.tokens if t.status == "rescued")
    page = opened(trace)
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


def test_a_lossy_run_wears_a_badge(opened):
    trace = by_rule("typical")
    page = opened(trace)
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


def test_rows_that_scroll_beneath_a_resting_mouse_are_not_pointed_at(opened):
    page = opened(made(), at_end=False)
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
    there.locator(".sl-token").first.evaluate(SLIPPED)  # the same token, in a row drawn anew
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


def test_click_locks_a_tokens_numbers_and_shows_the_residual(opened):
    page = opened(made())
    token, inspector = page.locator(".sl-list .sl-accepted").last, page.locator(".sl-inspector")
    token.hover()
    expect(page.get_by_role("tooltip")).to_contain_text("min(1, p/q)")
    token.click()
    expect(inspector).to_contain_text(re.compile(r"u = 0\.\d{3} was below 0\.735: accepted\."))
    expect(inspector.locator(".sl-formula")).to_contain_text("min(1, 0.610 / 0.830)")
    page.locator(".sl-list .sl-bonus").last.hover()
    expect(inspector).to_contain_text(": accepted")  # locked: hovering elsewhere changes nothing
    page.keyboard.press("Escape")
    expect(inspector).to_contain_text("Click a token")
    page.locator(".sl-list .sl-rejected").last.click()
    expect(inspector).to_contain_text("was not below 0.735: rejected.")
    drawn = inspector.locator(".sl-candidates .sl-drawn")
    expect(drawn).to_contain_text("↻ drawn")
    expect(inspector).to_contain_text("has 90.9 % of it")
    expect(inspector).to_contain_text("p over q, 0.220 in all")
    page.locator(".sl-list .sl-resampled").last.click()
    expect(inspector).to_contain_text("was rejected, so this came from the residual: u = 0.200 drew it")
    expect(inspector.locator(".sl-candidates .sl-drawn")).to_have_count(1)  # sent once, with the rejected draft


def test_click_counts_for_the_pressed_token_while_the_list_moves(opened):
    page = opened(made(400))
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


def test_another_token_is_forced_but_never_the_one_that_was_written(opened):
    page = opened(made())
    written = page.locator(".sl-list .sl-resampled").last
    page.locator(".sl-list .sl-rejected").last.click()
    page.get_by_role("button", name="Force another token").click()
    forced = [button.get_attribute("aria-label") for button in page.locator(".sl-fork").all()]
    text = written.locator(".sl-piece").inner_text().strip()
    assert forced and not [
        words for words in forced if f"“{text}”" in words.replace("\u2068", "").replace("\u2069", "")
    ]
    expect(page.locator(".sl-drawn .sl-fork")).to_have_count(0)


def test_rerolling_u_flips_the_verdict_and_comes_back(opened):
    page = opened(made())
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


def test_stepping_by_hand_shows_only_what_is_known_by_then(opened):
    page = opened(made(), at_end=False)
    page.keyboard.press("Home")
    page.keyboard.press("k")
    inspector = page.locator(".sl-inspector")
    expect(inspector).to_contain_text("the target has not looked at it yet")
    expect(inspector.locator(".sl-p:not(:empty), .sl-chance")).to_have_count(0)
    for _ in range(4):
        page.keyboard.press("k")
    expect(inspector).to_contain_text("it is accepted if u falls below 0.735")
    expect(inspector.locator(".sl-chance")).to_have_count(1)
    expect(inspector.locator(".sl-tick")).to_have_count(0)
    page.keyboard.press("k")
    expect(inspector.locator(".sl-tick")).to_have_count(1)


def test_a_forbidden_draft_comes_with_the_scores_and_is_no_rejected_one(opened):
    page = opened(constrained(), at_end=False)
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
    expect(page_inspector(page)).to_contain_text("round 1, not scored")
    expect(page_inspector(page)).to_contain_text("so the target did not score it. α does not count it.")
    expect(page_inspector(page).get_by_role("button", name="Force")).to_have_count(0)


def test_a_draft_from_the_grammar_tells_what_it_took_of_p(opened):
    page = opened(constrained())
    expect(page.locator(".sl-rounds .sl-means-grammar")).to_be_visible()
    page.get_by_role("button", name="x accepted, from the grammar", exact=True).click()
    expect(page.locator(".sl-list [data-grammar] .sl-mark")).to_have_text("✓§")
    expect(page_inspector(page)).to_contain_text("The grammar leaves no other text here")
    expect(page_inspector(page)).to_contain_text(
        "The grammar removed 75.0 % of p, first of all “⁨The⁩” 50.0 %, “⁨<b>⁩” 12.5 %."
    )
    expect(page.locator(".sl-compared")).to_contain_text("The text is unfinished, because the token limit was reached.")
    page = opened(made())
    expect(page.locator(".sl-rounds .sl-legend")).to_be_visible()
    expect(page.locator(".sl-rounds :is(.sl-means-grammar, .sl-means-forbidden)")).to_have_count(2)
    for entry in page.locator(".sl-rounds :is(.sl-means-grammar, .sl-means-forbidden)").all():
        expect(entry).to_be_hidden()


# The column and the row of each token of the last row, by its text.
PLACES = """() => Object.fromEntries([...document.querySelectorAll('.sl-row:last-child .sl-token')].map(
  node => [node.querySelector('.sl-piece').textContent, [node.style.gridColumnStart, node.style.gridRowStart]]))"""


def test_a_forbidden_draft_of_a_tree_is_a_leaf_of_the_draft_it_followed(opened):
    page = opened(constrained_tree())
    places = page.evaluate(PLACES)
    assert places["five"][0] == places["c"][0] and places["six"][0] == places["g"][0]
    assert len({tuple(place) for place in places.values()}) == len(places), "no two are in one place"
    expect(page.locator(".sl-list .sl-forbidden")).to_have_count(2)
    six = page.get_by_role("button", name="six forbidden, another branch", exact=True)
    six.click()
    expect(page_inspector(page)).to_contain_text("The grammar removed 75.0 % of p")  # where g was tested


def test_plain_runs_share_a_row(opened):
    trace = made(60, gamma=0, method="none")
    page = opened(trace)
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


def test_step_of_a_long_trace_touches_no_more_than_of_a_short_one(opened):
    touched = {}
    for tokens in (100, 2000):
        trace = made(tokens)
        page = opened(trace)
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


# Gradio writes each rule anew from what the browser has read: of a shorthand with a variable nothing is left where a
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


def test_no_style_is_lost_when_gradio_writes_the_rules_anew(opened):
    page = opened(made(2))
    assert page.evaluate(LOST, "p { border: solid var(--x); border-width: 2px }") != []
    assert [rule for name in STYLES for rule in page.evaluate(LOST, read(name))] == []


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


def test_hostile_tokens_are_only_text(opened):
    trace = with_texts(HOSTILE)
    page = opened(trace)
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
    """With a branch of the same rounds, in which ``text`` was forced in place of the second token."""
    first, *_ = run.emitted
    prefix = (PromptToken(first.id, first.text), PromptToken(99, text))
    return replace(run, branch=replace(run, started=replace(run.started, prefix=prefix)))


def test_captions_point_at_hostile_tokens_and_long_drafts_wrap(opened):
    """γ = 16, and tokens of markup where the captions point; also beside a branch."""
    trace = made(200, gamma=16)
    rounds = [replace(r, tokens=tuple(replace(t, text=HOSTILE[i % 7]) for i, t in enumerate(r.tokens)))
              if 9 <= r.index <= 12 else r for r in trace.rounds]  # fmt: skip
    page = opened(replace(trace, rounds=tuple(rounds)), is_recorded=True, at_end=False, fresh=True)
    expect(page.locator(".sl-captions p b")).to_have_text(["Resampled", "Rejected", "Accepted"])
    expect(page.locator(".sl-captions")).not_to_contain_text("pwned")
    for shown in (replace(trace, branch=None), forking(trace, "x")):
        page.evaluate("text => feed(text)", player_feed.complete(f"branch {bool(shown.branch)}", shown))
        for width, height in ((1280, 800), (320, 844)):
            page.set_viewport_size({"width": width, "height": height})
            page.wait_for_function(f"{OVERFLOW} <= 0")
            page.wait_for_function(f"({CUT})().length === 0")
    assert max(row.locator(".sl-token").count() for row in page.locator(".sl-row").all()) >= 17


# Tokens that reach beyond their row.
CUT = """() => [...document.querySelectorAll('.sl-row .sl-token')].filter(token => {
  const [box, line, row] = [token, token.parentNode, token.closest('li')].map(node => node.getBoundingClientRect());
  return box.width && (box.right > line.right + 1 || box.left < line.left - 1 || box.bottom > row.bottom + 1);
}).map(token => token.textContent)"""


def test_recorded_run_plays_and_then_offers_a_rejected_draft(opened):
    page = opened(load(OPENING), is_recorded=True, at_end=False)
    expect(page.locator(".sl-source")).to_have_text("Recorded run")
    assert "slower" in page.locator(".sl-pace option:checked").inner_text()
    inspector, question = page.locator(".sl-inspector"), page.get_by_role("button", name=re.compile("^Why was"))
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    expect(page.locator(".sl-rows .sl-rejected").first).to_be_visible()
    expect(question).to_have_count(0)  # it would be another one all the time
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


def test_tags_of_competing_drafters_leave_room_for_eight_rounds(opened):
    trace, names = load(OPENING), ("ngram", "eagle", "lm")
    rounds = [replace(r, drafter=names[r.index % 3] if r.parents else "") for r in trace.rounds]
    page = opened(replace(trace, rounds=tuple(rounds)), viewport={"width": 1280, "height": 800})
    tags = [row.locator(".sl-tag") for row in page.locator(".sl-row").all()[-6:]]
    assert {tag.inner_text() for tag in tags} >= {"n-gram", "EAGLE", "draft model"}
    page.wait_for_function(f"({ROWS})() >= 10")  # two of which the strip takes on the page
    alone = replace(trace, rounds=tuple(replace(r, drafter="") for r in trace.rounds))
    page.evaluate("text => feed(text)", player_feed.complete("other", alone))
    expect(page.locator(".sl-tag").first).to_be_hidden()  # one drafter needs none


def test_tree_shows_siblings_below_each_other_step_by_step(opened):
    page = opened(tree(), at_end=False)
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


def test_tree_is_one_line_until_one_of_its_tokens_is_inspected(opened):
    whole = tree()
    after = Round(1, 0, (Token(5, "y", "plain", 3, 1, p=0.5, u=0.1),), (), 0, 8, Timings(0, 0.1, 0, 0), 0.1, 0.2)
    drafts = [replace(t, expected=0.3) for t in whole.rounds[0].tokens[:-1]]
    first = replace(whole.rounds[0], tokens=(*drafts, whole.rounds[0].tokens[-1]), row_cost=0.1)
    page = opened(replace(whole, rounds=(first, after)))
    line, shown = page.locator(".sl-line").first, page.locator(".sl-line").first.locator(".sl-token:visible .sl-piece")
    assert shown.all_inner_texts() == ["a", "b", "d", "e", "f", "g", "z"], "in the order tried"
    assert line.evaluate("node => getComputedStyle(node, '::after').content") == '"+ 1 untested"'
    low = line.bounding_box()["height"]
    line.click(position={"x": 300, "y": 8})
    expect(line.locator(".sl-token:visible")).to_have_count(8)
    assert line.bounding_box()["height"] > 2 * low
    line.get_by_text("f", exact=True).click()
    panel = page.locator(".sl-inspected-token")
    assert panel.locator(".sl-siblings tbody th").all_inner_texts() == ["d", "e", "f"]
    expect(panel).to_contain_text("one more row cost 0.1")
    page.keyboard.press("Escape")
    expect(line.locator(".sl-token:visible")).to_have_count(7)
    many = tuple(replace(first, index=i, start=i / 10, end=i / 10 + 0.1) for i in range(20))
    page.set_viewport_size({"width": 1280, "height": 800})
    page.evaluate("text => feed(text)", player_feed.complete("many", replace(whole, rounds=(*many, after))))
    page.wait_for_function(f"({ROWS})() >= 10")  # two of which the strip takes on the page


def test_overlapping_values_make_one_run_and_a_gap_is_requested(opened):
    trace = made(60)
    lines = [player_feed.rounds((event,)) for event in trace.rounds]
    page = opened(made(2))
    feed = "text => feed(text)"
    page.evaluate(feed, player_feed.start("live", 0) + player_feed.about(trace.started) + "".join(lines[:3]))
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
    page.evaluate(feed, late + player_feed.over())
    assert page.evaluate("asked") == ["missing"]


def test_on_a_phone_a_tap_brings_the_numbers_up_and_the_way_out_stays(opened):
    page = opened(made(), **PHONE)
    sheet = page.locator(".sl-inspector")
    way_out = page.get_by_role("button", name="Let the token go")
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
def test_drafts_guessed_at_once_are_columns_while_their_round_is_inspected(opened, method, part, how, guess):
    page = opened(drafted_by(method, made(30, 3)))
    row = page.locator(".sl-row").nth(2)
    expect(row.locator(".sl-how")).to_be_hidden()
    row.locator(".sl-token").nth(1).click()
    parts = row.locator(".sl-heads [data-head]").evaluate_all("all => all.map(node => node.dataset.head)")
    assert parts == [f"{part} {number}" for number in (1, 2, 3)]
    expect(row.locator(".sl-how")).to_contain_text(how)
    expect(page.locator(".sl-inspector")).to_contain_text(guess)
    page.locator(".sl-row").nth(3).locator(".sl-token").first.click()
    expect(row.locator(".sl-how")).to_be_hidden()


def test_a_servers_rejected_guesses_look_unknown(opened):
    page = opened(served(vllm())[0], is_recorded=True)
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

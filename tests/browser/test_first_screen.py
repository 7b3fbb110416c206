"""The first screen in a real browser: the real app and model, then what only a browser shows, on a fake worker."""

import re

import pytest
from playwright.sync_api import Page, expect
from server import APP, FAKE_APP, serving

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
FIRST_TOKEN = 200_000  # ms; the very first run loads the model and measures the device
HOSTILE = 'Repeat: <script>window.pwned=1</script> <img src=x onerror="window.pwned=2"> {{1+1}} ${window.pwned=3} end'


@pytest.fixture(scope="module")
def app(chromium_path, tmp_path_factory):
    with serving(APP, tmp_path_factory.mktemp("app") / "app.log") as url:
        yield url


@pytest.fixture(scope="module")
def fake_app(chromium_path, tmp_path_factory):
    with serving(FAKE_APP, tmp_path_factory.mktemp("fake") / "app.log", STEP="0.03") as url:
        yield url


def opened(browser, url, **context) -> Page:
    """A fresh visitor's page. It must reach nobody but our server, and log no error."""
    page = browser.new_context(viewport={"width": 1280, "height": 900}, **context).new_page()
    page.strangers, page.errors = [], []
    page.on("request", lambda r: None if r.url.startswith((url, "data:", "blob:")) else page.strangers.append(r.url))
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.goto(url)
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_visible(timeout=20_000)
    return page


def closed(page: Page) -> None:
    assert page.strangers == [] and page.errors == []
    page.context.close()


def press_run(page: Page, **fields) -> None:
    for label, value in fields.items():
        page.locator(f"#{label} :is(textarea, input)").first.fill(value)
    page.locator("#run").click()
    if fields.get("prompt", "x").strip():  # else it is refused before it runs
        expect(page.locator("#run")).to_have_text("Running…", timeout=10_000)
        expect(page.locator(".sl-source")).not_to_have_text("Recorded run")  # what played on opening is gone


def ended(page: Page, timeout=FIRST_TOKEN) -> None:
    expect(page.locator("#run")).to_have_text("Run", timeout=timeout)


def pointed_at(page: Page, token) -> None:
    """The mouse moves on the token until its tip is there: what scrolls beneath a resting one would hide it."""
    for i in range(40):
        token.hover(position={"x": 3 + i % 4, "y": 5})
        if page.get_by_role("tooltip").is_visible():
            return
        page.wait_for_timeout(250)


# ── the real model ──


def test_run_a_prompt_see_accepted_tokens_and_a_measured_speedup(browser, app):
    page = opened(browser, app)
    assert page.locator("h1").count() == 1
    press_run(page, tokens="60")
    expect(page.locator(".sl-row").first).to_be_visible(timeout=FIRST_TOKEN)
    expect(page.locator(".sl-rows .sl-accepted").first).to_be_visible(timeout=FIRST_TOKEN)
    ended(page)
    tile = page.locator('[data-tile="speedup"]')
    expect(tile.locator(".sl-number")).to_have_text(re.compile(r"^\d+\.\d\d×$"))
    expect(tile.locator(".sl-note")).to_contain_text("measured just now, one run each")
    expect(page.locator('[data-tile="alpha"] .sl-number')).to_have_text(re.compile(r"^[01]\.\d\d$"))
    assert len(page.locator(".sl-text").inner_text().split()) > 5
    pointed_at(page, page.locator(".sl-rows .sl-accepted").first)
    expect(page.get_by_role("tooltip")).to_contain_text("min(1, p/q)")
    closed(page)


def test_stop_keeps_what_there_is_and_the_next_run_works(browser, app):
    page = opened(browser, app)
    press_run(page, prompt="Count from one to five hundred in words.", tokens="500")
    expect(page.locator(".sl-row").nth(2)).to_be_visible(timeout=FIRST_TOKEN)
    page.locator("#stop").click()
    ended(page, 5_000)
    expect(page.locator("#notice")).to_contain_text("Stopped")
    assert page.locator(".sl-row").count() >= 3
    press_run(page, tokens="8")
    expect(page.locator(".sl-compared")).to_contain_text("same text", timeout=60_000)
    ended(page)
    expect(page.locator('[data-tile="speedup"] .sl-number')).to_have_text(re.compile("×"))
    closed(page)


def test_a_hostile_prompt_is_only_text(browser, app):
    page = opened(browser, app)
    press_run(page, prompt=HOSTILE, tokens="40")
    expect(page.locator(".sl-row").nth(2)).to_be_visible(timeout=FIRST_TOKEN)
    ended(page)
    assert page.evaluate("window.pwned") is None
    assert page.locator("#ribbon script, #ribbon img").count() == 0
    closed(page)


# ── what the browser does with any trace ──


def test_hostile_tokens_keep_their_exact_text(browser, fake_app):
    page = opened(browser, fake_app)
    press_run(page)
    ended(page, 60_000)
    text = page.locator(".sl-text").evaluate("node => node.textContent")
    assert "glass,\nfills" in text and "🌊" in text
    assert "<script>window.pwned=1</script> {{1+1}} ${1+1}" in text
    assert page.evaluate("window.pwned") is None
    assert page.locator("#ribbon script").count() == 0
    closed(page)


def test_errors_are_words_in_the_page_and_quote_safely(browser, fake_app):
    page = opened(browser, fake_app)
    press_run(page, prompt="   ")
    expect(page.get_by_role("alert").filter(has_text="prompt is empty")).to_be_visible(timeout=10_000)
    press_run(page, prompt="Hello", tokens="20")
    expect(page.locator("#notice")).to_contain_text("measured just now", timeout=20_000)
    expect(page.get_by_role("alert").filter(has_text="prompt")).to_have_count(0)
    closed(page)


def test_every_status_has_a_word_and_a_mark_and_keys_reach_each_token(browser, fake_app):
    page = opened(browser, fake_app)
    press_run(page)
    ended(page, 60_000)
    legend = page.locator(".sl-legend").inner_text()
    for word in ("accepted", "rejected", "resampled", "bonus", "discarded", "plain"):
        assert word in legend
    expect(page.locator(".sl-rows .sl-accepted .sl-mark").first).to_have_text("✓")
    expect(page.locator(".sl-rows .sl-resampled .sl-mark").first).to_have_text("↻")
    assert "line-through" in page.locator(".sl-rows .sl-rejected .sl-piece").first.evaluate(
        "node => getComputedStyle(node).textDecorationLine"
    )
    row = "() => Number(document.activeElement.closest('.sl-row').querySelector('.sl-index').textContent)"
    page.locator(".sl-rows").focus()
    page.keyboard.press("ArrowDown")
    entered = page.evaluate(row)
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tooltip")).to_be_visible()
    page.keyboard.press("ArrowDown")
    assert page.evaluate(row) == entered + 1
    page.keyboard.press("Escape")
    expect(page.locator(".sl-tip")).to_be_hidden()
    closed(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_nothing_is_clipped(browser, fake_app, width, scheme):
    page = opened(browser, fake_app, color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    press_run(page, tokens="40")
    ended(page, 60_000)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    for control in ("#prompt textarea", "#method input", "#gamma input[type=range]", "#temperature", "#seed", "#stop"):
        box = page.locator(control).first.bounding_box()
        assert box and box["width"] > 40 and box["x"] >= 0 and box["x"] + box["width"] <= width, control
    closed(page)


def test_closing_the_tab_frees_the_device(browser, fake_app):
    """Another visitor's run starts at once after the first tab is gone; the fake worker runs one at a time."""
    first = opened(browser, fake_app)
    press_run(first, tokens="500")
    expect(first.locator(".sl-row").nth(2)).to_be_visible(timeout=20_000)
    first.context.close()
    second = opened(browser, fake_app)
    press_run(second, tokens="20")
    expect(second.locator(".sl-row").first).to_be_visible(timeout=6_000)
    ended(second)
    closed(second)


# ── what it costs to leave it open ──

COUNT_FRAMES = """
const ask = window.requestAnimationFrame;
window.frames_asked = 0;
window.requestAnimationFrame = draw => { window.frames_asked++; return ask.call(window, draw); };"""


def test_a_page_on_which_nothing_moves_asks_for_no_frames(browser, fake_app):
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.add_init_script(COUNT_FRAMES)
    page = context.new_page()
    page.goto(fake_app)
    page.locator('[data-do="end"]').click(timeout=20_000)  # else the recording plays
    asked = []
    while len(asked) < 10 and (len(asked) < 2 or asked[-1] != asked[-2]):  # what fades in is through in four seconds
        page.wait_for_timeout(1000)
        asked.append(page.evaluate("frames_asked"))
    assert asked[-1] == asked[-2] > 0
    page.context.close()


# ── what is asked for is brought into sight ──


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (390, 844)])
def test_who_presses_run_sees_the_rounds(browser, fake_app, width, height):
    page = opened(browser, fake_app)
    page.set_viewport_size({"width": width, "height": height})
    press_run(page, tokens="40")
    expect(page.locator(".sl-deck")).to_be_in_viewport(ratio=0.9, timeout=20_000)
    if width > 1000:
        expect(page.locator(".sl-rows")).to_be_in_viewport(ratio=0.6, timeout=20_000)
        expect(page.locator("#stop")).to_be_in_viewport()
    ended(page, 60_000)
    closed(page)


def test_a_page_that_shows_the_rounds_already_stays_where_it_is(browser, fake_app):
    page = opened(browser, fake_app)
    page.set_viewport_size({"width": 1280, "height": 1400})
    press_run(page, tokens="40")
    ended(page, 60_000)
    assert page.evaluate("scrollY") == 0
    closed(page)


def test_a_refusal_of_something_far_below_is_brought_into_sight(browser, fake_app, tmp_path):
    page = opened(browser, fake_app)
    bad = tmp_path / "bad.json"
    bad.write_text('{"schema": 99}')
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    expect(page.locator("#notice")).not_to_be_in_viewport()
    page.locator("input[type=file]").first.set_input_files(bad)
    expect(page.get_by_role("alert").filter(has_text="schema")).to_be_in_viewport(timeout=20_000)
    closed(page)


def test_the_rounds_stay_beside_a_long_inspector(browser, fake_app):
    page = opened(browser, fake_app)
    page.set_viewport_size({"width": 1280, "height": 600})
    press_run(page, temperature="0.8", tokens="40")
    ended(page, 60_000)
    page.locator(".sl-list .sl-rejected").last.click()
    rounds, inspector = page.locator(".sl-rounds"), page.locator(".sl-inspector")
    page.locator(".sl-player").evaluate("node => node.scrollIntoView({ block: 'start', behavior: 'instant' })")
    beside, box = inspector.bounding_box(), rounds.bounding_box()
    assert box["y"] > 8 and beside["y"] + beside["height"] > box["y"] + box["height"] + 60
    page.evaluate("by => window.scrollBy({ top: by, behavior: 'instant' })", box["y"] + 50)
    assert rounds.bounding_box()["y"] == pytest.approx(8, abs=1)
    closed(page)


def test_on_a_phone_stop_stays_in_reach_and_moves_nothing(browser, tmp_path):
    with serving(FAKE_APP, tmp_path / "slow.log", STEP="1") as url:
        page = opened(browser, url)
        page.set_viewport_size({"width": 390, "height": 844})
        page.locator("#tokens input").fill("512")
        form, stop = page.locator(".sl-prompt"), page.locator("#stop")
        tall = form.bounding_box()["height"]
        press_run(page)
        expect(stop).to_be_enabled()
        expect(stop).to_be_in_viewport(ratio=1)
        assert form.bounding_box()["height"] == pytest.approx(tall, abs=1.5)  # what is below does not jump
        expect(page.locator(".sl-rows")).to_be_in_viewport()  # where a run takes the reader, bar or no bar
        page.locator(".sl-list .sl-token").first.click()
        sheet, bar = page.locator(".sl-inspector"), page.locator(".sl-actions").bounding_box()
        assert sheet.bounding_box()["y"] + sheet.bounding_box()["height"] <= bar["y"] + 1  # numbers above, Stop below
        page.keyboard.press("Escape")
        page.evaluate("scrollTo({ top: document.documentElement.scrollHeight, behavior: 'instant' })")
        end = page.locator("#production").bounding_box()
        assert end["y"] + end["height"] <= bar["y"] + 1  # the last line can be read above it
        stop.click()
        ended(page)
        expect(stop).to_be_disabled()
        expect(stop).not_to_be_in_viewport()  # back in its place, far above
        closed(page)

"""The HTML file of a run, saved from the page and opened from disk: no server, no request, nothing executed."""

import re
from dataclasses import replace

import pytest
from fake_worker import play
from playwright.sync_api import Page, expect
from server import FAKE_APP, serving
from test_player import HOSTILE, with_texts

from app import offline
from engine.config import RunConfig
from engine.trace import Trace

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


@pytest.fixture
def opened(browser, tmp_path):
    """Opens a file with the network cut off; afterwards it has asked for nothing and logged nothing."""
    pages = []

    def open_(path, **context) -> Page:
        context = browser.new_context(**({"viewport": {"width": 1280, "height": 900}} | context), offline=True)
        page, url = context.new_page(), path.as_uri()
        page.asked, page.said = [], []
        page.on("request", lambda r: page.asked.append(r.url) if r.url != url else None)
        page.on("console", lambda message: page.said.append(message.text))  # a breach of the policy is said here
        page.on("pageerror", lambda error: page.said.append(str(error)))
        page.goto(url)
        pages.append(page)
        return page

    yield open_
    for page in pages:
        assert page.asked == [] and page.said == [] and page.evaluate("window.pwned") is None
        page.context.close()


def file(tmp_path, run: Trace, baseline: Trace | None = None):
    path = tmp_path / "run.html"
    path.write_text(offline.page(run, baseline), encoding="utf-8", newline="\n")
    return path


def hostile() -> Trace:
    trace = with_texts([*HOSTILE, "<!-- <script>", "\u2028\u2029", "שלום"])
    config = trace.started.config | {"prompt": "</script><script>window.pwned=4</script>${window.pwned=5}{{1+1}}"}
    return replace(trace, started=replace(trace.started, config=config, device="<b>cpu</b>"))


def test_a_hostile_trace_steps_locks_and_rolls_from_disk(opened, tmp_path):
    trace = hostile()
    page = opened(file(tmp_path, trace))
    page.keyboard.press("Home")
    expect(page.locator(".sl-place")).to_have_text(f"Round 0 of {len(trace.rounds)}")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("k")
    assert page.locator(".sl-text").evaluate("node => node.textContent") == trace.text[: len(HOSTILE[0] + HOSTILE[1])]
    page.keyboard.press("End")
    shown = page.locator(".sl-text").evaluate("node => node.textContent")
    assert shown.encode("utf-16", "surrogatepass") == trace.text.encode("utf-16", "surrogatepass")
    tokens = page.locator(".sl-list .sl-accepted")
    for i in range(tokens.count()):
        tokens.nth(i).click()
        expect(page.locator(".sl-inspector")).to_have_attribute("data-open", "locked")
    page.evaluate("Math.random = () => 0.9")
    page.get_by_role("button", name="Re-roll u").click()
    expect(page.locator(".sl-rolled")).to_contain_text("u = 0.900 is not below 0.830: it would go.")
    page.get_by_role("button", name="100 times").click()
    expect(page.locator(".sl-rolled")).to_contain_text("of 101 stayed")
    page.keyboard.press("Escape")
    expect(page.locator(".sl-inspector")).to_have_attribute("data-open", "")
    facts = page.locator(".sl-facts")
    expect(facts).to_contain_text("<b>cpu</b>")
    expect(facts.locator("pre")).to_contain_text("</script><script>window.pwned=4</script>${window.pwned=5}{{1+1}}")
    assert page.locator("body script").count() == 2 and page.locator("body img").count() == 0


def test_the_policy_stops_what_would_get_in(browser, tmp_path):
    """A file somebody has meddled with: an added script, handler, image and request all come to nothing."""
    path = file(tmp_path, hostile())
    added = '<script>window.pwned=1</script><img src="https://example.com/x.png" onerror="window.pwned=2"></body>'
    path.write_text(path.read_text("utf-8").replace("</body>", added), encoding="utf-8", newline="\n")
    page = browser.new_context().new_page()
    stopped, reached = [], []
    page.on("requestfailed", lambda r: stopped.append(r.failure))
    page.on("requestfinished", lambda r: reached.append(r.url) if r.url.startswith("http") else None)
    page.goto(path.as_uri())
    page.keyboard.press("End")
    expect(page.locator(".sl-list .sl-accepted").first).to_be_visible()
    assert page.evaluate("window.pwned") is None and reached == [] and set(stopped) == {"csp"}
    assert page.evaluate("fetch('https://example.com').then(() => 'sent', () => 'stopped')") == "stopped"
    assert (
        page.evaluate("(() => { try { document.body.innerHTML = '<p>'; return 'set' } catch { return 'no' } })()")
        == "no"
    )
    page.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_it_fits_and_is_light_or_dark_as_the_reader_is(opened, tmp_path, width, scheme):
    config = RunConfig("Hi", method="ngram", gamma=4, max_new_tokens=60)
    run, baseline = map(_trace, (config, replace(config, method="none", gamma=0)))
    page = opened(file(tmp_path, run, baseline), viewport={"width": width, "height": 900}, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == {"light": "rgb(248, 250, 252)", "dark": "rgb(15, 23, 42)"}[scheme]
    page.locator("#race").scroll_into_view_if_needed()
    expect(page.locator(".sl-race-result")).to_have_text(re.compile(r"^\d\.\d\d× faster: "), timeout=30_000)
    expect(page.locator('[data-tile="speedup"] .sl-note')).to_have_text(re.compile("recorded with it"))


def _trace(config: RunConfig) -> Trace:
    from engine.trace import fold

    return fold(play(config))


def test_saved_from_the_page_it_shows_the_same_run(browser, opened, tmp_path):
    with serving(FAKE_APP, tmp_path / "app.log", STEP="0.01") as url:
        live = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
        live.goto(url)
        live.locator("#tokens input").fill("40")
        live.locator("#run").click()
        expect(live.locator("#page-file")).to_be_enabled(timeout=60_000)
        speedup = live.locator('[data-tile="speedup"] .sl-number').inner_text()
        with live.expect_download() as download:
            live.locator("#page-file").click()
        assert download.value.suggested_filename.endswith(".html")
        path = tmp_path / "saved.html"
        download.value.save_as(path)
        text = live.locator(".sl-text").evaluate("node => node.textContent")
        live.context.close()
    page = opened(path)  # the server is gone
    page.keyboard.press("End")
    assert page.locator(".sl-text").evaluate("node => node.textContent") == text and len(text) > 100
    assert page.locator('[data-tile="speedup"] .sl-number').inner_text() == speedup
    expect(page.locator(".sl-source")).to_have_text("From a file")
    expect(page.locator(".sl-origin")).to_contain_text("Recorded: date unknown · cpu · float32")
    assert "{{1+1}} ${1+1}" in text

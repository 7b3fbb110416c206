"""The HTML file of a run, saved from the page and opened from disk: no server, no request, nothing executed."""

import re
from dataclasses import replace

import pytest
from fake_worker import play
from page_actions import OVERFLOW, SPEEDUP, run, saved, speedup, text_of
from player_runs import HOSTILE, with_texts
from playwright.sync_api import expect

from app.playground import html_export
from engine.config import RunConfig
from engine.trace.trace import Trace, fold

pytestmark = pytest.mark.browser


def file(tmp_path, run: Trace, baseline: Trace | None = None):
    path = tmp_path / "run.html"
    path.write_text(html_export.page(run, baseline), encoding="utf-8", newline="\n")
    return path


def hostile() -> Trace:
    trace = with_texts([*HOSTILE, "<!-- <script>", "\u2028\u2029", "שלום"])
    config = trace.started.config | {"prompt": "</script><script>window.pwned=4</script>${window.pwned=5}{{1+1}}"}
    return replace(trace, started=replace(trace.started, config=config, device="<b>cpu</b>"))


def test_a_hostile_trace_steps_locks_and_rolls_from_disk(open_offline, tmp_path):
    trace = hostile()
    page = open_offline(file(tmp_path, trace))
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("k")
    assert text_of(page) == trace.text[: len(HOSTILE[0] + HOSTILE[1])]
    page.keyboard.press("End")
    shown = text_of(page)
    assert shown.encode("utf-16", "surrogatepass") == trace.text.encode("utf-16", "surrogatepass")
    tokens = page.locator(".sl-list .sl-accepted")
    for i in range(tokens.count()):
        tokens.nth(i).click()
        expect(page.locator(".sl-inspector")).to_have_attribute("data-open", "locked")
    page.evaluate("Math.random = () => 0.9")
    page.get_by_role("button", name="Re-roll u").click()
    expect(page.locator(".sl-rolled")).to_contain_text("u = 0.900 is not below 0.830: it would be rejected.")
    facts = page.locator(".sl-facts")
    expect(facts).to_contain_text("<b>cpu</b>")
    expect(facts.locator(".sl-facts-prompt")).to_contain_text(
        "</script><script>window.pwned=4</script>${window.pwned=5}{{1+1}}"
    )
    assert page.locator("body script").count() == 2 and page.locator("body img").count() == 0


def test_the_policy_stops_what_would_get_in(browser, tmp_path):
    """A file that was tampered with: an added script, handler, image and request all come to nothing."""
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
    attempt = "(() => { try { document.body.innerHTML = '<p>'; return 'set' } catch { return 'no' } })()"
    assert page.evaluate(attempt) == "no"
    page.context.close()


def test_it_fits_at_any_width_and_is_light_or_dark_as_the_reader_is(open_offline, tmp_path):
    config = RunConfig("Hi", method="ngram", gamma=4, max_new_tokens=24)
    ran, baseline = (fold(play(one)) for one in (config, replace(config, method="none", gamma=0)))
    page = open_offline(file(tmp_path, ran, baseline))
    for scheme, paper, width in (("light", "rgb(248, 250, 252)", 390), ("dark", "rgb(15, 23, 42)", 1920)):
        page.emulate_media(color_scheme=scheme)
        expect(page.locator("body")).to_have_css("background-color", paper)
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(f"{OVERFLOW} <= 0")
    expect(speedup(page)).to_have_text(SPEEDUP)
    expect(page.locator('[data-tile="speedup"] .sl-note')).to_have_text(re.compile("recorded with it"))


@pytest.mark.slow
def test_saved_from_the_page_it_shows_the_same_run(visit, open_offline, tmp_path):
    live = visit()
    run(live, tokens="40")
    measured, text = speedup(live).inner_text(), text_of(live)
    path = tmp_path / "saved.html"
    path.write_text(saved(live, "page-file"), encoding="utf-8", newline="\n")
    page = open_offline(path)
    page.keyboard.press("End")
    assert text_of(page) == text and len(text) > 100
    assert speedup(page).inner_text() == measured
    assert "{{1+1}} ${1+1}" in text

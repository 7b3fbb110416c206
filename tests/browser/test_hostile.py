"""What people and files may do to the page, in a real browser: nothing executes, nothing hangs, the next run works."""

import json
import os
import re
import time
from dataclasses import replace

import pytest
from fake_worker import play
from playwright.sync_api import Page, expect
from server import APP, FAKE_APP, serving

from engine.config import RunConfig
from engine.folders import cache_root
from engine.trace import MAX_BYTES, fold, to_json

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
expect.set_options(timeout=15_000)
FIRST_TOKEN = 200_000  # ms; the first run of the real app loads the model and measures the device
PROMPTS = {
    "tags": '<script>window.pwned=1</script> <img src=x onerror="window.pwned=2"> </script> </textarea> <svg onload=1>',
    "templates": "{{window.pwned=4}} ${window.pwned=3} ${1+1} `${2}` {% 3 %}",
    "escapes": "\\u0041 \\ud83d \\n %3Cscript%3E &lt;b&gt;",
    "right to left": "\u202eabc \u2067def\u2069 \u200f!",
    "emoji": "👩‍👩‍👧‍👦 " * 30 + "🌊" * 7_000,
}


@pytest.fixture(scope="module")
def echo(chromium_path, tmp_path_factory):
    """The page on a made-up model that writes the prompt back."""
    with serving(FAKE_APP, tmp_path_factory.mktemp("echo") / "app.log", STEP="0.02", ECHO="1") as url:
        yield url


def visit(browser, url: str) -> Page:
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    tab(page, url)
    return page


def tab(page: Page, url: str) -> None:
    """It must reach nobody but our server, and log no error."""
    page.strangers, page.errors = [], []
    page.on("request", lambda r: None if r.url.startswith((url, "data:", "blob:")) else page.strangers.append(r.url))
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.goto(url)
    expect(page.locator("#race .sl-race-note")).not_to_be_empty(timeout=20_000)


@pytest.fixture
def page(browser, echo):
    page = visit(browser, echo)
    yield page
    unharmed(page)
    page.context.close()


def unharmed(page: Page) -> None:
    assert page.strangers == [] and page.errors == []
    assert page.evaluate("window.pwned") is None
    assert page.locator(".sl-player script, .sl-player img, .sl-player svg[onload]").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "something is too wide"


def ask(page: Page, prompt: str, tokens: int = 24) -> None:
    page.locator("#prompt textarea").fill(prompt)
    page.locator("#tokens input").fill(str(tokens))
    page.locator("#run").click()


def good(page: Page, tokens: int = 12) -> None:
    """An ordinary run, up to its measured speedup."""
    ask(page, "All is well again and the keeper climbs the stairs", tokens)
    expect(page.locator("#notice")).to_contain_text("drafting", timeout=30_000)
    expect(page.locator("#run")).to_have_text("Run", timeout=30_000)
    expect(page.locator('[data-tile="speedup"] .sl-number')).to_have_text(re.compile(r"^\d+\.\d\d×$"))


# ── texts ──


@pytest.mark.parametrize("name", PROMPTS)
def test_a_hostile_text_is_only_text_everywhere_on_the_page(page, name):
    ask(page, PROMPTS[name], 60)
    expect(page.locator("#run")).to_have_text("Running…")
    expect(page.locator("#run")).to_have_text("Run", timeout=60_000)
    written = page.locator(".sl-text").evaluate("node => node.textContent")
    assert written.startswith(" ".join(PROMPTS[name].split(" ")[:8]))
    page.locator(".sl-list .sl-token").first.hover()
    page.locator(".sl-list .sl-token").first.click()
    expect(page.locator(".sl-inspector")).to_have_attribute("data-open", "locked")
    page.locator("#race").scroll_into_view_if_needed()
    expect(page.locator(".sl-race-result")).not_to_be_empty(timeout=40_000)
    page.locator('[data-chart="idealised"]').scroll_into_view_if_needed()
    expect(page.locator('[data-chart="idealised"][data-drawn]')).to_be_visible()


def test_half_a_character_typed_into_the_prompt(page):
    page.locator("#prompt textarea").evaluate(
        "node => { node.value = 'half ' + String.fromCharCode(0xd83d); node.dispatchEvent(new Event('input')); }"
    )
    page.locator("#run").click()
    expect(page.get_by_role("alert").filter(has_text="surrogate")).to_be_visible()
    good(page)


def test_ten_thousand_emoji_are_refused_in_words(page):
    ask(page, "🌊" * 10_000)
    expect(page.get_by_role("alert").filter(has_text="10,000 characters")).to_be_visible()
    good(page)


# ── files ──


def brought(page: Page, path) -> None:
    page.locator("input[type=file]").first.set_input_files(path)


def test_a_trace_of_hostile_tokens_is_only_text(page, tmp_path):
    texts = [*PROMPTS.values(), "🌊" * 10_000, "=1+1", ""]
    trace = fold(play(RunConfig(PROMPTS["tags"], method="ngram", gamma=4, max_new_tokens=30)))
    spare = iter(texts * 20)
    rounds = [replace(r, tokens=tuple(replace(t, text=next(spare)) for t in r.tokens)) for r in trace.rounds]
    trace = replace(trace, rounds=tuple(rounds), started=replace(trace.started, pair=PROMPTS["tags"]))
    path = tmp_path / "hostile.json"
    path.write_text(to_json(trace), encoding="utf-8")
    brought(page, path)
    expect(page.locator("#notice")).to_contain_text("Opened from a file", timeout=30_000)
    page.keyboard.press("End")
    expect(page.locator(".sl-list .sl-token").first).to_be_visible()
    page.locator(".sl-list .sl-token").nth(1).click()
    expect(page.locator(".sl-inspector")).to_have_attribute("data-open", "locked")
    good(page)


def test_a_trace_with_half_a_character_is_refused_in_words(page, tmp_path):
    path = tmp_path / "half.json"
    path.write_text(to_json(fold(play(RunConfig("Hi", max_new_tokens=4)))).replace("lighthouse", "half \\ud83d"))
    brought(page, path)
    expect(page.get_by_role("alert").filter(has_text="not a SpecLens trace")).to_be_visible()
    good(page)


def test_a_trace_with_a_million_tokens_is_refused_in_words(page, tmp_path):
    raw = json.loads(to_json(fold(play(RunConfig("Hi", method="none", gamma=0, max_new_tokens=1)))))
    raw["rounds"][0]["tokens"] = "@@"
    token = '{"id":1,"text":"","status":"plain","position":0,"depth":1}'
    path = tmp_path / "million.json"
    path.write_text(json.dumps(raw).replace('"@@"', f"[{','.join([token] * 1_000_000)}]"))
    assert path.stat().st_size < MAX_BYTES, "else it would be refused for its size alone"
    began = time.monotonic()
    brought(page, path)
    expect(page.get_by_role("alert").filter(has_text=re.compile("values|tokens"))).to_be_visible(timeout=60_000)
    assert time.monotonic() - began < 45
    good(page)


# ── hands ──


def test_fast_clicks_on_run_make_one_run(page):
    page.locator("#tokens input").fill("30")
    page.locator("#run").dblclick()
    for _ in range(6):
        page.locator("#run").click(delay=0)
    expect(page.locator("#run")).to_have_text("Running…")
    expect(page.locator("#run")).to_have_text("Run", timeout=60_000)
    expect(page.locator('[data-tile="speedup"] .sl-number')).to_have_text(re.compile(r"^\d+\.\d\d×$"))
    expect(page.locator(".sl-alert")).to_be_empty()
    good(page)


def test_two_tabs_of_one_browser_each_see_their_own_run(page, echo):
    other = page.context.new_page()
    tab(other, echo)
    ask(page, "first " * 40, 40)
    ask(other, "second " * 40, 40)
    for one in (page, other):
        expect(one.locator("#run")).to_have_text("Running…")
    for one, word in ((page, "first"), (other, "second")):
        expect(one.locator("#run")).to_have_text("Run", timeout=60_000)
        written = one.locator(".sl-text").inner_text()
        assert set(written.split()) == {word}, written
    unharmed(other)


def test_stop_before_the_first_token(browser, chromium_path, tmp_path):
    with serving(FAKE_APP, tmp_path / "app.log", STEP="0.02", LOAD="3") as url:
        page = visit(browser, url)
        page.locator("#run").click()
        expect(page.locator("#notice")).to_contain_text("Loading")
        page.locator("#stop").click()
        expect(page.locator("#notice")).to_contain_text("Stopped", timeout=20_000)
        expect(page.locator("#run")).to_have_text("Run")
        assert page.locator(".sl-list .sl-token").count() == 0
        good(page)
        unharmed(page)
        page.context.close()


def test_a_model_that_cannot_be_loaded_is_said_and_once_mended_the_next_run_works(browser, chromium_path, tmp_path):
    """The real engine, whose folder of weights is no folder until somebody mends it while the page is up."""
    cache = tmp_path / "cache"
    cache.write_text("not a folder")
    with serving(APP, tmp_path / "app.log", SPECLENS_CACHE=str(cache)) as url:
        page = visit(browser, url)
        ask(page, "Count to ten.", 12)
        expect(page.get_by_role("alert").filter(has_text="name another cache folder")).to_be_visible(timeout=60_000)
        expect(page.locator("#run")).to_have_text("Run")
        cache.unlink()
        os.symlink(cache_root(), cache)
        ask(page, "Count to ten.", 12)
        expect(page.locator('[data-tile="speedup"] .sl-number')).to_have_text(re.compile("×"), timeout=FIRST_TOKEN)
        expect(page.locator(".sl-alert")).to_be_empty()
        unharmed(page)
        page.context.close()

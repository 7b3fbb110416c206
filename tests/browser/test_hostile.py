"""What people and files may do to the page, in a real browser: nothing executes, nothing hangs, the next run works."""

import os
import re
from dataclasses import replace

import pytest
from fake_worker import play
from page_actions import OVERFLOW, SPEEDUP, drawn, fill, open_files, press_run, run, speedup, text_of, wait_for_end
from playwright.sync_api import Page, expect
from server import APP, serving

from engine.config import RunConfig
from engine.files import cache_root
from engine.trace.trace import fold, to_json

pytestmark = pytest.mark.browser
FIRST_TOKEN = 200_000  # ms; the first run of the real app loads the model and measures the device
TEXTS = {
    "tags": '<script>window.pwned=1</script> <img src=x onerror="window.pwned=2"> </script> </textarea> <svg onload=1>',
    "templates": "{{window.pwned=4}} ${window.pwned=3} ${1+1} `${2}` {% 3 %}",
    "escapes": "\\u0041 \\ud83d \\n %3Cscript%3E &lt;b&gt;",
    "right to left": "\u202eabc \u2067def\u2069 \u200f!",
    "emoji": "👩‍👩‍👧‍👦 " * 30 + "🌊" * 7_000,
}
ALL = " ".join(TEXTS.values())


@pytest.fixture
def page(visit):
    page = visit()
    yield page
    assert page.locator(".sl-player script, .sl-player img, .sl-player svg[onload]").count() == 0
    assert page.evaluate(OVERFLOW) <= 0, "something is too wide"


def ordinary_run(page: Page) -> None:
    """The page still works: a run, up to its measured speedup."""
    run(page, prompt="All is well again and the keeper climbs the stairs", tokens="12")
    expect(speedup(page)).to_have_text(SPEEDUP)
    expect(page.locator(".sl-alert")).to_be_empty()


def test_a_hostile_text_is_only_text_everywhere_and_one_that_no_model_can_read_is_refused(page, fake):
    fake(echo=True)
    run(page, prompt=ALL, tokens=str(len(ALL.split(" ")) + 4))
    assert text_of(page).startswith(ALL)
    page.locator(".sl-list .sl-token").first.click()
    expect(page.locator(".sl-inspector")).to_have_attribute("data-open", "locked")
    drawn(page, "idealised")
    page.locator("#prompt textarea").evaluate(
        "node => { node.value = 'half ' + String.fromCharCode(0xd83d); node.dispatchEvent(new Event('input')); }"
    )
    page.locator("#run").click()
    expect(page.get_by_role("alert").filter(has_text="surrogate")).to_be_visible()
    fill(page, prompt="🌊" * 10_000)
    page.locator("#run").click()
    expect(page.get_by_role("alert").filter(has_text="10,000 characters")).to_be_visible()
    ordinary_run(page)


@pytest.mark.slow
def test_a_trace_of_hostile_tokens_is_only_text_and_one_with_half_a_character_is_refused(page, tmp_path):
    texts = [*TEXTS.values(), "🌊" * 10_000, "=1+1", ""]
    trace = fold(play(RunConfig(TEXTS["tags"], method="ngram", gamma=4, max_new_tokens=30)))
    spare = iter(texts * 20)
    rounds = [replace(r, tokens=tuple(replace(t, text=next(spare)) for t in r.tokens)) for r in trace.rounds]
    trace = replace(trace, rounds=tuple(rounds), started=replace(trace.started, pair=TEXTS["tags"]))
    path = tmp_path / "hostile.json"
    path.write_text(to_json(trace), encoding="utf-8")
    open_files(page, path)
    expect(page.locator("#stage-notice")).to_contain_text("Opened from a file")
    page.keyboard.press("End")
    expect(page.locator(".sl-list .sl-token").first).to_be_visible()
    page.locator(".sl-list .sl-token").nth(1).click()
    expect(page.locator(".sl-inspector")).to_have_attribute("data-open", "locked")
    shown = text_of(page)
    path.write_text(to_json(fold(play(RunConfig("Hi", max_new_tokens=4)))).replace("lighthouse", "half \\ud83d"))
    open_files(page, path)
    expect(page.get_by_role("alert").filter(has_text="not a SpecLens trace")).to_be_visible()
    assert text_of(page) == shown, "the run stays on screen"
    ordinary_run(page)


@pytest.mark.slow
def test_two_tabs_of_one_browser_each_see_their_own_run(page, visit, fake):
    other = visit(context=page.context)
    fake(echo=True, step=0.02)
    press_run(page, prompt="first " * 40, tokens="40")
    press_run(other, prompt="second " * 40, tokens="40")
    for one, word in ((page, "first"), (other, "second")):
        wait_for_end(one)
        written = one.locator(".sl-text").inner_text()
        assert set(written.split()) == {word}, written


@pytest.mark.slow
def test_stop_before_the_first_token(page, fake):
    fake(load=3)
    press_run(page, tokens="24")
    expect(page.locator("#stage-notice")).to_contain_text("Loading")
    page.locator("#stop").click()
    expect(page.locator("#stage-notice")).to_contain_text("Stopped")
    expect(page.locator("#stage .sl-source")).to_have_text("Recorded run")  # the stage keeps its run
    ordinary_run(page)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_model_that_cannot_be_loaded_is_said_and_once_mended_the_next_run_works(visit, tmp_path):
    """The real engine, whose folder of weights is a file until it is mended while the page is up."""
    cache = tmp_path / "cache"
    cache.write_text("not a folder")
    with serving(APP, tmp_path / "app.log", SPECLENS_CACHE=str(cache)) as url:
        page = visit(server=url, fresh=True)
        fill(page, prompt="Count to ten.", tokens="12")
        page.locator("#run").click()
        expect(page.get_by_role("alert").filter(has_text="name another cache folder")).to_be_visible(timeout=60_000)
        expect(page.locator("#run")).to_have_text("Run")
        cache.unlink()
        os.symlink(cache_root(), cache)
        page.locator("#run").click()
        expect(speedup(page)).to_have_text(re.compile("×"), timeout=FIRST_TOKEN)
        expect(page.locator(".sl-alert")).to_be_empty()

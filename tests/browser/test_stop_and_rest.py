"""Stopping and resting: Stop and a closed tab free the device, and a page on which nothing moves asks for no frames."""

import re

import pytest
from page_actions import SPEEDUP, press_run, run, speedup, wait_for_end
from playwright.sync_api import expect

pytestmark = pytest.mark.browser
FIRST_TOKEN = 200_000  # ms; the very first run loads the model and measures the device
COUNT_FRAMES = """
const ask = window.requestAnimationFrame;
window.frames_asked = 0;
window.requestAnimationFrame = draw => { window.frames_asked++; return ask.call(window, draw); };"""


@pytest.mark.slow
def test_stop_keeps_what_there_is_and_the_next_run_works(visit, real_server):
    page = visit("?method=lm&temperature=0", server=real_server)  # auto would load and measure every draft first
    press_run(page, prompt="Write a long story about a lighthouse keeper and the sea.", tokens="500")
    expect(page.locator(".sl-source")).to_have_text("Running now", timeout=FIRST_TOKEN)
    expect(page.locator(".sl-row").nth(2)).to_be_visible(timeout=FIRST_TOKEN)
    page.locator("#stop").click()
    wait_for_end(page)
    expect(page.locator("#stage-notice")).to_contain_text("Stopped")
    expect(page.locator(".sl-row").nth(2)).to_be_visible()
    run(page, tokens="24")
    expect(page.locator(".sl-compared")).to_contain_text("same text")
    expect(page.locator(".sl-rows .sl-accepted").first).to_be_visible()
    expect(page.locator(".sl-text")).to_have_text(re.compile(r"(\S+\s+){5}\S"))
    expect(speedup(page)).to_have_text(SPEEDUP)
    expect(page.locator('[data-tile="speedup"] .sl-note')).to_have_text(re.compile("measured just now|measure again"))


@pytest.mark.slow
def test_closing_the_tab_frees_the_device(visit, fake):
    """Another visitor's run starts though the first would take minutes; the made-up engine runs one at a time."""
    first = visit(fresh=True)
    fake(step=0.5)
    press_run(first, tokens="500")
    expect(first.locator(".sl-source")).to_have_text("Running now")
    expect(first.locator(".sl-row").nth(2)).to_be_visible()
    first.close()
    second = visit()
    press_run(second, tokens="20")
    expect(second.locator("#stage-notice")).to_contain_text("of up to 20 tokens")
    fake()
    wait_for_end(second)


@pytest.mark.slow
def test_a_page_on_which_nothing_moves_asks_for_no_frames(visit):
    page = visit(init_script=COUNT_FRAMES)
    page.locator("#stage .sl-rows").focus()
    page.keyboard.press("End")  # else the recording plays
    page.wait_for_function(  # what fades in is through in four seconds
        "() => { const { seen } = window; window.seen = frames_asked; return seen > 0 && seen === frames_asked; }",
        polling=1000,
    )

"""What people and files may do to the page, in a real browser: nothing executes, nothing hangs, the next run works."""

import os
import re

import pytest
from page_actions import OVERFLOW, SPEEDUP, drawn, fill, run, speedup, text_of
from playwright.sync_api import expect
from server import APP, serving

from engine.files import cache_root

pytestmark = [pytest.mark.browser, pytest.mark.slow]
FIRST_TOKEN = 200_000  # ms; the first run of the real app loads the model and measures the device
TEXTS = {
    "tags": '<script>window.pwned=1</script> <img src=x onerror="window.pwned=2"> </script> </textarea> <svg onload=1>',
    "templates": "{{window.pwned=4}} ${window.pwned=3} ${1+1} `${2}` {% 3 %}",
    "escapes": "\\u0041 \\ud83d \\n %3Cscript%3E &lt;b&gt;",
    "right to left": "\u202eabc \u2067def\u2069 \u200f!",
    "emoji": "👩‍👩‍👧‍👦 " * 30 + "🌊" * 7_000,
}
ALL = " ".join(TEXTS.values())


def test_hostile_text_is_only_text_and_unreadable_text_is_refused(visit, fake):
    page = visit()
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
    run(page, prompt="All is well again and the keeper climbs the stairs", tokens="12")
    expect(speedup(page)).to_have_text(SPEEDUP)
    expect(page.locator(".sl-alert")).to_be_empty()
    assert page.locator(".sl-player script, .sl-player img, .sl-player svg[onload]").count() == 0
    page.wait_for_function(f"{OVERFLOW} <= 0")


@pytest.mark.timeout(400)
def test_model_that_cannot_be_loaded_is_reported_and_later_works(visit, tmp_path):
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

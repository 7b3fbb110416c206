"""A run whose updates are lost. The server ends a page's stream once nothing is under way for it; a page that asks for
the next run before it has heard of that goes on waiting at a stream that is gone. Here that moment is held open."""

import pytest
from page_actions import fill, open_tab
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser
# What the server says last on a stream, "close_stream", comes late, as on a busy machine. ``streams``: how many the
# page has opened; ``goodbyes``: how many of them are being held back.
SLOW_GOODBYE = """() => {
  const own = window.fetch;
  window.streams = window.goodbyes = 0;
  window.fetch = async (url, options) => {
    const answer = await own(url, options);
    if (!(url.url || String(url)).includes('queue/data')) return answer;
    window.streams++;
    const late = new TransformStream({ async transform(chunk, out) {
      const last = new TextDecoder('latin1').decode(chunk).indexOf('data: {"msg":"close_stream"');  // a byte, a letter
      if (last < 0) return out.enqueue(chunk);
      if (last) out.enqueue(chunk.slice(0, last));
      window.goodbyes++;
      await new Promise(done => setTimeout(done, 2500));
      window.goodbyes--;
      out.enqueue(chunk.slice(last));
    } });
    return new Response(answer.body.pipeThrough(late), answer);
  };
}"""


@pytest.fixture
def page(visit, fake):
    fake(step=0.02)
    page = visit(init_script=f"({SLOW_GOODBYE})()")
    fill(page, tokens="24")
    return page


def ended(page: Page) -> None:
    expect(page.locator("#run")).to_have_text("Run")
    open_tab(page, "Files")
    expect(page.locator("#trace-file")).to_be_enabled()
    expect(page.locator("#stop")).to_be_disabled()


@pytest.mark.slow
def test_a_run_asked_for_as_the_stream_ends_is_shown_to_its_end(page):
    page.locator("#run").click()
    expect(page.locator("#stage-notice")).to_contain_text("measured just now")
    ended(page)
    page.locator("#prompt textarea").fill("The second")
    page.wait_for_function("goodbyes > 0")  # the goodbye of what follows a run, or of a request for nothing
    opened = page.evaluate("() => { document.querySelector('#run').click(); return streams; }")
    page.wait_for_function("goodbyes === 0")
    page.wait_for_timeout(500)
    assert page.evaluate("streams") == opened, "the page has opened a stream by itself, so this has tried nothing"
    expect(page.locator(".sl-asked").first).not_to_contain_text("The second")
    expect(page.locator(".sl-asked").first).to_contain_text("The second")  # it has asked for its news
    ended(page)

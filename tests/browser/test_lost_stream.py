"""A run whose updates are lost. The server ends a page's stream once nothing is under way for it; a page that asks for
the next run before it has heard of that goes on waiting at a stream that is gone. Here that moment is held open."""

import pytest
from page_actions import event_numbers, fill, open_tab
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser
# What the server says last on a stream, "close_stream", comes late, as on a busy machine. ``sent``: the number of each
# event that the page has sent, and "stream" where it has opened one; ``goodbyes``: how many are being held back.
SLOW_GOODBYE = """() => {
  const own = window.fetch;
  [window.sent, window.goodbyes] = [[], 0];
  window.fetch = async (url, options) => {
    const address = url.url || String(url), isStream = address.includes('queue/data');
    if (isStream) sent.push('stream');
    if (address.includes('queue/join')) sent.push(JSON.parse(options.body).fn_index);
    const answer = await own(url, options);
    if (!isStream) return answer;
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
    clicked = page.evaluate("() => { document.querySelector('#run').click(); return sent.length; }")
    expect(page.locator(".sl-asked").first).to_contain_text("The second")
    sent = page.evaluate("sent")[clicked:]
    asked_for_news = {*sent[: sent.index("stream")]} & event_numbers(page, "unheard")
    assert asked_for_news, "the page has opened a stream for another reason, so this has tried nothing"
    ended(page)

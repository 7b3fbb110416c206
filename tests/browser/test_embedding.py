"""The minute and a saved run in a page of another site: sandboxed, as tall as they are, light and dark."""

from urllib.parse import urlsplit

import pytest
from page_actions import OVERFLOW, violations
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("static-site")]
SITE, BLOG = "http://lessons.test", "http://blog.test"
HOST = "<!doctype html><meta name=viewport content='width=device-width'><body style='margin: 20px'>"
# What a frame can reach: no storage and nothing around it. Both throw where the sandbox holds.
CONFINED = """() => [() => localStorage.length, () => parent.document.title].map(each => {
  try { each(); return 'open'; } catch { return 'closed'; } })"""


@pytest.fixture
def embedded(browser, site):
    """Opens a page of another site around the code that a page of the static site offers, and returns both."""
    contexts = []

    def open_(name: str, **options):
        context = browser.new_context(**options)
        contexts.append(context)
        texts = {f"{SITE}/{file}": (site.parent / file).read_text(encoding="utf-8") for file in (name, "index.html")}

        def answer(route):
            route.fulfill(body=texts.get(route.request.url, ""), content_type="text/html; charset=utf-8")

        context.route("**/*", answer)
        page = context.new_page()
        page.on("console", lambda message: page.problems.append(message.text))
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.problems = []
        page.goto(f"{SITE}/{name}")
        code = page.locator(".sl-embed-code").text_content()
        assert f'src="{SITE}/{name}"' in code and 'sandbox="allow-scripts"' in code
        texts[f"{BLOG}/"] = HOST + code
        page.goto(f"{BLOG}/")
        page.frame_locator("iframe").locator("body:not(:empty)").wait_for()
        return page, page.frame(url=f"{SITE}/{name}")

    yield open_
    for context in contexts:
        context.close()


def fits(page, frame) -> None:
    """Waits until the frame is as tall as its page, and stays so."""
    inside = "document.body.getBoundingClientRect().height"
    for _ in range(100):
        tall = page.locator("iframe").evaluate("node => node.getBoundingClientRect().height")
        if abs(tall - frame.evaluate(inside)) <= 1:
            break
        page.wait_for_timeout(50)
    page.wait_for_timeout(200)
    again = page.locator("iframe").evaluate("node => node.getBoundingClientRect().height")
    assert again == tall and abs(tall - frame.evaluate(inside)) <= 1
    assert frame.evaluate(OVERFLOW) <= 0


@pytest.mark.parametrize(("width", "scheme", "paper"), [
    (390, "dark", "rgb(15, 23, 42)"), (1280, "light", "rgb(248, 250, 252)"),
])  # fmt: skip
def test_the_minute_plays_in_a_page_of_another_site(embedded, width, scheme, paper):
    page, frame = embedded(
        "minute.html", viewport={"width": width, "height": 800}, color_scheme=scheme, reduced_motion="reduce"
    )
    fits(page, frame)
    expect(frame.locator("body")).to_have_css("background-color", paper)
    assert frame.evaluate(CONFINED) == ["closed", "closed"]
    for _ in range(4):
        frame.locator(".sl-minute-go").click()
    expect(frame.locator(".sl-minute-end")).to_contain_text("the text is the same")
    fits(page, frame)  # it has more lines now
    expect(frame.locator("a, .sl-embed")).to_have_count(0)  # nothing leads away, and nothing embeds once more
    assert page.problems == []


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (860, "dark"), (1280, "dark")])
def test_a_saved_run_plays_in_a_page_of_another_site(embedded, width, scheme):
    page, frame = embedded("runs/opening.html", viewport={"width": width, "height": 800}, color_scheme=scheme)
    fits(page, frame)
    tall = page.locator("iframe").get_attribute("height")
    assert frame.evaluate(CONFINED) == ["closed", "closed"]
    expect(frame.locator(".sl-source")).to_have_text("A recorded run")
    expect(frame.locator(".sl-facts dl")).to_be_hidden()  # it would be half of the frame
    frame.locator("body").press("Home")
    frame.locator("body").press("ArrowRight")
    frame.locator("body").press("End")
    frame.locator(".sl-list .sl-accepted").first.click()
    inspector = frame.locator(".sl-inspector")
    expect(inspector).to_have_attribute("data-open", "locked")
    if width < 900:  # it is right below the rounds
        rounds, numbers = (part.bounding_box() for part in (frame.locator(".sl-rounds"), inspector))
        assert abs(rounds["y"] + rounds["height"] - numbers["y"]) <= 2
    fits(page, frame)
    assert page.locator("iframe").get_attribute("height") == tall  # the text below it stays where it is
    frame.locator(".sl-facts summary").click()
    expect(frame.locator(".sl-facts dl")).to_be_visible()
    fits(page, frame)
    assert page.problems == []


def test_a_message_of_another_page_changes_no_frame(embedded):
    page, frame = embedded("minute.html")
    fits(page, frame)
    before = page.locator("iframe").get_attribute("height")
    page.evaluate("postMessage({ type: 'speclens-height', height: 9 }, '*')")
    frame.evaluate("parent.postMessage({ type: 'another', height: 9 }, '*')")
    page.wait_for_timeout(200)
    assert page.locator("iframe").get_attribute("height") == before


def test_code_of_a_file_names_the_file_and_of_the_served_page_its_address(open_offline, site, visit):
    page = open_offline(site.with_name("minute.html"), several=True)
    expect(page.locator(".sl-embed-code")).to_contain_text('src="minute.html"')
    expect(page.locator(".sl-embed")).to_contain_text("Put this file beside your page first.")
    page.locator(".sl-embed summary").click()
    assert violations(page, ".sl-embed") == []
    served = visit("#minute")
    code = served.locator(".sl-minute .sl-embed-code")
    address = f"{urlsplit(served.url).scheme}://{urlsplit(served.url).netloc}/speclens/minute"
    expect(code).to_contain_text(f'src="{address}"')
    alone = served.request.get(address)
    assert alone.ok and "The idea in sixty seconds" in alone.text()

"""The inspector on a phone: its sheet leaves with the rounds that it is about."""

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


@pytest.mark.slow
def test_the_sheet_closes_once_the_rounds_are_scrolled_away(visit):
    page = visit(viewport={"width": 390, "height": 844})
    page.locator("#stage .sl-row .sl-token").first.click()
    sheet = page.locator("#stage .sl-inspector")
    expect(sheet).to_have_attribute("data-open", "locked")
    page.evaluate("window.scrollBy(0, 60)")
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")  # its scroll event
    expect(sheet).to_have_attribute("data-open", "locked")
    page.locator("#results").scroll_into_view_if_needed()
    page.evaluate("window.scrollTo(0, document.querySelector('#results').getBoundingClientRect().top + scrollY)")
    expect(sheet).to_have_attribute("data-open", "")
    assert page.evaluate("document.querySelector('#results').getBoundingClientRect().top") < 300, "it stays where it is"

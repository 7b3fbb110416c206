"""The Lab after a reload: its forms are as they were, and a page that measures is not left without a question."""

import pytest
from page_actions import open_lab, open_tab
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


@pytest.mark.slow
def test_a_reload_brings_the_labs_forms_back(visit):
    page = visit()
    open_lab(page, "Compare")
    columns = page.locator(".sl-compare-column:visible")
    page.locator("#compare-add").click()
    expect(columns).to_have_count(4)
    page.locator("#compare-prompt textarea").fill("Mine")
    open_tab(page, "The answer", "lab-tabs")
    page.locator("#answer-own textarea").fill("the cat\n---\nthe hat")
    expect(page.locator("#answer-notice")).to_contain_text("2 texts")
    page.reload()
    open_tab(page, "Lab", "tabs")
    open_tab(page, "The answer", "lab-tabs")
    expect(page.locator("#answer-own textarea")).to_have_value("the cat\n---\nthe hat")
    said = page.locator("#answer-recorded")
    expect(said).to_contain_text("Your settings are back. Press Find the answer to measure: what was finished is not")
    expect(said).to_contain_text("measured again. Recorded on")
    expect(page.locator("#answer-notice")).to_contain_text("2 texts")
    open_lab(page, "Compare")
    expect(columns).to_have_count(4)
    expect(page.locator("#compare-prompt textarea")).to_have_value("Mine")
    page.goto(page.url.split("#")[0])  # not a reload
    open_tab(page, "Lab", "tabs")
    open_tab(page, "The answer", "lab-tabs")
    expect(page.locator("#answer-notice")).not_to_be_empty()
    expect(page.locator("#answer-own textarea")).to_have_value("")


@pytest.mark.slow
def test_the_page_asks_before_a_measurement_is_left(visit, fake):
    fake(step=0.2)
    page, asked = visit(fresh=True), []
    page.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.dismiss()))
    open_lab(page, "Compare")
    page.locator("#compare-run").click()
    expect(page.locator("#compare-notice")).to_contain_text("Run 1 of")
    with page.expect_event("dialog"):
        page.evaluate("location.reload()")
    assert asked == ["beforeunload"]
    page.locator("#compare-stop").click()
    expect(page.locator("#compare-run")).to_have_text("Run all")
    with page.expect_navigation():
        page.evaluate("location.reload()")
    assert len(asked) == 1, "nothing is under way"

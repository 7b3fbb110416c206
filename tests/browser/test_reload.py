"""A page that is reloaded gets its newest run back: while it goes on, after its end, and after a Stop."""

import re

import pytest
from fake_worker import recorded
from page_actions import open_tab, press_run, run, text_of
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser


# How often, looked at all the time, the stage shows the recorded run.
COUNT_RECORDED = """addEventListener('DOMContentLoaded', () => {
  window.recorded = 0;
  setInterval(() => {
    const source = document.querySelector('#stage .sl-source');
    window.recorded += source?.textContent === 'Recorded run' && source.checkVisibility({ visibilityProperty: true });
  }, 5);
})"""


def shows(page: Page, prompt: str) -> None:
    expect(page.locator("#prompt textarea")).to_have_value(prompt)
    expect(page.locator("#stage .sl-asked").first).to_contain_text(prompt)


@pytest.mark.slow
def test_a_run_goes_on_through_a_reload_and_its_end_counts(page, fake):
    fake(step=0.5)
    press_run(page, prompt="Through a reload", tokens="120")
    shows(page, "Through a reload")  # until then the rounds are those of the run before
    expect(page.locator("#stage .sl-row").nth(3)).to_be_visible()
    page.add_init_script(COUNT_RECORDED)
    page.reload()
    expect(page.locator("#run")).to_have_text("Running…")
    shows(page, "Through a reload")
    assert page.evaluate("window.recorded") == 0, "another run was on the stage first"
    expect(page.locator("#stage .sl-source")).to_have_text("Running now")
    fake()  # the rest need not be slow
    expect(page.locator("#stage-notice")).to_contain_text("measured just now")
    expect(page.locator("#run")).to_have_text("Run")
    expect(page.locator("#stop")).to_be_disabled()
    whole = "".join(token.text for token in recorded(tokens=120, prompt="Through a reload").emitted)
    assert text_of(page) == whole, "its first rounds are lost, or its last"
    open_tab(page, "Files")
    expect(page.locator("#trace-file")).to_be_enabled()


@pytest.mark.slow
def test_stop_ends_a_run_that_came_through_a_reload(page, fake):
    fake(step=0.2)
    press_run(page, prompt="Stop it later", tokens="500")
    shows(page, "Stop it later")
    expect(page.locator("#stage .sl-row").nth(1)).to_be_visible()
    for _ in range(2):  # twice: the second page takes it from the first
        page.reload()
        expect(page.locator("#stop")).to_be_enabled()
        expect(page.locator("#stage .sl-source")).to_have_text("Running now")
    expect(page.locator("#stage .sl-row").nth(5)).to_be_visible()
    page.locator("#stop").click()
    expect(page.locator("#run")).to_have_text("Run")
    expect(page.locator("#stage-notice")).to_contain_text("Stopped")
    page.reload()  # the same once it has ended
    expect(page.locator("#stage-notice")).to_contain_text("Stopped. The rounds so far stay.")
    shows(page, "Stop it later")
    expect(page.locator("#stage .sl-source")).to_have_text("Your run")
    fake()
    assert 10 < len(text_of(page).split(" ")) < 500
    run(page, tokens="8", prompt="And the next")
    shows(page, "And the next")


@pytest.mark.slow
def test_the_lab_is_open_again_after_a_reload_and_a_link_opens_its_tab(visit):
    page = visit("#lab-users", viewport={"width": 390, "height": 800})  # also on a phone
    expect(page.locator("#users-run")).to_be_visible()
    page.evaluate("location.hash = '#lab-theory'")
    expect(page.locator("#theory-run")).to_be_visible()
    expect(page.locator("#users-run")).to_be_hidden()
    page.reload()
    expect(page.locator("#theory-run")).to_be_visible()
    page.set_viewport_size({"width": 1280, "height": 900})
    page.get_by_role("tab", name="Playground").click()
    lab = page.get_by_role("tab", name="Lab", exact=True)
    lab.click()
    open_tab(page, "The answer", "lab-tabs")
    expect(page).to_have_url(re.compile("#lab$"))
    page.reload()
    expect(lab).to_have_attribute("aria-selected", "true")
    open_tab(page, "Sweep", "lab-tabs")
    expect(page).to_have_url(re.compile("#lab-sweep$"))
    page.get_by_role("tab", name="Playground").click()
    expect(page).to_have_url(re.compile("/$"))
    lab.click()
    expect(page).to_have_url(re.compile("#lab-sweep$"))


@pytest.mark.slow
def test_back_goes_from_tab_to_tab_and_keeps_the_runs_address(page, fake):
    fake()
    tab = {name: page.get_by_role("tab", name=name, exact=True) for name in ("Playground", "Lessons", "Lab")}
    tab["Lessons"].click()
    page.locator("[href^='#lesson-']:visible").first.click()
    expect(page).to_have_url(re.compile("#lesson-"))
    tab["Playground"].click()
    run(page, tokens="8", prompt="Before going back")
    tab["Lab"].click()
    expect(page).to_have_url(re.compile("prompt=Before.*#lab$"))
    for name, ending in (("Playground", ""), ("Lessons", r"#lesson-\w+"), ("Lessons", "#lessons"), ("Playground", "")):
        page.go_back()
        expect(page).to_have_url(re.compile(f"prompt=Before[^#]*{ending}$"))
        expect(tab[name]).to_have_attribute("aria-selected", "true")
    shows(page, "Before going back")
    page.go_forward()
    expect(page.locator("#sl-lesson-list-title")).to_be_visible()

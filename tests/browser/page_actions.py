"""Does with a page what a visitor does, and reads what the visitor sees."""

import csv
import io
import re
from contextlib import contextmanager
from urllib.parse import urlsplit

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Locator, Page, expect

from app.views.run_charts import TABS
from lessons.loader import lessons

SPEEDUP = re.compile(r"^(\d+\.\d\d×|noise)$")  # noise on a busy machine
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
# The rounds that are wholly in the list and in the window.
ROWS = """() => {
  const list = document.querySelector('#stage .sl-rows').getBoundingClientRect();
  return [...document.querySelectorAll('#stage [data-part=round]')].map(row => row.getBoundingClientRect())
    .filter(row => row.top >= list.top - 1 && row.bottom <= list.bottom + 1 && row.bottom <= innerHeight).length;
}"""
# Notes that Run was pressed, runs and has ended. Otherwise a run of a few milliseconds would pass unseen.
_WATCH = """() => {
  const button = document.querySelector('#run'), words = () => button.textContent.trim();
  window.run_state = 'pressed';
  const observer = new MutationObserver(() => {
    if (run_state === 'pressed' && words() === 'Running…') run_state = 'running';
    if (run_state === 'running' && words() === 'Run') { run_state = 'ended'; observer.disconnect(); }
  });
  observer.observe(button, { subtree: true, childList: true, characterData: true });
}"""
# Everything that moves has come to rest. A glow goes on for ever and is not waited for.
_SETTLED = """() => Promise.all(document.getAnimations()
  .filter(one => one.effect.getComputedTiming().endTime < Infinity)
  .map(one => one.finished.catch(() => {})))"""

# Sets a slider, and says so as a hand's move would.
SLIDE = "(node, value) => { node.value = value; node.dispatchEvent(new Event('input', { bubbles: true })); }"
# A picture is drawn again when its place has another width.
_FITS = """name => {
  const width = part => document.querySelector(`[data-chart="${name}"] ${part}`)?.getBoundingClientRect().width;
  return Math.abs(width('.main-svg') - width('.sl-plot')) <= 2;
}"""
# Again and again, because a lesson that is just opening writes its own address over this one.
_OPEN_LESSON = """([number, slug]) => {
  const isOpen = document.querySelector('#sl-lesson-title')?.textContent.startsWith(`${number}. `);
  if (!isOpen) location.hash = `#lesson-${slug}`;
  return isOpen;
}"""
_VIOLATIONS = """async within => {
  const { violations } = await axe.run(within ?? document, { resultTypes: ['violations'] });
  return violations.filter(rule => ['serious', 'critical'].includes(rule.impact))
    .flatMap(rule => rule.nodes.map(node => `${rule.id}: ${node.target.at(-1)} ${node.failureSummary}`));
}"""


def fill(page: Page, **values: str) -> None:
    """Fills controls; the drawer is opened for those in it."""
    for name, value in values.items():
        field = page.locator(f"#{name} :is(textarea, input)").first
        with settings_for(page, field):
            field.fill(value)


@contextmanager
def settings_for(page: Page, field: Locator):
    """Opens the drawer where the field is in it, or on a phone comes with it, and closes it again."""
    is_inside = field.evaluate(
        "node => node.matches('#drawer:not(.sl-open) *') || (node.matches('#quick *') && !node.checkVisibility())"
    )
    if is_inside:
        page.locator("#settings").click()
    yield
    if is_inside:
        page.locator("#settings").click()


def click_until(button: Locator, state: str) -> None:
    """Clicks until the button matches a selector, because a click while gradio lays its tabs out again is lost."""
    for i in range(500):
        if button.evaluate("(node, state) => node.matches(state)", state):
            return
        if i % 5 == 0:
            button.click()
        button.page.wait_for_timeout(20)
    raise AssertionError(f"the button never became {state}: {button}")


def open_tab(page: Page, name: str, tabs: str = "results") -> None:
    """Opens a tab, by default one below the stage, up to where its panel can be seen."""
    chosen = page.locator(f"#{tabs} [role=tab][aria-selected=true]")
    chosen = chosen.filter(has_text=re.compile(rf"^\s*{re.escape(name)}\s*$"))
    if not chosen.count():  # otherwise charts would be drawn twice for nothing
        click_until(page.locator(f"#{tabs}").get_by_role("tab", name=name, exact=True), "[aria-selected=true]")
    expect(page.locator(f"#{chosen.first.get_attribute('aria-controls')}")).to_be_visible()


def choose(page: Page, control: str, words: str | re.Pattern) -> None:
    field = page.locator(f"#{control} input")
    with settings_for(page, field):
        field.click()
        page.get_by_role("option", name=words).click()


def set_number(page: Page, name: str, value: float | str) -> None:
    field = page.locator(f"#{name} input[type=number]")
    with settings_for(page, field):
        field.fill(str(value))
        field.press("Tab")


def tick(page: Page, group: str, *labels: str) -> None:
    """Ticks these boxes of a group and no others."""
    boxes = page.locator(f"#{group} label")
    expect(boxes.first).to_be_visible()
    for box in boxes.all():
        box.locator("input").set_checked(box.inner_text().strip() in labels)


def open_lab(page: Page, tab: str) -> None:
    """Opens a tab of the lab and unfolds its form, which every tab has but the first."""
    open_tab(page, "Lab", "tabs")
    open_tab(page, tab, "lab-tabs")
    form = page.locator(".sl-lab-form:visible")
    click_until(form.locator("> button"), ".open")
    expect(form.get_by_test_id("accordion-content")).to_be_visible()


def press_run(page: Page, **fields: str) -> None:
    """Fills the fields, presses Run and waits until the run has begun.

    At temperature 0 unless the fields, a link or a run before it say another; the page begins with the recorded run's.
    """
    if not urlsplit(page.url).query:
        fields = {"temperature": "0"} | fields
    fill(page, **fields)
    page.evaluate(_WATCH)
    page.locator("#run").click()
    page.wait_for_function("run_state !== 'pressed'", polling=50)


def run(page: Page, tokens: str = "24", **fields: str) -> None:
    """A whole run with its baseline, up to where its files are ready."""
    press_run(page, tokens=tokens, **fields)
    wait_for_end(page)
    open_tab(page, "Files")
    expect(page.locator("#trace-file")).to_be_enabled()


def wait_for_end(page: Page) -> None:
    """Waits until the run that ``press_run`` began has ended."""
    page.wait_for_function("run_state === 'ended'", polling=50, timeout=60_000)


def event_numbers(page: Page, *names: str) -> set[int]:
    """The numbers of Gradio's events of these names."""
    dependencies = page.evaluate("window.gradio_config.dependencies")
    return {each["id"] for each in dependencies if any(name in names for _, name in each["targets"])}


def text_of(page: Page) -> str:
    return page.locator(".sl-text").evaluate("node => node.textContent")


def speedup(page: Page) -> Locator:
    return page.locator('[data-tile="speedup"] .sl-number')


def drawn(page: Page, name: str) -> Locator:
    """The chart, scrolled to and with a picture as wide as its place."""
    tab = next((tab for tab, charts in TABS.items() if name in charts), None)
    if tab:
        open_tab(page, {"race": "Race & speed", "acceptance": "Acceptance", "time": "Time", "tree": "Tree"}[tab])
    chart = page.locator(f'[data-chart="{name}"]')
    chart.scroll_into_view_if_needed()
    expect(chart).to_have_attribute("data-drawn", re.compile("[1-9]"))
    page.wait_for_function(_FITS, arg=name)
    return chart


def saved(page: Page, button: str) -> str:
    """The text of the file that a button downloads; the playground's are in a tab of their own."""
    if page.locator(":is(#results, #lab-tabs):visible").get_attribute("id") == "results":
        open_tab(page, "Files")
    expect(page.locator(f"#{button}")).to_be_enabled()
    return downloaded(page.locator(f"#{button}"))


def saved_table(page: Page, button: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(saved(page, button))))


def downloaded(button: Locator) -> str:
    with button.page.expect_download() as download:
        button.click()
    return download.value.path().read_text(encoding="utf-8-sig")


def open_files(page: Page, *paths) -> None:
    open_tab(page, "Files")
    page.locator("input[type=file]").first.set_input_files(paths)


def open_texts(page: Page, *texts: str) -> None:
    files = ({"mimeType": "application/json", "buffer": text.encode("utf-8")} for text in texts)
    open_files(page, *({"name": f"{i}.json"} | file for i, file in enumerate(files)))


def upload(page: Page, button: str, *paths) -> None:
    """Opens files with a button of the page."""
    with page.expect_file_chooser() as chooser:
        page.locator(f"#{button}").click()
    chooser.value.set_files(paths)


def violations(page: Page, within: str | None = None) -> list[str]:
    """Lists what axe-core finds of serious or critical impact on the page, or in ``within``, one line per element."""
    page.mouse.move(1, 1)  # a hovered button has other colours
    page.evaluate(_SETTLED)
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    return page.evaluate(_VIOLATIONS, within)


def wait_until_above(upper: Locator, lower: Locator) -> None:
    """Waits until the upper one ends before the lower one begins."""
    upper.page.wait_for_function(
        "([upper, lower]) => upper.getBoundingClientRect().bottom <= lower.getBoundingClientRect().top + 1",
        arg=[upper.element_handle(), lower.element_handle()],
    )


def open_lesson(page: Page, slug: str, step: int | str | None = None) -> None:
    """Opens the lesson, at a step by its title, or by its number from 0; the quiz comes after the last."""
    number = next(each.number for each in lessons() if each.slug == slug)
    page.wait_for_function(_OPEN_LESSON, arg=[number, slug], polling=50)
    if isinstance(step, str):
        page.locator(f'.sl-dot[title="{step}"]').click()
        expect(page.locator(".sl-dot[aria-current=step]")).to_have_attribute("title", step)
    elif step is not None:
        page.locator(".sl-dot").nth(step).click()


def wait_for(page: Page, condition: str) -> None:
    """Waits like ``wait_for_function``, which a page from disk forbids because it evaluates text in the page."""
    for _ in range(200):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"{condition} did not come true")


def walk_through(page: Page, lesson: str) -> None:
    """Goes through every step of a lesson by keyboard, up to its questions. Each has a text and a run."""
    open_lesson(page, lesson)
    for _ in range(page.locator(".sl-dot").count() - 1):
        page.keyboard.press("n")
        expect(page.locator("#lesson .sl-rounds .sl-row, #lesson .sl-rounds .sl-list").first).to_be_attached()
        assert page.locator(".sl-lesson-body").inner_text().strip()
        wait_for(page, f"{OVERFLOW} <= 0")
    expect(page.locator(".sl-lesson-body h3")).to_have_text("Check yourself")


def tool_places() -> dict[str, tuple[str, int]]:
    """One step for each tool of the lessons, by the lesson's slug and the number of the step."""
    return {step.tool: (lesson.slug, i) for lesson in lessons() for i, step in enumerate(lesson.steps) if step.tool}


def check_light_and_dark(page: Page, within: str | None = None) -> None:
    """Nothing is wider than a light desktop or a dark phone, and axe finds nothing grave on either."""
    for scheme, width in (("light", 1280), ("dark", 390)):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(f"{OVERFLOW} <= 0")
        assert violations(page, within) == [], scheme

"""axe-core on every state of the page, and the page by keyboard alone. The script comes from a Python package."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect
from server import FAKE_APP, serving

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]
expect.set_options(timeout=40_000)  # a busy machine is no failure
GRAVE = ("serious", "critical")
CHARTS = ("tokens", "prediction", "acceptance", "rounds", "times", "scoring", "idealised")
# Lesson, step, and the heading of what there is to play with.
TOOLS = (
    (1, 3, "Where is the ceiling?"),
    (3, 6, "One place, three words"),
    (5, 6, "Speedup for every draft length γ"),
    (10, 3, "What both models take"),
    (11, 4, "The same device, a crowd of users"),
)
FOCUSED = """() => {
  const node = document.activeElement, style = getComputedStyle(node), box = node.getBoundingClientRect();
  return { name: node.id || node.className.toString() || node.tagName, isPage: node === document.body,
    ring: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2,
    seen: box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth };
}"""

# All that moves has come to rest; what glows goes on for ever and is not waited for.
SETTLED = """() => Promise.all(document.getAnimations().filter(one => one.effect.getComputedTiming().endTime < Infinity)
  .map(one => one.finished.catch(() => {})))"""

MOVING = """() => [...document.querySelectorAll('.gradio-container *')].filter(node => {
  const { animationDuration, transitionDuration } = getComputedStyle(node);
  return [...animationDuration.split(','), ...transitionDuration.split(',')].some(time => parseFloat(time) > 0.05);
}).map(node => `${node.tagName} ${node.id} ${node.getAttribute('class')}`)"""


@pytest.fixture(scope="module")
def app(chromium_path, tmp_path_factory):
    with serving(FAKE_APP, tmp_path_factory.mktemp("accessible") / "app.log", STEP="0.03") as url:
        yield url


@pytest.fixture
def visit(browser, app):
    """Opens the page as a fresh visitor; afterwards no error may have been logged."""
    pages = []

    def open_(**context) -> Page:
        page = browser.new_context(**({"viewport": {"width": 1280, "height": 900}} | context)).new_page()
        page.errors = []
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        page.goto(app)
        expect(page.locator(".sl-source")).to_have_text("Recorded run", timeout=20_000)
        expect(page.locator("#race .sl-race-note")).not_to_be_empty()  # mounted down to here
        pages.append(page)
        return page

    yield open_
    for page in pages:
        assert page.errors == []
        page.context.close()


def grave(page: Page, within: str | None = None) -> list[str]:
    """Violations of serious or critical impact, a line for each element; of the page, or of what is ``within``."""
    page.mouse.move(1, 1)  # a hovered button has other colours
    page.evaluate(SETTLED)
    found = Axe().run(page, context=within).response["violations"]
    return [
        f"{rule['id']}: {node['target'][-1]} {node['failureSummary']}"
        for rule in found
        if rule["impact"] in GRAVE
        for node in rule["nodes"]
    ]


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_grave_in_any_state(visit, scheme, width):
    page = visit(color_scheme=scheme, viewport={"width": width, "height": 900})
    assert grave(page) == [], "on opening"
    page.locator("#tokens input").fill("120")
    page.locator("#run").click()
    expect(page.locator(".sl-source")).to_have_text("Running now")
    expect(page.locator(".sl-row").nth(3)).to_be_visible()
    assert grave(page) == [], "while running"
    expect(page.locator("#run")).to_have_text("Run", timeout=60_000)
    expect(page.locator("#trace-file")).to_be_enabled()
    assert grave(page) == [], "after the run"
    page.locator(".sl-list .sl-rejected").last.click()
    page.get_by_role("button", name="Re-roll u").click()
    assert grave(page) == [], "with a locked token"
    for name in CHARTS:
        page.locator(f'[data-chart="{name}"]').scroll_into_view_if_needed()
        expect(page.locator(f'[data-chart="{name}"][data-drawn]')).to_be_visible()
    assert grave(page) == [], "with the charts"
    page.locator(".sl-ask-help").click()
    assert grave(page) == [], "with the help"
    page.keyboard.press("Escape")
    page.locator("#prompt textarea").fill(" ")
    page.locator("#run").click()
    expect(page.get_by_role("alert").filter(has_text="prompt is empty")).to_be_visible()
    assert grave(page) == [], "with an error"


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_grave_while_sharing_and_presenting(visit, scheme, width):
    page = visit(color_scheme=scheme, viewport={"width": width, "height": 900})
    page.get_by_role("button", name="Share", exact=True).click()
    expect(page.get_by_label("Link", exact=True)).not_to_have_value("")
    page.locator("dialog.sl-share summary").click()
    assert grave(page) == [], "with the dialog of a link"
    page.keyboard.press("Escape")
    page.locator('[data-share="present"]').click()
    expect(page.get_by_role("button", name="Leave presentation")).to_be_visible()
    assert grave(page) == [], "presenting"
    page.locator("#ribbon [data-do=end]").click()
    page.locator("#ribbon .sl-list .sl-rejected").last.click()
    expect(page.locator("#ribbon .sl-inspector")).to_have_attribute("data-open", "locked")
    assert grave(page) == [], "presenting, with a locked token"


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_axe_finds_nothing_grave_in_the_lessons(visit, scheme, width):
    """The list, a prediction before and after the guess, each tool, a glowing token, the quiz, the way to the
    playground; at last the same presented."""
    page = visit(color_scheme=scheme, viewport={"width": width, "height": 900})
    page.locator("#lessons-tab-button").click()
    expect(page.locator(".sl-lesson-card").first).to_be_visible()
    assert grave(page, "#lesson") == [], "the list"
    open_step(page, 1, 4)
    assert grave(page, "#lesson") == [], "a question"
    page.locator(".sl-option").first.click()
    expect(page.locator(".sl-reply")).to_contain_text("Measured before this run")
    assert grave(page, "#lesson") == [], "an answer"
    for lesson, step, name in TOOLS:
        open_step(page, lesson, step)
        expect(page.locator(".sl-figure-box h4")).to_have_text(name)
        for button in page.locator(".sl-figure-box button").all():
            button.click()  # what a tool has found out stands on the page, too
        assert grave(page) == [], name
    open_step(page, 2, 2)
    expect(page.locator("[data-glow]")).to_have_count(1)
    assert grave(page, "#lesson") == [], "a glowing token"
    open_step(page, 2, 7)
    for option in page.locator(".sl-option").all():
        if option.get_attribute("aria-disabled") != "true":
            option.click()
    expect(page.locator(".sl-lesson-end")).to_contain_text("On to the next?")
    assert grave(page, "#lesson") == [], "the quiz"
    page.locator('[data-share="present"]').click()
    assert grave(page, "#lesson") == [], "presenting"
    page.locator('[data-share="present"]').click()
    page.get_by_role("button", name="Run it live").click()
    expect(page.locator(".sl-coach")).to_be_visible()
    assert grave(page, ".sl-coach") == [], "the coach"


def open_step(page: Page, lesson: int, step: int) -> None:
    """Counted from 1; the quiz is the step behind the last."""
    page.evaluate(f"location.hash = '#lesson-{lesson}'")
    expect(page.locator("#sl-lesson-title")).to_contain_text(f"{lesson}. ")
    page.locator(".sl-dot").nth(step - 1).click()


def test_axe_would_tell(visit):
    page = visit()
    page.evaluate("document.querySelector('.sl-heading p').style.color = '#ccc'")
    assert any(line.startswith("color-contrast") for line in grave(page))


def test_axe_would_tell_of_a_dialog_and_a_lesson(visit):
    """Nothing is left out because it lies on top of the page or in another tab."""
    page = visit()
    page.get_by_role("button", name="Share", exact=True).click()
    page.evaluate("document.querySelector('#sl-share-title').style.color = '#ccc'")
    assert any("sl-share-title" in line for line in grave(page))
    page.keyboard.press("Escape")
    page.locator("#lessons-tab-button").click()
    open_step(page, 1, 3)
    page.evaluate("document.querySelector('.sl-figure-note').style.color = '#ccc'")
    assert any("sl-figure-note" in line for line in grave(page, "#lesson"))


# ── by keyboard ──


def test_tab_goes_once_through_the_page_and_every_stop_can_be_seen(visit):
    page = visit()
    stops = []
    for _ in range(120):
        page.keyboard.press("Tab")
        stop = page.evaluate(FOCUSED)
        if stop["isPage"]:
            break
        assert stop["ring"] and stop["seen"], stop
        stops.append(stop["name"])
    else:
        pytest.fail(f"120 times Tab and still not through: {stops}")
    landmarks = ["run", "sl-do", "sl-scrub", "sl-text", "sl-rows"]
    places = [next((i for i, stop in enumerate(stops) if mark in stop), -1) for mark in landmarks]
    assert -1 not in places and places == sorted(places), stops


def test_a_whole_visit_by_keyboard(visit):
    page = visit()
    page.locator("#prompt textarea").focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("Hello there")
    page.keyboard.press("Shift+Enter")
    expect(page.locator("#run")).to_have_text("Running…")
    expect(page.locator("#run")).to_have_text("Run", timeout=60_000)
    reach(page, "sl-rows")
    page.keyboard.press("?")
    expect(page.locator("dialog.sl-help")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("dialog.sl-help")).to_be_hidden()
    assert "sl-rows" in page.evaluate(FOCUSED)["name"], "the help gives the focus back"
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("tooltip")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.locator(".sl-inspector")).to_have_attribute("data-open", "locked")
    reach(page, "sl-button")
    page.keyboard.press("Enter")
    expect(page.locator(".sl-rolled")).to_contain_text("u =")
    assert "sl-button" in page.evaluate(FOCUSED)["name"], "rolling keeps the focus"
    page.keyboard.press("Escape")
    expect(page.locator(".sl-inspector")).not_to_have_attribute("data-open", "locked")
    reach(page, "sl-race-play")
    page.keyboard.press("Enter")
    expect(page.locator(".sl-race-play")).to_have_text("Pause")


def reach(page: Page, name: str) -> None:
    """Tab on until the focus is there."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if name in page.evaluate(FOCUSED)["name"].split():
            return
    pytest.fail(f"Tab does not reach {name}")


def test_with_reduced_motion_nothing_moves_by_itself(visit):
    page = visit(reduced_motion="reduce")
    before = page.locator(".sl-scrub").input_value()
    assert before == page.locator(".sl-scrub").get_attribute("max"), "the recorded run stands complete"
    assert page.evaluate(MOVING) == []

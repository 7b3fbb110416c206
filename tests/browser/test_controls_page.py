"""The controls, the chip, and what several visitors see of each other, in a real browser on a fake engine."""

import re

import pytest
from playwright.sync_api import Page, expect
from server import FAKE_APP, serving

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def app(chromium_path, tmp_path_factory):
    log = tmp_path_factory.mktemp("controls") / "app.log"
    with serving(FAKE_APP, log, STEP="0.04", SPECLENS_KEPT_RUNS="16") as url:
        yield url


@pytest.fixture
def opened(browser, app):
    """Makes visitors: each a browser context of its own, which must reach nobody but our server."""
    pages = []

    def open_(**context) -> Page:
        page = browser.new_context(**({"viewport": {"width": 1280, "height": 900}} | context)).new_page()
        page.errors = []
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        page.on(
            "request",
            lambda r: None if r.url.startswith((app, "data:", "blob:")) else page.errors.append(f"asked {r.url}"),
        )
        page.goto(app)
        expect(page.get_by_role("button", name="Run", exact=True)).to_be_visible(timeout=30_000)
        expect(page.locator(".sl-chip-words")).not_to_be_empty(timeout=15_000)
        pages.append(page)
        return page

    yield open_
    for page in pages:
        assert page.errors == []
        page.context.close()


def choose(page: Page, control: str, words: str) -> None:
    page.locator(f"#{control} input").click()
    page.get_by_role("option", name=words).click()


def fill(page: Page, control: str, value: str) -> None:
    box = page.locator(f"#{control} :is(textarea, input[type=number])").first
    box.fill(value)
    box.press("Tab")


def ended(page: Page) -> None:
    expect(page.locator("#run")).to_have_text("Run", timeout=60_000)


def test_the_same_run_is_recorded_for_the_next_visitor_and_can_be_measured_again(opened):
    first, second = opened(), opened()
    for page in (first, second):
        fill(page, "prompt", "A prompt of the whole class")
        fill(page, "tokens", "60")
    first.locator("#run").click()
    expect(first.locator("#run")).to_have_text("Running…", timeout=10_000)
    expect(second.locator(".sl-chip-words")).to_have_text(re.compile("^Busy on CPU"), timeout=10_000)
    expect(first.locator(".sl-chip-words")).to_have_text(re.compile("your run$"), timeout=10_000)
    ended(first)
    expect(first.locator("#notice")).to_contain_text("measured just now")
    expect(first.locator("#again")).to_be_hidden()
    second.locator("#run").click()
    expect(second.locator("#again")).to_be_visible(timeout=5_000)
    expect(second.locator("#notice")).to_contain_text("Recorded just now")
    expect(second.locator(".sl-source")).to_have_text("Recorded run")
    expect(second.locator(".sl-place")).not_to_contain_text("live")
    expect(second.locator('[data-tile="speedup"] .sl-note')).to_contain_text("recorded")
    second.locator("#again").click()
    expect(second.locator("#run")).to_have_text("Running…", timeout=10_000)
    expect(second.locator("#again")).to_be_hidden()
    ended(second)
    expect(second.locator("#notice")).to_contain_text("measured just now")
    expect(second.locator(".sl-source")).to_have_text("Your run")


def test_who_waits_is_told_their_place(opened):
    first, second = opened(), opened()
    fill(first, "prompt", "The one who runs")
    fill(first, "tokens", "500")
    fill(second, "prompt", "The one who waits")
    fill(second, "tokens", "12")
    first.locator("#run").click()
    expect(first.locator(".sl-row").nth(1)).to_be_visible(timeout=15_000)
    second.locator("#run").click()
    expect(second.locator("#notice")).to_contain_text("1 before you", timeout=10_000)
    expect(second.locator(".sl-chip-words")).to_have_text("Your place in the queue: 2")
    expect(first.locator(".sl-chip-words")).to_contain_text("1 waiting", timeout=10_000)
    first.locator("#stop").click()
    expect(second.locator("#notice")).to_contain_text("measured just now", timeout=20_000)
    expect(second.locator(".sl-chip-words")).to_have_text("Ready on CPU", timeout=10_000)
    expect(second.locator(".sl-asked")).to_contain_text("The one who waits")


def test_a_pair_says_before_a_load_why_it_cannot_run(opened):
    page = opened()
    choose(page, "pair", "A model too large")
    expect(page.locator(".sl-pair-note")).to_contain_text("needs about 900 GB", timeout=10_000)
    page.locator("#run").click()
    expect(page.get_by_role("alert").filter(has_text="900 GB")).to_be_visible(timeout=10_000)
    choose(page, "pair", "A model that thinks")
    expect(page.locator(".sl-pair-note")).to_contain_text("downloads about 2.4 GB", timeout=10_000)
    choose(page, "pair", "A small model")
    expect(page.locator(".sl-pair-note")).to_be_hidden(timeout=10_000)


def test_a_name_that_its_field_cuts_short_stands_below_as_a_whole(opened):
    page = opened()
    name = page.locator(".sl-pair-name")
    choose(page, "pair", "A model that thinks")
    expect(page.locator("#pair input")).to_have_value("A model that thinks")
    expect(name).to_be_hidden()
    page.locator("#pair input").evaluate("node => { node.style.width = '90px'; node.style.flex = 'none'; }")
    page.set_viewport_size({"width": 390, "height": 844})
    expect(name).to_be_visible()
    expect(name).to_have_text("A model that thinks")


def test_a_page_asks_nothing_of_the_engine_while_a_model_is_being_loaded(browser, app):
    """Answering imports torch, which would hold the load and whoever else opens the page."""
    page = browser.new_page()
    state, asked = {"kind": "loading", "text": "Loading the model"}, []
    page.route("**/speclens/state", lambda route: route.fulfill(json=state))
    page.on("request", lambda r: asked.append(r.url) if r.url.endswith("/run/predict") else None)
    page.goto(app)
    expect(page.locator(".sl-chip-words")).to_have_text("Loading the model", timeout=30_000)
    page.wait_for_timeout(1500)
    assert asked == []
    state |= {"kind": "ready", "text": "Ready on CPU"}
    expect(page.locator(".sl-chip-words")).to_have_text("Ready on CPU", timeout=10_000)
    page.wait_for_timeout(4500)  # it asks for the state every two seconds
    assert len(asked) == 2, "why this pair cannot run, and which cannot; once"
    page.locator("#pair input").click()
    expect(page.get_by_role("option", name=re.compile(r"\(not on this machine\)"))).to_have_count(1)
    for kind in ("loading", "ready"):
        state["kind"] = kind
        expect(page.locator(".sl-chip")).to_have_attribute("data-kind", kind, timeout=10_000)
    page.wait_for_timeout(1500)
    assert len(asked) == 2, "a later load changes nothing of it"
    page.context.close()


def test_a_long_device_wraps_in_the_chip_on_a_phone(opened):
    page = opened(viewport={"width": 390, "height": 844})
    words = "Ready on NVIDIA H200 141GB HBM3e (cuda:0, compute capability 9.0)"
    page.route("**/speclens/state", lambda route: route.fulfill(json={"kind": "ready", "text": words}))
    expect(page.locator(".sl-chip-words")).to_have_text(words, timeout=20_000)
    buttons, chip = page.locator("#share").bounding_box(), page.locator(".sl-chip").bounding_box()
    assert buttons["x"] + buttons["width"] <= 390 and chip["x"] >= 0 and chip["x"] + chip["width"] <= buttons["x"]
    assert chip["y"] < buttons["y"] + buttons["height"] and buttons["y"] < chip["y"] + chip["height"]  # beside it


def test_methods_and_the_thinking_switch_follow_the_pair(opened):
    page = opened()
    page.get_by_role("button", name="More settings").click()
    expect(page.locator("#form")).to_be_visible()
    expect(page.locator("#thinking")).to_be_hidden()
    expect(page.locator("#precision")).to_be_hidden()
    choose(page, "method", "draft model")
    choose(page, "pair", "A model that thinks")
    expect(page.locator("#thinking")).to_be_visible(timeout=10_000)
    expect(page.locator("#method input")).to_have_value(re.compile("^auto"))
    page.locator("#method input").click()
    expect(page.get_by_role("option", name="n-gram lookup")).to_be_visible()
    assert page.get_by_role("option", name="draft model").count() == 0
    page.keyboard.press("Escape")


def test_reset_brings_every_default_back_and_the_dice_a_new_seed(opened):
    page = opened()
    page.get_by_role("button", name="More settings").click()
    page.locator("#auto input").uncheck()
    fill(page, "top_k", "40")
    fill(page, "temperature", "0.7")
    fill(page, "system", "Be brief.")
    fill(page, "prompt", "Something else")
    page.get_by_label("raw text").check()
    seed = page.locator("#seed input")
    page.locator("#dice").click()
    expect(seed).not_to_have_value("0")
    page.locator("#reset").click()
    expect(seed).to_have_value("0")
    expect(page.locator("#top_k input[type=number]")).to_have_value("0")
    expect(page.locator("#temperature input[type=number]")).to_have_value("0")
    expect(page.locator("#system textarea")).to_have_value("")
    expect(page.locator("#prompt textarea")).to_have_value(re.compile("^Rewrite this note"))
    expect(page.locator("#auto input")).to_be_checked()
    expect(page.get_by_label("chat", exact=True)).to_be_checked()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_unfolded_controls_fit_and_each_has_its_hint(opened, width, scheme):
    page = opened(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.get_by_role("button", name="More settings").click()
    names = ("prompt", "pair", "method", "gamma", "temperature", "seed", "tokens", "form", "system", "top_k", "top_p")
    for name in (*names, "min_p", "repetition_penalty"):
        block = page.locator(f"#{name}")
        expect(block).to_be_visible()
        box = block.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= width, name
        assert block.locator("xpath=.//*[normalize-space(text())!='']").count() >= 2, f"{name} has no hint"
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    chip, title = page.locator(".sl-chip").bounding_box(), page.locator("h1").bounding_box()
    assert chip["x"] >= 0 and chip["x"] + chip["width"] <= width
    words = page.locator("h1").evaluate(
        "node => { const range = document.createRange(); range.selectNodeContents(node);"
        " return range.getBoundingClientRect().right; }"
    )
    apart = chip["x"] >= words or chip["y"] >= title["y"] + title["height"]
    assert apart, "the chip covers the heading"

"""Any α in a real browser, on the real engine with a tiny model: measured, stopped, gone on with, exported, cleared."""

import csv
import io
import json
import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from pairs import model_folder
from playwright.sync_api import Page, expect
from server import APP, serving

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def app(chromium_path, tmp_path_factory):
    root = tmp_path_factory.mktemp("any-alpha")
    model_folder(root / "target")
    model_folder(root / "draft", noise=0.3)
    own = {"SPECLENS_PAIRS": f"{root / 'target'}+{root / 'draft'}", "SPECLENS_CACHE": str(root / "cache")}
    with serving(APP, root / "app.log", **own) as url:
        yield url


@pytest.fixture
def visit(browser, app):
    """Opens the tab as a fresh visitor; afterwards nobody else was asked and no error was logged."""
    pages = []

    def open_(**options) -> Page:
        page = browser.new_context(**({"viewport": {"width": 1280, "height": 900}} | options)).new_page()
        page.errors, page.strangers = [], []
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        own = (app, "data:", "blob:")
        page.on("request", lambda r: None if r.url.startswith(own) else page.strangers.append(r.url))
        page.goto(app)
        page.get_by_role("tab", name="Lab").click()
        tab = page.get_by_role("tab", name="Any α")
        if not tab.is_visible():  # a phone folds the last tabs into a menu
            page.locator("#lab-tabs .overflow-menu > button").click()
            tab = page.locator("#lab-tabs .overflow-dropdown button", has_text="Any α")
        tab.click()
        expect(page.locator("#any-alpha-run")).to_be_visible(timeout=20_000)
        pages.append(page)
        return page

    yield open_
    for page in pages:
        assert page.errors == [] and page.strangers == []
        page.context.close()


def tick(page: Page, group: str, *labels: str) -> None:
    for box in page.locator(f"#{group} label").all():
        box.locator("input").set_checked(box.inner_text().strip() in labels)


def number(page: Page, name: str, value: int) -> None:
    field = page.locator(f"#{name} input[type=number]")
    field.fill(str(value))
    field.press("Tab")


def points(page: Page):
    return page.locator("#any-alpha-points tbody tr")


def saved(page: Page, button: str) -> str:
    with page.expect_download() as download:
        page.locator(f"#{button}").click()
    return download.value.path().read_text(encoding="utf-8-sig")


def test_points_are_measured_stopped_gone_on_with_and_cleared(visit):
    page = visit()
    words = page.locator("#any-alpha-notice .sl-words")
    tick(page, "any-alpha-alphas", "0.1", "0.5", "0.9", "0.95")
    tick(page, "any-alpha-gammas", "1", "2", "4", "8")
    number(page, "any-alpha-tokens", 192)
    number(page, "any-alpha-repeats", 5)
    page.locator("#any-alpha-run").click()
    expect(page.locator("#any-alpha-run")).to_have_text("Running…")
    expect(words).to_contain_text(re.compile(r"Measuring \d+ of 80: α = 0\.\d+ with γ = \d"), timeout=60_000)
    expect(points(page).first).to_be_visible(timeout=30_000)
    page.locator("#any-alpha-stop").click()
    expect(words).to_contain_text(re.compile(r"Stopped: \d+ of 80 measured"), timeout=20_000)
    expect(page.locator("#any-alpha-run")).to_have_text("Run")
    kept = points(page).count()
    first = points(page).first.inner_text()
    done = int(re.search(r"Stopped: (\d+)", words.inner_text())[1])
    assert 0 < kept <= done < 80

    # Run goes on with the rest, now asked to be less
    tick(page, "any-alpha-gammas", "1", "2")
    number(page, "any-alpha-repeats", 1)
    page.locator("#any-alpha-run").click()
    expect(words).to_contain_text(re.compile("fastest was|No point was faster"), timeout=60_000)
    assert points(page).count() >= 8
    expect(points(page).first).to_have_text(re.compile(re.escape(first.split()[0])))
    chart = page.locator("[data-chart=any-alpha]")
    chart.scroll_into_view_if_needed()
    expect(chart).to_have_attribute("data-drawn", re.compile(r"^[4-9]|\d\d"), timeout=30_000)
    expect(page.locator("#any-alpha-thresholds tbody tr")).not_to_have_count(0)

    rows = list(csv.DictReader(io.StringIO(saved(page, "any-alpha-csv"))))
    whole = json.loads(saved(page, "any-alpha-json"))
    assert len(rows) == len(whole["points"]) == points(page).count()
    shown = [cell.inner_text() for cell in points(page).nth(0).locator("td").all()]
    assert shown[4].startswith(f"{float(rows[0]['speedup']):.2f}×")
    assert sum(len(point["turns"]) for point in whole["points"]) >= 8

    page.locator("#any-alpha-restart").click()
    expect(words).to_contain_text("Cleared")
    expect(points(page).first).to_be_hidden()
    expect(page.locator("[data-chart=any-alpha]")).to_have_class(re.compile("sl-chart-empty"))
    expect(page.locator("#any-alpha-csv")).to_be_disabled()


def test_nothing_ticked_is_said_and_the_next_run_works(visit):
    page = visit()
    tick(page, "any-alpha-alphas")
    page.locator("#any-alpha-run").click()
    expect(page.locator("#any-alpha-notice .sl-alert")).to_contain_text("Tick at least one α")
    tick(page, "any-alpha-alphas", "0.9")
    tick(page, "any-alpha-gammas", "2")
    number(page, "any-alpha-tokens", 16)
    page.locator("#any-alpha-run").focus()
    page.keyboard.press("Enter")
    expect(points(page)).to_have_count(1, timeout=60_000)
    expect(page.locator("#any-alpha-run")).to_have_text("Run", timeout=20_000)
    expect(page.locator("#any-alpha-notice .sl-alert")).to_be_empty()


def test_the_label_stays_and_no_text_of_a_model_is_shown(visit):
    page = visit()
    label = page.locator(".sl-lab-label")
    expect(label).to_contain_text("Kept by chance")
    tick(page, "any-alpha-alphas", "0.5")
    tick(page, "any-alpha-gammas", "1")
    page.locator("#any-alpha-run").click()
    expect(points(page)).to_have_count(1, timeout=60_000)
    expect(label).to_be_visible()


def test_two_visitors_measure_in_turn_and_see_only_their_own(visit):
    one, other = visit(), visit()
    for page, alpha in ((one, "0.3"), (other, "0.8")):
        tick(page, "any-alpha-alphas", alpha)
        tick(page, "any-alpha-gammas", "2", "4")
        number(page, "any-alpha-repeats", 3)
        page.locator("#any-alpha-run").click()
    for page, alpha in ((one, "0.3"), (other, "0.8")):
        expect(page.locator("#any-alpha-run")).to_have_text("Run", timeout=90_000)
        expect(points(page)).to_have_count(2, timeout=20_000)
        assert {row.locator("th").inner_text() for row in points(page).all()} == {alpha}


@pytest.mark.parametrize("width", [390, 1280, 1920])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_and_axe_finds_nothing_grave(visit, scheme, width):
    page = visit(color_scheme=scheme, viewport={"width": width, "height": 900})
    tick(page, "any-alpha-alphas", "0.5", "0.9")
    tick(page, "any-alpha-gammas", "2", "4")
    page.locator("#any-alpha-run").click()
    expect(page.locator("#any-alpha-notice")).to_contain_text(re.compile("fastest|faster"), timeout=90_000)
    page.locator("[data-chart=any-alpha]").scroll_into_view_if_needed()
    expect(page.locator("[data-chart=any-alpha][data-drawn]")).to_be_visible(timeout=30_000)
    assert page.evaluate(OVERFLOW) <= 0
    page.mouse.move(1, 1)
    found = Axe().run(page).response["violations"]
    assert [
        f"{rule['id']}: {node['target'][-1]}"
        for rule in found
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
    ] == []

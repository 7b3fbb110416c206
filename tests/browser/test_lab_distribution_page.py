"""Is it lossless? in a real browser: the toy, a rule broken on purpose, a real pair that is tiny, Stop, the files."""

import csv
import io
import json
import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from pairs import model_folder
from playwright.sync_api import Page, expect
from server import APP, serving

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]
expect.set_options(timeout=40_000)  # a busy machine is no failure
CHARTS = ("lossless-law", "lossless-distance", "lossless-rules")


@pytest.fixture(scope="module")
def app(chromium_path, tmp_path_factory):
    root = tmp_path_factory.mktemp("lossless")
    model_folder(root / "target")
    model_folder(root / "draft", noise=0.3)
    own = {"SPECLENS_PAIRS": f"{root / 'target'}+{root / 'draft'}", "SPECLENS_CACHE": str(root / "cache")}
    with serving(APP, root / "app.log", **own) as url:
        yield url


@pytest.fixture
def visit(browser, app):
    """Opens the tab as a fresh visitor; it must reach nobody but our server, and log no error."""
    pages = []

    def open_(width: int = 1280, **context) -> Page:
        page = browser.new_context(viewport={"width": 1280, "height": 900}, **context).new_page()
        page.strangers, page.errors = [], []
        page.on(
            "request", lambda r: None if r.url.startswith((app, "data:", "blob:")) else page.strangers.append(r.url)
        )
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        page.goto(app)
        page.get_by_role("tab", name="Lab").click()
        page.get_by_role("tab", name="Is it lossless?").click()
        expect(page.locator("#lossless-run")).to_be_visible(timeout=30_000)
        page.set_viewport_size({"width": width, "height": 900})  # on a phone the tabs stand in a menu
        pages.append(page)
        return page

    yield open_
    for page in pages:
        assert page.strangers == [] and page.errors == []
        page.context.close()


def runs(page: Page, number: int) -> None:
    page.locator("#lossless-runs input").fill(str(number))
    page.locator("#lossless-runs input").press("Tab")


def ended(page: Page, words: str | re.Pattern) -> None:
    expect(page.locator("#lossless-notice")).to_contain_text(words, timeout=150_000)
    expect(page.locator("#lossless-run")).to_have_text("Run")


def saved(page: Page, button: str) -> str:
    expect(page.locator(f"#{button}")).to_be_enabled(timeout=20_000)
    with page.expect_download() as download:
        page.locator(f"#{button}").click()
    return download.value.path().read_text(encoding="utf-8-sig")


def grave(page: Page) -> list[str]:
    page.mouse.move(1, 1)
    page.evaluate("Promise.all(document.getAnimations().map(one => one.finished.catch(() => {})))")
    found = Axe().run(page).response["violations"]
    return [f"{rule['id']}: {node['target'][-1]}" for rule in found if rule["impact"] in ("serious", "critical")
            for node in rule["nodes"]]  # fmt: skip


def test_right_then_wrong_then_the_files(visit):
    page = visit()
    runs(page, 300)
    page.locator("#lossless-run").click()
    expect(page.locator("#lossless-run")).to_have_text("Running…")
    ended(page, "Lossless, as far as 300 runs can tell")
    for name in CHARTS:
        chart = page.locator(f'[data-chart="{name}"]')
        chart.scroll_into_view_if_needed()
        expect(chart).to_have_attribute("data-drawn", re.compile("[1-9]"), timeout=30_000)
    page.locator("#lossless-argmax-drafts").click()
    ended(page, "Not lossless")
    table = page.locator("#lossless-rules tbody tr")
    expect(table).to_have_count(2)
    alphas = [float(row.locator("td").first.inner_text()) for row in table.all()]
    assert alphas[1] > alphas[0], "the wrong rule accepts more"
    expect(page.locator("#lossless-rule input")).to_have_value(re.compile("argmax-drafts"))
    tests = json.loads(saved(page, "lossless-json"))["tests"]
    assert [(test["asked"]["rule"], test["verdict"]) for test in tests] == [
        ("right", "right"), ("argmax-drafts", "wrong"),
    ]  # fmt: skip
    outcomes = list(csv.DictReader(io.StringIO(saved(page, "lossless-outcomes-csv"))))
    assert sum(int(row["seen"]) for row in outcomes) == 300 and outcomes[0]["text"] == "sun sun sun"
    assert "argmax-drafts" in saved(page, "lossless-rules-csv")


@pytest.mark.timeout(600)  # two thousand runs, on a machine that may be busy
def test_a_button_brings_the_settings_under_which_a_hidden_mistake_shows(visit):
    page = visit()
    page.locator("#lossless-sibling-q").click()
    expect(page.locator("#lossless-rule input")).to_have_value(re.compile("sibling-q"))
    expect(page.locator("#lossless-top_k input[type=number]")).to_have_value("2")
    expect(page.locator("#lossless-length input[type=number]")).to_have_value("4")
    noticed = "1 of 1 mistakes were noticed; the right rule was not accused."
    expect(page.locator("#lossless-notice")).to_contain_text(noticed, timeout=500_000)
    expect(page.locator("#lossless-rules tbody tr")).to_have_count(2)
    expect(page.locator("#lossless-rules tbody tr th").last).to_have_text("sibling-q")


def test_a_real_pair_and_back_to_the_toy(visit):
    page = visit()
    expect(page.locator("#lossless-prompt")).to_be_hidden()
    page.locator("#lossless-pair input").click()
    page.get_by_role("option").nth(1).click()
    expect(page.locator("#lossless-prompt")).to_be_visible()
    expect(page.locator("#lossless-runs input")).to_have_value("150")
    page.locator("#lossless-run").click()
    ended(page, "Lossless, as far as 150 runs can tell")
    cells = page.locator("#lossless-outcomes tbody th")
    expect(cells.first).to_have_text(re.compile(r"^1: .+ \| .+"))
    page.locator("#lossless-raw-q").click()
    ended(page, "only the toy has")
    expect(cells.first).to_be_visible()  # what was found stays
    page.locator("#lossless-pair input").click()
    page.get_by_role("option").first.click()
    expect(page.locator("#lossless-prompt")).to_be_hidden()
    expect(page.locator("#lossless-runs input")).to_have_value("1000")


def test_stop_and_another_button_while_it_runs(visit):
    page = visit()
    runs(page, 20_000)
    page.locator("#lossless-run").click()
    expect(page.locator("#lossless-notice")).to_contain_text(re.compile(r"[1-9]\d* of 20,000 runs"), timeout=60_000)
    page.locator("#lossless-tail-kept, #lossless-no-residual").first.click()
    expect(page.locator("#lossless-rule input")).to_have_value(re.compile("no-residual"), timeout=20_000)
    expect(page.locator("#lossless-rules tbody tr th").last).to_have_text("no-residual", timeout=60_000)
    expect(page.locator("#lossless-stop")).to_be_enabled()
    page.locator("#lossless-stop").click()
    ended(page, "Stopped early: 20,000 runs were asked for.")
    expect(page.locator("#lossless-stop")).to_be_disabled()


def test_nonsense_is_told_beside_the_button(visit):
    page = visit()
    runs(page, 20)
    page.locator("#lossless-temperature input[type=number]").fill("0.05")
    page.locator("#lossless-top_p input[type=number]").fill("0.05")
    page.locator("#lossless-top_p input[type=number]").press("Tab")
    page.locator("#lossless-run").click()
    ended(page, "This cannot tell")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_axe_finds_nothing_grave_and_nothing_is_too_wide(visit, scheme, width):
    page = visit(width, color_scheme=scheme)
    runs(page, 100)
    page.locator("#lossless-no-residual").click()
    ended(page, "100 runs")
    for name in CHARTS:
        page.locator(f'[data-chart="{name}"]').scroll_into_view_if_needed()
        expect(page.locator(f'[data-chart="{name}"][data-drawn]')).to_be_visible(timeout=30_000)
    assert grave(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")

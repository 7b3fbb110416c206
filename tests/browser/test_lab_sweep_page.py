"""A sweep in a real browser, on the real engine with a tiny model: run, cancelled, resumed, exported."""

import csv
import io
import re

import pytest
from pairs import model_folder
from playwright.sync_api import Page, expect
from server import APP, serving

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def app(chromium_path, tmp_path_factory):
    root = tmp_path_factory.mktemp("sweep")
    model_folder(root / "target", max_position_embeddings=4096)
    own = {"SPECLENS_PAIRS": str(root / "target"), "SPECLENS_CACHE": str(root / "cache")}
    with serving(APP, root / "app.log", **own) as url:
        yield url


@pytest.fixture
def page(browser, app):
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.strangers, page.errors = [], []
    page.on("request", lambda r: None if r.url.startswith((app, "data:", "blob:")) else page.strangers.append(r.url))
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.goto(app)
    page.get_by_role("tab", name="Lab").click()
    page.get_by_role("tab", name="Sweep").click()
    expect(page.locator("#sweep-run")).to_be_visible(timeout=20_000)
    yield page
    assert page.strangers == [] and page.errors == []
    page.context.close()


def tick(page: Page, group: str, *labels: str) -> None:
    boxes = page.locator(f"#{group} label")
    for box in boxes.all():
        box.locator("input").set_checked(box.inner_text().strip() in labels)


def test_a_sweep_is_run_cancelled_resumed_and_exported(page):
    tick(page, "sweep-gammas", "1", "2")
    tick(page, "sweep-kinds", "chat", "code", "quote")
    page.locator("#sweep-each input[type=number]").fill("6")
    page.locator("#sweep-each input[type=number]").press("Tab")
    words = page.locator("#sweep-notice .sl-words")
    expect(words).to_have_text("18 turns, 54 runs of up to 48 tokens.")
    expect(page.locator("#sweep-production .sl-production")).to_be_hidden()  # nothing to copy yet
    page.locator("#sweep-run").click()
    expect(page.locator("#sweep-table tbody tr").first).to_be_visible(timeout=60_000)  # after the first turn
    page.locator("#sweep-stop").click()
    expect(words).to_contain_text("goes on from here", timeout=30_000)
    expect(page.locator("#sweep-run")).to_have_text("Run the sweep")

    page.locator("#sweep-run").click()
    expect(words).to_contain_text(re.compile(r"Run ([4-9]|\d\d) of 54"), timeout=30_000)  # none of the first turn
    expect(words).to_contain_text("Best for you", timeout=200_000)
    expect(page.locator("#sweep-table tbody tr")).to_have_count(3)
    expect(page.locator("#sweep-production .sl-production-lead")).to_contain_text("the fastest above")
    drafting = "plain decoding" not in words.inner_text().partition(".")[0]  # the machine's answer, not the test's
    expect(page.locator("#sweep-production .sl-recipe-copy")).to_be_visible(visible=drafting)
    chart = page.locator("[data-chart=sweep-heat]")
    chart.scroll_into_view_if_needed()
    expect(chart).to_have_attribute("data-drawn", "1", timeout=30_000)
    with page.expect_download() as saved:
        page.locator("#sweep-csv").click()
    rows = list(csv.DictReader(io.StringIO(saved.value.path().read_text("utf-8-sig"))))
    assert len(rows) == 4 * 3 and {row["category"] for row in rows} == {"all", "chat", "code", "quote"}

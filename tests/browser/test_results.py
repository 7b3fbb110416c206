"""Below the rounds, in a real browser on the fake worker: the race plays, charts fill, files go out and come back."""

import csv
import io
import json
import re
import time

import pytest
from playwright.sync_api import Page, expect
from server import FAKE_APP, serving

from engine.trace import from_json

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
CHARTS = ("tokens", "prediction", "acceptance", "rounds", "times", "scoring", "idealised")


@pytest.fixture(scope="module")
def app(chromium_path, tmp_path_factory):
    with serving(FAKE_APP, tmp_path_factory.mktemp("results") / "app.log", STEP="0.02") as url:
        yield url


@pytest.fixture
def page(browser, app):
    """A fresh visitor's page. It must reach nobody but our server, and log no error."""
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    watched(page, app)
    yield page
    assert page.strangers == [] and page.errors == []
    page.context.close()


def watched(page: Page, url: str) -> None:
    page.strangers, page.errors = [], []
    page.on("request", lambda r: None if r.url.startswith((url, "data:", "blob:")) else page.strangers.append(r.url))
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.goto(url)
    expect(page.locator("#race .sl-race-note")).not_to_be_empty(timeout=20_000)  # the recorded run has one


def run(page: Page, **fields) -> None:
    """A whole run with its baseline, up to where its files are ready."""
    for name, value in fields.items():
        page.locator(f"#{name} :is(textarea, input)").first.fill(value)
    page.locator("#run").click()
    expect(page.locator("#run")).to_have_text("Running…", timeout=10_000)
    expect(page.locator("#run")).to_have_text("Run", timeout=60_000)
    expect(page.locator("#charts [data-chart=tokens] figcaption")).not_to_be_empty(timeout=20_000)
    expect(page.locator("#trace-file")).to_be_enabled(timeout=20_000)


def drawn(page: Page, name: str):
    """The chart, scrolled to and with a picture in it."""
    chart = page.locator(f'[data-chart="{name}"]')
    chart.scroll_into_view_if_needed()
    expect(chart).to_have_attribute("data-drawn", re.compile("[1-9]"), timeout=30_000)
    return chart


def saved(page: Page, button: str) -> str:
    with page.expect_download() as download:
        page.locator(f"#{button}").click()
    return download.value.path().read_text(encoding="utf-8-sig")


# ── the race ──


def test_the_race_plays_from_its_clocks_and_the_faster_lane_is_shorter(page):
    run(page, tokens="60")
    page.locator("#race").scroll_into_view_if_needed()
    lanes = page.locator(".sl-lane-count")
    expect(lanes.first).to_contain_text(re.compile(r"^[1-9]\d* of 60 tokens"), timeout=10_000)  # it began by itself
    expect(page.locator(".sl-race-result")).to_have_text(re.compile(r"^\d\.\d\d× faster: "), timeout=30_000)
    plain, ours = (float(re.search(r"([\d.]+) s", text)[1]) for text in lanes.all_inner_texts())
    assert ours < plain
    tile = page.locator('[data-tile="speedup"] .sl-number').inner_text()
    assert page.locator(".sl-race-result").inner_text().startswith(tile)
    assert page.locator(".sl-race-axis").inner_text() == f"0 to {plain:.2f} seconds"


def test_slow_motion_is_labelled_and_takes_that_much_longer(page):
    run(page, tokens="24")
    page.locator("#race").scroll_into_view_if_needed()
    expect(page.locator(".sl-race-result")).not_to_be_empty(timeout=30_000)
    page.locator(".sl-race-speed").select_option("0.25")
    expect(page.locator(".sl-race-pace")).to_have_text("Slow motion: 4 times slower than it ran")
    page.locator(".sl-race-play").click()
    expect(page.locator(".sl-race-play")).to_have_text("Pause")
    began = time.monotonic()
    expect(page.locator(".sl-race-result")).not_to_be_empty(timeout=30_000)
    slowest = float(re.search(r"([\d.]+) s", page.locator(".sl-lane-count").first.inner_text())[1])
    assert time.monotonic() - began > 0.8 * 4 * slowest  # how much longer is the machine's affair


def test_samples_race_on_time_per_token(page):
    run(page, tokens="40", temperature="0.8")
    expect(page.locator(".sl-race-note")).to_contain_text("different samples")
    page.locator("#race").scroll_into_view_if_needed()
    expect(page.locator(".sl-race-result")).to_contain_text("ms per token", timeout=30_000)
    expect(page.locator(".sl-race-axis")).to_contain_text("ms per token")


def test_reduced_motion_shows_the_end_at_once(browser, app):
    page = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce").new_page()
    watched(page, app)
    run(page, tokens="40")
    expect(page.locator(".sl-race-result")).not_to_be_empty(timeout=1_000)
    page.context.close()


def test_a_slowdown_is_said_in_the_banner_with_its_largest_cost(browser, chromium_path, tmp_path):
    with serving(FAKE_APP, tmp_path / "app.log", STEP="0.02", DRAFT="0.04") as url:
        page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
        watched(page, url)
        run(page, tokens="40")
        banner = page.locator("#notice .sl-notice")
        expect(banner).to_have_attribute("data-kind", "slow")
        expect(banner).to_contain_text(re.compile(r"Slower here: 0\.\d\d×.*largest extra cost was drafting"))
        expect(page.locator('[data-tile="speedup"]')).to_have_attribute("data-tone", "slower")
        page.locator("#race").scroll_into_view_if_needed()
        expect(page.locator(".sl-race-result")).to_contain_text("× slower", timeout=30_000)
        page.context.close()


def test_repeats_replace_one_run_by_medians(page):
    run(page, tokens="24")
    page.locator("#repeat").click()
    expect(page.locator("#notice")).to_contain_text("Measuring again")
    expect(page.locator("#notice")).to_contain_text("medians of 3 runs each", timeout=60_000)
    expect(page.locator('[data-tile="speedup"] .sl-note')).to_contain_text("medians of 3")
    expect(page.locator(".sl-race-note")).to_contain_text("Measured 3 times in turn")
    expect(page.locator('[data-chart="tokens"] figcaption')).to_contain_text("medians of 3")
    run(page, tokens="20")
    expect(page.locator('[data-tile="speedup"] .sl-note')).to_contain_text("one run each")


# ── the charts ──


def test_charts_are_filled_without_being_mounted_anew(page):
    page.evaluate("document.querySelector('#charts .sl-charts').dataset.mine = 'yes'")
    run(page, tokens="60")
    for name in CHARTS:
        chart = drawn(page, name)
        assert chart.locator(".main-svg").count() > 0, name
    run(page, tokens="30")
    drawn(page, "rounds")
    assert page.locator("#charts .sl-charts").get_attribute("data-mine") == "yes"
    assert page.evaluate("window.pwned") is None


@pytest.fixture(scope="module")
def slow_app(chromium_path, tmp_path_factory):
    """Drafting costs so much here that a run comes out just below 1×, where a number could meet the line at 1×."""
    with serving(FAKE_APP, tmp_path_factory.mktemp("slow") / "app.log", STEP="0.02", DRAFT="0.018") as url:
        yield url


@pytest.mark.parametrize("width", [390, 1280])
def test_no_number_stands_on_the_line_and_no_camera_on_the_legend(browser, slow_app, width):
    page = browser.new_context(viewport={"width": width, "height": 900}).new_page()
    watched(page, slow_app)
    run(page)
    chart = drawn(page, "prediction")
    line = chart.locator(".shapelayer path").bounding_box()
    numbers = [node.bounding_box() for node in chart.locator(".annotation-text").all()]
    assert len(numbers) == 2
    assert all(box["x"] > line["x"] + line["width"] + 2 or box["x"] + box["width"] < line["x"] - 2 for box in numbers)
    ratio = float(page.locator("[data-tile=speedup] .sl-number").inner_text().rstrip("×"))
    assert 0.6 < ratio < 1  # where a number at the end of its bar would be in the way
    for name in ("tokens", "rounds", "times"):
        legend, camera = (drawn(page, name).locator(part).bounding_box() for part in (".legend", ".modebar-btn"))
        apart = camera["y"] + camera["height"] <= legend["y"] or camera["x"] >= legend["x"] + legend["width"]
        title = page.locator(f"#sl-chart-{name}").bounding_box()
        assert apart and camera["y"] >= title["y"] - 6, name
    assert page.strangers == [] and page.errors == []
    page.context.close()


def test_a_charts_own_buttons_save_a_picture_and_send_it_nowhere(page):
    run(page, tokens="30")
    chart = drawn(page, "acceptance")
    titles = chart.locator(".modebar-btn").evaluate_all("all => all.map(node => node.dataset.title)")
    assert len(titles) == 1 and "png" in titles[0].lower()
    with page.expect_download(timeout=20_000) as download:
        chart.locator(".modebar-btn").click()
    assert download.value.suggested_filename == "speclens-acceptance.png"
    assert download.value.path().read_bytes().startswith(b"\x89PNG")


def test_the_one_live_chart_follows_the_run(page):
    page.locator("#tokens input").fill("500")
    page.locator("#run").click()
    expect(page.locator("#run")).to_have_text("Running…", timeout=10_000)
    expect(page.locator(".sl-rows")).to_be_in_viewport(ratio=0.6)  # where a run takes the reader; the chart is below
    drawn(page, "tokens")
    expect(page.locator("#run")).to_have_text("Running…")
    expect(page.locator('[data-chart="tokens"]')).to_have_attribute("data-drawn", "2", timeout=30_000)
    expect(page.locator("#run")).to_have_text("Running…")
    page.locator("#stop").click()
    expect(page.locator("#run")).to_have_text("Run", timeout=10_000)


def test_dark_mode_draws_in_its_own_colours(browser, app):
    papers = []
    for scheme in ("light", "dark"):
        page = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme=scheme).new_page()
        watched(page, app)
        run(page, tokens="20")
        chart = drawn(page, "times")
        papers.append(chart.locator(".main-svg").first.evaluate("node => getComputedStyle(node).backgroundColor"))
        page.context.close()
    assert papers[0] == "rgb(255, 255, 255)" and papers[1] != papers[0]


# ── files ──


def test_a_run_goes_out_as_files_and_comes_back_with_its_race(page, tmp_path):
    run(page, tokens="60")
    before = page.locator('[data-tile="speedup"] .sl-number').inner_text()
    texts = {name: saved(page, name) for name in ("trace-file", "baseline-file", "table-file")}
    trace = from_json(texts["trace-file"])
    assert len(trace.emitted) == 60 and trace.finished
    table = list(csv.DictReader(io.StringIO(texts["table-file"])))
    assert len(table) == sum(len(event.tokens) for event in trace.rounds)
    assert not any(row["text"].startswith(("=", "+", "-", "@")) for row in table)
    paths = []
    for name in ("trace-file", "baseline-file"):
        path = tmp_path / f"{name}.json"
        path.write_text(texts[name], encoding="utf-8")
        paths.append(path)
    page.reload()
    page.locator("#open-trace input[type=file], input[type=file]").first.set_input_files(paths)
    expect(page.locator("#notice")).to_contain_text("Opened from a file", timeout=20_000)
    expect(page.locator('[data-tile="speedup"] .sl-number')).to_have_text(before)
    page.locator("#race").scroll_into_view_if_needed()
    expect(page.locator(".sl-race-result")).not_to_be_empty(timeout=30_000)
    drawn(page, "rounds")
    assert json.loads(saved(page, "trace-file")) == json.loads(texts["trace-file"])


def test_the_second_run_saves_its_own_file(page):
    run(page, tokens="20")
    assert len(from_json(saved(page, "trace-file")).emitted) == 20
    run(page, tokens="33")
    assert len(from_json(saved(page, "trace-file")).emitted) == 33


def test_files_that_are_no_traces_are_refused_and_the_next_run_works(page, tmp_path):
    run(page, tokens="20")
    wrong = tmp_path / "wrong.json"
    wrong.write_text('{"<script>": "window.pwned=1"}', encoding="utf-8")
    chooser = page.locator("input[type=file]").first
    chooser.set_input_files(wrong)
    expect(page.get_by_role("alert").filter(has_text="trace")).to_be_visible(timeout=10_000)
    assert page.evaluate("window.pwned") is None
    assert page.locator('[data-tile="speedup"] .sl-number').inner_text().endswith("×"), "the run stays on screen"
    run(page, tokens="20")


def test_a_200_mb_file_is_refused_in_words_within_seconds(page, tmp_path):
    large = tmp_path / "large.json"
    with large.open("wb") as file:
        file.truncate(200 * 10**6)
    began = time.monotonic()
    page.locator("input[type=file]").first.set_input_files(large)
    expect(page.get_by_text(re.compile(r"64(\.0)? ?Mi?B", re.I)).first).to_be_visible(timeout=20_000)
    assert time.monotonic() - began < 15
    run(page, tokens="20")


# ── other engines ──


def test_recipes_follow_the_controls_and_can_be_copied(browser, app):
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    watched(page, app)
    page.locator("#method input").click()
    page.get_by_role("option", name="n-gram lookup").click()
    expect(page.locator(".sl-recipe-code")).to_contain_text('"num_speculative_tokens": 4')
    page.locator("#auto input").uncheck()
    page.locator("#gamma input[type=number]").fill("7")
    page.locator("#gamma input[type=number]").press("Tab")
    expect(page.locator(".sl-recipe-code")).to_contain_text('"num_speculative_tokens": 7', timeout=10_000)
    page.locator(".sl-recipe-copy").click()
    expect(page.locator(".sl-recipe-copy")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == page.locator(".sl-recipe-code").inner_text()
    page.get_by_role("tab", name="vLLM").press("End")
    expect(page.get_by_role("tab", name="LMDeploy")).to_be_focused()
    expect(page.locator(".sl-recipe-note")).to_contain_text("Not supported")
    expect(page.locator(".sl-recipe-copy")).to_be_hidden()
    assert page.strangers == [] and page.errors == []
    context.close()

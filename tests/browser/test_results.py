"""The lanes and the result tabs, in a real browser on the fake worker: charts fill, files go out and come back."""

import csv
import io
import json
import re
from dataclasses import replace

import pytest
from page_actions import choose, drawn, open_tab, open_texts, press_run, run, saved, set_number, speedup, wait_for_end
from playwright.sync_api import Page, expect
from sample_traces import round_, token, tree

from engine.trace.trace import from_json, to_json

pytestmark = [pytest.mark.browser, pytest.mark.slow]
CHARTS = ("tokens", "prediction", "acceptance", "rounds", "times", "scoring", "idealised")


def counts(page: Page) -> list[int]:
    """The tokens that each lane has at the position in the rounds."""
    return [int(bar.get_attribute("data-tokens")) for bar in page.locator("#stage .sl-bar").all()]


def test_one_clock_runs_through_the_rounds_and_both_lanes(page):
    run(page, tokens="20")
    ours, plain = (from_json(saved(page, name)) for name in ("trace-file", "baseline-file"))
    assert counts(page)[0] == 20
    took = ours.rounds[-1].end - ours.rounds[0].start
    expect(page.locator(".sl-lane-run .sl-count")).to_have_text(f"20 tokens in {took:.2f} s")
    page.locator("#stage .sl-rows").press("Home")
    for event in ours.rounds:
        page.keyboard.press("ArrowRight")
        time = event.end - ours.rounds[0].start
        by_then = [len(r.emitted) for r in plain.rounds if r.end - plain.rounds[0].start <= time + 1e-5]
        assert counts(page) == [sum(len(r.emitted) for r in ours.rounds[: event.index + 1]), sum(by_then)]
        if event is ours.rounds[0]:
            expect(page.locator(".sl-lane-run .sl-count")).to_have_text(f"1 of 20 tokens, {took:.2f} s in all")


def test_a_lossy_run_wears_its_badge_in_the_results(page):
    lossy = tree().started.config | {"acceptance": "typical", "method": "medusa"}
    open_texts(page, to_json(replace(tree(), started=replace(tree().started, config=lossy))))
    expect(drawn(page, "rounds").locator("h3 .sl-lossy")).to_be_visible()
    drawn(page, "tokens")  # its first figure came just before its tab was hidden
    press_run(page)
    wait_for_end(page)
    expect(page.locator(".sl-lossy:visible")).to_have_count(0)


def test_tree_tab_follows_the_playhead_and_leads_to_the_inspector(page):
    first = tree().rounds[0]
    drafts = [replace(draft, expected=0.25) for draft in first.tokens[:-1]]
    first = replace(first, tokens=(*drafts, first.tokens[-1]), row_cost=0.1)
    plain = round_(1, [token("plain", 3)])
    last = replace(
        first, index=2, start=0.2, end=0.3, tokens=tuple(replace(t, position=t.position + 4) for t in first.tokens)
    )
    tabs = page.locator("#results").get_by_role("tab")
    expect(tabs.get_by_text("Tree")).to_have_count(0)
    open_texts(page, to_json(replace(tree(), rounds=(first, plain, last))))
    open_tab(page, "Tree")
    box, titles = page.locator(".sl-tree-tab"), page.locator(".sl-tree-tab h2")
    expect(titles).to_have_text("Round 3 of 3")
    expect(box.locator(".sl-tree-words")).to_have_text("7 drafts, at most 3 deep: 6 tested, 2 accepted.")
    expect(box.locator(".sl-tree-budget")).to_contain_text("cost 0.100 tokens")
    expect(box.locator(".sl-expected")).to_have_text(["25.0 %"] * 7)
    expect(box.get_by_role("button", name="Next tree")).to_be_disabled()
    box.get_by_role("button", name="Tree before").click()
    expect(box.get_by_role("button", name="Next tree")).to_be_focused()  # the other one is disabled now
    expect(titles).to_have_text("Round 1 of 3")
    expect(page.locator(".sl-place")).to_have_text("Round 1 of 3")
    page.locator("[data-do=round-on]").click()
    expect(titles).to_have_text("Round 1 of 3")  # round 2 has no tree
    box.locator(".sl-discarded").click()
    expect(page.locator("#stage .sl-verdict")).to_have_text(re.compile("^Never tested: the text went another way"))
    expect(page.locator("#stage .sl-inspector")).to_be_in_viewport()
    drawn(page, "ranks")
    press_run(page)
    wait_for_end(page)
    expect(tabs.get_by_text("Tree")).to_have_count(0)


def test_a_second_run_fills_the_same_charts_and_saves_its_own_file(page):
    page.evaluate("document.querySelector('#charts-race .sl-charts').dataset.mine = 'yes'")
    run(page, tokens="60")
    for name in CHARTS:
        drawn(page, name)
    assert len(from_json(saved(page, "trace-file")).emitted) == 60
    run(page, tokens="30")
    drawn(page, "rounds")
    assert page.locator("#charts-race .sl-charts").get_attribute("data-mine") == "yes"
    assert len(from_json(saved(page, "trace-file")).emitted) == 30

    chart = drawn(page, "acceptance")  # its one button saves a picture and sends it nowhere
    with page.expect_download() as download:
        chart.locator(".modebar-btn").click()
    assert download.value.path().read_bytes().startswith(b"\x89PNG")


def test_no_number_stands_on_the_line_and_no_camera_on_the_legend(page, fake):
    """Drafting costs so much here that a run comes out just below 1×, where a number could meet the line at 1×."""
    page.set_viewport_size({"width": 390, "height": 900})
    fake(draft=0.018)
    run(page, tokens="128", temperature="0")
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


def test_a_run_goes_out_as_files_and_comes_back_labelled_with_its_race(page):
    run(page, tokens="60", temperature="0")
    before = speedup(page).inner_text()
    texts = {name: saved(page, name) for name in ("trace-file", "baseline-file", "table-file")}
    trace = from_json(texts["trace-file"])
    assert len(trace.emitted) == 60 and trace.finished
    table = list(csv.DictReader(io.StringIO(texts["table-file"])))
    assert len(table) == sum(len(event.tokens) for event in trace.rounds)
    page.reload()
    expect(page.locator(".sl-source")).to_have_text("Your run")
    page.locator("#prompt textarea").fill("Another")
    set_number(page, "temperature", 1)
    open_texts(page, texts["trace-file"], texts["baseline-file"])
    expect(page.locator(".sl-source")).to_have_text("From a file")
    expect(page.locator(".sl-origin")).to_have_text(re.compile("^Recorded: date unknown · cpu · float32"))
    expect(page.locator("#prompt textarea")).to_have_value(trace.started.config["prompt"])
    expect(page.locator("#temperature input[type=number]")).to_have_value("0")
    expect(speedup(page)).to_have_text(before)
    drawn(page, "rounds")
    assert json.loads(saved(page, "trace-file")) == json.loads(texts["trace-file"])


# The next answer with a recipe comes late.
NEXT_COMES_LATE = """() => {
  const real = window.fetch;
  window.fetch = async (...request) => {
    const answer = await real(...request);
    const isNext = window.isLate === undefined && String(request[0]).includes('/run/');
    if (isNext && (await answer.clone().text()).includes('num_speculative_tokens')) {
      window.isLate = true;
      await new Promise(done => setTimeout(done, 1500));
      window.isLate = false;
    }
    return answer;
  };
}"""


def test_recipes_follow_the_controls_and_can_be_copied(visit):
    page = visit(permissions=["clipboard-read", "clipboard-write"])
    open_tab(page, "Use it elsewhere")
    choose(page, "method", "n-gram lookup")
    code = page.locator(".sl-recipe-code")
    expect(code).to_contain_text('"num_speculative_tokens": 4')
    page.locator(".sl-recipe-copy").click()
    expect(page.locator(".sl-recipe-copy")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == code.inner_text()

    page.evaluate(NEXT_COMES_LATE)  # the answer to the last change counts, not the last answer
    page.locator("#auto input").uncheck()
    page.wait_for_function("window.isLate")
    set_number(page, "gamma", 7)
    page.wait_for_function("window.isLate === false")
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    expect(code).to_contain_text('"num_speculative_tokens": 7')

    page.get_by_role("tab", name="vLLM").press("End")
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("tab", name="LM Studio")).to_be_focused()
    expect(page.locator(".sl-recipe-note")).to_contain_text("Not supported")
    expect(page.locator(".sl-recipe-copy")).to_be_hidden()

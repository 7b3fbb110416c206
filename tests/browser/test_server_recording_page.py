"""A recording of one's own server in a browser: its heading, its unknown guesses, and the form of Theory filled in."""

import pytest
from page_actions import check_light_and_dark, open_files, open_lab, open_tab, upload
from playwright.sync_api import expect
from server_recordings import file_of, vllm_recording

pytestmark = pytest.mark.browser


@pytest.mark.slow
def test_a_servers_recording_is_shown_as_one_and_explained(page, tmp_path):
    accepted = {0: (0,), 1: (1, 0, 1, 1), 3: (3, 1, 0, 2)}
    paths = {
        gamma: file_of(vllm_recording(gamma, 0.03 + 0.01 * gamma, each), tmp_path, f"{gamma}.json")
        for gamma, each in accepted.items()
    }
    open_files(page, paths[3], paths[0])
    expect(page.locator("#stage .sl-source")).to_have_text("vLLM 0.33.0, your recording")
    expect(page.locator("#stage .sl-words")).to_contain_text("it tells how many, not which words")
    expect(page.locator('[data-tile="speedup"] .sl-number')).to_contain_text("×")
    page.locator("#stage .sl-rows").press("End")
    unknown = page.locator("#stage .sl-list .sl-token[data-unknown]")
    expect(unknown.first).to_have_css("border-top-style", "dashed")
    expect(page.locator("#stage .sl-rounds .sl-means-unknown")).to_be_visible()
    unknown.first.click()
    inspector = page.locator("#stage .sl-inspected-token")
    expect(inspector).to_contain_text("2 of 3 guesses were rejected.")
    expect(inspector).to_contain_text("No server tells q, u or the residual.")
    check_light_and_dark(page, "#stage")

    open_lab(page, "Theory")
    points = page.locator("#server-points textarea")
    expect(points).to_have_value("0 33.33\n3 41.23 2.474")
    upload(page, "server-files", paths[1])
    expect(points).to_have_value("0 33.33\n3 41.23 2.474\n1 43.52 1.741")
    page.locator("#server-explain").click()
    expect(page.locator("#server-notice")).to_contain_text("Best: γ = ")
    expect(page.locator("#server-parts")).to_contain_text("fixed cost of drafting")
    expect(page.locator('[data-chart="server-speeds"] .main-svg').first).to_be_visible()
    check_light_and_dark(page, "#lab-theory")

    open_tab(page, "Compare", "lab-tabs")
    upload(page, "compare-recordings", paths[0], paths[3])
    expect(page.locator("#compare-grid")).to_contain_text("2: vLLM 0.33.0, your recording")
    open_tab(page, "The answer", "lab-tabs")
    upload(page, "answer-recordings", *paths.values())
    expect(page.locator(".sl-answer-main")).to_contain_text("plain decoding")

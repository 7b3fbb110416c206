"""A server whose folder for files breaks while it runs: Run comes back, with the run's own charts and a reason."""

import shutil

import pytest
from page_actions import fill
from playwright.sync_api import expect
from server import FAKE_APP, serving

from app.playground.result_handlers import NO_ROOM

pytestmark = pytest.mark.browser


@pytest.mark.slow
def test_run_comes_back_when_its_files_cannot_be_written(open_page, tmp_path):
    folder = tmp_path / "files"
    with serving(FAKE_APP, tmp_path / "log", GRADIO_TEMP_DIR=str(folder)) as url:
        page = open_page(url)
        expect(page.locator("#stage-notice .sl-words")).not_to_be_empty()
        shutil.rmtree(folder)
        folder.touch()  # as if the disk were full: nothing can be written below it
        fill(page, prompt="Hello", tokens="12", temperature="0")
        page.locator("#run").click()
        expect(page.locator("#result-race")).to_contain_text("= 12 ÷")  # twelve tokens: the chart is of this run
        expect(page.locator("#run")).to_have_text("Run")
        page.get_by_role("tab", name="Files").click()
        expect(page.locator("#trace-file")).to_have_text(NO_ROOM)
        expect(page.locator("#trace-file")).to_be_disabled()

"""One Chromium for each file of journeys."""

import pytest
from chromium import ARGS
from playwright.sync_api import sync_playwright


@pytest.fixture(scope="module")
def browser(chromium_path):
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path, args=ARGS)
        yield browser
        browser.close()

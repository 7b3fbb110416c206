"""The page's scripts in a browser: one file, cached for good, and the same table of statuses as the engine's."""

import pytest
from player_page import page_with
from playwright.sync_api import Page

from app.ui.html_component import PARTS, script_path
from app.views.statuses import GRAMMAR, STAGES
from engine.trace.events import FORBIDDEN, STATUSES

pytestmark = pytest.mark.browser


def test_the_page_loads_its_scripts_once_and_as_one_file(lessons_page):
    page: Page = lessons_page
    ours = [url for url in page.requests if "/speclens-" in url]
    assert [url.split("/", 3)[3] for url in ours] == [script_path()]
    mounts = page.evaluate(
        "path => import(new URL(path, document.baseURI)).then(({ mounts }) => Object.keys(mounts))", script_path()
    )
    assert mounts == list(PARTS)


def test_the_browsers_statuses_are_the_engines(browser):
    flags = ("drafted", "tested", "emitted")
    expected = {
        name: {flag: getattr(status, flag) for flag in flags} | {"mark": status.mark, "word": name}
        for name, status in (STATUSES | {"forbidden": FORBIDDEN}).items()
    }
    stages = {name: {"mark": mark, "word": word} for name, (mark, word, _) in STAGES.items()}
    with page_with(browser, "lib/statuses.js") as page:
        found = page.evaluate("STATUSES")
        assert found.pop("forced")["emitted"] and found == expected | stages
        assert page.evaluate("FROM_GRAMMAR.mark") == GRAMMAR[0]

"""Shares one Chromium, one server on a made-up engine and a few warm pages among the browser tests of a process."""

from pathlib import Path

import pytest
from chromium import ARGS
from page_actions import click_until, open_lesson
from player_page import LESSON_MODULES, page_with
from player_page import page as player
from playwright.sync_api import Page, expect, sync_playwright
from server import APP, FAKE_APP, change_fake, serving
from tab_model import tab_model
from tab_site import run, serving_site, written_site
from visits import DESKTOP, Visits

from app import static_site
from app.views import player_feed

expect.set_options(timeout=60_000)  # Otherwise a busy machine would look like a failure.


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    item.has_failed = report.failed or getattr(item, "has_failed", False)
    return report


@pytest.fixture(scope="session")
def browser(chromium_path):
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path, args=ARGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def warm_visits(browser) -> Visits:
    return Visits(browser)


@pytest.fixture(scope="session")
def fake_server(chromium_path, tmp_path_factory):
    """The address of the page on the made-up engine."""
    with serving(FAKE_APP, tmp_path_factory.mktemp("fake") / "app.log") as url:
        yield url


@pytest.fixture(scope="session")
def tiny_server(chromium_path, tmp_path_factory):
    """The address of the page on the real engine, with a pair so small that it needs no download."""
    from tiny_pairs import pair_with_draft

    root = tmp_path_factory.mktemp("tiny")
    pair = pair_with_draft(root, max_position_embeddings=4096)
    with serving(APP, root / "app.log", SPECLENS_PAIRS=pair, SPECLENS_CACHE=str(root / "cache")) as url:
        yield url


@pytest.fixture(scope="module")
def real_server(chromium_path, tmp_path_factory):
    """The address of the page as `make run` starts it, on the embedded pair."""
    with serving(APP, tmp_path_factory.mktemp("real") / "app.log") as url:
        yield url


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Path:
    """The first page of the site without a server."""
    folder = tmp_path_factory.mktemp("site")
    static_site.write(folder)
    return folder / "index.html"


@pytest.fixture(scope="session")
def tiny_tab_pair(tmp_path_factory) -> str:
    """A tiny model that the engine in a tab runs."""
    return str(tab_model(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="session")
def tiny_site(tmp_path_factory, tiny_tab_pair) -> Path:
    """The site without a server, with that model."""
    return written_site(tmp_path_factory, tiny_tab_pair)


@pytest.fixture
def server(tiny_site):
    """A host of that site."""
    with serving_site(tiny_site) as server:
        yield server


@pytest.fixture(scope="session")
def tab(browser, tiny_site):
    """One visitor's tab on that site, which has the model, for tests that need no first visit."""
    visits = Visits(browser)
    with serving_site(tiny_site) as server:
        page = visits.open(f"{server.url}/tab.html", fresh=True)
        run(page, method="none", max_new_tokens=8)
        yield page
        visits.close()


@pytest.fixture
def open_page(request, warm_visits):
    """``open_page(url)`` gives a page. At the end every page must have asked no other server and logged no error."""
    yield warm_visits.open
    warm_visits.close(reuse=not getattr(request.node, "has_failed", False))


@pytest.fixture
def open_offline(open_page):
    """``open_offline(file)`` opens a file with the network cut off. At the end it has logged nothing and asked for
    nothing but itself; ``several``: and for other files."""
    pages = []

    def open_(file: Path, several: bool = False, **options) -> Page:
        page = open_page("about:blank", offline=True, **options)
        page.messages, page.home = [], file.as_uri()
        page.on("console", lambda message: page.messages.append(message.text))  # a breach of the policy is said here
        page.goto(page.home)
        pages.append((page, ("about:", "file:") if several else ("about:", page.home)))
        return page

    yield open_
    for page, allowed in pages:
        assert page.messages == [] and all(url.startswith(allowed) for url in page.requests)


@pytest.fixture
def visit(open_page, fake_server):
    """``visit(path)`` opens the page on the made-up engine as a new visitor, up to where its recorded run plays."""

    def open_(path: str = "", server: str = fake_server, **options) -> Page:
        page = open_page(f"{server}/{path}", **options)
        expect(page.locator("#stage-notice .sl-words")).not_to_be_empty()
        return page

    yield open_
    change_fake(fake_server, stop=True)


@pytest.fixture(scope="session")
def page_visits(browser) -> Visits:
    return Visits(browser)


@pytest.fixture(scope="module")
def module_page(page_visits, fake_server):
    page = page_visits.open(fake_server)
    expect(page.locator("#stage-notice .sl-words")).not_to_be_empty()
    yield page
    page_visits.close()


@pytest.fixture
def page(module_page):
    """One page on the made-up engine for all tests of a file, because a page that opens takes longer than most of what
    they do. It has the controls and the run that the test before left there."""
    module_page.set_viewport_size(DESKTOP)
    module_page.keyboard.press("Escape")  # closes the drawer, a dialog or a list that a test has left open
    return module_page


@pytest.fixture
def fake(fake_server):
    """``fake(step=0.05)`` changes the made-up engine until the test ends; see ``FakeWorker`` for what there is."""
    yield lambda **settings: change_fake(fake_server, **settings)
    change_fake(fake_server, stop=True)


@pytest.fixture
def open_player(open_page, tmp_path):
    """Opens the player on a trace, at its end."""

    def open_(trace, is_recorded=False, at_end=True, **options) -> Page:
        file = tmp_path / "player.html"
        file.write_text(player(player_feed.complete("test", trace, is_recorded)), encoding="utf-8")
        page = open_page(file.as_uri(), **options)
        if at_end:
            page.keyboard.press("End")
        return page

    return open_


@pytest.fixture(scope="session")
def bare(browser):
    """A page with nothing on it, where the tools' functions are global."""
    with page_with(browser, *LESSON_MODULES) as page:
        yield page


@pytest.fixture(scope="session")
def lessons_page(browser, fake_server):
    """One visitor's page for all tools. At the end no error was logged and no other server asked."""
    visits = Visits(browser)
    page = visits.open(f"{fake_server}/#lessons", fresh=True)
    yield page
    visits.close()


@pytest.fixture
def at_step(lessons_page):
    """Opens a lesson, at its first step or at the one with this title; all tests share the page."""

    def open_(lesson: str, titled: str | None = None) -> Page:
        lessons_page.set_viewport_size(DESKTOP)
        click_until(lessons_page.get_by_role("tab", name="Lessons"), "[aria-selected=true]")
        open_lesson(lessons_page, lesson, titled)
        return lessons_page

    return open_


@pytest.fixture
def at_tool(at_step):
    """Opens a lesson at the step that has the tool."""

    def open_(lesson: str, titled: str) -> Page:
        page = at_step(lesson, titled)
        expect(page.locator(".sl-lesson-next")).to_have_text("Skip")
        return page

    return open_

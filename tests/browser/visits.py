"""Opens pages for the tests and checks each page when it is closed.

Pages of one warm context are used again: its cached scripts let a page load in half the time. A visitor of the app is a
loaded document, so a reloaded page is a new visitor.
"""

from playwright.sync_api import Browser, Page

DESKTOP = {"width": 1280, "height": 900}
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
# What a warm page can change; all other options need a new context. Set at every visit, since a test may have left a
# page dark.
EMULATED = {"color_scheme": "light", "reduced_motion": "no-preference"}


class Visits:
    def __init__(self, browser: Browser):
        self.browser = browser
        self.context = browser.new_context(viewport=DESKTOP)
        self.idle: list[Page] = []
        self.opened: list[Page] = []

    def open(self, url: str, fresh: bool = False, init_script: str | None = None, **options) -> Page:
        """A page on ``url``. ``fresh``, an init script or options that a warm page cannot change give it a context of
        its own; ``context`` puts it beside another page of the test."""
        emulated = {name: options.pop(name, usual) for name, usual in EMULATED.items()}
        size, shared = options.pop("viewport", DESKTOP), options.pop("context", None)
        # A second page gets a window of its own, because a tab in the background draws nothing.
        has_page = any(page.context is self.context for page in self.opened)
        own = fresh or has_page or bool(options) or init_script is not None
        if own or shared:
            context = shared or self.browser.new_context(viewport=size, **options)
            if init_script is not None:
                context.add_init_script(init_script)
            page = _watched(context.new_page())
        else:
            page = self.idle.pop() if self.idle else _watched(self.context.new_page())
            page.set_viewport_size(size)
        self.opened.append(page)
        page.errors.clear()
        page.requests.clear()
        page.home = url
        page.emulate_media(**emulated)
        page.goto(url)
        return page

    def close(self, reuse: bool = True) -> None:
        """Closes the opened pages, or empties them for the next test. AssertionError where a page did what none may."""
        pages, self.opened = self.opened, []
        try:
            if reuse:
                for page in pages:
                    assert_unharmed(page)
        finally:
            for page in pages:
                if reuse and page.context is self.context and not page.is_closed():
                    self._empty(page)
                elif page.context is not self.context:
                    page.context.close()
                else:
                    page.close()

    def _empty(self, page: Page) -> None:
        page.unroute_all()
        if page.url.startswith("http"):  # an empty page or a file has no storage
            page.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
        page.mouse.move(0, 0)
        page.goto("about:blank")
        self.idle.append(page)


def _watched(page: Page) -> Page:
    page.set_default_timeout(60_000)
    page.errors, page.requests, page.home = [], [], ""
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.on("request", lambda request: page.requests.append(request.url))
    return page


def assert_unharmed(page: Page) -> None:
    """No error was logged, no other server asked, and nothing executed that came as text."""
    origin = "/".join(page.home.split("/")[:3])
    assert page.errors == []
    assert [url for url in page.requests if not url.startswith((origin, "data:", "blob:"))] == []
    assert page.is_closed() or page.evaluate("window.pwned") is None

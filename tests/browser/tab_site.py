"""Serves a static site with an engine, as a host would: with or without isolation, and with weights that go wrong. Does
with its page what a visitor does."""

import functools
import gzip
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from page_actions import downloaded
from playwright.sync_api import Page, expect

from app import static_site
from app.tab.package import browser_engine

# Whether the service worker has kept the site.
KEPT = "navigator.serviceWorker.ready.then(({ active }) => active.state === 'activated')"
PROMPT = "the robot and the baker, the robot and the baker, the robot"
ISOLATED = {"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Embedder-Policy": "require-corp"}


class _Handler(SimpleHTTPRequestHandler):
    """``faults`` of the server: paths whose files come ``cut``, ``changed`` or ``slow``, as an ``encoding``,
    ``unpacked``, or with a ``page`` in their place. ``asked``: paths, in order. ``aliases``: the path of a file by
    another one, which has no settings; ``moved``: paths that visitors are sent to."""

    extensions_map = SimpleHTTPRequestHandler.extensions_map | {".mjs": "text/javascript", ".js": "text/javascript"}

    def do_GET(self):
        self.server.asked.append(self.path)
        if self.path in self.server.moved:
            self.send_response(308)
            self.send_header("Location", self.server.moved[self.path])
            self.end_headers()
            return
        for alias, path in self.server.aliases.items():
            if self.path == alias or self.path.startswith(f"{alias}?"):
                self.path = path
        fault = self.server.faults.get(self.path)
        if fault is None:
            super().do_GET()
            return
        data = bytearray(Path(self.translate_path(self.path)).read_bytes())
        if fault == "changed":
            data[-1] ^= 1
        elif fault == "unpacked":
            data = gzip.decompress(data)
        elif fault == "page":
            data = b"<!doctype html>"
        self.send_response(200)
        if fault == "encoding":
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[: len(data) // 2] if fault in ("cut", "slow") else data)
        if fault == "slow":  # the other half never comes
            self.server.is_over.wait()

    def end_headers(self):
        self.send_header(
            "Cache-Control", "no-cache"
        )  # else a browser keeps a file for a tenth of its age, and asks for no fault
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, *_):
        pass


@contextmanager
def serving_site(folder: Path, isolated: bool = False) -> Iterator[ThreadingHTTPServer]:
    """Yields the server; ``url`` is its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Handler, directory=str(folder)))
    server.faults, server.asked, server.headers = {}, [], ISOLATED if isolated else {}
    server.aliases, server.moved = {}, {}
    server.is_over = threading.Event()
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.is_over.set()
        server.shutdown()
        server.server_close()
        thread.join()


def require_npm() -> None:
    """Skips the test where nothing brings the runtime, unless that is required."""
    if shutil.which("npm") is None and os.environ.get("REQUIRE_NPM") != "1":
        pytest.skip("npm brings the runtime, and is not here")


def written_site(tmp_path_factory, pair: str) -> Path:
    require_npm()
    folder = tmp_path_factory.mktemp("tab")
    static_site.write(folder, browser_engine(pair, "beside"))
    return folder


def fill(page: Page, **values) -> None:
    values = {"prompt": PROMPT, "max_new_tokens": 40, "temperature": 0, "seed": 0} | values
    for name, usual in {"method": "ngram", "gamma": "4"}.items():
        page.locator(f"[name={name}]").select_option(str(values.pop(name, usual)))
    for name, value in values.items():
        page.locator(f"[name={name}]").fill(str(value))


def press_run(page: Page) -> None:
    page.get_by_role("button", name="Run", exact=True).click()


def run(page: Page, **values) -> None:
    fill(page, **values)
    press_run(page)
    wait_for_end(page, 240_000)


def wait_for_end(page: Page, timeout: float) -> None:
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_enabled(timeout=timeout)
    assert page.locator(".sl-alert").text_content() == ""


def saved(page: Page, button: str = "Save the run") -> str:
    return downloaded(page.get_by_role("button", name=button))


def open_run(page: Page, text: str, name: str = "run.json") -> None:
    file = {"name": name, "mimeType": "application/json", "buffer": text.encode()}
    page.locator(".sl-tab-open input").set_input_files(file)

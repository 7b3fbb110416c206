"""Pages of other sites, in a real browser: they can neither start a run here nor pass for this server's own page."""

import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest
from chromium import ARGS

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("other sites")]
# As a page may send a request without asking first; as a program would; and as a form does.
SIMPLE = """([url, type]) => fetch(url, {method: 'POST', mode: 'no-cors', headers: {'Content-Type': type},
    body: '{"prompt": "Hi", "tokens": 4}'}).catch(String)"""
FORM = """url => { document.body.innerHTML = `<form method="post" action="${url}" enctype="text/plain">
    <input name='{"prompt": "Hi", "x' value='": 1}'></form>`; document.forms[0].submit(); }"""


@pytest.fixture(scope="module")
def stranger(browser, chromium_path):
    """A page of a site whose name leads to this machine. It has a server, since the browser lets no page that came
    from nowhere ask this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), OtherSite) as site:
        threading.Thread(target=site.serve_forever, args=(0.02,), daemon=True).start()
        rules = "--host-resolver-rules=MAP evil.example 127.0.0.1"
        other = browser.browser_type.launch(executable_path=chromium_path, args=[*ARGS, rules])
        page = other.new_page()
        page.home = f"http://evil.example:{site.server_port}/"
        yield page
        other.close()
        site.shutdown()


class OtherSite(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<body>A page of another site")

    def log_message(self, *args):
        pass


def started_runs(server: str) -> str:
    with urllib.request.urlopen(f"{server}/metrics") as answer:
        return "\n".join(line for line in answer.read().decode().splitlines() if line.startswith("speclens_runs_total"))


@pytest.mark.parametrize("path", ["/api/run", "/gradio_api/queue/join", "/gradio_api/call/run"])
def test_a_page_of_another_site_starts_no_run(stranger, fake_server, path):
    before, url = started_runs(fake_server), f"{fake_server}{path}"
    stranger.goto(stranger.home)
    for content_type in ("text/plain", "application/x-www-form-urlencoded"):
        with stranger.expect_response(url) as answer:
            stranger.evaluate(SIMPLE, [url, content_type])
        assert answer.value.status == 403
    failed = stranger.evaluate(SIMPLE.replace("no-cors", "cors"), [url, "application/json"])
    assert "Failed to fetch" in failed, "the browser asks first, and is not allowed"
    with stranger.expect_response(url) as answer:
        stranger.evaluate(FORM, url)
    assert answer.value.status == 403
    stranger.get_by_text("SPECLENS_HOSTS").wait_for()
    assert started_runs(fake_server) == before


def test_another_name_for_this_machine_gets_no_answer(stranger, fake_server):
    """The name of a site is turned to this machine after its page has loaded, so that the two are of one origin."""
    for path in ("/", "/metrics", "/config"):
        answer = stranger.goto(f"http://evil.example:{urlsplit(fake_server).port}{path}")
        assert answer.status == 403 and "does not answer to the name evil.example" in stranger.content()

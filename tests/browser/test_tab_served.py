"""“Run it here” on the served page: from the form to the engine in the tab, and back with the run."""

import json
import threading
import urllib.request
from urllib.parse import urlsplit

import pytest
import tab_site
from fake_worker import wait_for
from page_actions import choose, fill, open_files, press_run, saved, set_number, violations, wait_for_end
from playwright.sync_api import expect
from reverse_proxy import proxy
from server import APP, serving
from tab_agreement import decisions
from tab_model import tab_model
from typer.testing import CliRunner

from app.tab.package import RUNTIME, VERSION, package
from engine.tools.cli.main import app as command_line
from engine.trace.trace import from_json

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("tab-page")]
PATH = "/speclens"
LINK = "#tab-link .sl-tab-link"


@pytest.fixture(scope="module")
def tiny_server(chromium_path, tmp_path_factory):
    """The page on a tiny pair that a tab can run, too, below a path of a proxy."""
    tab_site.require_npm()
    root = tmp_path_factory.mktemp("served")
    (root / "cache").mkdir()
    (root / "cache" / f"{RUNTIME}-{VERSION}.tgz").write_bytes(package())
    settings = {"SPECLENS_PAIRS": str(tab_model(root)), "SPECLENS_CACHE": str(root / "cache"), "SPECLENS_TAB": "beside"}
    with serving(APP, root / "app.log", GRADIO_ROOT_PATH=PATH, **settings) as url, proxy(url, PATH) as outside:
        yield outside.removesuffix("/")


def test_visitor_runs_it_in_the_tab_and_comes_back_with_the_run(visit, tiny_server, tmp_path):
    page = visit(server=tiny_server, fresh=True)
    expect(page.locator(LINK)).to_be_visible()  # the model is loaded, and the files are there
    assert violations(page, ".sl-ask") == []
    fill(page, prompt=tab_site.PROMPT, tokens="40", seed="5")
    page.locator("#auto input").uncheck()  # the two would choose other lengths
    set_number(page, "temperature", 0.8)
    set_number(page, "top_k", 3)
    choose(page, "method", "lookahead")
    requests = []
    page.context.on("request", lambda request: requests.append(request.url.removeprefix(tiny_server).split("#")[0]))
    with page.context.expect_page() as opened:
        page.locator(LINK).click()
    tab = opened.value
    expect(tab.locator("[name=prompt]")).to_have_value(tab_site.PROMPT)
    assert not any("robot" in address for address in requests), "no server gets what comes after the #"
    note = "lookahead (n-gram lookup instead), Top-k."
    expect(tab.locator(".sl-tab-note")).to_contain_text(note)
    expect(tab.locator(".sl-tab-cost")).to_contain_text("The first Run downloads the model")
    expect(tab.locator(".sl-tab-cost")).to_contain_text(f"from {urlsplit(tiny_server).netloc}")
    assert tab.evaluate("crossOriginIsolated") and not any("gguf" in address for address in requests)
    assert violations(tab) == []
    tab_site.press_run(tab)
    expect(tab.get_by_role("button", name="Run", exact=True)).to_be_enabled()
    text = tab_site.saved(tab)
    file = tmp_path / "tab.json"
    file.write_text(text, encoding="utf-8")
    ours = from_json(text)
    assert ours.started.device.startswith("browser tab, WASM, ") and requests.count("/here/engine/weights.gguf") == 1
    assert CliRunner().invoke(command_line, ["replay", str(file)]).exit_code == 0
    assert all(address.startswith(("/", "blob:", "data:")) for address in requests), "another host"

    tab.get_by_role("link", name="Back to the page").click()
    expect(tab.locator("#stage-notice")).to_contain_text("Filled in from the link")
    expect(tab.locator("#prompt textarea")).to_have_value(tab_site.PROMPT)
    press_run(tab)
    wait_for_end(tab)
    theirs = from_json(saved(tab, "trace-file"))
    assert decisions(theirs) == decisions(ours) and theirs.started.device.startswith("cpu")
    open_files(tab, file)
    expect(tab.locator(".sl-source")).to_have_text("From a file")
    expect(tab.locator("#stage-notice")).to_contain_text("a recorded run on browser tab, WASM")
    tab.close()


def test_long_queue_offers_the_tab(visit, fake, fake_server):
    """The made-up engine runs one at a time, so the fourth visitor waits for three runs."""

    def ask(prompt: str) -> None:
        data = f'{{"prompt": "{prompt}", "tokens": 400}}'.encode()
        urllib.request.urlopen(
            urllib.request.Request(f"{fake_server}/api/run", data, {"Content-Type": "application/json"}), timeout=200
        )

    def two_wait() -> bool:
        with urllib.request.urlopen(f"{fake_server}/_state", timeout=60) as answer:
            return "2 waiting" in json.load(answer)["text"]

    fake(step=0.5)
    page = visit(fresh=True)
    offer = page.get_by_role("link", name="Run it in your browser")
    page.route("**/_state", lambda route: route.fulfill(json={"kind": "busy", "text": "Busy", "tab": True}))
    expect(page.locator(LINK)).to_be_visible()
    others = [threading.Thread(target=ask, args=(f"Visitor {i}",), daemon=True) for i in range(3)]
    for other in others:
        other.start()
    wait_for(two_wait)
    press_run(page)
    expect(page.locator("#stage-notice")).to_contain_text("Waiting in the queue: 3 before you")
    expect(offer).to_be_visible()
    assert violations(page, ".sl-head") == []
    fake(stop=True)
    wait_for_end(page)
    expect(offer).to_be_hidden()
    page.unroute("**/_state")
    expect(page.locator(LINK)).to_be_hidden()  # this server has none
    for other in others:
        other.join(20)

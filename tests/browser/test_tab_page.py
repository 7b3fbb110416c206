"""The engine in a tab, in a real browser, on a tiny model and on the embedded one."""

import json
import os
import re
import shutil

import pytest
from page_actions import violations
from playwright.sync_api import Page, expect
from real_model import PAIR
from tab_agreement import LARGEST_DIFFERENCE, compare, configs_of, decisions, largest_difference
from tab_model import tab_model
from tab_site import serving_site

from app import static_site
from app.jobs.browser_engine import browser_engine
from app.views import player_feed
from engine.config import RunConfig
from engine.runtime.engine import load_engine
from engine.trace.branch import request_of
from engine.trace.events import Candidate, Distribution, PromptToken, Round, RunFinished, RunStarted, Timings, Token
from engine.trace.trace import fold, from_json, to_json

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("tab-page")]
PROMPT = "the robot and the baker, the robot and the baker, the robot"


def site(tmp_path_factory, pair: str):
    if shutil.which("npm") is None and os.environ.get("REQUIRE_NPM") != "1":
        pytest.skip("npm brings the runtime, and is not here")
    folder = tmp_path_factory.mktemp("tab")
    static_site.write(folder, browser_engine(pair, "beside"))
    return folder


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return str(tab_model(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tiny):
    return site(tmp_path_factory, tiny)


@pytest.fixture
def server(folder):
    with serving_site(folder) as server:
        yield server


@pytest.fixture
def visit(open_page):
    return lambda server, query="", **options: open_page(f"{server.url}/tab.html{query}", fresh=True, **options)


def fill(page: Page, **values) -> None:
    values = {"prompt": PROMPT, "max_new_tokens": 40} | values
    page.get_by_label("Method").select_option(values.pop("method", "ngram"))
    for name, value in values.items():
        page.locator(f"[name={name}]").fill(str(value))


def press_run(page: Page) -> None:
    page.get_by_role("button", name="Run", exact=True).click()


def run(page: Page, **values) -> None:
    fill(page, **values)
    press_run(page)
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_enabled(timeout=240_000)
    assert page.locator(".sl-alert").text_content() == ""


def saved(page: Page, button: str = "Save the run") -> str:
    with page.expect_download() as download:
        page.get_by_role("button", name=button).click()
    return download.value.path().read_text(encoding="utf-8")


def test_first_visit_downloads_once_and_the_second_nothing(server, visit):
    page = visit(server)
    cost = page.locator(".sl-tab-cost")
    expect(cost).to_contain_text("The first Run downloads the model")
    expect(cost).to_contain_text(server.url.removeprefix("http://"))
    assert not any("weights" in path for path in server.asked)  # it says so before it asks
    run(page)
    page.locator(".sl-list .sl-token").first.click()
    expect(page.locator(".sl-inspector .sl-candidate-table")).to_be_visible()
    expect(page.get_by_role("button", name="Force another token")).to_have_count(0)  # no server answers here
    expect(cost).to_contain_text("The model is in this browser")
    assert server.asked.count("/engine/weights.gguf") == 1
    assert violations(page, ".sl-tab") == []
    page.reload()
    expect(cost).to_contain_text("The model is in this browser")
    run(page, method="none")
    assert server.asked.count("/engine/weights.gguf") == 1
    page.get_by_role("button", name="Delete the model").click()
    expect(cost).to_contain_text("The first Run downloads the model")


@pytest.mark.parametrize(("temperature", "method"), [(0, "ngram"), (0.25, "ngram"), (1.0, "none")])
def test_tab_writes_the_tokens_verdicts_and_numbers_of_the_engine(server, visit, tiny, temperature, method):
    page = visit(server)
    run(page, temperature=temperature, method=method, seed=11, gamma=3)
    texts = [saved(page)] + ([saved(page, "Save its baseline")] if method != "none" else [])
    engine = load_engine(tiny, precision="fp32")
    for text in texts:
        ours = from_json(text)
        theirs = fold(engine.run(request_of(ours)))
        assert ours.started.prompt == theirs.started.prompt
        assert decisions(ours) == decisions(theirs)
        assert (ours.finished.reason, ours.finished.text) == (theirs.finished.reason, theirs.finished.text)
        assert largest_difference(ours, theirs) < LARGEST_DIFFERENCE
    assert ours.started.device == "browser tab, WASM, 1 thread"
    statuses = {token.status for r in from_json(texts[0]).rounds for token in r.tokens}
    assert method == "none" or statuses >= {"accepted", "rejected", "resampled", "discarded"}


def test_saved_trace_has_the_fields_of_the_events(server, visit):
    page = visit(server)
    run(page, temperature=0.8)
    data = json.loads(saved(page))
    trace = from_json(json.dumps(data))
    assert json.loads(to_json(trace)).keys() == data.keys()
    names = {
        RunStarted: data["started"], PromptToken: data["started"]["prompt"][0], Round: data["rounds"][0],
        Timings: data["rounds"][0]["timings"], Token: data["rounds"][0]["tokens"][0], RunFinished: data["finished"],
        Distribution: data["rounds"][0]["tokens"][0]["p_top"],
        Candidate: data["rounds"][0]["tokens"][0]["p_top"]["top"][0],
    }  # fmt: skip
    for event, got in names.items():
        assert set(got) == set(event.__dataclass_fields__), event
    assert all(a.end <= b.start for a, b in zip(trace.rounds, trace.rounds[1:], strict=False))
    settings = set(RunConfig.__dataclass_fields__) - {"prefix", "constraint"}
    assert set(data["started"]["config"]) == settings
    assert player_feed.replay("file", trace, None)  # the served page draws it
    page.locator(".sl-tab-open input").set_input_files({
        "name": "run.json", "mimeType": "application/json", "buffer": json.dumps(data).encode()
    })  # fmt: skip
    expect(page.locator(".sl-words")).to_have_text("Opened run.json.")
    expect(page.locator(".sl-place")).to_contain_text(f"of {len(trace.rounds)}")
    page.locator(".sl-tab-open input").set_input_files({
        "name": "other.json", "mimeType": "application/json", "buffer": b"{}"
    })  # fmt: skip
    expect(page.locator(".sl-alert")).to_contain_text("not a run that this page can open")


# A person cannot press within the tenth of a second that the tiny model takes.
STOP_AT_THE_FIRST_ROUND = """() => {
    const player = document.querySelector('.sl-player'), stop = document.querySelector('[data-tab=stop]');
    new MutationObserver((_, observer) => {
        if (!(player.dataset.rounds > 0) || stop.disabled || player.dataset.kind !== 'running') return;
        observer.disconnect();
        stop.click();
    }).observe(player, { attributes: true });
}"""


def test_stop_ends_a_run_within_a_round_and_the_next_one_runs(server, visit):
    page = visit(server)
    run(page, method="none", max_new_tokens=4)
    fill(page, method="none", max_new_tokens=256)
    page.evaluate(STOP_AT_THE_FIRST_ROUND)
    press_run(page)
    expect(page.locator(".sl-words")).to_have_text("Stopped.")
    trace = from_json(saved(page))
    assert trace.finished.reason == "cancelled" and 0 < len(trace.rounds) < 128
    run(page, max_new_tokens=8)
    assert from_json(saved(page)).finished.reason != "cancelled"


def test_stop_ends_a_download_and_the_next_run_begins_another(server, visit):
    page = visit(server)
    server.faults["/engine/weights.gguf"] = "slow"
    fill(page)
    press_run(page)
    expect(page.locator(".sl-words")).to_contain_text("Downloading the model")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".sl-words")).to_have_text("Stopped.")
    server.faults.clear()
    run(page)
    assert server.asked.count("/engine/weights.gguf") == 2


@pytest.mark.parametrize(("fault", "sentence"), [
    ("changed", "its SHA-256 differs"), ("cut", "broke off|not whole"),
])  # fmt: skip
def test_wrong_file_is_refused_and_not_stored(server, visit, fault, sentence):
    page = visit(server)
    server.faults["/engine/weights.gguf"] = fault
    fill(page)
    press_run(page)
    expect(page.locator(".sl-alert")).to_have_text(re.compile(sentence))
    assert page.evaluate("caches.open('speclens-weights').then(store => store.keys())") == []
    server.faults.clear()
    run(page)
    assert server.asked.count("/engine/weights.gguf") == 2


def test_damaged_store_is_downloaded_again(server, visit):
    page = visit(server)
    run(page)
    page.evaluate(
        """async () => { const store = await caches.open('speclens-weights'), [key] = await store.keys();
            await store.put(key, new Response(new Uint8Array(100))); }"""
    )
    page.reload()
    run(page)
    assert server.asked.count("/engine/weights.gguf") == 2


def change_worker(page: Page, script: str) -> None:
    """Runs a script in the worker before its own."""

    def answer(route):
        route.fulfill(response=(response := route.fetch()), body=f"{script}\n{response.text()}")

    page.route("**/engine/worker.js", answer)
    page.reload()


def test_full_storage_is_said_and_the_run_goes_on(server, visit):
    page = visit(server)
    change_worker(page, "Cache.prototype.put = () => Promise.reject(new DOMException('full', 'QuotaExceededError'));")
    run(page)
    expect(page.locator(".sl-words")).to_contain_text("no room for the file")


@pytest.mark.parametrize(("isolated", "cores", "threads"), [
    (True, 4, "3 threads"), (True, 2, "1 thread"), (False, 4, "1 thread"),
])  # fmt: skip
def test_threads_are_used_where_the_page_is_isolated(folder, visit, isolated, cores, threads):
    with serving_site(folder, isolated) as server:
        page = visit(server)
        change_worker(page, f"Object.defineProperty(navigator, 'hardwareConcurrency', {{ value: {cores} }});")
        assert page.evaluate("crossOriginIsolated") is isolated
        run(page, max_new_tokens=8)
        assert from_json(saved(page)).started.device == f"browser tab, WASM, {threads}"


def test_link_carries_the_settings_of_the_served_page(server, visit):
    query = "?prompt=hello+there&auto=0&gamma=7&temperature=0.8&seed=5&method=none"
    page = visit(server, query)
    values = {name: page.locator(f"[name={name}]").input_value() for name in ("prompt", "gamma", "seed", "method")}
    assert values == {"prompt": "hello there", "gamma": "7", "seed": "5", "method": "none"}
    page.get_by_role("button", name="Copy a link").click()
    expect(page.get_by_role("button", name="The link is in the address bar")).to_be_visible()
    assert "prompt=hello+there" in page.url and "temperature=0.8" in page.url


# ── the embedded model ──


@pytest.mark.slow
@pytest.mark.usefixtures("real_folder")
def test_embedded_model_agrees_with_the_served_engine(tmp_path_factory, open_page):
    """`tab_agreement.py` compares 48 prompts, this test one."""
    engine = load_engine(PAIR, precision="fp32")
    with serving_site(site(tmp_path_factory, PAIR)) as server:
        page = open_page(f"{server.url}/check_server.py", fresh=True)
        results = list(compare(page, f"{server.url}/engine/weights.gguf", engine, configs_of(1, 24)))
    assert len(results) == 2 and max(difference for _, difference in results) < LARGEST_DIFFERENCE
    assert not all(parted for parted, _ in results)

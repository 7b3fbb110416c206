"""The engine in a tab, in a real browser, on a tiny model and on the embedded one."""

import json
import re
import shutil

import pytest
from page_actions import violations
from paths import ASSETS
from playwright.sync_api import Page, expect
from real_model import PAIR
from tab_agreement import LARGEST_DIFFERENCE, compare, configs_of, decisions, largest_difference
from tab_site import KEPT, fill, open_run, press_run, run, saved, serving_site

from app.tab.package import BESIDE, browser_engine
from app.views import player_feed
from engine.config import RunConfig
from engine.runtime.engine import load_engine
from engine.trace.branch import config_of
from engine.trace.events import Candidate, Distribution, PromptToken, Round, RunFinished, RunStarted, Timings, Token
from engine.trace.trace import fold, from_json, to_json

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("tab-page")]


@pytest.fixture
def visit(open_page):
    return lambda server, query="", **options: open_page(f"{server.url}/tab.html{query}", fresh=True, **options)


@pytest.fixture(scope="module")
def engine(tiny_tab_pair):
    return load_engine(tiny_tab_pair, precision="fp32")


@pytest.mark.slow
def test_first_visit_downloads_once_the_second_nothing_until_it_is_deleted(server, visit):
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
    page.wait_for_function(KEPT)
    page.get_by_role("button", name="Delete the model").click()
    expect(cost).to_contain_text("The first Run downloads the model")
    assert page.evaluate("caches.keys()") == []
    page.reload()
    expect(cost).to_contain_text("The first Run downloads the model")
    assert page.evaluate("navigator.serviceWorker.controller") is None


@pytest.mark.parametrize(("temperature", "method", "gamma"), [
    (0.25, "ngram", 3), *(pytest.param(*case, marks=pytest.mark.slow)
                         for case in ((0.25, "ngram", "auto"), (0, "ngram", 3), (1.0, "none", 3))),
])  # fmt: skip
def test_tab_writes_the_tokens_and_numbers_of_the_engine(tab, engine, temperature, method, gamma):
    """The engine repeats the lengths that the tab chose if γ = auto."""
    run(tab, temperature=temperature, method=method, seed=11, gamma=gamma)
    texts = [saved(tab)] + ([saved(tab, "Save its baseline")] if method != "none" else [])
    for text in texts:
        ours = from_json(text)
        theirs = fold(engine.run(config_of(ours), gammas=[r.gamma for r in ours.rounds]))
        assert ours.started.prompt == theirs.started.prompt
        assert decisions(ours) == decisions(theirs)
        assert (ours.finished.reason, ours.finished.text) == (theirs.finished.reason, theirs.finished.text)
        assert largest_difference(ours, theirs) < LARGEST_DIFFERENCE
        assert [r.draft_steps for r in ours.rounds] == [r.draft_steps for r in theirs.rounds]
        assert (ours.started.weights, ours.started.draft_dtype) == (theirs.started.weights, theirs.started.draft_dtype)
    assert ours.started.device == "browser tab, WASM, 1 thread"
    statuses = {token.status for r in from_json(texts[0]).rounds for token in r.tokens}
    at_work = {"rejected", "resampled"} if gamma == "auto" else {"accepted", "rejected", "resampled", "discarded"}
    assert method == "none" or statuses >= at_work  # with auto few drafts are worth it, because the weights are random


@pytest.mark.slow
def test_saved_trace_has_the_fields_of_the_events(tab):
    run(tab, temperature=0.8)
    data = json.loads(saved(tab))
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
    assert set(data["started"]["config"]) == set(RunConfig("x").as_dict())
    assert player_feed.replay("file", trace, None)  # the served page draws it
    open_run(tab, json.dumps(data))
    expect(tab.locator(".sl-words")).to_have_text("Opened run.json.")
    expect(tab.locator(".sl-place")).to_contain_text(f"of {len(trace.rounds)}")
    expect(tab.locator("#stage")).to_contain_text("recorded without a complete baseline")
    open_run(tab, "{}", "other.json")
    expect(tab.locator(".sl-alert")).to_contain_text("not a run that this page can open")
    tab.locator(".sl-tab-open input").set_input_files(ASSETS / "data" / "traces" / "opening.json")
    expect(tab.locator(".sl-alert")).to_contain_text("Open this one on the served page.")
    expect(tab.locator(".sl-list .sl-token")).to_have_count(0)


# A person cannot press within the tenth of a second that the tiny model takes.
STOP_AT_THE_FIRST_ROUND = """() => {
    const player = document.querySelector('.sl-player'), stop = document.querySelector('[data-tab=stop]');
    new MutationObserver((_, observer) => {
        if (!(player.dataset.rounds > 0) || stop.disabled || player.dataset.kind !== 'running') return;
        observer.disconnect();
        stop.click();
    }).observe(player, { attributes: true });
}"""


@pytest.mark.slow
def test_stop_ends_a_run_within_a_round_and_the_next_one_runs(tab):
    fill(tab, method="none", max_new_tokens=256)
    tab.evaluate(STOP_AT_THE_FIRST_ROUND)
    press_run(tab)
    expect(tab.locator(".sl-words")).to_have_text("Stopped.")
    trace = from_json(saved(tab))
    assert trace.finished.reason == "cancelled" and 0 < len(trace.rounds) < 128
    run(tab, max_new_tokens=8)
    assert from_json(saved(tab)).finished.reason != "cancelled"


def test_wrong_file_is_refused_and_a_stop_ends_the_download(server, visit):
    page = visit(server)
    fill(page)
    for fault, sentence in (("changed", "its SHA-256 differs"), ("cut", "was interrupted|is incomplete")):
        server.faults["/engine/weights.gguf"] = fault
        press_run(page)
        expect(page.locator(".sl-alert")).to_have_text(re.compile(sentence))
        assert page.evaluate("caches.open('speclens-weights').then(store => store.keys())") == []
    server.faults["/engine/weights.gguf"] = "slow"
    press_run(page)
    expect(page.locator(".sl-words")).to_contain_text("Downloading the model")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".sl-words")).to_have_text("Stopped.")
    server.faults.clear()
    run(page)
    assert server.asked.count("/engine/weights.gguf") == 4


@pytest.mark.slow
def test_only_the_newest_model_stays_and_a_damaged_one_comes_again(server, visit):
    page = visit(server)
    store = "const store = await caches.open('speclens-weights');"
    for _ in range(2):  # beside a download, and beside the stored model
        page.evaluate(f"async () => {{ {store} await store.put('https://weights.invalid/old', new Response('x')); }}")
        run(page)
        keys = page.evaluate(f"async () => {{ {store} return (await store.keys()).map(key => key.url); }}")
        assert len(keys) == 1 and "old" not in keys[0]
        page.reload()
    assert server.asked.count("/engine/weights.gguf") == 1
    page.evaluate(f"async key => {{ {store} await store.put(key, new Response(new Uint8Array(100))); }}", keys[0])
    run(page)
    assert server.asked.count("/engine/weights.gguf") == 2


@pytest.mark.slow
@pytest.mark.parametrize("isolated", [False, True])
def test_second_visit_runs_without_a_network(tiny_site, visit, isolated):
    with serving_site(tiny_site, isolated) as server:
        page = visit(server)
        run(page)
        first = from_json(saved(page))
        page.wait_for_function(KEPT)
    page.goto(f"{page.url}?seed=5")  # nothing answers there any more
    expect(page.locator(".sl-tab-cost")).to_contain_text("Run downloads nothing, and needs no network.")
    assert page.evaluate("crossOriginIsolated") is isolated and page.locator("[name=seed]").input_value() == "5"
    run(page)
    assert decisions(from_json(saved(page))) == decisions(first)


@pytest.mark.slow
def test_newer_site_takes_the_place_of_the_kept_one(tiny_site, visit, tmp_path):
    site = shutil.copytree(tiny_site, tmp_path / "site")
    with serving_site(site) as server:
        page = visit(server)
        run(page)
        page.wait_for_function(KEPT)
        for name, old, new in (
            ("tab.html", '<h2 id="tab-title', '<h2 data-new id="tab-title'),
            ("service_worker.js", 'serve("', 'serve("new'),
        ):
            text = (site / name).read_text(encoding="utf-8")
            assert text.count(old) == 1
            (site / name).write_text(text.replace(old, new), encoding="utf-8")
        page.reload()
        expect(page.locator("[data-new]")).to_have_count(0)  # the kept page, while the newer one is stored
        page.wait_for_function("navigator.serviceWorker.getRegistration().then(({ waiting }) => waiting)")
        for _ in range(20):  # the browser lets the older one go some time after its last page
            page.goto("about:blank")
            page.wait_for_timeout(2000)  # with less, a page came before it had let go
            page.goto(f"{server.url}/tab.html")
            if page.locator("[data-new]").count():
                break
        expect(page.locator("[data-new]")).to_have_count(1)
        page.wait_for_function("caches.keys().then(names => names.filter(name => /engine/.test(name)).length === 1)")
        run(page)


@pytest.mark.slow
def test_reload_ends_a_run_and_the_next_one_runs(tab):
    tab.reload()
    fill(tab, method="none", max_new_tokens=256)
    press_run(tab)
    expect(tab.locator(".sl-list .sl-token").first).to_be_visible()
    tab.reload()
    expect(tab.locator(".sl-list .sl-token")).to_have_count(0)
    run(tab, max_new_tokens=8)
    assert from_json(saved(tab)).finished.reason == "length"


def change_worker(page: Page, script: str) -> None:
    """Runs a script in the worker before its own."""

    def answer(route):
        route.fulfill(response=(response := route.fetch()), body=f"{script}\n{response.text()}")

    page.route("**/engine/worker.js", answer)
    page.reload()


STORAGE = {
    "QuotaExceededError": ["Cache.prototype.put"],
    "SecurityError": ["CacheStorage.prototype.open", "CacheStorage.prototype.delete"],
}


@pytest.mark.slow
def test_full_or_blocked_storage_is_said_and_the_run_goes_on(server, visit):
    page = visit(server, service_workers="block")
    for fault, names in STORAGE.items():
        failing = f"() => Promise.reject(new DOMException('', '{fault}'));"
        change_worker(page, " ".join(f"{each} = {failing}" for each in names))
        run(page)
        expect(page.locator(".sl-words")).to_contain_text("could not keep the file")


@pytest.mark.slow
def test_engine_that_does_not_start_is_said_before_a_run(server, visit):
    page = visit(server)
    change_worker(page, "throw new Error();")
    expect(page.locator(".sl-alert")).to_contain_text("The engine could not be started. Reload the page.")


@pytest.mark.slow
def test_too_long_prompt_costs_no_download_and_no_engine(server, visit):
    page = visit(server, service_workers="block")
    graph = lambda: server.asked.count("/engine/graph.onnx.gz")  # noqa: E731
    for count in (0, 1):
        fill(page, prompt="7 " * 2000)
        press_run(page)
        expect(page.locator(".sl-alert")).to_contain_text("up to 700 fit here")
        expect(page.get_by_role("button", name="Run", exact=True)).to_be_enabled()
        assert graph() == server.asked.count("/engine/weights.gguf") == count
        run(page)
    assert graph() == 1


@pytest.mark.slow
def test_model_is_deleted_after_a_stop_while_it_loads(server, visit):
    page = visit(server, service_workers="block")
    run(page)
    page.reload()
    server.faults["/engine/graph.onnx.gz"] = "slow"
    fill(page)
    press_run(page)
    expect(page.locator(".sl-words")).to_contain_text("Getting the engine")
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("button", name="Delete the model").click()
    expect(page.locator(".sl-tab-cost")).to_contain_text("The first Run downloads the model")
    server.faults.clear()


@pytest.mark.slow
@pytest.mark.parametrize(("isolated", "threads"), [(True, {4: "3 threads", 2: "1 thread"}), (False, {4: "1 thread"})])
def test_threads_are_used_where_the_page_is_isolated(tiny_site, visit, engine, isolated, threads):
    with serving_site(tiny_site, isolated) as server:
        page = visit(server, service_workers="block")  # else the second worker would be the first one, kept
        for cores, words in threads.items():
            change_worker(page, f"Object.defineProperty(navigator, 'hardwareConcurrency', {{ value: {cores} }});")
            assert page.evaluate("crossOriginIsolated") is isolated
            run(page, temperature=0.8, seed=3)
            ours = from_json(saved(page))
            assert ours.started.device == f"browser tab, WASM, {words}"
            assert decisions(ours) == decisions(fold(engine.run(config_of(ours))))


TOLD = [  # settings of a link, the values in the form, and the note
    ("method=block&auto=1&gamma=7&top_k=5", {"method": "ngram", "gamma": "auto"},
     "This tab can’t take over everything: block head (n-gram lookup instead), Top-k."),
    ("method=lookahead&tokens=900&auto=0&gamma=25", {"method": "ngram", "max_new_tokens": "256", "gamma": "16"},
     "This tab can’t take over everything: lookahead (n-gram lookup instead), New tokens 900 (256 instead), "
     "Draft length γ 25 (16 instead)."),
    ("method=none&auto=0&gamma=25&precision=fp32", {"method": "none", "gamma": "16"}, ""),
    ("method=constructor&seed=x&auto=0&gamma=", {"method": "ngram", "seed": "0", "gamma": "auto"}, ""),
    ("auto=0&gamma=0", {"gamma": "1"}, "This tab can’t take over everything: Draft length γ 0 (1 instead)."),
    ("auto=0&gamma=-2.5", {"gamma": "1"}, "This tab can’t take over everything: Draft length γ -2.5 (1 instead)."),
    ("seed=1&seed=2&auto=1&auto=0&gamma=3&gamma=9", {"seed": "2", "gamma": "9"}, ""),
    ("auto=1&gamma=0", {"gamma": "auto"}, ""), ("auto=0&gamma=x", {"gamma": "auto"}, ""),
    *((f"seed={seed}", {"seed": str(2**53 - 1)},
       f"This tab can’t take over everything: Seed {seed} ({2**53 - 1} instead).") for seed in (2**53 + 1, 2**63 - 1)),
]  # fmt: skip


@pytest.mark.slow
def test_settings_that_the_tab_has_not_are_said(server, visit):
    page = visit(server)
    for settings, values, note in TOLD:
        page.goto("about:blank")
        page.goto(f"{server.url}/tab.html#{settings}")
        for name, value in values.items():
            expect(page.locator(f"[name={name}]")).to_have_value(value)
        expect(page.locator(".sl-tab-note")).to_have_text(note)


@pytest.mark.slow
def test_link_carries_the_settings_of_the_served_page(server, visit):
    page = visit(server, "?prompt=hello+there&auto=0&gamma=7&temperature=0.8&seed=5&tokens=12&method=eagle")
    expected = {"prompt": "hello there", "gamma": "7", "seed": "5", "max_new_tokens": "12", "method": "ngram"}
    assert {name: page.locator(f"[name={name}]").input_value() for name in expected} == expected
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error()); }")
    page.clock.install()
    page.get_by_role("button", name="Copy a link").click()
    expect(page.get_by_role("button", name="The link is in the address bar")).to_be_visible()
    assert "prompt=hello+there" in page.url and "temperature=0.8" in page.url and "tokens=12" in page.url
    page.clock.fast_forward(5000)
    page.evaluate("() => { history.replaceState = () => { throw new DOMException('more than 100 times'); }; }")
    page.get_by_role("button", name="Copy a link").click()
    expect(page.get_by_role("button", name="Not allowed here")).to_be_visible()
    page.clock.fast_forward(5000)
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.resolve(); }")
    page.get_by_role("button", name="Copy a link").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()


# ── the embedded model ──


@pytest.mark.slow
@pytest.mark.usefixtures("real_folder")
def test_embedded_model_agrees_with_the_served_engine(tiny_site, tmp_path, open_page):
    """`tab_agreement.py` compares 48 prompts, this test one; its site has the embedded model in place of the tiny."""
    engine, site = load_engine(PAIR, precision="fp32"), shutil.copytree(tiny_site, tmp_path / "site")
    embedded = browser_engine(PAIR, "beside")
    for name, content in embedded.files.items():
        (site / name).write_bytes(content)
    shutil.copyfile(embedded.weights, site / BESIDE)
    with serving_site(site) as server:
        page = open_page(f"{server.url}/check_server.py", fresh=True)
        results = list(compare(page, f"{server.url}/engine/weights.gguf", engine, configs_of(1, 8)))
    assert len(results) == 2 and max(difference for _, difference in results) < LARGEST_DIFFERENCE
    assert not all(parted for parted, _ in results)

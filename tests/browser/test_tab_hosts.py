"""The engine in a tab works on hosts and in browsers of many kinds, or says in a sentence why it does not."""

import json
import re
import shutil

import pytest
from fake_worker import wait_for
from playwright.sync_api import expect
from tab_site import KEPT, fill, open_run, press_run, run, saved, serving_site

from engine.trace.trace import from_json

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("tab-page")]
PACKED = ("/engine/model.json.gz", "/engine/graph.onnx.gz", "/engine/ort.wasm.gz")
SHORT = {"method": "none", "max_new_tokens": 8}


@pytest.fixture
def visit(open_page):
    return lambda server, path="/tab.html", **options: open_page(f"{server.url}{path}", fresh=True, **options)


def expect_refusal(page, words: str) -> None:
    expect(page.locator(".sl-alert")).to_contain_text(words)
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_enabled()
    expect(page.get_by_role("button", name="Stop")).to_be_disabled()


# ── hosts ──


@pytest.mark.parametrize("fault", ["encoding", pytest.param("unpacked", marks=pytest.mark.slow)])
def test_files_may_come_unpacked(server, visit, fault):
    server.faults = dict.fromkeys(PACKED, fault)
    run(visit(server), **SHORT)


@pytest.mark.slow
def test_part_of_the_site_that_is_another_file_is_named(server, visit):
    page = visit(server)
    fill(page)
    for fault, words in (("page", "host sends a page in place of {}."), ("cut", "{} arrived damaged.")):
        server.faults[PACKED[0]] = fault
        press_run(page)
        expect_refusal(page, words.format("model.json.gz"))
    server.faults.clear()
    run(page, **SHORT)


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/tab/index.html", "/tab.html?utm_source=x#tab-title", "/a/b/tab/"])
def test_address_may_be_written_in_another_way(tiny_site, tmp_path, visit, path):
    site = shutil.copytree(tiny_site, tmp_path / "site")
    shutil.copytree(tiny_site, site / "a" / "b")
    with serving_site(site) as server:
        base = path.rpartition("/tab")[0]
        server.aliases = {path: f"{base}/tab.html"} if "html?" not in path else {}
        page = visit(server, path)
        run(page, **SHORT)
        page.wait_for_function(KEPT)
        page.get_by_role("button", name="Delete the model").click()
        expect(page.locator(".sl-tab-cost")).to_contain_text("The first Run downloads the model")
        page.get_by_role("link", name="Theory").click()
        expect(page).to_have_url(f"{server.url}{base}/theory.html")


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/tab", "/tab/"])
def test_page_that_the_host_has_moved_opens_without_a_network(tiny_site, visit, path):
    with serving_site(tiny_site) as server:
        server.aliases, server.moved = {path: "/tab.html"}, {"/tab.html": path}
        page = visit(server)
        run(page, **SHORT)
        page.wait_for_function(KEPT)
    page.goto(f"{page.url}?seed=5")  # nothing answers there any more
    expect(page.locator("[name=seed]")).to_have_value("5")
    run(page, **SHORT)


@pytest.mark.slow
def test_page_behind_another_redirect_is_not_kept(tiny_site, visit):
    with serving_site(tiny_site) as server:
        page = visit(server)
        server.moved = {"/engine/LICENSE-onnxruntime-web.txt": "/index.html"}  # as a network asks for a login
        run(page, **SHORT)
        wait_for(lambda: "/index.html" in server.asked)
        page.wait_for_function("navigator.serviceWorker.getRegistration().then(each => !each?.installing)")
        assert page.evaluate("navigator.serviceWorker.getRegistration().then(each => each?.active ?? null)") is None


@pytest.mark.slow
def test_plain_http_of_another_machine_is_refused_with_the_reason(server, browser, tab):
    run(tab, **SHORT)
    text, page = saved(tab), browser.new_page()
    page.route("http://class.test/**", lambda route: route.fulfill(
        response=route.fetch(url=route.request.url.replace("http://class.test", server.url))
    ))  # fmt: skip
    page.goto("http://class.test/tab.html")
    assert not page.evaluate("isSecureContext")
    fill(page)
    press_run(page)
    expect_refusal(page, "Open this page over https.")
    open_run(page, text)
    expect(page.locator(".sl-words")).to_have_text("Opened run.json.")
    page.get_by_role("button", name="Copy a link").click()
    expect(page.get_by_role("button", name="The link is in the address bar")).to_be_visible()
    page.close()


# ── frames ──


@pytest.mark.parametrize("rights", [
    "allow-scripts allow-forms", *(pytest.param(rights, marks=pytest.mark.slow)
                                   for rights in ("allow-scripts", "allow-scripts allow-same-origin")),
])  # fmt: skip
def test_frame_without_rights_says_so_and_stays_usable(server, visit, rights):
    outer = visit(server, "/check_server.py")
    outer.set_content(f'<iframe sandbox="{rights}" src="{server.url}/tab.html" width="900" height="900"></iframe>')
    frame = outer.frame_locator("iframe")
    expect(frame.locator(".sl-tab-cost")).not_to_be_empty()
    fill(frame, **SHORT)
    press_run(frame)
    if "same-origin" in rights:
        expect(frame.locator(".sl-words")).to_contain_text("Done.")
        return
    expect_refusal(frame, "Open it in a tab of its own.")
    frame.get_by_role("button", name="Copy a link").click()
    expect(frame.get_by_role("button", name="Not allowed in this frame")).to_be_visible()


@pytest.mark.slow
@pytest.mark.parametrize(("change", "words"), [
    *((f"delete globalThis.{part}", f"has no {part}") for part in ("WebAssembly", "DecompressionStream", "Worker")),
    ("globalThis.Worker = class { constructor() { throw new DOMException('', 'SecurityError'); } }",
     "doesn’t let the page start the engine"),
])  # fmt: skip
def test_browser_without_a_part_or_a_right_is_told_which(server, visit, change, words):
    page = visit(server, init_script=change)
    fill(page)
    press_run(page)
    expect_refusal(page, words)


# ── translation ──

# What a browser's translation does: it puts elements around each text that it may change.
TRANSLATE = """() => {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), texts = [];
    while (walker.nextNode()) texts.push(walker.currentNode);
    const isOpen = each => each.data.trim() && !each.parentElement.closest('[translate=no], script');
    for (const text of texts.filter(isOpen)) {
        const font = document.createElement('font');
        font.textContent = `x${text.data}`;
        text.replaceWith(font);
    }
}"""


@pytest.mark.slow
def test_translation_leaves_words_and_numbers_of_a_run_alone(server, visit):
    page = visit(server)
    run(page, max_new_tokens=20)
    page.locator(".sl-list .sl-token").first.click()
    names = (".sl-list .sl-token", ".sl-tile", ".sl-text", ".sl-candidate-table", ".sl-place")
    untouched = {name: page.locator(name).all_text_contents() for name in names}
    assert all(any(texts) for texts in untouched.values())
    page.evaluate(TRANSLATE)
    assert {name: page.locator(name).all_text_contents() for name in untouched} == untouched
    assert page.locator("#tab-title").text_content() == "xRun it here"
    fill(page, max_new_tokens=12, gamma="auto")  # the player goes on in a page that was translated
    page.locator(".sl-tab-run").click()
    expect(page.locator(".sl-tab-run")).to_be_enabled()
    assert page.locator(".sl-list .sl-token font").count() == 0 < page.locator(".sl-list .sl-token").count()
    assert from_json(saved(page, re.compile("Save the run"))).started.config["gamma"] == "auto"


# ── buttons during a run ──

SLOW_FILE = "() => { File.prototype.text = () => new Promise(done => { window.endRead = done; }); }"
# At once, because the tiny model takes a tenth of a second.
RUN_AND_END_READING = """([text, names]) => {
    document.querySelector('.sl-tab-run').click();
    delete File.prototype.text;
    window.endRead(text);
    return names.map(name => document.querySelector(name).disabled);
}"""


@pytest.mark.slow
def test_run_that_starts_while_a_file_is_read_keeps_its_own_rounds(tab):
    run(tab, **SHORT)
    other = saved(tab)
    tab.evaluate(SLOW_FILE)
    open_run(tab, other)
    fill(tab, method="none", seed=5)
    names = [".sl-tab-open input", "[data-tab=remove]", ".sl-tab-run"]
    assert tab.evaluate(RUN_AND_END_READING, [other, [*names, "[data-tab=save]"]]) == [True] * 4
    expect(tab.locator(".sl-words")).to_contain_text("Done.")
    trace = from_json(saved(tab))
    assert trace.started.config["seed"] == 5 and [each.index for each in trace.rounds] == [*range(len(trace.rounds))]
    for name in names:
        expect(tab.locator(name)).to_be_enabled()


@pytest.mark.slow
def test_file_that_cannot_be_opened_leaves_nothing_to_save(tab):
    run(tab, **SHORT)
    unsafe = json.loads(saved(tab))
    unsafe["started"]["config"]["seed"] = 2**53 + 1
    for text, words in (("{", "not a run"), ("{}", "not a run"), (json.dumps(unsafe), "on the served page")):
        open_run(tab, text)
        expect_refusal(tab, words)
        expect(tab.get_by_role("button", name="Save the run")).to_be_disabled()
        run(tab, **SHORT)
        expect(tab.get_by_role("button", name="Save the run")).to_be_enabled()


# ── prompts ──


@pytest.mark.slow
def test_prompt_without_tokens_is_refused_and_a_lack_noted(tab):
    fill(tab)
    half = "document.querySelector('[name=prompt]').value = 'half \\ud83d'"
    for prompt, words in (("\x13", "has no tokens for any character of the prompt (U+0013)"),
                          ("\x1c\x1f", "The prompt is empty"), (None, "half of a character")):  # fmt: skip
        tab.evaluate(half) if prompt is None else tab.locator("[name=prompt]").fill(prompt)
        press_run(tab)
        expect_refusal(tab, words)
    fill(tab, prompt="the\x13 robot", **SHORT)
    tab.locator("[name=seed]").press("Enter")
    expect(tab.locator(".sl-words")).to_have_text(re.compile(r"drops or changes U\+0013\.$"))
    text = saved(tab)
    assert from_json(text).notes[0].endswith("U+0013.")
    open_run(tab, text)
    expect(tab.locator(".sl-words")).to_contain_text("drops or changes U+0013")

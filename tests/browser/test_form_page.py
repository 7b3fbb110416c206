"""The controls, the engine's status, and what visitors see of each other, in a real browser on a fake engine."""

import re

import pytest
from page_actions import OVERFLOW, choose, fill, open_files, press_run, run, set_number, wait_for_end
from playwright.sync_api import expect

from engine.files import ASSETS

pytestmark = [pytest.mark.browser, pytest.mark.slow]
INSIDE = """names => names.map(name => document.getElementById(name).getBoundingClientRect())
  .every(box => box.left >= 0 && box.right <= innerWidth)"""
CUT_LINE = """node => (node.clientHeight - parseFloat(getComputedStyle(node).paddingTop))
  % parseFloat(getComputedStyle(node).lineHeight)"""  # pixels of a line below the last whole one


def test_a_page_asks_nothing_of_the_engine_while_a_model_is_being_loaded(open_page, fake_server):
    """Answering imports torch, which would hold up the load and every visitor who opens the page."""
    page = open_page("about:blank", fresh=True)
    state, looks, asked = {"kind": "loading", "text": "Loading the model"}, [], []

    def answer(route):
        looks.append(state["kind"])
        route.fulfill(json=state)

    def wait_for_looks(count: int) -> None:
        """The page asks for the state every two seconds; what it asks the engine comes right after an answer."""
        with page.expect_response(lambda response: len(looks) >= wanted and "/_state" in response.url):
            wanted = len(looks) + count

    page.route("**/_state", answer)
    page.on("request", lambda r: asked.append(r.url) if r.url.endswith("/run/predict") else None)
    page.home = fake_server
    page.goto(fake_server)
    expect(page.locator(".sl-engine-status-words")).to_have_text("Loading the model")
    wait_for_looks(1)
    assert asked == []
    with page.expect_request(lambda _: len(asked) == 2):
        state |= {"kind": "ready", "text": "Ready on CPU"}
    expect(page.locator(".sl-engine-status-words")).to_have_text("Ready on CPU")
    wait_for_looks(2)
    assert len(asked) == 2, "why this pair cannot run, and which cannot; once"
    for kind in ("loading", "ready"):
        state["kind"] = kind
        expect(page.locator(".sl-engine-status")).to_have_attribute("data-kind", kind)
    wait_for_looks(1)
    assert len(asked) == 2, "a later load changes nothing of it"


def test_reset_restores_settings_but_not_the_prompt(page):
    page.locator("#settings").click()
    page.locator("#auto input").uncheck()
    set_number(page, "temperature", 0.7)
    fill(page, system="Be brief.", prompt="Something else")
    page.get_by_label("raw text").check()
    seed = page.locator("#seed input")
    page.locator("#dice").click()
    expect(seed).not_to_have_value("0")
    page.locator("#reset").click()
    expect(seed).to_have_value("0")
    expect(page.locator("#temperature input[type=number]")).to_have_value("0")
    expect(page.locator("#system textarea")).to_have_value("")
    expect(page.locator("#prompt textarea")).to_have_value("Something else")  # the prompt stays
    expect(page.get_by_label("chat", exact=True)).to_be_checked()


def test_a_typed_prompt_comes_back_after_an_example_took_its_place(visit):
    page = visit()
    field, back = page.locator("#prompt textarea"), page.locator("#own-text")
    expect(back).to_be_hidden()
    page.get_by_role("button", name="Fact", exact=True).click()
    expect(field).not_to_have_value("")
    expect(back).to_be_hidden()  # nothing of the visitor's own was there
    field.fill("Why is the sky blue?")
    field.press("Escape")  # folded again, it covers no example
    page.get_by_role("button", name="Story", exact=True).click()
    expect(field).not_to_have_value("Why is the sky blue?")
    story = field.input_value()
    page.get_by_role("button", name="Code", exact=True).click()
    expect(field).not_to_have_value(story)  # no answer that is still on its way replaces the text
    back.click()
    expect(field).to_have_value("Why is the sky blue?")
    expect(back).to_be_hidden()
    field.press("Escape")
    page.get_by_role("button", name="Story", exact=True).click()
    expect(field).not_to_have_value("Why is the sky blue?")
    field.fill("Something newer")
    field.press("Escape")
    back.click()
    expect(field).to_have_value("Why is the sky blue?")
    back.click()  # the newer text is not lost
    expect(field).to_have_value("Something newer")
    back.click()
    open_files(page, ASSETS / "data" / "traces" / "opening.json")
    expect(field).not_to_have_value("Why is the sky blue?")
    back.click()
    page.reload()  # the page's prompt never ran
    back.click()
    expect(field).to_have_value("Why is the sky blue?")
    press_run(page)
    wait_for_end(page)
    expect(page).to_have_url(re.compile("prompt=Why"))
    page.reload()
    expect(field).to_have_value("Why is the sky blue?")
    expect(back).to_be_hidden()


def test_settings_of_one_method_show_only_with_it_or_with_a_link(visit):
    page = visit("?pair=thinker&method=lookahead&window=3&acceptance=typical&epsilon=0.2")
    page.locator("#settings").click()
    for name, value in {"window": "3", "ngram_size": "4", "guesses": "5", "epsilon": "0.2", "delta": "0.3"}.items():
        expect(page.locator(f"#{name} input[type=number]")).to_have_value(value)
    page.get_by_label("block verification").check()
    expect(page.locator("#epsilon")).to_be_hidden()
    expect(page.locator("#window")).to_be_visible()
    page.get_by_label("typical acceptance").check()
    choose(page, "method", re.compile("^n-gram"))
    expect(page.locator("#guesses")).to_be_hidden()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Share").click()
    expect(page.locator("#sl-share-link")).to_have_value(re.compile("^(?!.*window).*epsilon=0.2"))


def test_constraint_is_filled_in_checked_carried_and_reset(page):
    schema, note = page.locator("#json_schema textarea"), page.locator("#constraint-note .sl-pair-note")
    example = page.get_by_role("button", name="A person", exact=True)
    page.locator("#settings").click()
    expect(schema).to_be_hidden()
    example.click()
    expect(page.locator("#prompt textarea")).to_have_value(re.compile("in Lyon"))
    expect(page.locator("#compact_json input")).to_be_checked()
    for mend in (example.click, lambda: choose(page, "constraint", re.compile("^regular"))):
        schema.fill('{"type": ')
        page.locator("#seed input").focus()
        expect(note).to_contain_text("The JSON schema cannot be read as JSON")
        mend()
        expect(note).to_be_hidden()
    expect(schema).to_be_hidden()
    page.locator("#regex textarea").fill("[a-z ]+")
    page.keyboard.press("Escape")
    run(page, tokens="12")
    expect(page.locator('[data-tile="grammar"] .sl-number')).to_have_text("0 of 12")
    expect(page).to_have_url(re.compile("constraint=regex&regex=%5Ba-z"))
    page.locator("#settings").click()
    page.locator("#reset").click()
    expect(page.locator("#constraint input")).to_have_value("none: any text")
    expect(page.locator("#regex")).to_be_hidden()


def test_a_cost_that_a_run_has_measured_stands_in_the_list_of_methods(page, fake):
    for c in (0.42, 0.31):
        fake(c=c)
        run(page, tokens="12")
        page.locator("#method input").click()
        expect(page.get_by_role("option", name=f"c = {c} plain steps a draft")).to_be_visible()
        page.keyboard.press("Escape")


def test_form_is_clipped_at_no_width_and_a_closed_drawer_takes_no_focus(page):
    run(page, tokens="40")
    names = "prompt pair method gamma temperature seed tokens form system top_k top_p min_p repetition_penalty"
    for width in (320, 390, 1280, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(f"{OVERFLOW} <= 0")
        assert page.locator("#prompt textarea").evaluate(CUT_LINE) < 5, "the prompt shows no part of a line"
        page.locator("#settings").click()
        for name in names.split():
            expect(page.locator(f"#{name}")).to_be_visible()
        page.wait_for_function(INSIDE, arg=names.split())
        page.wait_for_function(f"{OVERFLOW} <= 0")
        page.keyboard.press("Escape")
        expect(page.locator("#settings")).to_be_focused()
        expect(page.locator("#seed")).to_be_hidden()


def test_a_model_of_ones_own_in_two_clicks(page):
    fill(page, prompt="Hello", tokens="12")
    page.locator("#settings").click()
    field, note = page.locator("#own-name").get_by_role("textbox"), page.locator("#own-note .sl-pair-note")
    field.fill("us/none")
    page.locator("#own-check").click()
    expect(note).to_have_text("The hub has no public repository us/none.")
    field.fill("us/large")
    page.locator("#own-check").click()
    expect(note).to_contain_text("It runs here, in int8 or int4. Choose the precision int8, then press Run.")
    expect(page.locator("#pair input")).to_have_value("us/large (of the hub)")
    press_run(page)
    wait_for_end(page)
    expect(page.locator("#stage")).to_contain_text("us/large")


def test_pair_reports_why_it_cannot_run_and_brings_its_methods(visit):
    page = visit()
    note, name = page.locator(".sl-pair-note").first, page.locator(".sl-pair-name").first
    page.locator("#settings").click()
    choose(page, "pair", "A model too large")
    expect(note).to_contain_text("needs about 900 GB")
    page.locator("#run").click()
    expect(page.get_by_role("alert").filter(has_text="900 GB")).to_be_visible()
    expect(page.locator("#thinking")).to_be_hidden()
    choose(page, "method", "draft model")
    choose(page, "pair", "A model that thinks")
    expect(note).to_contain_text("downloads about 2.4 GB")
    expect(page.locator("#thinking")).to_be_visible()
    expect(page.locator("#method input")).to_have_value(re.compile("^auto"))
    expect(name).to_be_hidden()
    page.locator("#pair input").evaluate("node => { node.style.width = '90px'; node.style.flex = 'none'; }")
    page.set_viewport_size({"width": 390, "height": 844})  # the field cuts it short now
    expect(name).to_have_text("A model that thinks")
    expect(name).to_be_visible()

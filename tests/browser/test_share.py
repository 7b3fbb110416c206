"""Links and presentation in a real browser: a link fills the controls and never runs, a run writes the address."""

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from page_actions import OVERFLOW, fill, press_run, text_of, wait_for_end
from playwright.sync_api import Page, expect

from app.form import NAMES
from engine.trace.noise import Speedup
from engine.trace.speedup_words import speedup_verdict

pytestmark = [pytest.mark.browser, pytest.mark.slow]
HOSTILE = (
    "</textarea><script>window.pwned=1</script><img src=x onerror=window.pwned=2> {{1+1}} ${window.pwned=3} &seed=5#x"
)
CLIPBOARD = {"permissions": ["clipboard-read", "clipboard-write"]}


def query(page: Page) -> dict[str, str]:
    """The address bar's query."""
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def copied(page: Page) -> str:
    page.locator("[data-share=copy]").click()
    expect(page.locator(".sl-share-said")).to_have_text("Copied.")
    link = page.evaluate("navigator.clipboard.readText()")
    assert link == page.locator("#sl-share-link").input_value()
    return link


def test_a_run_writes_the_address_and_the_address_makes_the_run_again(visit, fake_server):
    page = visit()
    assert query(page) == {}
    page.locator("#prompt textarea").fill(HOSTILE)
    fill(page, tokens="30", seed="7")
    press_run(page)
    wait_for_end(page)
    expect(page).to_have_url(re.compile("tokens=30"))
    text = text_of(page)
    found = query(page)
    assert found["prompt"] == HOSTILE and found["seed"] == "7" and "temperature" not in found
    link = page.url
    page.goto(f"{fake_server}/?prompt=Of+a+link")  # another link in the tab of a run
    expect(page.locator("#stage-notice")).to_contain_text("press Run")
    page.goto(link)
    expect(page.locator("#stage-notice")).to_contain_text("press Run")
    for name, value in (("prompt", HOSTILE), ("tokens", "30"), ("seed", "7")):
        expect(page.locator(f"#{name} :is(textarea, input)").first).to_have_value(value)
    expect(page.locator("#stage .sl-row")).to_have_count(0)  # nothing has run
    page.locator("#run").click()
    expect(page.locator(".sl-text")).to_have_text(text)
    expect(page).to_have_url(link)


def test_the_dialog_copies_a_link_that_hides_and_presents(visit):
    page = visit(**CLIPBOARD)
    dialog = page.get_by_role("dialog", name="Share this page")
    page.locator("#prompt textarea").fill("A class's prompt")
    page.locator("[data-share=open]").click()
    plain = copied(page)
    assert "prompt=A+class%27s+prompt" in plain and "revision=" in plain and "hide" not in plain
    dialog.locator("summary").first.click()
    for name in ("Seed", "Temperature"):
        dialog.get_by_label(name, exact=True).check()
    dialog.get_by_label("Open in presentation mode").check()
    link = copied(page)
    expect(dialog).to_contain_text("Only this computer can open this address.")
    page.get_by_role("button", name="Hide all but the prompt").click()
    assert copied(page).endswith("&only=prompt&present=1")
    ticks = dialog.locator("[name=hide]")
    assert ticks.count() == len(NAMES) == dialog.locator("[name=hide]:checked").count() + 1
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert link.endswith("&hide=temperature,seed&present=1")
    classroom = visit("?" + urlsplit(link).query)
    expect(classroom.locator("#prompt textarea")).to_have_value("A class's prompt")
    expect(classroom.locator("body")).to_have_class(re.compile("sl-present"))
    classroom.keyboard.press("p")
    expect(classroom.locator("body")).not_to_have_class(re.compile("sl-present"))
    for gone in ("#seed", "#temperature", "#dice", "#reset", ".sl-examples button", "#open-trace"):
        expect(classroom.locator(gone).first).to_be_hidden()
    press_run(classroom)
    wait_for_end(classroom)
    expect(classroom).to_have_url(re.compile(r"hide=temperature,seed&present=1$"))
    classroom.locator("[data-share=open]").click()
    classroom.get_by_role("button", name="Show all controls here").click()
    classroom.locator("[data-share=close]").click()
    classroom.locator("#settings").click()
    expect(classroom.locator("#seed")).to_be_visible()


@pytest.mark.slow
@pytest.mark.parametrize("query", ["only=prompt", f"hide={','.join(name for name in NAMES if name != 'prompt')}"])
def test_a_link_that_leaves_only_the_prompt_has_no_empty_drawer(visit, query):
    page = visit(f"?{query}")
    expect(page.locator("#prompt textarea")).to_be_visible()
    for gone in ("#settings", "#method", ".sl-examples button"):
        expect(page.locator(gone).first).to_be_hidden()


def test_a_class_link_hides_at_once_and_ticks_in_view_come_first(visit):
    page, held = visit(), []
    page.route("**/gradio_api/run/predict*", lambda route: held.append(route))  # the server never answers
    page.goto(f"{page.url}?hide=temperature,seed")
    expect(page.locator("#prompt textarea")).to_be_visible()
    page.locator("#settings").click()
    expect(page.locator("#tokens")).to_be_visible()
    expect(page.locator("#seed")).to_be_hidden()
    expect(page.locator("#temperature")).to_be_hidden()
    page.evaluate("document.querySelector('[data-share=open]').click()")
    page.locator(".sl-share summary").first.click()
    shown, rest = page.locator(".sl-share-ticks").all()
    for name in ("Method", "Seed", "Temperature"):
        expect(shown.get_by_label(name, exact=True)).to_be_visible()
    expect(shown.get_by_label("Seed", exact=True)).to_be_checked()
    expect(rest.locator("input").first).to_be_hidden()
    assert shown.locator("input").count() + rest.locator("input").count() == len(NAMES)
    assert "regex" in rest.locator("input").evaluate_all("ticks => ticks.map(tick => tick.value)")


def test_a_lesson_leaves_the_settings_of_a_class_link_alone(visit):
    page = visit("?prompt=Of+the+class&hide=prompt,temperature#lesson-memory_wall")
    expect(page.locator("#sl-lesson-title")).to_be_visible()
    page.locator(".sl-dot").nth(-2).click()  # the step that a visitor would run
    expect(page.locator(".sl-lesson-turn")).to_contain_text("This page’s link keeps its settings")
    expect(page.locator("[data-lesson=live]")).to_be_hidden()
    expect(page.locator("[data-lesson=next]")).to_have_text("Next")
    expect(page.locator(".sl-lesson-teacher")).to_be_hidden()
    page.get_by_role("tab", name="Playground").click()
    expect(page.locator("#stage-notice")).to_contain_text("Nothing has run yet: press Run.")
    assert page.locator("#prompt textarea").input_value() == "Of the class"


def test_a_link_made_in_a_lesson_opens_the_lesson(visit):
    page = visit("?prompt=Of+the+class#lesson-memory_wall", **CLIPBOARD)
    page.locator("[data-share=open]").click()
    expect(page.locator(".sl-share")).to_contain_text("The link opens what is open here")
    expect(page.locator(".sl-share-warning")).to_be_hidden()
    page.locator(".sl-share summary").first.click()
    page.get_by_role("button", name="Hide all but the prompt").click()
    link = urlsplit(copied(page))
    assert (link.query, link.fragment) == ("only=prompt", "lesson-memory_wall")
    student = visit(f"?{link.query}#{link.fragment}")
    expect(student.locator("#sl-lesson-title")).to_contain_text("1. ")
    student.get_by_role("button", name="All lessons").click()
    expect(student.locator(".sl-lesson-card").first).to_be_visible()
    expect(student.locator(".sl-lesson-papers")).to_be_hidden()


@pytest.mark.parametrize("query", ["only=prompt", "hide=seed"])
def test_a_class_link_shows_no_key_and_nothing_for_teachers(visit, query):
    page = visit(f"?{query}#practice-4711-ceiling")
    sheet = page.get_by_role("link", name="Print this sheet")
    expect(sheet).to_have_attribute("href", re.compile(r"practice\?only#4711$"))
    href = sheet.get_attribute("href")
    expect(page.get_by_role("link", name="Print it with the key")).to_have_count(0)
    page.evaluate("document.querySelector('[data-share=open]').click()")
    page.get_by_role("button", name="Show all controls here").click()  # a learner can do that
    page.locator("[data-share=close]").click()
    page.get_by_role("button", name="All lessons").locator("visible=true").click()
    expect(page.locator(".sl-lesson-card").first).to_be_visible()
    expect(page.locator(".sl-lesson-papers")).to_be_hidden()
    with page.context.expect_page() as opened:
        page.evaluate("link => window.open(link)", f"{href}-key")
    expect(opened.value.locator("h1")).to_have_text(["Exercises 4711"])
    opened.value.close()


def test_a_phone_with_a_class_link_has_no_blank_strip_and_whole_sentences(visit):
    page = visit("?only=prompt", viewport={"width": 390, "height": 844})
    expect(page.locator("#quick")).to_be_hidden()
    above, stage = page.locator("#prompt").bounding_box(), page.locator("#stage").bounding_box()
    assert stage["y"] - above["y"] - above["height"] < 12
    page.locator("#prompt textarea").fill("A short one")
    press_run(page)
    wait_for_end(page)
    notice = page.locator("#stage .sl-notice .sl-words")
    words = speedup_verdict(Speedup(1.3, 0.9, 1.7), 1.8, "measured just now, one run each")
    notice.evaluate("(node, words) => { node.textContent = words; }", words)
    assert notice.evaluate("node => node.scrollHeight - node.clientHeight") <= 1
    page.wait_for_function(f"{OVERFLOW} <= 0")


def test_a_code_fills_the_screen_and_escape_closes_it_first(visit):
    page = visit("?prompt=Of+the+class", viewport={"width": 1280, "height": 720})
    page.locator("[data-share=open]").click()
    expect(page.locator("#sl-share-link")).not_to_have_value("")
    page.get_by_role("button", name="QR code").click()
    code = page.get_by_role("dialog", name="The link for phones")
    expect(code.get_by_role("img")).to_be_in_viewport(ratio=1)
    assert code.get_by_role("img").bounding_box()["height"] > 500
    expect(code).to_contain_text("prompt=Of+the+class")
    page.keyboard.press("Escape")
    expect(code).to_have_count(0)
    expect(page.locator(".sl-share")).to_be_visible()


def test_a_prompt_typed_on_a_class_link_comes_back(visit):
    page = visit("?prompt=Of+the+class&hide=temperature")
    field, back = page.locator("#prompt textarea"), page.locator("#own-text")
    expect(field).to_have_value("Of the class")
    field.fill("My own")
    page.reload()
    expect(field).to_have_value("Of the class")
    back.click()
    expect(field).to_have_value("My own")


def test_a_pair_and_its_method_come_together_and_other_weights_are_told(visit):
    page = visit("?method=none&tokens=20&revision=0123456789ab&__theme=dark")
    expect(page.locator("#stage-notice")).to_contain_text("made with revision 0123456789ab")
    expect(page.locator("#method input")).to_have_value(re.compile("plain decoding"))
    with page.expect_response("**/_state"):  # by its next look, what else the page asks on opening has come
        pass
    expect(page.locator("#method input")).to_have_value(re.compile("plain decoding"))
    press_run(page)
    wait_for_end(page)
    expect(page).to_have_url(re.compile("__theme=dark&method=none"))  # others' parts stay


def test_presentation_is_large_on_a_phone_and_nothing_is_clipped(visit):
    page = visit("?tokens=16", viewport={"width": 390, "height": 900})
    press_run(page)
    wait_for_end(page)
    size = "node => parseFloat(getComputedStyle(node).fontSize)"
    token, text = page.locator(".sl-list .sl-accepted").last, page.locator(".sl-text")
    before = token.evaluate(size), text.evaluate(size)
    page.evaluate("document.querySelector('[data-share=present]').click()")  # by hand it takes the key P
    grown = [after / old for after, old in zip((token.evaluate(size), text.evaluate(size)), before, strict=True)]
    assert min(grown) > 1.15, grown
    for clutter in ("#quick", "#results", ".sl-heading", "#engine-status"):
        expect(page.locator(clutter).first).to_be_hidden()
    for kept in ("#prompt", "#run", ".sl-text", ".sl-rows", ".sl-strip"):
        expect(page.locator(kept)).to_be_visible()
    page.wait_for_function(f"{OVERFLOW} <= 0")
    page.locator("#prompt textarea").press("p")  # a letter of the prompt
    expect(page.locator("body")).to_have_class(re.compile("sl-present"))

"""The stage: everything that a run says is in sight at once, on a desktop, on a projector and on a phone."""

import re
from dataclasses import replace

import pytest
from fake_worker import recorded
from page_actions import (
    OVERFLOW,
    ROWS,
    choose,
    drawn,
    open_tab,
    open_texts,
    press_run,
    run,
    saved,
    speedup,
    text_of,
    violations,
    wait_for_end,
    wait_until_above,
)
from playwright.sync_api import Page, expect
from sample_traces import tree
from visits import PHONE

from engine.trace.trace import to_json

pytestmark = pytest.mark.browser
SMALL = """() => [...document.querySelectorAll('body *')]
  .filter(node => node.checkVisibility({ visibilityProperty: true })
  && [...node.childNodes].some(child => child.nodeType === 3 && child.data.trim())
  && node.getBoundingClientRect().width > 1 && parseFloat(getComputedStyle(node).fontSize) < 20)
  .map(node => `${node.className}: ${node.textContent}`)"""
PARTS = ("[data-part=speedup]", ".sl-lane-run", ".sl-lane-plain", "[data-part=output]", "[data-part=inspector]",
         "[data-part=transport]")  # fmt: skip
# What of the strip covers another part of it, or reaches beyond it.
OVERLAPPING = """() => {
  const strip = document.querySelector('#stage .sl-strip'), { left, right, bottom } = strip.getBoundingClientRect();
  const boxes = [...strip.querySelectorAll('.sl-number, .sl-title:not(.sl-unseen), .sl-note, .sl-lanes')]
    .filter(node => node.checkVisibility()).map(node => [node.className, node.getBoundingClientRect()]);
  const meet = (start, end, a, b) => a[start] < b[end] - 2 && b[start] < a[end] - 2;
  const covers = (a, b) => meet('left', 'right', a, b) && meet('top', 'bottom', a, b);
  return boxes.filter(([, box], i) => box.left < left || box.right > right + 1 || box.bottom > bottom + 1
    || boxes.some(([, other], j) => j !== i && covers(box, other))).map(([name]) => name);
}"""
PLACES = """() => ['.sl-stage', '.sl-stage .sl-rows']
  .map(one => Object.values(document.querySelector(one).getBoundingClientRect().toJSON()))"""


# No more than a beginner can take: words of ours that can be seen, and what can be operated, but not the tokens, nor
# the texts of model and visitor.
FEW = """() => {
  const isTop = (node, at) => at && (node.contains(at) || at.contains(node));
  const isShown = (node, { left, top, right, bottom, width, height }) => width > 1 && height > 1
    && top < innerHeight && bottom > 0 && right > 0
    && node.checkVisibility({ visibilityProperty: true, opacityProperty: true })
    && isTop(node, document.elementFromPoint(left + width / 2, top + height / 2));
  const own = '.sl-token, .sl-tag, .sl-text, .sl-branch-text, .sl-asked, .sl-name, .sl-unseen, script, style, select';
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), words = [];
  while (texts.nextNode()) {
    const text = texts.currentNode, node = text.parentElement;
    if (node.closest(own)) continue;
    for (const { 0: word, index } of text.data.matchAll(/\\S+/g)) {
      const range = new Range();
      range.setStart(text, index);
      range.setEnd(text, index + word.length);
      if (isShown(node, range.getBoundingClientRect())) words.push(word);
    }
  }
  const controls = [...document.querySelectorAll('button, input, textarea, select, a[href], summary')]
    .filter(node => !node.matches('.sl-token') && isShown(node, node.getBoundingClientRect()));
  return words.length > 100 && words.length <= 260 && controls.length > 20 && controls.length <= 30;
}"""


def assert_in_sight(page: Page, height: int) -> None:
    page.wait_for_function(f"({ROWS})() >= 8")
    for part in PARTS:
        expect(page.locator(f"#stage {part}")).to_be_in_viewport(ratio=1)
    expect(page.locator("#result-race-button")).to_be_in_viewport()
    stage = page.locator(".sl-stage").bounding_box()
    assert page.evaluate("scrollY") == 0 and stage["y"] <= 150 and stage["y"] + stage["height"] <= height - 30


@pytest.mark.slow
def test_everything_is_in_sight_before_and_after_a_run_and_nothing_moves(visit):
    page = visit(viewport={"width": 1280, "height": 800})
    captions = page.locator(".sl-captions p")
    expect(captions).to_have_count(3)
    page.wait_for_function(FEW)
    assert_in_sight(page, 800)
    for _ in range(8):  # seven stops before Run
        page.keyboard.press("Tab")
    expect(page.locator("#run")).to_be_focused()
    places = page.evaluate(PLACES)
    page.locator("#prompt textarea").fill("line\n" * 12)  # it grows over the stage
    page.keyboard.press("Escape")
    page.locator("#settings").click()
    expect(page.locator("#seed")).to_be_in_viewport()
    expect(page.locator("#stage .sl-rows")).to_be_in_viewport()
    assert page.evaluate(PLACES) == places
    page.locator("#settings").click()
    page.locator("#stage .sl-rows").press("End")
    expect(page.locator("#stage .sl-verdict")).to_be_visible()
    page.wait_for_function(FEW)
    page.locator("#stage .sl-list .sl-rejected").first.click()
    assert page.locator("#stage .sl-inspector").evaluate("node => node.scrollHeight - node.clientHeight") <= 1
    page.wait_for_function(FEW)
    page.keyboard.press("Escape")
    choose(page, "method", re.compile("^n-gram"))
    press_run(page, tokens="60", prompt="The keeper climbs the stairs")
    wait_for_end(page)
    expect(captions).to_have_count(0)  # the first run ends them for good
    page.wait_for_function(FEW)
    page.wait_for_function("(n => n.scrollWidth - n.clientWidth <= 1)(document.querySelector('#stage .sl-compared'))")
    assert page.evaluate(PLACES) == places
    assert_in_sight(page, 800)
    drawn(page, "acceptance")
    page.wait_for_function("document.documentElement.scrollHeight <= 1700")
    open_tab(page, "Use it elsewhere")
    expect(page.locator(".sl-recipe-code")).to_be_visible()
    page.wait_for_function("document.documentElement.scrollHeight <= 1700")
    page.set_viewport_size({"width": 1440, "height": 900})
    page.evaluate("scrollTo(0, 0)")
    assert_in_sight(page, 900)


@pytest.mark.slow
def test_refusal_comes_into_sight_and_keeps_the_run_and_its_files(page):
    run(page)
    before = [text_of(page), speedup(page).inner_text(), saved(page, "trace-file")]
    page.locator("#prompt textarea").fill(" ")
    page.locator("#run").click()
    expect(page.get_by_role("alert").filter(has_text="prompt is empty")).to_be_visible()
    expect(page.locator("#run")).to_have_text("Run")
    page.set_viewport_size({"width": 1280, "height": 500})
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    expect(page.locator("#stage-notice")).not_to_be_in_viewport()
    open_texts(page, '{"schema": 99}')
    expect(page.get_by_role("alert").filter(has_text="schema")).to_be_in_viewport()
    assert [text_of(page), speedup(page).inner_text(), saved(page, "trace-file")] == before
    expect(page.locator("#stage .sl-source")).to_have_text("Your run")


# As after a run that other programs disturbed, with and without a server that can measure it again.
NOISE = """isStored => {
  const tile = document.querySelector('#stage [data-tile=speedup]'), [number, note, again] =
    ['.sl-number', '.sl-note', '.sl-alone'].map(each => tile.querySelector(each));
  tile.dataset.tone = number.textContent = 'noise';
  note.textContent = 'more than τ = 1.36 allows: measure again';
  [again.textContent, again.hidden] = ['Measure again', isStored];
}"""


def test_noise_and_its_words_do_not_cover_each_other(page):
    page.set_viewport_size({"width": 1366, "height": 768})
    run(page, tokens="8")
    for is_stored in (False, True):
        page.evaluate(NOISE, is_stored)
        assert page.evaluate(OVERLAPPING) == []


def test_a_prompt_that_has_not_run_is_told_from_that_of_the_run(page):
    run(page, prompt="The one that ran", tokens="8")
    mark, field = page.locator("#stage .sl-other-prompt"), page.locator("#prompt textarea")
    expect(mark).to_be_hidden()
    field.fill("The one that ran, and more")
    expect(mark).to_be_visible()
    field.fill("The one  that ran ")  # the same but for its spaces
    expect(mark).to_be_hidden()
    field.fill("Another one")
    expect(mark).to_be_visible()
    run(page, prompt="Another one", tokens="8")
    expect(mark).to_be_hidden()


LANES = """() => [...document.querySelectorAll('#stage .sl-row')].map(row => [...row.querySelectorAll('.sl-line')]
  .map(line => [...line.querySelectorAll('.sl-token:not([hidden])')].map(token => token.dataset.stage)))"""


@pytest.mark.slow
def test_a_branch_is_a_second_lane_beside_its_run(page):
    page.set_viewport_size({"width": 1280, "height": 800})
    press_run(page, tokens="60", temperature="0.8", prompt="Hi")
    wait_for_end(page)
    before, heads = speedup(page).inner_text(), page.locator("#stage .sl-lane-heads")
    force_another_token(page)
    expect(heads.get_by_role("button", name="Keep")).to_be_enabled()
    page.wait_for_function(f"({ROWS})() >= 8")
    lanes = page.evaluate(LANES)
    at = next(i for i, row in enumerate(lanes) if "forced" in row[1])
    longer = [row[1] != [] for row in lanes[at:]]  # a branch may end before its run
    assert all(row[1] == [] for row in lanes[:at]) and longer[:2] == [True, True] and longer == sorted(longer)[::-1]
    expect(page.locator("#stage .sl-row").nth(at - 1).locator(".sl-same")).to_have_text("the same up to here")
    expect(page.locator("#stage-notice")).to_contain_text("The numbers above describe the run")
    expect(page).to_have_url(re.compile(r"force=\d+:\d+"))
    expect(speedup(page)).to_have_text(before)
    assert page.locator(".sl-branch-text").inner_text().startswith(text_of(page)[:60])
    for scheme in ("remove", "add"):
        page.evaluate(f"document.body.classList.{scheme}('dark')")
        assert violations(page, "#stage") == [], scheme
    page.evaluate("document.body.classList.remove('dark')")
    step_through_a_branch(page, at)
    page.set_viewport_size({"width": 390, "height": 844})
    page.locator("#stage .sl-rows").evaluate("node => node.scrollTo(0, 0)")  # rows far out of sight are not drawn
    lines = page.locator("#stage .sl-row:has(.sl-forced) .sl-line")
    wait_until_above(lines.nth(0), lines.nth(1))  # on a phone the second lane is below the first
    page.wait_for_function(f"{OVERFLOW} <= 0")
    page.set_viewport_size({"width": 1280, "height": 800})
    heads.get_by_role("button", name="Drop").click()
    expect(page.locator("#stage .sl-second")).to_have_count(0)
    expect(page.locator("#stage-notice")).to_contain_text(re.compile(r"The branch is dropped\. .* without drafting"))
    expect(page).not_to_have_url(re.compile("force="))
    force_another_token(page)
    heads.get_by_role("button", name="Keep").click()
    expect(heads).to_contain_text("A branch from place")
    expect(page.locator("#stage .sl-rows")).to_be_focused()
    expect(speedup(page)).to_have_text("–")
    expect(page.locator(".sl-lane-run .sl-count")).to_have_text(re.compile(r"^\d+ more tokens in \d"))


def force_another_token(page: Page) -> None:
    page.locator("#stage .sl-list .sl-rejected").nth(2).click()
    page.get_by_role("button", name="Force another token").click()
    expect(page.locator("#stage .sl-fork").first).to_be_focused()
    words = "getComputedStyle(document.querySelector('#stage .sl-forks'), '::after').content"
    assert "The fork beside a token forces it" in page.evaluate(words)
    page.locator("#stage .sl-fork").nth(1).click()


def step_through_a_branch(page: Page, at: int) -> None:
    page.locator("#stage .sl-rows").press("Home")
    for _ in range(at + 2):
        page.keyboard.press("ArrowRight")
    lanes = page.evaluate(LANES)
    assert len(lanes) == at + 2 and lanes[at][1][-1] == "forced" and "waiting" not in lanes[-1][1] != []
    page.locator("#stage .sl-list .sl-row").nth(at).locator(".sl-line").first.locator(".sl-token").last.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.locator("#stage .sl-verdict")).to_have_text("You forced this token: it was neither drafted nor drawn.")
    page.keyboard.press("Escape")
    page.locator("#stage .sl-rows").press("End")
    page.keyboard.press("Escape")


@pytest.mark.slow
def test_presentation_is_the_stage_alone_in_large_type(page):
    page.set_viewport_size({"width": 1280, "height": 720})
    press_run(page, tokens="24", temperature="0.8")
    wait_for_end(page)
    page.locator("[data-share=present]").click()
    expect(page.locator(".sl-source:visible")).to_have_text(["Your run"])  # one badge says whose run it is
    page.wait_for_function(f"document.documentElement.scrollHeight <= 720 && {OVERFLOW} <= 0")
    page.wait_for_function(f"({ROWS})() >= 6")
    page.wait_for_function(f"({SMALL})().length === 0")  # once the larger type is laid out
    assert page.locator(".sl-ask").bounding_box()["height"] <= 50
    page.locator("#stage .sl-list .sl-rejected").last.click()
    page.wait_for_function(f"({SMALL})().length === 0")  # in the inspector
    page.get_by_role("button", name="Force another token").click()
    page.wait_for_function(f"({SMALL})().length === 0")  # with a button each
    page.keyboard.press("Escape")
    page.locator("[data-share=present]").click()
    open_texts(page, to_json(tree()))
    expect(page.locator("#stage .sl-source")).to_have_text("From a file")
    page.locator("[data-share=present]").click()
    page.locator("#stage .sl-rows").press("End")
    page.locator("#stage .sl-tree .sl-rejected").first.click()
    expect(page.locator("#stage .sl-siblings")).to_be_visible()
    page.wait_for_function(f"({SMALL})().length === 0")
    page.locator("[data-share=present]").click()


# The size of each kind of text that a presentation shows, and what of it is cut off or covers another part.
SIZES = """() => ['.sl-note', '.sl-count', '.sl-legend .sl-waiting', '.sl-list .sl-tag', '.sl-inspector .sl-figure']
  .map(part => parseFloat(getComputedStyle(document.querySelector(`#stage ${part}`)).fontSize))"""
CUT = """() => {
  const { bottom } = document.querySelector('#stage .sl-deck').getBoundingClientRect();
  const parts = [...document.querySelectorAll('#stage :is(.sl-legend, .sl-strip, .sl-inspector)')];
  const tags = [...document.querySelectorAll('#stage .sl-list .sl-tag')];
  return [...parts.filter(({ scrollWidth, clientWidth, scrollHeight, clientHeight }) =>
      scrollWidth > clientWidth || scrollHeight > clientHeight),
    ...tags.filter(tag => tag.getBoundingClientRect().right > tag.nextSibling.getBoundingClientRect().left),
  ].map(node => node.className).concat(bottom > innerHeight ? ['deck'] : []);
}"""
CUT_MARKS = """() => {
  const legend = document.querySelector('#stage .sl-rounds .sl-legend'), { right } = legend.getBoundingClientRect();
  return [...legend.querySelectorAll('.sl-token')].filter(mark => mark.checkVisibility())
    .filter(mark => mark.getBoundingClientRect().right > right || mark.getBoundingClientRect().height > 40);
}"""


@pytest.mark.parametrize(("width", "height", "least", "most"), [(1366, 768, 20, 20), (1920, 1080, 26, 28)])
def test_presented_type_grows_with_the_screen_and_fits(visit, width, height, least, most):
    page = visit(viewport={"width": width, "height": height})
    page.locator("[data-share=present]").click()
    page.keyboard.press("End")
    page.locator("#stage .sl-list .sl-accepted").nth(1).click()
    expect(page.locator("#stage .sl-inspector .sl-figure").first).to_be_visible()
    assert all(least <= size <= most for size in page.evaluate(SIZES)), page.evaluate(SIZES)
    page.wait_for_function(f"({CUT})().length === 0 && ({OVERLAPPING})().length === 0 && {OVERFLOW} <= 0")
    expect(page.locator('#stage [data-tile="speedup"] .sl-note')).to_be_in_viewport(ratio=1)
    expect(page.locator("#stage .sl-rounds .sl-legend .sl-waiting")).to_be_in_viewport(ratio=1)
    page.set_viewport_size({"width": 1280, "height": 720})  # its last mark has no room there
    page.wait_for_function(f"({CUT_MARKS})().length === 0")


# The parts of the first visit's explanation that are cut off or covered, and the rounds if they reach the transport.
COVERED = """() => {
  const stage = document.querySelector('#stage');
  const [rows, deck] = ['.sl-rows', '.sl-deck'].map(part => stage.querySelector(part).getBoundingClientRect());
  const parts = [...stage.querySelectorAll('.sl-captions p')].filter(part => {
    const { left, top, bottom } = part.getBoundingClientRect();
    const found = document.elementFromPoint(left + 20, (top + bottom) / 2);
    return part.checkVisibility() && (top < rows.top || bottom > deck.top || !part.contains(found));
  });
  return [...parts.map(part => part.textContent), ...(rows.bottom > deck.top + 1 ? ['rounds'] : [])];
}"""


@pytest.mark.parametrize(("width", "height"), [(360, 640), (390, 844), (1280, 800)])
def test_captions_of_the_first_visit_end_above_the_transport(visit, width, height):
    page = visit(fresh=True, viewport={"width": width, "height": height})
    expect(page.locator("#stage .sl-captions p")).to_have_count(3)
    page.wait_for_function(f"({COVERED})().length === 0 && scrollY === 0")
    page.locator("#stage .sl-list .sl-rejected").last.click()
    expect(page.locator("#stage .sl-captions")).to_have_count(0)


# What a finger presses on the stage and could miss.
UNDER_A_FINGER = """() => [...document.querySelectorAll('#stage :is(.sl-list .sl-token, .sl-do), #quick button')]
  .filter(node => node.checkVisibility({ visibilityProperty: true }) && !node.closest('dialog'))
  .map(node => [node.className, node.getBoundingClientRect()])
  .filter(([, { width, height }]) => width > 1 && (width < 36 || height < 36)).map(([name]) => name)"""


def test_a_finger_has_room_and_steps_through_a_round(visit):
    page = visit(fresh=True, **PHONE)
    page.wait_for_function(f"({UNDER_A_FINGER})().length === 0 && {OVERFLOW} <= 0")
    scrub, place = page.locator("#stage .sl-scrub"), page.locator("#stage .sl-place")
    page.locator("#stage [data-do=round-back]").tap()
    at = int(scrub.input_value())
    page.locator("#stage [data-do=token-on]").tap()
    expect(scrub).to_have_value(str(at + 1))
    expect(place).to_have_text(re.compile(r"^Round \d+ of 13$"))
    expect(page.locator("#stage .sl-place-word")).to_be_hidden()  # the buttons need its room


@pytest.mark.parametrize(("width", "height"), [(390, 844), (1366, 768)])
def test_recorded_run_leads_to_the_idea_also_once_it_was_played(visit, width, height):
    page = visit(fresh=True, viewport={"width": width, "height": height})
    expect(page.locator("#stage .sl-captions p")).to_have_count(3)
    page.wait_for_function(f"({COVERED})().length === 0")
    frame = page.locator("#stage .sl-rounds .sl-means-frame .sl-piece")
    assert frame.evaluate("node => getComputedStyle(node, '::after').content") == '" same place"'
    page.locator("#stage .sl-rows").press("End")
    expect(page.locator("#stage .sl-captions")).to_have_count(0)
    page.get_by_role("link", name="60-second explanation").click()
    expect(page.locator("#sl-minute .sl-minute-go")).to_be_in_viewport()


@pytest.mark.slow
def test_recorded_numbers_turn_grey_while_a_run_of_ones_own_starts(visit, fake):
    fake(load=8.0)
    page = visit()
    number, strip = page.locator("#stage [data-tile=speedup] .sl-number"), page.locator("#stage .sl-strip")
    grey = strip.evaluate("node => getComputedStyle(node).color")
    expect(number).not_to_have_css("color", grey)
    press_run(page)
    expect(page.locator("#stage .sl-stage[data-notice=progress][data-kind=recorded]")).to_be_visible()
    expect(number).to_have_css("color", grey)
    expect(strip).to_have_css("opacity", "0.55")
    wait_for_end(page)


@pytest.mark.slow
def test_rounds_come_right_after_run_on_a_phone(visit, fake):
    page = visit(viewport={"width": 390, "height": 844})
    fake(step=0.5)  # long enough to be seen
    press_run(page, tokens="40")
    expect(page.locator("#stage .sl-source")).to_have_text("Running now")
    page.wait_for_function(f"({OVERLAPPING})().length === 0")
    expect(page.locator("#stop")).to_be_in_viewport(ratio=0.9)
    right_after = "document.querySelector('#stage .sl-rows').getBoundingClientRect().y <= 420 && scrollY === 0"
    page.wait_for_function(right_after)
    running = page.locator("#stage .sl-rows").bounding_box()["y"]
    fake()  # the rest need not be slow
    wait_for_end(page)
    page.wait_for_function(f"({ROWS})() >= 8")
    page.wait_for_function(right_after)
    assert abs(page.locator("#stage .sl-rows").bounding_box()["y"] - running) <= 20
    bar = page.locator("#stage [data-part=transport]").bounding_box()
    assert bar["y"] + bar["height"] == pytest.approx(844, abs=1)
    token = page.locator("#stage .sl-list .sl-rejected").last
    token.click()
    sheet, box = page.locator("#stage .sl-inspector").bounding_box(), token.bounding_box()
    assert sheet["y"] + sheet["height"] == pytest.approx(bar["y"], abs=1) and box["y"] + box["height"] <= sheet["y"]
    page.keyboard.press("Escape")
    page.locator("#settings").click()
    page.locator("#temperature input[type=number]").fill("0.5")
    expect(page.locator(".sl-what-if")).to_contain_text("This run was greedy")
    page.locator(".sl-what-if").click(trial=True)  # nothing covers it
    page.locator("#settings").click()
    token.click()
    sheet = page.locator("#stage .sl-inspector")
    page.evaluate("window.scrollBy(0, 60)")
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")  # its scroll event
    expect(sheet).to_have_attribute("data-open", "locked")
    page.evaluate("window.scrollTo(0, document.querySelector('#results').getBoundingClientRect().top + scrollY)")
    expect(sheet).to_have_attribute("data-open", "")  # the rounds that it is about are out of sight
    assert page.evaluate("document.querySelector('#results').getBoundingClientRect().top") < 300, "it stays where it is"
    for width, height in ((390, 844), (320, 844), (844, 390)):
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_function(f"{OVERFLOW} <= 0")
        page.wait_for_function("document.querySelector('#stage .sl-rows').clientHeight >= 180")
        page.wait_for_function(f"({OVERLAPPING})().length === 0")


@pytest.mark.slow
def test_a_run_beside_others_says_so_and_is_measured_alone_with_one_click(page):
    run = recorded(tokens=30)
    open_texts(page, to_json(replace(run, rounds=tuple(replace(event, rows=3) for event in run.rounds))))
    expect(speedup(page)).to_have_text("Not measured")
    note = page.locator("[data-part=speedup] .sl-note")
    expect(note).to_have_text(re.compile(r"^alone about \d\.\d× \(predicted\)$"))
    button = page.get_by_role("button", name="Measure alone")
    expect(button).to_have_count(1)
    for tab in ("Race & speed", "Acceptance", "Time", "Files", "Use it elsewhere"):
        open_tab(page, tab)
        for part in ("#stage .sl-head", "#stage .sl-strip", "#results"):
            # Waits, because the tabs are drawn after the stage.
            expect(page.locator(part)).not_to_contain_text(re.compile(r"×(?! \(predicted\))"))
    for width, height in ((1280, 800), (390, 844), (320, 700)):
        page.set_viewport_size({"width": width, "height": height})
        expect(button).to_be_in_viewport(ratio=1)
        page.wait_for_function(f"({OVERLAPPING})().length === 0 && {OVERFLOW} <= 0")
    button.click()
    expect(speedup(page)).to_contain_text("×")
    expect(button).to_be_hidden()

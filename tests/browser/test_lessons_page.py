"""The Lessons tab in a real browser, on a made-up engine: a whole lesson by keyboard, and what only a browser shows."""

import re

import pytest
from page_actions import OVERFLOW, open_lesson, wait_until_above
from playwright.sync_api import Locator, Page, expect

from engine.trace.trace import load
from lessons.loader import lessons
from lessons.schema import LABS, PARTS, TRACES

pytestmark = pytest.mark.browser


def title(page: Page) -> Locator:
    return page.locator(".sl-lesson-body h3")


def press(page: Page, name: str) -> None:
    """Presses a button by keyboard."""
    button = page.get_by_role("button", name=name, exact=True).and_(page.locator(":visible")).first
    button.focus()
    page.keyboard.press("Enter")


def test_a_tool_has_the_large_half_in_place_of_the_run(at_step):
    page = at_step("is_it_lossless", "Break it")
    text, tool, stage = (page.locator(part) for part in (".sl-lesson-body", ".sl-lesson-tool", ".sl-lesson-stage"))
    expect(stage).to_be_hidden()
    draw = tool.get_by_role("button", name="Draw 10,000")
    expect(draw).to_be_in_viewport()
    assert tool.bounding_box()["width"] > text.bounding_box()["width"]
    page.set_viewport_size({"width": 390, "height": 844})
    expect(text.get_by_role("button", name="Draw 10,000")).to_have_count(1)  # on a phone it follows its text
    expect(tool).to_be_hidden()
    page = at_step("two_models_one_memory", "Both have to be there")  # it has a token to press, too
    expect(stage).to_be_visible()
    expect(text.locator(".sl-tool-place > *")).to_have_count(1)


def test_presented_rounds_of_several_drafters_have_one_line_each(at_step):
    page = at_step("json_and_tools", "What has to come")
    page.keyboard.press("p")
    row = page.locator('#lesson .sl-row[aria-label="Round 2"]')
    line, kept = (row.locator(part).bounding_box() for part in (".sl-line", ".sl-kept"))
    assert line["width"] > row.bounding_box()["width"] / 2 and kept["y"] < line["y"] + line["height"]
    page.keyboard.press("p")


@pytest.mark.parametrize(("width", "height", "least", "most"), [(1366, 768, 22, 22), (1920, 1080, 29, 31)])
def test_a_presented_lesson_grows_with_the_screen(at_step, width, height, least, most):
    page = at_step("draft_then_verify", "Step two: verify")
    page.set_viewport_size({"width": width, "height": height})
    page.keyboard.press("p")
    size = page.locator(".sl-lesson-page:visible").first.evaluate("node => parseFloat(getComputedStyle(node).fontSize)")
    assert least <= size <= most
    page.wait_for_function(f"{OVERFLOW} <= 0")
    page.keyboard.press("p")


@pytest.mark.slow
def test_a_whole_lesson_by_keyboard(visit):
    page = visit()
    assert page.locator("#lesson").count() == 0  # nothing of the lessons is drawn before their tab is opened
    page.locator("#lessons-tab-button").press("Enter")
    page.locator('[href="#lesson-draft_then_verify"]').press("Enter")
    expect(page.locator("#sl-lesson-title")).to_be_focused()
    expect(page).to_have_url(re.compile("#lesson-draft_then_verify$"))
    page.keyboard.press("n")

    # a token glows until the learner has looked at it
    expect(title(page)).to_have_text("Step one: draft")
    expect(page.locator("[data-glow]")).to_have_count(1)
    expect(page.locator(".sl-lesson-next")).to_have_text("Skip")
    press(page, "Show it to me")
    expect(page.locator("[data-glow]")).to_have_count(0)
    expect(page.locator(".sl-lesson-next")).to_have_text("Next")
    for _ in range(2):
        page.keyboard.press("n")

    # a number is guessed, then the round is played to its end
    expect(title(page)).to_have_text("Step three: accept")
    expect(page.locator("#lesson .sl-bonus.sl-token[data-stage]")).to_have_count(0)
    page.locator("#lesson .sl-list .sl-token").first.click()
    expect(page.locator("#lesson .sl-guess-first")).to_be_visible()
    expect(page.locator("#lesson .sl-verdict")).to_be_hidden()  # it would answer the question
    for guess, reply in (("three", "Type a number."), ("3", "You said 3, it is 4 tokens.")):
        page.get_by_label("Your guess").fill(guess)
        page.keyboard.press("Enter")
        expect(page.locator(".sl-reply")).to_contain_text(reply)
    expect(page.locator("#lesson .sl-guess-first")).to_be_hidden()
    expect(page.locator("#lesson .sl-bonus.sl-token[data-stage]")).to_have_count(1)
    expect(page.locator(".sl-lesson-next")).to_be_focused()
    page.keyboard.press("Enter")

    # a choice, by its number; the first guess counts
    expect(title(page)).to_have_text("Step four: commit")
    page.keyboard.press("2")
    expect(page.locator(".sl-reply")).to_contain_text("Not quite.")
    expect(page.locator('.sl-option[data-right="true"]')).to_contain_text("One more than were accepted")
    page.keyboard.press("b")
    expect(title(page)).to_have_text("Step three: accept")
    expect(page.locator(".sl-reply")).to_contain_text("You said 3, it is 4 tokens.")  # an answer stays given
    page.keyboard.press("n")
    page.reload()
    expect(page.locator(".sl-reply")).to_contain_text("Not quite.")
    for _ in range(2):
        page.keyboard.press("n")

    # live: the controls are filled, the one spoken of glows until it is touched, and nothing runs by itself
    expect(title(page)).to_have_text("Now a real one")
    press(page, "Run it live")
    expect(page.locator("#gamma input[type=number]")).to_have_value("3")
    expect(page.locator("#run")).to_have_text("Run")
    expect(page.locator("#gamma.sl-glow")).to_have_count(1)
    page.locator("#gamma input[type=number]").fill("5")
    expect(page.locator(".sl-glow")).to_have_count(0)
    page.locator("#run").press("Enter")
    expect(page.locator(".sl-coach")).to_contain_text("✓ It has run.")
    press(page, "Back to the lesson")
    expect(page.locator(".sl-lesson-next")).to_have_text("Next")
    expect(page.locator(".sl-coach")).to_be_hidden()
    page.keyboard.press("n")

    # the quiz says why, and may be tried again
    expect(title(page)).to_have_text("Check yourself")
    page.keyboard.press("1")
    expect(page.locator(".sl-reply").first).to_contain_text("Not this one.")
    for _ in range(2):
        page.keyboard.press("2")
    expect(page.locator(".sl-lesson-end")).to_contain_text("1 of 2 at the first try. That’s it for this lesson.")
    page.keyboard.press("n")
    expect(page.locator("#sl-lesson-title")).to_have_text("3. Accept, reject, resample")
    page.go_back()
    expect(page.locator("#sl-lesson-title")).to_have_text("2. Draft, then verify")
    page.go_forward()
    expect(page.locator("#sl-lesson-title")).to_have_text("3. Accept, reject, resample")

    # kept in this browser
    again = visit(context=page.context)  # one browser keeps it for all its pages
    again.locator("#lessons-tab-button").click()
    expect(again.locator('[href="#lesson-draft_then_verify"]')).to_contain_text("✓ done")
    again.locator('[href="#lesson-draft_then_verify"]').click()
    expect(again.locator(".sl-lesson-where")).to_have_text(re.compile("^Step 1 of"))  # a finished one begins again
    press(again, "All lessons")
    again.get_by_role("button", name="Clear my progress").click()
    expect(again.locator('[href="#lesson-draft_then_verify"]')).to_contain_text("minutes")


@pytest.mark.slow
def test_live_fills_the_playground_and_the_coach_points_at_the_subject(at_step):
    page = at_step("how_many_drafts", "Sweep it yourself")
    page.get_by_role("button", name="Run it live").click()
    expect(page.locator("#tokens input")).to_have_value("56")
    expect(page.locator("#method input")).to_have_value(re.compile("^auto"))  # these models have no EAGLE head
    expect(page.locator("#auto input")).to_be_checked()
    expect(page.locator("#stage-notice")).to_contain_text("no eagle-chain draft")
    expect(page.locator("#auto.sl-glow")).to_be_in_viewport()
    expect(page.locator(".sl-coach")).to_be_in_viewport()


def test_a_link_opens_its_lesson_and_an_unknown_one_says_so(visit):
    page = visit("?gamma=3#lesson-accept_reject_resample")
    expect(page.locator("#sl-lesson-title")).to_have_text("3. Accept, reject, resample")
    page.evaluate("location.hash = '#lesson-99'")
    expect(page.locator(".sl-lesson-problem")).to_have_text("There is no lesson 99.")
    expect(page.locator(".sl-lesson-card").first).to_be_visible()
    page.evaluate("window.same = true")
    page.locator('[href="#lesson-memory_wall"]').click()  # on the same page, and the query stays
    expect(page.locator("#sl-lesson-title")).to_contain_text("1. ")
    assert page.evaluate("[window.same, location.hash]") == [True, "#lesson-memory_wall"] and "gamma=3" in page.url


@pytest.mark.slow
def test_an_address_with_a_number_opens_the_lesson_that_had_it(at_step):
    """The lessons had another order before, and links to them from elsewhere go on working."""
    page = at_step("memory_wall")
    slugs = {13: "one_token_differs", 11: "two_models_one_memory", 5: "acceptance_tau_speedup", 15: "unknown_runs"}
    for number, slug in slugs.items():
        page.evaluate("number => { location.hash = `#lesson-${number}`; }", number)
        lesson = next(each for each in lessons() if each.slug == slug)
        expect(page.locator("#sl-lesson-title")).to_have_text(f"{lesson.number}. {lesson.title}")
        assert page.evaluate("location.hash") == f"#lesson-{slug}"
    page.evaluate("location.hash = '#lesson-7-guess-2'")  # a friend's link
    expect(page.locator("#sl-lesson-title")).to_contain_text("Easy and hard text")
    expect(page.locator(".sl-figure-box .sl-pick option:checked")).to_have_text("A story")


# Presses keys faster than any hand can.
KEYS = """([keys, repeat]) => [...keys].forEach(key =>
  document.dispatchEvent(new KeyboardEvent('keydown', { key, repeat, bubbles: true })))"""


@pytest.mark.slow
def test_lesson_0_is_given_to_a_class_by_keyboard(visit):
    """The lesson is presented: a round of guesses, a race, and questions whose votes are counted and cleared."""
    page = visit("?present=1#lesson-in_five_minutes", viewport={"width": 1280, "height": 720}, reduced_motion="reduce")
    dark = page.locator(".sl-lesson-stage[data-dark]")
    options = page.locator(".sl-guess-options .sl-option")
    expect(options).to_have_count(4)
    wrong = next(n for n, text in enumerate(options.all_inner_texts(), 1) if text.split()[-1] != "Once")
    page.keyboard.press(str(wrong))
    first = page.locator(".sl-figure-box .sl-result").inner_text()
    page.keyboard.press("1")
    page.keyboard.press("3")  # once the round is over, keys change nothing
    assert "instead" in first and page.locator(".sl-figure-box .sl-result").inner_text() == first
    press(page, "Start over")
    for right in ("Once", "upon", "a", "time"):  # a round of the learner's own, before any term
        options = page.locator(".sl-guess-options .sl-option")
        expect(options).to_have_count(4)
        page.keyboard.press(str(1 + [text.split()[-1] for text in options.all_inner_texts()].index(right)))
    expect(page.locator(".sl-figure-box .sl-result")).to_contain_text("All 4 of your guesses are right")
    page.keyboard.press("n")
    expect(dark).to_have_count(1)  # the run beside the race would give it away
    keys = page.locator(".sl-lesson-keys")  # shown in front of a class, too
    for key in ("B", "N", "1", "Enter", "Space", "P"):
        expect(keys.locator("kbd", has_text=re.compile(f"^{key}$"))).to_be_in_viewport(ratio=1)
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Start the race")).to_be_focused()
    page.keyboard.press("Enter")
    result = page.locator(".sl-figure-box .sl-result")
    expect(result).to_contain_text("times as fast")
    assert float(result.get_attribute("data-ratio")) > 2
    clock = load(TRACES / "rewrite_ngram.json").finished.extra["speedup"]["median"]
    expect(result).to_contain_text(f"{clock:.2f} times as fast: in 16 passes instead of 54")  # as step five says
    expect(dark).to_have_count(0)
    expect(page.locator(".sl-figure-box")).to_be_in_viewport(ratio=1)
    page.keyboard.press("n")

    expect(page.locator(".sl-question")).to_be_in_viewport(ratio=1)
    page.keyboard.press("3")
    press(page, "Clear the votes")
    page.locator("#sl-lesson-title").focus()
    options = page.locator(".sl-option")  # each of thirty hands counts once
    page.evaluate(KEYS, ["1" * 12 + "2" * 8, False])
    for _ in range(10):
        options.nth(2).click()
    page.evaluate(KEYS, ["333", True])  # a key that is held down
    page.keyboard.press("b")  # a wrong key loses none of them
    expect(page.locator(".sl-lesson-where")).to_contain_text("Step 2")
    page.keyboard.press("n")
    for option, hands in zip(options.all(), (12, 8, 10), strict=True):
        expect(option).to_contain_text(f"{hands} hands")
    expect(page.locator(".sl-reply")).to_be_empty()
    page.locator("#sl-lesson-title").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    expect(page.locator(".sl-reply")).to_contain_text("12 of 30 hands had it.")
    page.keyboard.press("1")
    expect(options.first).to_contain_text("12 hands")  # the vote is over
    page.get_by_role("button", name="All lessons").click()
    expect(page.locator(".sl-lesson-part")).to_have_text(list(PARTS))


@pytest.mark.slow
def test_who_reads_alone_answers_a_vote_with_one_click(at_step):
    page = at_step("in_five_minutes", "The same text?")
    expect(page.locator(".sl-lesson-turn")).to_have_text("Your turn: make a guess.")
    page.keyboard.press("1")
    expect(page.locator(".sl-reply")).to_contain_text("You saw it coming.")


@pytest.mark.slow
def test_a_jump_over_many_rounds_shows_the_last_of_them(visit):
    """Sizes once changed a frame late with reduced motion, and the list stayed blank where it had jumped to."""
    page = visit("#lesson-acceptance_tau_speedup", reduced_motion="reduce")
    page.locator(".sl-dot").nth(1).click()
    page.get_by_label("Your guess").fill("67 %")
    page.keyboard.press("Enter")
    expect(page.locator("#lesson .sl-place")).to_contain_text("Round 32 of 32")
    last = page.locator('#lesson .sl-row[aria-label="Round 32"] .sl-token').last
    expect(last).to_be_in_viewport(ratio=0.99)  # nor cut by its frame


@pytest.mark.slow
def test_the_answer_comes_into_sight_and_the_run_stays_beside_it(at_step):
    page = at_step("draft_then_verify", "Step three: accept")
    page.set_viewport_size({"width": 1280, "height": 760})
    page.get_by_label("Your guess").fill("1")
    page.keyboard.press("Enter")
    run = ("#lesson .sl-rows", "#lesson .sl-bonus.sl-token[data-stage]")
    for place in (".sl-reply", ".sl-lesson-next", ".sl-question-text", *run):
        expect(page.locator(place).first).to_be_in_viewport(ratio=1)


@pytest.mark.slow
def test_formulas_words_and_lists_of_a_step_can_be_seen_and_heard(at_step):
    page = at_step("acceptance_tau_speedup")
    page.locator(".sl-dot").nth(2).click()
    formula = page.locator(".sl-lesson-body .sl-math").first
    expect(formula).to_have_attribute("aria-label", "(1 − α^(γ+1)) ÷ (1 − α)")
    wait_until_above(formula.locator(".sl-over > span").first, formula.locator(".sl-over > span").last)

    open_lesson(page, "memory_wall", 2)
    expect(page.locator("#lesson select").first).to_have_css("appearance", "auto")  # Gradio takes a list's arrow

    open_lesson(page, "draft_then_verify", 0)
    word = page.locator(".sl-word", has_text="target").first
    word.hover()
    expect(page.locator("#sl-define")).to_contain_text("The model whose text we want")
    word.focus()
    expect(word).to_have_attribute("aria-describedby", "sl-define")

    open_lesson(page, "one_token_differs", "Four questions")
    box = page.get_by_role("button", name="Source 1").bounding_box()
    assert min(box["width"], box["height"]) >= 22, "a finger finds it"
    page.get_by_role("button", name="Source 1").focus()
    expect(page.locator("#sl-define")).to_contain_text("seen November 2026. docs.vllm.ai")


@pytest.mark.slow
def test_a_tree_of_drafts_is_tried_by_hand(at_step):
    page = at_step("token_trees", "A small tree, by hand")
    tree = page.locator('#lesson .sl-row[aria-label="Round 2"]')
    expect(tree.locator(".sl-rejected")).to_have_count(1)  # the first sibling; the second is the question
    expect(tree.locator(".sl-accepted")).to_have_count(0)
    page.keyboard.press("1")
    expect(page.locator(".sl-reply")).to_contain_text("You saw it coming.")
    expect(tree.locator(".sl-accepted")).to_have_count(2)
    expect(tree.locator(".sl-bonus")).to_be_visible()


@pytest.mark.slow
def test_counting_tells_the_right_rules_from_the_broken_ones(at_step):
    """A right rule is beyond the noise once in a hundred times, a broken one nearly always. A mistake in one draft of a
    hundred is hidden by the noise of 10,000 draws, and a million find it."""
    page = at_step("is_it_lossless")
    page.locator(".sl-dot").nth(3).click()
    verdict = page.locator(".sl-rejection-tally .sl-result")

    def draws(rule: str, times: str = "10,000", repeats: int = 5) -> tuple[list[str], list[float]]:
        page.locator(".sl-pick select").select_option(label=rule)
        fair, accepted = [], []
        for _ in range(repeats):
            page.get_by_role("button", name=f"Draw {times}", exact=True).click()
            fair.append(verdict.get_attribute("data-fair"))
            accepted.append(float(verdict.get_attribute("data-accepted")))
        return fair, accepted

    for right in ("the right rule", "favourite, tested with q = 1", "favourite, accepted if p draws it too"):
        assert draws(right)[0].count("true") >= 3
    assert draws("q taken before temperature")[0].count("false") >= 4  # twice the noise away, on average
    assert draws("favourite, tested as if drawn", repeats=2) == (["false"] * 2, [1.0] * 2)
    for wrong in ("no residual: redraw from p", "typical acceptance: lossy on purpose"):
        assert draws(wrong, repeats=2)[0] == ["false"] * 2
    rare = "one draft in 100 accepted untested"
    assert "true" in draws(rare)[0] and draws(rare, "1,000,000", 1)[0] == ["false"]

    for word in ("sun", "rain", "wind"):
        page.get_by_label(f"q({word})").press("Home")  # something is always offered
    expect(page.get_by_label("q(wind)")).to_have_value("0.5")


@pytest.mark.slow
def test_the_printed_pages_and_the_projectors_are_one_click_away(at_step):
    page = at_step("draft_then_verify")
    page.locator(".sl-lesson-teacher summary").click()
    for link, place, text in (
        ("Print the whole lesson", "h2 >> nth=0", "For the teacher"),
        ("Print one page for the class", "h2 >> nth=0", "Words"),
        ("Open it for the projector", "body.sl-present #sl-lesson-title", "2. Draft, then verify"),
    ):
        with page.context.expect_page() as opened:
            page.get_by_role("link", name=link).click()
        expect(opened.value.locator(place)).to_have_text(text)
        opened.value.close()


@pytest.mark.slow
def test_a_browser_that_keeps_nothing_still_plays(visit):
    no_storage = "Object.defineProperty(window, 'localStorage', {get() { throw new Error('no') }})"
    page = visit("#lesson-draft_then_verify", init_script=no_storage)
    expect(page.locator("#sl-lesson-title")).to_have_text("2. Draft, then verify")
    page.keyboard.press("n")
    expect(title(page)).to_have_text("Step one: draft")


@pytest.mark.slow
def test_a_lesson_leads_to_the_lab_and_back(at_step):
    page = at_step("how_many_drafts", "Sweep it yourself")
    page.get_by_role("button", name="Open the lab: Sweep").click()
    expect(page.locator("#sweep-run")).to_be_visible()
    expect(page.locator(".sl-coach")).to_contain_text("Run the sweep")
    expect(page).to_have_url(re.compile("#lab-sweep$"))
    page.get_by_role("button", name="Back to the lesson").click()
    expect(page.locator("#sl-lesson-title")).to_contain_text("8. ")
    expect(page.locator(".sl-lesson-next")).to_have_text("Next")


@pytest.mark.slow
def test_coach_hides_nothing_on_a_phone_and_no_lab_tab_is_in_a_menu(at_step):
    page = at_step("draft_then_verify")
    page.set_viewport_size({"width": 390, "height": 844})
    page.locator('.sl-dot[title="Now a real one"]').click()
    page.get_by_role("button", name="Run it live").click()
    expect(page.locator("#settings.sl-glow")).to_be_in_viewport(ratio=1)  # it opens the drawer of γ
    wait_until_above(page.locator("#settings"), page.locator(".sl-coach"))
    expect(page.locator("#stage .sl-captions")).to_have_count(0)
    page.get_by_role("button", name="Back to the lesson").click()
    open_lesson(page, "is_it_lossless", 6)
    page.get_by_role("button", name="Open the lab: Is it lossless?").click()
    expect(page.locator("#lossless-json")).to_be_visible()
    for title in LABS.values():
        expect(page.locator("#lab-tabs").get_by_role("tab", name=title, exact=True)).to_be_visible()


@pytest.mark.parametrize(("width", "height"), [(1366, 768), (390, 844), (360, 640)])
def test_tabs_are_in_sight_when_a_page_opens_by_link_next_or_back(visit, width, height):
    page = visit("#minute", viewport={"width": width, "height": height}, reduced_motion="reduce")
    tab = page.locator("#lessons-tab-button:visible")

    def leave_top() -> None:
        page.evaluate("scrollTo(0, document.body.scrollHeight)")

    def opens(hash: str, shown: str) -> None:
        leave_top()
        page.evaluate("hash => { location.hash = hash; }", hash)
        expect(page.locator(shown)).to_be_visible()
        expect(tab).to_be_in_viewport(ratio=1)

    expect(page.locator(".sl-minute-go")).to_be_visible()
    expect(tab).to_be_in_viewport(ratio=1)
    opens("#rule", "#sl-rule-title")
    opens("#practice-417-tie", ".sl-practice-open .sl-options")
    opens("#practice-417-cache", ".sl-practice-open form")
    expect(page.locator(".sl-practice-open h3")).to_be_in_viewport(ratio=1)
    opens("#lesson-memory_wall", "#sl-lesson-title")
    for name in ("Next", "Skip", "Back"):
        leave_top()
        page.locator(".sl-lesson-nav").get_by_role("button", name=name).click()
        expect(tab).to_be_in_viewport(ratio=1)
    leave_top()
    page.go_back()
    expect(page.locator(".sl-practice-open form")).to_be_visible()
    expect(tab).to_be_in_viewport(ratio=1)
    opens("#lessons", ".sl-lesson-cards >> nth=0")

"""The tools to play with in the lessons work on the page."""

import json
import re

import pytest
from lesson_references import TEXTS, borders, pass_time
from page_actions import SLIDE, open_lesson
from playwright.sync_api import Page, expect

from app.lessons_tab.variables import variables_of
from engine.trace.speedup_model import expected_tokens
from engine.trace.trace import load
from lessons import bpe_demo
from lessons.schema import TRACES

pytestmark = pytest.mark.browser


def slide(page: Page, label: str, value: float) -> None:
    page.get_by_label(label).evaluate(SLIDE, value)


def chosen(page: Page):
    return page.locator(".sl-figure-box .sl-pick select")


def result(page: Page):
    return page.locator(".sl-figure-box .sl-result")


def every_slider_to_its_ends(page: Page) -> None:
    sliders = page.locator(".sl-figure-box input")
    expect(sliders).not_to_have_count(0)
    for key in ("End", "Home"):
        for each in sliders.all():
            each.press(key)
        assert "NaN" not in page.locator(".sl-figure-box").inner_text()


@pytest.mark.slow
def test_a_text_is_cut_by_both_and_what_is_left_of_the_draft_is_told(at_tool):
    page = at_tool("two_tokenizers", "Cut it twice")
    code, prose = (bpe_demo.tokenizer(name).get_vocab() for name in ("code", "prose"))
    shared = f"They share {len(code.keys() & prose.keys())}"
    expect(page.locator(".sl-figure-box > .sl-figure-note").last).to_contain_text(shared)
    expect(result(page)).to_have_text("4 drafted, 3 to test. “u” may be unfinished. In the whole text it is “ut”.")
    page.get_by_label("Tokens drafted").press("End")
    drafted, tested = min(20, bpe_demo.pieces("code", TEXTS[0])), bpe_demo.testable(TEXTS[0], 20)
    expect(result(page)).to_contain_text(f"{drafted} drafted, {tested} to test.")
    expect(page.locator(".sl-lesson-next")).to_have_text("Next")
    hostile, field = "<img src=x onerror=alert(1)> {{1+1}}", page.locator(".sl-figure-box").get_by_label("Your text")
    field.fill(hostile)
    page.keyboard.press("n")  # typed, and no way on
    text = hostile + "n"
    expect(field).to_have_value(text)
    expect(page.locator(".sl-tokenizer-pair")).to_have_count(len(borders("code", text) & borders("prose", text)))
    assert page.locator(".sl-figure-box img").count() == 0


@pytest.mark.slow
def test_the_near_tie_turns_in_bf16_and_not_in_fp32(at_tool):
    page = at_tool("one_token_differs", "Add it up yourself")
    told = lambda: json.loads(result(page).evaluate("node => JSON.stringify(node.dataset)"))  # noqa: E731
    assert int(told()["behind"]) > 0 and int(told()["ahead"]) > 0
    chosen(page).select_option(label="fp32")
    expect(result(page)).to_have_text("A wins in all 400 shuffled orders: no rounding reaches that far.")
    expect(page.locator(".sl-lesson-next")).to_have_text("Next")
    chosen(page).select_option(label="bf16")
    page.get_by_label("True lead of A").press("End")
    expect(result(page)).to_contain_text("A wins in all 400")
    page.keyboard.press("Home")
    expect(result(page)).to_contain_text("Neither really leads")
    assert sum(map(int, told().values())) == 400


@pytest.mark.slow
def test_tree_is_grown_by_keyboard_and_traffic_gives_a_command(at_tool):
    page = at_tool("token_trees", "Grow one")
    page.get_by_role("button", name="last token, 0 children; add one").press("Enter")
    expect(result(page)).to_contain_text("1.60 tokens expected from a pass over 2 rows: 1.52 ×")
    expect(page.get_by_role("button", name="last token, 1 child; add one")).to_be_focused()
    page = at_tool("turn_it_on", "Your command")
    lists = page.locator(".sl-figure-box").get_by_label
    for label, option, method in (
        ("Engine", "vLLM", "ngram"), ("You serve", "chat, reasoning, stories", "mtp"),
        ("You also have", "a head trained for the model", "eagle3"),
    ):  # fmt: skip
        lists(label).select_option(label=option)
        expect(page.locator(".sl-command")).to_contain_text(f'"method": "{method}"')
    expect(lists("Its block holds")).to_be_hidden()
    lists("You also have").select_option(label="a block drafter (DFlash)")
    for device, block, gamma in (("a GPU, few users", 16, 15), ("a GPU, many users", 16, 7), ("a CPU", 8, 3)):
        lists("It runs on").select_option(label=device)
        lists("Its block holds").select_option(label=f"{block} tokens")
        expect(page.locator(".sl-command")).to_contain_text(f'"num_speculative_tokens": {gamma}')
    lists("You also have").select_option(label="a small model of its family")
    expect(result(page)).to_contain_text("γ = 2. Try one as well")
    lists("You also have").select_option(label="a head trained for the model")
    lists("Engine").select_option(label="transformers")
    expect(page.locator(".sl-command")).to_be_hidden()
    expect(page.locator(".sl-figure-note").last).to_contain_text("no EAGLE head")


def test_draws_stack_up_to_p_and_redrawing_from_p_overshoots(at_tool):
    page = at_tool("accept_reject_resample", "See it stack up")
    stack, told = page.locator(".sl-stack"), page.locator(".sl-figure-box .sl-result").last
    expect(told).to_contain_text("Σ min(p, q) = 0.80")
    draw = page.get_by_role("button", name="Draw 200")
    for _ in range(5):
        draw.click()
    expect(told).to_contain_text("Counted in 1,000 draws")
    shares = re.findall(r"p ([\d.]+), out ([\d.]+)", stack.get_attribute("aria-label"))
    assert len(shares) == 3 and all(abs(float(p) - float(out)) < 0.08 for p, out in shares)  # five standard errors
    page.get_by_label("Replaced").select_option(label="from p (a mistake)")
    expect(page.locator(".sl-figure-box > .sl-figure-note")).to_contain_text("sun will overshoot by 0.04")
    page.get_by_label("Drafter").select_option(label="greedy or a copy: one word, q = 1")
    expect(told).to_contain_text("Σ min(p, q) = 0.20")  # p of that word
    page.locator(".sl-figure-box").get_by_label("Temperature").focus()
    page.keyboard.press("Home")
    expect(told).to_contain_text("Σ min(p, q) = 0.00")
    expect(page.locator(".sl-lesson-next")).to_have_text("Next")


def test_pass_gives_a_row_for_each_place_and_greys_those_after_rejection(at_tool):
    page = at_tool("draft_then_verify", "One pass, many places")
    rows, slots = page.locator(".sl-places tbody tr"), page.locator(".sl-slots li")
    states = lambda found: found.evaluate_all("all => all.map(each => each.dataset.state)")  # noqa: E731
    expect(page.get_by_role("button", name="Reject draft 1, rain")).to_be_disabled()
    page.get_by_role("button", name="Run the pass").press("Enter")
    expect(result(page)).to_contain_text("4 rows, 4 sets of probabilities")
    expect(page.locator(".sl-lesson-next")).to_have_text("Next")
    assert states(slots) == ["old", "old", *["new"] * 4]
    rows.nth(3).locator(".sl-place-name").focus()
    expect(page.locator(".sl-meter-number")).to_have_text(["0.30", "0.30", "0.40"])  # the target after wind
    page.get_by_role("button", name="Reject draft 2, sun").press("Space")
    assert states(rows) == ["accepted", "accepted", "rejected", "gone"]
    assert states(slots) == ["old", "old", "new", "new", "cut", "cut"]
    expect(page.locator(".sl-figure-box")).to_contain_text(
        "Resampled: rain 0.50, wind 0.50. The cache now holds 4 of 6"
    )
    memory = page.get_by_label("Its memory is")
    memory.select_option(label="one running state")
    assert states(slots) == ["cut"]
    expect(page.locator(".sl-figure-box")).to_contain_text("reads 2 tokens again")
    memory.select_option(label="one running state, saved at every place")
    assert states(slots) == ["cut", "new", "cut", "cut"]
    expect(page.locator(".sl-figure-box")).to_contain_text("goes on from the state it saved after “rain”")
    assert states(rows) == ["accepted", "accepted", "rejected", "gone"], "the same pass"
    memory.select_option(label="a slot for each token (attention)")
    page.get_by_role("button", name="Reject draft 2, sun").focus()
    page.keyboard.press("Space")
    assert states(rows) == ["accepted"] * 4
    chosen(page).first.select_option(label="a tree, two words a place")
    expect(rows).to_have_count(7)
    page.get_by_role("button", name="Run the pass").click()
    page.get_by_role("button", name="Reject draft 1, rain").click()
    assert states(rows) == ["accepted", "rejected", "accepted", "gone", "gone", "accepted", "branch"]


@pytest.mark.slow
def test_a_round_is_drawn_to_scale(at_tool):
    page = at_tool("why_is_mine_slower", "Fix it")
    speed = lambda: float(result(page).get_attribute("data-speedup"))  # noqa: E731
    widths = lambda: page.locator(".sl-ruler-bar").evaluate_all(  # noqa: E731
        "bars => bars.map(bar => [...bar.children].reduce((sum, each) => sum + each.getBoundingClientRect().width, 0))"
    )
    assert speed() < 0.9  # the lesson calls it much slower
    assert widths()[1] / widths()[0] == pytest.approx(speed(), rel=0.02)
    page.get_by_label("γ, tokens drafted").press("Home")
    expect(result(page)).to_have_text("1 token in 1 plain step: as fast as plain decoding.")
    expect(page.locator(".sl-lesson-next")).to_have_text("Next")
    every_slider_to_its_ends(page)


@pytest.mark.slow
def test_a_finished_game_can_be_sent_and_its_link_opens_the_same_text(at_tool):
    page = at_tool("easy_and_hard_text", "Be the drafter")
    chosen(page).first.select_option(label="A fact")
    options = page.locator(".sl-guess-options .sl-option")
    for _ in range(100):
        if not options.first.is_visible():
            break
        options.first.click()
    grid = page.locator(".sl-guess-grid")
    expect(grid).to_contain_text("tokens per pass on “A fact”")
    assert grid.inner_text().count("🟨") == page.locator(".sl-guess-text span:not(.sl-guess-accepted)").count()
    assert page.locator(".sl-guess-text s").count() == grid.inner_text().count("🟧") > 0  # the player's wrong guesses
    page.get_by_role("button", name="Copy it for a friend").click()
    expect(page.get_by_role("button", name=re.compile("Copied|Selected"))).to_be_visible()
    link = grid.inner_text().split()[-1]
    assert link.endswith("#lesson-easy_and_hard_text-guess-3")
    open_lesson(page, "draft_then_verify")
    page.evaluate("hash => { location.hash = hash; }", link.split("#")[1])
    expect(page.locator(".sl-dot[aria-current=step]")).to_have_attribute("title", "Be the drafter")
    expect(page.locator(".sl-figure-box .sl-pick select").first.locator("option:checked")).to_have_text("A fact")


@pytest.mark.slow
def test_a_device_is_kept_between_calculators(at_tool):
    page = at_tool("memory_wall", "The ceiling")
    lists = lambda label: page.locator(".sl-figure-box").get_by_label(label)  # noqa: E731
    own = lists("Device").locator("option", has_text="The machine of this run, measured")
    lists("Device").select_option(label=own.inner_text())
    lists("Model").select_option(label="Qwen3 8B")
    expect(result(page)).to_contain_text("slower than most people read")
    lists("Model").select_option(label="SmolLM2 135M")
    expect(result(page)).to_contain_text("as fast as most people read, or faster")
    lists("Device").select_option(label="H200: 141 GB at 4,800 GB/s")
    lists("Model").select_option(label="Qwen3 8B")
    lists("Precision").select_option(label="4-bit, half a byte")
    expect(result(page)).to_contain_text("Over 1,000 passes per second")

    open_lesson(page, "two_models_one_memory", "Does it fit?")
    expect(lists("Device").locator("option:checked")).to_have_text("H200: 141 GB at 4,800 GB/s")
    cache, draft_cache = (2 * layers * 8 * 128 * 2 * 8192 / 1e9 for layers in (36, 28))  # Qwen3 8B, Qwen3 0.6B
    lists("Draft model").select_option(label="Llama 3.2 1B")
    expect(page.locator(".sl-figure-box")).to_contain_text("A Llama 3 tokenizer does not fit a Qwen3 target")
    lists("Draft model").select_option(label="Qwen3 0.6B")
    expect(page.locator(".sl-figure-box")).not_to_contain_text("does not fit a")
    alone, both = (141 - 8.19 / 2) // cache, (141 - 8.19 / 2 - 0.596 * 2) // (cache + draft_cache)
    expect(page.locator(".sl-figure-box")).to_contain_text(f"{alone:.0f} without a draft model, {both:.0f} with it")

    open_lesson(page, "many_users", "Find the turning point")
    gain = lambda: float(result(page).get_attribute("data-gain"))  # noqa: E731
    tokens = expected_tokens(0.7, 4)

    def brings(users, free, experts=False):
        times = [pass_time(users * width, users, free, 0, experts) for width in (1, 5)]
        return pytest.approx(tokens * times[0] / times[1], abs=1e-3)

    expect(lists("Weights in").locator("option:checked")).to_have_text("4-bit")
    slide(page, "Users at once", 20)
    assert gain() == brings(20, 128 / 4)
    lists("Weights in").select_option(label="bf16")
    lists("Device").select_option(label="H200")
    lists("Layers").select_option(index=1)
    assert gain() == brings(20, 208, experts=True)
    every_slider_to_its_ends(page)


def test_rows_of_a_pass_are_spent_by_keyboard_and_the_surest_win(at_tool):
    page = at_tool("many_users", "One budget, many users")
    rate = lambda name: float(result(page).get_attribute(f"data-{name}"))  # noqa: E731
    plain = rate("plain")
    page.get_by_role("button", name="User 1, draft 2: the drafter is 0.94 sure").press("Enter")
    expect(page.locator(".sl-budget-card[aria-pressed=true]")).to_have_count(2)  # and the one before it
    expect(page.locator('[data-card="0.1"]')).to_be_focused()
    assert rate("mine") > plain == rate("plain")
    page.get_by_role("button", name="The surest first").press("Enter")
    assert rate("mine") == rate("surest") > rate("same") > plain
    expect(page.locator(".sl-lesson-next")).to_have_text("Next")
    for users, won in ((2, True), (24, False)):
        slide(page, "Users at once", users)
        assert (rate("surest") > rate("plain")) is won
    every_slider_to_its_ends(page)


def test_two_answers_part_at_the_token_that_is_pressed(at_tool):
    page = at_tool("one_token_differs", "One that parts")
    press = lambda place: page.locator(f'.sl-parting-token[data-place="{place}"]').last.click()  # noqa: E731
    press(0)
    expect(result(page)).to_contain_text("The difference comes later")
    press(7)
    expect(result(page)).to_contain_text("not the first")
    press(1)
    expect(result(page)).to_contain_text("“answer” without drafts, “sky” with them")
    expect(result(page)).to_contain_text("0.000 apart, with drafts 0.125")
    expect(page.locator(".sl-parting-token[data-parts]")).to_have_count(2)


@pytest.mark.slow
def test_json_is_written_pass_by_pass_and_each_mistake_breaks_it(at_tool):
    page = at_tool("json_and_tools", "How many masks?")
    rules = page.locator(".sl-figure-box .sl-pick option").all_inner_texts()
    for rule in rules:
        chosen(page).select_option(label=rule)
        for _ in range(6):
            if page.get_by_role("button", name="Start over").count():
                break
            page.get_by_role("button", name="Next pass").press("Enter")
        is_right = rule.startswith("the right masks")
        expect(result(page)).to_have_attribute("data-broken", str(not is_right).lower())
        expect(result(page)).to_contain_text('Valid: {"ok":true,"n":7}' if is_right else "isn’t JSON")
    assert len(rules) == 6
    expect(page.locator(".sl-masks tbody tr")).not_to_have_count(0)
    page.keyboard.press("3")  # the question of the step
    expect(page.locator(".sl-reply")).to_contain_text("the mask belongs to the row")


@pytest.mark.slow
def test_grey_bars_are_matched_to_prompts_and_defences_hide_them(at_tool):
    page = at_tool("unknown_runs", "What the wire tells")
    expect(page.locator(".sl-lesson-stage[data-dark]")).to_have_count(1)  # the run's text would tell
    boxes = page.locator(".sl-bursts")
    heights = lambda: boxes.evaluate_all(  # noqa: E731
        "all => all.map(box => [...box.children].map(bar => Number(bar.style.getPropertyValue('--at'))))"
    )
    seen = heights()
    runs = {
        "Correct the spelling in this note.": "rewrite_ngram",
        "Write a Python class Stack.": "code_ngram",
        "Tell a short story.": "story_ngram",
        "Correct the same note, on a server without drafts.": "rewrite_plain",
    }
    bursts = {prompt: variables_of(load(TRACES / f"{name}.json"))["bursts"] for prompt, name in runs.items()}
    lists = page.locator(".sl-bursts-guess select")
    for i, each in enumerate(seen):
        lists.nth(i).select_option(label=next(prompt for prompt, row in bursts.items() if row == each))
    expect(result(page)).to_have_text("4 of 4 right, without one letter of text.")
    expect(page.locator(".sl-lesson-next")).to_have_text("Next")
    lists.nth(0).select_option(index=0)
    expect(result(page)).to_contain_text("3 of 4")
    for label in ("pad every packet to the largest", "send one token in the time of a pass"):
        page.get_by_label("Defence").select_option(label=label)
        assert len({height for row in heights() for height in row}) == 1
        expect(page.locator(".sl-figure-box")).to_contain_text("Price: ")


@pytest.mark.slow
def test_reports_are_judged_one_after_the_other_and_once_more(at_tool):
    page = at_tool("one_token_differs", "Test your own engine")
    box = page.locator(".sl-figure-box")
    for number, name in enumerate(("Only ties", "Only ties", "A bug", "A bug", "A bug"), 1):
        expect(box).to_contain_text(f"Report {number} of 5.")
        page.get_by_role("button", name=name).press("Enter")
        expect(result(page)).to_contain_text("Right." if number < 5 else "It is “Too little to say”")
        page.get_by_role("button", name="Next report" if number < 5 else "Once more").press("Enter")
    expect(box).to_contain_text("Report 1 of 5.")
    for name in ("A bug", "Only ties"):  # the first answer counts
        page.get_by_role("button", name=name).press("Enter")
    expect(result(page)).to_contain_text("It is “Only ties”")
    for _ in range(4):
        page.get_by_role("button", name="Next report").press("Enter")
        page.get_by_role("button", name="A bug").press("Enter")
    expect(box).to_contain_text("You got 2 of 5 right.")  # counted from the beginning again


def test_the_block_heads_round_is_played_beside_the_others(at_tool):
    page = at_tool("heads_and_blocks", "The target drafts for itself")
    page.get_by_role("button", name="block head", exact=True).press("Enter")
    for name in ("Let it guess", "Let the target test"):
        page.get_by_role("button", name=name).press("Enter")
    expect(result(page)).to_contain_text("1 of 4 accepted, so 2 tokens.")
    page = at_tool("who_guesses", "Three ways to guess")
    expect(page.locator(".sl-drafter-tab")).to_have_text(["n-gram lookup", "small model", "EAGLE"])


@pytest.mark.slow
def test_the_bill_adds_up(at_tool):
    page = at_tool("turn_it_on", "The bill")
    good, bad = (float(page.get_by_label(f"Speedup on {kind} text").input_value()) for kind in ("easy", "hard"))
    assert good > 2 and bad < 0.9  # the lesson's two runs, to two digits

    def cost(share, well, badly):
        return 2 / 3600 / 50 * 1e6 * ((1 - share) / well + share / badly)

    slide(page, "Share of tokens that are hard to guess", 0.3)
    for policy, pair in (("always", (good, bad)), ("never", (1, 1)), ("off for hard text", (good, 1))):
        chosen(page).select_option(label=policy)
        expect(result(page)).to_contain_text(f"a million tokens cost {cost(0.3, *pair):.2f}")
    expect(page.locator(".sl-lesson-next")).to_have_text("Next")
    turn = (1 - 1 / good) / (1 / bad - 1 / good)  # there a token takes as long as a plain one
    chosen(page).select_option(label="always")
    for share, words in ((turn + 0.03, "more than without drafts"), (turn - 0.03, "less than without drafts")):
        slide(page, "Share of tokens that are hard to guess", round(share, 2))
        expect(result(page)).to_contain_text(words)

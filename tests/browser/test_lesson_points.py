"""Each step of a lesson is done with its tool as it asks: the number moves as the step says."""

import re

import pytest
from page_actions import SLIDE
from playwright.sync_api import Page

pytestmark = pytest.mark.browser


def press(*names: str):
    """Presses buttons of the step's tool, one after the other."""
    return lambda page: [
        page.locator(".sl-figure-box").get_by_role("button", name=name).first.click() for name in names
    ]


def move(**values: float):
    """Moves sliders of the step's tool, by the beginning of their labels."""

    def act(page: Page) -> None:
        for label, value in values.items():
            row = page.locator(".sl-figure-box .sl-slide").filter(has_text=re.compile(f"^{LABELS.get(label, label)}"))
            row.locator("input").evaluate(SLIDE, value)

    return act


def fill_in(label: str, value: str):
    return lambda page: page.locator(".sl-figure-box").get_by_label(label).fill(value)


def choose(label: str, option: str):
    return lambda page: page.locator(".sl-figure-box").get_by_label(label).select_option(label=option)


def answer(option: str):
    """Answers the step's question."""
    return lambda page: page.locator(".sl-options").get_by_role("button", name=option).click()


def data(name: str, place: str = ".sl-result"):
    """A number that the tool has written into its result."""
    return lambda page: float(page.locator(f".sl-figure-box [data-{name}]{place}").get_attribute(f"data-{name}"))


def shown(pattern: str):
    """A number in the text of the tool."""
    return lambda page: float(re.search(pattern, page.locator(".sl-figure-box").inner_text(), re.S)[1].replace(",", ""))


CAME_OUT = shown(r"wind, came out\s+([\d.]+)")
LABELS = {"alpha": "α", "gamma": "γ", "c": "c, cost", "extra": "extra cost", "eps": "Threshold", "q_wind": r"q\(wind\)"}
PASSES, FAVOURITE = shown(r"([\d.,]+) passes per second"), shown(r"comes in ([\d.]+)")


# Lesson, step, [(an action, a reading after it)], and the condition on the readings that shows the point of the step.
STEPS = [
    ("memory_wall", "Read once, used by many",
     [(move(W=1), data("time")), (move(W=5), data("time")),
      (choose("Machine", "H100 SXM, by its data sheet"), data("time"))],
     lambda one, five, large: one == 1 < five < 3 and large == 1),
    ("memory_wall", "The ceiling",
     [(choose("Model", "SmolLM2 135M"), PASSES), (choose("Model", "Qwen3 8B"), PASSES)],
     lambda small, large: small > 10 * large),
    ("accept_reject_resample", "Where the probabilities come from",
     [(move(Temperature=0.5), FAVOURITE), (move(Temperature=0.9), FAVOURITE)],
     lambda cold, warm: cold > warm + 0.05),
    ("is_it_lossless", "Count",
     [(press("Draw 10,000"), data("accepted")), (move(q_wind=10), None), (press("Draw 10,000"), data("accepted")),
      (press("Draw 10,000"), CAME_OUT)],
     lambda good, bad, wind: bad < good - 0.2 and 0.08 < wind < 0.12),
    ("is_it_lossless", "Lossy on purpose",
     [(press("Draw 10,000"), CAME_OUT), (move(eps=0.15), None), (press("Draw 10,000"), CAME_OUT)],
     lambda often, never: often > 0.17 and never == 0),
    ("acceptance_tau_speedup", "Build the formula",
     [(press("τ,"), data("value")), (press("v(γ + 1)", "v(γ + 1)"), data("value")),
      (press("γ · c", "γ · c"), data("value")), (press("overhead", "overhead"), data("value"))],
     lambda tokens, free_drafts, right, clock: tokens > free_drafts > right > clock > 1),
    ("how_many_drafts", "Move the costs",
     [(move(), data("best", "")), (move(extra=0), data("best", "")), (move(extra=0.05, alpha=0.3), data("best", "")),
      (move(extra=0), data("best", ""))],
     lambda best, free, low, low_free: best + 2 <= free and low_free - low <= 1),
    ("easy_and_hard_text", "And with temperature?",
     [(answer("The speed"), None), (move(Temperature=1), data("alpha")), (press(), data("speed")),
      (choose("Drafter", "small model"), data("speed"))],
     lambda alpha, head, small: (alpha, head, small) == (3, 6, 5)),
    ("easy_and_hard_text", "Six kinds of text",
     [(press("Show what was measured"), lambda page: page.locator(".sl-kinds-dots").count()),
      (press(), lambda page: page.locator(".sl-kinds-dots i:not(.sl-kinds-plain)").count())],
     lambda cells, dots: (cells, dots) == (18, 18 * 8)),
    ("why_is_mine_slower", "Fix it",
     [(move(), data("speedup")), (move(gamma=1), data("speedup")), (move(gamma=8, c=0), data("speedup")),
      (move(alpha=0.9), data("speedup"))],
     lambda run, one, free, good: run < 0.9 and one > run + 0.1 and run < free and good > 2),
    ("token_trees", "Who sees whom?",
     [(press("Run the pass"), None), (press("Reject draft 1"), shown(r"(\d+) more rows assume"))],
     lambda useless: useless == 2),
    ("token_trees", "Grow one",
     [(move(Cost=0), None), (press("Best shape"), data("words")), (move(Cost=0.2), None),
      (press("Best shape"), data("words")), (press("Best shape"), lambda page: page.locator(".sl-grow-word").count())],
     lambda free, costly, words: free > 2 * costly and words == costly + 1),
    ("two_models_one_memory", "Does it fit?",
     [(choose("Device", "H200: 141 GB at 4,800 GB/s"), data("alone", "")),
      (move(**{"Tokens of text": 131072}), data("alone", "")), (move(), data("both", ""))],
     lambda short, long, both: short > 4 * long and both < long),
    ("two_models_one_memory", "Before the first token",
     [(move(**{"Tokens of the answer": 100}), data("speedup")),
      (move(**{"Tokens of the answer": 400}), data("speedup")),
      (lambda page: page.get_by_label("the prompt is in the cache").check(), data("speedup")),
      (lambda page: page.get_by_label("a hybrid model").check(), data("speedup"))],
     lambda short, longer, cached, lost: short < 0.96 and 0.99 < longer < 1.01 < cached and lost < 0.7),
    ("turn_it_on", "Ten minutes",
     [(move(), data("whole")), (fill_in("Tokens a second with drafts", "48"), data("whole"))],
     lambda gain, loss: gain > 1 > loss),
    ("many_users", "Find the turning point",
     [(choose("Device", "as set above"), data("gain")), (move(Users=64), data("gain")), (move(Users=200), data("gain")),
      (move(alpha=0.4), data("gain"))],
     lambda one, some, many, hard: one > 2 > some > many and hard < many),
    ("many_users", "Experts",
     [(move(Drafts=4), data("ratio")), (move(Users=30), data("ratio")), (move(Users=200), data("ratio"))],
     lambda one, thirty, crowd: one > 2 > thirty > crowd and crowd < 1.05),
    ("many_users", "Long texts pull both ways",
     [(choose("Device", "as set above"), data("gain")), (move(**{"Tokens of text": 0}), data("gain")),
      (move(**{"Tokens of text": 32768}), data("gain")), (move(alpha=0.2), data("gain"))],
     lambda long, short, longer, doubtful: longer >= long > short + 0.5 and doubtful < longer - 1),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lesson", "titled", "actions", "holds"), STEPS, ids=lambda each: each if isinstance(each, str) else ""
)
def test_what_a_step_asks_for_shows_its_point(at_tool, lesson, titled, actions, holds):
    page, readings = at_tool(lesson, titled), []
    for act, read in actions:
        act(page)
        if read:
            readings.append(read(page))
    assert holds(*readings), readings

"""Theory in a real browser: its formulas are the engine's, and everything follows the sliders at once."""

import itertools
import re

import pytest
from page_actions import open_lab
from player_page import page_with
from playwright.sync_api import Page, expect

from engine.tools.bench.winners import break_even
from engine.trace.speedup_model import best_gamma, expected_tokens, idealised_speedup

pytestmark = pytest.mark.browser
MEASURED = {1: 1.0, 2: 1.06, 3: 1.05, 4: 1.3, 6: 1.2, 8: 1.7, 16: 2.9}
COSTS = [MEASURED, {1: 1.0, 2: 1.08}, {1: 1.0}, {1: 1.0, 2: 1.0, 32: 1.0}, {2: 1.1, 4: 1.3}]


@pytest.fixture(scope="module")
def script(browser):
    """The formulas alone on an empty page; gives a way to ask for many values at once."""
    with page_with(browser, "lib/speedup_model.js") as page:
        yield lambda name, grid: page.evaluate(
            "([name, grid]) => grid.map(args => window[name](...args))", [name, [list(args) for args in grid]]
        )


ALPHAS = [0, 1e-9, 0.1, 0.25, 0.5, 0.77, 0.9, 0.99, 1]
DRAFTS = [0, 0.03, 0.1, 0.5, 1, 1.4]


def as_object(v: dict) -> dict:
    return {str(width): cost for width, cost in v.items()}


def test_tokens_speedups_and_the_best_length_are_the_engines(script):
    grid = list(itertools.product(ALPHAS, range(17)))
    assert script("expectedTokens", grid) == pytest.approx([expected_tokens(*args) for args in grid], rel=1e-12)
    for v in COSTS:
        grid = list(itertools.product(ALPHAS, range(17), DRAFTS))
        found = script("idealisedSpeedup", [(a, g, c, as_object(v)) for a, g, c in grid])
        assert found == pytest.approx([idealised_speedup(a, g, c, v) for a, g, c in grid], rel=1e-12)
        grid = list(itertools.product(ALPHAS, DRAFTS))
        found = script("bestGamma", [(a, c, as_object(v), 16) for a, c in grid])
        assert found == [best_gamma(a, c, v, 16) for a, c in grid]
        assert len(set(found)) > 2 or len(v) < 3, "a grid on which nothing changes tests nothing"


def test_break_even_and_the_border_of_the_map_are_the_engines(script):
    for v in COSTS:
        grid = list(itertools.product(range(1, 17), DRAFTS))
        found = script("breakEven", [(g, c, as_object(v)) for g, c in grid])
        expected = [break_even(g, c, v) for g, c in grid]
        assert [x is None for x in found] == [x is None for x in expected]
        assert [x for x in found if x is not None] == pytest.approx([x for x in expected if x is not None], abs=1e-9)
    for v, alpha in itertools.product(COSTS[:3], ALPHAS[2:]):
        (border,) = script("highestPayingCost", [(alpha, as_object(v), 16)])
        assert best_gamma(alpha, border + 1e-6, v, 16) == 0, "beyond it no length pays"
        assert border < 1e-6 or best_gamma(alpha, border - 1e-6, v, 16) > 0


@pytest.fixture
def theory(page) -> Page:
    open_lab(page, "Theory")
    expect(page.locator("[data-plot=gamma] svg")).to_be_visible()
    return page


def put(page: Page, **values) -> None:
    for name, value in values.items():
        page.locator(f".sl-theory [name={name}]").fill(str(value))


@pytest.mark.slow
def test_sliders_move_by_keyboard_and_by_dragging_in_the_pictures(theory):
    page = theory
    page.locator(".sl-theory [name=gamma]").press("ArrowRight")
    expect(page.locator("[data-fill=gamma]").first).to_have_text("5")
    page.locator(".sl-theory-reset").press("Enter")
    expect(page.locator("[data-fill=gamma]").first).to_have_text("4")

    box = page.locator("[data-plot=map]")
    width = box.bounding_box()["width"]
    box.drag_to(box, source_position={"x": width * 0.3, "y": 100}, target_position={"x": width * 0.9, "y": 200})
    for name, between in (("alpha", r"0\.(8[1-9]\d*|9([0-4]\d*)?)$"), ("c", r"0\.(1[1-9]\d*|[2-4]\d*)$")):
        expect(page.locator(f".sl-theory [name={name}]")).to_have_value(re.compile(f"^{between}"))
    page.locator("[data-plot=gamma]").click(position={"x": 50, "y": 150})
    expect(page.locator(".sl-theory [name=gamma]")).to_have_value("1")


SIGNS = {"★": ".sl-best", "◆": ".sl-run-measured", "◇": ".sl-run-predicted", "●": ".sl-point.sl-gamma-1",
         "■": ".sl-point.sl-gamma-2", "▲": ".sl-point.sl-gamma-4", "▼": ".sl-point.sl-gamma-8"}  # fmt: skip


@pytest.mark.parametrize("alpha", [0.7, 0.33])  # where the recording has points, and where it has none
def test_captions_name_the_marks_that_are_drawn_and_no_other(theory, alpha):
    put(theory, alpha=alpha)
    expect(theory.locator("[data-fill=alpha]").first).to_have_text(f"{alpha:.2f}")
    for name in ("gamma", "alpha"):
        chart = theory.locator(f'[data-chart-of="{name}"]')
        drawn = {sign for sign, mark in SIGNS.items() if chart.locator(f"svg {mark}").count()}
        caption = chart.locator("figcaption").inner_text()
        assert {sign for sign in SIGNS if sign in caption} == drawn, name


def test_chart_texts_grow_in_a_presentation(theory):
    text = theory.locator('[data-plot="gamma"] .sl-tag').last
    sizes = []
    for key in ("p", "p"):
        sizes.append(text.evaluate("node => parseFloat(getComputedStyle(node).fontSize)"))
        theory.locator(".sl-theory-sentence").click()
        theory.keyboard.press(key)
    assert sizes[0] == 13 and sizes[1] >= 17


@pytest.mark.slow
def test_the_recorded_exits_are_drawn_with_a_sentence(theory):
    chart = theory.locator('[data-chart="exits"]')
    chart.scroll_into_view_if_needed()
    expect(chart).to_have_attribute("data-drawn", "3")
    expect(chart.locator("figcaption")).to_contain_text("The stars: a small head")


@pytest.mark.slow
def test_everything_follows_the_sliders_without_the_server(theory):
    page = theory
    page.locator(".sl-theory-reset").click()  # from the recorded costs to a straight line
    page.route("**/*", lambda route: None)  # from here on no answer comes, so no other test has this page
    put(page, alpha=0.8, gamma=5, c=0.2, slope=0.1)
    v = {1: 1.0, 2: 1.1}
    speedup = idealised_speedup(0.8, 5, 0.2, v)
    expect(page.locator("[data-fill=speedup]")).to_have_text(f"{speedup:.2f}×")
    expect(page.locator("[data-fill=tokens]").last).to_have_text(f"{expected_tokens(0.8, 5):.2f}")
    best, start = best_gamma(0.8, 0.2, v, 16), break_even(5, 0.2, v)
    words = page.locator(".sl-theory-sentence")
    expect(words).to_contain_text(f"{speedup:.2f}× as fast as plain decoding")
    expect(words).to_contain_text(f"Best would be γ = {best}, {idealised_speedup(0.8, best, 0.2, v):.2f}×")
    expect(words).to_contain_text(f"pays from α = {start:.2f} on")
    expect(page.locator("[data-plot=gamma]")).to_have_attribute("aria-label", re.compile(f"best at {best}"))
    put(page, alpha=0.1, c=0.9)
    expect(words).to_contain_text("slower than plain decoding. At this α no draft length pays.")


CURVE = "1 1.05 1.2 1.4 2"


def give_curve(page: Page, text: str) -> None:
    """Gives a text as the v(W) of another machine."""
    box = page.locator("#theory-own-curve")
    if not box.locator("textarea").is_visible():
        box.locator("summary").click()
    box.locator("textarea").fill(text)
    box.get_by_role("button", name="Use this curve").click()


@pytest.mark.slow
def test_a_curve_of_ones_own_moves_everything_and_outlasts_a_reload(visit):
    page = visit(fresh=True)
    open_lab(page, "Theory")
    box = page.locator("#theory-own-curve")
    give_curve(page, "1 1.2 1.1 1.5 2")
    expect(box.get_by_role("alert")).to_contain_text("Line 1: a pass over 4 rows takes 0.92 times as long")
    expect(box.locator(".sl-own-curve-now")).to_be_hidden()
    give_curve(page, CURVE)
    expect(box.get_by_role("status")).to_contain_text("your numbers: v(2) = 1.05, v(4) = 1.20")
    expect(box.get_by_role("alert")).to_be_hidden()

    def expect_own() -> None:
        expect(page.get_by_role("radio", name="as on your own machine")).to_be_checked()
        put(page, alpha=0.7, gamma=3, c=0.1)
        speedup = idealised_speedup(0.7, 3, 0.1, {1: 1.0, 2: 1.05, 4: 1.2})
        expect(page.locator("[data-fill=scoring]").first).to_have_text("1.20")
        expect(page.locator("[data-fill=speedup]")).to_have_text(f"{speedup:.2f}×")

    expect_own()
    page.reload()
    open_lab(page, "Theory")
    expect_own()
    page.get_by_role("button", name="Back to the default").locator("visible=true").click()
    expect(page.get_by_role("radio", name="as on your own machine")).to_be_hidden()
    expect(page.get_by_role("radio", name="a straight line")).to_be_checked()
    page.reload()
    open_lab(page, "Theory")
    expect(page.locator("[data-plot=gamma] svg")).to_be_visible()
    expect(page.get_by_role("radio", name="as on your own machine")).to_be_hidden()

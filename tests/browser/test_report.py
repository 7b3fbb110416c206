"""My report: what a learner did, as a page and as data, made in the browser from its own runs, files and storage."""

import json
import re

import pytest
from page_actions import OVERFLOW, click_until, downloaded, open_lesson, run, saved, violations
from playwright.sync_api import expect
from reported_visit import LESSON, NAME, RULE, STEP, make_guess, write_rules

from engine.trace.metrics import compute_metrics
from engine.trace.trace import from_json, load
from lessons.loader import lessons
from lessons.schema import TRACES

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("static-site")]
RUN = TRACES / "code_lm.json"


def save_by_button(page, button: str) -> str:
    return downloaded(page.get_by_role("button", name=button))


def test_a_report_has_name_lessons_guesses_exercises_and_runs(open_offline, site, tmp_path):
    page = open_offline(site, several=True, viewport={"width": 390, "height": 844})
    make_guess(page)
    page.evaluate("""localStorage.setItem('speclens-practice',
        JSON.stringify({ version: 1, kinds: { best_gamma: { right: 2, first: 1, tries: 4 } }, sets: [
          { seed: 417, answers: { best_gamma: { text: '6.5', tries: 3, hints: 1, end: '' } } }] }))""")
    write_rules(page, ("p / q", "p", "p"), RULE, ("p / q", "q", "p"))  # a wrong one after it takes nothing back
    box = page.locator(".sl-own-report")
    box.locator("summary").click()
    box.get_by_label("Name").fill(NAME)
    box.get_by_label("In my own words").fill("Guesses cost time,\nnever words.")
    box.get_by_label("My runs").set_input_files([site, RUN])  # the first isn’t a trace
    expect(box.get_by_role("status")).to_contain_text("index.html isn’t a saved trace.")
    expect(box.locator("li")).to_have_text(re.compile("code_lm.json"))
    assert page.evaluate(OVERFLOW) <= 0 and violations(page, ".sl-own-report") == []

    data = json.loads(save_by_button(page, "Save it as data (JSON)"))
    assert (data["kind"], data["version"], data["name"]) == ("speclens-report", 1, NAME)
    (lesson,) = data["lessons"]
    assert lesson["lesson"] == LESSON and lesson["guesses"][0]["guess"] == "20"
    (known,) = [each for each in lessons() if each.slug == LESSON]
    assert (lesson["steps"], lesson["of"]) == (1, len(known.steps) + 1)  # with the questions, as the lesson counts
    assert data["exercises"] == {"best_gamma": {"right": 2, "first": 1, "tries": 4}}
    assert data["sets"][0]["seed"] == 417
    assert data["rules"] == [{"rule": "The rule in three holes", "texts": list(RULE), "isRight": True}]
    (run,), metrics = data["runs"], compute_metrics(load(RUN))
    assert from_json(json.dumps(run["trace"])) == load(RUN)
    assert run["alpha"] == pytest.approx(metrics.alpha.value) and run["tau"] == pytest.approx(metrics.tau.value)

    path = tmp_path / "report.html"
    path.write_text(save_by_button(page, "Save my report (HTML)"), encoding="utf-8")
    report = open_offline(path)
    expect(report.locator("h1")).to_have_text(f"SpecLens: the report of {NAME}")
    numbers = (f"α = {metrics.alpha.value:.2f}", f"τ = {metrics.tau.value:.2f}")
    guesses = "0 lessons finished; 1 of 1 first guess right."
    for words in (guesses, "never words.", "The best γ", "417The best γ6.531✗", "; ".join(RULE), *numbers):
        expect(report.locator("body")).to_contain_text(words)
    assert (
        report.locator("script:not([type='application/json'])").count() == 0 and report.evaluate("window.pwned") is None
    )
    assert violations(report) == []
    assert from_json(downloaded(report.get_by_role("link", name="Save its trace"))) == load(RUN)


def test_first_guess_counts_and_forgetting_takes_it_along(open_offline, site):
    page = open_offline(site, several=True)
    stored = "JSON.parse(localStorage.getItem('speclens-guesses'))"
    page.evaluate("localStorage.setItem('speclens-rules', JSON.stringify({ mine: { texts: ['p'], isChecked: true } }))")
    field, reveal = page.locator(".sl-guess input"), page.get_by_role("button", name="Reveal")
    open_lesson(page, LESSON, STEP)
    field.fill("20")
    reveal.click()
    open_lesson(page, LESSON, STEP + 1)
    open_lesson(page, LESSON, STEP)
    expect(field).to_have_value("20")  # it stays given
    page.evaluate(f"localStorage.setItem('speclens-lessons', JSON.stringify({{ {LESSON}: {{ over: true }} }}))")
    page.reload()  # a finished lesson begins again
    open_lesson(page, LESSON, STEP)
    field.fill("500")
    reveal.click()
    assert [each["guess"] for each in page.evaluate(stored)[LESSON]["asks"].values()] == ["20"]
    page.get_by_role("button", name="All lessons").click()
    page.get_by_role("button", name="Clear my progress").click()
    assert page.evaluate(stored) == {} and page.evaluate(stored.replace("guesses", "rules")) == {}


def test_runs_of_this_page_are_in_the_report_without_a_file(visit):
    page = visit()
    traces = []
    for count, prompt in enumerate(("The first text", "A second one"), 1):
        click_until(page.get_by_role("tab", name="Playground"), "[aria-selected=true]")
        run(page, prompt=prompt)
        traces.append(json.loads(saved(page, "trace-file")))
        click_until(page.get_by_role("tab", name="Lessons"), "[aria-selected=true]")
        box = page.locator(".sl-own-report")
        if count == 1:
            box.locator("summary").click()
        expect(box.locator("li")).to_have_count(count)
        expect(box.locator("li").last).to_contain_text(prompt)
    told = json.loads(save_by_button(page, "Save it as data (JSON)"))["runs"]
    assert [each["trace"] for each in told] == traces
    box.get_by_role("button", name="Leave out").first.click()
    (left,) = json.loads(save_by_button(page, "Save it as data (JSON)"))["runs"]
    assert left["prompt"] == "A second one" and left["trace"] == traces[1]


def test_an_answer_that_was_chosen_is_reported_in_its_words(open_offline, site):
    page = open_offline(site, several=True)
    page.evaluate("location.hash = '#practice-417-tie'")
    options = page.locator(".sl-practice-open .sl-option")
    expect(options).to_have_count(2)
    chosen = options.nth(1).inner_text()
    options.nth(1).click()
    expect(page.locator(".sl-practice-open .sl-reply")).not_to_be_empty()
    page.get_by_role("button", name="All lessons").click()
    page.locator(".sl-own-report > summary").click()
    (answers,) = json.loads(save_by_button(page, "Save it as data (JSON)"))["sets"]
    assert answers["answers"]["tie"]["text"] == chosen
    assert chosen in save_by_button(page, "Save my report (HTML)")

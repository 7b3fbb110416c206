"""The exercises with new numbers: the page draws and grades them, and Python evaluates the same expressions."""

import re

import pytest
from page_actions import OVERFLOW, check_light_and_dark
from player_page import page_with
from playwright.sync_api import Page, expect

from app.lessons_tab import practice
from engine.tools.servers.log_reader import report
from engine.trace.speedup_model import idealised_speedup, predicted_speedup
from lessons import expressions
from lessons.exercises import FUNCTIONS, evaluate, exercises
from lessons.loader import glossary

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("static-site")]
KINDS = practice.page(glossary())["kinds"]
DRAW = """([kinds, seeds]) => seeds.map(seed => kinds.map(kind => {
  const { scope, within, mistakes } = drawExercise(kind, seed);
  return { seed, name: kind.name, scope, within, mistakes: mistakes.map(({ value }) => value),
    shown: kind.show.map(line => fillLine(line, scope).map(([, text]) => text).join('')) };
}))"""
# The faults of the exercises of some seeds: the key's answer is wrong, a mistake is right or has no sentence, a given
# number is the answer, or a number is none.
FAULTS = """([kinds, seeds]) => seeds.flatMap(seed => kinds.flatMap(kind => {
  const exercise = drawExercise(kind, seed), { scope, answer, within, mistakes } = exercise, faults = [];
  const say = words => faults.push(`${kind.name} ${seed}: ${words}`);
  if (!Object.values(scope).every(Number.isFinite)) say('not a number');
  if (kind.options.length) return faults;
  if (!(answer > 0)) say(`the answer is ${answer}`);
  if (!judge(exercise, answer.toFixed(kind.digits))?.isRight) say('the key is wrong');
  if (kind.reads === 'share' && !(answer < 0.98)) say('nearly certain');
  for (const { value, says } of mistakes) {
    const verdict = judge(exercise, String(value));
    if (!verdict || verdict.isRight) say(`the mistake ${value} is right`);
    else if (!verdict.says.some(([, text]) => text === fillLine(says, scope)[0][1])) say(`${value} is unnamed`);
  }
  for (const piece of kind.text.filter(([style, text]) => style === 'sum' && text in scope))
    if (Math.abs(scope[piece[1]] - answer) <= within) say(`the text shows the answer as ${piece[1]}`);
  const words = [kind.text, ...kind.hints, kind.explain].flatMap(line => fillLine(line, scope)).map(([, text]) => text);
  if (/NaN|undefined|Infinity|\\d{9}/.test(words.join(' '))) say(words.join(''));
  return faults;
}))"""


@pytest.fixture(scope="module")
def numbers(browser):
    with page_with(browser, "lessons/practice/practice_numbers.js", "lessons/tools/batching.js") as page:
        yield page


@pytest.fixture(scope="module")
def drawn(numbers) -> list[dict]:
    """Every kind for 200 seeds."""
    return [one for seed in numbers.evaluate(DRAW, [KINDS, list(range(1, 201))]) for one in seed]


def of(drawn: list[dict], name: str) -> list[dict]:
    return [one for one in drawn if one["name"] == name]


def test_answers_and_mistakes_are_those_of_the_engines_formulas(drawn):
    assert len(drawn) == 200 * len(KINDS)
    for one in drawn:
        kind = exercises()[one["name"]]
        scope = evaluate(kind, {name: one["scope"][name] for name in kind.numbers})
        assert one["scope"] == pytest.approx({name: float(value) for name, value in scope.items()}, rel=1e-9), one
        mistakes = [expressions.evaluate(each.value, {**FUNCTIONS, **scope}) for each in kind.mistakes]
        assert one["mistakes"] == pytest.approx(mistakes, rel=1e-9), one
        assert all(expressions.evaluate(need, {**FUNCTIONS, **scope}) for need in kind.needs), one
        assert all(one["scope"][name] in list(values) for name, values in kind.numbers.items())


def test_answers_agree_with_what_the_rest_of_the_program_says(numbers, drawn):
    """A run's prediction, a log's reader, the calculator for many users, and every γ of a curve."""
    for one in of(drawn, "round"):
        s = one["scope"]
        rounds = [(s["tau"], (s["gamma"] * s["step"] + s["overhead"]) / s["plain"], s["gamma"])]
        assert s["answer"] == pytest.approx(predicted_speedup(rounds, {1: 1.0, s["gamma"] + 1: s["wide"] / s["plain"]}))
    for one in of(drawn, "log_line"):
        (reading,) = report("\n".join(one["shown"])).readings
        assert 1 + reading.accepted / one["scope"]["rounds"] == pytest.approx(one["scope"]["answer"])
    for one in of(drawn, "best_gamma"):
        s = one["scope"]
        speeds = [idealised_speedup(s["alpha"], gamma, s["c"], {1: 1, 2: 1 + s["slope"]}) for gamma in range(7)]
        assert speeds.index(max(speeds)) == s["answer"] and sorted(speeds)[-2] < max(speeds) / 1.005
    gain = """({ tau, free, gamma, answer }) => [answer, answer + 1].map(users => { const at = rows => passTime(
      rows, users, { free, cache: 0, experts: false }); return tau * at(users) / at(users * (gamma + 1)); })"""
    for one in of(drawn, "users")[:50]:
        last, next_ = numbers.evaluate(gain, one["scope"])
        assert last >= 1 - 1e-9 > next_, one


def test_no_seed_of_a_thousand_is_degenerate(numbers, drawn):
    assert numbers.evaluate(FAULTS, [KINDS, list(range(1, 1001))]) == []
    for name in exercises():
        assert len({str(one["scope"]) for one in of(drawn, name)}) > 30, name


def test_a_kind_has_the_numbers_of_its_seed_whatever_other_kinds_there_are(numbers):
    both = [numbers.evaluate(DRAW, [kinds, [417]])[0][-1] for kinds in (KINDS, KINDS[-1:])]
    assert both[0] == both[1]


READ = [
    ("1.5", "number", [1.5]), ("1,5", "number", [1.5]), ("3/2", "number", [1.5]), (" 3 / 2 ", "number", [1.5]),
    ("1,234", "number", [1.234, 1234]), ("1,234.5", "number", [1234.5]), ("12 GB", "number", [12]),
    (".5", "number", [0.5]),
    ("150 %", "number", []), ("150 %", "factor", [1.5]), ("1.5×", "factor", [1.5]), ("1.5 x", "factor", [1.5]),
    ("75 %", "share", [0.75]), ("75", "share", [0.75, 75]), ("3/4", "share", [0.75]), ("0,75", "share", [0.75]),
    ("−1", "number", [-1]), ("1/0", "number", []), ("1/2/3", "number", []), ("", "number", []),
    ("about 2", "number", []),
    ("1e3", "number", []), ("1.2.3", "number", []), ("alert(1)", "number", []),
]  # fmt: skip


def test_an_answer_may_be_written_in_several_ways(numbers):
    for text, reads, wanted in READ:
        unit = {"number": "GB", "factor": "×", "share": ""}[reads]
        found = numbers.evaluate("([text, kind]) => readings(text, kind)", [text, {"reads": reads, "unit": unit}])
        assert found == pytest.approx(wanted), text


def open_exercise(page: Page, name: str) -> None:
    page.evaluate("hash => { location.hash = hash; }", f"#practice-417-{name}")
    expect(page.locator(".sl-practice")).to_be_visible()


def field(page: Page):
    return page.locator(".sl-practice").get_by_role("textbox", name="Your answer")


def reply(page: Page):
    return page.locator(".sl-practice .sl-reply")


def scope_of(numbers: Page, name: str, seed: int) -> dict:
    return next(one["scope"] for one in numbers.evaluate(DRAW, [KINDS, [seed]])[0] if one["name"] == name)


def test_an_exercise_is_solved_by_keyboard_and_outlasts_a_reload(visit, numbers):
    answer = scope_of(numbers, "tree", 417)["answer"]
    page = visit("#practice-417-tree")
    expect(page.locator(".sl-practice h3")).to_have_text("Tokens of a small tree")
    expect(field(page)).to_be_focused()
    page.keyboard.press("Enter")
    expect(reply(page)).to_have_text("Type a number.")
    page.keyboard.type(f"{answer - 1:.2f}".replace(".", ","))
    page.keyboard.press("Enter")
    expect(reply(page)).to_contain_text("You forgot the target's own token")
    expect(field(page)).to_be_focused()
    page.get_by_role("button", name="Hint 1 of 3").press("Enter")
    expect(page.get_by_role("button", name="Hint 2 of 3")).to_be_focused()
    page.reload()
    expect(page.locator(".sl-practice-hints li")).to_have_count(1)
    expect(field(page)).to_have_value(f"{answer - 1:.2f}".replace(".", ","))
    field(page).fill(f"{100 * answer:.0f}/100")
    field(page).press("Enter")
    expect(reply(page)).to_contain_text(f"Right. It’s {answer:.2f} tokens.")
    expect(page.get_by_role("link", name=re.compile("^Next: "))).to_be_focused()
    stored = page.evaluate("JSON.parse(localStorage.getItem('speclens-practice'))")
    assert stored["version"] == 1 and stored["kinds"] == {"tree": {"right": 1, "first": 0, "tries": 2}}
    assert stored["sets"][-1]["seed"] == 417 and stored["sets"][-1]["answers"]["tree"]["end"] == "right"
    page.keyboard.press("Enter")
    expect(page.locator(".sl-practice h3")).to_have_text("Memory of a cache")
    expect(page.locator(".sl-practice-count")).to_have_text(f"1 of {len(KINDS)} solved")
    page.go_back()
    expect(page.locator(".sl-practice h3")).to_have_text("Tokens of a small tree")
    expect(reply(page)).to_contain_text("Right.")


def test_new_numbers_change_the_address_and_back_returns(page):
    open_exercise(page, "tokens")
    text = page.locator(".sl-practice-open p").first
    before = text.inner_text()
    page.get_by_role("button", name="New numbers").click()
    expect(page).to_have_url(re.compile(r"#practice-(?!417-)\d+-tokens$"))
    page.go_back()
    expect(text).to_have_text(before)
    assert page.url.endswith("#practice-417-tokens")
    page.get_by_role("link", name="Lesson 7").click()
    expect(page.locator("#sl-lesson-title")).to_contain_text("7. ")
    expect(page.locator(".sl-practice")).to_be_hidden()
    page.locator(".sl-dot").last.click()
    page.get_by_role("link", name="τ from a log line").click()
    expect(page.locator(".sl-practice h3")).to_have_text("τ from a log line")
    page.locator(".sl-practice").get_by_role("button", name="All lessons").click()
    page.get_by_role("link", name="Exercises, with new numbers every time").click()
    expect(page.locator(".sl-practice h3")).to_have_text(KINDS[0]["title"])


def test_a_choice_and_a_solution_end_an_exercise_once(visit, numbers):
    answer = int(scope_of(numbers, "tie", 5)["answer"])
    page = visit("#practice-5-tie")
    options = page.locator(".sl-practice .sl-option")
    options.nth(1 - answer).press("Enter")
    expect(reply(page)).to_contain_text("Not yet.")
    options.nth(answer).press("Enter")
    expect(reply(page)).to_contain_text("Right.")
    page.locator('.sl-practice-kinds a[href="#practice-5-mixed"]').click()
    for name in ("Hint 1 of 3", "Hint 2 of 3", "Hint 3 of 3", "Show the solution"):
        page.get_by_role("button", name=name).press("Enter")
    expect(reply(page)).to_contain_text("It’s ")
    expect(field(page)).not_to_be_editable()
    stored = page.evaluate("JSON.parse(localStorage.getItem('speclens-practice')).kinds")
    assert stored == {"tie": {"right": 1, "first": 0, "tries": 2}}


def test_exercises_fit_in_light_and_dark(page):
    open_exercise(page, "request")
    page.get_by_role("button", name="Hint 1 of 3").click()
    field(page).fill("1")
    field(page).press("Enter")
    check_light_and_dark(page, ".sl-practice")
    page.locator('.sl-practice-kinds a[href="#practice-417-tie"]').click()
    page.locator(".sl-practice .sl-option").first.click()
    check_light_and_dark(page, ".sl-practice")


def test_sheet_has_the_numbers_of_the_page_and_its_key(page, numbers):
    open_exercise(page, "cache")
    text = page.locator(".sl-practice-open p").first.inner_text()
    with page.context.expect_page() as opened:
        page.get_by_role("link", name="Print it with the key").click()
    sheet = opened.value
    expect(sheet.locator("h1")).to_have_text(["Exercises 417", "Key to exercises 417"])
    expect(sheet.locator(".sl-practice-questions > ol > li")).to_have_count(len(KINDS))
    assert text in sheet.locator(".sl-practice-questions").inner_text()
    answer = scope_of(numbers, "cache", 417)["answer"]
    expect(sheet.locator(".sl-practice-key")).to_contain_text(f"{answer:.2f} GB")
    sheet.close()
    with page.context.expect_page() as opened:
        page.get_by_role("link", name="Print this sheet").click()
    expect(opened.value.locator("h1")).to_have_text(["Exercises 417"])
    opened.value.close()


def test_a_teacher_chooses_the_exercises_of_the_sheet_and_of_its_key(open_offline, tmp_path):
    file = tmp_path / "practice.html"
    file.write_text(practice.sheet(glossary()), encoding="utf-8")
    page = open_offline(file, several=True, viewport={"width": 390, "height": 844})
    page.goto(f"{file.as_uri()}#417")
    items, key = page.locator(".sl-practice-questions > ol > li"), page.locator(".sl-practice-key > ol > li")
    expect(items).to_have_count(len(KINDS))
    page.get_by_text("Choose exercises").click()
    chosen = ["ceiling", "tree", "cache"]
    for name in chosen:
        page.locator(f".sl-practice-screen [value={name}]").check()
    expect(items).to_have_count(3)
    page.get_by_label("With the key").check()
    expect(key).to_have_count(3)
    in_order = [kind["name"] for kind in KINDS if kind["name"] in chosen]
    assert page.url.endswith(f"#417-key-{'-'.join(in_order)}")
    check_light_and_dark(page, ".sl-practice-screen")
    texts = items.all_inner_texts()
    page.reload()
    assert items.all_inner_texts() == texts  # the address makes the same sheet again
    expect(key).to_have_count(3)
    page.emulate_media(media="print")
    expect(page.locator(".sl-practice-screen")).to_be_hidden()
    page.goto(f"{file.as_uri()}?only#417-key-tree")  # as the page of a class links it
    expect(items).to_have_count(1)
    expect(key).to_have_count(0)
    expect(page.get_by_label("With the key")).to_have_count(0)


def test_a_class_enters_the_number_of_its_set(page):
    open_exercise(page, "tokens")
    text = page.locator(".sl-practice-open p").first
    before, sets = text.inner_text(), page.get_by_label("Set", exact=True)
    expect(sets).to_have_value("417")
    sets.fill("5946")
    sets.press("Enter")
    expect(text).not_to_have_text(before)
    assert page.url.endswith("#practice-5946-tokens")
    expect(page.get_by_role("link", name="Print this sheet")).to_have_attribute("href", re.compile("#5946$"))
    for wrong in ("0", "10000", "1.5", ""):
        sets.fill(wrong)
        sets.press("Enter")
        assert page.url.endswith("#practice-5946-tokens"), wrong
    page.go_back()
    expect(sets).to_have_value("417")


def test_sheet_is_two_pages_and_its_key_two(open_offline, tmp_path):
    for has_key in (True, False):
        file = tmp_path / f"{has_key}.html"
        file.write_text(practice.sheet(glossary(), has_key), encoding="utf-8")
        page = open_offline(file, several=True)
        for seed in (1, 417, 2500, 9999):
            page.goto(f"{file.as_uri()}?{seed}#{seed}-key")
            expect(page.locator("h1").first).to_have_text(f"Exercises {seed}")
            page.emulate_media(media="print")
            page.set_viewport_size({"width": 688, "height": 1017})  # A4 within its margins
            assert page.evaluate(OVERFLOW) == 0, "or paper would show it all smaller"
            assert len(re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4"))) == 2 + 2 * has_key, seed
        assert page.locator(".sl-practice-key").count() == has_key


@pytest.mark.slow
def test_exercises_work_from_disk(open_offline, site):
    page = open_offline(site, several=True, viewport={"width": 390, "height": 844}, color_scheme="dark")
    page.goto(f"{page.home}#practice-417-tokens")
    page.get_by_role("button", name="Hint 1 of 3").click()
    page.get_by_role("button", name="New numbers").click()
    page.go_back()
    expect(page.locator(".sl-practice-hints li")).to_have_count(1)
    page.locator('.sl-practice-kinds a[href="#practice-417-place"]').click()
    expect(page.locator(".sl-practice h3")).to_have_text("α place by place")
    with page.context.expect_page() as opened:
        page.get_by_role("link", name="Print this sheet").click()
    expect(opened.value.locator("h1").first).to_have_text("Exercises 417")
    opened.value.close()

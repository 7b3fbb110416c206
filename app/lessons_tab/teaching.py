"""Renders what a teacher takes to class as two pages to print: plans with notes on each lesson, and exit tickets.

Links at the top choose one part, which is then shown and printed alone. CSS does that; the script only adds a Print
button.
"""

from collections.abc import Callable, Mapping, Sequence
from html import escape

from app.lessons_tab.sheets import STYLES, board, line
from app.lessons_tab.text_renderer import TextRenderer
from app.lessons_tab.variables import names
from app.ui.static_page import document
from lessons.loader import minutes, run
from lessons.schema import Handout, Lesson, Plan, PlanPart, Teaching

PLANS, TICKETS = "For teachers: plans, board, exit tickets", "Exit tickets to cut out"
COPIES = 4  # tickets of a lesson on one page
HOW = {
    "plans": "Choose a part to show and print it alone.",
    "tickets": f"Choose a lesson for a page with {COPIES} copies of its ticket.",
}
Parts = dict[str, tuple[str, str]]  # by its anchor, a part's title and its HTML


def plans_page(teaching: Teaching, lessons: Sequence[Lesson], address: str) -> str:
    """Writes the plans, then for each lesson a drawing for the board, three misconceptions and its exit ticket with
    the answers. ``address``: where the lessons are."""
    links = {lesson.slug: _link(f"{address}#lesson-{lesson.slug}", _title(lesson)) for lesson in lessons}
    plans = {f"plan-{plan.minutes}": _plan(plan, links) for plan in teaching.plans}
    return _page(PLANS, "plans", plans | _parts(teaching, lessons, _handout))


def tickets_page(teaching: Teaching, lessons: Sequence[Lesson], _: str) -> str:
    """Writes the exit ticket of each lesson, without its answers and with room to write. A chosen lesson has COPIES."""
    return _page(TICKETS, "tickets", _parts(teaching, lessons, _tickets))


def _parts(teaching: Teaching, lessons: Sequence[Lesson], write: Callable[[Lesson, Handout], str]) -> Parts:
    return {
        lesson.slug: (_title(lesson), write(lesson, teaching.lessons[lesson.slug]))
        for lesson in lessons
        if lesson.slug in teaching.lessons
    }


def _title(lesson: Lesson) -> str:
    return f"{lesson.number}. {lesson.title}"


def _page(title: str, kind: str, parts: Parts) -> str:
    links = [_link("#", "Everything"), *(_link(f"#{anchor}", name) for anchor, (name, _) in parts.items())]
    contents = f'<p>{HOW[kind]}</p><nav aria-label="Contents">{" ".join(links)}</nav>'
    sections = "".join(f'<section id="{anchor}">{content}</section>' for anchor, (_, content) in parts.items())
    head = f'<h1>{escape(title)}</h1><div class="sl-contents">{contents}</div>'
    body = f'<main class="sl-sheet" data-for="{kind}">{head}{sections}</main>'
    return document(f"SpecLens: {title}", body, STYLES, "offline/papers.js")


def _link(address: str, title: str) -> str:
    return f'<a href="{address}">{escape(title)}</a>'


def _plan(plan: Plan, links: Mapping[str, str]) -> tuple[str, str]:
    """Returns a plan's title and its HTML. ``links``: to each lesson, by its name."""
    title = f"{plan.minutes} minutes: {plan.title}"
    rows, begin = [], 0
    for part in plan.parts:
        rows.append(_row(part, begin, links.get(part.lesson, "")))
        begin += part.minutes
    head = "<thead><tr><th>Time</th><th>Lesson</th><th>What</th></tr></thead>"
    table = f"<table>{head}<tbody>{''.join(rows)}</tbody></table>"
    homework = f"<p><strong>Homework:</strong> {escape(plan.homework)}</p>"
    return title, f"<h2>{escape(title)}</h2><p>{escape(plan.aim)}</p>{table}{homework}"


def _row(part: PlanPart, begin: int, link: str) -> str:
    time = f"{begin}–{begin + part.minutes} min"
    return f"<tr><td>{time}</td><td>{link}</td><td>{escape(part.do)}</td></tr>"


def _renderer(lesson: Lesson) -> TextRenderer:
    """Evaluates with the lesson's recorded runs. A toy's run is left out, because it would need torch."""
    runs = {scenario.name: run(scenario) for scenario in lesson.scenarios if scenario.trace}
    return TextRenderer(f"teaching.toml, {lesson.slug}", names(runs) if runs else {})


def _handout(lesson: Lesson, handout: Handout) -> str:
    def words(text: str) -> str:
        return line(render.line(text))

    render = _renderer(lesson)
    wrong = "".join(f"<li>“{words(each.wrong)}” {words(each.right)}</li>" for each in handout.misconceptions)
    questions = "".join(f"<li>{words(each.text)}<br><em>{words(each.answer)}</em></li>" for each in handout.ticket)
    return (
        f'<div class="sl-unsplit"><h2>{escape(_title(lesson))}</h2>'
        f"<p>{minutes(lesson)} minutes alone, {minutes(lesson, together=True)} with a class.</p>"
        f"{board(handout.board)}</div>"
        f"<h3>Misconceptions</h3><ul>{wrong}</ul><h3>Exit ticket</h3><ol>{questions}</ol>"
    )


def _tickets(lesson: Lesson, handout: Handout) -> str:
    render = _renderer(lesson)
    questions = "".join(f"<li>{line(render.line(each.text))}<p class='sl-lines'></p></li>" for each in handout.ticket)
    content = f'<h2>{escape(_title(lesson))}</h2><p class="sl-name">Name</p><ol>{questions}</ol>'
    return f'<div class="sl-ticket">{content}</div>' * COPIES

"""Renders what a teacher takes to class as two pages to print: plans with notes on each lesson, and exit tickets."""

from collections.abc import Sequence
from html import escape

from app.lessons_tab.sheets import STYLES, line, section
from app.lessons_tab.text_renderer import TextRenderer
from app.lessons_tab.variables import names
from app.ui.static_page import document
from lessons.loader import minutes, run
from lessons.schema import Handout, Lesson, Plan, PlanPart, Teaching

PLANS, TICKETS = "For teachers: plans, board, exit tickets", "Exit tickets to cut out"


def plans_page(teaching: Teaching, lessons: Sequence[Lesson]) -> str:
    """Writes the plans, then for each lesson a drawing for the board, three misconceptions and its exit ticket with
    the answers."""
    parts = [_plan(plan, lessons) for plan in teaching.plans]
    parts += [_handout(lesson, teaching.lessons[lesson.slug]) for lesson in lessons if lesson.slug in teaching.lessons]
    return _page(PLANS, "plans", parts)


def tickets_page(teaching: Teaching, lessons: Sequence[Lesson]) -> str:
    """Writes the exit ticket of each lesson, without its answers and with room to write."""
    tickets = [_ticket(lesson, teaching.lessons[lesson.slug]) for lesson in lessons if lesson.slug in teaching.lessons]
    return _page(TICKETS, "tickets", tickets)


def _page(title: str, kind: str, parts: Sequence[str]) -> str:
    body = f'<main class="sl-sheet" data-for="{kind}"><h1>{escape(title)}</h1>{"".join(parts)}</main>'
    return document(f"SpecLens: {title}", body, STYLES)


def _plan(plan: Plan, lessons: Sequence[Lesson]) -> str:
    titles = {lesson.slug: f"{lesson.number}. {lesson.title}" for lesson in lessons}
    rows, begin = [], 0
    for part in plan.parts:
        rows.append(_row(part, begin, titles.get(part.lesson, "")))
        begin += part.minutes
    head = "<thead><tr><th>Time</th><th>Lesson</th><th>What</th></tr></thead>"
    table = f"<table>{head}<tbody>{''.join(rows)}</tbody></table>"
    homework = f"<p><strong>Homework:</strong> {escape(plan.homework)}</p>"
    return section(f"{plan.minutes} minutes: {plan.title}", f"<p>{escape(plan.aim)}</p>{table}{homework}")


def _row(part: PlanPart, begin: int, title: str) -> str:
    time = f"{begin}–{begin + part.minutes} min"
    return f"<tr><td>{time}</td><td>{escape(title)}</td><td>{escape(part.do)}</td></tr>"


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
    content = (
        f"<p>{minutes(lesson)} minutes alone, {minutes(lesson, together=True)} with a class.</p>"
        f'<pre class="sl-board">{escape(handout.board.strip(chr(10)))}</pre>'
        f"<h3>Misconceptions</h3><ul>{wrong}</ul><h3>Exit ticket</h3><ol>{questions}</ol>"
    )
    return section(f"{lesson.number}. {lesson.title}", content)


def _ticket(lesson: Lesson, handout: Handout) -> str:
    render = _renderer(lesson)
    questions = "".join(f"<li>{line(render.line(each.text))}<p class='sl-lines'></p></li>" for each in handout.ticket)
    return section(f"{lesson.number}. {lesson.title}", f'<p class="sl-name">Name</p><ol>{questions}</ol>')

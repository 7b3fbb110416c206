"""Renders a lesson as printed pages: the whole text with its answers for the teacher, and one page for the class.

Both take a lesson as ``view.page`` renders it. They run no script, so they also are the lesson where there is none.
"""

import re
from collections.abc import Mapping, Sequence
from html import escape

from app.ui.static_page import document
from lessons.loader import teaching

STYLES = ("lessons/page/sheet.css",)
TAGS = {"bold": "strong", "italic": "em", "code": "code", "claim": "sup"}
BLANK = '<p class="sl-blank"></p>'


def teacher(lesson: Mapping) -> str:
    """Writes every step with its question, the right answer and what to reply to a wrong one; talking points first."""
    notes = section("For the teacher", _blocks(lesson["teacher"]) + board(teaching().lessons[lesson["slug"]].board))
    steps = [_step(number, step, _on_screen(lesson, number)) for number, step in enumerate(lesson["steps"], 1)]
    quiz = section("Check yourself", "".join(_solution(question) for question in lesson["quiz"]))
    return _document(lesson, "teacher", [_outcomes(lesson), notes, *steps, quiz, _words(lesson), _sources(lesson)])


def class_sheet(lesson: Mapping) -> str:
    """Writes the words to know, and the questions without their answers."""
    predictions = [(number, step) for number, step in enumerate(lesson["steps"], 1) if step["ask"]]
    guesses = "".join(_prediction(number, step) for number, step in predictions)
    quiz = "".join(f"<li>{line(question['text'])}{_open(question)}</li>" for question in lesson["quiz"])
    questions = [section("Guess first", f"<ol>{guesses}</ol>"), section("Check yourself", f"<ol>{quiz}</ol>")]
    return _document(lesson, "class", ['<p class="sl-name">Name</p>', _words(lesson), *questions])


def _document(lesson: Mapping, kind: str, parts: Sequence[str]) -> str:
    title = f"{lesson['number']}. {lesson['title']}"
    body = f'<main class="sl-sheet" data-for="{kind}"><h1>{escape(title)}</h1>{"".join(parts)}</main>'
    return document(f"SpecLens: {title}", body, STYLES)


def section(title: str, content: str) -> str:
    """Writes a part of a printed page with its heading. ``content``: HTML."""
    return f"<section><h2>{escape(title)}</h2>{content}</section>"


def board(drawing: str) -> str:
    """Writes a drawing in letters."""
    return f'<pre class="sl-board">{escape(drawing.strip(chr(10)))}</pre>'


def _outcomes(lesson: Mapping) -> str:
    items = "".join(f"<li>{line(text)}</li>" for text in lesson["outcomes"])
    return f"<p>{lesson['minutes']} minutes. After this the class will be able to explain:</p><ul>{items}</ul>"


def _words(lesson: Mapping) -> str:
    if not lesson["words"]:
        return ""
    entries = "".join(f"<dt>{escape(word)}:</dt> <dd>{escape(text)}</dd>" for word, text in lesson["words"].items())
    return section("Words", f"<dl>{entries}</dl>")


def _sources(lesson: Mapping) -> str:
    """Lists the origin of each claim, by the number of its mark."""
    origins = "".join(f"<li>{escape(origin)}</li>" for origin in lesson["sources"].values())
    return section("Seen where", f"<ol>{origins}</ol>") if origins else ""


def _on_screen(lesson: Mapping, number: int) -> str:
    """Names what a step shows that paper can't, so that its text isn't read without it."""
    step, before = lesson["steps"][number - 1], lesson["steps"][number - 2]["run"] if number > 1 else ""
    marks = {style for block in step["blocks"] for pieces in block["lines"] for style, *_ in pieces}
    doings = {
        "numbers to drag": "drag" in marks,
        "a tool to try": step["tool"],
        "a token to press": "token" in (step["points"] or ()),
        "a run of your own": step["live"],
    }
    shown = ", ".join(what for what, is_there in doings.items() if is_there)
    title = lesson["runs"][step["run"]]["title"] if step["run"] != before else ""
    words = " ".join(filter(None, (f"{shown}." if shown else "", f"The run: {title}" if title else "")))
    return f'<p class="sl-context">On screen: {escape(words)}</p>' if words else ""


def _step(number: int, step: Mapping, on_screen: str) -> str:
    content = on_screen + _blocks(step["blocks"])
    if step["ask"]:
        content += _context(step) + _solution(step["ask"])
    if step["lab"]:
        content += f"<p>In the lab, {escape(step['lab']['title'])}: {escape(step['lab']['hint'])}</p>"
    return section(f"{number}. {step['title']}", content)


def _solution(question: Mapping) -> str:
    """Writes a question with its right answer marked and the reply to each of the others."""
    if question.get("kind") == "number":
        below, above = (f" <em>{line(question[side])}</em>" for side in ("low", "high"))
        answers = f"<p><strong>{question['answer']:.3g}</strong> {escape(question['unit'])}</p>"
        answers += f"<ul><li>Less?{below}</li><li>More?{above}</li></ul>"
    else:
        answers = "".join(_option(option) for option in question["options"])
        answers = f"<ul>{answers}</ul>"
    explained = f"<p>{line(question['explain'])}</p>" if "explain" in question else ""
    return f'<div class="sl-question"><p><strong>{line(question["text"])}</strong></p>{answers}{explained}</div>'


def _option(option: Mapping) -> str:
    mark = ' class="sl-right"' if option["right"] else ""
    reply = f" <em>{line(option['why'])}</em>" if option["why"] else ""
    return f"<li{mark}>{line(option['text'])}{reply}</li>"


def _prediction(number: int, step: Mapping) -> str:
    """Writes a step's question with what the screen shows there, because a question on paper needs it, too."""
    text = step["paper"]["text"] or step["ask"]["text"]
    return f"<li>{_context(step)}{line(text)} <small>(step {number})</small>{_open(step['ask'])}</li>"


def _context(step: Mapping) -> str:
    context, table = step["paper"]["context"], step["paper"]["table"]
    head, *rows = ("".join(f"<td>{line(cell)}</td>" for cell in row) for row in table or [[]])
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    numbers = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if table else ""
    return f'<div class="sl-context"><p>{line(context)}</p>{numbers}</div>' if context else ""


def _open(question: Mapping) -> str:
    if question.get("kind") == "number":
        return BLANK
    options = "".join(f"<li>{line(option['text'])}</li>" for option in question["options"])
    return f'<ul class="sl-boxes">{options}</ul>'


def _blocks(blocks: Sequence[Mapping]) -> str:
    return "".join(
        f"<p>{line(block['lines'][0])}</p>"
        if block["kind"] == "paragraph"
        else f"<ul>{''.join(f'<li>{line(text)}</li>' for text in block['lines'])}</ul>"
        for block in blocks
    )


def line(pieces: Sequence[Sequence]) -> str:
    """Writes the pieces of a rendered line as HTML."""
    return "".join(_piece(style, text) for style, text, *_ in pieces)


def _piece(style: str, text: str) -> str:
    if style == "formula":
        return re.sub(r"\^(?:\(([^)]*)\)|(\S))", lambda power: f"<sup>{power[1] or power[2]}</sup>", escape(text))
    return f"<{TAGS[style]}>{escape(text)}</{TAGS[style]}>" if style in TAGS else escape(text)

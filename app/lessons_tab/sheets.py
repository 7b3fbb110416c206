"""Renders a lesson as printed pages: the whole text with its answers for the teacher, and one page for the class.

Both take a lesson as ``view.page`` renders it. They run no script, so they also are the lesson where there is none.
"""

import re
from collections.abc import Mapping, Sequence
from html import escape

from app.ui.static_page import document

STYLES = ("lessons/page/sheet.css",)
TAGS = {"bold": "strong", "italic": "em", "code": "code", "claim": "sup"}
BLANK = '<p class="sl-blank"></p>'


def teacher(lesson: Mapping) -> str:
    """Writes every step with its question, the right answer and what to reply to a wrong one; talking points first."""
    notes = section("For the teacher", _blocks(lesson["teacher"]))
    steps = [_step(number, step) for number, step in enumerate(lesson["steps"], 1)]
    quiz = section("Check yourself", "".join(_solution(question) for question in lesson["quiz"]))
    return _document(lesson, "teacher", [_outcomes(lesson), notes, *steps, quiz, _words(lesson), _sources(lesson)])


def class_sheet(lesson: Mapping) -> str:
    """Writes the words to know, and the questions without their answers."""
    predictions = [step["ask"] for step in lesson["steps"] if step["ask"]]
    guesses = "".join(f"<li>{line(ask['text'])}{_open(ask)}</li>" for ask in predictions)
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


def _step(number: int, step: Mapping) -> str:
    content = _blocks(step["blocks"])
    if step["ask"]:
        content += _solution(step["ask"])
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

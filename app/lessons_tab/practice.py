"""Renders the exercises with new numbers as plain data for the page, which draws the numbers, and their sheet. Pure."""

from collections.abc import Mapping
from typing import Any

from app.ui.static_page import document
from lessons import markup
from lessons.exercises import Exercise, exercises, texts_of
from lessons.loader import lessons
from lessons.schema import Lesson

Line = list[list[str]]
TITLE = "Exercises"
STYLES = ("lessons/page/sheet.css", "lessons/practice/practice_sheet.css")


def page(words: Mapping[str, str], has_key: bool = True) -> dict[str, Any]:
    """Returns every kind in its order, and the meanings of the words in use. ``words``: the glossary; ``has_key``: the
    sheet may be printed with its answers."""
    by_name = {lesson.slug: lesson for lesson in lessons()}
    used = {span.more for kind in exercises().values() for text in texts_of(kind) for span in markup.line(text)}
    kinds = [_kind(name, kind, by_name[kind.lesson]) for name, kind in exercises().items()]
    return {"kinds": kinds, "words": {word: words[word] for word in sorted(used & words.keys())}, "hasKey": has_key}


def sheet(words: Mapping[str, str], has_key: bool = True) -> str:
    """Returns the printed page as HTML. Its address ends with the seed, as #417, or #417-key for the answers, too."""
    return document(
        f"SpecLens: {TITLE}",
        '<main class="sl-sheet" id="practice"></main>'
        "<noscript><p>The numbers are drawn with JavaScript, which is switched off here.</p></noscript>",
        STYLES,
        "offline/practice_sheet.js",
        {"values": {"practice": page(words, has_key)}},
    )


def _kind(name: str, kind: Exercise, lesson: Lesson) -> dict[str, Any]:
    return {
        "name": name,
        "title": kind.title,
        "lesson": {"slug": lesson.slug, "number": lesson.number, "title": lesson.title},
        "text": _line(kind.text),
        "show": [_line(text) for text in kind.show],
        "numbers": {number: list(values) for number, values in kind.numbers.items()},
        "values": dict(kind.values),
        "needs": kind.needs,
        "answer": kind.answer,
        "within": kind.within,
        "unit": kind.unit,
        "reads": kind.reads,
        "digits": kind.digits,
        "options": [_line(text) for text in kind.options],
        "hints": [_line(text) for text in kind.hints],
        "explain": _line(kind.explain),
        "mistakes": [{"value": mistake.value, "says": _line(mistake.says)} for mistake in kind.mistakes],
    }


def _line(text: str) -> Line:
    """Returns [style, text, more] of each piece. A sum's expression is evaluated in the browser."""
    return [[span.style, span.text, span.more] for span in markup.line(text)]

"""Parses the Markdown of the lessons: paragraphs, lists, and eleven marks inside a line.

``**bold**``, ``*italic*``, ```code```, ``$formula$`` with ^ and one ÷, ``[[word]]`` or ``[[word|as shown]]`` for the
glossary, ``[[lesson 3]]`` for a link to a lesson, ``[[page rule|as shown]]`` for one to a page beside them (its address
without the #), ``[[claim name]]`` for a sentence of engine_claims.toml, ``[[drag name]]`` and ``[[live name]]`` for a
number to drag and a result of its sentence, and ``{expression}`` or
``{expression:format}`` for a number that is evaluated from the lesson's runs.
"""

import re
from dataclasses import dataclass
from typing import Literal

Style = Literal["text", "bold", "italic", "code", "formula", "lesson", "page", "claim", "drag", "live", "word", "sum"]
_STYLES = ("bold", "italic", "code", "formula", "lesson", "page", "claim", "drag", "live", "word", "sum")
_MARK = re.compile(
    r"\*\*(?P<bold>[^*\[{]+)\*\*|\*(?P<italic>[^*\[{]+)\*|`(?P<code>[^`]+)`|\$(?P<formula>[^$]+)\$"
    r"|\[\[lesson (?P<lesson>\d+)\]\]|\[\[page (?P<address>rule|practice-[a-z_]+)\|(?P<page>[^\]]+)\]\]"
    r"|\[\[claim (?P<claim>[a-z-]+)\]\]|\[\[drag (?P<drag>[a-z]+)\]\]|\[\[live (?P<live>[a-z]+)\]\]"
    r"|\[\[(?P<word>[^\]|]+)(?:\|(?P<shown>[^\]]+))?\]\]|\{(?P<sum>[^{}:]+)(?::(?P<format>[^{}]*))?\}"
)


@dataclass(frozen=True)
class Span:
    """A piece of a line. ``more``: a word's entry in the glossary, the number of a lesson, the address of a page
    beside them, or the format of an expression, whose style is "sum"."""

    style: Style
    text: str
    more: str = ""


@dataclass(frozen=True)
class TextBlock:
    """A paragraph has one line, a list one line for each item."""

    kind: Literal["paragraph", "list"]
    lines: tuple[tuple[Span, ...], ...]


def line(text: str) -> tuple[Span, ...]:
    """Splits a line into its spans.

    >>> [(span.style, span.text, span.more) for span in line("so **α** is {alpha:.2f}")]
    [('text', 'so ', ''), ('bold', 'α', ''), ('text', ' is ', ''), ('sum', 'alpha', '.2f')]
    """
    spans, at = [], 0
    for mark in _MARK.finditer(text):
        if mark.start() > at:
            spans.append(Span("text", text[at : mark.start()]))
        spans.append(_span(mark))
        at = mark.end()
    return (*spans, Span("text", text[at:])) if at < len(text) else tuple(spans)


def _span(mark: re.Match) -> Span:
    style = next(name for name in _STYLES if mark[name] is not None)
    if style == "lesson":
        return Span(style, f"lesson {mark['lesson']}", mark["lesson"])
    if style == "page":
        return Span(style, mark["page"], mark["address"])
    if style == "word":
        return Span(style, mark["shown"] or mark["word"], mark["word"].lower())
    return Span(style, mark[style], (mark["format"] or "") if style == "sum" else "")


def blocks(text: str) -> tuple[TextBlock, ...]:
    """Splits text at empty lines; a block whose lines begin with ``- `` is a list."""
    spans = []
    for part in re.split(r"\n\s*\n", text.strip()):
        rows = part.strip().splitlines()
        if rows and rows[0].startswith("- "):
            items = re.split(r"\n(?=- )", part.strip())
            spans.append(TextBlock("list", tuple(line(" ".join(item[2:].split())) for item in items)))
        elif rows:
            spans.append(TextBlock("paragraph", (line(" ".join(part.split())),)))
    return tuple(spans)


def sections(text: str) -> list[tuple[str, str]]:
    """Returns (title, content) of every ``## title``, in order; text before the first one is dropped."""
    parts = re.split(r"^## +(.+)$", text, flags=re.MULTILINE)
    return [(title.strip(), body.strip()) for title, body in zip(parts[1::2], parts[2::2], strict=True)]

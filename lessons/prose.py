"""The Markdown that lessons are written in: paragraphs, lists, and six marks inside a line. Knows no lesson.

``**bold**``, ``*italic*``, ```code```, ``$formula$`` with ^ and one ÷, ``[[word]]`` or ``[[word|as shown]]`` for the
glossary, and ``{sum}`` or ``{sum:format}`` for a number that is worked out from the lesson's runs.
"""

import re
from dataclasses import dataclass
from typing import Literal

Style = Literal["text", "bold", "italic", "code", "formula", "word", "sum"]
_MARK = re.compile(
    r"\*\*(?P<bold>[^*\[{]+)\*\*|\*(?P<italic>[^*\[{]+)\*|`(?P<code>[^`]+)`|\$(?P<formula>[^$]+)\$"
    r"|\[\[(?P<word>[^\]|]+)(?:\|(?P<shown>[^\]]+))?\]\]|\{(?P<sum>[^{}:]+)(?::(?P<format>[^{}]*))?\}"
)


@dataclass(frozen=True)
class Run:
    """A piece of a line. ``more``: of a word, what the glossary calls it; of a sum, its format."""

    style: Style
    text: str
    more: str = ""


@dataclass(frozen=True)
class Block:
    """A paragraph has one line, a list an item for each."""

    kind: Literal["paragraph", "list"]
    lines: tuple[tuple[Run, ...], ...]


def line(text: str) -> tuple[Run, ...]:
    """
    >>> line("so **α** is {alpha:.2f}")
    (Run('text', 'so '), Run('bold', 'α'), Run('text', ' is '), Run('sum', 'alpha', '.2f'))
    """
    found, at = [], 0
    for mark in _MARK.finditer(text):
        if mark.start() > at:
            found.append(Run("text", text[at : mark.start()]))
        found.append(_run(mark))
        at = mark.end()
    return (*found, Run("text", text[at:])) if at < len(text) else tuple(found)


def _run(mark: re.Match) -> Run:
    style = next(name for name in ("bold", "italic", "code", "formula", "word", "sum") if mark[name] is not None)
    if style == "word":
        return Run(style, mark["shown"] or mark["word"], mark["word"].lower())
    return Run(style, mark[style], (mark["format"] or "") if style == "sum" else "")


def blocks(text: str) -> tuple[Block, ...]:
    """Blocks stand between empty lines; one whose lines begin with ``- `` is a list."""
    found = []
    for part in re.split(r"\n\s*\n", text.strip()):
        rows = part.strip().splitlines()
        if rows and rows[0].startswith("- "):
            items = re.split(r"\n(?=- )", part.strip())
            found.append(Block("list", tuple(line(" ".join(item[2:].split())) for item in items)))
        elif rows:
            found.append(Block("paragraph", (line(" ".join(part.split())),)))
    return tuple(found)


def sections(text: str) -> list[tuple[str, str]]:
    """(title, what stands under it) of every ``## title``, in order; what stands before the first is left out."""
    parts = re.split(r"^## +(.+)$", text, flags=re.MULTILINE)
    return [(title.strip(), body.strip()) for title, body in zip(parts[1::2], parts[2::2], strict=True)]

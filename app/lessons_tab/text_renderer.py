"""Renders lines of the lessons as plain data for the page: pieces of text, with numbers evaluated from runs. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from lessons import expressions, markup
from lessons.loader import claims, lessons
from lessons.schema import LessonError


class TextRenderer:
    """Turns lines into pieces that a page can draw with textContent alone.

    ``place``: where an expression is, for errors; ``known``: names in expressions; ``words``: the glossary words
    in use; ``sources``: the origin of each claim by its entry, in the order of their marks; ``marks``: the text of each
    number to drag and of each result, by style and name."""

    def __init__(self, place: str, known: Mapping[str, Any]):
        self.place, self.known, self.words = place, known, set()
        self.sources: dict[str, str] = {}
        self.marks: dict[tuple[str, str], str] = {}

    def evaluate(self, text: str) -> Any:
        """Returns the value of an expression. LessonError if it fails."""
        try:
            return expressions.evaluate(text, self.known)
        except (ValueError, TypeError, ZeroDivisionError, IndexError, AttributeError) as error:
            raise LessonError(f"{self.place}: the sum {text!r} fails: {error}") from error

    def line(self, text: str) -> list[list]:
        return self.pieces(markup.line(text))

    def pieces(self, runs: Sequence[markup.Span]) -> list[list]:
        """Returns [style, text] of each piece, and the entry of a word or a claim, a lesson's name, or a page's
        address."""
        pieces: list[list] = []
        for run in runs:
            if run.style == "sum":
                pieces.append(["sum", self.as_text(run.text, run.more)])
            elif run.style == "word":
                self.words.add(run.more)
                pieces.append(["word", run.text, run.more])
            elif run.style == "claim":
                claim, entry = claims()[run.text], f"claim {run.text}"
                self.sources.setdefault(entry, claim.origin)
                mark = str(list(self.sources).index(entry) + 1)
                pieces += [*self.line(claim.says), ["claim", mark, entry]]
            elif run.style in ("drag", "live"):
                pieces.append([run.style, self.marks[run.style, run.text], run.text])
            elif run.style == "lesson":
                pieces.append(["lesson", run.text, lessons()[int(run.more)].slug])
            elif run.style == "page":
                pieces.append(["page", run.text, run.more])
            else:
                pieces.append([run.style, run.text])
        return pieces

    def as_text(self, text: str, form: str) -> str:
        """Returns the value of an expression as the text shows it."""
        value = self.evaluate(text)
        if isinstance(value, float) and not form:
            form = ".3g"
        return format(value, form).replace("%", " %")

    def blocks(self, blocks: Sequence[markup.TextBlock]) -> list[dict]:
        return [{"kind": block.kind, "lines": [self.pieces(line) for line in block.lines]} for block in blocks]

    def glossary(self, words: Mapping[str, str]) -> dict[str, str]:
        """Returns the meanings of the words in use."""
        return {word: words[word] for word in sorted(self.words)}

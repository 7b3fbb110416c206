"""Loads the exercises with new numbers every time, exercises.toml, and has their functions in Python.

The page draws the numbers and grades the answers, in practice_numbers.js of assets/web/lessons/practice. A test
evaluates the same expressions here, with the functions that the engine predicts with, and compares.
"""

import math
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from engine.trace import speedup_model
from lessons import expressions, markup
from lessons.loader import glossary, lessons, validate
from lessons.schema import STRICT, Expression, LessonError, Line, Text

FILE = Path(__file__).with_name("exercises.toml")


@dataclass(frozen=True, config=STRICT)
class Steps:
    """Equally spaced values from ``low`` to ``high``."""

    low: float
    high: float
    step: Annotated[float, Field(gt=0)]

    def __iter__(self) -> Iterator[float]:
        count = round((self.high - self.low) / self.step)
        return (round(self.low + i * self.step, 6) for i in range(count + 1))


@dataclass(frozen=True, config=STRICT)
class Mistake:
    """An answer that a usual mistake gives, and the sentence about it."""

    value: Expression
    says: Text


@dataclass(frozen=True, config=STRICT)
class Exercise:
    """A kind of exercise. ``numbers``: the values that a number is drawn from; ``values``: further numbers, each from
    those before it; ``needs``: expressions that must be true, or other numbers are drawn; ``show``: lines of a log or a
    table; ``options``: the answer is the index of one of them; ``within``: how far off a right answer may be;
    ``reads``: whether 75 % is understood for a "share", and 150 % for a "factor"."""

    title: Text
    lesson: Text
    text: Text
    numbers: Mapping[str, Steps | tuple[float, ...]]
    answer: Expression
    hints: Annotated[tuple[Text, ...], Field(min_length=2)]
    explain: Text
    mistakes: Annotated[tuple[Mistake, ...], Field(min_length=2)]
    values: Mapping[str, Expression] = field(default_factory=dict)
    needs: tuple[Expression, ...] = ()
    show: tuple[str, ...] = ()
    options: tuple[Text, ...] = ()
    within: Expression = "0.01 * answer"
    unit: Line = ""
    reads: Literal["number", "share", "factor"] = "number"
    digits: Annotated[int, Field(ge=0, le=3)] = 0


def _line_of_costs(slope: float) -> dict[int, float]:
    return {1: 1.0, 2: 1.0 + slope}


# The functions of the expressions. The page has them as FUNCTIONS in practice_numbers.js.
FUNCTIONS: Mapping[str, Callable[..., float]] = {
    "min": min,
    "max": max,
    "abs": abs,
    "floor": math.floor,
    "whole": lambda x: math.floor(x + 0.5),
    "expected": speedup_model.expected_tokens,
    "idealised": lambda alpha, gamma, c, slope: speedup_model.idealised_speedup(alpha, gamma, c, _line_of_costs(slope)),
    "best_gamma": lambda alpha, c, slope, most: speedup_model.best_gamma(alpha, c, _line_of_costs(slope), most),
    "pays_from": lambda later, plain, drafting: speedup_model.pays_from(later, plain, drafting) or math.nan,
    "overall": lambda hard, good, bad: 1 / (hard / bad + (1 - hard) / good),
    "passes_a_second": lambda speed, gigabytes: speed / gigabytes,
    "cache": lambda layers, heads, size, tokens: 2 * 2 * layers * heads * size * tokens / 1e9,
    "either": lambda first, second: 1 - (1 - first) * (1 - second),
    "two_pairs": lambda first, second: 1 + (1 + first) * (1 - (1 - first) * (1 - second)),
}


@lru_cache(maxsize=1)
def exercises() -> Mapping[str, Exercise]:
    """Returns every kind by its name, which is in addresses and in stored progress, so none is to be renamed.
    LessonError names the kind and the field."""
    kinds = validate(dict[str, Exercise], tomllib.loads(FILE.read_text(encoding="utf-8")), FILE.name)
    for name, kind in kinds.items():
        for place, problem in _problems(kind):
            raise LessonError(f"{FILE.name}, {name}, {place}: {problem}.")
    return kinds


def evaluate(kind: Exercise, numbers: Mapping[str, float]) -> dict[str, Any]:
    """Returns all numbers of an exercise from those that were drawn: its values by name, and its ``answer``."""
    names: dict[str, Any] = dict(numbers)
    for name, expression in {**kind.values, "answer": kind.answer}.items():
        names[name] = expressions.evaluate(expression, {**FUNCTIONS, **names})
    return names


def _problems(kind: Exercise) -> Iterator[tuple[str, str]]:
    """Yields each mistake of the file as its place and a sentence: unknown lessons, names and words of the glossary."""
    if kind.lesson not in {lesson.slug for lesson in lessons()}:
        yield "lesson", f"there is no lesson {kind.lesson!r}"
    if doubled := {*kind.numbers, *kind.values} & {*FUNCTIONS, "answer"}:
        yield "numbers and values", f"{min(doubled)!r} has another meaning"
    known = {*FUNCTIONS, *kind.numbers}
    for name, expression in kind.values.items():
        yield from _unknown(f"values.{name}", expression, known)
        known.add(name)
    for expression in (kind.answer, *kind.needs):
        yield from _unknown("answer and needs", expression, known)
    known.add("answer")
    for expression in (kind.within, *(mistake.value for mistake in kind.mistakes)):
        yield from _unknown("within and mistakes", expression, known)
    for text in texts_of(kind):
        for span in markup.line(text):
            if span.style == "sum":
                yield from _unknown("text", span.text, known)
            if span.style == "word" and span.more not in glossary():
                yield "text", f"the glossary has no {span.more!r}"


def _unknown(place: str, expression: str, known: set[str]) -> Iterator[tuple[str, str]]:
    if missing := expressions.names(expression) - known:
        yield place, f"{expression!r} uses {min(missing)!r}, which is not known there"


def texts_of(kind: Exercise) -> list[str]:
    """Returns every line that a learner may read."""
    says = [mistake.says for mistake in kind.mistakes]
    return [kind.text, *kind.show, *kind.options, *kind.hints, kind.explain, *says]

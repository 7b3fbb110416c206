"""A table of a lesson's front matter, read key by key; what is wrong is said with the file and the key."""

import re
from typing import Any

from lessons import sums


class LessonError(ValueError):
    """A lesson's file is wrong; the sentence says where."""


class Part:
    """A table of the front matter, read key by key; a key that nobody asks for is a mistake, too."""

    def __init__(self, where: str, values: Any):
        if not isinstance(values, dict):
            raise LessonError(f"{where} must be a table.")
        self.where, self.values, self.left = where, values, set(values)

    def _take(self, key: str, kind: type | tuple, default: Any) -> Any:
        self.left.discard(key)
        value = self.values.get(key, default)
        if value is None:
            raise LessonError(f"{self.where} lacks {key!r}.")
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise LessonError(f"{self.where}: {key!r} must be {_words(kind)}.")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        value = " ".join(self._take(key, str, default).split())
        if not value and default is None:
            raise LessonError(f"{self.where}: {key!r} is empty.")
        return value

    def number(self, key: str, low: int, high: int, default: int | None = None) -> int:
        value = self._take(key, int, default)
        if not low <= value <= high:
            raise LessonError(f"{self.where}: {key!r} is {value}; it goes from {low} to {high}.")
        return value

    def one_of(self, key: str, values: tuple[str, ...], default: str | None = None) -> str:
        value = self.text(key, default)
        if value and value not in values:
            raise LessonError(f"{self.where}: {key!r} is {value!r}; choose from {', '.join(values)}.")
        return value

    def matching(self, key: str, pattern: re.Pattern | tuple[re.Pattern, ...], default: str | None = None) -> str:
        value = self.text(key, default)
        patterns = pattern if isinstance(pattern, tuple) else (pattern,)
        if value and not any(each.fullmatch(value) for each in patterns):
            raise LessonError(f"{self.where}: {key!r} is {value!r}, which is not understood.")
        return value

    def sum(self, key: str, default: str | None = None) -> str:
        value = self.text(key, default)
        if value:
            as_sum(value, f"{self.where}: {key!r}")
        return value

    def switch(self, key: str) -> bool:
        return self._take(key, bool, False)

    def table(self, key: str) -> dict:
        return self._take(key, dict, {})

    def parts(self, key: str, least: int, name: str = "") -> list["Part"]:
        rows = self._take(key, list, [])
        if len(rows) < least:
            raise LessonError(f"{self.where} needs at least {least} of {key!r}.")
        return [Part(f"{self.where}, {name or key} {i}", row) for i, row in enumerate(rows, 1)]

    def strings(self, key: str, least: int = 0) -> tuple[str, ...]:
        rows = self._take(key, list, [])
        if len(rows) < least or not all(isinstance(row, str) and row.strip() for row in rows):
            raise LessonError(f"{self.where}: {key!r} must be a list of {least or 'any number of'} or more texts.")
        return tuple(rows)

    def texts(self) -> dict[str, str]:
        return {key: self.text(key) for key in self.values}

    def over(self) -> None:
        if self.left:
            raise LessonError(f"{self.where} has {min(self.left)!r}, which nobody reads.")


def _words(kind: Any) -> str:
    return {str: "text", int: "a whole number", bool: "true or false", list: "a list", dict: "a table"}[kind]


def as_sum(text: str, where: str) -> None:
    try:
        sums.parse(text)
    except ValueError as error:
        raise LessonError(f"{where} is {text!r}: {error}.") from error

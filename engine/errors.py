"""Defines the kinds of error whose messages users read, written where they are raised, and words their numbers.

Every message is a full sentence: the problem, and how to solve it. The command line prints it and exits with 1; the
page shows it and serves the next request. Any other exception that escapes is a bug.
"""

import difflib
import re
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import AfterValidator


class EngineError(Exception):
    """A problem whose message may be shown to a user unchanged."""


class BadInput(EngineError):
    """The request itself cannot be served (a setting out of range, an empty prompt, an unknown name)."""


class QueueFull(BadInput):
    """Too many runs wait already; the same request may be served in a minute."""


class Unavailable(EngineError):
    """Something the request needs is missing here (weights, memory, disk, the hub)."""


_PROBLEMS = dict.fromkeys(("extra_forbidden", "unexpected_keyword_argument"), "there is no such field")
_PROBLEMS |= dict.fromkeys(("missing", "missing_keyword_only_argument"), "it is missing")


def explain(error) -> str:
    """Returns "FIELD: PROBLEM" for the first mistake in a pydantic ValidationError. The field is a path such as
    ``rounds.3.start``; parts of unusual form become "…", because they come from the file."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    field = ".".join(part if re.fullmatch(r"[\w-]{1,40}", part) else "…" for part in map(str, first["loc"][:6]))
    problem = _PROBLEMS.get(first["type"]) or first["msg"].removeprefix("Value error, ")[:160]
    return f"{field}: {problem}" if field else problem


def spell(value) -> str:
    """Returns a wrong value as its sender may have written it: with true, false and null instead of Python's words.

    >>> spell(True), spell(None), spell("4"), spell(2.5)
    ('true', 'null', "'4'", '2.5')
    """
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return repr(value[:40]) if isinstance(value, str) else repr(value)[:40]


def did_you_mean(name: str, known: Collection[str], most: int = 3, cutoff: float = 0.4) -> str:
    """Returns the end of a sentence about an unknown name: the nearest of the names, or all of them."""
    near = difflib.get_close_matches(name, known, most, cutoff)
    return f"did you mean {' or '.join(near)}?" if near else f"choose from {', '.join(known)}."


def and_list(items: Iterable[object]) -> str:
    """Words a list that is not empty.

    >>> and_list([2, 4, 8])
    '2, 4 and 8'
    """
    *most, last = map(str, items)
    return f"{', '.join(most)} and {last}" if most else last


def percent(share: float, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f}\u00a0%"  # no line breaks before the sign


def quantity(number: int, noun: str, plural: str = "") -> str:
    """Returns the number with its noun.

    >>> quantity(1, "token"), quantity(2000, "token"), quantity(3, "pass"), quantity(0, "reply", "replies")
    ('1 token', '2,000 tokens', '3 passes', '0 replies')
    """
    if number != 1:
        noun = plural or f"{noun}{'es' if noun.endswith('s') else 's'}"
    return f"{number:,} {noun}"


def matching(pattern: str, form: str) -> "AfterValidator":
    """Returns the check of an ``Annotated[str, …]`` field: the text matches ``pattern``. ``form``: its words."""
    from pydantic import AfterValidator

    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(f"{value[:60]!r} must be {form}")
        return value

    return AfterValidator(check)

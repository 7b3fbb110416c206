"""Reads the events of a streamed answer: server-sent events as the HTML standard has them, or bare JSON.

It knows nothing about what an event says. A comment (`: keep-alive`), an id and a retry time say nothing of an answer,
so they are passed over; each other thing that is not used is named to ``leave_out``.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

from engine.errors import Unavailable

MAX_LINE = 2**20  # bytes
Blocks = Iterable[tuple[float, bytes]]  # the bytes of an answer as they come, each block with its time
LeaveOut = Callable[[str], object]


class Cut(Unavailable):
    """The stream ended before the answer did."""

    def __init__(self, words: str = ""):
        within = f", within “{words}”" if words else ""
        super().__init__(f"The connection was cut before the end of the answer{within}.")


def read_events(blocks: Blocks, leave_out: LeaveOut) -> Iterator[tuple[float, dict | str | None]]:
    """Yields (time, object) of each event as soon as its data are complete, and None for [DONE], where reading ends.

    An object may come on one line or on several, with ``data:`` before it or bare; an event named error becomes
    ``{"error": …}``, and data that are words come as a text. Raises Unavailable for anything else, and the events
    before it stay good.
    """
    data, name, at = [], "", 0.0
    for now, line in chain(_lines(blocks), [(None, b"")]):
        text = decode(line)
        is_end = not text.strip()
        at = at if is_end or now is None else now
        field, value = _field(text, has_data=bool(data))
        if field == "event":
            name = value.strip()
        elif field == "error":  # llama-server of before August 2025 wrote it so
            data, name = [value], "error"
        elif field == "data":
            # Some gateways pass a comment on as data (mnfst/llm-gateway#2053).
            data += [value] if value.strip() and (data or not value.startswith(":")) else []
        elif field:
            leave_out("a line that is no event")
        # Most events are one line. The lines of a longer one are parsed once, at the empty line after them.
        if data and (is_end or len(data) == 1):
            words = "\n".join(data).strip()
            if words.strip('"').upper() == "[DONE]":
                yield at, None
                return
            value, is_json = parse(words, leave_out)
            if is_end and not is_json and words[0] not in "{[" and name != "error":
                yield at, quote(words)
                data = []
            elif is_json or is_end:
                yield from ((at, each) for each in _objects(value, words, is_json, name == "error", now is None))
                data = []
        name = "" if is_end else name


def _lines(blocks: Blocks) -> Iterator[tuple[float, bytes]]:
    r"""Yields (time of its end, line) for lines that end with \r\n, \n or \r; the last one may have no end."""
    parts, size, at, has_cr, is_first = [], 0, 0.0, False, True
    for at, block in blocks:
        block = block.removeprefix(b"\n") if has_cr else block
        has_cr = block.endswith(b"\r")
        *ended, rest = re.split(rb"\r\n|\n|\r", block)
        for line in ended:
            line = b"".join((*parts, line))
            _check_size(len(line))
            yield at, line.removeprefix(b"\xef\xbb\xbf") if is_first else line
            parts, size, is_first = [], 0, False
        parts.append(rest)
        size += len(rest)
        _check_size(size)
    if size:
        yield at, b"".join(parts)


def _check_size(size: int) -> None:
    if size > MAX_LINE:
        raise Unavailable(f"The server sent a line of over {MAX_LINE // 2**20} MiB, so the stream was given up.")


def _field(text: str, has_data: bool) -> tuple[str, str]:
    """Returns a line's field and value; no field for an empty line and for what says nothing of the answer."""
    field, colon, value = text.partition(":")
    if field in ("data", "event", "error") and colon:
        return field, value.removeprefix(" ")
    if not field.strip() or field in ("id", "retry", "data", "event"):
        return "", ""
    return ("data" if has_data or text.lstrip()[0] in "{[" else "unknown"), text


def _objects(value: Any, words: str, is_json: bool, is_error: bool, at_end: bool) -> list[dict]:
    """Returns the objects of an event. Google's API sends its errors as a list of one object."""
    if is_error:
        return [{"error": value if is_json else words}]
    if not is_json:
        raise (
            Cut(quote(words))
            if at_end
            else Unavailable(f"The server sent an event that is not JSON: “{quote(words)}”.")
        )
    objects = value if isinstance(value, list) and value else [value]
    if value is not None and not all(isinstance(each, dict) for each in objects):
        raise Unavailable("The server sent an event that is not an object; is this an OpenAI-compatible server?")
    return objects if value is not None else []


def parse(text: str, leave_out: LeaveOut = str) -> tuple[Any, bool]:
    """Returns the value of a JSON text, and whether it is one. Of a name that comes twice the last value counts."""

    def collect(pairs: list[tuple[str, Any]]) -> dict:
        value = dict(pairs)
        if len(value) < len(pairs):
            leave_out(f"the first of two {Counter(name for name, _ in pairs).most_common(1)[0][0]}")
        return value

    try:
        return json.loads(text, object_pairs_hook=collect), True
    except (ValueError, RecursionError):
        return None, False


def decode(data: bytes) -> str:
    """Returns the text of UTF-8. Raises Unavailable."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unavailable("The server sent bytes that are not UTF-8, so its answer cannot be read.") from error


def error_words(value: Any) -> str:
    """Returns what an error says, in the forms that servers have for it; "" for none."""
    field = ""
    for _ in range(4):
        if isinstance(value, list):
            value = value[0] if value else ""
        if not isinstance(value, dict):
            break
        if isinstance(place := value.get("loc"), list):  # as pydantic has it
            field = f"{'.'.join(map(str, place))}: "
        value = next(
            (value[key] for key in ("message", "msg", "error", "detail", "code") if value.get(key)), str(value)
        )
    return quote(f"{field}{value}") if value else ""


def quote(words: str, longest: int = 200) -> str:
    """Returns the words on one line, with a question mark for each sign that is not printable."""
    text = " ".join(words.split())[:longest]
    return "".join(each if each.isprintable() else "?" for each in text).rstrip(".")

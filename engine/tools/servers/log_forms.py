"""Finds acceptance figures in what an engine prints or serves.

assets/data/log_forms.json lists the forms; the version in a name is the one that the form was written from. This module
and assets/web/lessons/tools/log_forms.js read them in the same way, and one file of cases tests both. In the list:

- ``line``: a line of a log; its last group holds ``numbers``, which follow these words, and ``reached``. A group before
  is the drafter. ``totals_of``: the last line of each such value has all, because it counts from the start on.
- ``averages``: SGLang's lines. ``is_average``: the counts are averages, so γ is rounded.
- ``prefix``: how the names of counters on /metrics begin.
- ``keys``: counts in the JSON of an answer, by what they count. ``total``: names for the tokens of the answer.
  ``histogram``: how many rounds accepted 0, 1, 2 … drafts; it ``ends_early`` where no round accepted more.
- ``silent``: the signs of an engine whose text tells nothing of its drafts, and what does.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from engine.files import ASSETS


@dataclass(frozen=True, slots=True)
class LogRow:
    """One line, counter or answer. ``rounds`` had drafts; a None was not told. ``reached``: the share of rounds that
    accepted each position. ``kind``: its drafter, where a text names several."""

    accepted: float | None
    drafted: float | None = None
    rounds: float | None = None
    gamma: int | None = None
    reached: tuple[float, ...] = ()
    kind: str = ""


class Text(str):
    """A text that every form reads. Its JSON is parsed once, and forgotten together with it."""

    @cached_property
    def objects(self) -> list[tuple[Any, dict]]:
        """Every JSON object of the text, each with what names its answer: an id, else the stream that it is part of,
        else only itself."""
        try:
            values = [(None, json.loads(self))]
        except (ValueError, RecursionError):
            values, stream = [], 0
            for line in map(str.strip, self.split("\n")):
                stream += line == "data: [DONE]"
                body = line.removeprefix("data:").strip()
                if body[:1] in ("{", "["):
                    try:
                        values.append((f"stream {stream}" if line != body else None, json.loads(body)))
                    except (ValueError, RecursionError):
                        continue
        return [(id, each) for stream, value in values for id, each in _within(value, stream)]


_DATA = json.loads((ASSETS / "data" / "log_forms.json").read_text(encoding="utf-8"))
_NUMBER = _DATA["number"]  # the first 15 digits of a longer one, so that each is finite


@dataclass(frozen=True, eq=False)
class Form:
    """``source``: log, metrics or answer. ``entry``: all that the list says of it."""

    engine: str
    name: str
    source: str
    entry: Mapping[str, Any]

    def rows(self, text: Text) -> Iterator[LogRow]:
        reader = next(reader for key, reader in _READERS.items() if key in self.entry)
        yield from reader(text, self.entry)


def _derive(entry: Mapping, figures: Mapping[str, float], reached: tuple[float, ...] = (), kind: str = "") -> LogRow:
    """Derives the figures that a form does not name from those that it does."""
    accepted, drafted, rounds, length, tokens = map(figures.get, ("accepted", "drafted", "rounds", "length", "tokens"))
    gamma = (
        round(figures.get("gamma", 0))
        or (0 if entry.get("ends_early") else len(reached))
        or _equal_drafts(drafted, rounds)
    )
    if accepted is None and tokens is not None:
        accepted = max(0, tokens - 1 - (rounds or 0))
    elif accepted is None and length is not None:
        accepted, rounds = max(0.0, length - 1), 1
    elif length and length > 1 and accepted:
        rounds = accepted / (length - 1)
    elif accepted is not None and tokens is not None:
        # Every pass after the prompt's own gave one token beside the accepted ones, also one without a draft.
        rounds = max(0, tokens - 1 - accepted) or None
    if accepted is not None and "rejected" in figures:
        drafted = accepted + figures["rejected"]
    if entry.get("is_average") and drafted and rounds:
        gamma = round(drafted / rounds)
    if entry.get("ends_early") and gamma and reached:
        reached = (*reached, *[0.0] * gamma)[:gamma]
    return LogRow(accepted, drafted, rounds, gamma or None, reached, kind)


def _equal_drafts(drafted: float | None, rounds: float | None) -> int | None:
    """Returns the drafts a round, where every round had as many."""
    return round(drafted / rounds) if rounds and drafted and drafted % rounds == 0 else None


# ── lines of a log ──


def _lines(text: str, entry: Mapping) -> Iterator[LogRow]:
    rows: dict[Any, LogRow] = {}
    for match in re.finditer(entry["line"], text):
        *kind, line = match.groups()
        matches = {name: re.search(rf"{words} *({_NUMBER})", line) for name, words in entry["numbers"].items()}
        figures: dict[str, Any] = {name: float(number[1]) for name, number in matches.items() if number}
        reached = re.search(entry["reached"], line) if "reached" in entry else None
        last, key, row = entry.get("totals_of", "accepted"), len(rows), LogRow(None)
        if {"accepted", "drafted", last} <= figures.keys() | {"kind"}:
            row = _derive(entry, figures, _numbers(reached), *kind)
            key = str((figures | {"kind": row.kind})[last]) if "totals_of" in entry else key
        if row.drafted or key not in rows:
            rows[key] = row
    yield from rows.values()


def _numbers(match: re.Match | None) -> tuple[float, ...]:
    return tuple(map(float, re.findall(_NUMBER, match[1]))) if match else ()


def _averages(text: str, entry: Mapping) -> Iterator[LogRow]:
    """Averages over the rounds since the line before, so lines count alike. The rate is accepted ÷ drafted in newer
    versions; in older ones both counts include the closing token. The one that fits whole γ better is taken. Both are
    rounded, so a line that fits the usual γ has it."""
    pairs = re.findall(entry["averages"].replace("NUMBER", _NUMBER), text)
    lines = [(float(length), float(rate or 0)) for length, rate in pairs]
    moving = [(length, rate) for length, rate in lines if rate > 0 and length > 1]
    newer, older = [(length - 1) / rate for length, rate in moving], [length / rate - 1 for length, rate in moving]
    offset = 1 if _distance(newer) < _distance(older) else 0
    usual = round(_middle(newer if offset else older)) if moving else None
    for length, rate in lines:
        gamma, closing = usual, 0 if offset else 1
        if rate > 0 and length > 1:
            most = (length + 0.005 - offset) / max(1e-9, rate - 0.005) - closing
            least = (length - 0.005 - offset) / (rate + 0.005) - closing
            if usual is not None and not least <= usual <= most:
                gamma = round((length - offset) / rate - closing)
        yield LogRow(max(0.0, length - 1), gamma, 1, gamma)


def _middle(values: list[float]) -> float:
    return sorted(values)[len(values) // 2] if values else 0.0


def _distance(values: list[float]) -> float:
    """Measures how far the values are from one whole number."""
    return max((abs(value - round(_middle(values))) for value in values), default=0.0)


# ── /metrics ──


def counters(text: str, prefix: str) -> list[dict[str, Any]]:
    """Returns the counts of each model and engine on /metrics, with ``places`` by position."""
    pattern = _DATA["counter"].replace("PREFIX", prefix).replace("NUMBER", _NUMBER)
    models: dict[tuple, dict[str, Any]] = {}
    for name, labels, value in re.findall(pattern, text, re.MULTILINE):
        pairs = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        place = pairs.pop("position", None)
        counts = models.setdefault(tuple(sorted(pairs.items())), {"places": {}})
        if place is None:
            counts[name] = float(value)
        elif place.isdecimal():
            counts["places"][int(place)] = float(value)
    return [each for each in models.values() if {"drafts", "draft_tokens", "accepted_tokens"} <= each.keys()]


def _metrics(text: str, entry: Mapping) -> Iterator[LogRow]:
    for each in counters(text, entry["prefix"]):
        rounds, places = each["drafts"], each["places"]
        figures = {"rounds": rounds, "drafted": each["draft_tokens"], "accepted": each["accepted_tokens"]}
        yield _derive(entry, figures, tuple(places[i] / rounds for i in sorted(places)) if rounds else ())


# ── answers ──


def _within(value: Any, answer: Any) -> Iterator[tuple[Any, dict]]:
    """Yields the object and those within it, to a depth that answers have."""
    rest = [(value, answer, 0)]
    while rest:
        value, answer, depth = rest.pop()
        if isinstance(value, dict):
            answer = value["id"] if isinstance(value.get("id"), str) else answer
            yield answer, value
        inner = list(value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())
        if depth < 8:
            rest += [(each, answer, depth + 1) for each in reversed(inner) if isinstance(each, dict | list)]


def _read_counts(each: Mapping, names: Sequence) -> list[float] | None:
    """Reads the counts by these names; None where one is missing or none."""
    values = [each.get(name) for name in names]
    counts = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool) and 0 <= v < 2**53]
    return counts if len(counts) == len(values) else None


def _answers(text: Text, entry: Mapping) -> Iterator[LogRow]:
    """Reads answers by the names of their counts. The counts of one answer grow, so its last ones are its totals. Any
    other text than JSON is searched for the names."""
    names, last, totals = list(entry["keys"].values()), {}, {}
    for id_, each in text.objects:
        answer = id(each) if id_ is None else id_
        for total in filter(None, (_read_counts(each, [name]) for name in entry.get("total", ()))):
            totals[answer] = total[0]
        if counts := _read_counts(each, names):
            last[answer] = counts, each
    if not last:
        columns = [re.findall(rf"[\"']{name}[\"']: *({_NUMBER})", text) for name in names]
        last = {0: ([float(column[-1]) for column in columns], {})} if all(columns) else {}
    for answer, (counts, more) in last.items():
        figures = dict(zip(entry["keys"], counts, strict=True))
        if answer in totals:
            figures["tokens"] = totals[answer]
        yield _derive(entry, figures, _histogram(more.get(entry.get("histogram"))))


def _histogram(rounds: Any) -> tuple[float, ...]:
    """Returns the share of rounds that accepted each place, from how many rounds accepted 0, 1, 2 … drafts."""
    known = isinstance(rounds, list) and _read_counts(dict(enumerate(rounds)), range(len(rounds)))
    return tuple(sum(known[i:]) / sum(known) for i in range(1, len(known))) if known and sum(known) else ()


_READERS: dict[str, Callable[[Text, Mapping], Iterator[LogRow]]] = {
    "line": _lines, "averages": _averages, "prefix": _metrics, "keys": _answers,
}  # fmt: skip
SILENT = [(each["sign"], each["sentence"]) for each in _DATA["silent"]]
FORMS = [Form(entry["engine"], entry["name"], entry["source"], entry) for entry in _DATA["forms"]]

"""Reads acceptance figures from a log, /metrics or saved answers of an engine.

Rows of different draft lengths are never added up: each length has its own `LogReading`. A sentence names each thing
that is left out. In the browser assets/web/lessons/tools/log_reader.js does the same; one file of cases tests both.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from engine.tools.servers.log_forms import FORMS, SILENT, Form, LogRow, Text, counters

LONGEST = 1_000_000  # characters; only the end of a longer text is read


@dataclass(frozen=True, slots=True)
class LogReading:
    """The figures of one form, drafter and draft length, from ``rows`` rows. A None was not told. Only ratios of the
    counts mean something in forms that print averages."""

    engine: str
    form: str
    rows: int
    accepted: float
    rounds: float | None = None
    drafted: float | None = None
    gamma: int | None = None
    reached: tuple[float, ...] = ()

    @property
    def tau(self) -> float | None:
        """Tokens of a round with drafts, its closing token included."""
        return 1 + self.accepted / self.rounds if self.rounds else None

    @property
    def per_drafted(self) -> float | None:
        return self.accepted / self.drafted if self.drafted else None

    @property
    def has_short_drafts(self) -> bool:
        """Whether some drafts were shorter than γ, so that ``alphas`` are lower bounds."""
        return bool(self.rounds and self.drafted and self.drafted < 0.99 * self.rounds * (self.gamma or 0))

    @property
    def alphas(self) -> list[float | None]:
        """α at each place: the share of the drafts tested there that was accepted."""
        before = (1.0, *self.reached)
        return [share / all_ if all_ else None for share, all_ in zip(self.reached, before, strict=False)]


@dataclass(frozen=True, slots=True)
class LogReport:
    """``unused``: sentences on what the text holds beside the readings."""

    readings: list[LogReading]
    unused: list[str]


def report(text: str) -> LogReport:
    """Returns the readings of the first form that tells something, the longest draft last."""
    unused = [f"Only the last {LONGEST:,} characters were read."] if len(text) > LONGEST else []
    text = Text(text[-LONGEST:])
    tables = _tables(text)
    usable = {form: [row for row in rows if not _fault(row)] for form, rows in tables}
    first = next((form for form, rows in usable.items() if rows), None)
    for form, rows in tables:
        if form is first or not first:
            unused += _faults(form, rows)
        elif form.source != "answer" or first.source != "answer":
            unused.append(f"{form.engine}, {form.name}: not added, because it may count the same drafts.")
    if not tables:
        unused += [sentence for sign, sentence in SILENT if re.search(sign, text)]
    return LogReport(_readings(first, usable[first]) if first else [], unused)


def _tables(text: Text) -> list[tuple[Form, list[LogRow]]]:
    return [(form, rows) for form in FORMS if (rows := list(form.rows(text)))]


def _faults(form: Form, rows: Sequence[LogRow]) -> list[str]:
    """Returns a sentence for each reason why rows are left out."""
    counts = Counter(filter(None, map(_fault, rows)))
    return [f"{form.engine}, {form.name}: {n} of {len(rows)} {why}." for why, n in counts.items()]


def _fault(row: LogRow) -> str:
    """Says why a row cannot be used; "" where it can."""
    if row.accepted is None:
        return "end before their numbers"
    if row.drafted == 0 or (row.drafted is None and row.rounds == 0):
        return "drafted nothing"
    is_rising = any(b > a + 1e-3 for a, b in zip((1.0, *row.reached), row.reached, strict=False))
    if (row.drafted is not None and row.accepted > row.drafted + 1e-9) or is_rising:
        return "cannot be: more is accepted than was offered"
    return ""


def _readings(form: Form, rows: Sequence[LogRow]) -> list[LogReading]:
    groups: dict[tuple, list[LogRow]] = {}
    for row in rows:
        groups.setdefault((row.gamma or 0, row.kind), []).append(row)
    return [_sum(form, groups[key]) for key in sorted(groups)]


def _sum(form: Form, rows: Sequence[LogRow]) -> LogReading:
    """Adds up the rows of one draft length. One that accepted nothing may not tell its rounds; its drafts do."""
    gamma, kind = rows[0].gamma, rows[0].kind
    rounds_or_none = [row.rounds or (row.drafted / gamma if row.drafted and gamma else None) for row in rows]
    rounds = [each for each in rounds_or_none if each is not None]
    total = sum(rounds) if len(rounds) == len(rows) else None
    places = min(len(row.reached) for row in rows) if total else 0
    shares = [tuple(n * share for share in row.reached[:places]) for n, row in zip(rounds, rows, strict=False)]
    reached = tuple(sum(place) / total for place in zip(*shares, strict=True)) if total else ()
    drafted = None if any(row.drafted is None for row in rows) else sum(row.drafted or 0 for row in rows)
    name = f"{form.name}, {kind}" if kind else form.name
    accepted = sum(row.accepted or 0 for row in rows)
    return LogReading(form.engine, name, len(rows), accepted, total, drafted, gamma, reached)


def read_metrics(text: str) -> dict[str, int] | None:
    """Returns vLLM's counters on /metrics, of all its models and engines together; None without them."""
    names = {"rounds": "drafts", "drafted": "draft_tokens", "accepted": "accepted_tokens"}
    models = counters(text, "vllm")
    return {ours: int(sum(one[theirs] for one in models)) for ours, theirs in names.items()} if models else None

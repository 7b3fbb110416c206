"""Reads acceptance figures from what an engine prints or serves: lines of its log, /metrics, or a saved answer.

Lines of different draft lengths are never added up: each length has a `Reading` of its own. In the browser
assets/web/lessons/acceptance_log.js reads the log lines; one table of examples tests both.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

LONGEST = 1_000_000  # characters; only the end of a longer text is read


@dataclass(frozen=True, slots=True)
class Reading:
    """The figures of one form at one draft length. ``rounds`` had drafts; ``drafted`` and ``accepted`` are tokens; a
    None was not told. Only their ratios count in the forms that print averages. ``reached``: the share of rounds that
    accepted each position. ``form`` names it, ``lines`` how many lines of it."""

    engine: str
    form: str
    lines: int
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


def read(text: str) -> list[Reading]:
    """The readings of every form that the text holds, the longest draft last; empty where nothing was recognised."""
    text = text[-LONGEST:]
    for engine, form, rows_of in FORMS:
        if rows := list(rows_of(text)):
            groups: dict[int | None, list[Reading]] = {}
            for row in rows:
                groups.setdefault(row.gamma, []).append(row)
            return [_sum(engine, form, groups[g]) for g in sorted(groups, key=lambda g: (g is not None, g))]
    return []


def read_metrics(text: str) -> dict[str, int] | None:
    """vLLM's counters on /metrics, of all its models and engines together; None without them."""
    names = {"rounds": "drafts", "drafted": "draft_tokens", "accepted": "accepted_tokens"}
    counts: dict[str, Any] = {
        ours: _counter(text, f"vllm:spec_decode_num_{theirs}_total") for ours, theirs in names.items()
    }
    return None if None in counts.values() else {name: int(value) for name, value in counts.items()}


def _counter(text: str, name: str) -> float | None:
    rows = re.findall(rf"^{re.escape(name)}(?:\{{[^}}\n]*\}})? +([\d.e+]+)", text, re.MULTILINE)
    return sum(map(float, rows)) if rows else None


def _sum(engine: str, form: str, rows: list[Reading]) -> Reading:
    """Lines of one draft length together. A line that accepted nothing may not tell its rounds; its drafts do."""
    gamma = rows[0].gamma
    rounds: list[Any] = [row.rounds or (row.drafted / gamma if row.drafted and gamma else None) for row in rows]
    is_complete = None not in rounds
    with_places = [(n, row) for n, row in zip(rounds, rows, strict=True) if n and row.reached]
    places = max((len(row.reached) for _, row in with_places), default=0) if len(with_places) == len(rows) else 0
    reached = tuple(
        sum(n * (row.reached[i] if i < len(row.reached) else 0) for n, row in with_places) / sum(rounds)
        for i in range(places)
    )
    drafted = None if any(row.drafted is None for row in rows) else sum(row.drafted or 0 for row in rows)
    accepted = sum(row.accepted for row in rows)
    return Reading(engine, form, len(rows), accepted, sum(rounds) if is_complete else None, drafted, gamma, reached)


def _vllm_log(text: str) -> Iterator[Reading]:
    for line in re.findall(r"SpecDecoding metrics:([^\n]*)", text):
        length, accepted, drafted = (
            _number(line, name) for name in (r"Mean acceptance length:", r"Accepted:", r"Drafted:")
        )
        places = _numbers(line, r"Per-position acceptance rate: *\[?([\d., ]+)")
        if accepted is None or not drafted:
            continue
        gamma = len(places) or None
        rounds = accepted / (length - 1) if length and length > 1 and accepted else drafted / gamma if gamma else None
        yield Reading("", "", 1, accepted, rounds, drafted, gamma, places)


def _vllm_metrics(text: str) -> Iterator[Reading]:
    if (counts := read_metrics(text)) and (rounds := counts["rounds"]):
        rows = re.findall(
            r'^vllm:spec_decode_num_accepted_tokens_per_pos_total\{[^}\n]*position="(\d+)"[^}\n]*\} +([\d.e+]+)',
            text, re.MULTILINE,
        )  # fmt: skip
        places: dict[int, float] = {}
        for place, count in rows:
            places[int(place)] = places.get(int(place), 0) + float(count) / rounds
        reached = tuple(places[i] for i in sorted(places))
        yield Reading("", "", 1, counts["accepted"], rounds, counts["drafted"], len(reached) or None, reached)


def _llama_requests(text: str) -> Iterator[Reading]:
    pattern = r"draft acceptance(?: rate)? = *[\d.]+ \( *(\d+) accepted / *(\d+) generated\)([^\n]*)"
    for accepted, drafted, more in re.findall(pattern, text):
        length = _number(more, r"mean (?:acceptance length|len) =")
        places = _numbers(more, r"(?:per position|per pos) = \(([\d., ]+)")
        rounds = int(accepted) / (length - 1) if length and length > 1 and int(accepted) else None
        if int(drafted):
            yield Reading("", "", 1, int(accepted), rounds, int(drafted), len(places) or None, places)


def _llama_totals(text: str) -> Iterator[Reading]:
    """Totals since the start, so only the last line of each kind of draft counts."""
    pattern = (
        r"statistics +(\S+?):[^\n]*?#gen drafts = *(\d+),[^\n]*?#gen tokens = *(\d+), *#acc tokens = *(\d+)([^\n]*)"
    )
    last = {kind: row for kind, *row in re.findall(pattern, text)}
    for rounds, drafted, accepted, more in last.values():
        places = _numbers(more, r"rate/pos = \(([\d., ]+)")
        if int(drafted):
            yield Reading("", "", 1, int(accepted), int(rounds), int(drafted), len(places) or None, places)


def _sglang_log(text: str) -> Iterator[Reading]:
    """Averages over the rounds since the line before, so lines count alike. The rate is accepted ÷ drafted in newer
    versions; in older ones both counts include the closing token. Where one fits a whole γ better, it is that one."""
    rows = [tuple(map(float, row)) for row in re.findall(r"accept len: *([\d.]+), *accept rate: *([\d.]+)", text)]
    moving = [row for row in rows if row[1] > 0 and row[0] > 1]
    newer, older = [(length - 1) / rate for length, rate in moving], [length / rate - 1 for length, rate in moving]
    fits = newer if _distance(newer) < _distance(older) else older
    gamma = round(sorted(fits)[len(fits) // 2]) if fits else None
    for length, _ in rows:
        yield Reading("", "", 1, max(0.0, length - 1), 1, gamma, gamma)


def _distance(values: list[float]) -> float:
    """How far the values are from one whole number."""
    middle = round(sorted(values)[len(values) // 2]) if values else 0
    return max((abs(value - middle) for value in values), default=0.0)


def _tensorrt_log(text: str) -> Iterator[Reading]:
    drafted, accepted, length = (_number(text, rf"\[{name}\] AVERAGE *:") for name in ("DT", "ADT", "AL"))
    if drafted is not None and accepted is not None:
        rounds = accepted / (length - 1) if length and length > 1 and accepted else None
        yield Reading("", "", 1, accepted, rounds, drafted, round(drafted / rounds) if rounds else None)


def _json(rounds: str, drafted: str, accepted: str) -> Callable[[str], Iterator[Reading]]:
    def rows(text: str) -> Iterator[Reading]:
        columns = [re.findall(rf'"{name}": *(\d+)', text) for name in (rounds, drafted, accepted) if name]
        if all(columns):
            *more, d, a = [int(column[-1]) for column in columns]  # counted up, so the last ones are the totals
            n = more[0] if more else None
            if d:
                yield Reading("", "", 1, a, n, d, round(d / n) if n and d % n == 0 else None)

    return rows


_VLLM_ANSWER = ("num_spec_steps", "num_draft_tokens", "num_accepted_draft_tokens")
_SGLANG_ANSWER = ("spec_verify_ct", "spec_num_proposed_drafts", "spec_num_correct_drafts")
FORMS: list[tuple[str, str, Callable[[str], Iterator[Reading]]]] = [
    ("vLLM", "SpecDecoding metrics lines of its log (0.32)", _vllm_log),
    ("vLLM", "counters of /metrics (0.32)", _vllm_metrics),
    ("vLLM", "speculative_decoding of an answer (0.32)", _json(*_VLLM_ANSWER)),
    ("llama.cpp", "draft acceptance lines of its log", _llama_requests),
    ("llama.cpp", "statistics lines of its log", _llama_totals),
    ("llama.cpp", "timings of an answer", _json("", "draft_n", "draft_n_accepted")),
    ("SGLang", "accept len of its log", _sglang_log),
    ("SGLang", "meta_info of an answer (0.5.23)", _json(*_SGLANG_ANSWER)),
    ("TensorRT-LLM", "DT, ADT and AL of its log", _tensorrt_log),
    ("TensorRT-LLM", "/perf_metrics", _json("", "total_draft_tokens", "total_accepted_draft_tokens")),
]


def _number(text: str, name: str) -> float | None:
    match = re.search(rf"{name} *(\d+(?:\.\d+)?)", text)
    return float(match[1]) if match else None


def _numbers(text: str, pattern: str) -> tuple[float, ...]:
    match = re.search(pattern, text)
    return tuple(map(float, re.findall(r"\d+(?:\.\d+)?", match[1]))) if match else ()

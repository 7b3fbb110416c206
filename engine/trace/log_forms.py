"""Finds acceptance figures in what an engine prints or serves. Each form has a reader from a text to `Row`s.

In the browser assets/web/lessons/log_lines.js and log_answers.js know the same forms; one file of cases tests both. A
version is the one whose output or source the form was written from.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class Row:
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


class Form(NamedTuple):
    """``place``: log, metrics or answer."""

    engine: str
    name: str
    place: str
    rows: Callable[[Text], Iterator[Row]]


_NUMBER = r"\d{1,15}(?:\.\d{1,15})?"  # the first 15 digits of a longer one, so that each is finite


def _number(text: str, name: str) -> float | None:
    match = re.search(rf"{name} *({_NUMBER})", text)
    return float(match[1]) if match else None


def _numbers(text: str, pattern: str) -> tuple[float, ...]:
    match = re.search(pattern, text)
    return tuple(map(float, re.findall(_NUMBER, match[1]))) if match else ()


def _rounds(length: float | None, accepted: float | None, drafted: float | None, places: int) -> float | None:
    """Derives rounds from a mean length, or where nothing was accepted from a draft's places."""
    if length and length > 1 and accepted:
        return accepted / (length - 1)
    return drafted / places if drafted and places else None


# ── lines of a log ──


def _spec_decoding(is_lmdeploy: bool) -> Callable[[str], Iterator[Row]]:
    """Reads lines of vLLM and LMDeploy, which share the words; LMDeploy has a rate before the mean length."""

    def rows(text: str) -> Iterator[Row]:
        for line in re.findall(r"SpecDecoding metrics:([^\n]*)", text):
            if bool(re.match(r" Draft acceptance rate: [^,]*, Mean", line)) == is_lmdeploy:
                names = ("Mean acceptance length:", "Accepted:", "Drafted:")
                length, accepted, drafted = (_number(line, name) for name in names)
                places = _numbers(line, r"Per-position acceptance rate: *\[?([\d., ]+)")
                rounds = _rounds(length, accepted, drafted, len(places))
                yield Row(None if drafted is None else accepted, drafted, rounds, len(places) or None, places)

    return rows


def _vllm_v0(text: str) -> Iterator[Row]:
    """Reads lines of V0, which counts from its start on, so the last line of each γ has all; where the efficiency is
    nan, the line before counts."""
    last: dict[float, Row] = {}
    for line in re.findall(r"Speculative metrics:([^\n]*)", text):
        gamma, accepted, drafted = (_number(line, f"{name} tokens:") for name in ("speculative", "accepted", "draft"))
        if gamma is None or accepted is None or drafted is None:
            continue
        row = Row(accepted, drafted, drafted / gamma if gamma else None, round(gamma))
        if re.search("efficiency: *nan", line):
            yield row
        else:
            last[gamma] = row
    yield from last.values()


def _llama_requests(text: str) -> Iterator[Row]:
    """Reads one line for each request; since July 2026 the places are on the next line."""
    head = r"draft acceptance(?: rate)? = *[\d.]+ \( *(\d{1,15}) accepted / *(\d{1,15}) generated\)([^\n]*"
    for accepted, drafted, more in re.findall(rf"{head}(?:\n[^\n]*acc per pos = \([^\n]*)?)", text):
        length = _number(more, r"mean (?:acceptance length|len) =")
        places = _numbers(more, r"(?:per position|per pos) = \(([\d., ]+)")
        accepted, drafted = int(accepted), int(drafted)
        yield Row(accepted, drafted, _rounds(length, accepted, drafted, 0), len(places) or None, places)


def _llama_totals(text: str) -> Iterator[Row]:
    """Totals since the start, so the last line of each drafter counts. Rounds are the third of its calls: a draft is
    made more often than it is used where there are several drafters."""
    names, last = ("#gen drafts =", "#gen tokens =", "#acc tokens ="), {}
    for kind, line in re.findall(r"statistics +(\S+?):([^\n]*)", text):
        drafts, drafted, accepted = (_number(line, name) for name in names)
        if drafts is None or drafted is None or accepted is None:
            continue
        used, places = _number(line, r"#calls\(b,g,a\) = *\d+ +\d+ "), _numbers(line, r"rate/pos = \(([\d., ]+)")
        rounds = drafts if used is None else used
        last[kind] = Row(accepted, drafted, rounds, len(places) or _equal_drafts(drafted, rounds), places, kind)
    yield from last.values()


def _equal_drafts(drafted: float, rounds: float | None) -> int | None:
    """Returns the drafts a round, where every round had as many."""
    return round(drafted / rounds) if rounds and drafted and drafted % rounds == 0 else None


def _sglang_log(text: str) -> Iterator[Row]:
    """Averages over the rounds since the line before, so lines count alike. The rate is accepted ÷ drafted in newer
    versions; in older ones both counts include the closing token. The one that fits whole γ better is taken. Both are
    rounded, so a line that fits the usual γ has it."""
    pairs = re.findall(rf"accept len: *({_NUMBER})(?:, *accept rate: *({_NUMBER}))?", text)
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
        yield Row(max(0.0, length - 1), gamma, 1, gamma)


def _middle(values: list[float]) -> float:
    return sorted(values)[len(values) // 2] if values else 0.0


def _distance(values: list[float]) -> float:
    """Measures how far the values are from one whole number."""
    return max((abs(value - round(_middle(values))) for value in values), default=0.0)


def _tensorrt_log(text: str) -> Iterator[Row]:
    drafted, accepted, length = (_number(text, rf"\[{name}\] AVERAGE *:") for name in ("DT", "ADT", "AL"))
    if length is not None:
        rounds = _rounds(length, accepted, drafted, 0)
        gamma = round(drafted / rounds) if drafted and rounds else None
        yield Row(None if drafted is None else accepted, drafted, rounds, gamma)


# ── /metrics ──

COUNTERS = r"^{}:spec_decode_num_(drafts|draft_tokens|accepted_tokens|accepted_tokens_per_pos)(?:_total)?(?:\{{([^}}\n]*)\}})? +(\d{{1,15}}(?:\.\d{{1,15}})?(?:e\+?0*\d{{1,2}})?)(?=\s|$)"  # noqa: E501


def counters(text: str, prefix: str) -> list[dict[str, Any]]:
    """Returns the counts of each model and engine on /metrics, with ``places`` by position."""
    models: dict[tuple, dict[str, Any]] = {}
    for name, labels, value in re.findall(COUNTERS.format(prefix), text, re.MULTILINE):
        pairs = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        place = pairs.pop("position", None)
        counts = models.setdefault(tuple(sorted(pairs.items())), {"places": {}})
        if place is None:
            counts[name] = float(value)
        elif place.isdecimal():
            counts["places"][int(place)] = float(value)
    return [each for each in models.values() if {"drafts", "draft_tokens", "accepted_tokens"} <= each.keys()]


def _metrics(prefix: str) -> Callable[[str], Iterator[Row]]:
    def rows(text: str) -> Iterator[Row]:
        for each in counters(text, prefix):
            rounds, drafted = each["drafts"], each["draft_tokens"]
            reached = tuple(each["places"][i] / rounds for i in sorted(each["places"])) if rounds else ()
            gamma = len(reached) or _equal_drafts(drafted, rounds)
            yield Row(each["accepted_tokens"], drafted, rounds, gamma, reached)

    return rows


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


def _answer(names: tuple[str, ...], row: Callable[..., Row]) -> Callable[[Text], Iterator[Row]]:
    """Reads answers by the names of their counts. The counts of one answer grow, so its last ones are its totals. Any
    other text than JSON is searched for the names."""

    def rows(text: Text) -> Iterator[Row]:
        last: dict[Any, tuple[list[float], dict]] = {}
        for answer, each in text.objects:
            if counts := _read_counts(each, names):
                last[answer if answer is not None else len(last)] = counts, each
        if not last:
            columns = [re.findall(rf"[\"']{name}[\"']: *({_NUMBER})", text) for name in names]
            last = {0: ([float(column[-1]) for column in columns], {})} if all(columns) else {}
        yield from (row(*counts, more) for counts, more in last.values())

    return rows


def _histogram(more: dict, name: str) -> tuple[float, ...]:
    """Returns the share of rounds that accepted each place, from how many rounds accepted 0, 1, 2 … drafts."""
    rounds = more.get(name)
    known = isinstance(rounds, list) and _read_counts(dict(enumerate(rounds)), range(len(rounds)))
    return tuple(sum(known[i:]) / sum(known) for i in range(1, len(known))) if known and sum(known) else ()


def _vllm_answer(rounds: float, drafted: float, accepted: float, more: dict) -> Row:
    reached = _histogram(more, "acceptance_histogram")
    return Row(accepted, drafted, rounds, len(reached) or _equal_drafts(drafted, rounds), reached)


def _sglang_answer(histogram: str) -> Callable[..., Row]:
    def row(rounds: float, drafted: float, accepted: float, more: dict) -> Row:
        gamma, reached = _equal_drafts(drafted, rounds), _histogram(more, histogram)
        filled = (*reached, *[0.0] * (gamma or 0))[: gamma or len(reached)] if reached else ()
        return Row(accepted, drafted, rounds, gamma, filled)

    return row


def _llama_answer(drafted: float, accepted: float, more: dict) -> Row:
    """Reads an answer that does not tell the rounds. Every pass after the prompt's own gave one token beside the
    accepted ones, so that passes without a draft are among them."""
    total = _read_counts(more, ("predicted_n",))
    return Row(accepted, drafted, max(0, total[0] - 1 - accepted) or None if total else None)


def _counts(rounds: float, drafted: float, accepted: float, more: dict) -> Row:
    return Row(accepted, drafted, rounds, _equal_drafts(drafted, rounds))


FORMS = [
    Form("vLLM", "SpecDecoding metrics of its log (0.32)", "log", _spec_decoding(False)),
    Form("LMDeploy", "SpecDecoding metrics of its log (August 2026)", "log", _spec_decoding(True)),
    Form("vLLM", "Speculative metrics of its log (V0)", "log", _vllm_v0),
    Form("llama.cpp", "draft acceptance of its log (0.5)", "log", _llama_requests),
    Form("llama.cpp", "statistics of its log (0.5)", "log", _llama_totals),
    Form("SGLang", "accept len of its log (0.5)", "log", _sglang_log),
    Form("TensorRT-LLM", "DT, ADT and AL of trtllm-bench", "log", _tensorrt_log),
    Form("vLLM", "counters of /metrics (0.32)", "metrics", _metrics("vllm")),
    Form("llama.cpp", "counters of /metrics (0.5)", "metrics", _metrics("llamacpp")),
    Form("LMDeploy", "counters of /metrics (August 2026)", "metrics", _metrics("lmdeploy")),
    Form("vLLM", "speculative_decoding of an answer (0.32)", "answer",
         _answer(("num_spec_steps", "num_draft_tokens", "num_accepted_draft_tokens"), _vllm_answer)),
    Form("SGLang", "spec_tokens_details or meta_info of an answer (0.5.23)", "answer",
         _answer(("spec_verify_ct", "spec_num_proposed_drafts", "spec_num_correct_drafts"),
                 _sglang_answer("spec_correct_drafts_histogram"))),
    Form("SGLang", "meta_info of an answer (0.5.9)", "answer",
         _answer(("spec_verify_ct", "spec_draft_token_num", "spec_accept_token_num"),
                 _sglang_answer("spec_accept_histogram"))),
    Form("SGLang", "meta_info of an answer (0.4)", "answer",
         _answer(("spec_verify_ct", "completion_tokens"),
                 lambda rounds, tokens, more: Row(max(0, tokens - 1 - rounds), None, rounds))),
    Form("SGLang", "server_info", "answer",
         _answer(("avg_spec_accept_length",), lambda length, more: Row(max(0.0, length - 1), None, 1))),
    Form("mlx-vlm", "timings of an answer (August 2026)", "answer",
         _answer(("draft_rounds", "draft_n", "draft_n_accepted"), _counts)),
    Form("llama.cpp", "timings of an answer (0.5)", "answer",
         _answer(("draft_n", "draft_n_accepted"), _llama_answer)),
    Form("TensorRT-LLM", "specDecodingStats of /metrics (1.4)", "answer",
         _answer(("numRequestsWithDraftTokens", "numDraftTokens", "numAcceptedTokens"), _counts)),
    Form("TensorRT-LLM", "/perf_metrics (1.4)", "answer",
         _answer(("total_draft_tokens", "total_accepted_draft_tokens"),
                 lambda drafted, accepted, more: Row(accepted, drafted))),
    Form("OpenAI’s API", "prediction_tokens of an answer’s usage", "answer",
         _answer(("accepted_prediction_tokens", "rejected_prediction_tokens"),
                 lambda accepted, rejected, more: Row(accepted, accepted + rejected))),
]  # fmt: skip

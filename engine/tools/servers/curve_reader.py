"""Reads what a pass over W rows costs from the output of other programs' benchmarks, and from `server explain`.

| what | forms | seen in |
|---|---|---|
| llama-batched-bench | its table; `--output-format jsonl` | llama.cpp 0c1e570 of October 2026, running |
| llama-bench | its table (md), csv, json, jsonl | the same |
| vllm bench latency | its lines, `--output-json`, each after its batch size | source of 0.32 |
| server explain | its lines, with `--lookup` | this program |

vLLM writes no batch size beside its result, so a line with `--batch-size N` has to be before each.
"""

import csv
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from engine.errors import BadInput, and_list
from engine.tools.bench.pass_curve import WIDTHS, PassCurve, RowCost, curve_of, curve_of_numbers
from engine.tools.servers.costs import PARTS

MOST = 1_000_000  # characters
MICRO_BATCH = 512  # tokens of a prompt that llama-bench puts into one pass, unless its output says another number
_OWN = ("n_prompt", "n_gen", "n_depth", "test_time", "samples_ns", "samples_ts", "test", "t/s")  # each test's own
_OWN_BEGINNINGS = ("avg_", "stddev_")
_TEST = re.compile(r"(pp|tg) ?(\d+)(?:\+tg ?\d+)?(?: @ d ?(\d+))?$")
_LATENCY = re.compile(
    r"""(?:--|["']?\b)batch[-_ ]size["']?[=:\s]+(?P<batch>\d+)"""
    r"""|--(?P<length>input-len|output-len)[=\s]+(?P<tokens>\d+)"""
    r"""|(?:\bAvg\ latency:|"avg_latency":)\s*(?P<mean>[-\w.+]+)"""
    r"""|(?:\b50%\ percentile\ latency:|"50":)\s*(?P<middle>[-\w.+]+)""",
    re.VERBOSE,
)
ROWS_OF_A_PROMPT = (
    "llama-bench works out the next word of a prompt's last row alone, so a pass that checks drafts costs a bit more."
)
ROWS_OF_USERS = "Each row is a user with a text of their own, so it reads more of the cache than drafts of one user do."
PROMPTS_TOO = "Its times hold the reading of the prompts, too: keep those short."
STRAIGHT = "It is a straight line, because the points tell one price for every row."


class Entry(NamedTuple):
    """A row of a benchmark's output, by its own names. ``place``: where it is, such as "Line 4"."""

    place: str
    values: Mapping[str, Any]


def read_curve(text: str) -> PassCurve:
    """Returns the curve that a text tells, in whichever of the forms. Raises BadInput that names the mistake
    and its line."""
    if not text.strip():
        raise BadInput("Give five numbers, or the output of one of the benchmarks.")
    if len(text) > MOST:
        raise BadInput(f"This text has {len(text):,} characters; up to {MOST:,} are read.")
    if any(words in text for words in (f"{PARTS['plain']}:", f"{PARTS['row']}:")):
        return _read_parts(text)
    entries = _entries(text)
    if any("S_TG t/s" in each.values or "speed_tg" in each.values for each in entries):
        return _batched_bench(entries, text)
    if any("t/s" in each.values or "avg_ts" in each.values for each in entries):
        return _llama_bench(entries)
    if any(each["mean"] or each["middle"] for each in _LATENCY.finditer(text)):
        return _vllm_latency(text)
    if re.search(r"[A-Za-z]{3}", text):
        raise BadInput(
            "No curve was recognised. Give five numbers, or the output of llama-batched-bench, llama-bench, "
            "vllm bench latency or server explain."
        )
    return curve_of_numbers(text)


# ── rows of tables ──


def _entries(text: str) -> list[Entry]:
    """Returns the rows of Markdown tables, CSV, JSON and JSON lines; everything else is skipped."""
    stripped = text.strip()
    if stripped.startswith("["):
        try:
            listed = json.loads(stripped)
        except (ValueError, RecursionError) as error:
            raise BadInput(f"This list is not whole JSON: {error}.") from error
        return [Entry(f"Entry {i}", each) for i, each in enumerate(listed, 1) if isinstance(each, dict)]
    entries: list[Entry] = []
    heads: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        line, place = line.strip(), f"Line {number}"
        if line.startswith("{"):
            try:
                values = json.loads(line)
            except (ValueError, RecursionError):
                continue  # the first line of a longer object
            entries.append(Entry(place, values))
        elif line.startswith("build_commit,"):
            heads = line.split(",")
        elif heads and line.startswith('"'):
            cells = next(csv.reader([line]))
            if len(cells) != len(heads):
                raise BadInput(f"{place}: it has {len(cells)} values, and the first line names {len(heads)}.")
            entries.append(Entry(place, dict(zip(heads, cells, strict=True))))
        elif line.startswith("|") and line.endswith("|"):
            cells = [cell.strip() for cell in line[1:-1].split("|")]
            if {"S_TG t/s", "t/s"} & {*cells}:
                heads = cells
            elif heads and not re.fullmatch(r"[-:\s|]+", line):
                if len(cells) != len(heads):
                    raise BadInput(f"{place}: it has {len(cells)} cells, and the table has {len(heads)} columns.")
                entries.append(Entry(place, dict(zip(heads, cells, strict=True))))
    return entries


def _number(entry: Entry, *names: str) -> float:
    """Returns the number of the first of these names. "12.3 ± 0.4" counts as its mean."""
    value = next((entry.values[name] for name in names if name in entry.values), None)
    try:
        return float(str(value).split("±")[0])
    except ValueError:
        raise BadInput(f"{entry.place}: {names[0]} is {str(value)[:20]!r}, which is no number.") from None


def _refuse_another(entries: Sequence[Entry], conditions: Sequence[Mapping[str, Any]], advice: str) -> None:
    """Raises BadInput for the first row that was measured under other conditions than the first one."""
    for entry, each in zip(entries, conditions, strict=True):
        if other := [name for name in each if each[name] != conditions[0].get(name)]:
            name = other[0]
            first, this = (str(values.get(name))[:40] for values in (conditions[0], each))
            raise BadInput(f"{entry.place}: {name} is {this}, and {first} in the first row. {advice}")


# ── llama.cpp ──


def _batched_bench(entries: Sequence[Entry], text: str) -> PassCurve:
    """Reads rows that decode B texts at once, so B ÷ tokens a second is the time of a pass."""
    if re.search(r"is_tg_separate = [1-9]", text):
        raise BadInput("With -tgs the texts are decoded one after the other, not in one pass; leave it out.")
    conditions, costs = [], []
    for each in entries:
        lengths = [int(_number(each, *names)) for names in (("PP", "pp"), ("TG", "tg"))]
        shared = each.values.get("is_pp_shared", 0)
        conditions.append({"PP": lengths[0], "TG": lengths[1], "is_pp_shared": shared})
        rows, speed = int(_number(each, "B", "pl")), _number(each, "S_TG t/s", "speed_tg")
        costs.append(RowCost(rows, rows / speed if speed > 0 else 0.0, each.place))
    _refuse_another(entries, conditions, "Give one -npp and one -ntg.")
    first = conditions[0]
    source = f"llama-batched-bench, prompts of {first['PP']} and answers of {first['TG']} tokens"
    return curve_of(costs, source, 1.0, ROWS_OF_USERS)


def _llama_bench(entries: Sequence[Entry]) -> PassCurve:
    """Reads tests: pp W is one pass over a prompt of W tokens, up to the micro-batch; tg decodes row by row."""
    costs, passes, conditions, left_out = [], [], [], []
    for each in entries:
        prompt, answer, depth = _test_of(each)
        common = {n: v for n, v in each.values.items() if n not in _OWN and not n.startswith(_OWN_BEGINNINGS)}
        limit = int(_number(each, "n_ubatch")) if "n_ubatch" in each.values else MICRO_BATCH
        if (prompt and answer) or prompt > limit:
            left_out.append(f"pp{prompt}+tg{answer}" if answer else f"pp{prompt}")
            continue
        rows, speed = prompt or 1, _number(each, "t/s", "avg_ts")
        costs.append(RowCost(rows, rows / speed if speed > 0 else 0.0, each.place))
        passes.append(each)
        conditions.append(common | {"depth": depth})
    if not passes:
        raise BadInput("No test of this llama-bench is a single pass. Run it with -p 1,2,4,8,16 -n 32.")
    _refuse_another(passes, conditions, "Give the tests of one model with one set of options.")
    first = conditions[0]
    model = first.get("model_type") or first.get("model") or ""
    source = ", ".join(filter(None, ("llama-bench", str(model)[:60], first["depth"] and f"depth {first['depth']}")))
    note = f" Left out: {and_list(left_out)}, which are no single passes." if left_out else ""
    return curve_of(costs, source, 1.0, f"{ROWS_OF_A_PROMPT}{note}")


def _test_of(entry: Entry) -> tuple[int, int, int]:
    """Returns the tokens of the prompt and of the answer, and the depth, of a test."""
    if "test" not in entry.values:
        prompt, answer = (int(_number(entry, name)) for name in ("n_prompt", "n_gen"))
        return prompt, answer, int(_number(entry, "n_depth")) if "n_depth" in entry.values else 0
    test = str(entry.values["test"])
    if (match := _TEST.fullmatch(test)) is None:
        raise BadInput(f"{entry.place}: the test “{test[:30]}” is not one such as pp4, tg32 or pp4 @ d512.")
    kind, tokens, depth = match[1], int(match[2]), int(match[3] or 0)
    return (tokens if kind == "pp" else 0), (tokens if kind == "tg" or "+tg" in test else 0), depth


# ── vLLM ──


def _vllm_latency(text: str) -> PassCurve:
    """Reads times of whole runs, which are as good as times of passes, because each run writes as many tokens. The
    middle one counts where the text has it, because a mean has the slowest runs in it."""
    rows: int | None = None
    lengths: dict[str, str] = {}
    costs: dict[int, RowCost] = {}
    for match in _LATENCY.finditer(text):
        place = f"Line {text.count(chr(10), 0, match.start()) + 1}"
        if match["batch"]:
            rows = int(match["batch"])
        elif name := match["length"]:
            if lengths.setdefault(name, match["tokens"]) != match["tokens"]:
                raise BadInput(f"{place}: --{name} is {match['tokens']}, and {lengths[name]} before. Give one of each.")
        elif rows is None:
            raise BadInput(
                f"{place}: vLLM does not say for which batch size this is. Put a line with --batch-size N before each."
            )
        elif match["middle"] or rows not in costs:
            costs[rows] = RowCost(rows, _seconds(match["middle"] or match["mean"], place), place)
    conditions = "".join(f", {name} {tokens}" for name, tokens in lengths.items())
    return curve_of([*costs.values()], f"vllm bench latency{conditions}", note=f"{ROWS_OF_USERS} {PROMPTS_TOO}")


def _seconds(text: str, place: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise BadInput(f"{place}: “{text[:20]}” is not a time in seconds.") from None


# ── server explain ──


def _read_parts(text: str) -> PassCurve:
    """Reads the parts of a step. The cost of a row makes the curve; draft steps and rounds have their own."""
    times: dict[str, RowCost] = {}
    for number, line in enumerate(text.splitlines(), 1):
        for part, words in PARTS.items():
            if match := re.match(rf"\s*{re.escape(words)}:\s*([-\w.+]+)(?: ± [\w.]+)? ms\s*$", line):
                place = f"Line {number}"
                times[part] = RowCost(1, _seconds(match[1], place), place)
                if times[part].cost < 0:
                    raise BadInput(f"{place}: by these points this part takes less than no time. Measure them again.")
    if missing := [PARTS[part] for part in ("plain", "row") if part not in times]:
        raise BadInput(
            f"server explain does not say the time of “{missing[0]}” here. Give it points of a lookup (--lookup), "
            "because those alone tell what a row costs."
        )
    plain, row = times["plain"].cost, times["row"].cost
    line = [RowCost(rows, plain + (rows - 1) * row, times["row" if rows > 1 else "plain"].place) for rows in WIDTHS]
    curve = curve_of(line, "server explain", 0.001, STRAIGHT)
    if "draft" not in times or "fixed" not in times:
        return curve
    return replace(curve, c=max(0.0, times["draft"].cost - row) / plain, fixed=times["fixed"].cost / plain)

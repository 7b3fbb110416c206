"""Computes a benchmark's numbers: samples in, rows and tables out. No model, no torch.

A speedup is a ratio of sums over prompts (tokens ÷ seconds of all of them, over the same of `none`), never a mean of
ratios, and its interval one over prompts. Where outputs differ in length, as sampled ones do, the same formula
is the ratio of tokens per second.
"""

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from engine.tools.bench.sample import BASELINE, UNTRACED, Sample
from engine.trace.costs import CostModel
from engine.trace.metrics import first_difference
from engine.trace.noise import FEWEST_PROMPTS, RESAMPLES, Speedup, ceiling, median_interval

ALL = "all"


@dataclass
class BenchResults:
    """``samples[name][i]`` belongs to the prompt of ``categories[i]``."""

    categories: list[str]
    samples: dict[str, list[Sample]]
    costs: dict[str, CostModel] = field(default_factory=dict)
    settings: dict[str, str | int | None] = field(default_factory=dict)
    greedy: bool = True


def decoding(samples: Sequence[Sample]) -> np.ndarray:
    """Returns [prompts, 2]: tokens and seconds of decoding alone."""
    return np.array([(s.decode_tokens, s.decode_seconds) for s in samples], float)


def end_to_end(samples: Sequence[Sample]) -> np.ndarray:
    """Returns [prompts, 2]: tokens and seconds with the prompt."""
    return np.array([(s.tokens, s.seconds) for s in samples], float)


def ratio(ours: np.ndarray, theirs: np.ndarray) -> float | None:
    """Returns Σ tokens ÷ Σ seconds of one system over the other's; None where either has no tokens or no time.

    >>> ratio(np.array([[10, 1], [30, 9]]), np.array([[10, 2], [30, 18]]))
    2.0
    """
    (a, s), (b, t) = ours.sum(0), theirs.sum(0)
    return float(a * t / (s * b)) if s and b else None


def interval(ours: np.ndarray, theirs: np.ndarray) -> list[float] | None:
    """Returns the 95 % interval of `ratio` over prompts, both systems resampled together: the percentile bootstrap, or
    `median_interval` for fewer than a dozen prompts, where it holds the truth too seldom (of three 75 times in 100)."""
    n, value = len(ours), ratio(ours, theirs)
    if n < 2 or value is None:
        return None
    is_few = n < FEWEST_PROMPTS
    chosen = np.arange(n)[:, None] if is_few else np.random.default_rng(0).integers(0, n, (RESAMPLES, n))
    (a, s), (b, t) = ours[chosen].sum(1).T, theirs[chosen].sum(1).T
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = a * t / (s * b)
    ratios = ratios[np.isfinite(ratios)]
    if is_few:
        ends = median_interval(value, ratios[ratios > 0].tolist()) if value else None
        return list(ends) if ends else None
    return [float(x) for x in np.percentile(ratios, [2.5, 97.5])] if len(ratios) else None


def summary(ours: Sequence[Sample], plain: Sequence[Sample]) -> dict:
    """Returns the numbers of every table: of these runs alone, and beside the plain runs of the same turns."""
    (tokens, seconds), passes = decoding(ours).sum(0).tolist(), sum(s.passes for s in ours)
    tested = sum(s.tested for s in ours)
    return {
        "tokens_per_second": tokens / seconds if seconds else None,
        "tau": sum(s.tokens for s in ours) / passes if passes else None,
        "acceptance": sum(s.accepted for s in ours) / tested if tested else None,
        "speedup": ratio(decoding(ours), decoding(plain)),
        "ci95": interval(decoding(ours), decoding(plain)),
    }


def rows(results: BenchResults) -> list[dict]:
    """Returns a row for each method over all prompts, then one for each of its categories."""
    names = [ALL, *dict.fromkeys(results.categories)]
    return [_row(results, method, category) for method in results.samples for category in names]


def _row(results: BenchResults, method: str, category: str) -> dict:
    which = [i for i, c in enumerate(results.categories) if category in (ALL, c)]

    def column(name: str) -> list[Sample]:
        return [results.samples[name][i] for i in which] if name in results.samples else []

    ours, plain, hf, untraced = column(method), column(BASELINE), column("hf"), column(method + UNTRACED)
    rounds, accepted = [r for s in ours for r in s.rounds], sum(s.accepted for s in ours)
    drafted = sum(number for _, _, number, _ in rounds)
    costs = results.costs.get(method.removesuffix(UNTRACED))
    numbers = summary(ours, plain)
    predicted = costs.predict(rounds) if costs and rounds else None
    if predicted and costs and ":" in method and BASELINE in results.costs:  # another precision has another plain step
        predicted *= results.costs[BASELINE].step / costs.step
    extra = ratio(decoding(untraced), decoding(ours)) if untraced else None
    return {
        "method": method,
        "category": category,
        "prompts": len(which),
        "setting": results.settings.get(method),
        "tokens": sum(s.tokens for s in ours),
        "seconds": sum(s.seconds for s in ours),
        "decode_seconds": sum(s.decode_seconds for s in ours),
        **numbers,
        "wasted": (drafted - accepted) / (drafted + len(rounds)) if rounds else None,
        "drafters": dict(Counter(by for *_, by in rounds if by).most_common()),
        "by_rule": _by_rule(ours),
        "c": costs.c if costs else None,
        "v": {str(w): x for w, x in sorted(costs.v.items())} if costs else None,
        "predicted_speedup": predicted,
        "efficiency": numbers["speedup"] / predicted if numbers["speedup"] and predicted else None,
        "ttft": statistics.median(s.ttft for s in ours),
        "peak_memory": max(s.peak_memory or 0 for s in ours) or None,
        "speedup_end_to_end": ratio(end_to_end(ours), end_to_end(plain)),
        "ci95_end_to_end": interval(end_to_end(ours), end_to_end(plain)),
        "over_hf_end_to_end": ratio(end_to_end(ours), end_to_end(hf)) if hf else None,
        "over_hf_ci95": interval(end_to_end(ours), end_to_end(hf)) if hf else None,
        # Extra seconds per token for keeping the trace, as a share of what it takes without.
        "trace_cost": extra - 1 if extra and numbers["speedup"] else None,
        **(_differences(ours, plain, which) if results.greedy else {"differs": None, "divergences": []}),
    }


def _by_rule(samples: Sequence[Sample]) -> dict[str, float]:
    """Counts the drafts that each acceptance rule would accept in a round, as the mean over prompts for block runs."""
    known = [s.by_rule for s in samples if s.by_rule]
    return {rule: statistics.mean(each[rule] for each in known) for rule in known[0]} if known else {}


def _differences(ours: Sequence[Sample], plain: Sequence[Sample], which: Sequence[int]) -> dict:
    """Counts greedy outputs that differ, and says how near a tie the target's two best tokens were there."""
    divergences = []
    for i, mine, base in zip(which, ours, plain, strict=True):
        at = first_difference(mine.ids, base.ids)
        if at is not None:
            divergences.append({"prompt": i, "position": at, "gap": base.gaps[at] if at < len(base.gaps) else None})
    return {"differs": len(divergences), "divergences": divergences}


# ── for reading ──


def table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Writes a Markdown table."""
    return "\n".join([table_row(heads), f"|{' --- |' * len(heads)}", *map(table_row, lines)])


def table_row(cells: Sequence[str]) -> str:
    plain = (cell.replace("|", "\\|").replace("\n", " ") for cell in cells)
    return f"| {' | '.join(plain)} |"


def markdown(rows_: Sequence[dict]) -> str:
    """Writes two tables: every method over all prompts, and speedups by category."""
    overall = [r for r in rows_ if r["category"] == ALL]
    names = list(dict.fromkeys(r["category"] for r in rows_ if r["category"] != ALL))
    by = {(r["method"], r["category"]): r for r in rows_}
    heads = ["method", "tokens/s", "speedup (95 %)", "predicted", "efficiency", "τ", "α", "wasted", "first token"]
    over_hf = any(r["over_hf_end_to_end"] for r in overall)
    heads += ["end to end, × none"] + (["end to end, × hf"] if over_hf else []) + ["differs"]
    lines = []
    for r in overall:
        cells = [
            f"{r['method']} ({r['setting']})" if r["setting"] else r["method"],
            show(r["tokens_per_second"], ".1f"),
            _speedup(r),
            times(r["predicted_speedup"]),
            *(show(r[name], ".2f") for name in ("efficiency", "tau", "acceptance")),
            show(r["wasted"], ".0%"),
            f"{1000 * r['ttft']:.0f} ms",
            show(r["speedup_end_to_end"], ".2f"),
        ]
        lines.append(cells + ([show(r["over_hf_end_to_end"], ".2f")] if over_hf else []) + [_differs(r)])
    by_category = [[r["method"], *(_speedup(by[r["method"], c]) for c in names)] for r in overall]
    tables = f"{table(heads, lines)}\n\n{table(['speedup by category', *names], by_category)}"
    costs = [f"{r['method']} {r['trace_cost']:+.1%}" for r in overall if r["trace_cost"] is not None]
    tables += f"\n\nTime that tracing adds to decoding: {', '.join(costs)}." if costs else ""
    for r in (r for r in overall if r["by_rule"]):
        block, token = r["by_rule"]["block"], r["by_rule"]["token"]
        tables += (
            f"\n\n{r['method']}: on its drafts blocks accept {block:.3f} a round on average, single tests {token:.3f}."
        )
    return tables


def _differs(row: dict) -> str:
    if row["differs"] is None:
        return "sampled"
    if not row["differs"]:
        return "0"
    gaps = [d["gap"] for d in row["divergences"]]
    if any(g is None for g in gaps):
        return f"{row['differs']}, gap unknown"
    return f"{row['differs']}, gaps up to {max(gaps):.1g}"


def show(value: float | None, form: str) -> str:
    """Formats a number, or a dash where there is none."""
    return "–" if value is None else format(value, form)


def times(speedup: float | None) -> str:
    """Writes a speedup as every table does; a dash where there is none."""
    return show(speedup, ".2f") + "×" * (speedup is not None)


def _speedup(row: dict) -> str:
    """Words a speedup with its interval. τ bounds it only for a method of ours in the target's own precision."""
    if row["speedup"] is None or row["method"] == BASELINE:
        return times(row["speedup"])
    is_bounded = row["c"] is not None and ":" not in row["method"] and row["tau"]
    low, high = row["ci95"] or (None, None)
    return Speedup(row["speedup"], low, high, ceiling(row["tau"]) if is_bounded else math.inf).words

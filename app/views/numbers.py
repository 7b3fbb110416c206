"""What the sums of a lesson may speak of: the numbers of each of its runs, by name. Pure; no gradio, no torch.

Rounds and the tokens of a round are counted from 1, as the player shows them; the token behind the drafts closes it.
"""

import statistics as mean
from collections.abc import Mapping
from typing import Any

from engine.events import Distribution, Round, Token
from engine.statistics import PARTS, statistics
from engine.theory import best_gamma, expected_tokens, idealised_speedup, interpolate
from engine.trace import Trace
from lessons import cuts

MOST_DRAFTS = 16


def names(runs: Mapping[str, Trace]) -> dict[str, Any]:
    """The first run's numbers by themselves, every run's behind its name, the formulas of engine.theory, and
    how lesson ten's tokenizers cut."""
    found = {name: of(trace) for name, trace in runs.items()}
    first = next(iter(found.values()))
    common = {"min": min, "max": max, "abs": abs, "round": round, "expected": expected_tokens}
    common |= {"pieces": cuts.pieces, "testable": cuts.testable}

    def same(one: str, other: str) -> bool:
        """Whether two runs wrote the same tokens, as far as both go."""
        return all(a.id == b.id for a, b in zip(runs[one].emitted, runs[other].emitted, strict=False))

    return common | {"same": same} | first | found


def of(trace: Trace) -> dict[str, Any]:
    """Of one run. A number that this run has not (α without drafts) is missing, and a sum that needs it fails."""
    found = statistics(trace)
    numbers = {
        "tokens": found.tokens,
        "passes": found.passes,
        "wasted": found.wasted,
        "drafted": sum(found.counts[status] for status in ("accepted", "rejected", "discarded")),
        "tested": found.counts["accepted"] + found.counts["rejected"],
        **found.counts,
        "alpha": found.alpha and found.alpha.value,
        "tau": found.tau and found.tau.value,
        "speed": found.tokens_per_second,
        "prefill": found.prefill,
        "ttft": found.ttft,
        "ms": 1000 * found.decode_seconds / found.tokens if found.tokens else None,
        "round_ms": 1000 * mean.median(r.timings.total for r in trace.rounds) if trace.rounds else None,
        "predicted": found.predicted_speedup,
        **{f"{part}_ms": 1000 * found.time[part] / max(found.tokens, 1) for part in PARTS},
        "gap": min((t.gap for t in trace.emitted if t.gap is not None), default=None),
        "prompt": len(trace.started.prompt),
        "with_gamma": lambda gamma: found.gammas.get(gamma, 0),
        **_costs(trace),
        **_tokens(trace),
    }
    numbers |= {f"alpha_{depth}": kept / tried for depth, (kept, tried) in found.by_depth.items()}
    return {name: value for name, value in numbers.items() if value is not None}


def _costs(trace: Trace) -> dict[str, Any]:
    costs = trace.started.costs
    if costs is None:
        return {}
    return {
        "c": costs.c,
        "step_ms": 1000 * costs.step,
        "v": lambda width: interpolate(costs.v, width),
        "idealised": lambda alpha, gamma: idealised_speedup(alpha, gamma, costs.c, costs.v),
        "best": lambda alpha: best_gamma(alpha, costs.c, costs.v, MOST_DRAFTS),
    }


def _tokens(trace: Trace) -> dict[str, Any]:
    def token(round_: int, place: int) -> Token:
        return at(trace, round_, place)

    def whole(round_: int) -> Round:
        return trace.rounds[round_ - 1]

    return {
        "p": lambda r, i: token(r, i).p,
        "q": lambda r, i: token(r, i).q,
        "u": lambda r, i: token(r, i).u,
        "accept": lambda r, i: token(r, i).accept,
        "verdict": lambda r, i: token(r, i).status,
        "text": lambda r, i: (token(r, i).text or token(r, i).label or "").strip() or "␣",
        "top": lambda r, i: token(r, i).p_top.top[0].text.strip(),
        "p_of": lambda r, i, word: _shares(token(r, i).p_top)[word],
        "q_of": lambda r, i, word: _shares(token(r, i).q_top)[word],
        "out": lambda r, i, word: _comes_out(token(r, i), word),
        "out_from_p": lambda r, i, word: _comes_out(token(r, i), word, from_p=True),
        "drafts": lambda r: len(whole(r).parents),
        "kept": lambda r: sum(t.status == "accepted" for t in whole(r).tokens),
        "emitted": lambda r: len(whole(r).emitted),
        "gap_at": lambda r, i: token(r, i).gap,
    }


def _shares(distribution: Distribution | None) -> dict[str, float]:
    if distribution is None or distribution.rest > 1e-6:
        raise ValueError("the run has not kept all of this distribution")
    return {candidate.text.strip(): candidate.mass for candidate in distribution.top}


def _comes_out(token: Token, word: str, from_p: bool = False) -> float:
    """How often a word comes out at this place: kept as a draft, or drawn after a refusal from the residual (or, as a
    wrong rule would, from p)."""
    p, q = _shares(token.p_top), _shares(token.q_top)
    kept = {each: min(p[each], q[each]) for each in p}
    missing = {each: max(p[each] - q[each], 0.0) for each in p}
    refused, source = 1 - sum(kept.values()), p if from_p else missing
    return kept[word] + refused * source[word] / sum(source.values())


def at(trace: Trace, round_: int, place: int) -> Token:
    """A token by the numbers that the player shows. ValueError where there is none."""
    rounds = trace.rounds
    if not 1 <= round_ <= len(rounds) or not 1 <= place <= len(rounds[round_ - 1].tokens):
        raise ValueError(f"there is no token {round_}.{place}; the run has {len(rounds)} rounds")
    return rounds[round_ - 1].tokens[place - 1]

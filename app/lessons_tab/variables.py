"""Gives the variables for a lesson's expressions: the numbers of each of its runs, by name. Pure; no gradio, no torch.

Rounds, and tokens within a round, count from 1 as in the player; the last token of a round closes it.
"""

from collections.abc import Mapping
from typing import Any

from app.lessons_tab.guessing import game
from app.lessons_tab.one_round import side_by_side
from app.lessons_tab.recipe_examples import recipe_examples
from engine.trace.events import Distribution, Round, Token
from engine.trace.metrics import PARTS, RunMetrics, compute_metrics
from engine.trace.noise import ceiling
from engine.trace.speedup_model import best_gamma, expected_tokens, idealised_speedup, interpolate
from engine.trace.trace import Trace
from lessons import bpe_demo, measurements, own_rule

MOST_DRAFTS = 16


def names(runs: Mapping[str, Trace]) -> dict[str, Any]:
    """Returns the first run's numbers by their own names, every run's numbers under its name (`sky.alpha`), the speedup
    formulas, the tokenizers of the lesson two_tokenizers, and the published benchmarks."""
    numbers = {name: variables_of(trace) for name, trace in runs.items()}
    first = next(iter(numbers.values()))
    common: dict[str, Any] = {"min": min, "max": max, "abs": abs, "round": round, "expected": expected_tokens}
    common |= {"pieces": bpe_demo.pieces, "testable": bpe_demo.testable, "recipes": recipe_examples}
    common["own_rule"] = own_rule.exercise
    common |= {name: value for name, value in vars(measurements).items() if name.startswith("measured")}

    def same(one: str, other: str) -> bool:
        """Returns whether two runs wrote the same tokens, as far as both go."""
        return all(a.id == b.id for a, b in zip(runs[one].emitted, runs[other].emitted, strict=False))

    def parting(one: str, other: str) -> dict[str, list]:
        """Returns the tokens of two runs without and with drafts, each with the gap between its two best logits."""
        pair = {"without drafts": runs[one], "with drafts": runs[other]}
        return {name: [[token.text, token.gap] for token in trace.emitted] for name, trace in pair.items()}

    def first_difference(one: str, other: str) -> int:
        """Returns the number of the first token that differs; 0 for none, as far as both go."""
        pairs = enumerate(zip(runs[one].emitted, runs[other].emitted, strict=False), 1)
        return next((number for number, (a, b) in pairs if a.id != b.id), 0)

    def guesses(wide: str, *drafted: str) -> dict[str, Any]:
        return game(runs[wide], [runs[name] for name in drafted])

    def one_round(place: int, *drafted: str) -> dict[str, Any]:
        return side_by_side(place, {name: runs[name] for name in drafted})

    common |= {"parting": parting, "first_difference": first_difference}
    return common | {"same": same, "guesses": guesses, "one_round": one_round} | first | numbers


def variables_of(trace: Trace) -> dict[str, Any]:
    """Returns the numbers of one run. Those it lacks (α without drafts) are left out, so expressions with them fail."""
    metrics = compute_metrics(trace)
    numbers = {
        "tokens": metrics.tokens,
        "passes": metrics.passes,
        "wasted": metrics.wasted,
        "drafted": sum(metrics.counts[status] for status in ("accepted", "rejected", "discarded")),
        "tested": metrics.tested,
        **metrics.counts,
        "alpha": metrics.alpha and metrics.alpha.value,
        "tau": metrics.tau and metrics.tau.value,
        "speed": metrics.tokens_per_second,
        "prefill": metrics.prefill,
        "ms": 1000 * metrics.decode_seconds / metrics.tokens if metrics.tokens else None,
        "predicted": metrics.predicted_speedup,
        **_recorded_speedups(trace),
        **{f"{part}_ms": 1000 * metrics.time[part] / max(metrics.tokens, 1) for part in PARTS},
        "gap": min((t.gap for t in trace.emitted if t.gap is not None), default=None),
        "prompt": len(trace.started.prompt),
        "pace": _pace(trace),
        "bursts": [len(r.emitted) for r in trace.rounds],
        "most_at_once": max((len(r.emitted) for r in trace.rounds), default=0),
        "empty_rounds": sum(not r.parents for r in trace.rounds),
        "drafts_of_each": " ".join(str(len(r.parents)) for r in trace.rounds),
        "places": lambda round_: _places(trace, round_),
        "vllm_line": _vllm_line(trace, metrics),
        "drafter": lambda round_: trace.rounds[round_ - 1].drafter,
        "with_gamma": lambda gamma: metrics.gammas.get(gamma, 0),
        **_costs(trace),
        **_tokens(trace),
    }
    numbers |= {f"alpha_{depth}": accepted / tested for depth, (accepted, tested) in metrics.by_depth.items()}
    numbers["second_accepted"] = metrics.by_depth.get(2, (0, 0))[0]
    # Its trouble can be known by these counts, without a word of its text.
    symptoms = ("tokens", "passes", "drafted", "accepted", "tested", "bursts")
    numbers["symptoms"] = {name: numbers[name] for name in symptoms} | {"empty": numbers["empty_rounds"]}
    return {name: value for name, value in numbers.items() if value is not None}


def _recorded_speedups(trace: Trace) -> dict[str, Any]:
    """Returns the middle, the lowest and the highest speedup of the recorded pairs, and their number. The highest is
    left out if it is impossible."""
    speedups = trace.finished.extra.get("speedup")
    if not speedups:
        return {}
    known = {"measured_speedup": speedups["median"], "lowest": speedups["lowest"], "pairs": speedups["pairs"]}
    limit = ceiling(compute_metrics(trace).tau.value, trace.started.costs)
    return known | ({"highest": speedups["highest"]} if speedups["highest"] <= limit else {})


def _vllm_line(trace: Trace, metrics: RunMetrics) -> str | None:
    """Writes the run's acceptance as vLLM logs it: a rate by position counts the rounds with drafts, not tests."""
    if metrics.alpha is None:
        return None
    accepted, drafted = (
        metrics.counts["accepted"],
        sum(metrics.counts[s] for s in ("accepted", "rejected", "discarded")),
    )
    depths, rounds = range(1, max(metrics.gammas) + 1), sum(bool(r.parents) for r in trace.rounds)
    rates = ", ".join(f"{metrics.by_depth.get(depth, (0, 0))[0] / rounds:.3f}" for depth in depths)
    return (
        f"SpecDecoding metrics: Mean acceptance length: {1 + accepted / rounds:.2f}, "
        f"Accepted: {accepted} tokens, Drafted: {drafted} tokens, Per-position acceptance rate: {rates}, "
        f"Avg Draft acceptance rate: {accepted / drafted:.1%}"
    )


def _pace(trace: Trace) -> list | None:
    """Returns [plain steps since the start, texts of the new tokens] of each round, by the costs before the run."""
    costs, clock, rounds = trace.started.costs, 0.0, []
    for r in trace.rounds if costs else ():
        clock += costs.round_cost(r.drafter, r.draft_steps or 0, len(r.parents))
        rounds.append([clock, [token.text for token in r.emitted]])
    return rounds or None


def _places(trace: Trace, round_: int) -> dict[str, Any]:
    """Returns all that the pass of a round reads: the text before, the drafts with their parents and q, and the p that
    each row gives, the last token of the text first. ValueError unless the run shows the chances after each of these
    words."""
    one = trace.rounds[round_ - 1]
    drafts = one.tokens[: len(one.parents)]
    text = [token.text.strip() for token in (*trace.started.prompt, *_emitted_before(trace, round_))]
    words = [token.text.strip() for token in drafts]
    chances = _chances_after(trace)
    if missing := {text[-1], *words} - chances.keys():
        raise ValueError(f"the run does not show the chances after {', '.join(sorted(missing))}")
    return {
        "text": text,
        "words": words,
        "parents": list(one.parents),
        "p": [chances[word] for word in (text[-1], *words)],
        "q": [_shares(token.q_top) for token in drafts],
    }


def _emitted_before(trace: Trace, round_: int) -> list[Token]:
    return [token for earlier in trace.rounds[: round_ - 1] for token in earlier.emitted]


def _chances_after(trace: Trace) -> dict[str, dict[str, float]]:
    """Returns p of the next word, by the word before it. ValueError where a run has two, by a longer context."""
    chances: dict[str, dict[str, float]] = {}
    for number, one in enumerate(trace.rounds, 1):
        words = [token.text.strip() for token in one.tokens]
        last = (*trace.started.prompt, *_emitted_before(trace, number))[-1].text.strip()
        first_children = {parent: child for child, parent in reversed(list(enumerate(one.parents)))}
        for parent, child in first_children.items():  # a later sibling is tested with the rest of p
            before, shares = words[parent - 1] if parent else last, _shares(one.tokens[child].p_top)
            if chances.setdefault(before, shares) != shares:
                raise ValueError(f"the run gives two sets of chances after {before!r}")
    return chances


def _costs(trace: Trace) -> dict[str, Any]:
    costs = trace.started.costs
    if costs is None:
        return {}
    return {
        "c": costs.c,
        "step_ms": 1000 * costs.step,
        "v": lambda width: interpolate(costs.v, width),
        "v_table": {str(width): cost for width, cost in costs.v.items()},
        "idealised": lambda alpha, gamma: idealised_speedup(alpha, gamma, costs.c, costs.v),
        "best": lambda alpha: best_gamma(alpha, costs.c, costs.v, MOST_DRAFTS),
    }


def _tokens(trace: Trace) -> dict[str, Any]:
    def token(round_: int, place: int) -> Token:
        return token_at(trace, round_, place)

    def one_round(round_: int) -> Round:
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
        "residual_of": lambda r, i, word: _residual(token(r, i))[word],
        "overlap": lambda r, i: sum(min(a, b) for a, b in _pairs(token(r, i))),
        "out": lambda r, i, word: _comes_out(token(r, i), word),
        "out_from_p": lambda r, i, word: _comes_out(token(r, i), word, from_p=True),
        "drafts": lambda r: len(one_round(r).parents),
        "kept": lambda r: sum(t.status == "accepted" for t in one_round(r).tokens),
        "emitted": lambda r: len(one_round(r).emitted),
        "gap_at": lambda r, i: token(r, i).gap,
        "parent": lambda r, i: one_round(r).parents[i - 1],
        "text_to": lambda r, i: "".join(t.text for t in (*_emitted_before(trace, r), *one_round(r).tokens[:i])).strip(),
        "nth": lambda number: trace.emitted[number - 1].text.strip(),
        "nth_gap": lambda number: trace.emitted[number - 1].gap,
    }


def _shares(distribution: Distribution | None) -> dict[str, float]:
    if distribution is None or distribution.rest > 1e-6:
        raise ValueError("the trace does not hold all of this distribution")
    return {candidate.text.strip(): candidate.mass for candidate in distribution.top}


def _pairs(token: Token) -> list[tuple[float, float]]:
    """Returns (p, q) of every word."""
    p, q = _shares(token.p_top), _shares(token.q_top)
    return [(p[word], q[word]) for word in p]


def _residual(token: Token) -> dict[str, float]:
    p, q = _shares(token.p_top), _shares(token.q_top)
    missing = {each: max(p[each] - q[each], 0.0) for each in p}
    return {each: mass / sum(missing.values()) for each, mass in missing.items()}


def _comes_out(token: Token, word: str, from_p: bool = False) -> float:
    """Returns the probability that this position emits ``word``: accepted as a draft, or drawn after a rejection from
    the residual (``from_p``: from p, as a wrong rule would). Leviathan et al. 2023, appendix A.1."""
    p, q = _shares(token.p_top), _shares(token.q_top)
    rejected = 1 - sum(min(a, b) for a, b in _pairs(token))
    return min(p[word], q[word]) + rejected * (p if from_p else _residual(token))[word]


def token_at(trace: Trace, round_: int, place: int) -> Token:
    """Returns a token by the numbers that the player shows. Raises ValueError for an unknown one."""
    rounds = trace.rounds
    if not 1 <= round_ <= len(rounds) or not 1 <= place <= len(rounds[round_ - 1].tokens):
        raise ValueError(f"there is no token {round_}.{place}; the run has {len(rounds)} rounds")
    return rounds[round_ - 1].tokens[place - 1]

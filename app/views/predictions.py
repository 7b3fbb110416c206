"""Draws predicted beside measured speedup, the cost curve v(W), and the idealised speedup by draft length."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from app.views import servers
from app.views.figures import Figure, axes, draw_line, draw_predicted, fill, level, mean_round, points
from app.views.safe_json import short
from app.views.tiles import machine
from app.views.trees import has_trees
from engine.config import method_of
from engine.errors import quantity
from engine.trace.costs import CostModel
from engine.trace.metrics import Interval, RunMetrics, compare, compute_metrics
from engine.trace.noise import STEADIEST, Speedup, about_costs, monotone_costs
from engine.trace.speedup_model import best_gamma, idealised_speedup, interpolate
from engine.trace.speedup_words import doubt_costs, impossible
from engine.trace.trace import Trace

MOST_GAMMA = 16  # how far the idealised curve is drawn
IMPOSSIBLE = "The costs in this trace give some passes no time at all, so nothing can be predicted."
MARK, HOVER = {"size": 8, "color": "@run"}, "%{x}: %{y:.2f}"
SAME_PACE = 0.5  # how far the plain step may have moved since the costs were measured


def draw_prediction(run: Trace, baseline: Trace | None, speedup: Speedup | None) -> Figure:
    """Charts measured and predicted speedup, with the formula filled in for this run."""
    costs = _costs(run)
    if run.started.server:
        return Figure(note=f"A server does not tell what a draft costs it. {servers.SPLIT}")
    if costs is None:
        return Figure(note="This run's costs c and v(W) were not measured, so nothing can be predicted.")
    if not run.has_drafts:
        return Figure(note="Nothing was drafted, so there is no speedup to predict.")
    result = compare(run, baseline or Trace(run.started))
    if not _possible(run):
        return Figure(note=IMPOSSIBLE)
    bars: list[Any] = [("predicted", result.predicted, "@predicted", "/")]
    if speedup is not None and speedup.is_possible:
        bars.append(("measured", speedup.value, "@run", ""))
    data = [_bar(*bar) for bar in bars]
    layout = axes("× plain decoding", "", showlegend=False, bargap=0.35, shapes=[level(1.0, is_upright=True)])
    layout["annotations"] = [_number(name, value) for name, value, *_ in bars]
    layout["xaxis"] |= {"range": [0, short(1.35 * max(1.0, *(value for _, value, *_ in bars)))]}
    note = f"{_formula(run, result.predicted)} c and v measured at a context of {quantity(costs.context, 'token')}."
    if doubt := doubt_costs(run.rounds, costs):
        note += f" They were {doubt}."
    if result.efficiency is not None and speedup is not None:
        note += f" Engine efficiency, measured ÷ predicted: {result.efficiency:.2f}."
    if speedup is not None and not speedup.is_possible:
        note += f" The measurement is noise, {impossible(compute_metrics(run).tau)}: measure again."
    return Figure(data, layout, note + steadiness(run, baseline))


def _costs(run: Trace) -> CostModel | None:
    """Returns c and v without impossible values."""
    return run.started.costs and monotone_costs(run.started.costs)


def _possible(run: Trace) -> bool:
    """Returns whether every width costs more than 0; a trace file could claim costs of an infinite speed."""
    widths = {len(event.parents) + 1 for event in run.rounds} | set(range(1, MOST_GAMMA + 2))
    return all(interpolate(_costs(run).v, width) > 0 for width in widths)


def _bar(name: str, value: float, colour: str, pattern: str) -> dict:
    bar = {"type": "bar", "orientation": "h", "y": [name], "x": [short(value)], "hoverinfo": "skip"}
    return bar | {"marker": fill(colour, pattern=pattern, spacing=9)}


def _number(name: str, value: float) -> dict:
    """Writes the value at the right edge; at the bar's end it could cover the line at 1×."""
    place = {"xref": "paper", "x": 1, "xanchor": "right", "y": name, "showarrow": False, "bgcolor": "@paper"}
    return place | {"text": f"{value:.2f}×", "font": {"color": "@ink", "size": 16}}


def _formula(run: Trace, predicted: float) -> str:
    costs = _costs(run)
    emitted = sum(len(event.emitted) for event in run.rounds)
    drafting = _drafting(run)
    scoring = sum(interpolate(costs.v, len(event.parents) + 1) for event in run.rounds)
    filled, more = f"{emitted} ÷ ({drafting} + {scoring:.1f}", emitted / predicted - scoring - _drafting_cost(run)
    if costs.paces:
        filled += f" {'+' if more >= 0 else '−'} {abs(more):.1f} that such rounds took on the clock in earlier runs"
    return f"Predicted = Σ emitted ÷ (Σ draft steps · c + Σ v(N + 1)) = {filled}) = {predicted:.2f}×."


def _drafting_cost(run: Trace) -> float:
    return sum((event.draft_steps or 0) * _costs(run).draft_cost(event.drafter) for event in run.rounds)


def _drafting(run: Trace) -> str:
    """Fills in Σ draft steps · c: a product for each drafter."""
    costs, steps = _costs(run), Counter()
    for event in run.rounds:
        steps[costs.draft_cost(event.drafter)] += event.draft_steps or 0
    return " + ".join(f"{number} · {c:.3f}" for c, number in steps.items() if number or len(steps) == 1)


def draw_scoring(run: Trace, baseline: Trace | None) -> Figure:
    """Charts v(W) as measured on the machine of the trace."""
    costs = _costs(run)
    if costs is None:
        return Figure(note="v(W) was not measured for this run.")
    widths = sorted(costs.v)
    measured = draw_line("v(W)", widths, [costs.v[w] for w in widths], MARK, hovertemplate=HOVER)
    top = max(costs.v.values()) * 1.15
    ends = [1, widths[-1]]
    alone = draw_predicted("one by one", ends, ends, {"color": "@plain"}, hovertemplate=HOVER)
    layout = axes("W, tokens scored at once", "time ÷ time of one")
    layout["yaxis"] |= {"range": [0, short(max(top, 2.0))]}
    note = f"One plain step took {1000 * costs.step:.1f} ms at a context of {quantity(costs.context, 'token')}."
    if costs.c:
        note += f" A draft step costs c = {costs.c:.3f} of that."
    if by_draft := {name: c for name, c in costs.draft_costs.items() if c}:
        note += f" A draft step costs {', '.join(f'{c:.3f} ({name})' for name, c in by_draft.items())} of that."
    return Figure([measured, alone], layout, f"{note} {about_costs(costs)}".rstrip() + steadiness(run, baseline))


def steadiness(run: Trace, baseline: Trace | None) -> str:
    """Warns if the machine was busy during the run or the measurement of c and v, or changed its speed since."""
    costs = _costs(run)
    if busy := machine(run, baseline):
        return f" {busy}"
    if costs is None:
        return ""
    if not costs.steady:
        return " The machine was busy while c and v were measured: take this with care."
    if not costs.step:
        return ""
    since, slowest, fastest = "", 1 + SAME_PACE, 1 / (1 + SAME_PACE)
    if baseline and baseline.rounds:
        seconds = mean_round(baseline)
        if not fastest < seconds / costs.step < slowest:
            since = f"{1000 * seconds:.0f} ms in the baseline"
    elif (seconds := mean_round(run)) / costs.step < fastest:  # no round is cheaper than a plain step
        since = f"a whole round took {1000 * seconds:.0f} ms in this run"
    took = f" Take this with care: a plain step took {1000 * costs.step:.0f} ms when c and v were measured, and "
    return f"{took}{since}." if since else ""


def draw_idealised(run: Trace, numbers: RunMetrics) -> Figure:
    """Charts the speedup by draft length that α alone would give, with this machine's costs (Leviathan et al. 2023)."""
    costs, alpha = _costs(run), numbers.alpha
    if costs is None or alpha is None:
        return Figure(note="This curve needs a tested draft and measured costs.")
    if not _possible(run):
        return Figure(note=IMPOSSIBLE)
    if other := other_than_chains(run):
        return Figure(note=f"This curve is about chains, each draft a step of one drafter: {other}.")
    lengths, c = list(range(MOST_GAMMA + 1)), chain_cost(run, costs)
    speeds = [idealised_speedup(alpha.value, gamma, c, costs.v) for gamma in lengths]
    data = [draw_line("idealised", lengths, speeds, MARK | {"color": "@predicted"}, hovertemplate=HOVER)]
    best = _best_lengths(alpha, c, costs, speeds)
    star = fill("@run", symbol="star" if len(best) == 1 else "diamond-open", size=15)
    name = "best" if len(best) == 1 else "may be best"
    data.append(points(name, best, [speeds[gamma] for gamma in best], mode="markers", marker=star, hovertemplate=HOVER))
    layout = axes("γ, tokens drafted in a round", "× plain decoding", shapes=[level(1.0)])
    note = (
        f"From α = {alpha.value:.2f} alone, as if every draft had that chance: "
        f"(1 − α^(γ+1)) / (1 − α) ÷ (γ · c + v(γ + 1)). "
    )
    if len(best) == 1:
        note += f"Best: γ = {best[0]} with {speeds[best[0]]:.2f}×, if that were so."
    else:
        note += f"Too close to name a best: γ from {best[0]} to {best[-1]}, up to {max(speeds):.2f}×, if that were so. "
        note += f"{numbers.tested} tested drafts put α between {alpha.low:.2f} and {alpha.high:.2f}."
    return Figure(data, layout, note + steadiness(run, None))


def _drafters(run: Trace) -> list[str]:
    return sorted({event.drafter for event in run.rounds if event.parents})


def other_than_chains(run: Trace) -> str:
    """Says why γ · c + v(γ + 1) is not what a round of this run cost, as the end of a sentence; empty where it is."""
    drafters = _drafters(run)
    if len(drafters) > 1:
        return "here several drafters took turns"
    if method_of(next(filter(None, drafters), run.started.method)).drafts_at_once:
        return "here one step drafted a whole round"
    if has_trees(run):
        return "here a pass scored several drafts for one place"
    return ""


def chain_cost(run: Trace, costs: CostModel) -> float:
    """Returns c of the one drafter of a run of chains."""
    return costs.draft_cost(*_drafters(run)[:1])


def _best_lengths(alpha: Interval, c: float, costs: CostModel, speeds: Sequence[float]) -> list[int]:
    """Returns the draft lengths that may be best: by both ends of α's interval, within the spread of the costs."""
    ends = [best_gamma(share, c, costs.v, MOST_GAMMA) for share in (alpha.low, alpha.value, alpha.high)]
    least = max(speeds) / (1 + max(costs.spread, STEADIEST))
    close = [gamma for gamma, speed in enumerate(speeds) if speed >= least]
    return list(range(min(*ends, *close), max(*ends, *close) + 1))

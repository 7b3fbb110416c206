"""Renders a trace's numbers as Plotly traces, one function a chart, each with a sentence below it.

Colours are roles ("@run"), which the page maps to its light or dark palette. Model text never appears here, because
Plotly reads some HTML in every text that it draws.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TypeVar

from app.views.safe_json import encode, short
from engine.config import AUTO, METHODS
from engine.errors import percent, quantity
from engine.trace.events import ACCEPTED, STATUSES, TESTED, Round
from engine.trace.metrics import (
    PARTS,
    Divergence,
    RunMetrics,
    compare,
    compute_metrics,
    first_divergence,
    largest_cost,
    wilson,
)
from engine.trace.noise import Speedup
from engine.trace.speedup_words import number, whole_request
from engine.trace.trace import Trace

T = TypeVar("T")
MOST_POINTS = 400  # per line; a screen has no room for more
MOST_BARS = 120
COLOURS = ("@run", "@predicted", "@accepted", "@rejected", "@bonus")  # for several lines, in turn
MARKS = ("circle", "square", "diamond", "triangle-up", "star", "cross")
TITLES = {name: method.title for name, method in METHODS.items()} | {AUTO: "auto", "toy-tree": "token tree"}

_STATUS_COLOURS = {"closing": "@plain"}  # for a status without a colour of its own
CLOSING = tuple(name for name, status in STATUSES.items() if not status.drafted)


def look(place: int, size: int = 10) -> dict:
    """Returns the colour and mark of the line at a place; no two of thirty lines look alike."""
    return {"color": COLOURS[place % len(COLOURS)], "symbol": MARKS[place % len(MARKS)], "size": size}


def method_title(method: str) -> str:
    return "plain decoding" if method == "none" else TITLES.get(method, method)


def setting_title(method: str, gamma: int | str) -> str:
    return method_title(method) if method == "none" else f"{method_title(method)}, γ = {gamma}"


@dataclass(frozen=True, slots=True)
class Figure:
    """``note`` is the sentence below the chart. Without ``data`` it replaces the chart and gives the reason."""

    data: list[dict] = field(default_factory=list)
    layout: dict = field(default_factory=dict)
    note: str = ""


def encode_figures(by_name: Mapping[str, Figure], lossy: str = "") -> str:
    """Returns the value of ui.charts: JSON with a figure for each chart. A chart without one stays on the page as it
    is. ``lossy``: why the run's output does not keep the target's distribution; each chart then has the badge."""
    drawn = {name: {"data": f.data, "layout": f.layout, "note": f.note} for name, f in by_name.items()}
    return encode({"figures": drawn} | ({"lossy": lossy} if lossy else {}))


# ── parts of a figure ──


def axes(x: str, y: str, **more) -> dict:
    return {"xaxis": {"title": {"text": x}}, "yaxis": {"title": {"text": y}, "rangemode": "tozero"}} | more


def points(name: str, x: Sequence, y: Sequence[float | None], **more) -> dict:
    """Returns a Plotly scatter trace: a line, markers, or both."""
    return {"type": "scatter", "name": name, "x": list(x), "y": [short(value) for value in y]} | more


def with_gaps(line: Mapping[int, T], places: Iterable[int]) -> dict[int, T | None]:
    """Returns a line with None at each place inside it without a point, because otherwise the chart would draw a line
    there, as if it had been measured.

    >>> with_gaps({2: 1.5, 8: 0.9}, (1, 2, 4, 8))
    {2: 1.5, 4: None, 8: 0.9}
    """
    if not line:
        return {}
    return {place: line.get(place) for place in sorted({*places, *line}) if min(line) <= place <= max(line)}


def fill(colour: str, rim: float = 1, pattern: str = "", spacing: int = 8, **more) -> dict:
    """Returns the fill of a bar or marker, with a rim in ink. ``pattern``, of that ``spacing``, needs no colour."""
    drawn = {"shape": pattern, "size": spacing, "fillmode": "overlay", "fgcolor": "#000", "fgopacity": 0.5}
    return {"color": colour, "line": {"width": rim, "color": "@ink"}} | ({"pattern": drawn} if pattern else {}) | more


def whiskers(up: Sequence[float], down: Sequence[float], **more) -> dict:
    """Draws lines from each point to ``up`` above it and ``down`` below it."""
    reaches = {"array": [short(reach) for reach in up], "arrayminus": [short(reach) for reach in down]}
    return {"type": "data", "symmetric": False, "thickness": 1.5} | reaches | more


def draw_line(name: str, x: Iterable, y: Iterable[float | None], mark: dict, dash: str = "solid", **more) -> dict:
    """Draws a line with a ``mark`` at each point, in its colour."""
    line = {"width": 3, "color": mark["color"], "dash": dash}
    return points(name, [*x], [*y], mode="lines+markers", marker=mark, line=line, **more)


def draw_speedups(name: str, x: Iterable, speedups: Collection[Speedup | None], mark: dict, **more) -> dict:
    """Draws a line of speedups, each with its interval; a gap or a single measurement has none."""
    known = [(each.value, *each.ends) if each and each.low is not None else (0.0, 0.0, 0.0) for each in speedups]
    reaches = whiskers(
        [max(0.0, high - value) for value, _, high in known], [max(0.0, value - low) for value, low, _ in known]
    )
    return draw_line(name, x, (each and each.value for each in speedups), mark, error_y=reaches, **more)


def draw_predicted(name: str, x: Iterable, y: Iterable[float | None], mark: dict, **more) -> dict:
    """Draws a thin dashed line, in the colour of the ``mark`` of the measured one."""
    line = {"width": 2, "color": mark["color"], "dash": "dash"}
    return points(name, [*x], [*y], mode="lines", line=line, **more)


def users_axes(users: Sequence[int], y: str, margin: float = 1.08, **more) -> dict:
    """Lays numbers of users out on a logarithmic axis, with a tick at each. ``margin``: the factor by which it extends
    beyond the fewest and the most."""
    layout = axes("users at once", y, **more)
    layout["xaxis"] |= {"type": "log", "tickvals": [*users], "ticktext": [str(number) for number in users]}
    layout["xaxis"]["range"] = [short(math.log10(users[0] / margin)), short(math.log10(users[-1] * margin))]
    return layout


def level(at: float, is_upright: bool = False) -> dict:
    """Returns a dashed line across the whole chart."""
    along, across = ("y", "x") if is_upright else ("x", "y")
    ends = {f"{along}ref": "paper", f"{along}0": 0, f"{along}1": 1, f"{across}0": short(at), f"{across}1": short(at)}
    return {"type": "line", "line": {"color": "@ink", "width": 2, "dash": "dash"}} | ends


# ── tokens against time ──


def draw_tokens(run: Trace, baseline: Trace | None, speedup: Speedup | None, how: str = "one run each") -> Figure:
    """Charts tokens of run and baseline against time since their first round; reading the prompt is left out."""
    data = [timeline(run, "this run", "@run", "solid")]
    if baseline and baseline.rounds:
        data.append(timeline(baseline, "no drafting", "@plain", "dash"))
    note, divergence = "", None
    if speedup is not None and baseline:
        measured = f"{speedup.value:.2f}× measured" if speedup.is_possible else "Noise, measure again"
        note = f"{measured}: {_speed(run)} against {_speed(baseline)} without drafting, {how}."
        divergence = first_divergence(run, baseline) if run.started.is_greedy else None
    if divergence:
        data.append(_parting(run, divergence))
        gap = "" if divergence.gap is None else f"; there the target's two best logits were {divergence.gap:.2g} apart"
        note += f" The texts part at token {divergence.position + 1}{gap}."
    return Figure(data, axes("seconds since the first round", "tokens"), note)


def timeline(trace: Trace, name: str, colour: str, dash: str) -> dict:
    steps, count = [(0.0, 0)], 0
    for event in trace.rounds:
        count += len(event.emitted)
        steps.append((short(event.end - trace.rounds[0].start), count))
    x, y = zip(*_thin(steps), strict=True)
    line = {"shape": "hv", "width": 3, "color": colour, "dash": dash}
    return points(name, x, y, mode="lines", line=line, hovertemplate="tokens: %{y}, after %{x:.2f} s")


def _thin(steps: list) -> list:
    """Returns at most MOST_POINTS of the steps: every n-th, and the last."""
    nth = -(-len(steps) // MOST_POINTS)
    return steps[::nth] + (steps[-1:] if (len(steps) - 1) % nth else [])


def _parting(run: Trace, divergence: Divergence) -> dict:
    position = divergence.position
    event = next(event for event in run.rounds if any(token.position >= position for token in event.emitted))
    name = "texts part here" + ("" if divergence.gap is None else f" (gap {divergence.gap:.2g})")
    marker, hover = fill("@rejected", symbol="x", size=13), "first token that plain decoding did not write"
    at = short(event.end - run.rounds[0].start)
    return points(name, [at], [position + 1], mode="markers", marker=marker, hovertemplate=hover)


def _speed(trace: Trace) -> str:
    return f"{number(compute_metrics(trace).tokens_per_second, 1)} tokens/s"


# ── the whole request ──

_PARTS = {"the target reads the prompt": ("@host", "."), "first round": ("@accept", "x"),
          "drafts read the prompt": ("@draft", "/"), "further rounds": ("@verify", "")}  # fmt: skip


def draw_request(run: Trace, baseline: Trace | None, speedup: Speedup | None) -> Figure:
    """Charts what the run and its baseline took from Run to the last token, part by part."""
    traces = {"this run": run, "no drafting": baseline}
    ended = {name: trace for name, trace in traces.items() if trace and trace.finished}
    parts = {name: compute_metrics(trace).request for name, trace in ended.items()}
    if not any(parts.values()):
        return Figure(note="The end of this run is not known, so neither is what it took.")
    data = [
        {"type": "bar", "orientation": "h", "name": part, "y": [*parts], "marker": fill(colour, 0.5, pattern, 6),
         "x": [short(took.get(part, 0.0)) for took in parts.values()], "hovertemplate": f"{part}: %{{x:.2f}} s"}
        for part, (colour, pattern) in _PARTS.items() if any(part in took for took in parts.values())
    ]  # fmt: skip
    words = {
        name: f" (prompt {trace.prompt_words} from before)"
        for name, trace in ended.items()
        if trace.finished.kept_tokens
    }
    note = " ".join(f"{n.capitalize()}: {sum(took.values()):.2f} s{words.get(n, '')}." for n, took in parts.items())
    compared = whole_request(compare(run, baseline)) if baseline and speedup else ""
    layout = axes("seconds from Run to the last token", "", barmode="stack", bargap=0.3)
    return Figure(data, layout, f"{note} {compared.capitalize()}{'.' if compared else ''}".strip())


# ── acceptance by draft position ──


def draw_acceptance(run: Trace, numbers: RunMetrics) -> Figure:
    if run.started.server and not run.started.server.has_counts:
        return Figure(note="The server does not say how many drafts it rejected, so there is no acceptance to show.")
    if not numbers.by_depth:
        return Figure(note="No draft was tested, so there is nothing to accept.")
    shares = [wilson(accepted, tested) for accepted, tested in numbers.by_depth.values()]
    places = [*map(str, numbers.by_depth)]
    counts = [f"{accepted}/{tested}" for accepted, tested in numbers.by_depth.values()]
    bars = {
        "type": "bar",
        "x": places,
        "y": [short(share.value) for share in shares],
        "customdata": counts,
        "error_y": whiskers([s.high - s.value for s in shares], [s.value - s.low for s in shares], color="@ink"),
        "marker": fill("@accepted"),
        "hovertemplate": "position %{x}: %{customdata} accepted, %{percent(y)}<extra></extra>",
    }
    # Above each interval, because a bar of none accepted has no room, and Plotly makes them smaller in narrow bars.
    labels = points("", places, [short(share.high) for share in shares], mode="text", text=counts,
                    textposition="top center", textfont={"color": "@ink", "size": 11 if len(counts) > 8 else 13},
                    hoverinfo="skip")  # fmt: skip
    layout = axes("position in the draft", "share accepted", showlegend=False)
    layout["yaxis"] |= {"range": [0, 1.12], "tickformat": ".0%", "tickvals": [0, 0.2, 0.4, 0.6, 0.8, 1]}
    layout["xaxis"] |= {"type": "category"}
    alpha = numbers.alpha
    note = (
        f"Accepted ÷ tested at each position, with 95 % intervals. Drafts after a rejection are not tested. "
        f"All positions together: α = {alpha.value:.2f} ({alpha.low:.2f}–{alpha.high:.2f})."
    )
    if numbers.by_rule:
        block, token = numbers.by_rule["block"], numbers.by_rule["token"]
        note += f" On these drafts blocks accept {block:.2f} a round on average, single tests {token:.2f}."
    return Figure([bars, labels], layout, note + _by_drafter(run, numbers))


def _by_drafter(run: Trace, numbers: RunMetrics) -> str:
    """Says what auto chose, with α of each drafter; empty for one method."""
    parts = []
    for method, rounds in numbers.drafters.items():
        tokens = [token for event in run.rounds if event.drafter == method for token in event.tokens]
        tested, accepted = (sum(token.status in among for token in tokens) for among in (TESTED, ("accepted",)))
        alpha = f", α = {accepted / tested:.2f}" if tested else ""
        parts.append(f"{TITLES.get(method, method)} in {quantity(rounds, 'round')}{alpha}")
    undrafted = sum(not event.parents for event in run.rounds)
    return f" auto chose {'; '.join(parts)}; no draft in {undrafted}." if parts else ""


# ── rounds ──


def draw_rounds(run: Trace, numbers: RunMetrics) -> Figure:
    """Returns the tokens that each round emitted, stacked by status."""

    data = []
    for status in (*sorted(ACCEPTED), *CLOSING):
        if numbers.counts[status]:
            counts = [sum(token.status == status for token in event.tokens) for event in run.rounds]
            colour = "@accepted" if status == "rescued" else _STATUS_COLOURS.get(status, f"@{status}")
            pattern = "/" if status == "rescued" else ""
            data.append(_stack(status, colour, run.rounds, counts, f"%{{y:.3~g}} {status}", pattern))
    tau, note = numbers.tau, "How many tokens a pass wrote is unknown."
    if tau:
        note = (
            f"τ = {tau.value:.2f} tokens per target pass (95 %: {tau.low:.2f}–{tau.high:.2f}); plain decoding writes 1."
        )
    return Figure(data, axes("round", "tokens", barmode="stack", bargap=0.15), note + _binning(run.rounds))


def draw_times(run: Trace, numbers: RunMetrics, baseline: Trace | None) -> Figure:
    """Returns the time of each round by part; a dashed line marks the mean round without drafting."""
    if run.started.server:
        return _draw_server_times(run)
    patterns = {"draft": "/", "verify": "", "accept": "x", "host": "."}
    data = []
    for part in PARTS:
        times = [1000 * getattr(event.timings, part) for event in run.rounds]
        data.append(_stack(part, f"@{part}", run.rounds, times, f"%{{y:.3~g}} ms {part}", patterns[part]))
    layout = axes("round", "ms", barmode="stack", bargap=0.15)
    total = sum(numbers.time.values())
    note = ", ".join(f"{part} {percent(seconds / total)}" for part, seconds in numbers.time.items()) if total else ""
    note = f"Shares of the time of all rounds: {note}." if note else "No time was measured."
    if baseline and baseline.rounds:
        plain = 1000 * mean_round(baseline)
        layout["shapes"] = [level(plain)]
        note += f" Dashed: a round without drafting, {plain:.1f} ms, writes one token."
        note += f" {largest_cost(numbers, compute_metrics(baseline)).sentence}"
    return Figure(data, layout, note + _binning(run.rounds))


def _draw_server_times(run: Trace) -> Figure:
    """Draws the time from one piece of a server's stream to the next, because it tells no parts."""
    times = [1000 * (event.end - event.start) for event in run.rounds]
    data = [_stack("round", "@verify", run.rounds, times, "%{y:.3~g} ms")]
    note = "The time between the pieces of the server's stream; it does not say what it spent it on."
    return Figure(data, axes("round", "ms", bargap=0.15), note + _binning(run.rounds))


def _stack(name: str, colour: str, rounds: Sequence[Round], values: Sequence[float], hover: str, pattern="") -> dict:
    """Draws the mean of ``values`` over groups of neighbouring rounds; at most MOST_BARS groups."""
    marker, size = fill(colour, 0.5, pattern, 6), _bin_size(rounds)
    starts = [event.index + 1 for event in rounds[::size]]
    means = [short(fmean(values[i : i + size])) for i in range(0, len(values), size)]
    return {"type": "bar", "name": name, "x": starts, "y": means, "marker": marker, "hovertemplate": hover}


def _bin_size(rounds: Sequence[Round]) -> int:
    return max(1, -(-len(rounds) // MOST_BARS))


def _binning(rounds: Sequence[Round]) -> str:
    size = _bin_size(rounds)
    return f" Each bar is the mean of {size} rounds." if size > 1 else ""


def mean_round(trace: Trace) -> float:
    """Returns the mean seconds of a round; for a baseline this is a plain step."""
    seconds = (each.timings.total if each.timings else each.end - each.start for each in trace.rounds)
    return sum(seconds) / len(trace.rounds)

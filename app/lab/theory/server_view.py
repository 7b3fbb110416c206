"""Reads points of a server (γ, tokens a second, tokens a round) and renders where its time goes. Knows no gradio."""

import re
from collections.abc import Sequence

from app.views import servers
from app.views.figures import Figure, axes, draw_predicted, encode_figures, fill, level, points
from app.views.table import BEST, empty, sheet
from engine.errors import BadInput, quantity
from engine.tools.servers.costs import ServerPoint, Split, source, split, verdict
from engine.tools.servers.log_reader import report
from engine.trace.metrics import compute_metrics
from engine.trace.speedup_words import DASH
from engine.trace.trace import Trace

GAP = "?"  # in a line, in place of a number that is not known yet
FORM = "A line is γ, tokens per second and tokens a round, as in 7 12.2 3.1, or 0 26.5 without drafts."
MOST = 200  # lines
CHARTS = {"server-speeds": "Tokens per second by draft length"}
GAMMAS = range(9)
WAITING = Figure(note="Drawn when a point without drafts and two with drafts are given.")
LOADS = (4, 16)  # users at once that the best γ is named for, where the cost of a row is known


# ── points in lines ──


def parse(text: str, box: str) -> list[ServerPoint]:
    """Returns the points of a text, one a line. Raises BadInput that names the line and ``box``, where it was typed."""
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if len(lines) > MOST:
        raise BadInput(f"{box}: These are {len(lines)} points; up to {MOST} are taken.")
    measured = []
    for number, line in lines:
        parts = re.split(r"[\s:;,]+", line)
        try:
            if GAP in parts:
                raise BadInput("Put a number in place of the question mark.")
            measured.append(ServerPoint.from_numbers([*map(float, parts)]))
        except (BadInput, ValueError) as error:  # float's own words are about Python
            rule = error if isinstance(error, BadInput) else "These are not numbers."
            raise BadInput(f"{box}, line {number}: {rule} {FORM}") from error
    return measured


def line_from_trace(trace: Trace) -> str:
    """Returns a recording as a line. Its γ is a question mark where the server does not count its drafts, and its speed
    where the answer is too short to have one."""
    numbers, gamma = compute_metrics(trace), servers.longest_draft(trace)
    speed = f"{numbers.tokens_per_second:.4g}" if numbers.tokens_per_second else GAP
    length = f" {numbers.tau.value:.3f}" if gamma != 0 and numbers.tau else ""
    return f"{GAP if gamma is None else gamma} {speed}{length}"


def lines_from_recordings(traces: Sequence[Trace]) -> tuple[list[str], str]:
    """Returns a line for each recording, and a sentence."""
    lines = [line_from_trace(trace) for trace in traces]
    gap = " Put the number in place of the question mark." if any(GAP in line for line in lines) else ""
    return lines, f"Filled in from {quantity(len(lines), 'recording')}.{gap}"


def lines_from_log(text: str) -> tuple[list[str], str]:
    """Returns a log's draft lengths as lines, and a sentence on what it was read as. A log has no tokens per second for
    one user, so they stay a question mark. Raises BadInput where nothing was recognised."""
    figures = report(text)
    readings, left_out = [reading for reading in figures.readings if reading.tau], " ".join(figures.unused)
    if not readings:
        raise BadInput(f"No acceptance length was found. Paste a log, /metrics or an answer. {left_out}".rstrip())
    add = "Add the tokens per second that one user got at each γ."
    words = f"Read as {readings[0].engine}: {readings[0].form}. {add} {left_out}".rstrip()
    return [f"{reading.gamma or GAP} {GAP} {reading.tau:.3f}" for reading in readings], words


def append_lines(text: str, lines: Sequence[str]) -> str:
    """Returns the text with lines that it does not have yet."""
    known = [line.strip() for line in text.splitlines() if line.strip()]
    return "\n".join([*known, *(line for line in lines if line not in known)])


# ── the parts of a step ──


def split_points(measured: Sequence[ServerPoint], lookup: Sequence[ServerPoint], box: str) -> Split:
    """Returns the parts of a step. Raises BadInput that names ``box``, where the points were typed."""
    try:
        return split(measured, lookup)
    except BadInput as error:
        raise BadInput(f"{box}: {error}") from error


def sentences(parts: Split) -> str:
    return " ".join([*verdict(parts, LOADS), source(parts)])


def draw(parts: Split | None, measured: Sequence[ServerPoint] = ()) -> list[str]:
    """Returns the table of the parts, the table of the speeds, and the chart."""
    return [parts_table(parts), speeds_table(parts), encode_figures(dict.fromkeys(CHARTS, figure(parts, measured)))]


def parts_table(parts: Split | None) -> str:
    """Writes a row for each part of a step."""
    if parts is None:
        return empty()
    rows = [
        [words, f"{1000 * part.seconds:.1f} ms", DASH if part.half is None else f"± {1000 * part.half:.1f} ms"]
        for words, part in parts.known_parts()
    ]
    return sheet("Where a step's time goes, derived", ("part of a step", "time", "95 % interval"), rows)


def speeds_table(parts: Split | None) -> str:
    """Writes a row for each draft length; empty where the parts are not known."""
    if parts is None or parts.fixed is None:
        return empty()
    plain = parts.speed(0)
    rows = [
        [f"{g}", f"{parts.length(g):.2f}", (f"{parts.speed(g):.1f}", BEST if g == parts.best else ""),
         f"{parts.speed(g) / plain:.2f}×", f"{parts.ceiling(g):.2f}×" if g else DASH]
        for g in sorted({*GAMMAS, parts.best})
    ]  # fmt: skip
    heads = ("γ", "tokens a round", "tokens/s", "× plain decoding", "× if all were accepted")
    return sheet(f"Predicted at each draft length; acceptance {parts.first:.2f}, then {parts.later:.2f}", heads, rows)


def figure(parts: Split | None, measured: Sequence[ServerPoint] = ()) -> Figure:
    """Charts the speed by draft length; a sentence where the parts are not known."""
    if parts is None or parts.fixed is None:
        return WAITING
    speeds, look = [parts.speed(g) for g in GAMMAS], {"color": "@predicted"}
    data = [draw_predicted("predicted", GAMMAS, speeds, look, hovertemplate="γ = %{x}: %{y:.1f} tokens/s")]
    mark, hover = fill("@run", symbol="diamond", size=13), "γ = %{x}: %{y:.1f} tokens/s, yours"
    x, y = [each.gamma for each in measured], [each.speed for each in measured]
    data.append(points("your points", x, y, mode="markers", marker=mark, hovertemplate=hover))
    layout = axes("γ, tokens drafted in a round", "tokens per second", shapes=[level(parts.speed(0))])
    return Figure(data, layout, "Diamonds are your points, the curve is the model. Dashed level: plain decoding.")

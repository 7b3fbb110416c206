"""Reads points of a server (γ, tokens a second, tokens a round) from lines, recordings and logs. Knows no gradio."""

import re
from collections.abc import Sequence

from app.views import servers
from engine.errors import BadInput
from engine.tools.servers.costs import ServerPoint
from engine.tools.servers.log_reader import report
from engine.trace.metrics import compute_metrics
from engine.trace.trace import Trace

GAP = "?"  # in a line, in place of a number that is not known yet
FORM = "A line is γ, tokens per second and tokens a round, as in 7 12.2 3.1, or 0 26.5 without drafts."
MOST = 200  # lines


def parse(text: str, box: str) -> list[ServerPoint]:
    """Returns the points of a text, one a line. Raises BadInput that names the line and ``box``, where it was typed."""
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if len(lines) > MOST:
        raise BadInput(f"{box}: These are {len(lines)} points; up to {MOST} are taken.")
    points = []
    for number, line in lines:
        try:
            points.append(_point(re.split(r"[\s:;,]+", line)))
        except (BadInput, ValueError) as error:  # float's own words are about Python
            rule = error if isinstance(error, BadInput) else "These are not numbers."
            raise BadInput(f"{box}, line {number}: {rule} {FORM}") from error
    return points


def _point(parts: Sequence[str]) -> ServerPoint:
    if GAP in parts:
        raise BadInput("Put a number in place of the question mark.")
    return ServerPoint.from_numbers([*map(float, parts)])


def line_from_trace(trace: Trace) -> str:
    """Returns a recording as a line. Its γ is a question mark where the server does not count its drafts, and its speed
    where the answer is too short to have one."""
    numbers, gamma = compute_metrics(trace), servers.longest_draft(trace)
    speed = f"{numbers.tokens_per_second:.4g}" if numbers.tokens_per_second else GAP
    length = f" {numbers.tau.value:.3f}" if gamma != 0 and numbers.tau else ""
    return f"{GAP if gamma is None else gamma} {speed}{length}"


def lines_from_log(text: str) -> tuple[list[str], str]:
    """Returns a log's draft lengths as lines, and a sentence on what it was read as. A log has no tokens per second for
    one user, so they stay a question mark. Raises BadInput where nothing was recognised."""
    figures = report(text)
    readings, left_out = [reading for reading in figures.readings if reading.tau], " ".join(figures.unused)
    if not readings:
        raise BadInput(f"No acceptance length was found. Paste a log, /metrics or an answer. {left_out}".rstrip())
    lines = [f"{reading.gamma or GAP} {GAP} {reading.tau:.3f}" for reading in readings]
    first = readings[0]
    add = "Add the tokens per second that one user got at each γ."
    return lines, f"Read as {first.engine}: {first.form}. {add} {left_out}".rstrip()


def append_lines(text: str, lines: Sequence[str]) -> str:
    """Returns the text with lines that it does not have yet."""
    known = [line.strip() for line in text.splitlines() if line.strip()]
    return "\n".join([*known, *(line for line in lines if line not in known)])

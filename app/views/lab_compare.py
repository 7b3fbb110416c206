"""Two to four runs of one prompt side by side: NDJSON for the grid, a chart, a table, and files.

A value of the grid holds the newest lines and some before them (see views.ribbon.Feed, whose lines these are too, each
with the number of its column).
"""

import csv
import io
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.views import ribbon
from app.views.encode import encode
from app.views.figures import Figure, axes, timeline
from app.views.sheet import BEST, empty, sheet
from app.views.summary import speedup
from app.views.table import harmless
from engine.config import AUTO, RunConfig
from engine.events import Round
from engine.statistics import Divergence, first_divergence, statistics
from engine.trace import Trace, to_json

METHODS = {AUTO: "Auto", "none": "Plain decoding", "ngram": "N-gram lookup", "lm": "Draft model", "eagle": "EAGLE head"}
CHART = "compare-tokens"
LOOKS = (("@plain", "dash"), ("@run", "solid"), ("@predicted", "dot"), ("@accept", "dashdot"))  # of the columns
WAITING = Figure(note="Drawn as the runs end.")
DASH = "–"


@dataclass(frozen=True)
class Column:
    """One run: what was asked for, and what there is of it."""

    config: RunConfig
    trace: Trace | None = None

    @property
    def plain(self) -> bool:
        return self.config.method == "none" or self.config.gamma == 0

    @property
    def whole(self) -> bool:
        finished = self.trace.finished if self.trace else None
        return finished is not None and finished.reason != "cancelled"

    @property
    def name(self) -> str:
        method = METHODS.get(self.config.method, self.config.method)
        if self.config.method == AUTO and self.trace:
            came = str(self.trace.started.config.get("method"))
            method += "" if came == AUTO else f": {METHODS.get(came, came)}"
        if self.plain:
            return "Plain decoding"
        return f"{method}, γ auto" if self.config.gamma == AUTO else f"{method}, γ = {self.config.gamma}"


# ── the grid ──


def columns(asked: Sequence[Column]) -> str:
    """The first line behind the start: what the columns are."""
    return encode({"type": "columns", "names": [each.name for each in asked]}) + "\n"


def rounds(lane: int, events: Iterable[Round]) -> str:
    return "".join(encode({"lane": lane} | ribbon.round_line(event, lean=True)) + "\n" for event in events)


def head(asked: Sequence[Column], lane: int, state: str) -> str:
    """What stands above a column. ``state``: "waiting", "running", "ended" or "stopped"."""
    column = asked[lane]
    line = {
        "type": "head", "lane": lane, "name": column.name, "state": state, "setting": _setting(column),
        "facts": [list(fact) for fact in _facts(column)], "speedup": _times(ratio(asked, lane)),
        "said": said(asked, lane), "greedy": column.config.sampling.greedy,
    }  # fmt: skip
    parted = _parted(asked, lane)
    return encode(line | ({"parted": parted.position} if parted else {})) + "\n"


def whole(run: str, asked: Sequence[Column], recorded: bool = False) -> str:
    """Everything in one piece, for when all runs are over: a page that missed something has it all now."""
    text = ribbon.start(run, -1) + columns(asked)
    for lane, column in enumerate(asked):
        text += rounds(lane, column.trace.rounds if column.trace else ())
        state = "recorded" if recorded else "ended" if column.whole else "stopped"
        text += head(asked, lane, state)
    return text + encode({"type": "over"}) + "\n"


def _setting(column: Column) -> str:
    temperature = column.config.sampling.temperature
    return "temperature 0: the likeliest token" if temperature == 0 else f"temperature {temperature:g}"


def _facts(column: Column) -> list[tuple[str, str]]:
    if column.trace is None or not column.trace.rounds:
        return []
    numbers = statistics(column.trace)
    return [
        ("tokens per second", _number(numbers.tokens_per_second, 1)),
        ("target passes", f"{numbers.passes} for {numbers.tokens} tokens"),
        ("τ, tokens per pass", _number(numbers.tau and numbers.tau.value, 2)),
        ("α, drafts kept", _number(numbers.alpha and numbers.alpha.value, 2)),
    ]


def _number(value: float | None, digits: int) -> str:
    return DASH if value is None else f"{value:.{digits}f}"


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}×"


def baseline(asked: Sequence[Column]) -> int | None:
    """The plain column that the others' speeds are compared with."""
    return next((lane for lane, column in enumerate(asked) if column.plain), None)


def ratio(asked: Sequence[Column], lane: int) -> float | None:
    """The column's tokens per second ÷ those of the plain column; None until both have ended."""
    plain = baseline(asked)
    return None if plain is None else speedup(asked[lane].trace, asked[plain].trace)


# ── are the texts the same? ──


def _parted(asked: Sequence[Column], lane: int) -> Divergence | None:
    first, ours = asked[0].trace, asked[lane].trace
    return first_divergence(ours, first) if lane and first and ours else None


def said(asked: Sequence[Column], lane: int) -> str:
    """A sentence on a column's text beside the first one's."""
    if asked[lane].trace is None or not asked[lane].trace.rounds:
        return ""
    if lane == 0:
        return "The other texts are compared with this one."
    parted = _parted(asked, lane)
    greedy = asked[lane].config.sampling.greedy and asked[0].config.sampling.greedy
    at = "" if parted is None else f" from token {parted.position + 1} on"
    if not greedy:
        if asked[lane].config.sampling != asked[0].config.sampling:
            return f"Another temperature than run 1, so another text{at}."
        other = f"A different sample than run 1{at}" if parted else "The same tokens as run 1, by chance"
        return f"{other}: above temperature 0 both follow the target's odds, each with draws of its own."
    if parted is None:
        done = asked[0].whole and asked[lane].whole
        return "The same text as run 1, token for token." if done else "The same text as run 1 so far."
    gap = "" if parted.gap is None else f": there the target's two best logits were only {parted.gap:.2g} apart"
    return f"Differs from run 1{at}{gap}."


# ── chart and table ──


def chart(asked: Sequence[Column]) -> str:
    drawn = [(lane, column) for lane, column in enumerate(asked) if column.trace and column.trace.rounds]
    figure = WAITING
    if drawn:
        data = [timeline(column.trace, f"{lane + 1}: {column.name}", *LOOKS[lane]) for lane, column in drawn]
        note = "Each curve begins with its run's first round; reading the prompt is the same for all and left out."
        figure = Figure(data, axes("seconds since the run's first round", "tokens"), note)
    return encode({"figures": {CHART: figure.as_dict()}})


HEADS = ("Run", "Temperature", "Tokens", "Tokens/s", "Speedup", "Target passes", "τ", "α", "Text")


def table(asked: Sequence[Column]) -> str:
    ended = [lane for lane, column in enumerate(asked) if column.trace and column.trace.rounds]
    if not ended:
        return empty()
    speeds = {lane: statistics(asked[lane].trace).tokens_per_second or 0.0 for lane in ended if asked[lane].whole}
    fastest = max(speeds, key=speeds.get, default=None)
    rows = [_row(asked, lane, lane == fastest and len(speeds) > 1) for lane in ended]
    note = "" if baseline(asked) is not None else "; without a plain run there is no speedup"
    return sheet(f"The runs side by side, one measurement each{note}", HEADS, rows)


def _row(asked: Sequence[Column], lane: int, fastest: bool) -> list:
    column, numbers = asked[lane], statistics(asked[lane].trace)
    speed, parted = _number(numbers.tokens_per_second, 1), _parted(asked, lane)
    text = "–" if lane == 0 else f"differs from token {parted.position + 1}" if parted else "the same as run 1"
    return [
        f"{lane + 1}: {column.name}" + ("" if column.whole else " (stopped)"),
        f"{column.config.sampling.temperature:g}",
        str(numbers.tokens),
        (speed, BEST) if fastest else speed,
        _times(ratio(asked, lane)) or DASH,
        str(numbers.passes),
        _number(numbers.tau and numbers.tau.value, 2),
        _number(numbers.alpha and numbers.alpha.value, 2),
        text,
    ]


def conclusion(asked: Sequence[Column], recorded: str = "") -> tuple[str, str]:
    """The kind of notice, and a sentence: who was fastest. ``recorded``: when it was measured, if not now."""
    before = f"Recorded {recorded}: exactly these runs have been made here before. " if recorded else ""
    if not all(column.whole for column in asked):
        return "quiet", "Stopped. What had been made by then stays on screen."
    plain, speeds = baseline(asked), [statistics(c.trace).tokens_per_second or 0.0 for c in asked]
    best = max(range(len(asked)), key=speeds.__getitem__)
    name = f"Run {best + 1}, {asked[best].name},"
    if plain is None:
        return "quiet", f"{before}{name} was the fastest: {speeds[best]:.1f} tokens per second. One run each."
    if best == plain:
        return (
            "slow",
            f"{before}Plain decoding was the fastest here: no draft paid for itself on this text. One run each.",
        )
    ratio_ = ratio(asked, best)
    against = f"{speeds[best]:.1f} against {speeds[plain]:.1f} tokens per second"
    return "good", f"{before}{name} was the fastest: {ratio_:.2f}× plain decoding, {against}. One run each."


# ── files ──


COLUMNS = ("run", "method", "gamma", "temperature", "seed", "tokens", "tokens_per_second", "speedup", "passes", "tau",
           "alpha", "ended", "differs_from_token")  # fmt: skip


def to_csv(asked: Sequence[Column]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for lane, column in enumerate(asked):
        if column.trace is None:
            continue
        numbers, parted = statistics(column.trace), _parted(asked, lane)
        method = harmless(str(column.trace.started.config.get("method", column.config.method)))
        writer.writerow((
            lane + 1, method, column.config.gamma, column.config.sampling.temperature, column.config.seed,
            numbers.tokens, numbers.tokens_per_second, ratio(asked, lane), numbers.passes,
            numbers.tau and numbers.tau.value,
            numbers.alpha and numbers.alpha.value, column.trace.finished.reason if column.trace.finished else "",
            parted.position + 1 if parted else None,
        ))  # fmt: skip
    return out.getvalue()


def traces(asked: Sequence[Column]) -> bytes:
    """A zip of trace files, each as the playground saves and opens it."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for lane, column in enumerate(asked):
            if column.trace and column.trace.rounds:
                archive.writestr(f"run-{lane + 1}-{_letters(column.config.method)}.json", to_json(column.trace))
    return out.getvalue()


def _letters(name: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in name)[:40]

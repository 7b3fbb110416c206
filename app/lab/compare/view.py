"""Renders two to four runs of one prompt side by side: NDJSON for the grid, a chart and a table.

A value of the grid holds the newest lines and some of those before them, as `player_feed.Feed` sends them, each with
the number of its column.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.views import player_feed
from app.views.figures import Figure, axes, encode_figures, timeline
from app.views.safe_json import encode
from app.views.table import BEST, empty, sheet
from app.views.tiles import speedup
from engine.config import ACCEPTANCE, AUTO, LOSSY, METHODS, RunConfig, is_lossy
from engine.errors import quantity
from engine.trace.events import Round
from engine.trace.metrics import Divergence, compute_metrics, equal_to_the_bit, first_divergence, others_share
from engine.trace.noise import NOISE, PLAIN, Speedup, about_machine, fastest, single_speedup
from engine.trace.speedup_words import DASH, doubts, number
from engine.trace.trace import Trace

TITLES = {AUTO: "Auto"} | {name: method.title[0].upper() + method.title[1:] for name, method in METHODS.items()}
CHART = "compare-tokens"
LOOKS = (("@plain", "dash"), ("@run", "solid"), ("@predicted", "dot"), ("@accept", "dashdot"),
         ("@rejected", "longdash"), ("@bonus", "longdashdot"))  # fmt: skip
WAITING = Figure(note="Drawn as the runs end.")


@dataclass(frozen=True)
class Column:
    """One run: its settings, and its trace so far."""

    config: RunConfig
    trace: Trace | None = None

    @property
    def plain(self) -> bool:
        return self.config.method == "none" or self.config.gamma == 0

    @property
    def source(self) -> tuple[str, ...]:
        """Empty for a run of this page; else the server, model and prompt of a recording. Speeds and texts are compared
        within one source."""
        return ()

    @property
    def gamma(self) -> int | str | None:
        return self.config.gamma

    @property
    def exactness(self) -> str:
        return "lossy" if self.is_lossy else "exact"

    @property
    def setting(self) -> str:
        temperature = self.config.sampling.temperature
        return "temperature 0: the likeliest token" if temperature == 0 else f"temperature {temperature:g}"

    @property
    def is_lossy(self) -> bool:
        config = self.config
        return is_lossy(config.acceptance, config.method, config.gamma, config.sampling.temperature)

    @property
    def is_complete(self) -> bool:
        finished = self.trace.finished if self.trace else None
        return finished is not None and finished.reason != "cancelled"

    @property
    def name(self) -> str:
        method = TITLES.get(self.config.method, self.config.method)
        if self.config.method == AUTO and self.trace:
            came = self.trace.started.method
            method += "" if came == AUTO else f": {TITLES.get(came, came)}"
        if self.plain:
            return "Plain decoding"
        rule = "" if self.config.acceptance == "token" else f", {ACCEPTANCE[self.config.acceptance].title}"
        length = "γ auto" if self.config.gamma == AUTO else f"γ = {self.config.gamma}"
        return f"{method}, {length}{rule}"


# ── the grid ──


def columns(runs: Sequence[Column]) -> str:
    """Returns the line after the start: the names of the columns."""
    return encode({"type": "columns", "names": [each.name for each in runs]}) + "\n"


def rounds(index: int, events: Iterable[Round]) -> str:
    return "".join(encode({"column": index} | player_feed.round_line(event, lean=True)) + "\n" for event in events)


def head(runs: Sequence[Column], index: int, state: str) -> str:
    """Returns the head of a column. ``state``: "waiting", "running", "ended" or "stopped"."""
    column, speedup = runs[index], ratio(runs, index)
    line = {
        "type": "head", "column": index, "name": column.name, "state": state, "setting": column.setting,
        "facts": [list(fact) for fact in _facts(column)], "speedup": _words(speedup),
        "said": text_sentence(runs, index), "greedy": column.config.sampling.greedy, "server": bool(column.source),
    }  # fmt: skip
    if speedup and speedup.tone == "level" and not column.plain:
        line["doubt"] = "not certain"
    if column.is_lossy:
        line["lossy"] = LOSSY
    parted = divergence(runs, index)
    return encode(line | ({"parted": parted.position} if parted else {})) + "\n"


def full_grid(run: str, runs: Sequence[Column], recorded: bool = False) -> str:
    """Returns the whole grid once more, after the last run, so that a page that missed an update has everything."""
    text = player_feed.start(run, -1) + columns(runs)
    for index, column in enumerate(runs):
        text += rounds(index, column.trace.rounds if column.trace else ())
        state = "recorded" if recorded or column.source else "ended" if column.is_complete else "stopped"
        text += head(runs, index, state)
    return text + encode({"type": "over"}) + "\n"


def _facts(column: Column) -> list[tuple[str, str]]:
    if column.trace is None or not column.trace.rounds:
        return []
    numbers = compute_metrics(column.trace)
    return [
        ("tokens per second", number(numbers.tokens_per_second, 1)),
        ("target passes", f"{numbers.passes} for {quantity(numbers.decoded, 'token')}"),
        ("τ, tokens per pass", number(numbers.tau, 2)),
        ("α, drafts accepted", number(numbers.alpha, 2)),
    ]


def _words(ratio: Speedup | None) -> str:
    """Returns the number alone, because its interval is in the table."""
    return "" if ratio is None else f"{ratio.value:.2f}×" if ratio.is_possible else f"{NOISE}: measure again"


def baseline(runs: Sequence[Column], source: tuple[str, ...] = ()) -> int | None:
    """Returns the plain column of a source, with which its other columns' speeds are compared."""
    return next((index for index, column in enumerate(runs) if column.plain and column.source == source), None)


def ratio(runs: Sequence[Column], index: int) -> Speedup | None:
    """Returns the column's tokens per second ÷ its plain column's, which itself has 1; None until both have ended."""
    plain = baseline(runs, runs[index].source)
    if plain is None:
        return None
    return PLAIN if index == plain else speedup(runs[index].trace, runs[plain].trace)


# ── are the texts the same? ──


def divergence(runs: Sequence[Column], index: int) -> Divergence | None:
    first, ours, is_same = runs[0].trace, runs[index].trace, runs[0].source == runs[index].source
    return first_divergence(ours, first) if index and first and ours and is_same else None


def text_sentence(runs: Sequence[Column], index: int) -> str:
    """Compares a column's text with the first one's in a sentence."""
    if runs[index].trace is None or not runs[index].trace.rounds:
        return ""
    if index == 0:
        return "The other texts are compared with this one."
    if runs[index].source != runs[0].source:
        return "From another server, model or prompt, so it is not compared."
    parted = divergence(runs, index)
    greedy = runs[index].config.sampling.greedy and runs[0].config.sampling.greedy
    at = "" if parted is None else f" from token {parted.position + 1} on"
    if not greedy:
        if runs[index].config.sampling != runs[0].config.sampling:
            return f"Another temperature than run 1, so another text{at}."
        if runs[0].source:
            return f"A different sample than run 1{at}."
        if runs[index].is_lossy or runs[0].is_lossy:
            return f"A different sample than run 1{at}; one of the two does not follow the target's odds."
        other = f"A different sample than run 1{at}" if parted else "The same tokens as run 1, by chance"
        return f"{other}: above temperature 0 both follow the target's odds, each with draws of its own."
    if parted is None:
        done = runs[0].is_complete and runs[index].is_complete
        if not done:
            return "The same text as run 1 so far."
        bits = equal_to_the_bit(runs[index].trace, runs[0].trace)
        return "The same text as run 1, token for token" + (", from scores equal to the bit." if bits else ".")
    gap = "" if parted.gap is None else f": there the target's two best logits were only {parted.gap:.2g} apart"
    return f"Differs from run 1{at}{gap}."


# ── chart and table ──


def chart(runs: Sequence[Column]) -> str:
    drawn = [(index, column) for index, column in enumerate(runs) if column.trace and column.trace.rounds]
    figure = WAITING
    if drawn:
        data = [timeline(column.trace, f"{index + 1}: {column.name}", *LOOKS[index]) for index, column in drawn]
        note = "Each curve begins with its run's first round; reading the prompt is the same for all and left out."
        figure = Figure(data, axes("seconds since the run's first round", "tokens"), note)
    return encode_figures({CHART: figure})


HEADS = ("Run", "Temperature", "Tokens", "Tokens/s", "Speedup", "Target passes", "τ", "α", "Text")


def table(runs: Sequence[Column]) -> str:
    ended = [index for index, column in enumerate(runs) if column.trace and column.trace.rounds]
    if not ended:
        return empty()
    leaders = _leaders(runs)
    rows = [_row(runs, index, leaders == [index]) for index in ended]
    note = "" if baseline(runs) is not None else "; without a plain run there is no speedup"
    return sheet(f"The runs side by side, one measurement each{note}", HEADS, rows)


def _leaders(runs: Sequence[Column]) -> list[int]:
    """Returns the fastest run, then those that may be as fast."""
    if baseline(runs) is None:
        return _quickest(runs)
    measured = {index: ratio(runs, index) for index, column in enumerate(runs) if not column.source}
    return fastest({index: speedup for index, speedup in measured.items() if speedup})


def _quickest(runs: Sequence[Column]) -> list[int]:
    """Returns the fastest columns when no plain run can be compared with."""
    traces = {index: column.trace for index, column in enumerate(runs) if column.is_complete and not column.source}
    speeds = {index: compute_metrics(trace).tokens_per_second or 0.0 for index, trace in traces.items()}
    first = max(speeds, key=speeds.__getitem__, default=None)
    if first is None or not all(speeds.values()):
        return []

    def may_be_as_fast(index: int) -> bool:
        pair = traces[first], traces[index]
        rounds, busy = (trace.rounds for trace in pair), others_share(*pair)
        return single_speedup(speeds[first] / speeds[index], math.inf, None, *rounds, busy=busy).tone == "level"

    return [first, *(index for index in traces if index != first and may_be_as_fast(index))]


def _row(runs: Sequence[Column], index: int, is_winner: bool) -> list:
    column, numbers = runs[index], compute_metrics(runs[index].trace)
    speed, parted = number(numbers.tokens_per_second, 1), divergence(runs, index)
    is_other = column.source != runs[0].source
    text = (
        DASH
        if index == 0 or is_other
        else f"differs from token {parted.position + 1}"
        if parted
        else "the same as run 1"
    )
    return [
        f"{index + 1}: {column.name}{' (lossy)' * column.is_lossy}{'' if column.is_complete else ' (stopped)'}",
        f"{column.config.sampling.temperature:g}",
        str(numbers.tokens),
        (speed, BEST) if is_winner else speed,
        _word_speedup(ratio(runs, index)),
        str(numbers.passes),
        number(numbers.tau, 2),
        number(numbers.alpha, 2),
        text,
    ]


def _word_speedup(ratio: Speedup | None) -> str | tuple[str, str]:
    """Words a speedup with its interval. Noise is marked, so that the page offers to run again."""
    if ratio is None:
        return DASH
    if ratio.low == ratio.high == 1:  # plain decoding itself
        return "1"
    return ratio.words if ratio.is_possible else (NOISE, NOISE)


def conclusion(runs: Sequence[Column], recorded: str = "") -> tuple[str, str]:
    """Returns the kind of notice, and a sentence: who was fastest. ``recorded``: when it was measured, if not now."""
    ours = [column for column in runs if not column.source]
    if len(ours) < len(runs):
        kind, words = conclusion(ours, recorded) if ours else ("quiet", "")
        return kind, f"{words} {_recordings_sentence(runs)}".strip()
    before = f"Recorded {recorded}: exactly these runs have been made here before. " if recorded else ""
    if not all(column.is_complete for column in runs):
        return "quiet", "Stopped. The rounds so far stay on screen."
    plain, speeds = baseline(runs), [compute_metrics(c.trace).tokens_per_second or 0.0 for c in runs]
    leaders, machine = _leaders(runs), about_machine(_busiest(runs))
    once = f"One run each. {machine}".rstrip()
    best = leaders[0] if leaders else max(range(len(runs)), key=speeds.__getitem__)
    name = f"Run {best + 1}, {runs[best].name}{' (lossy)' * runs[best].is_lossy},"
    noise = _has_noise(runs)
    if noise:
        once = f"A run marked as noise is faster than its tokens per pass allow, so run all again. {once}"
    *most, last = (f"{index + 1}" for index in sorted(leaders)) if leaders else ("",)
    same = f"{', '.join(most)} and {last}" if most else last
    if len(leaders) > 1 and noise:
        return "quiet", f"{before}Nothing is certain yet: runs {same} may be the fastest. {once}"
    if len(leaders) > 1:
        return "quiet", f"{before}No difference is certain between runs {same}. {once}"
    if plain is None:
        return "quiet", f"{before}{name} was the fastest: {speeds[best]:.1f} tokens per second. {once}"
    if best == plain:
        return ("slow", f"{before}Plain decoding was the fastest here: no draft paid for itself on this text. {once}")
    against = f"{speeds[best]:.1f} against {speeds[plain]:.1f} tokens per second"
    measured = _words(ratio(runs, best))
    return "good", f"{before}{name} was the fastest: {measured} plain decoding, {against}. {once}"


def doubts_about(runs: Sequence[Column]) -> str:
    """Warns of noise and of a busy machine."""
    return doubts(_has_noise(runs), [_busiest(runs)])


def _has_noise(runs: Sequence[Column]) -> bool:
    return any(speedup and not speedup.is_possible for speedup in (ratio(runs, i) for i in range(len(runs))))


def _busiest(runs: Sequence[Column]) -> float | None:
    return others_share(*(column.trace for column in runs))


def _recordings_sentence(runs: Sequence[Column]) -> str:
    """Says what the recordings of servers show. Their speed is never compared with that of this page's runs."""
    ratios = {i: ratio(runs, i) for i, column in enumerate(runs) if column.source and not column.plain}
    words = [f"Run {i + 1} is {_words(each)} its server's plain decoding." for i, each in ratios.items() if each]
    return " ".join([*words, "A recording has its own server's speed, so it is compared with that server's alone."])

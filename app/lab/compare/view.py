"""Renders two to four runs of one prompt side by side: NDJSON for the grid, a chart, a table, and files.

A value of the grid holds the newest lines and some of those before them, as `player_feed.Feed` sends them, each with
the number of its column.
"""

import io
import math
import time
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from app.lab.compare.columns import Column, ComparedRuns
from app.lab.recorded import Recorded
from app.playground.trace_files import safe_letters
from app.views import player_feed
from app.views.figures import Figure, axes, encode_figures, timeline
from app.views.notice import notice
from app.views.safe_json import encode
from app.views.status_words import ago
from app.views.table import BEST, csv_text, empty, sheet, speedup_cell
from app.views.tiles import speedup
from engine.config import LOSSY
from engine.errors import and_list, quantity
from engine.tools.bench.winners import fastest
from engine.trace.branch import config_of
from engine.trace.events import Round
from engine.trace.metrics import Divergence, compute_metrics, equal_to_the_bit, first_divergence, others_share
from engine.trace.noise import NOISE, PLAIN, Speedup, about_machine, single_speedup
from engine.trace.speedup_words import DASH, number
from engine.trace.speedup_words import doubts as words_of_doubts
from engine.trace.trace import from_json, to_json

CHARTS = {"compare-tokens": "Tokens against time"}
LOOKS = (("@plain", "dash"), ("@run", "solid"), ("@predicted", "dot"), ("@accept", "dashdot"),
         ("@rejected", "longdash"), ("@bonus", "longdashdot"))  # fmt: skip
WAITING = Figure(note="Drawn as the runs end.")


def draw(result: ComparedRuns) -> dict[str, str]:
    columns = result.columns
    grid = full_grid(result.run, columns, result.recorded_at is not None)
    return {"grid": grid, "table": table(columns), "charts": chart(columns)}


def verdict(result: ComparedRuns) -> str:
    return conclusion(result.columns)[1]


def notice_of(result: ComparedRuns) -> str:
    """Returns the notice that says who was fastest."""
    when = "" if result.recorded_at is None else ago(time.time() - result.recorded_at)
    return notice(*conclusion(result.columns, when))


def doubts(result: ComparedRuns) -> str:
    """Warns of noise and of a busy machine."""
    return words_of_doubts(_has_noise(result.columns), [_busiest(result.columns)])


# ── the grid ──


def columns(runs: Sequence[Column]) -> str:
    """Returns the line after the start: the names of the columns."""
    return encode({"type": "columns", "names": [each.name for each in runs]}) + "\n"


def rounds(index: int, events: Iterable[Round]) -> str:
    return "".join(encode({"column": index} | player_feed.round_line(event, lean=True)) + "\n" for event in events)


def head(runs: Sequence[Column], index: int, state: str) -> str:
    """Returns the head of a column. ``state``: "waiting", "running", "ended" or "stopped"."""
    column, gain = runs[index], ratio(runs, index)
    line = {
        "type": "head", "column": index, "name": column.name, "state": state, "setting": column.setting,
        "facts": [list(fact) for fact in _facts(column)], "speedup": _words(gain),
        "said": text_sentence(runs, index), "greedy": column.config.sampling.greedy, "server": bool(column.source),
    }  # fmt: skip
    if gain and gain.tone == "level" and not column.is_plain:
        line["doubt"] = "not certain"
    if column.is_lossy:
        line["lossy"] = LOSSY
    if parted := divergence(runs, index):
        line["parted"] = parted.position
    return encode(line) + "\n"


def full_grid(run: str, runs: Sequence[Column], recorded: bool = False) -> str:
    """Returns the whole grid once more, after the last run, so that a page that missed an update has everything."""
    text = player_feed.start(run, -1) + columns(runs)
    for index, column in enumerate(runs):
        text += rounds(index, column.trace.rounds if column.trace else ())
        state = "recorded" if recorded or column.source else "ended" if column.is_complete else "stopped"
        text += head(runs, index, state)
    return text + encode({"type": "over"}) + "\n"


def _facts(column: Column) -> list[tuple[str, str]]:
    if not column.has_rounds:
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


# ── how fast? ──


def baseline(runs: Sequence[Column], source: tuple[str, ...] = ()) -> int | None:
    """Returns the plain column of a source, with which its other columns' speeds are compared."""
    return next((index for index, column in enumerate(runs) if column.is_plain and column.source == source), None)


def ratio(runs: Sequence[Column], index: int) -> Speedup | None:
    """Returns the column's tokens per second ÷ its plain column's, which itself has 1; None until both have ended."""
    plain = baseline(runs, runs[index].source)
    if plain is None:
        return None
    return PLAIN if index == plain else speedup(runs[index].trace, runs[plain].trace)


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


def _has_noise(runs: Sequence[Column]) -> bool:
    return any(speedup and not speedup.is_possible for speedup in (ratio(runs, i) for i in range(len(runs))))


def _busiest(runs: Sequence[Column]) -> float | None:
    return others_share(*(column.trace for column in runs))


# ── are the texts the same? ──


def divergence(runs: Sequence[Column], index: int) -> Divergence | None:
    first, ours, is_same = runs[0].trace, runs[index].trace, runs[0].source == runs[index].source
    return first_divergence(ours, first) if index and first and ours and is_same else None


def text_sentence(runs: Sequence[Column], index: int) -> str:
    """Compares a column's text with the first one's in a sentence."""
    first, ours = runs[0], runs[index]
    if not ours.has_rounds:
        return ""
    if index == 0:
        return "The other texts are compared with this one."
    if ours.source != first.source:
        return "From another server, model or prompt, so it is not compared."
    parted = divergence(runs, index)
    at = "" if parted is None else f" from token {parted.position + 1} on"
    if not (ours.config.sampling.greedy and first.config.sampling.greedy):
        if ours.config.sampling != first.config.sampling:
            return f"Another temperature than run 1, so another text{at}."
        if first.source:
            return f"A different sample than run 1{at}."
        if ours.is_lossy or first.is_lossy:
            return f"A different sample than run 1{at}; one of the two does not follow the target's odds."
        other = f"A different sample than run 1{at}" if parted else "The same tokens as run 1, by chance"
        return f"{other}: above temperature 0 both follow the target's odds, each with draws of its own."
    if parted is None:
        if not (first.is_complete and ours.is_complete):
            return "The same text as run 1 so far."
        bits = equal_to_the_bit(ours.trace, first.trace)
        return "The same text as run 1, token for token" + (", from scores equal to the bit." if bits else ".")
    gap = "" if parted.gap is None else f": there the target's two best logits were only {parted.gap:.2g} apart"
    return f"Differs from run 1{at}{gap}."


# ── chart and table ──


def chart(runs: Sequence[Column]) -> str:
    looks = zip(runs, LOOKS, strict=False)
    drawn = [(number, each, look) for number, (each, look) in enumerate(looks, 1) if each.has_rounds]
    data = [timeline(each.trace, f"{number}: {each.name}", *look) for number, each, look in drawn]
    note = "Each curve begins with its run's first round; reading the prompt is the same for all and left out."
    figure = Figure(data, axes("seconds since the run's first round", "tokens"), note) if data else WAITING
    return encode_figures(dict.fromkeys(CHARTS, figure))


def table(runs: Sequence[Column]) -> str:
    leaders, rows = _leaders(runs) if runs else [], []
    for index, column in enumerate(runs):
        if not column.has_rounds:
            continue
        numbers, parted = compute_metrics(column.trace), divergence(runs, index)
        text = f"differs from token {parted.position + 1}" if parted else "the same as run 1"
        name = f"{index + 1}: {column.name}{' (lossy)' * column.is_lossy}{'' if column.is_complete else ' (stopped)'}"
        rows.append([
            name, f"{column.config.sampling.temperature:g}", f"{numbers.tokens}",
            (number(numbers.tokens_per_second, 1), BEST if leaders == [index] else ""),
            speedup_cell(ratio(runs, index)), f"{numbers.passes}", number(numbers.tau, 2), number(numbers.alpha, 2),
            DASH if index == 0 or column.source != runs[0].source else text,
        ])  # fmt: skip
    if not rows:
        return empty()
    heads = ("Run", "Temperature", "Tokens", "Tokens/s", "Speedup", "Target passes", "τ, tokens per pass",
             "α, share accepted", "Text")  # fmt: skip
    note = "" if baseline(runs) is not None else "; without a plain run there is no speedup"
    best = "; ★ wrote the most tokens per second" if len(leaders) == 1 else ""
    return sheet(f"The runs side by side, one measurement each{best}{note}", heads, rows)


def conclusion(runs: Sequence[Column], recorded: str = "") -> tuple[str, str]:
    """Returns the kind of notice, and a sentence: who was fastest. ``recorded``: when it was measured, if not now."""
    ours = [column for column in runs if not column.source]
    if len(ours) < len(runs):
        kind, words = conclusion(ours, recorded) if ours else ("quiet", "")
        return kind, f"{words} {_recordings_sentence(runs)}".strip()
    if not all(column.is_complete for column in runs):
        return "quiet", "Stopped. The rounds so far stay on screen."
    before = f"Recorded {recorded}: exactly these runs have been made here before. " if recorded else ""
    plain, speeds = baseline(runs), [compute_metrics(c.trace).tokens_per_second or 0.0 for c in runs]
    leaders, noise = _leaders(runs), _has_noise(runs)
    once = f"One run each. {about_machine(_busiest(runs))}".rstrip()
    if noise:
        once = f"A run marked as noise is faster than its tokens per pass allow, so run all again. {once}"
    if len(leaders) > 1:
        same = and_list([f"{index + 1}" for index in sorted(leaders)])
        words = f"Nothing is certain yet: runs {same} may be the fastest."
        return "quiet", f"{before}{words if noise else f'No difference is certain between runs {same}.'} {once}"
    best = leaders[0] if leaders else max(range(len(runs)), key=speeds.__getitem__)
    name = f"Run {best + 1}, {runs[best].name}{' (lossy)' * runs[best].is_lossy},"
    if plain is None:
        return "quiet", f"{before}{name} was the fastest: {speeds[best]:.1f} tokens per second. {once}"
    if best == plain:
        return "slow", f"{before}Plain decoding was the fastest here: no draft paid for itself on this text. {once}"
    against = f"{speeds[best]:.1f} against {speeds[plain]:.1f} tokens per second"
    return "good", f"{before}{name} was the fastest: {_words(ratio(runs, best))} plain decoding, {against}. {once}"


def _recordings_sentence(runs: Sequence[Column]) -> str:
    """Says what the recordings of servers show. Their speed is never compared with the speed of this page's runs."""
    ratios = {i: ratio(runs, i) for i, column in enumerate(runs) if column.source and not column.is_plain}
    words = [f"Run {i + 1} is {_words(each)} its server's plain decoding." for i, each in ratios.items() if each]
    return " ".join([*words, "A recording has its own server's speed, so it is compared with that server's alone."])


# ── files ──


def to_csv(runs: Sequence[Column]) -> str:
    """Writes a header and a row for each run."""
    heads, rows = ("run", "method", "gamma", "temperature", "acceptance", "exact", "seed", "tokens",
                   "tokens_per_second", "speedup", "passes", "tau", "alpha", "ended", "differs_from_token", "pair",
                   "device", "precision", "started"), []  # fmt: skip
    for index, column in enumerate(runs):
        if column.trace is None:
            continue
        started, config, finished = column.trace.started, column.config, column.trace.finished
        numbers, parted, gain = compute_metrics(column.trace), divergence(runs, index), ratio(runs, index)
        rows.append((
            index + 1, started.method or config.method, column.gamma, config.sampling.temperature, config.acceptance,
            column.exactness, config.seed, numbers.tokens, numbers.tokens_per_second, gain and gain.possible_value,
            numbers.passes, numbers.tau and numbers.tau.value, numbers.alpha and numbers.alpha.value,
            finished.reason if finished else "", parted.position + 1 if parted else None,
            started.pair, started.device, started.dtype, started.at,
        ))  # fmt: skip
    return csv_text(heads, rows)


def to_zip(runs: Sequence[Column]) -> bytes:
    """Writes a zip of trace files, each as the playground saves and opens it."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for index, column in enumerate(runs):
            if column.has_rounds:
                archive.writestr(f"run-{index + 1}-{safe_letters(column.config.method)}.json", to_json(column.trace))
    return out.getvalue()


def files(result: ComparedRuns, where: Mapping[str, str]) -> dict[str, str | bytes]:
    """Returns the files by name. Each run has its own machine and time, in place of ``where``."""
    return {"speclens-compare.zip": to_zip(result.columns), "speclens-compare.csv": to_csv(result.columns)}


def read_saved(saved: bytes) -> Recorded:
    """Reads a file that `to_zip` wrote."""
    with zipfile.ZipFile(io.BytesIO(saved)) as archive:
        runs = [from_json(archive.read(name)) for name in archive.namelist()]
    started = runs[0].started
    columns = tuple(Column(config_of(run), run) for run in runs)
    comparison = ComparedRuns("recorded", columns, datetime.fromisoformat(started.at).timestamp())
    return Recorded(comparison, started.at, started.device, started.dtype, started.pair)

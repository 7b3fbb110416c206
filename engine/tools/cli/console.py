"""Prints tokens with marks and metrics in tables on the terminal. Imports no torch.

Model text is untrusted: control characters become visible signs, and rich's markup is off.
Status is never colour alone, so it reads the same through a pipe or with NO_COLOR.
"""

import os
import sys
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from engine.config import LOSSY
from engine.errors import percent, quantity
from engine.tools.cli import constraint
from engine.trace.costs import CostModel
from engine.trace.events import FORBIDDEN, STATUSES, Event, Round, RunStarted, Server, Token
from engine.trace.metrics import (
    PARTS,
    Interval,
    RunMetrics,
    compare,
    compute_metrics,
    equal_to_the_bit,
    largest_cost,
    others_share,
)
from engine.trace.noise import Speedup, about_machine
from engine.trace.speedup_words import DASH, doubt_costs, number, speedup_verdict, whole_request
from engine.trace.trace import Trace

# status -> (its mark where the terminal has no Unicode, style)
STATUS_STYLES = {
    "accepted": ("+", "black on #56B4E9"),
    "rescued": ("o", "black on #56B4E9 underline"),
    "rejected": ("x", "black on #D55E00 strike"),
    "resampled": ("~", "black on #F0E442"),
    "bonus": ("*", "white on #332288"),
    "discarded": ("-", "dim"),
    "plain": ("", ""),
    "closing": (".", ""),
}
_PIPE_WIDTH = 160  # rich assumes 80 columns without a terminal, which breaks the tables
_HIDING = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # control, format (bidi, tags), surrogates, line separators
_JOINERS = "\u200c\u200d\ufe0f"  # zero-width, but part of how scripts and emoji are written


def screen(stderr: bool = False) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else _PIPE_WIDTH
    return Console(file=stream, width=width, markup=False, highlight=False, emoji=False)


def say(message: str) -> None:
    """Prints a sentence on stderr; control characters in it become visible signs."""
    screen(stderr=True).print(Text(visible(" ".join(message.split()))), soft_wrap=True)


def visible(text: str, keep: str = "\n\t") -> str:
    """Makes a text unable to move the cursor, change colours or reverse the line: such characters become signs.

    >>> visible("\\x1b[31mred")
    '␛[31mred'
    """
    safe = set(keep + _JOINERS)
    return "".join(c if c in safe or unicodedata.category(c) not in _HIDING else _sign(c) for c in text)


def _sign(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"<{code:04X}>"


def _unicode(console: Console) -> bool:
    return console.encoding.lower().startswith("utf")


def _piece(token: Token, unicode: bool) -> Text:
    demanded = ("§" if unicode else "=") if token.from_grammar else ""
    text = demanded + _visible_text(token.text or token.label or "")
    return Text(_mark(token.status, unicode) + text, style=STATUS_STYLES[token.status][1])


def _visible_text(text: str) -> str:
    text = visible(text, keep="").replace("␊", "⏎").replace("␉", "⇥")
    return text if text.strip() else "·" * len(text) or "∅"


def _mark(status: str, unicode: bool) -> str:
    return STATUSES[status].mark if unicode else STATUS_STYLES[status][0]


def legend(console: Console) -> Text:
    line = Text()
    for status, (_, style) in STATUS_STYLES.items():
        if mark := _mark(status, _unicode(console)):
            line.append(f"{mark}{status}", style=style).append("  ")
    return line


class RoundPrinter:
    """Prints rounds as they arrive: a line for each round with drafts; rounds without drafts share a line."""

    def __init__(self, console: Console):
        self._console, self._unicode = console, _unicode(console)
        self._has_legend = self._open = False

    def show(self, event: Event) -> None:
        """Prints a round with its tokens, and the notes of a run's start and end on stderr."""
        if isinstance(event, Round):
            return self._show_round(event)
        self.end()
        for note in event.notes:
            say(note)
        if isinstance(event, RunStarted) and event.draft_dtype and event.costs:
            say(f"The draft runs in {event.draft_dtype}; a step takes {event.costs.c:.2f} of a plain one (c).")

    def _show_round(self, round_: Round) -> None:
        if not self._has_legend:
            self._console.print(legend(self._console))
            self._has_legend = True
        drafted, line = bool(round_.parents), Text()
        if drafted or not self._open:
            self.end()
            head = f"{round_.index:>4} {'γ' if self._unicode else 'g'}={round_.gamma} " if drafted else f"{'':>4}     "
            line.append(head, style="dim")
        for token in round_.tokens:
            line.append_text(_piece(token, self._unicode)).append(" ")
        for draft in round_.forbidden:
            mark = FORBIDDEN.mark if self._unicode else "!"
            line.append(mark + _visible_text(draft.text), style="dim strike").append(" ")
        self._console.print(line, end="", soft_wrap=True)
        self._console.file.flush()
        self._open = True
        if drafted:
            self.end()

    def end(self) -> None:
        if self._open:
            self._console.print()
        self._open = False


def print_result(console: Console, trace: Trace) -> None:
    """Prints the token that a branch begins with, the answer, and every metric with the counts it comes from."""
    if prefix := trace.started.prefix:
        text = visible(prefix[-1].text or prefix[-1].label or "", keep="")
        console.print(Text(f"At place {len(prefix) - 1} the token {text!r} was forced. The draws stay the same."))
    text = trace.finished.text if trace.finished else trace.text
    console.print()
    console.print(Text(visible(text)), soft_wrap=True)
    console.print()
    metrics = compute_metrics(trace)
    _print_rows(console, [*_request_rows(trace), *_token_rows(trace, metrics), *_time_rows(trace, metrics)])


def _print_rows(console: Console, rows: Iterable[tuple[str, str]]) -> None:
    """Prints the rows that have a value."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, value in rows:
        if value:
            table.add_row(name, visible(value))
    console.print(table)


def _request_rows(trace: Trace):
    started = trace.started
    if started.server:
        yield from _server_rows(started.server)
    else:
        yield "run", f"{started.method or 'unknown method'} on {started.pair}, {started.dtype}, {started.device}"
    yield "LOSSY", LOSSY if started.is_lossy else ""
    yield from constraint.rows(trace)
    yield "translation", started.translated.words if started.translated else ""
    yield "prompt", trace.prompt_words if started.prompt else ""


def _server_rows(server: Server):
    yield "server", f"{server.title}, model {server.model}, read as {server.adapter}"
    yield "its settings", ", ".join(f"{name} {value}" for name, value in server.flags.items())
    yield "its own counts", ", ".join(f"{n} {name}" for name, n in server.counters.items())
    for note in server.notes:
        yield "note", note


def _token_rows(trace: Trace, s: RunMetrics):
    server, count = trace.started.server, f"{s.tokens} in {quantity(s.passes, 'target pass')}"
    if server:
        own = f"{s.tokens - s.decoded} by the prompt’s own pass before"
        count = f"{s.decoded} in {quantity(s.passes, 'pass')}, and {own}"
    yield "tokens", f"{count}, ended by {trace.finished.reason if trace.finished else 'being cut off'}"
    yield "statuses", ", ".join(f"{n} {status}" for status, n in s.counts.items() if n) or "none"
    if s.alpha:
        yield "acceptance α", f"{_interval(s.alpha)}, {s.accepted} of {s.tested} tested drafts"
        yield "by depth", ", ".join(f"{d}: {n}/{of} = {percent(n / of)}" for d, (n, of) in s.by_depth.items())
    else:
        is_counted = server is None or server.has_counts
        yield "acceptance α", "no draft was tested" if is_counted else f"unknown: {server.why_uncounted}"
    if s.tau or s.passes:
        yield "τ, tokens per pass", _interval(s.tau) if s.tau else "unknown: the stream does not show the passes"
    if s.by_rule:
        yield "accepted a round", "expected {block:.3f} by blocks; {token:.3f} token by token".format(**s.by_rule)
    yield "γ, rounds of each", ", ".join(f"{gamma}: {n}" for gamma, n in s.gammas.items())
    yield "rounds drafted by", ", ".join(f"{method}: {n}" for method, n in s.drafters.items())
    yield "wasted work", "" if s.wasted is None else f"{percent(s.wasted, 1)} of what was scored"


def _time_rows(trace: Trace, s: RunMetrics):
    yield "decode speed", f"{number(s.tokens_per_second, 1)} tokens/s, {number(s.end_to_end, 1)} with the prompt"
    if trace.finished:
        yield "first token after", _time(s.ttft)
        parts = ", ".join(f"{part} {_time(seconds)}" for part, seconds in s.request.items())
        yield "whole request", f"{_time(trace.finished.seconds)}: {parts}"
    if not trace.started.server:
        yield "time", ", ".join(f"{PARTS[part]} {_share(t, sum(s.time.values()))}" for part, t in s.time.items())
    if s.peak_memory:
        where = "" if "cpu" not in trace.started.device else ", the whole process"
        yield "peak memory", f"{s.peak_memory / 2**20:,.0f} MiB{where}"
    yield "costs", costs_line(s.costs) if s.costs else ""
    if s.predicted_speedup:
        doubt = doubt_costs(trace.rounds, s.costs)
        yield "predicted speedup", f"{s.predicted_speedup:.2f}×, from these rounds and costs{doubt and f'; {doubt}'}"
    yield "note", about_machine(others_share(trace))


def server_totals(console: Console, traces: list[Trace]) -> None:
    """Prints the totals over several recordings of one server."""
    each = [compute_metrics(trace) for trace in traces]
    tokens, passes = sum(s.decoded for s in each), sum(s.passes for s in each)
    rows = [
        ("tokens", f"{tokens} in {quantity(passes, 'pass')} after the prompts’ own, {quantity(len(traces), 'prompt')}")
    ]
    if passes and all(s.tau for s in each if s.passes):
        rows.append(("τ, tokens per pass", f"{tokens / passes:.3f}"))
    counters = Counter()
    for trace in traces:
        counters.update(trace.started.server.counters if trace.started.server else {})
    if counters.get("rounds"):
        own = 1 + counters["accepted"] / counters["rounds"]
        counts = ", ".join(f"{n} {name}" for name, n in counters.items())
        rows.append(("the server’s own counts", f"{counts}: {own:.3f} tokens per round with drafts"))
    notes = Counter(note for trace in traces if (server := trace.started.server) for note in server.notes)
    rows += [("note", f"{note} ({quantity(n, 'prompt')})") for note, n in notes.items()]
    _print_rows(console, rows)


def comparison(console: Console, trace: Trace, baseline: Trace) -> None:
    """Prints the comparison with the baseline; below 1× it names the largest cost."""
    result = compare(trace, baseline)
    ours, plain = compute_metrics(trace), compute_metrics(baseline)
    ratio = result.speedup.words if result.speedup else DASH
    speeds = f"{number(ours.tokens_per_second, 1)} against {number(plain.tokens_per_second, 1)} tokens/s"
    _print_rows(console, [
        ("measured speedup", f"{ratio}, {speeds} without drafting, one run each"),
        ("whole request", whole_request(result) or DASH),
        ("predicted", f"{number(result.predicted, 2)}×, efficiency {number(result.efficiency, 2)}"),
        ("first divergence", _divergence(trace, baseline, result.divergence)),
    ])  # fmt: skip
    console.print(Text(verdict(result.speedup, ours, plain)), soft_wrap=True)
    if machine := about_machine(others_share(baseline)):
        console.print(Text(f"While plain decoding ran: {machine[0].lower()}{machine[1:]}"), soft_wrap=True)


def _divergence(trace: Trace, baseline: Trace, divergence) -> str:
    if not trace.started.is_greedy:
        return "not looked for: at a temperature above 0 the two draw differently from the same distribution"
    if divergence is None:
        return "none, the same tokens" + (", from logits equal to the bit" if equal_to_the_bit(trace, baseline) else "")
    gap = "unknown" if divergence.gap is None else f"{divergence.gap:.2g}"
    tokens = f"{divergence.token!r} here, {divergence.baseline!r} without drafting"
    return f"token {divergence.position}: {tokens}, top-2 logit gap {gap}"


def verdict(speedup: Speedup | None, ours: RunMetrics, plain: RunMetrics) -> str:
    if speedup is None:
        return "Too few tokens to compare."
    words = speedup_verdict(speedup, ours.tau)
    return f"{words} {largest_cost(ours, plain).sentence}" if speedup.tone == "slower" else words


def costs_line(costs: CostModel) -> str:
    v = ", ".join(f"v({w}) {x:.2f}" for w, x in sorted(costs.v.items()))
    return f"c {costs.c:.3f}, {v}, one plain step {_time(costs.step)} at {quantity(costs.context, 'token')}"


def _interval(x: Interval) -> str:
    return f"{x.value:.2f} (95 %: {x.low:.2f}–{x.high:.2f})"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return DASH
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.1f} ms"


def _share(seconds: float, total: float) -> str:
    return f"{_time(seconds)} ({percent(seconds / total)})" if total else _time(seconds)


def pairs_table(pairs, faulty: Collection[str]) -> Table:
    """Returns a table with a line per pair; the memory is for the target and its first draft. ``faulty``: the names of
    those that were tried and cannot be loaded."""
    from engine.files import gigabytes
    from engine.weights.specs import methods

    table = Table(box=None, padding=(0, 1), header_style="bold")
    for name in ("pair", "target", "methods", "licence", "parameters", "fp32", "bf16", "gated", "state"):
        table.add_column(name, overflow="fold")
    for pair in pairs:
        models = [pair.target, *pair.drafts.values()]
        table.add_row(
            pair.name,
            pair.target.name,
            ", ".join(f"{m} ({draft.name})" if (draft := pair.draft(m)) else m for m in methods(pair)),
            ", ".join(dict.fromkeys(m.licence for m in models)),
            " + ".join(_count(m.parameters) for m in models),
            *(gigabytes(pair.memory(dtype, next(iter(pair.drafts), None))) for dtype in ("fp32", "bf16")),
            "yes" if any(m.gated for m in models) else "no",
            "cannot run" if pair.name in faulty else _state(models),
        )
    return table


def _count(parameters: int) -> str:
    return f"{parameters / 1e9:.1f}B" if parameters >= 1e9 else f"{parameters / 1e6:.0f}M"


def _state(models) -> str:
    from engine.errors import EngineError
    from engine.weights.store import locate

    try:
        return "to fetch" if any(locate(model) is None for model in models) else "ready"
    except EngineError:
        return "damaged, fetch again"

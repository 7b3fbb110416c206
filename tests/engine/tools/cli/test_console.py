"""What a terminal is shown: marks and colours by status, and text of a model that attacks."""

import re
from dataclasses import replace
from io import BytesIO, StringIO, TextIOWrapper

from fake_worker import play
from rich.console import Console

from engine.config import RunConfig
from engine.tools.cli import console
from engine.trace.events import STATUSES, Round, Timings, Token
from engine.trace.metrics import compute_metrics
from engine.trace.noise import Speedup
from engine.trace.trace import fold

HOSTILE = "\x1b[31m\x1b]0;owned\x07 [bold red]x[/] \x9b2J \u202egnp \r\ud800"


def shown(draw, **options) -> str:
    out = Console(file=StringIO(), width=200, markup=False, highlight=False, emoji=False, **options)
    draw(out)
    return out.file.getvalue()


def every_status(text="tok") -> Round:
    drafts = [Token(1, text, s, 0, i + 1, p=0.5, q=0.5) for i, s in enumerate(("accepted", "rejected", "discarded"))]
    return Round(0, 3, (*drafts, Token(2, text, "resampled", 1, 2)), (0, 1, 2), 0, 5, Timings(0, 0.1, 0, 0), 0, 0.1)


def test_marks_tell_statuses_without_colour():
    text = shown(lambda out: console.RoundPrinter(out).show(every_status()), color_system=None)
    assert text.splitlines()[1].split() == ["0", "γ=3", "✓tok", "✗tok", "┊tok", "↻tok"]
    assert set(console.STATUS_STYLES) == set(STATUSES)


def test_model_text_cannot_drive_the_terminal_or_the_markup():
    trace = fold(play(RunConfig("hi", method="none", gamma=0, max_new_tokens=2), text="one two"))
    token = replace(trace.rounds[0].tokens[0], text=HOSTILE)
    trace = replace(trace, rounds=(replace(trace.rounds[0], tokens=(token,)),), finished=None)
    trace = replace(trace, started=replace(trace.started, pair=HOSTILE))

    def draw(out):
        ribbon = console.RoundPrinter(out)
        ribbon.show(trace.rounds[0])
        ribbon.show(every_status(HOSTILE))
        console.print_result(out, trace)

    text = shown(draw, color_system=None)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]", text)
    assert "[bold red]x[/]" in text and "␛[31m" in text
    assert console.visible("👩‍👩‍👧 नमस्ते ❤️") == "👩‍👩‍👧 नमस्ते ❤️"


def test_notes_of_a_run_go_to_stderr_and_close_the_line(capsys):
    trace = fold(play(RunConfig("hi", method="none", gamma=0, max_new_tokens=2), text="one two"))
    started, end = replace(trace.started, notes=("No\x1b draft.",)), replace(trace.finished, notes=("It broke.",))

    def draw(out):
        printer = console.RoundPrinter(out)
        for event in (started, *trace.rounds, end):
            printer.show(event)

    assert shown(draw, color_system=None).endswith("\n")
    assert capsys.readouterr().err.splitlines() == ["No␛ draft.", "It broke."]


def test_a_terminal_without_unicode_gets_other_marks():
    raw = BytesIO()
    stream = TextIOWrapper(raw, encoding="ascii", errors="replace")
    console.RoundPrinter(Console(file=stream, width=200, color_system=None)).show(every_status())
    stream.flush()
    assert raw.getvalue().decode().splitlines()[1].split() == ["0", "g=3", "+tok", "xtok", "-tok", "~tok"]


def test_a_prediction_from_costs_of_a_shorter_text_is_doubted():
    trace = fold(play(RunConfig("hi", gamma=4, max_new_tokens=30)))
    numbers = compute_metrics(trace)
    longest = max(each.context for each in trace.rounds)
    for context, is_doubted in ((longest, False), (longest // 3, True)):
        rows = dict(console._time_rows(trace, replace(numbers, costs=replace(numbers.costs, context=context))))
        assert ("trust the clock" in rows["predicted speedup"]) == is_doubted


def test_a_slowdown_is_said_with_its_largest_cost():
    ours, plain = (compute_metrics(fold(play(RunConfig("hi", gamma=g, max_new_tokens=30)))) for g in (4, 0))
    slow = replace(ours, time=ours.time | {"draft": 9.0})
    text = console.verdict(Speedup(0.6), slow, plain)
    assert text.startswith("Slower here: 0.60×") and "largest extra cost was drafting: 300.0 ms" in text
    for speedup, words in (
        (Speedup(1.4), "Faster here: 1.40×"), (Speedup(1.02), "About as fast"),
        (Speedup(1.3, 0.8, 2.1), "No certain difference: 1.30×"),
        (Speedup(2.2, ceiling=1.6), "Noise: this is faster than"),
        (None, "Too few tokens"),
    ):  # fmt: skip
        assert console.verdict(speedup, ours, plain).startswith(words)

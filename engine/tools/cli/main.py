"""Runs the commands of `python -m engine`. Only the files of this folder print.

Heavy imports happen inside the commands, so that --help is quick and `replay` needs no torch. An EngineError prints
its sentence on stderr and exits with 2 for a wrong option or file, else with 1; Ctrl-C exits with 130.
"""

import io
import os
import platform
import signal
import sys
from contextlib import closing
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer

from engine import __version__
from engine.config import AUTO, DEFAULT_PAIR, is_text
from engine.settings import make_config
from engine.tools.cli import answer, bench, constraint, corpus, exercise, lab, options, prove, server, training
from engine.tools.cli.console import costs_line, pairs_table, say, screen
from engine.tools.cli.progress import progress

app = options.Commands(
    "engine", "Exact speculative decoding: runs a model and records the verdict on every drafted token."
)
app.add_typer(lab.app, name="lab")
app.add_typer(training.app, name="training")
app.add_typer(server.app, name="server")
app.add_typer(exercise.app, name="exercise")
app.command("answer")(answer.answer)
app.command("prove")(prove.prove)
app.command("bench")(bench.compare)
app.command("corpus")(corpus.corpus)
REPORTED = ("torch", "onnxruntime", "transformers", "gradio")  # packages that --version names


def _print_versions(is_wanted: bool):
    """Prints the versions of the project and of the packages that a report of a fault needs; loads none of them."""
    if is_wanted:
        typer.echo(f"SpecLens {__version__}, Python {platform.python_version()}")
        for package in REPORTED:
            typer.echo(f"{package} {_installed_version(package)}")
        raise typer.Exit


def _installed_version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "is not installed"


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_versions, is_eager=True, help="Print the versions and exit.")
    ] = False,
):
    """Options before any command."""


def _follow(job, printer=None):
    """Reads a job to its end or to Ctrl-C; returns the Trace so far. Raises KeyboardInterrupt if it has no round."""
    from engine.trace.trace import TraceBuilder

    builder, start, latest, is_done = TraceBuilder(), 0, None, False
    with options.ctrl_c() as interrupted, progress() as show:
        while not is_done and not (job.is_cancelled and not start):
            entries, latest, is_done = job.read(start, latest, 0.1)
            if entries and not start:
                show(1.0, "")
            if latest is not None:
                show(latest.fraction, latest.message)
            start += len(entries)
            events = [event for _, event in entries]
            builder.add(events)
            for event in events:
                if printer is not None:
                    printer.show(event)
            if interrupted.is_set():
                job.cancel()
    if printer is not None:
        printer.end()
    job.raise_error()
    if not builder.rounds:
        raise KeyboardInterrupt
    return builder.trace


@app.command()
@options.with_settings
def run(
    prompt: Annotated[str, typer.Argument(help="The question or text for the model.")],
    pair: options.Pair = DEFAULT_PAIR,
    gamma: options.Gamma = AUTO,
    max_new_tokens: options.NewTokens = 128,
    stop: Annotated[list[str] | None, typer.Option(help="End at this text; may be given several times.")] = None,
    system: Annotated[str | None, typer.Option(help="A system prompt of your own.")] = None,
    thinking: Annotated[
        bool | None, typer.Option("--thinking/--no-thinking", help="For chat templates with a thinking switch.")
    ] = None,
    device: options.Device = AUTO,
    precision: options.Precision = AUTO,
    json_schema: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The answer must be JSON that matches this schema.")
    ] = None,
    compact_json: Annotated[
        bool, typer.Option("--compact-json", help="No white space. It drafts better, but may empty a list.")
    ] = False,
    regex: Annotated[str | None, typer.Option(help="The whole answer must match this regular expression.")] = None,
    choice: Annotated[
        list[str] | None, typer.Option(help="The answer must be one of these texts; give it several times.")
    ] = None,
    grammar: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The answer must match this Lark grammar, rule `start`.")
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Continue the text; no chat template.")] = False,
    compare: Annotated[bool, typer.Option("--compare", help="Also measure the same run without drafts.")] = False,
    trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Save the trace for `replay`; with --compare also the baseline's."),
    ] = None,
    **settings: Any,
):
    """Answer a prompt and show every drafted token with its verdict."""
    config = make_config(
        settings,
        prompt=prompt,
        pair=pair,
        gamma=options.parse_gamma(gamma),
        max_new_tokens=max_new_tokens,
        stop=tuple(stop or ()),
        chat=not raw,
        system=system,
        thinking=thinking,
        constraint=constraint.parse(json_schema, regex, choice or (), grammar, compact_json),
    )
    options.check_writable(trace)
    options.check_method(pair, config.method)

    from engine.runtime.worker import Worker
    from engine.tools.cli import console
    from engine.trace.trace import save

    out = screen()
    compare = compare and not config.is_plain
    with closing(Worker(device, precision)) as worker:  # at any end, because its thread would outlive the program
        if compare:  # else the run would pay for what the baseline finds warm
            for each in (config.baseline(), config):
                _follow(worker.submit([("warm-up", replace(each, max_new_tokens=min(16, max_new_tokens)))]))
        result = _follow(worker.submit([("run", config)]), console.RoundPrinter(out))
        console.print_result(out, result)
        if trace is not None:
            save(result, trace)
            say(f"The trace is in {trace}.")
        if result.finished.reason == "cancelled":
            raise KeyboardInterrupt
        if compare:
            baseline = _follow(worker.submit([("baseline", config.baseline())]))
            if baseline.finished.reason == "cancelled":
                raise KeyboardInterrupt
            console.comparison(out, result, baseline)
            if trace is not None:
                beside = _baseline_of(trace)
                save(baseline, beside)
                say(f"Its baseline's trace is in {beside}.")


def _baseline_of(trace: Path) -> Path:
    """Names the file that `run --compare` saves beside a trace."""
    return trace.with_stem(f"{trace.stem}-baseline")


@app.command()
def replay(file: Annotated[Path, typer.Argument(help="A trace file that `run --trace` saved.")]):
    """Show a recorded run again; no model is loaded."""
    from engine.tools.cli import console
    from engine.trace.trace import load

    result, out = load(file), screen()
    for each in filter(None, (result, result.branch)):
        printer = console.RoundPrinter(out)
        for event in filter(None, (each.started, *each.rounds, each.finished)):
            printer.show(event)
        printer.end()
        console.print_result(out, each)
    beside = _baseline_of(file)
    if beside.exists():
        console.comparison(out, result, load(beside))


@app.command()
def branch(
    file: Annotated[Path, typer.Argument(help="A trace file that `run --trace` saved.")],
    force: Annotated[str, typer.Option(metavar="PLACE:ID", help="A place in the output, from 0, and a token's id.")],
    device: options.Device = AUTO,
    trace: Annotated[Path | None, typer.Option(metavar="FILE", help="Save the run and its branch.")] = None,
):
    """Go on from a recorded run with another token at one place, with the same draws."""
    from engine.runtime.worker import Worker
    from engine.tools.cli import console
    from engine.trace.branch import branch_config, check_models
    from engine.trace.trace import load, save, with_branch

    result, out = load(file), screen()
    config = branch_config(result, *options.parse_force(force))
    options.check_writable(trace)
    options.check_method(config.pair, config.method)
    with closing(Worker(device)) as worker:
        new = _follow(worker.submit([("branch", config)]), console.RoundPrinter(out))
    check_models(result.started, new.started)
    console.print_result(out, new)
    if trace is not None:
        save(with_branch(result, new), trace)
        say(f"The trace is in {trace}.")


@app.command()
def pairs(names: Annotated[list[str] | None, typer.Argument(help="All, or these; also of folders.")] = None):
    """List every pair: models, licence, size, memory, and whether its weights are here. Those named are tried."""
    from engine.files import cache_root
    from engine.weights.catalogue import get_pair, load_catalogue
    from engine.weights.preflight import notes

    cache_root()  # before the table, in which a refusal would look like damaged weights
    specs, out, reasons = [get_pair(name) for name in names or load_catalogue()], screen(), {}
    if names:
        from engine.tools.own_models.trial import faults

        reasons = {spec.name: list(faults(spec).values()) for spec in specs}
    out.print(pairs_table(specs, {name for name, why in reasons.items() if why}))
    for spec in specs:
        for note in dict.fromkeys((*reasons.get(spec.name, ()), *notes(spec))):
            out.print(f"{spec.name}: {note}", soft_wrap=True)


@app.command()
def check(
    name: Annotated[str, typer.Argument(help="OWNER/NAME of the hub, the address of its page, or a folder.")],
    device: options.Device = AUTO,
):
    """Say whether a model of your own runs here: family, memory, tokenizer, drafts, time a token."""
    from engine.tools.cli.own_model import look_up_and_describe

    look_up_and_describe(name, device)


@app.command()
def fetch(pair: Annotated[str, typer.Argument(help="A pair of `pairs`.")]):
    """Download a pair's weights."""
    from engine.weights.catalogue import get_pair
    from engine.weights.checkpoint_dir import weights_hash
    from engine.weights.store import fetch_pair

    spec = get_pair(pair)
    with progress() as show:
        for folder in dict.fromkeys(fetch_pair(spec, show).values()):
            weights_hash(folder)  # raises where a bit is not as it was written
    say(f"{spec.name} is ready.")


@app.command()
def calibrate(
    pair: options.Pair = DEFAULT_PAIR,
    device: options.Device = AUTO,
    precision: options.Precision = AUTO,
    again: Annotated[bool, typer.Option("--again", help="Measure again even if costs are cached.")] = False,
):
    """Measure what a draft step and scoring several tokens at once cost on this device."""
    engine, out = options.load(pair, device, precision), screen()
    with progress() as show:
        engine.on_progress(show)
        measured = {method: engine.costs(method, again) for method in engine.drafts.usable()}
    options.say_unusable(engine)
    for method, costs in measured.items():
        out.print(f"{method}: {costs_line(costs)}", soft_wrap=True)
    engine.close()


def main() -> None:
    _repair_surroundings()
    if sys.argv[1:2] == ["replay"] and hasattr(signal, "SIGPIPE"):  # not where sockets are written to
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `replay FILE | head` ends as any other program does
    app()


def _repair_surroundings() -> None:
    """Makes do with closed streams, a terminal without Unicode and a locale that misreads the arguments. Exits where
    the current folder has been deleted, which libraries answer with a crash."""
    if sys.stdout is None or sys.stderr is None:
        nowhere = io.TextIOWrapper(io.FileIO(os.devnull, "w"))
        sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Unicode shows ? instead of failing
    sys.argv = [argument if is_text(argument) else _decode(argument) for argument in sys.argv]
    try:
        os.getcwd()
    except FileNotFoundError:
        sys.exit("The current folder has been deleted; change to another one.")


def _decode(argument: str) -> str:
    """Reads as UTF-8 what Python, in the locale C, could not read; unchanged where it is not that either."""
    try:
        return os.fsencode(argument).decode("utf-8")
    except UnicodeDecodeError:
        return argument

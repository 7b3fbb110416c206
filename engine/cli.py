"""The command line. With `console` the only file of the engine that prints.

Heavy imports happen inside the commands, so that --help is quick and `replay` needs no torch. Every EngineError ends
in its sentence on stderr and exit code 1; Ctrl-C in 130.
"""

import functools
import signal
import sys
import threading
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from engine.config import AUTO, RunConfig, SamplingParams
from engine.console import costs_line, pairs_table, progress, say, screen
from engine.errors import BadInput, EngineError

INTERRUPTED = 130
app = typer.Typer(
    name="engine", help="Speculative decoding with every decision on record.", add_completion=False,
    no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip

Pair = Annotated[str, typer.Option(help="A pair of `pairs`, or your own folders: TARGET_DIR or TARGET_DIR+DRAFT_DIR.")]
Gamma = Annotated[str, typer.Option(metavar="N|auto", help="Tokens drafted a round, 0 to 32, or auto.")]
NewTokens = Annotated[int, typer.Option(help="Stop after this many tokens.")]
Temperature = Annotated[float, typer.Option(help="0 is greedy.")]
Seed = Annotated[int, typer.Option(help="Fixes every random draw.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps.")]
Precision = Annotated[str, typer.Option(help="auto, fp32, bf16, fp16.")]


def friendly(command):
    """EngineError → its sentence on stderr and exit code 1; never a traceback for what a user can put right."""

    @functools.wraps(command)
    def run_it(*args, **kwargs):
        try:
            return command(*args, **kwargs)
        except EngineError as error:
            say(str(error))
            raise typer.Exit(1) from error
        except KeyboardInterrupt as error:
            say("Cancelled.")
            raise typer.Exit(INTERRUPTED) from error

    return run_it


def parse_gamma(text: str) -> int | str:
    try:
        return AUTO if text == AUTO else int(text)
    except ValueError:
        raise BadInput(f"gamma is {text[:40]!r}, but must be a whole number from 0 to 32, or auto.") from None


def _check_method(pair: str, method: str) -> None:
    """Said before a model is loaded for it."""
    from engine.catalogue import get_pair, methods

    if method not in (offered := (*methods(get_pair(pair)), AUTO)):
        raise BadInput(f"{pair} has no method {method[:40]!r}; choose from {', '.join(offered)}.")


def _writable(path: Path | None) -> None:
    """Said before the work and not after it."""
    if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
        raise BadInput(f"{path} cannot be written; name a file in a folder that exists.")


@contextmanager
def _ctrl_c():
    """An event that the first Ctrl-C sets, so that nothing is lost between queue and screen; the second insists."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def note(number, frame):
        signal.signal(signal.SIGINT, before)
        asked.set()

    before = signal.signal(signal.SIGINT, note)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)


def _follow(job, ribbon=None):
    """Read a job to its end; the Trace of what there was. KeyboardInterrupt where that is not one token."""
    from engine.trace import fold
    from engine.worker import Progress

    events = []
    with _ctrl_c() as asked, progress() as show:
        while not job.done and not (job.cancelled and not events):
            for event in job.poll(0.1):
                if isinstance(event, Progress):
                    show(event.fraction, event.message)
                    continue
                if not events:
                    show(1.0, "")
                events.append(event)
                if ribbon is not None and hasattr(event, "tokens"):
                    ribbon.show(event)
            if asked.is_set() and not job.cancelled:
                job.cancel()
    if ribbon is not None:
        ribbon.end()
    if not any(hasattr(event, "tokens") for event in events):
        raise KeyboardInterrupt
    return fold(events)


@app.command()
@friendly
def run(
    prompt: Annotated[str, typer.Argument(help="What the model is asked.")],
    pair: Pair = "smollm2-135m",
    method: Annotated[str, typer.Option(help="As `pairs` lists them; auto is the fastest on this device.")] = AUTO,
    gamma: Gamma = AUTO,
    temperature: Temperature = 0.0,
    top_k: Annotated[int, typer.Option(help="0 is off.")] = 0,
    top_p: Annotated[float, typer.Option(help="1 is off.")] = 1.0,
    min_p: Annotated[float, typer.Option(help="0 is off.")] = 0.0,
    repetition_penalty: Annotated[float, typer.Option(help="1 is off.")] = 1.0,
    max_new_tokens: NewTokens = 128,
    seed: Seed = 0,
    stop: Annotated[list[str] | None, typer.Option(help="End at this text; may be given several times.")] = None,
    system: Annotated[str | None, typer.Option(help="A system prompt of your own.")] = None,
    thinking: Annotated[bool | None, typer.Option("--thinking/--no-thinking", help="Where a template has it.")] = None,
    device: Device = AUTO,
    precision: Precision = AUTO,
    raw: Annotated[bool, typer.Option("--raw", help="Continue the text; no chat template.")] = False,
    compare: Annotated[bool, typer.Option("--compare", help="Measure the same run without drafting, too.")] = False,
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep the trace; `replay` shows it. With --compare two files.")
    ] = None,
):
    """Answer a prompt and show every drafted token with its verdict."""
    config = RunConfig(
        prompt, pair, method, parse_gamma(gamma),
        SamplingParams(temperature, top_k, top_p, min_p, repetition_penalty),
        max_new_tokens, seed, tuple(stop or ()), not raw, system, thinking,
    )  # fmt: skip
    _writable(trace)
    _check_method(pair, method)

    from engine import console
    from engine.trace import save
    from engine.worker import Worker

    out, worker = screen(), Worker(device, precision)
    compare = compare and method != "none" and config.gamma != 0
    plain = replace(config, method="none", gamma=0)
    if compare:  # else the run would pay for what the baseline finds warm
        for each in (plain, config):
            _follow(worker.submit(replace(each, max_new_tokens=min(16, max_new_tokens))))
    result = _follow(worker.submit(config), console.Ribbon(out))
    console.answer(out, result)
    console.summary(out, result)
    if trace is not None:
        save(result, trace)
        say(f"The trace is in {trace}.")
    if result.finished.reason == "cancelled":
        raise KeyboardInterrupt
    if compare:
        baseline = _follow(worker.submit(plain))
        if baseline.finished.reason == "cancelled":
            raise KeyboardInterrupt
        console.comparison(out, result, baseline)
        if trace is not None:
            save(baseline, trace.with_stem(f"{trace.stem}-baseline"))
    worker.close()


@app.command()
@friendly
def replay(file: Annotated[Path, typer.Argument(help="A trace that `run --trace` kept.")]):
    """Show a recorded run again; no model is loaded."""
    from engine import console
    from engine.trace import load

    result, out = load(file), screen()
    ribbon = console.Ribbon(out)
    for round_ in result.rounds:
        ribbon.show(round_)
    ribbon.end()
    console.answer(out, result)
    console.summary(out, result)


@app.command()
@friendly
def pairs():
    """List every pair: models, licence, size, memory, and whether its weights are here."""
    from engine.catalogue import load_catalogue

    screen().print(pairs_table(load_catalogue().values()))


@app.command()
@friendly
def fetch(pair: Annotated[str, typer.Argument(help="A pair of `pairs`.")]):
    """Bring a pair's weights here."""
    from engine.catalogue import get_pair
    from engine.fetch import fetch_pair

    spec = get_pair(pair)
    with progress() as show:
        fetch_pair(spec, show)
    say(f"{spec.name} is ready.")


def load(pair: str, device: str, precision: str):
    """An Engine on this thread, its weights fetched first where they are missing."""
    from engine.catalogue import get_pair
    from engine.fetch import fetch_pair, locate
    from engine.loading import load_engine

    spec = get_pair(pair)
    with progress() as show:
        if any(locate(model) is None for model in (spec.target, *spec.drafts.values())):
            fetch_pair(spec, show)
        return load_engine(pair, device, precision, show)


@app.command()
@friendly
def calibrate(
    pair: Pair = "smollm2-135m",
    device: Device = AUTO,
    precision: Precision = AUTO,
    again: Annotated[bool, typer.Option("--again", help="Measure anew, whatever was measured before.")] = False,
):
    """Measure what a draft step and scoring several tokens at once cost on this device."""
    from engine.catalogue import methods

    engine, out = load(pair, device, precision), screen()
    with progress() as show:
        engine.on_progress(show)
        found = {m: engine.costs(m, again) for m in methods(engine.pair) if m != "none"}
    for method, costs in found.items():
        out.print(f"{method}: {costs_line(costs)}", soft_wrap=True)
    engine.close()


@app.command()
@friendly
def bench(
    prompts: Annotated[Path, typer.Option(metavar="FILE.jsonl", help="Rows with `prompt` or `turns`, and `category`.")],
    pair: Pair = "smollm2-135m",
    methods: Annotated[
        str, typer.Option(help="Commas between: any method, METHOD-untraced, hf, hf-lookup, hf-assisted.")
    ] = "none,ngram,hf,hf-lookup",
    limit: Annotated[int | None, typer.Option(min=1, help="So many prompts, evenly from the categories.")] = None,
    max_new_tokens: NewTokens = 128,
    temperature: Temperature = 0.0,
    repeats: Annotated[int, typer.Option(min=1, max=100, help="The fastest repeat of each prompt counts.")] = 1,
    gamma: Gamma = AUTO,
    seed: Seed = 0,
    device: Device = AUTO,
    precision: Precision = AUTO,
    no_trace: Annotated[bool, typer.Option("--no-trace", help="Every method of ours also with tracing off.")] = False,
    out: Annotated[Path | None, typer.Option(metavar="FILE.json", help="Where the numbers go.")] = None,
):
    """Race methods against plain decoding and transformers, interleaved in one process."""
    _writable(out)
    SamplingParams(temperature), RunConfig("-", gamma=parse_gamma(gamma), max_new_tokens=max_new_tokens, seed=seed)

    from engine.bench import Race, Settings, read_prompts, write
    from engine.scores import markdown

    chosen = read_prompts(prompts, limit)
    names = tuple(name.strip() for name in methods.split(",") if name.strip())
    settings = Settings(names, max_new_tokens, temperature, repeats, parse_gamma(gamma), seed, no_trace)
    engine = load(pair, device, precision)
    with progress() as show:
        engine.on_progress(show)
        race = Race(engine, settings, chosen, show)
        race.run(lambda count, note: show(count / len(chosen), f"{count}/{len(chosen)} {note}"))
    report = race.report(prompts)
    if out is not None:
        write(report, out)
        say(f"The numbers are in {out}.")
    print(markdown(report["rows"]))
    if race.interrupted:
        say(f"Stopped early: the numbers are of {report['environment']['prompts']['run']} of {len(chosen)} prompts.")
        raise typer.Exit(INTERRUPTED)


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without Unicode shows ? instead of failing
    app()

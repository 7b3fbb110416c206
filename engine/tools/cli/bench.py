"""Runs `python -m engine bench`."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from engine.config import AUTO, DEFAULT_PAIR, RunConfig, SamplingParams
from engine.errors import BadInput, quantity
from engine.tools.cli import options
from engine.tools.cli.console import say
from engine.tools.cli.progress import progress
from engine.trace.noise import about_machine, largest_busy_share


def compare(
    prompts: options.Prompts,
    pair: options.Pair = DEFAULT_PAIR,
    methods: Annotated[
        str,
        typer.Option(
            help=f"Commas between: {options.METHOD_LIST}, auto, METHOD:PRECISION (as in none:int4), METHOD-untraced, "
            "METHOD-block (by block verification), METHOD-typical (lossy), hf, hf-lookup, hf-assisted, llama-cpp."
        ),
    ] = "none,ngram,hf,hf-lookup",
    limit: options.Limit = None,
    max_new_tokens: options.NewTokens = 128,
    temperature: options.Temperature = 0.0,
    repeats: Annotated[int, typer.Option(min=1, max=100, help="The fastest repeat of each prompt counts.")] = 1,
    gamma: options.Gamma = AUTO,
    seed: options.Seed = 0,
    device: options.Device = AUTO,
    precision: options.Precision = AUTO,
    users: Annotated[
        str, typer.Option(help="Users at once, commas between, as in 1,2,4,8,16: total tokens/s instead of speedups.")
    ] = "",
    passes: Annotated[
        bool, typer.Option("--passes", help="Times single passes in each precision, and llama.cpp's, instead of runs.")
    ] = False,
    no_trace: Annotated[bool, typer.Option("--no-trace", help="Every method of ours also with tracing off.")] = False,
    free: Annotated[
        bool, typer.Option("--free", help="Every prompt with a JSON schema also without it, right after it.")
    ] = False,
    out: Annotated[Path | None, typer.Option(metavar="FILE.json", help="Where the numbers go.")] = None,
):
    """Compare methods with plain decoding and transformers, interleaved in one process."""
    options.check_writable(out)
    length, sampling = options.parse_gamma(gamma), SamplingParams(temperature)
    RunConfig("-", gamma=length, sampling=sampling, max_new_tokens=max_new_tokens, seed=seed)

    from engine.tools.bench.comparison import Comparison, Settings
    from engine.tools.bench.metrics import markdown
    from engine.tools.bench.prompts import MEASUREMENT, read_prompts, with_free
    from engine.tools.bench.users import UsersSettings
    from engine.tools.bench.validity import markdown as validity_table

    if passes:
        _passes(pair, out)
        return
    at_once = options.parse_list(users, int, "users")
    chosen = read_prompts(prompts, limit, MEASUREMENT)
    chosen = with_free(chosen) if free else chosen
    names = options.parse_list(methods, str)
    settings = Settings(names, max_new_tokens, temperature, repeats, length, seed, no_trace)
    engine = options.load(pair, device, precision)
    options.say_raw(engine)
    if at_once:
        many = UsersSettings(at_once, names, max_new_tokens, temperature, repeats, length, seed)
        _many_users(engine, many, chosen, prompts, out)
        return
    with progress() as show:
        engine.on_progress(show)
        comparison = Comparison(engine, settings, chosen, show)
        comparison.run()
    options.say_unusable(engine)
    report = comparison.report(prompts)
    print(markdown(report["rows"]))
    if "validity" in report:
        print(f"\n{validity_table(report['validity'])}")
    _write(report, out)  # after the table, which is then seen even where the file cannot be written
    _say_busy(largest_busy_share(report["samples"]))
    if comparison.interrupted:
        done = report["environment"]["prompts"]["run"]
        say(f"Stopped early: the numbers are of {done} of {quantity(len(chosen), 'prompt')}.")
        raise typer.Exit(options.INTERRUPTED)


def _many_users(engine, settings, chosen: list, prompts: Path, out: Path | None) -> None:
    from engine.tools.bench.comparison import environment
    from engine.tools.bench.users import ManyUsers
    from engine.tools.bench.users_results import markdown

    with progress() as show:
        engine.on_progress(show)
        many = ManyUsers(engine, settings, chosen)
        many.run(show)
    options.say_unusable(engine)
    rows = many.rows()
    saved = [*map(asdict, rows)]
    print(markdown(rows, many.settings.users[0]))
    _write({"environment": environment(engine, many.settings, prompts), "rows": saved}, out)
    _say_busy(largest_busy_share(saved))


def _say_busy(share: float | None) -> None:
    """Says that other programs took part of the processor, where they did."""
    if machine := about_machine(share):
        say(machine)


def _passes(pair: str, out: Path | None) -> None:
    from engine.tools.bench.passes import markdown, measure

    with progress() as show:
        seconds = measure(pair, show)
    print(markdown(seconds))
    _write({"seconds": seconds}, out)


def _write(report: dict, out: Path | None) -> None:
    from engine.files import write_atomically

    if out is None:
        return
    try:
        write_atomically(out, json.dumps(report, indent=1, allow_nan=False) + "\n")
    except OSError as error:
        raise BadInput(f"The numbers could not be written to {out}: {error.strerror}.") from error
    say(f"The numbers are in {out}.")

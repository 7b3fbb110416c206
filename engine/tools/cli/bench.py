"""Runs `python -m engine bench` and `python -m engine random-models`."""

import json
from dataclasses import asdict
from importlib.util import find_spec
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
    from engine.tools.bench.prompts import read_prompts, with_free
    from engine.tools.bench.users import UsersSettings
    from engine.tools.bench.validity import markdown as validity_table

    if passes:
        _passes(pair, out)
        return
    chosen = read_prompts(prompts, limit)
    chosen = with_free(chosen) if free else chosen
    names = options.parse_list(methods, str)
    settings = Settings(names, max_new_tokens, temperature, repeats, length, seed, no_trace)
    at_once = options.parse_list(users, int, "users")
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
        seconds = measure(pair, find_spec("llama_cpp") is not None, show)
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


def random_models(
    out: Annotated[Path, typer.Option(metavar="FILE.jsonl", help="Kept part by part; a table goes beside it.")],
    names: Annotated[str, typer.Option("--shapes", help="Commas between; none is empty.")] = "135M,1.5B,8B,32B",
    contexts: Annotated[str, typer.Option(help="Tokens before the first timed one; commas between.")] = "256,4096",
    pair: Annotated[str, typer.Option(help="A real pair to measure as well; none is empty.")] = DEFAULT_PAIR,
    prompts: Annotated[Path, typer.Option(metavar="FILE.jsonl")] = Path("assets/data/prompts.jsonl"),
    limit: Annotated[int, typer.Option(min=1, help="Prompts for the real pair.")] = 12,
    tokens: Annotated[int, typer.Option(min=8, max=4_096)] = 128,
    repeats: Annotated[int, typer.Option(min=1, max=20)] = 3,
    baseline: Annotated[bool, typer.Option("--transformers/--no-transformers", help="Time transformers, too.")] = True,
    device: options.Device = AUTO, precision: options.Precision = AUTO,
):  # fmt: skip
    """Measure passes at the sizes that people serve, and what drafting would save at an α set by hand."""
    from engine.files import write_file
    from engine.runtime.engine import DTYPES, choose_device, choose_precision, memory_errors
    from engine.tools.bench import random_models as bench
    from engine.tools.bench.result_file import ResultFile

    device = choose_device(device)
    precision = choose_precision(precision, device)
    shapes, lengths = options.parse_list(names, str), options.parse_list(contexts, int, "contexts")
    if not lengths or min(lengths) < 16:
        raise BadInput(f"contexts is {contexts[:40]!r}, but must be numbers from 16 up, with commas between.")
    if unknown := [name for name in shapes if name not in bench.SHAPES]:
        raise BadInput(f"{unknown[0][:40]!r} is no shape; choose from {', '.join(bench.SHAPES)}.")
    file = ResultFile(out, bench.environment(device, precision))

    def keep(key: tuple, measure, *arguments) -> None:
        if key not in file.results:
            file.add(key, measure(*arguments))
            write_file(out.with_suffix(".md"), bench.markdown(file.header, file.results))

    kinds = {"ours": bench.measure} | ({"transformers": bench.measure_transformers} if baseline else {})
    for name, context in ((name, context) for name in shapes for context in lengths):

        def show(fraction: float, message: str, label: str = f"{name} at {context}") -> None:
            say(f"{label}: {message}")

        request = bench.SHAPES[name], context, DTYPES[precision], device, show, tokens, repeats
        for kind, measure in kinds.items():  # each alone, because neither needs the other's memory
            with memory_errors(f"{name} at {context} does not fit into the memory of {device}"):
                keep((name, context, kind), measure, *request)
    if pair:
        keep(("pair", pair), _real_pair, pair, prompts, limit, tokens, device, precision)
    print(bench.markdown(file.header, file.results))


def _real_pair(pair: str, prompts: Path, limit: int, tokens: int, device: str, precision: str) -> dict:
    """The shipped drafts on real prompts, beside transformers, with tracing on and off."""
    from engine.tools.bench.comparison import Comparison, Settings
    from engine.tools.bench.metrics import markdown
    from engine.tools.bench.prompts import read_prompts

    engine = options.load(pair, device, precision)
    try:
        assisted = ("hf-assisted",) if "lm" in engine.pair.drafts else ()
        settings = Settings(("none", *engine.drafts.usable(), "hf", *assisted), tokens, untraced=True)
        options.say_unusable(engine)
        comparison = Comparison(
            engine, settings, read_prompts(prompts, limit), lambda fraction, message: say(f"{pair}: {message}")
        )
        comparison.run()
        if comparison.interrupted:
            raise KeyboardInterrupt
        report = comparison.report(prompts)
        return {"table": markdown(report["rows"]), "report": report}
    finally:
        engine.close()

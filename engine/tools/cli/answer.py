"""Runs `python -m engine answer`: whether drafting pays on the prompts of a file, at each load."""

import json
import math
import textwrap
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from engine.config import AUTO, DEFAULT_PAIR, MAX_SHARERS, METHODS, RunConfig, SamplingParams
from engine.errors import BadInput, and_list, quantity
from engine.tools.cli import options
from engine.tools.cli.console import say
from engine.tools.cli.progress import progress

NOT_PAYING = 3  # exit code: at some load asked for, drafting does not certainly pay
TOO_BUSY = 4  # exit code: other programs took so much of the processor that nothing is certain


def answer(
    file: Annotated[Path, typer.Argument(metavar="FILE.jsonl", help=options.PROMPT_ROWS)],
    users: Annotated[str, typer.Option(help="How many users ask at once, as in 1,4,16.")] = "1",
    methods: Annotated[str, typer.Option(help="As in ngram,eagle; by default those that most engines have.")] = "",
    max_new_tokens: options.NewTokens = 48,
    temperature: options.Temperature = 0.0,
    repeats: Annotated[int, typer.Option(min=1, max=100, help="Turns of each prompt; more narrow the intervals.")] = 3,
    limit: options.Limit = None,
    minutes: Annotated[float | None, typer.Option(min=0.1, max=1440, help="Stop then, with what there is.")] = None,
    elsewhere: Annotated[
        bool, typer.Option("--elsewhere", help="Count only tokens per pass, for a machine that is not this one.")
    ] = False,
    rule: Annotated[Path | None, typer.Option(metavar="FILE.json", help="Also write a rule for a router.")] = None,
    curve: Annotated[
        str, typer.Option(metavar="FILE|NUMBERS", help="What passes cost on another machine, to predict its speedups.")
    ] = "",
    server: Annotated[
        str, typer.Option(metavar="ON_URL", help="Ask your own server, which drafts; needs --off and --model.")
    ] = "",
    off: Annotated[str, typer.Option(metavar="OFF_URL", help="A server of the same model without drafts.")] = "",
    model: Annotated[str, typer.Option(help="The model's name, as the servers list it.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep results here and resume from them (default: the cache).")
    ] = None,
    pair: options.Pair = DEFAULT_PAIR, device: options.Device = AUTO, precision: options.Precision = AUTO,
):  # fmt: skip
    """Say which method and draft length to use for these prompts at each load, with intervals.

    Exits with 0 if drafting certainly pays at every load asked for, and with 3 if not; with 2 for a wrong option or
    file, with 4 if other programs took 15 % of the processor or more, because then speeds cannot decide, and with 130
    after Ctrl-C, which prints what there is.
    """
    from engine.tools.bench.prompts import MEASUREMENT, read_prompts

    passes = options.parse_curve(curve) if curve else None
    if server or off or model:
        ours = {
            "curve": curve, "methods": methods, "temperature": temperature, "elsewhere": elsewhere, "json": as_json,
            "out": out, "pair": pair != DEFAULT_PAIR, "device": device != AUTO, "precision": precision != AUTO,
        }  # fmt: skip
        if other := next((name for name, value in ours.items() if value), ""):
            raise BadInput(f"--{other} is for the engine here, and servers are asked; leave it out.")
        return _ask_servers((server, off, model), file, limit, users, repeats, max_new_tokens, minutes, rule)
    loads, names = options.parse_users(users, MAX_SHARERS), options.parse_list(methods, str)
    request = RunConfig("-", sampling=SamplingParams(temperature), max_new_tokens=max_new_tokens)
    options.check_models(pair, device, precision)
    for name in names:
        options.check_method(pair, name, is_measured=True)
    options.check_folder(out)
    options.check_writable(rule)
    if rule and elsewhere:
        raise BadInput("A rule needs speedups, and --elsewhere measures none; leave one of them out.")
    chosen = read_prompts(file, limit, MEASUREMENT)

    from engine.files import cache_root
    from engine.tools.bench.answer import ELSEWHERE, HERE, AnswerPlan, usual
    from engine.tools.bench.answer_points import AnswerPoints
    from engine.tools.bench.answer_recipes import configuration
    from engine.weights.model_names import model_names

    engine = options.load(pair, device, precision)
    names = names or usual(engine.drafts.usable())
    plan = AnswerPlan(
        tuple(chosen), names, loads, max_new_tokens, request.sampling.temperature,
        repeats, ELSEWHERE if elsewhere else HERE,
    )  # fmt: skip
    points = AnswerPoints(engine, plan, out or cache_root() / "answer")
    interrupted, result = _measure(points, minutes), replace(points.result(), curve=passes)
    if not result:
        raise KeyboardInterrupt if interrupted else BadInput("Nothing fits into that time; give more --minutes.")
    _print(result, as_json, configuration(result, partial(model_names, pair)))
    if rule:
        about = {name: result.about.get(name) for name in ("device", "precision", "measured", "speclens")}
        _write_rule(rule, result.rule, about | {"pair": result.pair})
    raise typer.Exit(_exit_code(result, loads, interrupted))


def _measure(points, minutes: float | None) -> bool:
    """Measures all that is missing, or as much as fits into the time, and says how long that takes. Returns whether
    Ctrl-C ended it."""
    from engine.tools.bench.answer_words import duration, is_news

    plan, begin, newest = points.plan, 0.0, None

    def say_estimate(least: float, most: float) -> None:
        nonlocal begin, newest
        begin = begin or time.monotonic()
        spent = time.monotonic() - begin
        total = spent + least, spent + most
        if newest is None:
            loads = f", then {and_list([*map(str, plan.loads)])} users at once" if plan.loads else ""
            words = f"at most {minutes:g} minute{'s' * (minutes != 1)}" if minutes else duration(*total)
            say(f"{quantity(len(plan.texts), 'prompt')}, {quantity(plan.runs, 'run')}{loads}: {words}.")
        elif minutes or not is_news(newest, *total):
            return
        else:
            say(f"By what was measured so far it takes {duration(*total)} in all.")
        newest = total

    with progress() as show:
        points.engine.on_progress(show)
        try:
            points.forget_noise()
            points.run(show, 60 * minutes if minutes else math.inf, say_estimate)
        except KeyboardInterrupt:
            return True
    return False


def _ask_servers(
    names: tuple[str, str, str], file: Path, limit, users: str, repeats, max_new_tokens, minutes, rule: Path | None
) -> None:
    """Asks the question of a server with drafts and one without, as `server compare` does, with this command's exit
    codes."""
    from engine.tools.cli.server import compare
    from engine.tools.servers.comparison import rule_of

    options.check_writable(rule)
    if not all(names):
        raise BadInput("--server, --off and --model belong together: two servers, and the name of their model.")
    on, off, model = names
    loads = compare(on, off, model, file, limit, users, repeats, max_new_tokens, minutes=minutes)
    if rule:
        _write_rule(rule, rule_of(loads), {"model": model})
    if not all((speedup := load.speedup()) and speedup.tone == "faster" for load in loads):
        raise typer.Exit(NOT_PAYING)


def _write_rule(file: Path, rule, about: dict) -> None:
    from engine.files import write_file
    from engine.tools.bench.answer_rule import to_json

    write_file(file, to_json(rule, about))
    say(f"The rule is in {file}.")


def _exit_code(result, loads: tuple[int, ...], interrupted: bool) -> int:
    """Returns the command's exit code, and says on stderr why the answer is not certain."""
    if interrupted:
        say("Stopped early: this is what there is. The same command goes on from here.")
        return options.INTERRUPTED
    if result.is_disturbed(loads):
        say("The machine was too busy to judge: run this again while other programs rest, with a new --out.")
        return TOO_BUSY
    return 0 if result.is_elsewhere or all(map(result.pays, {*loads})) else NOT_PAYING


def _print(result, as_json: bool, chosen: tuple) -> None:
    """Prints the answer. ``chosen``: what to configure elsewhere, or None, and where that is from."""
    from engine.tools.bench.answer import NONE, schedule
    from engine.tools.bench.answer_words import sentences, to_dict
    from engine.tools.bench.metrics import table, times
    from engine.trace.engine_recipes import answers, lead

    choice, origin = chosen
    if as_json:
        known = {"lead": lead(choice, origin), "engines": answers(choice)} if choice else {"lead": origin}
        print(json.dumps(to_dict(result) | {"configuration": known}, ensure_ascii=False, indent=1, allow_nan=False))
        return
    words, parts = sentences(result), ("alone", "answer", "kinds", "curve", "change", "sure")
    print("\n".join(words[part] for part in parts if words[part]))
    if result.is_elsewhere:
        _print_recipes(choice, origin)
        return
    lines = []
    for users in result.measured_loads:
        for setting, speedup in result.speedups_at(users).items():
            if setting != NONE and setting in result.alone:
                is_known, request = setting[0] in result.costs, result.request(setting) if users == 1 else None
                predicted = times(result.predict(setting, users).value) if is_known else "–"
                end_to_end = request.measured.words if request else "–"
                lines.append([str(users), *map(str, setting), speedup.words, predicted, end_to_end])
    print(f"\n{table(['users', 'method', 'γ', 'speedup (95 %)', 'predicted', 'whole request'], lines)}")
    if costs := next(iter(result.costs.values()), None):
        print(f"\nPredicted from costs at {costs.context:,} tokens: a plain step takes {1000 * costs.step:.1f} ms.")
    for method in dict.fromkeys(method for method, _ in result.settings):
        print(f"\n{METHODS[method].title}: {schedule(result, method).words}")
    _print_recipes(choice, origin)


def _print_recipes(choice, origin: str) -> None:
    """Prints what to start in each engine, or why nothing is to be started."""
    from engine.trace.engine_recipes import answers, lead

    print(f"\nSwitch it on. {lead(choice, origin) if choice else origin}")
    engines = answers(choice) if choice else []
    for engine in (each for each in engines if "code" in each):
        print(f"\n{engine['name']} {engine['version']}\n{textwrap.indent(engine['code'].strip(), '    ')}")
        if engine["note"]:
            print(textwrap.fill(engine["note"], 100))
    if without := [each["name"] for each in engines if "code" not in each]:
        print(f"\nNot supported by {and_list(without)}; the page says why.")

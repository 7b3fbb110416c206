"""Runs the commands of `python -m engine server`: another engine's server as the subject."""

import math
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, cast

import typer

from engine.errors import BadInput, Unavailable, percent, quantity
from engine.files import decode_text
from engine.tools.cli import options
from engine.tools.cli.console import say, screen, visible
from engine.tools.cli.progress import progress

KEY = "SPECLENS_SERVER_KEY"
MOST_USERS = 64
app = options.Commands("server", "Record and check the server that you run: vLLM, llama-server, LM Studio or another.")
Address = Annotated[str, typer.Argument(metavar="URL", help="http://HOST:PORT of an OpenAI-compatible server.")]
Model = Annotated[str, typer.Option(help="The model's name, as the server lists it.")]
OffModel = Annotated[str, typer.Option(metavar="NAME", help="Its name at OFF_URL, where that is another one.")]
Minutes = Annotated[
    float | None, typer.Option(min=0.1, max=1440, help="Start no further turn of the prompts after this time.")
]
Seconds = Annotated[float, typer.Option("--time-limit", metavar="SECONDS", help="The most that one answer may take.")]


def _client(address: str, seconds: float):
    from engine.tools.servers.client import Client

    return Client(address, os.environ.get(KEY, ""), seconds)


@app.command()
def record(
    address: Address,
    model: Model,
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="The trace; several prompts become FILE-1, FILE-2 and so on.")
    ],
    prompt: Annotated[str, typer.Option(help="One prompt.")] = "",
    prompts: Annotated[Path | None, typer.Option(metavar="FILE.jsonl", help=options.PROMPT_ROWS)] = None,
    limit: options.Limit = None,
    max_new_tokens: options.NewTokens = 128,
    temperature: options.Temperature = 0.0,
    seed: options.Seed = 0,
    raw: Annotated[bool, typer.Option("--raw", help="Continue the text; no chat template.")] = False,
    logprobs: Annotated[bool, typer.Option("--logprobs", help="Ask for p; this may slow the server down.")] = False,
    seconds: Seconds = 600.0,
):
    """Turn answers of a server into traces that `replay` and the page open."""
    from engine.tools.bench.prompts import SERVER, Prompt, read_prompts
    from engine.tools.cli import console
    from engine.tools.servers.recording import Recorder
    from engine.tools.servers.server_request import ServerRequest
    from engine.trace.trace import save

    if bool(prompt.strip()) == bool(prompts):
        raise BadInput("Give either --prompt or --prompts FILE.")
    options.check_writable(out)
    texts = [Prompt(prompt)] if prompts is None else read_prompts(prompts, limit, SERVER)
    recorder, screen_ = Recorder(_client(address, seconds)), screen()
    say(f"Recording {recorder.adapter.name} {recorder.settings.get('version', '')} at {address}.")
    traces, printer = [], console.RoundPrinter(screen_)
    usual = ServerRequest(model, "", max_new_tokens, temperature, seed, not raw, logprobs)
    for number, text in enumerate(texts, 1):
        request = usual.of_row(text)
        try:
            trace, fault = recorder.record(request)
        except Unavailable as error:
            if not traces:
                raise
            raise Unavailable(f"{error} Recorded so far: {len(traces)} of {quantity(len(texts), 'answer')}.") from error
        path = _path_of(out, number, len(texts))
        save(trace, path)
        traces.append(trace)
        for round_ in trace.rounds if len(texts) == 1 else ():
            printer.show(round_)
        printer.end()
        if fault:
            say(f"{fault} What came before is in {path}.")
            raise typer.Exit(1)
    if len(texts) == 1:
        console.print_result(screen_, traces[0])
    else:
        console.server_totals(screen_, traces)
    where = f"The trace is in {path}" if len(texts) == 1 else f"{len(texts)} traces end with {path}"
    say(f"{where}; open it on the page, or `replay` it.")


SIGNS = {"right": "✓", "wrong": "✗", "unknown": "?"}


@app.command()
def check(
    address: Address,
    plain: Annotated[str, typer.Argument(metavar="[OFF_URL]", help="The same model without drafts.")] = "",
    model: Annotated[str, typer.Option(help="The model's name, as the servers list it.")] = cast(str, ...),
    max_new_tokens: options.NewTokens = 48,
    draws: Annotated[int, typer.Option(min=10, help="Sampled requests to each server, with OFF_URL.")] = 200,
    off_model: OffModel = "",
    seconds: Seconds = 600.0,
):
    """Say whether a server that drafts still writes what its model says. Exits with 1 for a fault."""
    from engine.tools.servers.findings import Subject
    from engine.tools.servers.findings import check as findings

    sides = [(address, model), *([(plain, off_model or model)] if plain else [])]
    subjects = [Subject(_client(each, seconds), name, max_new_tokens, draws) for each, name in sides]
    for subject in subjects:
        _ = subject.recorder  # raises for an address where nothing answers, before the first check
    out, faults = screen(), 0
    with progress() as show:
        for finding in findings(subjects[0], subjects[1] if plain else None, show):
            out.print(f"{SIGNS[finding.state]} {finding.name}: {visible(finding.sentence)}", soft_wrap=True)
            for word, text in (("looks like", finding.resembles), ("try", finding.remedy)):
                if text:
                    out.print(f"    {word} {text}", soft_wrap=True)
            faults += finding.state == "wrong"
    say("Something is wrong." if faults else "No fault found. A smaller one than this can show may remain.")
    if faults:
        raise typer.Exit(1)


def _point(text: str):
    from engine.tools.servers.costs import ServerPoint

    form = "GAMMA:TOKENS_PER_SECOND:LENGTH, as in 7:12.2:3.1, or 0:26.5 without drafts"
    numbers = options.parse_list(text.replace(":", ","), float, "A point", form)
    try:
        return ServerPoint.from_numbers(numbers)
    except BadInput as error:
        raise BadInput(f"{text[:40]!r} is not {form}. {error}") from error


@app.command()
def explain(
    points: Annotated[
        list[str], typer.Argument(metavar="POINT...", help="GAMMA:TOKENS_PER_SECOND:LENGTH; 0:26.5 without drafts.")
    ],
    lookup: Annotated[
        list[str] | None, typer.Option(metavar="POINT", help="A point measured with an n-gram drafter.")
    ] = None,
    users: Annotated[str, typer.Option(help="Name the best γ for these loads, too, as in 4,16; needs --lookup.")] = "",
):
    """Split a server's step into parts and name the best γ, from tokens/s and acceptance length at some γ.

    Measure each point with one user and the same prompts. If points are given several times, there are intervals.
    """
    from engine.tools.servers import costs as server_costs

    loads = options.parse_users(users, MOST_USERS) if users else ()
    if loads and not lookup:
        raise BadInput("--users needs points of a lookup; give them with --lookup.")
    parts, out = server_costs.split([*map(_point, points)], [*map(_point, lookup or [])]), screen()
    for line in parts.lines:
        out.print(line)
    out.print(f"acceptance: {parts.first:.2f} for the first draft, {parts.later:.2f} for each later one")
    if parts.fixed is not None:
        for gamma in range(9):
            out.print(f"γ = {gamma}: {parts.length(gamma):.2f} tokens a round, {parts.speed(gamma):.1f} tokens/s")
    for sentence in server_costs.verdict(parts, loads):
        out.print(sentence, soft_wrap=True)
    out.print(server_costs.source(parts), soft_wrap=True)


@app.command("read")
def read_log(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A log, /metrics or answers; - for standard input.")],
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="OUT", help="Write a trace of each answer, from llama-server's log at -lv 5 or saved answers."
        ),
    ] = None,
):
    """Say what an engine's log, /metrics or saved answers tell about acceptance, or make traces of them."""
    from engine.tools.servers.log_reader import report

    data = _data_of(file)
    if trace:
        return _write_traces(data, file, trace)
    text, out = decode_text(data, "replace"), screen()
    figures = report(text)
    for reading in figures.readings:
        length = f"γ = {reading.gamma}" if reading.gamma else "γ is not told"
        out.print(f"{reading.engine}, {visible(reading.form)}: {length}, {reading.rows} read", soft_wrap=True)
        tau = "not told, without the rounds" if reading.tau is None else f"{reading.tau:.2f}"
        share = "" if reading.per_drafted is None else f", {percent(reading.per_drafted)} of all drafts accepted"
        places = ", ".join("–" if alpha is None else f"{alpha:.2f}" for alpha in reading.alphas)
        out.print(f"    τ {tau}{share} (from the server’s numbers)", soft_wrap=True)
        least = "; at least, because some drafts were shorter" if reading.has_short_drafts else ""
        out.print(f"    α by place: {f'{places} (derived{least})' if places else 'not told'}", soft_wrap=True)
    if not figures.readings:
        why = next((why.format(file) for pattern, why in NO_FIGURES.items() if re.search(pattern, text)), "")
        say(why or " ".join(figures.unused) or f"No acceptance figures of a known engine in {file}.")
        raise typer.Exit(1)
    for sentence in figures.unused:
        out.print(f"Not used: {sentence}", soft_wrap=True)


NO_FIGURES = {  # what a text without figures may be
    r"\A\s*\Z": "{} is empty.",
    "\0": "{} is not a text; give a log, what /metrics serves, or an answer as JSON.",
}


def _data_of(file: Path) -> bytes:
    """Returns what the file holds. Raises BadInput."""
    try:
        return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise BadInput(f"{file} cannot be read: {error.strerror or error}.") from error


def _write_traces(data: bytes, file: Path, out: Path) -> None:
    """Writes a trace for each answer and prints the last one's rounds. Raises BadInput."""
    from engine.tools.cli import console
    from engine.tools.servers.log_trace import read_traces
    from engine.trace.trace import save

    options.check_writable(out)
    traces, screen_ = read_traces(data, str(file)), screen()
    for number, each in enumerate(traces, 1):
        path = _path_of(out, number, len(traces))
        save(each, path)
    printer = console.RoundPrinter(screen_)
    for round_ in traces[-1].rounds:
        printer.show(round_)
    printer.end()
    console.print_result(screen_, traces[-1])
    say(f"{quantity(len(traces), 'trace')}, the last in {path}; open it on the page, or `replay` it.")


def _path_of(out: Path, number: int, count: int) -> Path:
    return out if count == 1 else out.with_stem(f"{out.stem}-{number}")


@app.command()
def compare(
    address: Address,
    plain: Annotated[str, typer.Argument(metavar="OFF_URL", help="The same model without drafts.")],
    model: Model,
    prompts: options.Prompts,
    limit: options.Limit = 12,
    users: Annotated[str, typer.Option(help="Users at once, commas between, as in 1,4,16.")] = "1",
    repeats: Annotated[int, typer.Option(min=1, max=20)] = 2,
    max_new_tokens: options.NewTokens = 128,
    system: Annotated[Path | None, typer.Option(metavar="FILE", help="A system prompt for rows without one.")] = None,
    off_model: OffModel = "",
    seconds: Seconds = 600.0,
    minutes: Minutes = None,
):
    """Measure a server with drafts beside one without, and say whether drafting pays for whole requests."""
    from engine.files import read_text
    from engine.tools.bench.prompts import SERVER, read_prompts
    from engine.tools.servers.comparison import SIDES, Arm, compare_reading, verdict
    from engine.tools.servers.comparison import compare as loads_of
    from engine.tools.servers.server_request import ServerRequest

    numbers, rows = options.parse_users(users, MOST_USERS), read_prompts(prompts, limit, SERVER)
    request = ServerRequest(model, "", max_new_tokens, system=read_text(system, "system prompt") if system else "")
    sides = zip(SIDES, (address, plain), (model, off_model or model), strict=True)
    arms = {side: Arm(_client(each, seconds), replace(request, model=name)) for side, each, name in sides}
    out, loads, readings, fault = screen(), [], None, ""
    try:
        with progress() as show:
            for load in loads_of(arms, rows, numbers, repeats, show, 60 * minutes if minutes else math.inf):
                loads.append(load)
            longest = max(
                (request.system, *(text for row in rows for text in (row.own.get("system", ""), row.text))), key=len
            )
            readings = compare_reading(arms, longest, repeats)
    except Unavailable as error:
        if not loads:
            raise
        fault = f"{error} What was measured before is above."
    for load in loads:
        speedup = load.speedup()
        words = speedup.words if speedup else "–"
        out.print(
            f"{load.users} at once: {words}, {load.speed('on'):.1f} against {load.speed('off'):.1f} tokens/s (measured)"
        )
    _print_kinds(out, loads[0])
    for side, visits in (readings or {}).items():
        out.print(f"first token {'with' if side == 'on' else 'without'} drafts, {_visit_words(visits)}", soft_wrap=True)
    out.print(verdict(loads), soft_wrap=True)
    if fault:
        say(fault)
        raise typer.Exit(1)
    return loads


def _print_kinds(out, load) -> None:
    """Prints the first load by kind of text, the acceptance by place, and the texts that differ."""
    from engine.trace.speedup_words import number

    for category in dict.fromkeys(prompt.category for prompt in load.prompts):
        alpha = load.acceptance(category)
        share = "unknown" if alpha is None else f"{alpha:.2f}"
        words = f". {load.request_of(category).sentence}" if load.users == 1 else ""
        out.print(f"{visible(category)}: τ {number(load.tau(category), 2)}, α {share}{words}", soft_wrap=True)
    places = ", ".join(f"{place}: {a}/{n}" for place, (a, n) in load.by_place().items())
    out.print(f"accepted by place: {places or 'unknown'}", soft_wrap=True)
    differing = load.differing()
    where = "; ".join(f"{visible(category)} at token {place + 1}" for category, place in differing[:5])
    out.print(
        f"texts that differ: {len(differing)} of {len(load.prompts)}{f' ({where})' if where else ''}", soft_wrap=True
    )
    gammas = [r.gamma or 0 for trace in load.traces["on"][0] for r in trace.rounds]
    if load.users == 1 and max(gammas, default=0) and (tau := load.tau()):
        points = f"0:{load.speed('off'):.1f} {max(gammas)}:{load.speed('on'):.1f}:{tau:.3f}"
        out.print(f"for `server explain`, with another γ measured: {points}", soft_wrap=True)


def _visit_words(visits: dict) -> str:
    """Words how long one side takes to read a long prompt, for the first time and later."""
    from engine.tools.servers.prompt_cache import VISITS

    new = visits["new"]
    size = f"a prompt of {new.size:,} tokens" if new.size else "a long prompt"
    caches = {name: "" if each.cached is None else f" ({each.cached:,} tokens cached)" for name, each in visits.items()}
    times = ", ".join(f"{VISITS[name]} {each.first:.2f} s{caches[name]}" for name, each in visits.items())
    rate = f"; {(new.size - (new.cached or 0)) / new.first:,.0f} new tokens/s" if new.size else ""
    return f"{size}: {times}{rate}"

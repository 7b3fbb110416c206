"""Runs `python -m engine lab`: a sweep, the distribution test, speedups for a set α, early exits, precisions."""

import json
from pathlib import Path
from typing import Annotated, cast

import typer

from engine.config import AUTO, DEFAULT_PAIR, RunConfig, SamplingParams
from engine.errors import BadInput, quantity
from engine.tools.cli import options
from engine.tools.cli.console import say
from engine.tools.cli.progress import progress
from engine.tools.exactness.results import JSON_TOY, MISTAKES, RIGHT, TOY, TOY_METHODS, TOYS, as_it_should_be
from engine.trace.noise import about_machine, largest_share

NOT_LOSSLESS = 3  # exit code of the distribution test

app = options.Commands("lab", "Measure what pays here, test that it is exact, try another α.")


@app.command()
def sweep(
    prompts: options.Prompts,
    methods: Annotated[str, typer.Option(help=f"{options.METHOD_LIST}; commas between.")] = "ngram",
    gammas: Annotated[str, typer.Option(help="Draft lengths, or auto; commas between.")] = "1,2,4,auto",
    temperatures: Annotated[str, typer.Option(help="Commas between.")] = "0",
    limit: options.Limit = None,
    repeats: Annotated[int, typer.Option(min=1, max=100)] = 1,
    max_new_tokens: options.NewTokens = 96,
    out: options.Resumed = None,
    table: Annotated[Path | None, typer.Option("--csv", metavar="FILE.csv", help="The table.")] = None,
    pair: options.Pair = DEFAULT_PAIR, seed: options.Seed = 0,
    device: options.Device = AUTO, precision: options.Precision = AUTO,
):  # fmt: skip
    """Every method at every draft length and temperature on every kind of text, each compared with plain decoding."""
    from engine.files import write_file
    from engine.tools.bench.benchmark import describe
    from engine.tools.bench.prompts import SWEEP, read_prompts
    from engine.tools.bench.sweep import Grid, Sweep
    from engine.tools.bench.sweep_results import leaders, markdown, to_csv

    names, lengths = options.parse_list(methods, str), options.parse_list(gammas, options.parse_gamma)
    grid = Grid(names, lengths, options.parse_list(temperatures, float, "temperatures"), max_new_tokens, repeats, seed)
    chosen = read_prompts(prompts, limit, SWEEP)
    options.check_writable(table, None if out and out.exists() else out)
    engine = options.load(pair, device, precision)
    options.say_raw(engine)
    measured, finished = Sweep(engine, grid, chosen, out), False
    try:
        with progress() as show:
            finished = measured.run(show)
    except KeyboardInterrupt:
        if not measured.benchmark.samples:
            raise
    cells = measured.cells()
    if table is not None:
        where = {name: str(value) for name, value in describe(engine, ()).items() if name != "weights"}
        write_file(table, to_csv(cells, where))
    print(markdown(cells))
    for (temperature, category), first in leaders(cells).items():
        names = [f"{cell.method}, γ = {cell.gamma}, {cell.measured.words}" for cell in first]
        lead = "Best" if len(first) == 1 else "No clear best"
        say(f"{lead} at temperature {temperature:g} on {category}: {'; '.join(names) or 'noise, measure again'}.")
    if machine := about_machine(largest_share(cell.busy for cell in cells)):
        say(machine)
    if not finished:
        say("Stopped early." + (f" The same command goes on from {out}." if out else ""))
        raise typer.Exit(options.INTERRUPTED)


@app.command()
def distribution(
    pair: options.Pair = TOY,
    wrong: Annotated[str | None, typer.Option(help=f"A mistake on purpose: {', '.join(MISTAKES)}.")] = None,
    method: Annotated[
        str | None,
        typer.Option(help=f"By default lm, or the mistake's. On the toy {', '.join(TOY_METHODS)}; a pair has its own."),
    ] = None,
    gamma: Annotated[int, typer.Option(min=1, max=16)] = 3,
    temperature: Annotated[float, typer.Option(min=0.05, max=5.0)] = 1.0,
    top_k: Annotated[int, typer.Option(min=0, help="Few outcomes can be counted; 0 is all.")] = 3,
    runs: Annotated[int, typer.Option(min=20)] = 2000,
    length: Annotated[int, typer.Option(min=2, max=6, help="Tokens of each run that are tested.")] = 2,
    prompt: str = "Tell me about dogs.",
    acceptance: options.Acceptance = "token",
    as_json: Annotated[bool, typer.Option("--json", help="The numbers, as JSON on stdout.")] = False,
    device: options.Device = AUTO, precision: options.Precision = AUTO,
):  # fmt: skip
    """Seeded runs against the target's own distribution, which is known exactly. The pair json-toy is held to JSON by a
    grammar, and its whole answers count.

    Exits with 3 if the output is not the target's distribution, as it is not with a mistake on purpose; after Ctrl-C
    with 130, and the runs so far count.
    """
    from engine.tools.exactness import distribution_test as lab
    from engine.tools.exactness.proof import check_toy_method

    sampling = SamplingParams(temperature, top_k=top_k)
    RunConfig("-", acceptance=acceptance)
    if wrong is not None:
        pair = _toy_of(wrong, pair, method)
    method = method or (MISTAKES[wrong].method if wrong else "lm")
    if pair in TOYS:
        check_toy_method(method)
    else:
        options.check_method(pair, method)
    with progress() as show, options.ctrl_c() as interrupted:
        if pair in TOYS:
            law, rounds, length, _ = lab.toy_test(pair, length, sampling, gamma, method, wrong or RIGHT, acceptance)
        else:
            config = RunConfig(prompt, pair, method, gamma, sampling, length + 1, acceptance=acceptance)
            engine = options.load(pair, device, precision)
            law, rounds = lab.exact_law(engine, config, length), lab.engine_runs(engine, config, length)
        where = "sampling the toy" if pair in TOYS else "sampling"
        draws = lab.count_outcomes(
            rounds, range(runs), length, lambda share: show(share, where), cancelled=interrupted.is_set
        )
    if not draws.runs:
        raise KeyboardInterrupt
    test = lab.judge(law, draws)
    if as_json:
        print(json.dumps(_numbers(test, method, pair, wrong), indent=1, allow_nan=False))
    else:
        _say(test, MISTAKES[wrong].words if wrong else "")
        if pair == JSON_TOY:
            _say_broken(test)
    if interrupted.is_set():
        say(f"Stopped early: these are the first {test.runs:,} of {quantity(runs, 'run')}.")
        raise typer.Exit(options.INTERRUPTED)
    if not test.lossless:
        raise typer.Exit(NOT_LOSSLESS)


def _toy_of(wrong: str, pair: str, method: str | None) -> str:
    """Returns the toy that shows a mistake. Raises BadInput for an unknown mistake, and for another pair or method."""
    if wrong not in MISTAKES:
        raise BadInput(f"{wrong[:40]!r} cannot be shown here; choose from {', '.join(MISTAKES)}.")
    toy = MISTAKES[wrong].toy
    if pair not in (TOY, toy):
        raise BadInput(f"{wrong[:40]!r} cannot be shown here; leave --pair out: a toy shows it.")
    if method not in (None, MISTAKES[wrong].method):
        raise BadInput(f"{wrong!r} is a mistake of the method {MISTAKES[wrong].method}; leave --method out.")
    return toy


def _say_broken(test) -> None:
    """Names the answers of the JSON toy that no grammar allows, the most frequent one beside what it should be."""
    from engine.tools.exactness.toy_json import json_text

    counts = {answer: count for answer, count in test.draws.counts.items() if answer not in test.law}
    if counts:
        text = json_text(max(counts, key=lambda answer: counts[answer]))
        right = as_it_should_be(text, {json_text(answer): mass for answer, mass in test.law.items()})
        print(f"Broken JSON: {quantity(sum(counts.values()), 'answer')}, such as {text!r} instead of {right!r}.")


def _numbers(test, method: str, pair: str, wrong: str | None) -> dict:
    return {
        "speclens": "distribution", "method": method, "pair": pair, "mistake": wrong, "lossless": test.lossless,
        "runs": test.runs, "outcomes": len(test.law), "chi_squared": test.statistic if test.p_value else None,
        "freedom": test.freedom, "p_value": test.p_value, "false_alarm": test.false_alarm, "distance": test.distance,
        "band": list(test.band), "alpha": test.draws.alpha, "tested": test.draws.tested,
    }  # fmt: skip


def _say(test, mistake: str) -> None:
    """Words the verdict. ``mistake``: the one that was made on purpose."""
    draws, law = test.draws, test.law
    if mistake:
        say(f"On purpose: {mistake}")
    verdict = "lossless as far as this can tell" if test.lossless else "NOT the target's distribution"
    if test.lossless and test.distance > test.band[1]:
        verdict += ", though one in forty lossless engines comes out as far off; more runs would tell"
    if test.lossless and not draws.tested:
        verdict += ", but nothing was drafted"
    print(
        f"{quantity(test.runs, 'run')}, {quantity(len(law), 'outcome')}: {verdict}.\n"
        f"chi-squared {test.statistic:.1f} with {quantity(test.freedom, 'degree')} of freedom, p = {test.p_value:.3g} "
        f"(called wrong under {test.false_alarm:g})\n"
        f"distance {test.distance:.4f}; a lossless engine shows {test.band[0]:.4f}–{test.band[1]:.4f}\n"
        + (f"α = {draws.alpha:.3f}" if draws.alpha is not None else "nothing was drafted")
    )


@app.command()
def synthetic(
    alphas: Annotated[str, typer.Option(help="Chances that a draft is accepted; commas between.")] = "0.3,0.5,0.7,0.9",
    gammas: Annotated[str, typer.Option(help="Draft lengths; commas between.")] = "1,2,4",
    method: Annotated[str, typer.Option(help="Its costs are used; chance accepts its drafts.")] = "eagle-chain",
    repeats: Annotated[int, typer.Option(min=1, max=100)] = 1,
    max_new_tokens: options.NewTokens = 96,
    prompt: str = "Tell me about dogs.",
    out: options.Resumed = None,
    pair: options.Pair = DEFAULT_PAIR, seed: options.Seed = 0,
    device: options.Device = AUTO, precision: options.Precision = AUTO,
):  # fmt: skip
    """Measured and predicted speedup for an α set by hand. The text is not the model's and is not shown."""
    from engine.tools.bench.fixed_acceptance import measure
    from engine.tools.bench.metrics import show, table, table_row, times
    from engine.trace.noise import monotone_costs
    from engine.trace.speedup_model import expected_tokens, idealised_speedup, predicted_speedup

    config = RunConfig(prompt, pair, method, max_new_tokens=max_new_tokens, seed=seed)
    levels, lengths = options.parse_list(alphas, float, "alphas"), options.parse_list(gammas, int, "gammas")
    engine = options.load(pair, device, precision)
    print(table(["α set", "γ", "α seen", "τ", "expected τ", "speedup", "predicted", "from τ"], []))
    for p in measure(engine, config, levels, lengths, repeats, out):
        costs = monotone_costs(engine.costs(method))
        expected, predicted = expected_tokens(p.alpha, p.gamma), idealised_speedup(p.alpha, p.gamma, costs.c, costs.v)
        from_tau = predicted_speedup([(p.tau, p.gamma * costs.c, p.gamma)], costs.v)
        seen = (show(number, ".2f") for number in (p.seen, p.tau, expected))
        numbers = [*seen, p.measured.words, times(predicted), times(from_tau)]
        print(table_row([f"{p.alpha:g}", str(p.gamma), *numbers]), flush=True)


@app.command()
def exits(
    prompts: options.Prompts,
    limit: options.Limit = 12,
    max_new_tokens: options.NewTokens = 48,
    out: Annotated[Path | None, typer.Option(metavar="FILE.json", help="Where the numbers are stored, too.")] = None,
    pair: options.Pair = DEFAULT_PAIR, device: options.Device = AUTO, precision: options.Precision = AUTO,
):  # fmt: skip
    """How often the target's state after each of its layers already says the next word, and the cost of that depth."""
    from engine.files import write_file
    from engine.tools.bench.exits import markdown, measure, to_json
    from engine.tools.bench.prompts import read_prompts

    options.check_writable(out)
    chosen = read_prompts(prompts, limit)
    engine = options.load(pair, device, precision)
    options.say_raw(engine)
    with progress() as show:
        results = measure(engine, chosen, max_new_tokens, show)
    if out is not None:
        write_file(out, to_json(engine, results))
    print(markdown(results))


@app.command()
def precisions(
    prompts: options.Prompts,
    limit: options.Limit = None,
    max_new_tokens: options.NewTokens = 64,
    out: Annotated[Path | None, typer.Option(metavar="FILE.json", help="Where the numbers are stored, too.")] = None,
    pair: options.Pair = DEFAULT_PAIR,
):  # fmt: skip
    """How far int8 and int4 are from fp32, on the answers that fp32 writes. The page then says so beside each."""
    from engine.tools.bench.precisions import markdown, measure, store_distances
    from engine.tools.bench.prompts import read_prompts
    from engine.weights.catalogue import get_pair
    from engine.weights.checkpoint_dir import weights_hash
    from engine.weights.store import locate

    options.check_writable(out)
    with progress() as show:
        distances = measure(pair, read_prompts(prompts, limit), max_new_tokens, show)
    target = weights_hash(cast(Path, locate(get_pair(pair).target)))  # they were loaded just now
    store_distances(target, distances)
    if out is not None:
        store_distances(target, distances, out)
    print(markdown(distances))

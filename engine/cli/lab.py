"""Runs `python -m engine lab`: a sweep over settings, the distribution test, and speedups for any α set by hand."""

from pathlib import Path
from typing import Annotated

import typer

from engine.cli.console import progress, say
from engine.cli.options import (
    INTERRUPTED,
    METHOD_LIST,
    Device,
    NewTokens,
    Pair,
    Precision,
    Seed,
    friendly,
    load,
    parse_gamma,
    parse_list,
)
from engine.config import RunConfig, SamplingParams
from engine.errors import BadInput

app = typer.Typer(
    name="lab", help="Measure what pays here, test that it is exact, try another α.",
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip
TOY = "toy"


@app.command()
@friendly
def sweep(
    prompts: Annotated[Path, typer.Option(metavar="FILE.jsonl", help="Rows with `prompt` or `turns`, and `category`.")],
    methods: Annotated[str, typer.Option(help=f"{METHOD_LIST}; commas between.")] = "ngram",
    gammas: Annotated[str, typer.Option(help="Draft lengths, or auto; commas between.")] = "1,2,4,auto",
    temperatures: Annotated[str, typer.Option(help="Commas between.")] = "0",
    limit: Annotated[int | None, typer.Option(min=1, help="So many prompts, evenly from the categories.")] = None,
    repeats: Annotated[int, typer.Option(min=1, max=100)] = 1,
    max_new_tokens: NewTokens = 96,
    out: Annotated[Path | None, typer.Option(metavar="FILE.jsonl", help="Kept as it goes, and resumed.")] = None,
    table: Annotated[Path | None, typer.Option("--csv", metavar="FILE.csv", help="The table.")] = None,
    pair: Pair = "smollm2-135m", seed: Seed = 0, device: Device = "auto", precision: Precision = "auto",
):  # fmt: skip
    """Every method at every draft length and temperature on every kind of text, each beside plain decoding."""
    from engine.bench.prompts import read_prompts
    from engine.bench.sweep import Grid, Sweep
    from engine.bench.sweep_results import best, markdown, to_csv
    from engine.files import disk_errors, write_atomically

    names = tuple(name.strip() for name in methods.split(",") if name.strip())
    lengths = tuple(parse_gamma(part.strip()) for part in gammas.split(",") if part.strip())
    grid = Grid(names, lengths, parse_list(temperatures, float, "temperatures"), max_new_tokens, repeats, seed)
    chosen = read_prompts(prompts, limit)
    engine = load(pair, device, precision)
    measured, finished = Sweep(engine, grid, chosen, out), False
    try:
        with progress() as show:
            finished = measured.run(show)
    except KeyboardInterrupt:
        if not measured.benchmark.samples:
            raise
    cells = measured.cells()
    if table is not None:
        with disk_errors(table.parent):
            write_atomically(table, to_csv(cells))
    print(markdown(cells))
    for (temperature, category), cell in best(cells).items():
        say(
            f"Best at temperature {temperature:g} on {category}: {cell.method}, γ = {cell.gamma}, {cell.speedup:.2f} ×."
        )
    if not finished:
        say("Stopped early." + (f" The same command goes on from {out}." if out else ""))
        raise typer.Exit(INTERRUPTED)


@app.command()
@friendly
def distribution(
    pair: Pair = TOY,
    wrong: Annotated[str | None, typer.Option(help="A mistake on purpose, of engine/exactness/mutants.py.")] = None,
    method: Annotated[str, typer.Option()] = "lm",
    gamma: Annotated[int, typer.Option(min=1, max=16)] = 3,
    temperature: Annotated[float, typer.Option(min=0.05, max=5.0)] = 1.0,
    top_k: Annotated[int, typer.Option(min=0, help="Few outcomes can be counted; 0 is all.")] = 3,
    runs: Annotated[int, typer.Option(min=20)] = 2000,
    length: Annotated[int, typer.Option(min=1, max=6, help="Tokens of each run that are looked at.")] = 2,
    prompt: Annotated[str, typer.Option()] = "Tell me about dogs.",
    device: Device = "auto", precision: Precision = "auto",
):  # fmt: skip
    """Seeded runs against the target's own distribution, which is known exactly."""
    from engine.exactness.distribution_test import judge, sample_engine, sample_toy
    from engine.exactness.mutants import MUTANTS
    from engine.exactness.toy_models import weather_pair

    sampling = SamplingParams(temperature, top_k=top_k)
    mutants = {mutant.name: mutant for mutant in MUTANTS}
    if wrong is not None and (wrong not in mutants or pair != TOY):
        known = f"choose from {', '.join(mutants)}" if wrong not in mutants else "leave --pair out: the toy shows them"
        raise BadInput(f"{wrong[:40]!r} cannot be shown here; {known}.")
    with progress() as show:
        if pair == TOY:
            law, draws = sample_toy(
                *weather_pair(), runs, length, sampling, gamma, mutants.get(wrong), method,
                progress=lambda share: show(share, "sampling the toy"),
            )  # fmt: skip
        else:
            config = RunConfig(prompt, pair, method, gamma, sampling, max_new_tokens=length + 1)
            engine = load(pair, device, precision)
            law, draws = sample_engine(engine, config, runs, length, progress=lambda share: show(share, "sampling"))
    test = judge(law, draws)
    if wrong:
        say(f"On purpose: {mutants[wrong].mistake.words}")
    verdict = "lossless as far as this can tell" if test.lossless else "NOT the target's distribution"
    print(
        f"{test.runs} runs, {len(law)} outcomes: {verdict}.\n"
        f"chi-squared {test.statistic:.1f} with {test.freedom} degrees of freedom, p = {test.p_value:.3g} "
        f"(called wrong under {test.false_alarm:g})\n"
        f"distance {test.distance:.4f}; a lossless engine shows {test.band[0]:.4f}–{test.band[1]:.4f}\n"
        + (f"α = {draws.alpha:.3f}" if draws.alpha is not None else "nothing was drafted")
    )


@app.command()
@friendly
def synthetic(
    alphas: Annotated[str, typer.Option(help="Chances that a draft is kept; commas between.")] = "0.3,0.5,0.7,0.9",
    gammas: Annotated[str, typer.Option(help="Draft lengths; commas between.")] = "1,2,4",
    method: Annotated[str, typer.Option(help="Whose costs: its drafts are made, and kept by chance.")] = "eagle",
    repeats: Annotated[int, typer.Option(min=1, max=100)] = 1,
    max_new_tokens: NewTokens = 96,
    prompt: Annotated[str, typer.Option()] = "Tell me about dogs.",
    out: Annotated[Path | None, typer.Option(metavar="FILE.jsonl", help="Kept as it goes, and resumed.")] = None,
    pair: Pair = "smollm2-135m", seed: Seed = 0, device: Device = "auto", precision: Precision = "auto",
):  # fmt: skip
    """Measured beside predicted speedup for an α set by hand. The text is not the model's and is not shown."""
    from engine.bench.fixed_acceptance import measure
    from engine.trace.speedup_model import expected_tokens, idealised_speedup

    config = RunConfig(prompt, pair, method, max_new_tokens=max_new_tokens, seed=seed)
    levels, lengths = parse_list(alphas, float, "alphas"), parse_list(gammas, int, "gammas")
    engine = load(pair, device, precision)
    print("| α set | γ | α seen | τ | expected τ | speedup | predicted |\n| --- | --- | --- | --- | --- | --- | --- |")
    for p in measure(engine, config, levels, lengths, repeats, out):
        costs, seen = engine.costs(method), "–" if p.seen is None else f"{p.seen:.2f}"
        expected, predicted = expected_tokens(p.alpha, p.gamma), idealised_speedup(p.alpha, p.gamma, costs.c, costs.v)
        shown = f"{p.tau:.2f} | {expected:.2f} | {p.speedup:.2f} | {predicted:.2f}"
        print(f"| {p.alpha:g} | {p.gamma} | {seen} | {shown} |", flush=True)

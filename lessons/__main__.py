"""Runs the commands of `python -m lessons`."""

import statistics
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from engine.config import DEFAULT_PAIR
from engine.errors import BadInput, EngineError
from lessons.schema import TRACES

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.callback()
def main() -> None:
    """Records the runs of the lessons, and lists their claims."""


@contextmanager
def _errors():
    """Shows an error of ours as one sentence, and ends the command."""
    try:
        yield
    except EngineError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error


@app.command()
def record(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Entries of recordings.toml.")] = None,
    repeats: Annotated[int, typer.Option(min=1, max=99, help="Pairs with plain decoding; an odd number.")] = 5,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the traces go.")] = TRACES,
    pair: Annotated[str, typer.Option(metavar="TARGET.gguf+DRAFT.gguf", help="Your files of the entry's pair.")] = "",
):
    """Record the runs of the lessons again, on a machine that does nothing else; without a NAME, all of them."""
    from engine.runtime.engine import load_engine
    from engine.tools.bench.recording import read_from_files
    from engine.weights.catalogue import get_pair
    from lessons.examples import RECORDED
    from lessons.loader import recordings

    with _errors():
        if repeats % 2 == 0:
            raise BadInput("--repeats must be odd: the run with the middle time is recorded.")
        known = recordings()
        if unknown := set(names or ()) - known.keys():
            raise BadInput(f"There is no recording {min(unknown)[:40]!r}; choose from {', '.join(known)}.")
        configs = {name: known[name].config(RECORDED) for name in names or known}
        for loaded in dict.fromkeys((config.pair, config.precision) for config in configs.values()):
            listed, precision = loaded
            engine = load_engine(read_from_files(get_pair(listed), pair) if pair else listed, precision=precision)
            own = {name: config for name, config in configs.items() if (config.pair, config.precision) == loaded}
            _record(engine, own, repeats, out)
            engine.close()


def _record(engine, configs, repeats: int, out: Path) -> None:
    """Records the runs of one pair, by the name of their files."""
    from engine.tools.bench.recording import record, record_untimed
    from engine.trace.trace import save
    from lessons.loader import recordings
    from lessons.wrong_copy import wrong_copies

    wrong = {name: config for name, config in configs.items() if recordings()[name].is_wrong}
    configs = {name: config for name, config in configs.items() if name not in wrong}
    with wrong_copies():
        for name, config in wrong.items():
            save(record_untimed(engine, config), out / f"{name}.json")
    for method in dict.fromkeys(config.method for config in configs.values()):
        typer.echo(f"Measuring what {method} costs")
        engine.costs(method, again=True)
    for name, config in configs.items():
        trace = record(engine, config, repeats)
        save(trace, out / f"{name}.json")
        typer.echo(_summary(name, trace))


@app.command("examples")
def measure_examples(
    pair: Annotated[str, typer.Option(help="A pair of the catalogue.")] = DEFAULT_PAIR,
    seeds: Annotated[int, typer.Option(min=1, max=99, help="Runs of each example, beside plain decoding.")] = 11,
):
    """Measure what the examples of the page start with, and end with 1 where drafting does not pay in the median."""
    from engine.runtime.engine import load_engine
    from engine.tools.bench.recording import run_pairs, speedup_of
    from lessons.examples import EXAMPLES

    medians = []
    with _errors():
        engine = load_engine(pair)
        for name, example in EXAMPLES.items():
            configs = [example.config(pair, engine.methods, seed) for seed in range(seeds)]
            ratios = sorted(speedup_of(each) for each in run_pairs(engine, configs))
            medians.append(statistics.median(ratios))
            settings = f"{configs[0].method}, temperature {example.temperature:g}"
            typer.echo(f"{name} ({settings}): {medians[-1]:.2f} × ({ratios[0]:.2f}–{ratios[-1]:.2f})")
    if min(medians) < 1.0:
        raise typer.Exit(1)


@app.command("claims")
def list_claims():
    """List what the lessons say about other engines, oldest first, with what it was seen in."""
    from lessons.loader import claims

    with _errors():
        for name, claim in sorted(claims().items(), key=lambda entry: entry[1].seen):
            typer.echo(f"{claim.seen} {name}: {claim.engine} {claim.version}\n    {claim.says}\n    {claim.source}")


def _summary(name: str, trace) -> str:
    """Writes a line: the run's name, and its measured speedup beside the predicted one."""
    from engine.trace.metrics import compute_metrics

    if not (speedup := trace.finished.extra.get("speedup")):
        return f"{name}: plain decoding"
    span = f"{speedup['lowest']:.2f}–{speedup['highest']:.2f}"
    predicted = compute_metrics(trace).predicted_speedup
    return f"{name}: {speedup['median']:.2f} × measured ({span}), {predicted:.2f} × predicted"


if __name__ == "__main__":
    app(prog_name="python -m lessons")

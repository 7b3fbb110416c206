"""Options and helpers that every command shares: typed options, errors as sentences, loading an engine."""

import functools
from pathlib import Path
from typing import Annotated

import typer

from engine.cli.console import progress, say
from engine.config import AUTO, METHODS
from engine.errors import BadInput, EngineError

INTERRUPTED = 130
METHOD_LIST = ", ".join(METHODS)
Pair = Annotated[str, typer.Option(help="A pair of `pairs`, or your own folders: TARGET_DIR or TARGET_DIR+DRAFT_DIR.")]
Gamma = Annotated[str, typer.Option(metavar="N|auto", help="Tokens drafted a round, 0 to 32, or auto.")]
NewTokens = Annotated[int, typer.Option(help="Stop after this many tokens.")]
Temperature = Annotated[float, typer.Option(help="0 is greedy.")]
Seed = Annotated[int, typer.Option(help="Same seed, same output.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps.")]
Precision = Annotated[str, typer.Option(help="auto, fp32, bf16, fp16.")]


def friendly(command):
    """Turns an EngineError into its sentence on stderr and exit code 1, and Ctrl-C into exit code 130."""

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


def parse_list(text: str, of, name: str) -> tuple:
    """``of`` (int, float) of each part between commas. BadInput for anything else."""
    try:
        return tuple(of(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise BadInput(f"{name} is {text[:40]!r}, but must be numbers with commas between.") from None


def check_writable(path: Path | None) -> None:
    """BadInput before the work and not after it."""
    if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
        raise BadInput(f"{path} cannot be written; name a file in a folder that exists.")


def load(pair: str, device: str, precision: str):
    """Returns an Engine for use on this thread; downloads missing weights first."""
    from engine.runtime.engine import load_engine
    from engine.weights.catalogue import get_pair
    from engine.weights.store import fetch_pair, locate

    spec = get_pair(pair)
    with progress() as show:
        if any(locate(model) is None for model in (spec.target, *spec.drafts.values())):
            fetch_pair(spec, show)
        return load_engine(pair, device, precision, show)

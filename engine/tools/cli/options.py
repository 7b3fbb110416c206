"""Options and helpers that every command shares: typed options, errors as sentences, loading an engine."""

import functools
import os
import re
import signal
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.config import AUTO, MAX_GAMMA, METHODS, RunConfig, Setting, constraint_methods
from engine.errors import BadInput, EngineError
from engine.files import try_writing
from engine.settings import SETTINGS, add_settings, describe
from engine.tools.cli.console import say
from engine.tools.cli.progress import progress

if TYPE_CHECKING:
    from engine.weights.specs import PairSpec


INTERRUPTED, PIPE_CLOSED = 130, 141  # as a shell says it: 128 and the number of the signal
USAGE = 2  # typer's own exit code for options
_OTHER_NAMES = {"tokens": "max_new_tokens", "form": "raw"}  # that settings have on the command line


def option(name: str) -> Any:
    return typer.Option(help=describe(SETTINGS[name]))


METHOD_LIST = ", ".join(METHODS)
Pair = Annotated[str, typer.Option(help="A pair of `pairs`, or your own folders: TARGET_DIR or TARGET_DIR+DRAFT_DIR.")]
PROMPT_ROWS = "Rows with `prompt`, `turns` or `messages`, `kind`, and settings of their own."
Prompts = Annotated[Path, typer.Option(metavar="FILE.jsonl", help=PROMPT_ROWS)]
Limit = Annotated[int | None, typer.Option(min=1, help="How many prompts to take, evenly from all kinds.")]
Resumed = Annotated[Path | None, typer.Option(metavar="FILE.jsonl", help="Keep results here and resume from them.")]
Gamma = Annotated[str, typer.Option(metavar="N|auto", help=f"Tokens drafted a round, 0 to {MAX_GAMMA}, or auto.")]
NewTokens = Annotated[int, option("tokens")]
Temperature = Annotated[float, option("temperature")]
Seed = Annotated[int, option("seed")]
Acceptance = Annotated[str, option("acceptance")]
Precision = Annotated[str, option("precision")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps.")]


def with_settings(command):
    """Gives a command that takes ``**settings`` an option for each setting that it does not name itself."""

    def annotate(setting: Setting) -> Any:
        return Annotated[setting.value_type, option(setting.name)]  # ty: ignore[invalid-type-form] a type of its own

    order = [_OTHER_NAMES.get(name, name) for name in SETTINGS]
    command.__signature__ = add_settings(command, annotate, order, _OTHER_NAMES)
    return command


class Commands(typer.Typer):
    """A group of commands, each of which is `friendly`."""

    def __init__(self, name: str, help: str):
        super().__init__(
            name=name, help=help, add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False,
            rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]},
        )  # fmt: skip

    def command(self, *names):
        register = super().command(*names)
        return lambda function: register(friendly(function))


def friendly(command):
    """Turns an EngineError into its sentence on stderr and an exit code: 2 for a wrong request, as for a wrong option,
    and else 1. Ctrl-C is 130."""

    @functools.wraps(command)
    def run_it(*args, **kwargs):
        try:
            return command(*args, **kwargs)
        except EngineError as error:
            say(str(error))
            raise typer.Exit(USAGE if isinstance(error, BadInput) else 1) from error
        except KeyboardInterrupt as error:
            say("Cancelled.")
            raise typer.Exit(INTERRUPTED) from error
        except BrokenPipeError as error:  # the reader, such as `head`, has enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(PIPE_CLOSED) from error

    return run_it


def check_models(pair: str, device: str, precision: str) -> "PairSpec":
    """Returns the pair's PairSpec. Raises BadInput for names that no machine has; whether this one has them is known
    once torch is imported."""
    from engine.weights.catalogue import get_pair

    spec = get_pair(pair)
    RunConfig("-", precision=precision)
    if device != AUTO and not re.fullmatch(r"(cpu|cuda|mps)(:\d+)?", device):
        raise BadInput(f"There is no device {device[:40]!r}; choose auto, cpu, cuda, cuda:1 or mps.")
    return spec


def say_unusable(engine) -> None:
    """Says which methods were tried and cannot draft here, and why."""
    for method, reason in engine.drafts.unusable.items():
        say(f"{method} is left out: {reason}")


def say_raw(engine) -> None:
    """Says that prompts are continued as raw text, where the model has no chat template."""
    from engine.tools.bench.benchmark import prompt_form

    if prompt_form(engine) == "raw":
        say("This model has no chat template, so it continues the prompts as raw text.")


def parse_force(text: str) -> tuple[int, int]:
    """Reads a place and a token's id, as in 12:345. Raises BadInput."""
    place, _, token = text.partition(":")
    if not (place.isdecimal() and token.isdecimal() and len(text) <= 20):
        raise BadInput(f"--force is {text[:40]!r}, but must be a place and a token's id, as in 12:345.")
    return int(place), int(token)


def parse_gamma(text: str) -> int | str:
    try:
        return AUTO if text == AUTO else int(text)
    except ValueError:
        raise BadInput(f"gamma is {text[:40]!r}, but must be a whole number from 0 to {MAX_GAMMA}, or auto.") from None


def parse_list(text: str, of, name: str = "", form: str = "numbers with commas between") -> tuple:
    """Converts each part between commas by ``of`` (int, float, str). Raises BadInput that says the ``form``."""
    try:
        return tuple(of(part.strip()) for part in text.split(",") if part.strip())
    except ValueError:
        raise BadInput(f"{name} is {text[:40]!r}, but must be {form}.") from None


def parse_users(text: str, limit: int) -> tuple[int, ...]:
    """Reads the loads of --users, at least one. Raises BadInput."""
    form = f"numbers from 1 to {limit}, with commas between"
    loads = parse_list(text, int, "--users", form)
    if not loads or not 1 <= min(loads) <= max(loads) <= limit:
        raise BadInput(f"--users is {text[:40]!r}, but must be {form}.")
    return loads


def parse_curve(text: str):
    """Reads the PassCurve of --curve: numbers, a file, or - for standard input. Raises BadInput."""
    from engine.files import decode_text
    from engine.tools.servers.curve_reader import read_curve

    if text != "-" and not Path(text).exists() and re.fullmatch(r"[\d.,;\s]+", text):
        return read_curve(text)
    try:
        data = sys.stdin.buffer.read() if text == "-" else Path(text).read_bytes()
    except OSError as error:
        raise BadInput(
            f"--curve: {text[:80]} cannot be read ({error.strerror}); name a file, or five numbers."
        ) from None
    try:
        return read_curve(decode_text(data, "replace"))
    except BadInput as error:
        raise BadInput(f"--curve {text[:80]}: {error}") from None


def check_writable(*files: Path | None) -> None:
    """Raises BadInput for files that cannot be written, before the work and not after it."""
    for path in filter(None, files):
        if path.is_dir():
            raise BadInput(f"{path} is a folder; name a file in it.")
        if path.exists() and not path.is_file():
            raise BadInput(f"{path} is no file that can be replaced; name another.")
        if not path.absolute().parent.is_dir():
            raise BadInput(f"{path} cannot be written; name a file in a folder that exists.")
        _try_writing(path.absolute().parent, path)


def check_folder(path: Path | None) -> None:
    """Raises BadInput for a folder that cannot be written to, or made."""
    if path is not None:
        existing = next(each for each in (path.absolute(), *path.absolute().parents) if each.exists())
        if not existing.is_dir():
            raise BadInput(f"{existing} is a file; name a folder.")
        _try_writing(existing, path)


def writable_folder(path: Path | None) -> Path | None:
    """Checks a folder as soon as its option is read."""
    friendly(check_folder)(path)  # because it is called before the command is
    return path


def _try_writing(folder: Path, path: Path) -> None:
    try:
        try_writing(folder)
    except OSError as error:
        raise BadInput(f"{path} cannot be written ({error.strerror}); name another place.") from error


def check_method(pair: str, method: str, is_measured: bool = False) -> None:
    """Raises BadInput before a model is loaded for the method. ``is_measured``: whether it is measured by itself,
    beside plain decoding."""
    from engine.weights.catalogue import get_pair
    from engine.weights.specs import methods

    offered, what = (*methods(get_pair(pair)), AUTO), ""
    if is_measured:
        offered, what = tuple(name for name in offered if name not in ("none", AUTO)), " to measure"
    if method not in offered and (is_measured or method not in constraint_methods()):
        raise BadInput(f"{pair} has no method {method[:40]!r}{what}; choose from {', '.join(offered)}.")


@contextmanager
def ctrl_c():
    """Yields an event that the first Ctrl-C sets, so that what there is can be shown; the second interrupts."""
    interrupted = threading.Event()

    def note(number, frame):
        signal.signal(signal.SIGINT, before)
        interrupted.set()

    before = signal.signal(signal.SIGINT, note)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)


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

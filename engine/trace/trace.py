"""Collects the events of a run into a Trace, and reads and writes it as versioned JSON. Imports no torch.

A trace file is untrusted input: sizes are bounded before parsing, types are checked while parsing, up to the first
error, and ranges and references (a parent, a position) after. Error messages quote nothing of the file.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from engine.config import LOSSY
from engine.errors import BadInput, explain, quantity
from engine.files import decode_text, write_atomically
from engine.trace.events import EMITTED, Event, Reason, Round, RunFinished, RunStarted, Token
from engine.trace.range_checks import (
    LARGEST,
    MAX_TEXT,
    MAX_TOKENS,
    check_costs,
    check_json,
    check_round,
    check_server,
    check_told,
    require,
)

SCHEMA = 1
MAX_BYTES = 64 * 2**20
MAX_VALUES = 4_000_000  # commas; a value takes 20 times the memory of its shortest spelling
MAX_ROUNDS = 20_000


@dataclass(frozen=True, slots=True)
class Trace:
    """``finished`` is None while the run goes on, or if its end was lost. ``branch``: a run that begins with a part of
    this output and another token after it; it has no branch of its own."""

    started: RunStarted
    rounds: tuple[Round, ...] = ()
    finished: RunFinished | None = None
    branch: "Trace | None" = None

    @property
    def others(self) -> int:
        """The most runs that shared a pass with this one, so that its times say nothing about drafting."""
        return max((r.rows for r in self.rounds), default=1) - 1

    @property
    def has_drafts(self) -> bool:
        return any(each.parents for each in self.rounds)

    @property
    def notes(self) -> tuple[str, ...]:
        """The sentences that a reader should see, from the run's start and its end."""
        return self.started.notes + (self.finished.notes if self.finished else ())

    @property
    def prompt_words(self) -> str:
        """The length of its prompt, with what a branch adds, and how much was kept: "2,000 tokens, 1,984 kept"."""
        counts = self.finished.kept_tokens if self.finished else {}
        words = {"target": "kept", "draft": "kept by its draft"}
        parts = [f"{counts[side]:,} {word}" for side, word in words.items() if side in counts]
        return ", ".join([quantity(len(self.started.prompt) + len(self.started.prefix), "token"), *parts])

    @property
    def emitted(self) -> list[Token]:
        """The emitted tokens, without its prefix."""
        return [t for r in self.rounds for t in r.tokens if t.status in EMITTED]

    @property
    def text(self) -> str:
        """The decoded output so far."""
        return "".join(t.text for t in (*self.started.prefix, *self.emitted))

    @property
    def output(self) -> list[int | None]:
        """The ids of the whole output, its prefix included; None where another server did not tell one."""
        return [t.id for t in (*self.started.prefix, *self.emitted)]


class TraceBuilder:
    """Collects the events of one run as they come."""

    def __init__(self):
        self.started: RunStarted | None = None
        self.rounds: list[Round] = []
        self.finished: RunFinished | None = None

    def add(self, events: Iterable[Event]) -> None:
        """Adds events. Raises ValueError for anything that is not an event of a run."""
        for event in events:
            match event:
                case RunStarted():
                    self.started = event
                case Round():
                    self.rounds.append(event)
                case RunFinished():
                    self.finished = event
                case _:
                    raise ValueError(f"not an event of a run: {type(event).__name__}")

    @property
    def trace(self) -> Trace | None:
        """The run so far; None before it has started."""
        return Trace(self.started, tuple(self.rounds), self.finished) if self.started else None

    @property
    def tokens(self) -> int:
        """How many tokens have been emitted."""
        return sum(len(event.emitted) for event in self.rounds)


def fold(events: Iterable[Event]) -> Trace:
    """Makes a Trace of the events of one run, in order. Raises ValueError where RunStarted is not among them."""
    builder = TraceBuilder()
    builder.add(events)
    if builder.trace is None:
        raise ValueError("a trace begins with RunStarted")
    return builder.trace


@dataclass(frozen=True, slots=True)
class _Branch:
    started: RunStarted
    rounds: tuple[Round, ...]
    finished: RunFinished | None


@dataclass(frozen=True, slots=True)
class _TraceFile:
    schema: Literal[1]
    lossy: str = field(default="", kw_only=True)  # left out if the run keeps the target's distribution
    started: RunStarted
    rounds: tuple[Round, ...]
    finished: RunFinished | None
    branch: _Branch | None = None


@cache
def _adapter():
    from pydantic import ConfigDict, TypeAdapter

    config = ConfigDict(allow_inf_nan=False, extra="forbid")
    _TraceFile.__pydantic_config__ = config  # ty: ignore[missing-attribute] pydantic reads it; nested dataclasses inherit it
    return TypeAdapter(_TraceFile)


@cache
def _validator():
    """Stops at a list's first bad item, because collecting all errors of a 2 MiB file takes 9 GiB."""
    from pydantic_core import SchemaValidator

    def fail_fast(part):
        if isinstance(part, dict):
            fields = {key: fail_fast(value) for key, value in part.items()}
            return fields | {"fail_fast": True} if part.get("type") in ("tuple", "dict") else fields
        return [fail_fast(inner) for inner in part] if isinstance(part, list) else part

    return SchemaValidator(fail_fast(_adapter().core_schema))


def to_json(trace: Trace) -> str:
    branch = _Branch(trace.branch.started, trace.branch.rounds, trace.branch.finished) if trace.branch else None
    lossy = LOSSY if trace.started.is_lossy else ""
    file = _TraceFile(SCHEMA, trace.started, trace.rounds, trace.finished, branch, lossy=lossy)
    return _adapter().dump_json(file, exclude=None if lossy else {"lossy"}).decode()


def from_json(data: str | bytes) -> Trace:
    """Parses and validates a trace. Raises BadInput with the first error as a sentence."""
    from pydantic import ValidationError

    if len(data) > MAX_BYTES:
        raise BadInput(f"This trace is {len(data) / 2**20:.0f} MiB; files up to {MAX_BYTES // 2**20} MiB are read.")
    try:
        text = decode_text(data) if isinstance(data, bytes) else data.removeprefix("\ufeff")
        if text.count(",") > MAX_VALUES:
            raise BadInput(f"This file is not a SpecLens trace: it holds over {MAX_VALUES} values.")
        if text.startswith("<"):
            raise BadInput("This file is a page, not a trace: open the JSON file that was saved beside it.")
        file = _validator().validate_json(text)
    except ValidationError as error:
        raise BadInput(_explain(error)) from error
    except (ValueError, RecursionError) as error:
        raise BadInput("This file is not a SpecLens trace: it cannot be read as JSON.") from error
    branch = file.branch and Trace(file.branch.started, file.branch.rounds, file.branch.finished)
    trace = Trace(file.started, file.rounds, file.finished)
    _check(trace)
    return with_branch(trace, branch) if branch else trace


def with_branch(trace: Trace, branch: Trace) -> Trace:
    """Returns the trace with a branch, which must begin as this run does. Raises BadInput."""
    prefix, output = [t.id for t in branch.started.prefix], trace.output
    require(bool(prefix), "its branch forces no token")
    require(len(prefix) <= len(output), "its branch forces a token beyond the output")
    require(prefix[:-1] == output[: len(prefix) - 1], "its branch begins with another text")
    require(branch.started.prompt == trace.started.prompt, "its branch has another prompt")
    _check(branch)
    return replace(trace, branch=branch)


def _explain(error) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=True)[0]
    if first["loc"] == ("schema",) and first["type"] != "missing":
        known = type(first["input"]) is int and 0 <= first["input"] < 10**6
        version = f"schema version {first['input']}" if known else "another schema version"
        return f"This trace has {version}, but this SpecLens reads version {SCHEMA}; record the run again."
    if first["loc"] == ("schema",):
        return "This file is not a SpecLens trace: it has no version number."
    what = "This trace was changed, or is not whole: at" if first["loc"] else "This file is not a SpecLens trace:"
    return f"{what} {explain(error)}."


def _check(trace: Trace) -> None:
    """Checks ranges and references, which types cannot express. Raises BadInput."""
    require(len(trace.rounds) <= MAX_ROUNDS, f"it has over {MAX_ROUNDS} rounds")
    known = (*trace.started.prompt, *trace.started.prefix)
    count = sum(len(r.tokens) for r in trace.rounds) + len(known)
    require(count <= MAX_TOKENS, f"it has over {MAX_TOKENS} tokens")
    require(all(0 <= t.id <= LARGEST for t in known), "a token of its prompt is out of range")
    require(all(len(t.text) <= MAX_TEXT for t in trace.started.prefix), "a token of its output is out of range")
    check_json(trace.started.config)
    if costs := trace.started.costs:
        check_costs(costs)
    if other := trace.started.translated:
        sizes = (other.common, other.target, other.draft)
        require(all(0 <= n <= LARGEST for n in sizes), "its vocabularies are out of range")
    if layers := trace.started.exit_layers:
        require(1 <= layers[0] <= layers[1] <= LARGEST, "its layers are out of range")
    require(len(trace.notes) <= 100 and all(len(note) <= MAX_TEXT for note in trace.notes), "its notes are too long")
    server, position = trace.started.server, len(trace.started.prefix)
    if server:
        check_server(server)
    for index, round_ in enumerate(trace.rounds):
        require(round_.index == index, f"round {index} has another number")
        if server is None:
            check_told(round_)
        check_round(round_, position)
        position += len(round_.emitted)
    if end := trace.finished:
        is_word = server is not None and 0 < len(end.reason) <= 40 and end.reason.isprintable()
        require(end.reason in get_args(Reason) or is_word, "its end has a reason that is none")
        times = (end.prefill, end.ttft, end.decode_seconds, end.seconds)
        require(all(0 <= t <= 1e7 for t in times), "a time of its end is out of range")
        require(0 <= (end.peak_memory or 0) <= LARGEST, "its peak memory is out of range")
        check_json(end.extra)
        counts = end.kept_tokens.values()
        require(len(counts) <= 2 and all(0 <= n <= LARGEST for n in counts), "its kept tokens are out of range")


def save(trace: Trace, path: str | Path) -> None:
    """Writes a file. BadInput where it cannot be written; an older file then stays as it was."""
    try:
        write_atomically(Path(path), to_json(trace))
    except (OSError, ValueError) as error:
        raise BadInput(f"The trace could not be written to {path}: {_why(error)}.") from error


def load(path: str | Path) -> Trace:
    """Reads and validates a file. Raises BadInput if it cannot be read or is not a trace."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise BadInput(f"The trace {path} cannot be read: {_why(error)}.") from error
    if len(data) > MAX_BYTES:
        raise BadInput(f"{path} is larger than {MAX_BYTES // 2**20} MiB and is not read as a trace.")
    return from_json(data)


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__

"""Holds the columns of a comparison: runs of this page, and recordings of servers beside them. Knows no gradio."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.playground.trace_files import read_each
from app.views import servers
from engine.config import ACCEPTANCE, AUTO, METHODS, RunConfig, SamplingParams, is_lossy
from engine.errors import BadInput
from engine.trace.events import RunStarted
from engine.trace.trace import Trace

MOST_RECORDINGS = 2  # beside four runs, a screen has no room for more, and `view.LOOKS` no other look
TITLES = {AUTO: "Auto"} | {name: method.title[0].upper() + method.title[1:] for name, method in METHODS.items()}


@dataclass(frozen=True)
class Column:
    """One run: its settings, and its trace so far. ``source``: empty for a run of this page; else the server, model and
    prompt of a recording. Speeds and texts are compared within one source."""

    config: RunConfig
    trace: Trace | None = None
    source: tuple[str, ...] = ()

    @property
    def has_rounds(self) -> bool:
        return self.trace is not None and bool(self.trace.rounds)

    @property
    def is_plain(self) -> bool:
        return self.config.is_plain

    @property
    def gamma(self) -> int | str | None:
        return self.config.gamma

    @property
    def exactness(self) -> str:
        return "lossy" if self.is_lossy else "exact"

    @property
    def setting(self) -> str:
        temperature = self.config.sampling.temperature
        return "temperature 0: the likeliest token" if temperature == 0 else f"temperature {temperature:g}"

    @property
    def is_lossy(self) -> bool:
        config = self.config
        return is_lossy(config.acceptance, config.method, config.gamma, config.sampling.temperature)

    @property
    def is_complete(self) -> bool:
        finished = self.trace.finished if self.trace else None
        return finished is not None and finished.reason != "cancelled"

    @property
    def name(self) -> str:
        if self.is_plain:
            return "Plain decoding"
        config, method = self.config, TITLES.get(self.config.method, self.config.method)
        if config.method == AUTO and self.trace and self.trace.started.method != AUTO:
            method += f": {TITLES.get(self.trace.started.method, self.trace.started.method)}"
        rule = "" if config.acceptance == "token" else f", {ACCEPTANCE[config.acceptance].title}"
        return f"{method}, {'γ auto' if config.gamma == AUTO else f'γ = {config.gamma}'}{rule}"


@dataclass(frozen=True)
class RecordedColumn(Column):
    """A recording of a server. Of its ``config`` only the temperature and the seed mean something."""

    @property
    def is_plain(self) -> bool:
        return not self.trace.has_drafts

    @property
    def gamma(self) -> int | None:
        return servers.longest_draft(self.trace)

    @property
    def exactness(self) -> str:
        return "unknown"

    @property
    def name(self) -> str:
        return servers.title(self.trace.started.server) + (", no drafts seen" if self.is_plain else "")

    @property
    def setting(self) -> str:
        return f"{self.trace.started.pair[: servers.LONGEST]}, {super().setting.split(':')[0]}"


@dataclass(frozen=True)
class ComparedRuns:
    """``run``: an id by which the page tells one comparison from the next; ``recorded_at``: when its runs were made,
    in seconds since the epoch; None for runs made now. Without rounds it is empty."""

    run: str
    columns: tuple[Column, ...]
    recorded_at: float | None = None

    def __bool__(self) -> bool:
        return any(column.has_rounds for column in self.columns)


def read_columns(paths: Sequence[str]) -> list[RecordedColumn]:
    """Raises BadInput for files that hold anything else."""
    if not 1 <= len(paths) <= MOST_RECORDINGS:
        raise BadInput(f"{len(paths)} files were given; up to {MOST_RECORDINGS} recordings are shown beside the runs.")
    traces = read_each(paths)
    if not all(trace.started.server for trace in traces):
        raise BadInput("Here a file must be the recording of a server; Open a trace, in the playground, shows any run.")
    return [RecordedColumn(_config(trace.started), trace, _source(trace.started)) for trace in traces]


def _source(started: RunStarted) -> tuple[str, ...]:
    return started.server.engine, started.pair, started.prompt_text


def _config(started: RunStarted) -> RunConfig:
    seed = started.config.get("seed")
    seed = seed if type(seed) is int and 0 <= seed < 2**63 else 0
    return RunConfig("of a recording", method="server", sampling=SamplingParams(started.temperature), seed=seed)

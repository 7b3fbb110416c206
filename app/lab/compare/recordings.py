"""Reads recordings of servers as columns beside the runs of this page. Knows no gradio."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.lab.compare.view import Column
from app.playground.trace_files import read_each
from app.views import servers
from engine.config import RunConfig, SamplingParams
from engine.errors import BadInput
from engine.trace.events import RunStarted

MOST = 2  # beside four runs, a screen has no room for more, and `view.LOOKS` no other look


@dataclass(frozen=True)
class RecordedColumn(Column):
    """A recording of a server. Of its ``config`` only the temperature and the seed mean something."""

    @property
    def plain(self) -> bool:
        return not self.trace.has_drafts

    @property
    def source(self) -> tuple[str, ...]:
        started = self.trace.started
        return started.server.engine, started.pair, started.prompt_text

    @property
    def gamma(self) -> int | None:
        return servers.longest_draft(self.trace)

    @property
    def exactness(self) -> str:
        return "unknown"

    @property
    def name(self) -> str:
        return servers.title(self.trace.started.server) + (", no drafts seen" if self.plain else "")

    @property
    def setting(self) -> str:
        return f"{self.trace.started.pair[: servers.LONGEST]}, {super().setting.split(':')[0]}"


def read_columns(paths: Sequence[str]) -> list[RecordedColumn]:
    """Raises BadInput for files that hold anything else."""
    if not 1 <= len(paths) <= MOST:
        raise BadInput(f"{len(paths)} files were given; up to {MOST} recordings are shown beside the runs.")
    traces = read_each(paths)
    if not all(trace.started.server for trace in traces):
        raise BadInput("Here a file must be the recording of a server; Open a trace, in the playground, shows any run.")
    return [RecordedColumn(_config(trace.started), trace) for trace in traces]


def _config(started: RunStarted) -> RunConfig:
    seed = started.config.get("seed")
    seed = seed if type(seed) is int and 0 <= seed < 2**63 else 0
    return RunConfig("of a recording", method="server", sampling=SamplingParams(started.temperature), seed=seed)

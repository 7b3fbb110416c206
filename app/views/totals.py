"""Counts a run while it goes on: each round is added once, so that an update costs no more than its news."""

from collections.abc import Iterable
from dataclasses import dataclass

from engine.trace.events import ACCEPTED, TESTED, Event, Round, RunFinished, RunStarted
from engine.trace.trace import Trace


@dataclass
class Totals:
    """``others`` is as in a Trace; ``seconds`` are counted from the first round's start to the newest one's end. The
    ratios are defined as in engine.trace.metrics, None in place of a division by zero."""

    started: RunStarted | None = None
    finished: RunFinished | None = None
    rounds: int = 0
    tokens: int = 0
    tested: int = 0
    accepted: int = 0
    discarded: int = 0
    from_grammar: int = 0
    forbidden: int = 0
    others: int = 0
    start: float = 0.0
    seconds: float = 0.0

    @classmethod
    def from_trace(cls, trace: Trace) -> "Totals":
        totals = cls()
        totals.add([trace.started, *trace.rounds, *([trace.finished] if trace.finished else [])])
        return totals

    def add(self, events: Iterable[Event]) -> None:
        for event in events:
            match event:
                case RunStarted():
                    self.started = event
                case RunFinished():
                    self.finished = event
                case Round():
                    self._add_round(event)

    def _add_round(self, event: Round) -> None:
        if not event.index and self.started and self.started.server:
            self.start = event.end  # the prompt's own pass, as engine.trace.metrics has it
            return
        if not self.rounds and not (self.started and self.started.server):
            self.start = event.start
        self.seconds = event.end - self.start
        self.rounds += 1
        self.tokens += len(event.emitted)
        self.tested += sum(token.status in TESTED for token in event.tokens)
        self.accepted += sum(token.status in ACCEPTED for token in event.tokens)
        self.discarded += sum(token.status == "discarded" for token in event.tokens)
        self.from_grammar += sum(token.from_grammar for token in event.emitted)
        self.forbidden += len(event.forbidden)
        self.others = max(self.others, event.rows - 1)

    @property
    def alpha(self) -> float | None:
        server = self.started.server if self.started else None
        return self.accepted / self.tested if self.tested and (server is None or server.has_counts) else None

    @property
    def tau(self) -> float | None:
        return self.tokens / self.rounds if self.rounds and self.hidden_tokens == 0 else None

    @property
    def tokens_per_second(self) -> float | None:
        return (
            (self.tokens + self.hidden_tokens) / self.seconds
            if self.seconds and self.hidden_tokens is not None
            else None
        )

    @property
    def hidden_tokens(self) -> int | None:
        """The tokens that a server's pieces do not show, as in `Server`."""
        server = self.started.server if self.started else None
        return server.hidden_tokens if server else 0

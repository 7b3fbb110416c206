"""Measures how long a server takes to read a long prompt: for the first time, again, and with another end.

Servers keep the keys and values of prompts. Where drafts switch that off, each turn of a chat reads all of it again.
"""

import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.errors import Unavailable
from engine.tools.servers.recording import Recorder
from engine.tools.servers.streamed_answer import ServerRequest

VISITS = {"new": "for the first time", "again": "again", "other end": "with another end"}
LEAST = 4000  # characters of the long text; a short one fits into the block that some caches keep or drop as a whole
ENDS = ("\n\nName the most important word of this text.", "\n\nSay in one sentence how this text begins.")


@dataclass(frozen=True)
class PromptReading:
    """``first``: seconds to the first token of a prompt of ``size`` tokens, of which the server took ``cached`` from
    its cache; None where it does not tell a number."""

    first: float
    size: int | None
    cached: int | None

    @property
    def share(self) -> float | None:
        """The part of the prompt that came from the cache."""
        return None if self.cached is None or not self.size else self.cached / self.size


def read_prompt(recorder: Recorder, request: ServerRequest, text: str) -> dict[str, PromptReading]:
    """Sends a long text under each name of `VISITS`. It begins with the time, so that no earlier one is like it."""
    times = math.ceil(LEAST / max(len(text), 1))
    beginning = "\n".join([str(time.time_ns()), *[text] * times])
    ends = dict(zip(VISITS, (ENDS[0], ENDS[0], ENDS[1]), strict=True))
    return {
        name: _visit(recorder, replace(request, prompt=beginning + end, max_tokens=4)) for name, end in ends.items()
    }


def _visit(recorder: Recorder, request: ServerRequest) -> PromptReading:
    before = recorder.counts_before()
    answer = recorder.ask(request)
    if answer.fault or not answer.pieces:
        raise Unavailable(answer.fault or "The server sent no text, so its first token cannot be timed.")
    recorder.finish(request, answer, before)
    return PromptReading(answer.pieces[0].at, answer.prompt_size, answer.cached)


def middle(readings: Sequence[PromptReading]) -> PromptReading:
    """Returns the medians of several readings."""
    caches = [each.cached for each in readings]
    cached = None if None in caches else int(statistics.median(each for each in caches if each is not None))
    return PromptReading(statistics.median(each.first for each in readings), readings[0].size, cached)

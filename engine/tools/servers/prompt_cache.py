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
from engine.tools.servers.server_request import ServerRequest
from engine.tools.servers.subject import Judgement, Subject

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
    if answer.fault:
        raise Unavailable(answer.fault)
    recorder.finish(request, answer, before)
    first = answer.pieces[0].at if answer.pieces else answer.seconds  # its first token may end the text
    return PromptReading(first, answer.prompt_size, answer.cached)


def middle(readings: Sequence[PromptReading]) -> PromptReading:
    """Returns the medians of several readings."""
    caches = [each.cached for each in readings]
    cached = None if None in caches else int(statistics.median(each for each in caches if each is not None))
    return PromptReading(statistics.median(each.first for each in readings), readings[0].size, cached)


# ── for `server check` ──

TEXT = "A train leaves the station at nine and comes back at noon. Nobody in the town has ever asked why. "
SOON, LATE = 0.35, 0.7  # of a new prompt's time to the first token: at most, where it was kept; at least, where not
LEAST_FALL = 0.2  # of the prompt's tokens; a cache of blocks may keep one block less beside drafts
REPEATS = 2


def judge_cache(drafting: Subject, plain: Subject | None) -> Judgement:
    """Compares how much of a long prompt is kept when it comes again, by the server's count or else by the clock."""
    sides = [_read(subject) for subject in (drafting, plain) if subject]
    words = " ".join(_cache_words(each, name) for each, name in zip(sides, ("", " without drafts"), strict=False))
    shares, times = [each["again"].share for each in sides], [each["again"].first / each["new"].first for each in sides]
    if not plain:
        is_kept = times[0] < SOON if shares[0] is None else shares[0] > LEAST_FALL
        return ("right", words) if is_kept else ("unknown", f"{words} Only an OFF_URL can tell whether drafts are why.")
    is_lost = times[0] > LATE and times[1] < SOON
    if shares[0] is not None and shares[1] is not None:
        if shares[0] < shares[1] - LEAST_FALL and times[0] < SOON:
            return (
                "unknown",
                f"{words} The clock says that it was kept, so the count is wrong.",
                "sgl-project/sglang#20451",
            )
        is_lost = shares[0] < shares[1] - LEAST_FALL
        if not shares[1]:
            return "unknown", f"{words} Prompts are not kept without drafts either: is the prompt cache on?"
    if not is_lost:
        return "right", words
    issues = "vllm-project/vllm#54360, vllm-project/vllm#38182"
    return "wrong", f"{words} Drafts lose the prompt cache.", issues, "a newer version, or no drafts for long prompts"


def _read(subject: Subject) -> dict[str, PromptReading]:
    request = ServerRequest(subject.model, "", chat=False, more=subject.no_penalty)
    readings = [read_prompt(subject.recorder, request, TEXT) for _ in range(REPEATS)]
    return {name: middle([each[name] for each in readings]) for name in VISITS}


def _cache_words(visits: dict[str, PromptReading], side: str) -> str:
    new, again = visits["new"], visits["again"]
    times = f"the first token took {again.first:.2f} s after {new.first:.2f} s for a new prompt"
    if again.cached is None:
        return f"A prompt that came again{side}: {times}."
    return f"Of a prompt that came again{side}, {again.cached:,} of {again.size or 0:,} tokens were kept; {times}."

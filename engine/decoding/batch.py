"""Runs several requests at once: gather what each wants scored, run one pass over all of it, hand out the results.

A request is a generator. It yields events, and `Prefill` or `Scoring` where it needs the target. It is resumed with the
result after the pass, so one loop (`loop.py`) serves a request alone and many together. Requests join and leave between
passes. Each has its own cache, draws and drafter, so sharing a pass changes no outcome but by rounding.
"""

from collections.abc import Generator, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from engine.device import DeviceTimer
from engine.models.decoder.runner import Runner, Tokens

_CHUNK = 512  # tokens of prompts in a pass, while nothing is scored
_CHUNK_BESIDE = 64  # while others are scored, whose next token waits for no more than these


@dataclass(frozen=True, slots=True)
class Prefill:
    """Appends tokens without logits. The result is how many of ``ids`` were appended, at least one."""

    runner: Runner
    ids: Sequence[int]


@dataclass(frozen=True, slots=True)
class Scoring:
    """Appends tokens and scores them. The result is logits [W, V]. ``timer`` gets the pass as "verify"."""

    runner: Runner
    tokens: torch.Tensor
    parents: Sequence[int] | None
    timer: DeviceTimer


Steps = Generator[Any, Any, None]  # yields events and passes; a pass is answered with its result


class _Member:
    """One request: its generator, the pass it waits for, and the result that it is resumed with."""

    def __init__(self, steps: Steps):
        self.steps = steps
        self.wants: Prefill | Scoring | None = None
        self.result: Any = None

    @property
    def is_ready(self) -> bool:
        """Whether it can go on: the pass it waited for has run, or it has not begun."""
        return self.wants is None or self.result is not None

    def advance(self) -> Iterator[Any]:
        """Yields the events up to the next pass, or up to the end: then ``wants`` is None."""
        result, self.result, self.wants = self.result, None, None
        while True:
            try:
                step = self.steps.send(result)
            except StopIteration:
                return
            if isinstance(step, Prefill | Scoring):
                self.wants = step
                return
            result = None
            yield step


class Batch:
    """The requests that share passes, by a name that the caller chooses. ``prompts_first``: while one reads its prompt,
    the others wait. Then those that join together also begin to write together."""

    def __init__(self, prompts_first: bool = False):
        self.prompts_first = prompts_first
        self._members: dict[Any, _Member] = {}

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, name: Hashable) -> bool:
        return name in self._members

    def add(self, name: Hashable, steps: Steps) -> None:
        """Lets ``steps`` take part from the next step on."""
        assert name not in self._members
        self._members[name] = _Member(steps)

    def remove(self, name: Hashable) -> None:
        """Ends a request, wherever it is, and frees its memory."""
        if member := self._members.pop(name, None):
            member.steps.close()

    def close(self) -> None:
        for name in [*self._members]:
            self.remove(name)

    def step(self) -> Iterator[tuple[Any, Any]]:
        """Advances every request to its next pass, then runs that pass for all. Yields (name, event) as events come.
        A request that raises is out of the batch, and its exception is its last event."""
        for name, member in [(name, member) for name, member in self._members.items() if member.is_ready]:
            try:
                for event in member.advance():
                    yield name, event
            except Exception as error:  # the others go on
                self._members.pop(name, None)
                yield name, error
                continue
            if member.wants is None:
                self._members.pop(name, None)
        self._pass([member for member in self._members.values() if member.wants is not None])

    def _pass(self, members: list[_Member]) -> None:
        """Runs one pass. Prompts take turns in the order of joining, each as much as the pass takes."""
        if self.prompts_first:
            members = [member for member in members if isinstance(member.wants, Prefill)] or members
        token_budget = _CHUNK_BESIDE if any(isinstance(member.wants, Scoring) for member in members) else _CHUNK
        taking_part, batch = [], []
        for member in members:
            match member.wants:
                case Scoring(runner, tokens, parents):
                    batch.append(Tokens(runner, tokens, parents))
                case Prefill(runner, ids) if token_budget:
                    batch.append(Tokens(runner, ids[:token_budget], wants_logits=False))
                    token_budget -= len(batch[-1].ids)
                case _:
                    continue
            taking_part.append(member)
        if not batch:
            return
        timers = [member.wants.timer for member in taking_part if isinstance(member.wants, Scoring)]
        for timer in timers:
            timer.start("verify")
        results = batch[0].runner.forward_many(batch)
        for timer in timers:
            timer.stop()
        for member, tokens, logits in zip(taking_part, batch, results, strict=True):
            member.result = logits if tokens.wants_logits else len(tokens.ids)


def alone(steps: Steps) -> Iterator[Any]:
    """Yields the events of one request; a batch of one."""
    batch = Batch()
    batch.add(None, steps)
    try:
        while batch:
            for _, event in batch.step():
                if isinstance(event, Exception):
                    raise event
                yield event
    finally:
        batch.close()

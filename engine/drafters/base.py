"""What a drafter is: something that guesses the next tokens and says what distribution it guessed them from."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from engine.config import SamplingParams
from engine.sampling import History, Uniforms

ASK = "ask"  # the situation of a draft model before its first pass: it will tell as it goes


@dataclass(frozen=True, slots=True)
class Draft:
    """tokens [N] on the device. q [N, V]: what each token was drawn from, None where it was no draw (one-hot).
    parents [N] for a tree, None for a chain. steps: passes of a draft model that this took.
    situations: of each token, where the drafter found out on the way."""

    tokens: torch.Tensor
    q: torch.Tensor | None = None
    parents: tuple[int, ...] | None = None
    steps: int = 0
    situations: tuple[Hashable, ...] = ()

    def __len__(self) -> int:
        return len(self.tokens)


class Judge(Protocol):
    """Who says, while a chain is drafted, whether to go on; ``path`` holds the situations of the guesses so far."""

    def keep(self, path: Sequence[Hashable]) -> bool:
        """Whether the last guess of the path is worth scoring. Asked before its token is drawn."""

    def more(self, path: Sequence[Hashable]) -> bool:
        """Whether one more draft step is worth its cost."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What a run tells its drafter: how the target samples, V of the target, the seeded draws, room for tokens, and
    whom to ask how far to draft (None: nobody)."""

    sampling: SamplingParams
    vocab_size: int
    uniforms: Uniforms
    history: History | None  # which tokens count as repeated; None where nothing penalises them
    capacity: int
    device: str
    judge: Judge | None = None


class Drafter(Protocol):
    """A method is one file with this protocol and one line in the registry."""

    name: str
    priors: Mapping[Hashable, float]  # situation -> acceptance to expect before anything has been seen

    def start(self, prompt: Sequence[int], setup: Setup) -> None:
        """A new run."""

    def situation(self, committed: Sequence[int]) -> Hashable | None:
        """What kind of guess is at hand (a key into ``priors``), ASK where that shows only while drafting, or None
        when there is nothing to propose."""

    def deeper(self, situation: Hashable) -> Hashable:
        """The situation that a draft made in ``situation`` and kept leads to."""

    def propose(self, committed: Sequence[int], gamma: int, position: int) -> Draft:
        """Up to gamma ≥ 1 tokens to follow ``committed``; ``position`` numbers the first one among the new tokens."""

    def commit(self, accepted: int) -> None:
        """How many of the last proposal's tokens were kept (a prefix of a chain)."""

    def release(self) -> None:
        """The run is over; give memory back."""

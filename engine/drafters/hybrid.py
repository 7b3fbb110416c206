"""Lets several drafters compete for every round (method auto); `engine.decoding.drafter_choice` decides."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from engine.config import method_of
from engine.drafters.base import Draft, Drafter, DrafterSetup


class HybridDrafter(Drafter):
    """``members``: the drafters by method. The run's policy names the one that drafts next: its ``drafter``."""

    name = "auto"

    setup: DrafterSetup

    def __init__(self, members: Mapping[str, Drafter]):
        self.members = members
        self._proposer: Drafter | None = None

    def start(self, prompt: Sequence[int], setup: DrafterSetup) -> None:
        """Lets every member read the prompt now, as a method alone does, so that no round's time includes it."""
        self.setup = setup
        for member in self.members.values():
            member.start(prompt, setup, **method_of(member.name).defaults)

    def confidence_classes(self, committed: Sequence[int]) -> Mapping[str, Any] | None:
        """Returns the keys of all members that have something to propose."""
        keys = {name: member.confidence_classes(committed) for name, member in self.members.items()}
        return {name: own for name, own in keys.items() if own is not None} or None

    def propose(self, committed: Sequence[int], gamma: int, position: int) -> Draft:
        name = cast(Any, self.setup.policy).drafter
        self._proposer = self.members[name]
        return replace(self._proposer.propose(committed, gamma, position), drafter=name)

    def commit(self, accepted: int) -> None:
        if self._proposer is not None:
            self._proposer.commit(accepted)
        self._proposer = None

    def memory(self, capacity: int) -> int:
        return sum(member.memory(capacity) for member in self.members.values())

    def release(self) -> None:
        for member in self.members.values():
            member.release()

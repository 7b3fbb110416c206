"""The plain autoregressive baseline: γ = 0, through the very same loop, kernels and cache as every other method."""

from typing import ClassVar

from engine.drafters.base import Draft, Setup


class NoDrafter:
    name = "none"
    priors: ClassVar = {}

    def start(self, prompt, setup: Setup) -> None:
        pass

    def situation(self, committed):
        return None

    def deeper(self, situation):
        return situation

    def propose(self, committed, gamma, position) -> Draft:
        raise AssertionError("there is no situation in which this drafter proposes")

    def commit(self, accepted: int) -> None:
        pass

    def release(self) -> None:
        pass

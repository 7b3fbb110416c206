"""Counts tokens against the clock, for the progress of a stage."""

import time


class Pace:
    """A rate that prints as "252 tokens a second", measured from the first count."""

    def __init__(self):
        self._began, self._tokens = time.perf_counter(), 0

    def count(self, tokens: int) -> "Pace":
        self._tokens += tokens
        return self

    def __str__(self) -> str:
        return f"{self._tokens / max(time.perf_counter() - self._began, 1e-3):,.0f} tokens a second"

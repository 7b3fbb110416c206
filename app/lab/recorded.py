"""Reads the result that a tab of the Lab opens with: a file that the tab itself has saved, with its machine and date.

`python -m app.lab` records them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.files import ASSETS
from engine.trace.speedup_words import day

FOLDER = ASSETS / "data" / "lab"


@dataclass(frozen=True)
class Recorded:
    """``device`` and ``precision``: "" where no model ran, as is ``pair``; ``saved``: an ISO date and time."""

    result: Any
    saved: str
    device: str = ""
    precision: str = ""
    pair: str = ""

    @classmethod
    def from_file(cls, result: Any, about: Mapping[str, Any]) -> "Recorded":
        """Reads a recorded result. ``about``: what a file says of its origin, and more."""
        return cls(result, *(about.get(name) or "" for name in ("saved", "device", "precision", "pair")))

    @property
    def day(self) -> str:
        """The date, such as "26 November 2026"."""
        return day(self.saved)

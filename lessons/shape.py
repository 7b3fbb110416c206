"""What a lesson is, once its file has been read and checked. Frozen data; lessons.loader makes it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lessons import prose

ASKS = ("verdict", "number", "choice")
# The experiments of the Lab tab, and what stands on their tabs.
LABS = {
    "theory": "Theory",
    "sweep": "Sweep",
    "compare": "Compare",
    "distribution": "Is it lossless?",
    "synthetic": "Any α",
}


@dataclass(frozen=True)
class Toy:
    """A run of the weather model: what to start from, and how to draft. ``method``: as engine.toy names it."""

    prompt: str
    gamma: int
    tokens: int
    seed: int
    method: str = "lm"


@dataclass(frozen=True)
class Scenario:
    """A run to look at: ``trace`` names a recording in assets/traces/lessons, or ``toy`` says how to make one."""

    name: str
    title: str
    trace: str = ""
    toy: Toy | None = None


@dataclass(frozen=True)
class Option:
    """Of a choice: right where the sum ``when`` is true. Of a quiz: ``right`` is written down."""

    text: str
    why: str
    when: str = ""
    right: bool = False


@dataclass(frozen=True)
class Ask:
    """A guess before the machine answers. The answer is always worked out: a token's verdict, or the value of sums."""

    kind: str
    text: str
    explain: str
    token: str = ""
    answer: str = ""
    within: str = ""
    unit: str = ""
    options: tuple[Option, ...] = ()


@dataclass(frozen=True)
class Step:
    """``run``: the scenario beside it, which stands ``at`` a place and moves ``then`` to another once answered.

    ``points`` at a token of it, or at a control of the playground; ``tool`` is something to play with; ``lab`` names an
    experiment to go to, and ``hint`` says what to try there.
    """

    title: str
    text: tuple[prose.Block, ...]
    run: str
    at: str
    then: str = ""
    points: str = ""
    tool: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    ask: Ask | None = None
    live: bool = False
    lab: str = ""
    hint: str = ""


@dataclass(frozen=True)
class Question:
    text: str
    options: tuple[Option, ...]


@dataclass(frozen=True)
class Check:
    """A claim of the prose as a sum that has to be true."""

    says: str
    holds: str


@dataclass(frozen=True)
class Lesson:
    """``live``: values for the playground's controls by name. ``given``: numbers in the prose that nobody measured."""

    slug: str
    number: int
    title: str
    summary: str
    minutes: int
    outcomes: tuple[str, ...]
    scenarios: tuple[Scenario, ...]
    steps: tuple[Step, ...]
    quiz: tuple[Question, ...]
    teacher: tuple[prose.Block, ...]
    checks: tuple[Check, ...]
    live: Mapping[str, Any]
    live_hint: str
    given: tuple[str, ...]

"""Describes a question and its answer: texts, load and place; speedups, measured or predicted. No engine."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from engine.bench.metrics import ALL
from engine.bench.sample import BASELINE
from engine.bench.sweep_results import Cell
from engine.files import ASSETS
from engine.trace.events import CostModel
from engine.trace.noise import ONE_RUN, PLAIN, Speedup, ceiling, fastest
from engine.trace.speedup_model import costs_for_all, interpolate

GAMMAS = (1, 2, 4)
HERE = "here"
MEASURED_TO = 32  # users that are measured at once; more are predicted from the costs measured
CURVE = (1, 2, 4, 8, 16, 32, 64)  # users of a prediction
Setting = tuple[str, int]  # method, γ
NONE: Setting = (BASELINE, 0)
MOST_USERS = 512  # at once, that a schedule speaks of
TOKENS_OF_A_LOAD = 16  # of each answer, where several users are measured


@cache
def figures() -> dict:
    """Of models and devices, as the lessons' calculators have them."""
    text = (ASSETS / "web" / "lessons" / "device_figures.js").read_text(encoding="utf-8")
    return json.loads(text[text.index("{") : text.rindex("}") + 1])


@dataclass(frozen=True)
class Place:
    """A server that this one only predicts: ``target`` and ``draft`` on ``count`` of a ``device``, by their names in
    `figures`. ``head``: c of an EAGLE head, one of the target's layers and an output layer of 32,000 words; ``names``:
    of target, draft and head on the hub."""

    target: str
    draft: str
    head: float
    device: str
    names: tuple[str, str, str]
    count: int = 1

    @property
    def title(self) -> str:
        return f"{f'{self.count} × ' * (self.count > 1)}{self.device}, {self.target}"

    def costs(self, method: str) -> CostModel:
        """A pass reads each weight once, 2 bytes, or computes with it for every row, whichever takes longer."""
        weights, device = figures()["models"], figures()["devices"][self.device]
        target, draft = (weights[name]["weights"] for name in (self.target, self.draft))
        step = 2 * target / (self.count * device["speed"])  # seconds, to read them
        free = int(1000 * device["operations"] / device["speed"])  # rows until arithmetic takes as long
        c = {"lm": draft / target, "eagle": self.head}.get(method, 0.0)
        return CostModel(c, {1: 1.0, free: 1.0, 2 * free: 2.0}, 256, step)


PLACES = {
    "h100-8b": Place("Llama 3.1 8B", "Llama 3.2 1B", 0.06, "H100 SXM", (
        "meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.2-1B-Instruct",
        "RedHatAI/Llama-3.1-8B-Instruct-speculator.eagle3")),
    "h100-70b": Place("Llama 3.3 70B", "Llama 3.2 1B", 0.03, "H100 SXM", (
        "meta-llama/Llama-3.3-70B-Instruct", "meta-llama/Llama-3.2-1B-Instruct",
        "yuhuili/EAGLE3-LLaMA3.3-Instruct-70B"), 2),
    "4090-4b": Place("Qwen3 4B", "Qwen3 0.6B", 0.07, "RTX 4090", (
        "Qwen/Qwen3-4B", "Qwen/Qwen3-0.6B", "AngelSlim/Qwen3-4B_eagle3")),
}  # fmt: skip


@dataclass(frozen=True)
class AnswerPlan:
    """``texts``: (kind, prompt); ``place``: HERE, or one of PLACES."""

    texts: tuple[tuple[str, str], ...]
    methods: tuple[str, ...]
    users: int = 1
    place: str = HERE
    tokens: int = 48
    repeats: int = 3

    @property
    def loads(self) -> tuple[int, ...]:
        """The numbers of users that are measured beside one: the load, and one between."""
        most = min(self.users, MEASURED_TO)
        if self.place != HERE or most < 2:
            return ()
        return (most,) if most < 4 else (max(2, round(most**0.5)), most)


@dataclass(frozen=True)
class Load:
    """One setting with so many ``users`` at once."""

    users: int
    setting: Setting
    speedup: Speedup
    busy: float | None = None


def of_whole_answers(timed: Speedup, tau_timed: float, tau: float) -> Speedup:
    """A speedup that was timed over the beginnings of answers, ``tau_timed`` tokens a pass, with the ``tau`` of
    whole answers: a beginning may be easier to guess than what follows."""
    share = tau / tau_timed
    low, high = (None if end is None else end * share for end in (timed.low, timed.high))
    return Speedup(timed.value * share, low, high, ceiling(tau), timed.busy)


@dataclass(frozen=True)
class AnswerResult:
    """``cells``: of a sweep for one user; ``loads``: measured with several; ``costs`` of each method."""

    pair: str
    plan: AnswerPlan
    cells: tuple[Cell, ...] = ()
    loads: tuple[Load, ...] = ()
    costs: Mapping[str, CostModel] = field(default_factory=dict)
    is_complete: bool = False

    def __len__(self) -> int:
        return len(self.cells)

    @property
    def alone(self) -> dict[Setting, Cell]:
        """On all texts, for one user."""
        return {(cell.method, cell.gamma): cell for cell in self.cells if cell.category == ALL}

    @property
    def is_predicted(self) -> bool:
        return self.plan.place != HERE

    def at(self, users: int) -> dict[Setting, Speedup]:
        """Each setting's speedup with so many users: as measured, else as predicted. Plain decoding among them."""
        if self.is_predicted:
            return {NONE: PLAIN} | {
                setting: self.predicted(setting, users) for setting in self.alone if setting != NONE
            }
        if users == 1:
            return {setting: cell.measured for setting, cell in self.alone.items()}
        known = {load.setting: load.speedup for load in self.loads if load.users == users}
        if not known:  # more than are measured, or not yet
            known = {each: self.predicted(each, users) for each in self.settings if each[0] in self.costs}
        return {NONE: PLAIN} | known

    @property
    def settings(self) -> list[Setting]:
        """Those with a line of their own."""
        return shortlist(self.cells)

    def predicted(self, setting: Setting, users: int) -> Speedup:
        """Tokens a pass as counted here, over what a round costs where it shares its passes; half of the gain or loss,
        and never less than one run's error, is taken for that of such a prediction, because it knows neither attention
        nor a scheduler."""
        cell, (method, gamma) = self.alone[setting], setting
        c, v = self.costs_of_all(method, users)
        cost = 0.0
        for drafting in range(users + 1):  # each of the users by the chance of its round
            chance = math.comb(users, drafting) * cell.drafting**drafting * (1 - cell.drafting) ** (users - drafting)
            drafts = gamma * drafting / users
            cost += chance * (drafts * c + interpolate(v, 1 + drafts))
        value = cell.tau / cost
        error = max(abs(value - 1) / 2, ONE_RUN)
        return Speedup(value, value - error, value + error, ceiling(cell.tau))

    def costs_of_all(self, method: str, users: int) -> tuple[float, dict[int, float]]:
        """c and v of `costs_for_all`. A server's draft model steps once for all of its users, this one's for each."""
        costs = PLACES[self.plan.place].costs(method) if self.is_predicted else self.costs[method]
        return costs_for_all(costs.c, costs.v, users, steps=1 if self.is_predicted else users)

    def best(self, users: int) -> list[Setting]:
        """As `fastest`: first what brings the most for certain; a single one is a winner. A prediction does not draft
        where a smaller load was measured not to pay."""
        return [NONE] if self.unpaid_before(users) else fastest(self.at(users))

    def unpaid_before(self, users: int) -> list[int]:
        """Of a load that is not measured, the smaller ones that were, and at which it is not certain that drafting
        pays."""
        measured = set() if self.is_predicted else {1, *(load.users for load in self.loads)}
        return [] if users in measured else [each for each in measured if each < users and NONE in self.best(each)]

    @property
    def has_noise(self) -> bool:
        """Whether a speedup came out larger than it can be."""
        speedups = (*(cell.measured for cell in self.cells), *(load.speedup for load in self.loads))
        return any(not speedup.is_possible for speedup in speedups)

    @property
    def busy(self) -> float | None:
        shares = [each.busy for each in (*self.cells, *self.loads) if each.busy is not None]
        return max(shares, default=None)


def shortlist(cells: tuple[Cell, ...]) -> list[Setting]:
    """The settings that are worth measuring with more users: the best length of the two best methods, and one draft a
    round, because every further row is dearer there."""
    possible = [
        cell for cell in cells if cell.category == ALL and cell.method != BASELINE and cell.measured.is_possible
    ]
    best: dict[str, Cell] = {}
    for cell in sorted(possible, key=lambda cell: cell.measured.ends[0], reverse=True):
        best.setdefault(cell.method, cell)
    several = [(cell.method, gamma) for cell in [*best.values()][:2] for gamma in (cell.gamma, 1)]
    return [*dict.fromkeys(several)]


def schedule(result: AnswerResult, method: str) -> tuple[tuple[int, int, int], ...]:
    """(fewest, most users, γ) of one method, as far as it was measured or predicted; 0 where plain decoding may be as
    fast, and beyond the load asked for. A load between two that are known has the γ of the larger one, because what
    pays for more users pays for fewer. Neighbours with the same γ are one."""
    most = result.plan.users
    between = [users for users in CURVE if users < most] if result.is_predicted else result.plan.loads
    rows: list[list[int]] = []
    for users in sorted({1, *between, most}):
        best, speedups = result.best(users), result.at(users)
        certain = () if NONE in best else [setting for setting in best if speedups[setting].is_possible]
        gamma = next((g for m, g in certain if m == method), 0)
        if rows and rows[-1][2] == gamma:
            rows[-1][1] = users
        else:
            rows.append([rows[-1][1] + 1 if rows else 1, users, gamma])
    if rows[-1][2] == 0:
        rows[-1][1] = MOST_USERS
    elif most > 1:
        rows.append([most + 1, MOST_USERS, 0])
    return tuple(map(tuple, rows))

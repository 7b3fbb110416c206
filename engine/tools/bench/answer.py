"""Describes a question and its answer: texts and loads; speedups as measured, tokens per pass as counted. No torch.

A load is a number of users at once. An answer says nothing about a load that was not measured. For another machine or
model it has the tokens per pass on these texts, and no speedup.
"""

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.config import METHODS, method_of
from engine.tools.bench.answer_rule import NONE, RuleCell
from engine.tools.bench.expected_time import prompt_steps, together_steps
from engine.tools.bench.metrics import ALL
from engine.tools.bench.pass_curve import PassCurve
from engine.tools.bench.prompts import Prompt
from engine.tools.bench.sample import BASELINE
from engine.tools.bench.sweep_results import Cell
from engine.tools.bench.winners import costs_for_all, fastest
from engine.trace.costs import CostModel
from engine.trace.load_schedule import LoadSchedule
from engine.trace.noise import ONE_RUN, PLAIN, Speedup, ceiling, is_crowded, largest_share
from engine.trace.speedup_model import interpolate

GAMMAS = (1, 2, 4)
HERE, ELSEWHERE = "here", "elsewhere"
CURVE = (1, 2, 4, 8, 16, 32, 64)  # users of the predicted line
Setting = tuple[str, int | str]  # method, γ
_TURNS_OF_A_LOAD = 2  # times the repeats: it is quickly measured, and three turns leave ±15 %, too much to decide by
_UNDECIDED = 3  # times as many turns where the first ones found drafting neither faster than plain decoding nor slower
_DRAFTS = 2  # per round at a load; only an estimate
UNSURE = 0.6, 1.4  # times what costs and plain answers promise: how long something new may take


@dataclass(frozen=True)
class AnswerPlan:
    """``texts``: the rows, or pairs of kind and prompt; what a row says itself comes before ``tokens`` and
    ``temperature``; ``users``: the loads asked for; ``tokens``: the most in each answer; ``place``: HERE, or ELSEWHERE,
    where only the tokens per pass are counted."""

    texts: tuple[Prompt, ...]
    methods: tuple[str, ...]
    users: tuple[int, ...] = (1,)
    tokens: int = 48
    temperature: float = 0.0
    repeats: int = 3
    place: str = HERE

    def __post_init__(self):
        texts = (each if isinstance(each, Prompt) else Prompt(each[1], each[0]) for each in self.texts)
        object.__setattr__(self, "texts", tuple(texts))

    @property
    def mean_tokens(self) -> float:
        return sum(prompt.own.get("max_new_tokens", self.tokens) for prompt in self.texts) / len(self.texts)

    @property
    def is_greedy(self) -> bool:
        return not any(prompt.own.get("temperature", self.temperature) for prompt in self.texts)

    @property
    def largest_load(self) -> int:
        return max(self.users)

    @property
    def loads(self) -> tuple[int, ...]:
        """The numbers of users that are measured beside one: those asked for, and one between if that is a single
        one."""
        several = {users for users in self.users if users > 1}
        if self.place != HERE or not several:
            return ()
        if len(self.users) == 1 and self.largest_load >= 4:
            several.add(max(2, round(self.largest_load**0.5)))
        return tuple(sorted(several))

    @property
    def turns_of_a_text(self) -> int:
        """One elsewhere, because only the tokens count there."""
        return self.repeats if self.place == HERE else 1

    @property
    def turns_of_a_load(self) -> int:
        return _TURNS_OF_A_LOAD * self.repeats

    @property
    def most_turns_of_a_load(self) -> int:
        """The turns of a setting that the first ones left undecided. They are added only once, because looking at an
        interval again and again finds one that excludes the truth."""
        return _UNDECIDED * self.turns_of_a_load

    @property
    def settings_of_a_load(self) -> int:
        """The most that `shortlist` returns; the sweep says how many are worth it."""
        return len(self.methods) + min(2, len(self.methods))

    @property
    def turns(self) -> int:
        return len(self.texts) * self.turns_of_a_text

    @property
    def runs(self) -> int:
        """The runs of one user alone: plain decoding and every setting."""
        return self.turns * (1 + len(GAMMAS) * len(self.methods))

    def steps_alone(self, v: Mapping[int, float]) -> float:
        """Estimates how many plain steps one of the runs of one user alone takes, on average. Drafts make fewer passes,
        and each of them longer."""
        return self.mean_tokens + sum(prompt_steps(v, prompt.length) for prompt in self.texts) / len(self.texts)

    def steps_together(self, v: Mapping[int, float], settings: int, turns: int) -> float:
        """Estimates how many plain steps so many turns of so many settings take at all loads, plain decoding beside
        each of them."""
        each, tokens = 0.0, max(prompt.own.get("max_new_tokens", self.tokens) for prompt in self.texts)
        for users in self.loads:
            texts = [prompt.length for prompt in texts_of_users(self.texts, users)]
            each += sum(together_steps(v, texts, users, tokens, drafts, True) for drafts in (0, _DRAFTS))
        return settings * turns * each

    def most_seconds(self, costs: CostModel) -> float:
        """Estimates how long it takes at most, from what passes take here: with answers of full length, and loads whose
        first turns decide nothing."""
        together = self.steps_together(costs.v, self.settings_of_a_load, self.most_turns_of_a_load)
        return UNSURE[1] * (self.runs * self.steps_alone(costs.v) + together) * costs.step


def texts_of_users(texts: Sequence[Any], users: int) -> list[Any]:
    """Returns a text for each user, from the whole list, because its kinds often follow each other. With fewer
    texts than users some ask the same."""
    return [texts[(2 * i + 1) * len(texts) // (2 * users)] for i in range(users)]


@dataclass(frozen=True)
class Load:
    """One setting, measured with ``users`` at once."""

    users: int
    setting: Setting
    speedup: Speedup


@dataclass(frozen=True)
class Request:
    """Whole requests of one setting on the texts of a kind, for one user. ``speedup`` with its ends: beside plain
    decoding, with answers as long as the plain ones; ``seconds`` and ``plain``: a mean request; ``reading`` and
    ``plain_reading``: the part of it before drafts help: the prompt, the first token, and the drafts' own reading;
    ``length``: mean tokens of an answer; ``pays_from``: as in `WholeRequest`."""

    method: str
    gamma: int
    category: str
    speedup: float
    low: float | None
    high: float | None
    seconds: float
    plain: float
    reading: float
    plain_reading: float
    length: float
    pays_from: int | None = None

    @property
    def measured(self) -> Speedup:
        return Speedup(self.speedup, self.low, self.high)


@dataclass(frozen=True)
class KeptRequest(Request):
    """Whole requests on all texts with their system prompt kept, as servers keep it; ``tokens``: how many of it."""

    tokens: int = 0


@dataclass(frozen=True)
class AnswerResult:
    """``cells``: from a sweep for one user; ``loads``: measured with several, also for earlier questions about the same
    texts; ``costs``: each method's; ``about``: where it was measured; ``requests``: whole ones, for one user;
    ``rule``: for a router; ``kept_request``: the best setting with the shared system
    prompt kept; ``curve``: what passes cost on another machine, which speedups are predicted for."""

    pair: str
    plan: AnswerPlan
    cells: tuple[Cell, ...] = ()
    loads: tuple[Load, ...] = ()
    costs: Mapping[str, CostModel] = field(default_factory=dict)
    is_complete: bool = False
    about: Mapping[str, object] = field(default_factory=dict)
    requests: tuple[Request, ...] = ()
    rule: tuple[RuleCell, ...] = ()
    curve: PassCurve | None = None
    kept_request: KeptRequest | None = None

    def __len__(self) -> int:
        return len(self.cells)

    @property
    def alone(self) -> dict[Setting, Cell]:
        """On all texts, for one user."""
        return self.of_kind(ALL)

    def of_kind(self, kind: str) -> dict[Setting, Cell]:
        """Returns the cell of each setting on the texts of a kind, for one user."""
        return by_setting(self.cells, kind)

    @property
    def kinds(self) -> list[str]:
        """The kinds of text, if there are several."""
        kinds = [kind for kind in dict.fromkeys(prompt.category for prompt in self.plan.texts) if self.of_kind(kind)]
        return kinds if len(kinds) > 1 else []

    @property
    def is_elsewhere(self) -> bool:
        return self.plan.place != HERE

    @property
    def measured_loads(self) -> list[int]:
        """One user, and each load at which something was measured."""
        return [] if self.is_elsewhere or not self.cells else sorted({1, *(load.users for load in self.loads)})

    def speedups_at(self, users: int) -> dict[Setting, Speedup]:
        """Returns the measured speedup of each setting with ``users`` at once, plain decoding included."""
        if self.is_elsewhere:
            return {NONE: PLAIN}
        if users == 1:
            return {NONE: PLAIN} | {setting: cell.measured for setting, cell in self.alone.items()}
        return {NONE: PLAIN} | {load.setting: load.speedup for load in self.loads if load.users == users}

    def best(self, users: int) -> list[Setting]:
        """Returns the settings that may be the fastest, the surest gain first; a single one has won. For one user
        those are left out whose whole requests are certainly slower."""
        return self.fastest(self.speedups_at(users), users)

    def fastest(self, speedups: Mapping[Setting, Speedup], users: int = 1, kind: str = ALL) -> list[Setting]:
        """Returns the fastest of these settings on a kind of text, as `best` does: with plain decoding where whole
        requests make no certain difference."""
        requests = {s: r.measured.tone for s in speedups if users == 1 and (r := self.request(s, kind))}
        best = fastest({s: speedup for s, speedup in speedups.items() if requests.get(s) != "slower"})
        is_sure = NONE in best or not best or requests.get(best[0], "faster") == "faster"
        return best if is_sure else [*best, NONE]

    def request(self, setting: Setting, kind: str = ALL) -> Request | None:
        """Returns the whole requests of a setting; None where they were not timed."""
        key = (*setting, kind)
        return next((r for r in self.requests if (r.method, r.gamma, r.category) == key), None)

    def pays(self, users: int) -> bool:
        """Returns whether some setting was certainly faster than plain decoding."""
        return NONE not in self.best(users)

    @property
    def settings(self) -> list[Setting]:
        """The settings with a line of their own."""
        more = dict.fromkeys(load.setting for load in self.loads if load.setting in self.alone)
        return [*dict.fromkeys((*shortlist(self.cells), *more))]

    def predict(self, setting: Setting, users: int) -> Speedup:
        """Predicts the speedup: tokens per pass as counted here over the cost of a round that shares its passes. Its
        error is taken to be half of the gain or loss, and never less than the error of one run, because the model knows
        neither attention nor a scheduler."""
        return self._predict(setting, users, self.costs[setting[0]].c, self.costs[setting[0]].v)

    def predict_by_curve(self, setting: Setting, users: int) -> Speedup | None:
        """Predicts the speedup on the machine of the curve; None where its widest pass is too narrow for that. A draft
        step costs what the curve says, or else the same part of a plain step as here."""
        curve, (method, gamma) = self.curve, setting
        if curve is None or setting == NONE or users * (int(gamma) + 1) > curve.widest or method not in self.costs:
            return None
        c = curve.c if curve.c is not None and method_of(method).runs_model else self.costs[method].c
        return self._predict(setting, users, c, curve.v, curve.fixed)

    def _predict(self, setting: Setting, users: int, c: float, v: Mapping[int, float], fixed: float = 0.0) -> Speedup:
        """Predicts a speedup by these costs. ``fixed``: the cost of a pass with drafts before the first of them."""
        cell, gamma = self.alone[setting], setting[1]
        assert isinstance(gamma, int), "an answer's settings have fixed lengths"
        fixed /= interpolate(v, users)
        c, v = costs_for_all(c, v, users, steps=users)
        cost = 0.0
        for drafting in range(users + 1):  # each of the users by the chance of its round
            chance = math.comb(users, drafting) * cell.drafting**drafting * (1 - cell.drafting) ** (users - drafting)
            drafts = gamma * drafting / users
            cost += chance * (drafts * c + interpolate(v, 1 + drafts) + (fixed if drafting else 0.0))
        value = cell.tau / cost
        error = max(abs(value - 1) / 2, ONE_RUN)
        return Speedup(value, value - error, value + error, ceiling(cell.tau))

    def refuted_predictions(self) -> list[tuple[int, Setting, float, Speedup]]:
        """Returns (users, setting, predicted, measured) where the measured interval excludes the prediction."""
        excluded = []
        for users in self.measured_loads:
            for setting, measured in self.speedups_at(users).items():
                if setting == NONE or setting not in self.alone or setting[0] not in self.costs:
                    continue
                value = self.predict(setting, users).value
                if measured.excludes(value):
                    excluded.append((users, setting, value, measured))
        return excluded

    @property
    def has_noise(self) -> bool:
        """Whether a speedup came out larger than it can be."""
        speedups = (*(cell.measured for cell in self.cells), *(load.speedup for load in self.loads))
        return any(not speedup.is_possible for speedup in speedups)

    @property
    def busy(self) -> float | None:
        """The largest share of the cores that other programs took; None for counts, which no program changes."""
        return self.busy_at(self.measured_loads)

    def busy_at(self, loads: Container[int]) -> float | None:
        """Returns that share for what decides at these loads: the measurements for one user, and theirs."""
        shares = [cell.busy for cell in self.cells] + [load.speedup.busy for load in self.loads if load.users in loads]
        return None if self.is_elsewhere else largest_share(shares)

    def is_disturbed(self, loads: Container[int]) -> bool:
        """Returns whether other programs took so much that these loads cannot be judged."""
        return is_crowded(self.busy_at(loads))


def usual(methods: Iterable[str]) -> tuple[str, ...]:
    """Returns the methods that most engines have. The rest is seldom best, so it is left to the sweep."""
    kinds = {name: METHODS[name] for name in methods}
    own = ("text", "draft model", "head")  # no other texts, and no second copy of the target
    return tuple(name for name, kind in kinds.items() if kind.competes and kind.reads in own and not kind.shares)


def by_setting(cells: Iterable[Cell], kind: str = ALL) -> dict[Setting, Cell]:
    """Returns the cells of one kind of text by their setting."""
    return {(cell.method, cell.gamma): cell for cell in cells if cell.category == kind}


def drafting_leaders(
    result: AnswerResult, speedups: Mapping[Setting, Speedup], users: int, kind: str = ALL
) -> list[Setting]:
    """Returns the fastest settings, without plain decoding, the surest gain first."""
    best = result.fastest(speedups, users, kind)
    return [setting for setting in best if setting != NONE and speedups[setting].is_possible]


def shortlist(cells: Sequence[Cell]) -> list[Setting]:
    """Returns the settings that are worth measuring with more users: the best length of the two best methods, and one
    draft a round of every method that may pay alone, because every further row costs more there."""
    possible = [
        cell for cell in cells if cell.category == ALL and cell.method != BASELINE and cell.measured.is_possible
    ]
    best: dict[str, Cell] = {}
    for cell in sorted(possible, key=lambda cell: cell.measured.ends[0], reverse=True):
        best.setdefault(cell.method, cell)
    longest = [(cell.method, cell.gamma) for cell in [*best.values()][:2]]
    return [*dict.fromkeys([*longest, *((name, 1) for name, cell in best.items() if cell.measured.ends[1] > 1)])]


def schedule(result: AnswerResult, method: str) -> LoadSchedule:
    """Returns the draft lengths of one method by load, as measured. A load between two that are known has the length of
    the larger one, because what pays for more users pays for fewer; above the largest one nothing is said."""
    ranges: list[tuple[int, int, Any]] = []
    unsure, slower, last = [], None, 0
    for users in result.measured_loads:
        speedups = {
            setting: speedup
            for setting, speedup in result.speedups_at(users).items()
            if setting[0] in (method, BASELINE)
        }
        if len(speedups) < 2:
            continue
        best = result.fastest(speedups, users)
        if NONE in best and len(best) > 1:
            unsure.append(users)
            continue
        gamma = 0 if NONE in best else best[0][1]
        if gamma:
            start, slower = last + 1, None
        else:
            start, slower = (last + 1 if ranges and not ranges[-1][2] else users), slower or users
        if ranges and ranges[-1][2] == gamma and ranges[-1][1] == start - 1:
            start = ranges.pop()[0]
        ranges.append((start, users, gamma))
        last = users
    return LoadSchedule(tuple(ranges), max(result.measured_loads, default=1), slower, tuple(unsure))

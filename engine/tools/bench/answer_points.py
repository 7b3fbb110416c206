"""Measures an answer: a sweep for one user, then the settings worth it with more users.

Every setting at every load has a file of its own, so questions about the same texts find each other's loads.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from engine import __version__
from engine.config import MAX_SHARERS
from engine.files import ProgressCallback
from engine.runtime.engine import Engine
from engine.tools.bench.answer import (
    GAMMAS,
    HERE,
    NONE,
    AnswerPlan,
    AnswerResult,
    Load,
    Setting,
    by_setting,
    shortlist,
    texts_of_users,
)
from engine.tools.bench.answer_requests import requests, rule
from engine.tools.bench.answer_time import AnswerTime
from engine.tools.bench.answer_words import middle, name
from engine.tools.bench.benchmark import Cancelled, answer_earlier_turns, describe, never, prompt_form
from engine.tools.bench.kept_prompts import KeptStarts
from engine.tools.bench.prompts import digest
from engine.tools.bench.result_file import ResultFile, file_of, parse_values
from engine.tools.bench.sample import BASELINE, Sample
from engine.tools.bench.sweep import Grid, Sweep
from engine.tools.bench.sweep_results import Cell
from engine.tools.bench.text_costs import TextCosts
from engine.tools.bench.users import ManyUsers, UsersCell, UsersSettings
from engine.tools.bench.users_results import pass_time
from engine.tools.bench.winners import fastest
from engine.trace.costs import CostModel
from engine.trace.noise import PLAIN, largest_share

_VERSION = 2  # the format of the loads' files
_LOAD = "load"  # begins the names of their files
_TRIED = 4  # answers before the first turn


@dataclass(frozen=True)
class _LoadFile:
    """One setting at one load: what measures it, and its file."""

    users: int
    setting: Setting
    many: ManyUsers


class AnswerPoints:
    """Turns of the sweep, then cells of many users. ``keep``: is called with each file's path that a question uses."""

    def __init__(
        self, engine: Engine, plan: AnswerPlan, folder: Path, again: bool = False,
        keep: Callable[[Path], None] = lambda path: None,
    ):  # fmt: skip
        self.engine, self.plan, self.folder, self.keep = engine, plan, folder, keep
        self.prompts = answer_earlier_turns(engine, plan.texts, plan.tokens)
        grid = Grid(plan.methods, GAMMAS, (plan.temperature,), plan.tokens, plan.turns_of_a_text)
        self._about, self._texts = describe(engine, plan.methods), digest(self.prompts)
        self._files: list[_LoadFile] = []
        self._decided: set[tuple] = set()  # the loads and settings that were looked at after their first turns
        self._stage = 0  # at which they were opened
        self._again = again
        self.tried: dict[tuple, Sample] = {}  # plain answers before the first turn, by the turn's key
        self.time_spent = self.time_kept = 0.0  # seconds of all that was measured here, by the clock and as it is kept
        self.sweep = Sweep(engine, grid, self.prompts, folder=folder)
        configs = [turn.config for turn in self.sweep.benchmark.turns]
        self.costs = TextCosts(engine, plan.methods, configs, partial(self._open_file, "costs", CostModel))
        if again:
            self._open_loads(again)
            self.sweep = Sweep(engine, grid, self.prompts, folder=folder, again=True)
        if path := self.sweep.benchmark.file.path:
            keep(path)
        about = {"texts": self._texts, "version": _VERSION}
        self.kept_starts = KeptStarts(
            engine, plan, self.sweep, self.costs, lambda kind: self._open_file("kept", kind, about)
        )

    def _open_file(self, kind: str, values: type, about: dict) -> ResultFile:
        """Opens a file of ``values`` beside the others."""
        about = self._about | about
        path = file_of(self.folder, kind, about, self._again)
        self.keep(path)
        return ResultFile(path, about, asdict, partial(parse_values, values))

    # ── the points ──

    @property
    def loads(self) -> list[_LoadFile]:
        """The files of each load asked for and each setting on the shortlist: a first one as soon as each kind of text
        had a turn, so that every load is measured from the first minute, and the final one after the whole sweep."""
        stage = self._find_stage()
        if stage > self._stage or (stage == 1 and not self._files):  # noise alone has no shortlist
            self._stage, self._files = stage, self._open_loads()
            for users in self.plan.loads:
                self._extend_undecided(users)
        return self._files

    @property
    def has_loads(self) -> bool:
        """Whether it is known which settings are measured with more users."""
        return self._stage > 0

    def find_undecided(self) -> list[_LoadFile]:
        """Returns the settings of loads that may still get more turns."""
        unfinished = {file.users for file in self._files if file.many.missing()}
        first = self.plan.turns_of_a_load
        return [f for f in self._files if f.users in unfinished and f.many.settings.repeats == first]

    def _find_stage(self) -> int:
        missing = {turn.key for turn in self.sweep.benchmark.missing()}
        return 2 if not missing else int(missing.isdisjoint(self._first_turns))

    @cached_property
    def _first_turns(self) -> set[tuple]:
        """The keys of the first turn of each kind of text."""
        kinds = {prompt.category: i for i, prompt in reversed([*enumerate(self.prompts)])}
        return {turn.key for turn in self.sweep.benchmark.turns if turn.key[1] in kinds.values() and not turn.key[2]}

    def _open_loads(self, again: bool = False) -> list[_LoadFile]:
        cells, early = self.sweep.cells(), {file.setting for file in self._files}
        early |= {setting for _, setting in self._stored_loads(self.plan.loads)}
        alone, best = by_setting(cells), []
        for setting in shortlist(cells):
            # An early setting stays where the later turns do not certainly beat it: its loads are measured already.
            rivals = [s for s in early if s[0] == setting[0] and (s[1] == 1) == (setting[1] == 1)]
            best += [s for s in rivals if not alone[setting].measured.beats(alone[s].measured)][:1] or [setting]
        known = {(file.users, file.setting): file for file in self._files}
        loads = [(users, setting) for users in self.plan.loads for setting in dict.fromkeys(best)]
        return [known.get(load) or self._load_file(*load, again) for load in loads]

    def _load_file(self, users: int, setting: Setting, again: bool = False) -> _LoadFile:
        (method, gamma), plan = setting, self.plan
        each = texts_of_users(self.prompts, users)
        settings = UsersSettings(
            (users,), (method,), plan.tokens, plan.temperature, plan.turns_of_a_load, gamma, prompts_first=True,
            until_one_ends=True,
        )  # fmt: skip
        about = self._about_load(users, setting)
        many = ManyUsers(self.engine, settings, each, self.folder, again, _LOAD, about)
        many.known_costs = self.costs.by_method
        if path := many.file.path:
            self.keep(path)
        return _LoadFile(users, setting, many)

    def _about_load(self, users: int, setting: Setting) -> dict:
        """Returns everything that must be equal for two results of a load to be comparable."""
        plan = self.plan
        question = {"texts": self._texts, "tokens": plan.tokens, "temperature": plan.temperature}
        return self._about | question | {"users": users, "setting": list(setting), "version": _VERSION}

    def _known_loads(self) -> list[_LoadFile]:
        """Returns the loads of this question, and those that earlier questions measured for the same texts."""
        own = {(file.users, file.setting): file for file in self.loads}
        if self.plan.place != HERE:
            return []
        for load in self._stored_loads(range(2, MAX_SHARERS + 1)):
            own[load] = own.get(load) or self._load_file(*load)
        return [own[key] for key in sorted(own)]

    def _stored_loads(self, loads: Iterable[int]) -> list[tuple[int, Setting]]:
        """Returns the loads, and the settings of each, that files hold already."""
        pairs = [(users, (method, gamma)) for users in loads for method in self.plan.methods for gamma in GAMMAS]
        return [pair for pair in pairs if file_of(self.folder, _LOAD, self._about_load(*pair)).exists()]

    # ── measuring ──

    def missing(self) -> Sequence:
        """Returns turns of the sweep and pairs of what measures and its part: a ManyUsers and a cell, at the end the
        KeptStarts and a start. They are in the order in which they are measured: the first turn of each kind of text,
        then turns and loads side by side, each of them a little before one of them much, and loads twice as fast as
        turns, because whether they get more turns decides how long all of it takes. The cells of a load's repeat stay
        together, because they are compared."""
        turns, first = self.sweep.benchmark.missing(), self._first_turns
        files, count = [*enumerate(self.loads)], len(self.sweep.benchmark.turns)
        pairs = {(cell.repeat, i): file.many for i, file in files for cell in file.many.missing()}
        total = sum(len(file.many.cells) // 2 for _, file in files)
        ranks: list[tuple[float, int, Any]] = [
            (0.0 if turn.key in first else (count - len(turns) + i + 1) / count, 1, turn)
            for i, turn in enumerate(turns)
        ]
        for i, ((repeat, _), many) in enumerate(sorted(pairs.items(), key=lambda item: item[0])):
            cells = [cell for cell in many.missing() if cell.repeat == repeat]
            ranks += [((total - len(pairs) + i + 1) / total / 2, 0, (many, cell)) for cell in cells]
        starts = [(self.kept_starts, start) for start in self.kept_starts.missing()]
        return [*(point for *_, point in sorted(ranks, key=lambda rank: rank[:2])), *starts]

    def _extend_undecided(self, users: int) -> None:
        """Asks once for more turns of the settings that may be the fastest at a load where plain decoding may be it,
        too. Does nothing before the load has its first turns."""
        files = [file for file in self._files if file.users == users]
        if any(file.many.missing() for file in files):
            return
        alone = by_setting(self.sweep.cells())
        speedups = {file.setting: load.speedup for file in files if (load := _load(file, alone))}
        rivals = fastest(speedups | {NONE: PLAIN})
        for file in files:
            if NONE in rivals and file.setting in rivals and (users, file.setting) not in self._decided:
                file.many.extend(self.plan.most_turns_of_a_load)
        self._decided |= {(users, file.setting) for file in files}

    def forget_noise(self) -> None:
        alone = by_setting(self.sweep.cells())
        for file in self.loads:
            load = _load(file, alone)
            if load and not load.speedup.is_possible:
                file.many.file.remove([*file.many.file.results])
        self.sweep.forget_noise()
        self._stage = 0  # another sweep may have another shortlist

    def warm(self, cancelled: Cancelled = never) -> None:
        self.costs.measure(cancelled)
        self.sweep.costs = self.costs.by_method
        self.sweep.warm(cancelled)
        if self.plan.loads:  # the first pass for several users makes a graph, which would be part of a cell
            self._load_file(2, (self.plan.methods[0], 1)).many.warm(cancelled)

    def measure(self, point, cancelled: Cancelled = never) -> Iterator[tuple[str, float]]:
        """Yields a few words on the measurement under way, and the share of the point that is done."""
        if isinstance(point, tuple):
            source, part = point
            yield from source.reports(part, cancelled)
            if isinstance(part, UsersCell):
                self._extend_undecided(part.users)
            return
        for number, system in enumerate(self.sweep.benchmark.steps(point, cancelled)):
            yield f"one user, {name((system.name, system.setting or 0))}", number

    def run(
        self,
        progress: ProgressCallback = lambda fraction, message: None,
        seconds: float = math.inf,
        estimate: Callable[[float, float], None] = lambda least, most: None,
    ) -> AnswerResult:
        """Measures all that is missing, or as much as fits into the ``seconds``. ``estimate``: is called before each
        point with the seconds that the rest takes, at least and at most."""
        start, before = time.monotonic(), 0.0
        if self.missing():
            progress(0.0, "Warming up")
            self.warm()
            if seconds == math.inf and not self.sweep.benchmark.samples:
                self._try_answers()
        while missing := self.missing():
            spent, expected = time.monotonic() - start, AnswerTime(self)
            if middle(expected.seconds(missing[0])) / 2 > seconds - spent:  # it would end nearer to them so
                break
            estimate(*(left := expected.seconds_left()))
            total = min(seconds, spent + middle(left))
            for doing, _ in self.measure(missing[0]):
                before = max(before, min(0.999, (time.monotonic() - start) / total))
                progress(before, doing)
            self._add_time(time.monotonic() - start - spent, self._kept_seconds(missing[0]))
        return self.result()

    # ── how long it takes ──

    def _try_answers(self) -> None:
        """Answers a few texts with plain decoding before the first turn, because their lengths decide how long it all
        takes."""
        turns = self.sweep.benchmark.missing()
        if self.plan.is_greedy:  # the repeats of a text have the same answer
            turns = [turn for turn in turns if not turn.key[2]]
        for turn in texts_of_users(turns, min(_TRIED, len(turns))):
            before = time.monotonic()
            self.tried[turn.key] = turn.systems[0].run(turn.config)
            self._add_time(time.monotonic() - before, self.tried[turn.key].seconds)

    def _add_time(self, spent: float, stored: float) -> None:
        """Notes the seconds of a measurement: by the clock, and as its result has them."""
        if stored:
            self.time_spent, self.time_kept = self.time_spent + spent, self.time_kept + stored

    def _kept_seconds(self, point) -> float:
        """Returns the seconds that the result of a new point has."""
        if not isinstance(point, tuple):
            return sum(sample.seconds for sample in self.sweep.benchmark.samples[point.key].values())
        source, part = point
        return source.file.results[part.key].seconds if isinstance(part, UsersCell) else 0.0

    def size(self) -> tuple[int, int]:
        """Counts runs, and cells of many users."""
        settings, turns = len(self.sweep.grid.settings()), len(self.sweep.benchmark.turns)
        cells = sum(len(file.many.cells) for file in self.loads)
        missing = sum(len(file.many.missing()) for file in self.loads)
        of_a_load = 2 * self.plan.settings_of_a_load * self.plan.turns_of_a_load
        expected = 0 if self.has_loads else of_a_load * len(self.plan.loads)
        done = (turns - len(self.sweep.benchmark.missing())) * settings + cells - missing
        return done, turns * settings + (cells or expected)

    def work_left(self, share: float = 0.0) -> float:
        """Estimates which share of all the time is left once ``share`` of the first missing point is done: how many
        runs of a turn, or which part of a cell."""
        missing, expected = self.missing(), AnswerTime(self)
        left, first = middle(expected.seconds_left()), middle(expected.seconds(missing[0])) if missing else 0.0
        part = share if missing and isinstance(missing[0], tuple) else share / len(self.sweep.grid.settings())
        return (left - part * first) / (expected.seconds_done + left)

    # ── the answer ──

    def result(self) -> AnswerResult:
        cells = tuple(self.sweep.cells())
        alone = by_setting(cells)
        known = self._known_loads() if alone else []
        loads = [load for file in known if (load := _load(file, alone))]
        measured = self.costs.by_method if alone else {}
        costs = {method: measured[method] for method, _ in alone if method in measured}
        about = {key: self._about[key] for key in ("device", "precision", "weights")}
        about |= {"form": prompt_form(self.engine), "speclens": __version__}
        files = [self.sweep.benchmark.file, *(load.many.file for load in known)]
        about |= {"measured": max(file.newest for file in files)}
        turns = self.sweep.benchmark.samples
        result = AnswerResult(
            self.engine.pair.name, self.plan, cells, tuple(loads), costs, not self.missing(), about,
            requests(cells, self.prompts, turns), kept_request=self.kept_starts.request() if alone else None,
        )  # fmt: skip
        return result if result.is_elsewhere else replace(result, rule=rule(result, self.prompts, turns))


def _load(file: _LoadFile, alone: dict[Setting, Cell]) -> Load | None:
    """Returns the speedup at a load, from its passes and from the tokens per pass of the same texts as a whole."""
    cell, results = alone.get(file.setting), file.many.file.results
    ours, plain = ([results[key] for key in sorted(results) if key[1] == own] for own in (file.setting[0], BASELINE))
    passes = pass_time(file.users, ours, plain)
    if cell is None or passes is None:
        return None
    share = cell.drafting / passes.drafting if passes.drafting else 1.0
    busy = largest_share(each.busy for each in (*ours, *plain))
    return Load(file.users, file.setting, passes.speedup(cell.tau, share, busy))

"""Measures an answer: a sweep for one user, then the settings worth it with more users.

Every setting at every load has a file of its own, so questions about the same texts find each other's loads.
"""

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from engine import __version__
from engine.config import MAX_SHARERS, METHODS, method_of
from engine.decoding.tokenization import encode_prompt
from engine.files import ProgressCallback
from engine.runtime import calibration
from engine.runtime.engine import Engine
from engine.tools.bench.answer import (
    GAMMAS,
    HERE,
    NONE,
    AnswerPlan,
    AnswerResult,
    KeptRequest,
    Load,
    Request,
    Setting,
    by_setting,
    shortlist,
    texts_of_users,
)
from engine.tools.bench.answer_rule import RuleCell, decide, places
from engine.tools.bench.answer_words import name
from engine.tools.bench.benchmark import Cancelled, answer_earlier_turns, describe, never, prompt_form, run_config
from engine.tools.bench.expected_time import prompt_steps
from engine.tools.bench.kept_prompts import (
    OTHER_QUESTION,
    KeptStart,
    begin_kept,
    rows_to_begin,
    shared_system,
    weigh_kept,
)
from engine.tools.bench.metrics import ALL
from engine.tools.bench.prompts import digest
from engine.tools.bench.result_file import ResultFile, file_of, parse_values
from engine.tools.bench.sample import BASELINE, Sample
from engine.tools.bench.sweep import Grid, Sweep
from engine.tools.bench.sweep_results import Cell
from engine.tools.bench.users import ManyUsers, UsersSettings
from engine.tools.bench.users_results import pass_time
from engine.tools.bench.whole_request import WholeRequest, weigh
from engine.tools.bench.winners import fastest
from engine.trace.costs import CostModel
from engine.trace.noise import PLAIN, Speedup, ceiling, largest_share

_VERSION = 2  # the format of the loads' files
_LOAD = "load"  # begins the names of their files


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
        self._stage = 0  # at which they were opened
        self._again = again
        self.sweep = Sweep(engine, grid, self.prompts, folder=folder)
        if again:
            self._open_loads(again)
            self.sweep = Sweep(engine, grid, self.prompts, folder=folder, again=True)
        if path := self.sweep.benchmark.file.path:
            keep(path)

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
        alone, best = by_setting(cells), []
        for setting in shortlist(cells):
            # An early setting stays where the later turns do not certainly beat it: its loads are measured already.
            rivals = [s for s in early if s[0] == setting[0] and (s[1] == 1) == (setting[1] == 1)]
            best += [s for s in rivals if not alone[setting].measured.beats(alone[s].measured)][:1] or [setting]
        return [self._load_file(users, setting, again) for users in self.plan.loads for setting in dict.fromkeys(best)]

    def _load_file(self, users: int, setting: Setting, again: bool = False) -> _LoadFile:
        """Returns the file of a load."""
        (method, gamma), plan = setting, self.plan
        each = texts_of_users(self.prompts, users)
        settings = UsersSettings(
            (users,), (method,), plan.tokens, plan.temperature, plan.turns_of_a_load, gamma, prompts_first=True,
            until_one_ends=True,
        )  # fmt: skip
        about = self._about_load(users, setting)
        many = ManyUsers(self.engine, settings, each, self.folder, again, _LOAD, about)
        many.known_costs = self.known_costs
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
        for users in range(2, MAX_SHARERS + 1):
            for setting in ((method, gamma) for method in self.plan.methods for gamma in GAMMAS):
                path = file_of(self.folder, _LOAD, self._about_load(users, setting))
                if (users, setting) not in own and path.exists():
                    own[users, setting] = self._load_file(users, setting)
        return [own[key] for key in sorted(own)]

    # ── measuring ──

    def missing(self) -> Sequence:
        """Returns turns of the sweep, and (a ManyUsers, its cell), in the order in which they are measured: the first
        turn of each kind of text, then turns and loads side by side, each of them a little before one of them much. The
        cells of a load's repeat stay together, because they are compared."""
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
            ranks += [((total - len(pairs) + i + 1) / total, 0, (many, cell)) for cell in cells]
        return [point for *_, point in sorted(ranks, key=lambda rank: rank[:2])] or self._missing_starts()

    # ── a system prompt that is kept ──

    @cached_property
    def _file_of_starts(self) -> ResultFile:
        about = self._about | {"texts": self._texts, "version": _VERSION}
        path = file_of(self.folder, "kept", about, self._again)
        self.keep(path)
        return ResultFile(path, about, asdict, partial(parse_values, KeptStart))

    def _kept_setting(self) -> Setting | None:
        """Returns the setting whose requests are begun with the shared system prompt kept: the fastest for one user."""
        if self.plan.place != HERE or not self.engine.target.runner.same_bits or not shared_system(self.prompts):
            return None
        alone = {s: cell for s, cell in by_setting(self.sweep.cells()).items() if s != NONE}
        return max(alone, key=lambda setting: alone[setting].measured.ends[0], default=None)

    def _missing_starts(self) -> list[tuple[int, Setting]]:
        if (setting := self._kept_setting()) is None:
            return []
        known = self._file_of_starts.results
        return [(row, s) for row in rows_to_begin(self.prompts) for s in (NONE, setting) if (row, *s) not in known]

    def _begin_kept(self, row: int, setting: Setting, cancelled: Cancelled) -> None:
        (method, gamma), prompt, plan = setting, self.prompts[row], self.plan
        config, other = (
            replace(run_config(self.engine, each, plan.temperature, plan.tokens, 0, gamma), method=method)
            for each in (prompt, replace(prompt, text=OTHER_QUESTION, earlier=(), constraint=None))
        )
        start = begin_kept(self.engine, row, config, other, cancelled)
        if not cancelled():
            self._file_of_starts.add((row, method, gamma), start)

    def _kept_request(self) -> KeptRequest | None:
        setting = self._kept_setting()
        if setting is None or self._missing_starts():
            return None
        ours, plain = (
            {row: start for (row, *key), start in self._file_of_starts.results.items() if (*key,) == each}
            for each in (setting, NONE)
        )
        verdict = weigh_kept(self.sweep.benchmark.samples, ours, plain, setting, NONE)
        if verdict is None or verdict.request is None:
            return None
        tokens = min(start.tokens for start in (*ours.values(), *plain.values()))
        return KeptRequest(*_request_fields(setting, ALL, verdict), tokens)

    def _extend_undecided(self, users: int) -> None:
        """Asks for more turns of the settings that may be the fastest at a load where plain decoding may be it, too.
        Does nothing before the load has its first turns."""
        files = [file for file in self._files if file.users == users]
        if any(file.many.missing() for file in files):
            return
        alone = by_setting(self.sweep.cells())
        speedups = {file.setting: load.speedup for file in files if (load := _load(file, alone))}
        rivals = fastest(speedups | {NONE: PLAIN})
        for file in files:
            if NONE in rivals and file.setting in rivals:
                file.many.extend(self.plan.most_turns_of_a_load)

    def forget_noise(self) -> None:
        alone = by_setting(self.sweep.cells())
        for file in self.loads:
            load = _load(file, alone)
            if load and not load.speedup.is_possible:
                file.many.file.remove([*file.many.file.results])
        self.sweep.forget_noise()
        self._stage = 0  # another sweep may have another shortlist

    @property
    def known_costs(self) -> dict[str, CostModel]:
        """The costs that were measured at the length of these texts, now or for an earlier question, by method."""
        return {method: costs for (method,), costs in self._file_of_costs.results.items()}

    @cached_property
    def _file_of_costs(self) -> ResultFile:
        about = self._about | {"context": math.ceil(self.context() / calibration.CONTEXT) * calibration.CONTEXT}
        path = file_of(self.folder, "costs", about, self._again)
        self.keep(path)
        return ResultFile(path, about, asdict, partial(parse_values, CostModel))

    @property
    def plain_costs(self) -> CostModel:
        return self.known_costs.get(BASELINE) or self.engine.costs(BASELINE, retry=False)

    def context(self) -> int:
        """Returns the tokens in the middle of an answer to the median text."""
        configs = [turn.config for turn in self.sweep.benchmark.turns]
        encode = partial(encode_prompt, self.engine.target.tokenizer)
        return int(statistics.median(len(encode(each)) + each.max_new_tokens // 2 for each in configs))

    def measure_costs(self, cancelled: Cancelled = never) -> None:
        """Measures the costs of each method once, at the length of the texts. Every run then gets them, because on a
        busy machine each would measure its own again."""
        for method in (BASELINE, *self.plan.methods):
            if method in self.known_costs or cancelled():
                continue
            self._file_of_costs.add((method,), self._measure_costs_of(method))

    def _measure_costs_of(self, method: str) -> CostModel:
        engine, context = self.engine, self._file_of_costs.header["context"]
        if context <= calibration.CONTEXT:
            return engine.costs(method, retry=False)
        if method != BASELINE and not method_of(method).runs_model:
            return self.known_costs[BASELINE]
        drafter = engine.drafts.drafter(method) if method_of(method).runs_model else None
        step = f"Calibrating {METHODS[method].title} at {context:,} tokens"
        costs = calibration.measure(
            engine.target.runner, drafter, context=context, progress=lambda share: engine.models.progress(share, step)
        )
        return calibration.with_draft(self.known_costs[BASELINE], costs) if drafter else costs

    def warm(self, cancelled: Cancelled = never) -> None:
        self.measure_costs(cancelled)
        self.sweep.costs = self.known_costs
        self.sweep.warm(cancelled)

    def measure(self, point, cancelled: Cancelled = never) -> Iterator[tuple[str, float]]:
        """Yields a few words on the measurement under way, and the share of the point that is done."""
        if isinstance(point, tuple) and isinstance(point[0], int):
            yield f"one user, {name(point[1])}, with the system prompt kept", 0
            self._begin_kept(*point, cancelled)
            return
        if isinstance(point, tuple):
            many, cell = point
            yield from many.reports(cell, cancelled)
            self._extend_undecided(cell.users)
            return
        for number, system in enumerate(self.sweep.benchmark.steps(point, cancelled)):
            yield f"one user, {name((system.name, system.setting or 0))}", number

    def run(
        self,
        progress: ProgressCallback = lambda fraction, message: None,
        seconds: float = math.inf,
        estimate: Callable[[float], None] = lambda seconds: None,
    ) -> AnswerResult:
        """Measures all that is missing, or as much as fits into the ``seconds``. ``estimate``: is called once with the
        seconds that the whole takes, as soon as each kind of text had a turn to judge by."""
        start, is_estimated = time.monotonic(), not self.missing()
        if self.missing():
            progress(0.0, "Warming up")
            self.warm()
        total = self.work_left() if self.missing() else 0.0
        while missing := self.missing():
            remaining = seconds - (time.monotonic() - start)
            if self.expected_seconds(missing[0]) / 2 > remaining:  # it would end nearer to them without this point
                break
            if not is_estimated and self._find_stage():
                estimate(time.monotonic() - start + self.remaining_seconds())
                is_estimated = True
            for doing, share in self.measure(missing[0]):
                done = 1 - self.work_left(share) / total
                if seconds < math.inf:
                    done = (time.monotonic() - start) / seconds
                progress(max(0.0, min(0.999, done)), doing)
        return self.result()

    def remaining_seconds(self) -> float:
        """Estimates how long the rest takes: turns as long as those before, and loads longer than by the costs in the
        same proportion."""
        turns = self.sweep.benchmark.missing()
        by_costs = len(self.sweep.grid.settings()) * self.plan.steps_alone(self.plain_costs.v)
        loads, turn = max(0.0, self.work_left() - len(turns) * by_costs), self._seconds_of_a_turn()
        return len(turns) * turn + loads * turn / by_costs

    def _seconds_of_a_turn(self) -> float:
        took = [sum(s.seconds for s in turn.values()) for turn in self.sweep.benchmark.samples.values()]
        runs = len(self.sweep.grid.settings()) * self.plan.steps_alone(self.plain_costs.v) * self.plain_costs.step
        return statistics.mean(took) if took else runs

    def expected_seconds(self, point) -> float:
        """Estimates how long a point takes: as long as the same point took before, or by the costs."""
        if isinstance(point, tuple):
            return self._expected_steps(point) * self.plain_costs.step
        return self._seconds_of_a_turn()

    def _expected_steps(self, point: tuple) -> float:
        """Estimates a cell of many users, or a row that is begun twice, in plain steps."""
        if isinstance(point[0], int):
            return 2 * prompt_steps(self.plain_costs.v, self.prompts[point[0]].length)
        return point[0].expected_steps(point[1])

    def size(self) -> tuple[int, int]:
        """Counts runs, and cells of many users."""
        settings, turns = len(self.sweep.grid.settings()), len(self.sweep.benchmark.turns)
        cells = sum(len(file.many.cells) for file in self.loads)
        missing = sum(len(file.many.missing()) for file in self.loads)
        of_a_load = 2 * self.plan.settings_of_a_load * self.plan.turns_of_a_load
        expected = 0 if self._stage else of_a_load * len(self.plan.loads)
        done = (turns - len(self.sweep.benchmark.missing())) * settings + cells - missing
        return done, turns * settings + (cells or expected)

    def work_left(self, share: float = 0.0) -> float:
        """Estimates how many plain steps are left once ``share`` of the first missing point is done: how many runs
        of a turn, or which part of a cell."""
        v, missing = self.plain_costs.v, self.missing()
        runs, alone = len(self.sweep.grid.settings()), self.plan.steps_alone(v)
        each = [self._expected_steps(p) if isinstance(p, tuple) else runs * alone for p in missing]
        part = share if missing and isinstance(missing[0], tuple) else share / runs
        return sum(each) - part * sum(each[:1]) + (0.0 if self._stage else self.plan.steps_together(v))

    def result(self) -> AnswerResult:
        cells = tuple(self.sweep.cells())
        alone = by_setting(cells)
        known = self._known_loads() if alone else []
        loads = [load for file in known if (load := _load(file, alone))]
        costs = {method: self.known_costs[method] for method, _ in alone if method in self.known_costs}
        about = {key: self._about[key] for key in ("device", "precision", "weights")}
        about |= {"form": prompt_form(self.engine), "speclens": __version__}
        files = [self.sweep.benchmark.file, *(load.many.file for load in known)]
        about |= {"measured": max(file.newest for file in files)}
        result = AnswerResult(
            self.engine.pair.name, self.plan, cells, tuple(loads), costs, not self.missing(), about,
            self._requests(cells), kept_request=self._kept_request() if alone else None,
        )  # fmt: skip
        return result if result.is_elsewhere else replace(result, rule=self._rule(result))

    def _rule(self, result: AnswerResult) -> tuple[RuleCell, ...]:
        lengths = [prompt.length for prompt in self.prompts]
        kinds = [prompt.category for prompt in self.prompts]
        cells = []
        for place in places(kinds, lengths, sorted({1, *self.plan.users, *result.measured_loads})):
            if place.users > 1:
                known = {setting: s for setting, s in result.speedups_at(place.users).items() if setting != NONE}
                is_all = place.longest is None and place.kind == ALL
                cells.append(decide(place, len(lengths), known) if is_all else place)
                continue
            texts = {
                i for i, kind in enumerate(kinds)
                if place.kind in (ALL, kind) and place.shortest <= lengths[i] < (place.longest or math.inf)
            }  # fmt: skip
            turns = [turn for (_, i, _), turn in self.sweep.benchmark.samples.items() if i in texts]
            cells.append(decide(place, len(turns), _whole_requests(turns, self.sweep.grid.settings())))
        return tuple(cells)

    def _requests(self, cells: Sequence[Cell]) -> tuple[Request, ...]:
        """Returns the whole requests of each setting on each kind of text."""
        requests, kinds = [], [prompt.category for prompt in self.prompts]
        for cell in (cell for cell in cells if cell.method != BASELINE):
            turns = [
                turn for (_, i, _), turn in sorted(self.sweep.benchmark.samples.items(), key=lambda item: item[0])
                if cell.category in (ALL, kinds[i])
            ]  # fmt: skip
            ours, plain = (_parts(turns, setting) for setting in ((cell.method, cell.gamma), NONE))
            verdict = weigh(ours, plain)
            if verdict.request and isinstance(cell.gamma, int):
                requests.append(Request(*_request_fields((cell.method, cell.gamma), cell.category, verdict)))
        return tuple(requests)


def _request_fields(setting: Setting, kind: str, verdict: WholeRequest) -> tuple:
    """Returns the fields of a `Request`, whose whole requests were timed."""
    assert verdict.request
    ends = verdict.request.value, verdict.request.low, verdict.request.high
    return *setting, kind, *ends, *verdict.seconds, *verdict.firsts, verdict.length, verdict.pays_from


def _whole_requests(turns: Sequence[Mapping[tuple, Sample]], settings: Sequence[Setting]) -> dict[Setting, Speedup]:
    """Returns the speedup of whole requests with each of the settings that drafts."""
    speedups = {}
    for setting in (each for each in settings if turns and each != NONE):
        request = weigh(_parts(turns, setting), _parts(turns, NONE)).request
        passes = sum(turn[setting].passes for turn in turns)
        if request and passes:
            tau = sum(turn[setting].tokens for turn in turns) / passes
            busy = largest_share(s.busy for turn in turns for s in (turn[setting], turn[NONE]))
            speedups[setting] = replace(request, ceiling=ceiling(tau), busy=busy)
    return speedups


def _parts(turns: Sequence[Mapping[tuple, Sample]], setting: Setting) -> np.ndarray:
    """[turns, 3]: seconds until drafts may help, tokens after that, and their seconds."""
    samples = [turn[setting] for turn in turns]
    return np.array([(s.ttft + s.reading, s.tokens - 1, s.seconds - s.ttft - s.reading) for s in samples], float)


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

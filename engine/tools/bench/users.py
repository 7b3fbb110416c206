"""Measures many users at once: total tokens a second against the number of users, plain and with each method.

Every user has prompts of their own and asks the next one as soon as an answer ends, until all prompts are answered.
Each number of users gets the same prompts, and answers do not end before ``max_new_tokens``, so that the batch keeps
its width. The methods of one number of users run one right after the other in rotating order, because ratios compare
runs of the same minutes.
"""

import math
import statistics
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from engine.config import AUTO, MAX_SHARERS, METHODS, RunConfig
from engine.errors import BadInput, Unavailable, quantity
from engine.files import ProgressCallback
from engine.models.onnx.session import threads
from engine.runtime.engine import Engine
from engine.runtime.other_programs import OtherPrograms
from engine.runtime.run_batch import NoRoom, RunBatch
from engine.tools.bench.benchmark import WARM_UP_TOKENS, Cancelled, answer_earlier_turns, describe, never, run_config
from engine.tools.bench.expected_time import together_steps
from engine.tools.bench.prompts import Prompt, digest
from engine.tools.bench.result_file import ResultFile, file_of, parse_values
from engine.tools.bench.sample import BASELINE
from engine.tools.bench.users_results import Served, UsersRow, rows
from engine.trace.costs import CostModel
from engine.trace.events import Round
from engine.trace.metrics import depths
from engine.trace.speedup_model import interpolate

_SECONDS_BETWEEN_REPORTS = 0.5
_VERSION = 2  # the format of a stored result; version 1 lacks the number of passes


@dataclass(frozen=True)
class UsersSettings:
    """``gamma`` is for each method but auto, which chooses its own. ``prompts_first`` is as in `Batch`: all users then
    write at the same time although their prompts are long. ``until_one_ends`` says whether a measurement ends with the
    first answer that no other follows, because from then on fewer users share a pass."""

    users: tuple[int, ...]
    methods: tuple[str, ...]
    max_new_tokens: int = 128
    temperature: float = 0.0
    repeats: int = 1
    gamma: int | str = AUTO
    seed: int = 0
    prompts_first: bool = False
    until_one_ends: bool = False


@dataclass(frozen=True)
class UsersCell:
    """One measurement: all prompts, by ``users`` at once, with one method."""

    users: int
    method: str
    repeat: int = 0

    @property
    def key(self) -> tuple:
        return self.users, self.method, self.repeat


def check(settings: UsersSettings, engine: Engine, prompts: Sequence[Prompt]) -> UsersSettings:
    """Returns the settings with plain decoding first, and each number and method once. Raises BadInput."""
    methods = tuple(dict.fromkeys([BASELINE, *settings.methods]))
    if wrong := [name for name in methods if name not in (*engine.methods, AUTO)]:
        listed = ", ".join((*engine.methods, AUTO))
        raise BadInput(f"{wrong[0][:40]!r} cannot be measured with many users; choose from {listed}.")
    users = tuple(sorted({*settings.users}))
    limit = min(MAX_SHARERS, len(prompts))
    if not users or users[0] < 1 or users[-1] > limit:
        raise BadInput(f"--users must be numbers from 1 to {limit}: each user needs a prompt of their own.")
    return replace(settings, users=users, methods=methods)


class ManyUsers:
    """`run` measures the cells that are missing, and `rows` has the numbers. With ``folder`` finished cells are lines
    of a file there, named after ``kind`` and everything that is measured, or ``about``; ``again`` deletes them
    first."""

    def __init__(
        self, engine: Engine, settings: UsersSettings, prompts: Sequence[Prompt], folder: Path | None = None,
        again: bool = False, kind: str = "users", about: dict | None = None,
    ):  # fmt: skip
        self.engine = engine
        self.settings = s = check(settings, engine, prompts)
        self.configs = [
            run_config(engine, prompt, s.temperature, s.max_new_tokens, s.seed + i, s.gamma)
            for i, prompt in enumerate(answer_earlier_turns(engine, prompts, s.max_new_tokens))
        ]
        self.lengths = [prompt.length for prompt in prompts]
        if s.until_one_ends:  # the longest length of all keeps the batch full
            longest = max(config.max_new_tokens for config in self.configs)
            self.configs = [replace(config, max_new_tokens=longest) for config in self.configs]
        self.known_costs: Mapping[str, CostModel] = {}  # by method, instead of those that the engine measures
        about = about or (self._description(prompts) if folder else {})
        path = file_of(folder, kind, about, again) if folder else None
        self.file = ResultFile(path, about, asdict, partial(parse_values, Served))

    def _description(self, prompts: Sequence[Prompt]) -> dict:
        names = dict.fromkeys(self.settings.methods)
        if AUTO in names:
            del names[AUTO]
            names |= dict.fromkeys(self.engine.drafts.competitors())
        settings = asdict(self.settings)
        del settings["repeats"], settings["users"]  # more of them may be wanted later
        return describe(self.engine, names) | {"settings": settings, "prompts": digest(prompts), "version": _VERSION}

    @property
    def cells(self) -> list[UsersCell]:
        """The cells in the order of measuring."""
        s, cells = self.settings, []
        for repeat in range(s.repeats):
            for i, users in enumerate(s.users):
                by = (i + repeat) % len(s.methods)
                cells += [UsersCell(users, method, repeat) for method in (*s.methods[by:], *s.methods[:by])]
        return cells

    def missing(self) -> list[UsersCell]:
        return [cell for cell in self.cells if cell.key not in self.file.results]

    def extend(self, repeats: int) -> None:
        """Sets how many repeats of everything to measure."""
        self.settings = replace(self.settings, repeats=repeats)

    def forget_noise(self) -> None:
        """Forgets the cells whose speedup came out larger than it can be, and plain decoding beside them."""
        noisy = [row for row in self.rows() if row.measured and not row.measured.is_possible]
        again = {(row.users, method) for row in noisy for method in (row.method, BASELINE)}
        self.file.remove(key for key in [*self.file.results] if tuple(key[:2]) in again)

    def costs(self) -> dict[str, CostModel]:
        """Returns c and v of each method but auto, which has the costs of the drafter that it chooses."""
        return {method: self.engine.costs(method) for method in self.settings.methods if method != AUTO}

    def expected_steps(self, cell: UsersCell, most_tokens: float = math.inf) -> float:
        """Estimates how many plain steps the cell takes with answers of ``most_tokens`` or as long as they may be. It
        calibrates nothing again, because that would take the cache of the text that a cell under way is writing."""
        gamma = self.gamma(cell.method)
        tokens = statistics.mean(min(config.max_new_tokens, most_tokens) for config in self.configs)
        plain = self.known_costs.get(BASELINE) or self.engine.costs(BASELINE, retry=False)
        return together_steps(
            plain.v, self.lengths, cell.users, tokens, 2 if gamma == AUTO else int(gamma),
            self.settings.until_one_ends, self.known_costs.get(cell.method, plain).c,
        )  # fmt: skip

    def warm(self, cancelled: Cancelled = never) -> None:
        """Runs two users with each method for a few tokens. Otherwise the first cell would pay for loading."""
        tokens = min(WARM_UP_TOKENS, self.settings.max_new_tokens)
        short = [replace(config, max_new_tokens=tokens) for config in self.configs[:2]]
        for method in self.settings.methods:
            for _ in self._serve(UsersCell(2, method), short, cancelled):
                pass

    def run(self, progress: ProgressCallback = lambda fraction, message: None) -> None:
        missing = self.missing()
        if missing:
            progress(0.0, "Warming up")
            self.warm()
        for cell in missing:
            for _ in self.steps(cell):
                pass
            done, served = 1 - len(self.missing()) / len(self.cells), self.file.results[cell.key]
            rate = served.tokens / served.seconds
            progress(done, f"{quantity(cell.users, 'user')}, {cell.method}: {rate:.1f} tokens/s in total")

    def steps(self, cell: UsersCell, cancelled: Cancelled = never) -> Iterator[float]:
        """Measures a cell; yields the share that is done, pass after pass. Nothing is added if it is cancelled."""
        if served := (yield from self._serve(cell, self.configs, cancelled)):
            self.file.add(cell.key, served)

    def reports(self, cell: UsersCell, cancelled: Cancelled = never) -> Iterator[tuple[str, float]]:
        """Measures a cell; yields twice a second what runs, in words, and the share that is done."""
        due, method = 0.0, METHODS[cell.method].title if cell.method in METHODS else cell.method
        for share in self.steps(cell, cancelled):
            if time.monotonic() >= due:
                due = time.monotonic() + _SECONDS_BETWEEN_REPORTS
                yield f"{quantity(cell.users, 'user')} at once, {method}", share

    def _serve(
        self, cell: UsersCell, configs: Sequence[RunConfig], cancelled: Cancelled
    ) -> Generator[float, None, Served | None]:
        """Serves one cell to its end. Yields the share that is done; returns the answers, None if cancelled."""
        users, method = cell.users, cell.method
        configs = [replace(config, method=method, gamma=self.gamma(method)) for config in configs]
        # Measured once, because on a busy machine each request would measure them again, and on the shortest, because
        # the drafters of auto attend to it if they attend to any.
        shortest = min(configs, key=lambda config: len(config.prompt))
        costs = self.known_costs.get(method) or self.engine.prepare(shortest, cancelled, own_cache=True).costs
        length, emitted, writing = sum(config.max_new_tokens for config in configs), 0, _Writing(users, costs)
        batch, waiting = RunBatch(self.engine, users, self.settings.prompts_first), list(enumerate(configs))
        rounds_of: dict[int, list[Round]] = {name: [] for name, _ in waiting}
        start, others = time.perf_counter(), OtherPrograms(threads())
        try:
            while waiting or len(batch):
                while waiting and len(batch) < users:
                    name, config = waiting.pop(0)
                    self._add(batch, name, config, costs)
                rounds, before = [], time.perf_counter()
                for name, event in batch.step():
                    if isinstance(event, Exception):
                        raise event
                    if isinstance(event, Round):
                        rounds.append(event)
                        rounds_of[name].append(event)
                        emitted += len(event.emitted)
                writing.add(rounds, time.perf_counter() - before)
                if cancelled():
                    return None
                if self.settings.until_one_ends and not waiting and len(batch) < users:
                    break
                yield emitted / length
        finally:
            batch.close()
        seconds = time.perf_counter() - start
        every = [round_ for own in rounds_of.values() for round_ in own]
        tests = depths(every).values()
        return Served(
            tokens=emitted,
            seconds=seconds,
            writing=(writing.tokens, writing.seconds, writing.steps),
            full=(writing.passes, writing.drafted, writing.drafting),
            ttft=tuple(own[0].end for own in rounds_of.values() if own),
            rounds=len(every),
            drafted=sum(len(r.parents) for r in every),
            accepted=sum(accepted for accepted, _ in tests),
            tested=sum(tested for _, tested in tests),
            ids=tuple(tuple(token.id for r in own for token in r.emitted) for own in rounds_of.values()),
            busy=others.share,
        )

    def _add(self, batch: RunBatch, name: int, config: RunConfig, costs: CostModel) -> None:
        try:
            # A constraint ends an answer: nothing may follow it.
            batch.add(name, config, stop_at_eos=config.constraint is not None, costs=costs)
        except NoRoom as error:
            raise Unavailable(
                f"The memory suffices for {len(batch)} of {batch.limit} users with {config.method}: choose fewer "
                "users, shorter prompts or fewer tokens."
            ) from error

    def gamma(self, method: str) -> int | str:
        """Returns the draft length with which a method is measured."""
        return {BASELINE: 0, AUTO: AUTO}.get(method, self.settings.gamma)

    def rows(self) -> list[UsersRow]:
        """Returns a row for each number of users and method that was measured."""
        served: dict[tuple[int, str], list[Served]] = {}
        for cell in self.cells:
            if cell.key in self.file.results:
                served.setdefault((cell.users, cell.method), []).append(self.file.results[cell.key])
        return rows(served, is_greedy=not self.settings.temperature)


class _Writing:
    """Adds up the rounds in which all ``users`` got tokens, as did all of them in the round before. A step of the batch
    hands out what the pass of the step before has scored, so its rounds took the time of that step."""

    def __init__(self, users: int, costs: CostModel):
        self.costs, self.users, self.tokens, self.seconds, self.steps = costs, users, 0, 0.0, 0.0
        self.passes = self.drafted = self.drafting = 0
        self._before: float | None = None  # seconds of the step before, if all got tokens in it

    def add(self, rounds: Sequence[Round], seconds: float) -> None:
        is_full = len(rounds) == self.users
        if is_full and self._before is not None:
            self.tokens += sum(len(r.emitted) for r in rounds)
            self.seconds += self._before - sum(r.reading for r in rounds)  # it was in that step, too
            self.steps += _plain_steps(rounds, self.costs)
            self.passes += 1
            self.drafted += sum(len(r.parents) for r in rounds)
            self.drafting += sum(bool(r.parents) for r in rounds)
        self._before = seconds if is_full else None


def _plain_steps(rounds: Sequence[Round], costs: CostModel) -> float:
    """Returns the cost of rounds that shared a pass, by the model: v of all their tokens together, and c for each draft
    step, which is not shared."""
    drafting = sum((r.draft_steps or 0) * costs.draft_cost(r.drafter) for r in rounds)
    return drafting + interpolate(costs.v, sum(len(r.parents) + 1 for r in rounds))

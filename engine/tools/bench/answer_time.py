"""Estimates how long an answer takes to measure, at least and at most: closer with every point that was measured."""

import math
import statistics
from typing import Any

from engine.tools.bench.answer import NONE, UNSURE
from engine.tools.bench.expected_time import prompt_steps
from engine.tools.bench.sample import Sample
from engine.tools.bench.users import ManyUsers, UsersCell

Span = tuple[float, float]  # seconds, at least and at most


class AnswerTime:
    """The times of ``points``, which are `AnswerPoints`, as far as they are known now."""

    def __init__(self, points: Any):
        self._points, self._v = points, points.costs.plain.v
        self._turns: dict[int, list[float]] = {}  # the seconds of each row's turns
        self._plain: dict[int, list[Sample]] = {}  # the plain answers to each row
        self._cells: dict[tuple, list[float]] = {}
        turns = points.sweep.benchmark.samples
        for (_, row, _), sample in [*points.tried.items(), *((key, turn[NONE]) for key, turn in turns.items())]:
            self._plain.setdefault(row, []).append(sample)
        for (_, row, _), turn in turns.items():
            self._turns.setdefault(row, []).append(sum(sample.seconds for sample in turn.values()))
        in_turns = sum(turn[NONE].seconds for turn in turns.values())
        self.seconds_done = sum(map(sum, self._turns.values()))  # of what the files hold
        self._runs = self.seconds_done / in_turns if in_turns else len(points.sweep.grid.settings())  # plain answers
        self._chance = 0.0 if points.plan.is_greedy else self._weigh_chance()
        modelled = 0.0
        for file in points.loads:
            for key, served in file.many.file.results.items():
                cell = UsersCell(*key)
                self._cells.setdefault(_kind(file.many, cell), []).append(served.seconds)
                modelled += self._steps(file.many, cell)
        shared = sum(map(sum, self._cells.values()))
        self.seconds_done += shared
        plain = [(sample, row) for row, samples in self._plain.items() for sample in samples]
        steps = sum(s.tokens + prompt_steps(self._v, points.prompts[row].length) for s, row in plain)
        self._step = sum(sample.seconds for sample, _ in plain) / steps if steps else points.costs.plain.step
        self._shared_step = shared / modelled if modelled else self._step
        # Something happens between two measurements, too.
        self._pace = points.time_spent / points.time_kept if points.time_kept else 1.0

    def seconds_left(self) -> Span:
        """Returns the seconds of all that is missing, and of the turns that loads without a decision would add."""
        points, plan = self._points, self._points.plan
        spans = [self.seconds(point) for point in points.missing()]
        if not points.has_loads:
            least = plan.steps_together(self._v, min(2, len(plan.methods)), plan.turns_of_a_load)
            most = plan.steps_together(self._v, plan.settings_of_a_load, plan.most_turns_of_a_load)
            spans.append(self._guess(self._shared_step * least, self._shared_step * most))
        for file in points.find_undecided():
            each = sum(self._cell(file.many, UsersCell(file.users, name))[1] for name in file.many.settings.methods)
            spans.append((0.0, (plan.most_turns_of_a_load - plan.turns_of_a_load) * each))
        return sum(least for least, _ in spans), sum(most for _, most in spans)

    def seconds(self, point: Any) -> Span:
        """Returns the seconds of a point of `AnswerPoints.missing`."""
        if not isinstance(point, tuple):
            return self._turn(point.key[1])
        source, part = point
        if isinstance(part, UsersCell):
            return self._cell(source, part)
        return self._guess(source.expected_steps(part) * self._step)

    def _turn(self, row: int) -> Span:
        """Returns what the row's own turns took, or else as many plain answers as the turns of other rows took. In the
        first turn that is one for each setting, and drafts may change it."""
        answers = self._plain.get(row) or [sample for samples in self._plain.values() for sample in samples]
        alone = self._points.plan.steps_alone(self._v) * self._step
        seconds = self._runs * (statistics.mean(sample.seconds for sample in answers) if answers else alone)
        if own := self._turns.get(row):
            seconds = statistics.mean(own)
        ends = (1 - self._chance) * seconds, (1 + self._chance) * seconds
        return self._know(*ends) if self._turns else self._guess(*ends)

    def _weigh_chance(self) -> float:
        """Returns the share by which all turns may be longer or shorter than those so far, because the lengths of
        sampled answers vary: 2.5 standard errors. Before the first turn the rows' own lengths count as chance."""
        rows: dict[int, list[float]] = {}
        turns = self._points.sweep.benchmark.samples
        for (_, row, _), runs in [*turns.items(), *((key, {NONE: run}) for key, run in self._points.tried.items())]:
            rows.setdefault(row if turns else 0, []).extend(run.seconds for run in runs.values())
        ratios = [run / statistics.mean(own) for own in rows.values() for run in own if len(own) > 1]
        if len(ratios) < 2:
            return 0.0
        counts = math.sqrt(sum(1 / len(own) for own in rows.values())) / len(rows)
        return min(0.8, 2.5 * statistics.stdev(ratios) * counts)

    def _cell(self, many: ManyUsers, cell: UsersCell) -> Span:
        """Returns what equal cells took, or else what costs promise."""
        if equal := self._cells.get(_kind(many, cell)):
            return self._know(statistics.mean(equal))
        return self._guess(self._shared_step * self._steps(many, cell))

    def _steps(self, many: ManyUsers, cell: UsersCell) -> float:
        """Estimates the plain steps of a cell, which ends with its first answer. A constraint or a stop string may end
        one early."""
        ended = (i for i, prompt in enumerate(self._points.prompts) if prompt.constraint or "stop" in prompt.own)
        shortest = min((s.tokens for row in ended for s in self._plain.get(row, ())), default=math.inf)
        return many.expected_steps(cell, shortest)

    def _know(self, least: float, most: float | None = None) -> Span:
        return self._pace * least, self._pace * (most or least)

    def _guess(self, least: float, most: float | None = None) -> Span:
        return self._pace * UNSURE[0] * least, self._pace * UNSURE[1] * (most or least)


def _kind(many: ManyUsers, cell: UsersCell) -> tuple:
    """Returns what cells have in common that take as long."""
    return cell.users, cell.method, many.gamma(cell.method)

"""Tests rules by seeded runs, in units of work that continue one another (see `distribution_test.py`).

A unit needs only the result of the one before it, so it may run in another process.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

from app.jobs.updates import Report
from app.lab.distribution.request import RuleReport, RuleTest, RuleTests
from engine.runtime.job import Work
from engine.tools.exactness.results import Draws

SECONDS = 8.0  # the length of one unit; then another visitor has a turn
SECONDS_BETWEEN_REPORTS = 0.5
BATCH = 10  # runs of the toy between two looks at the clock; those of a real pair take long enough


def work_units(tests: RuleTests) -> Iterator[Work]:
    """Yields work until every test has its runs. The caller adds each report to ``tests`` before the next unit."""
    for test, earlier in tests.missing():
        yield _toy(test, earlier) if test.toy else _pair(test, earlier)


def _toy(test: RuleTest, earlier: RuleReport | None) -> Work:
    def work(engine, cancelled) -> Iterator[Report]:
        lab, config = _lab(), test.config
        toy = lab.toy_test(config.pair, test.length, config.sampling, config.gamma, test.method, test.rule)

        def texts(outcomes):
            return {outcome: tuple(toy.words[token] for token in outcome) for outcome in outcomes}

        seeded = SeededRuns(lab, test, toy.law, texts, earlier, first=config.seed)
        yield from seeded.reports(toy.runs, BATCH, cancelled)

    return work


def _pair(test: RuleTest, earlier: RuleReport | None) -> Work:
    def work(engine, cancelled) -> Iterator[Report]:
        lab = _lab()
        law = earlier.result.law if earlier else lab.exact_law(engine, test.config, test.length)
        mutant = lab.mutant_of(test.rule)
        rules = {"rules": mutant.rules} if mutant else {}
        config = replace(test.config, acceptance=mutant.mistake.acceptance) if mutant else test.config
        runs = lab.engine_runs(engine, config, test.length, cancelled=cancelled, **rules)
        seeded = SeededRuns(lab, test, law, lambda outcomes: lab.outcome_words(engine, outcomes), earlier, first=0)
        yield from seeded.reports(runs, 1, cancelled)

    return work


def _lab():
    """Imports transformers by way of engine.runtime.engine, as the engine's own thread does."""
    import engine.runtime.engine  # noqa: F401
    import engine.tools.exactness.distribution_test as lab  # isort: skip

    return lab


class SeededRuns:
    """The runs of one test, continued from ``earlier``. ``first``: the seed that the first run is called with."""

    def __init__(self, lab, test: RuleTest, law, words: Callable, earlier: RuleReport | None, first: int):
        self.lab, self.test, self.law, self.words, self.first = lab, test, law, words, first
        self.draws = earlier.result.draws if earlier else Draws(Counter())

    def reports(self, runs: Callable, batch: int, cancelled: Callable[[], bool]) -> Iterator[Report]:
        """Yields at most two reports a second, and fewer where judging takes long; the last one holds every run."""
        until, due, reported = time.monotonic() + SECONDS, 0.0, self.draws.runs
        while self.draws.runs < self.test.runs and not cancelled():
            done = self.draws.runs
            seeds = range(self.first + done, self.first + min(done + batch, self.test.runs))
            self.draws += self.lab.count_outcomes(runs, seeds, self.test.length, cancelled=cancelled)
            if time.monotonic() >= due and self.draws.runs > reported:
                before, reported = time.monotonic(), self.draws.runs
                yield Report(self._report())
                due = time.monotonic() + max(SECONDS_BETWEEN_REPORTS, 5 * (time.monotonic() - before))
            if time.monotonic() >= until:
                break
        if self.draws.runs > reported:
            yield Report(self._report())

    def _report(self) -> RuleReport:
        result = self.lab.judge(self.law, self.draws)
        return RuleReport(self.test, result, self.words([*dict.fromkeys([*self.law, *self.draws.counts])]))

"""Is it lossless? Seeded runs in pieces, each piece taking up where the last one stopped. See engine/lab/distribution.

A piece's findings are all that the next one needs, so it may run in another process.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator

from app.experiments.trials import RIGHT, Asked, Finding, Trials
from app.races import Report
from app.service import Work

SECONDS = 8.0  # of one piece; then whoever waits has a turn
SECONDS_BETWEEN_REPORTS = 0.5
BATCH = 10  # runs of the toy between two looks at the clock; of a real pair each takes long enough


def pieces(trials: Trials) -> Iterator[Work]:
    """Work until every test has its runs; asks ``trials`` before each, which the reports must have reached by then."""
    for asked, so_far in trials.missing():
        yield _toy(asked, so_far) if asked.toy else _pair(asked, so_far)


def _toy(asked: Asked, so_far: Finding | None) -> Work:
    def work(engine, cancelled) -> Iterator[Report]:
        lab = _lab()
        from engine.toy import joint, weather

        target, draft = weather()
        law = joint(target, [0], asked.length, asked.sampling)
        runs = lab.toy_runs(
            target, draft, asked.length, asked.sampling, asked.gamma, _mutant(asked.rule), asked.drafted_by
        )
        words = {outcome: tuple(target.words[token] for token in outcome) for outcome in law}
        made = _Made(lab, asked, law, lambda outcomes: words, so_far)
        yield from made.reports(runs, BATCH, cancelled)

    return work


def _pair(asked: Asked, so_far: Finding | None) -> Work:
    def work(engine, cancelled) -> Iterator[Report]:
        lab = _lab()
        law = so_far.law if so_far else lab.law_of(engine, asked.config, asked.length)
        mutant = _mutant(asked.rule)
        rules = {"rules": mutant.rules} if mutant else {}
        runs = lab.engine_runs(engine, asked.config, asked.length, cancelled=cancelled, **rules)
        made = _Made(lab, asked, law, lambda outcomes: lab.words_of(engine, outcomes), so_far, first=0)
        yield from made.reports(runs, 1, cancelled)

    return work


def _lab():
    """transformers must come in by way of engine.loading, as on the engine's own thread (see Engine in service.py)."""
    import engine.loading  # noqa: F401
    import engine.lab.distribution as lab  # isort: skip

    return lab


def _mutant(rule: str):
    from engine.broken import MUTANTS

    return None if rule == RIGHT else next(mutant for mutant in MUTANTS if mutant.name == rule)


class _Made:
    """The runs of one test as they come. ``first``: the seed of the first run, where the runs do not add it."""

    def __init__(self, lab, asked: Asked, law, words: Callable, so_far: Finding | None, first: int | None = None):
        self.lab, self.asked, self.law, self.words = lab, asked, law, words
        self.first = asked.first if first is None else first
        self.draws = lab.Draws(Counter())
        if so_far:
            self.draws = lab.Draws(Counter(so_far.counts), so_far.accepted, so_far.tested)

    def reports(self, runs: Callable, batch: int, cancelled: Callable[[], bool]) -> Iterator[Report]:
        """At most two a second, and fewer where judging takes long; the last one has all that was made."""
        until, due, told = time.monotonic() + SECONDS, 0.0, self.draws.runs
        while self.draws.runs < self.asked.runs and not cancelled():
            made = self.draws.runs
            seeds = range(self.first + made, self.first + min(made + batch, self.asked.runs))
            self.draws += self.lab.drawn(runs, seeds, self.asked.length, cancelled=cancelled)
            if time.monotonic() >= due and self.draws.runs > told:
                before, told = time.monotonic(), self.draws.runs
                yield Report(self._finding())
                due = time.monotonic() + max(SECONDS_BETWEEN_REPORTS, 5 * (time.monotonic() - before))
            if time.monotonic() >= until:
                break
        if self.draws.runs > told:
            yield Report(self._finding())

    def _finding(self) -> Finding:
        test = self.lab.judge(self.law, self.draws)
        counts = dict(self.draws.counts)
        return Finding(
            self.asked, self.law, counts, self.words([*dict.fromkeys([*self.law, *counts])]), self.draws.accepted,
            self.draws.tested, test.statistic, test.freedom, test.p_value, test.distance, test.band, test.false_alarm,
        )  # fmt: skip

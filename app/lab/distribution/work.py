"""Describes tests of rules, and runs them in units of work that continue one another (see `distribution_test.py`).

A unit needs only the result of the one before it, so it may run in another process.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

from app.jobs.updates import Report
from engine.config import RunConfig
from engine.errors import BadInput
from engine.runtime.job import Work
from engine.tools.exactness.results import (
    JSON_END,
    JSON_TOY,
    MISTAKES,
    RIGHT,
    TOYS,
    Draws,
    Outcome,
    RuleTestResult,
    as_it_should_be,
)

SECONDS = 8.0  # the length of one unit; then another visitor has a turn
_SECONDS_BETWEEN_REPORTS = 0.5
BATCH = 10  # runs of the toy between two looks at the clock; a run of a real pair takes long enough
TOY_PROMPT = "sun"
# Settings of the toy that reveal mistakes which its first settings hide. One u used twice needs a residual with two
# words, which occurs after "rain"; at temperature 1 rain is frequent. With two words left (top-k 2) the second sibling
# is certain, q = 1, but the first one's q is a half.
REVEALING: Mapping[str, Mapping[str, float]] = {
    "u-reused-for-closing": {"gamma": 3, "temperature": 1.0, "top_k": 0, "top_p": 0.9, "runs": 2_000, "length": 3},
    "sibling-q": {"gamma": 2, "temperature": 0.5, "top_k": 2, "top_p": 1.0, "runs": 1_000, "length": 4},
}


def rules_of(pair: str) -> list[str]:
    """Lists the right rule for single tokens, and its mistakes with a toy or with a real pair. Mistakes of
    block verification show in settings of their own (tests/engine/tools/exactness/test_mutants.py)."""
    kinds = {name: mistake for name, mistake in MISTAKES.items() if mistake.acceptance == "token"}
    return [RIGHT, *(name for name, m in kinds.items() if (m.toy == pair if pair in TOYS else m.on_pairs))]


@dataclass(frozen=True)
class RuleTest:
    """``runs`` seeded runs under one rule. Of ``config``, ``max_new_tokens`` says how many tokens make an outcome, and
    ``seed`` is the first run's. Raises BadInput for what cannot be tested."""

    config: RunConfig
    rule: str = RIGHT
    runs: int = 1_000

    def __post_init__(self):
        if self.rule != RIGHT and self.rule not in MISTAKES:
            raise BadInput(f"There is no rule {self.rule[:40]!r}; choose one of the list.")
        if self.rule not in rules_of(self.config.pair):
            raise BadInput("This model cannot show this mistake; choose another rule of the list, or another model.")
        if self.config.sampling.greedy:
            raise BadInput("At temperature 0 there is one outcome and nothing to test; choose a higher temperature.")

    @property
    def is_toy(self) -> bool:
        return self.config.pair in TOYS

    @property
    def is_json(self) -> bool:
        """Whether its outcomes are whole answers that a grammar holds to JSON."""
        return self.config.pair == JSON_TOY

    @property
    def length(self) -> int:
        return self.config.max_new_tokens

    @property
    def method(self) -> str:
        """On the toy, each mistake sets the method that shows it."""
        return MISTAKES[self.rule].method if self.is_toy and self.rule != RIGHT else self.config.method

    @property
    def as_dict(self) -> dict:
        """Every setting, as files have it."""
        return {
            "pair": self.config.pair, "rule": self.rule, "method": self.method, "gamma": self.config.gamma,
            "sampling": asdict(self.config.sampling), "runs": self.runs, "length": self.length,
            "first": self.config.seed, "prompt": "" if self.is_toy else self.config.prompt,
        }  # fmt: skip

    @property
    def settings(self) -> "RuleTest":
        """Equal for two rules that may be compared."""
        return replace(self, rule=RIGHT)


@dataclass(frozen=True)
class RuleReport:
    """A test with its result so far. ``words``: the text of each token of every outcome."""

    test: RuleTest
    result: RuleTestResult
    words: Mapping[Outcome, tuple[str, ...]]

    @property
    def rule(self) -> str:
        return self.test.rule

    @property
    def outcomes(self) -> list[Outcome]:
        """Every outcome of the law, then any other that was seen."""
        return list(dict.fromkeys([*self.result.law, *self.result.draws.counts]))

    def mass(self, outcome: Outcome) -> float:
        return self.result.law.get(outcome, 0.0)

    def count(self, outcome: Outcome) -> int:
        return self.result.draws.counts.get(outcome, 0)

    @property
    def impossible(self) -> list[Outcome]:
        """Returns those that were seen although the target never writes them, the most frequent first."""
        outcomes = [outcome for outcome in self.outcomes if self.count(outcome) and self.mass(outcome) <= 0]
        return sorted(outcomes, key=lambda outcome: -self.count(outcome))

    def json(self, answer: Outcome) -> str:
        """Joins an answer of the JSON toy, without its end."""
        return "".join(self.words.get(answer, ())).removesuffix(JSON_END)

    def right_json(self, answer: Outcome) -> str:
        """Returns the right answer that begins as a broken one does."""
        possible = {self.json(right): mass for right, mass in self.result.law.items() if mass > 0}
        return as_it_should_be(self.json(answer), possible)

    @property
    def is_complete(self) -> bool:
        return self.result.runs >= self.test.runs


Tested = Mapping[str, RuleReport]  # by rule, all with the same settings


class RuleTests:
    """One or more tests with the same settings, each under its own rule, and their results so far."""

    def __init__(self, tests: Sequence[RuleTest]):
        self.tests = tuple(tests)
        self.results: dict[RuleTest, RuleReport] = {}

    def add(self, report: RuleReport) -> None:
        self.results[report.test] = report

    def missing(self) -> Iterator[tuple[RuleTest, RuleReport | None]]:
        """Yields the test at hand and its result so far, repeatedly, until each has its runs."""
        for test in self.tests:
            while (earlier := self.results.get(test)) is None or not earlier.is_complete:
                yield test, earlier

    @property
    def share(self) -> float:
        """The share of all runs that have ended, 0 … 1."""
        runs = sum(report.result.runs for report in self.results.values())
        return runs / sum(test.runs for test in self.tests)


# ── runs ──


def work_units(tests: RuleTests) -> Iterator[Work]:
    """Yields work until every test has its runs. The caller adds each report to ``tests`` before the next unit."""
    for test, earlier in tests.missing():
        yield partial(_unit, test, earlier)


def _unit(test: RuleTest, earlier: RuleReport | None, engine, cancelled: Callable[[], bool]) -> Iterator[Report]:
    """Yields at most two reports a second, and fewer where judging takes long; the last one holds every run."""
    lab = _lab()
    law, run, words, first = (_toy if test.is_toy else _pair)(lab, engine, test, earlier, cancelled)
    draws, batch = earlier.result.draws if earlier else Draws(Counter()), BATCH if test.is_toy else 1
    until, due, reported = time.monotonic() + SECONDS, 0.0, draws.runs
    while draws.runs < test.runs and not cancelled():
        seeds = range(first + draws.runs, first + min(draws.runs + batch, test.runs))
        draws += lab.count_outcomes(run, seeds, test.length, cancelled=cancelled)
        now = time.monotonic()
        is_over = now >= until or draws.runs >= test.runs
        if draws.runs > reported and (is_over or now >= due):
            reported = draws.runs
            yield _report(lab, test, law, draws, words)
            due = time.monotonic() + max(_SECONDS_BETWEEN_REPORTS, 5 * (time.monotonic() - now))
        if is_over:
            return
    if draws.runs > reported:  # stopped
        yield _report(lab, test, law, draws, words)


def _lab():
    """Imports transformers by way of engine.runtime.engine, as the engine's own thread does."""
    import engine.runtime.engine  # noqa: F401
    import engine.tools.exactness.distribution_test as lab  # isort: skip

    return lab


def _report(lab, test: RuleTest, law: Mapping, draws: Draws, words: Callable) -> Report:
    return Report(RuleReport(test, lab.judge(law, draws), words([*dict.fromkeys([*law, *draws.counts])])))


def _toy(lab, engine, test: RuleTest, earlier: RuleReport | None, cancelled) -> tuple:
    """Returns the law, a function from a seed to a run, one from outcomes to their words, and the first seed."""
    config = test.config
    toy = lab.toy_test(config.pair, test.length, config.sampling, config.gamma, test.method, test.rule)

    def words(outcomes):
        return {outcome: tuple(toy.words[token] for token in outcome) for outcome in outcomes}

    return toy.law, toy.runs, words, config.seed


def _pair(lab, engine, test: RuleTest, earlier: RuleReport | None, cancelled) -> tuple:
    """Returns the same as `_toy`; a run's own seed comes on top of its settings'."""
    law = earlier.result.law if earlier else lab.exact_law(engine, test.config, test.length)
    mutant = lab.mutant_of(test.rule)
    rules = {"rules": mutant.rules} if mutant else {}
    config = replace(test.config, acceptance=mutant.mistake.acceptance) if mutant else test.config
    runs = lab.engine_runs(engine, config, test.length, cancelled=cancelled, **rules)
    return law, runs, partial(lab.outcome_words, engine), 0

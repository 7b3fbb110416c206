"""Proves a method lossless on one machine: its law by both rules, with a penalty and under a constraint, shared passes,
greedy text.

Each check runs on a `Subject`: the three-word toy, whose law is known on paper, or a real pair, whose law is computed
from the target alone.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from engine.config import AUTO, METHODS, Constraint, RunConfig, SamplingParams
from engine.decoding.batch import Batch
from engine.decoding.loop import TRUE_RULES
from engine.errors import BadInput, quantity, spell
from engine.tools.exactness import distribution_test
from engine.tools.exactness.distribution_test import Runs, count_outcomes, judge
from engine.tools.exactness.results import JSON_TOKENS, TOY_METHODS, TOY_PROOFS, Law
from engine.tools.exactness.toy_json import json_law, json_runs
from engine.tools.exactness.toy_models import exact_distribution, make_drafter, toy_decoder, weather_pair
from engine.trace.events import Round
from engine.trace.metrics import NEAR_TIE, first_difference

State = Literal["passed", "failed", "open", "not offered"]
Ids = tuple[int, ...]
LENGTH = 3  # tokens whose law is tested; the first is never a draft
TOGETHER = 3  # requests that share passes
_TOKENS = 24  # length of a text that is compared with another
_GREEDY, _DRAWN, _FEW_OUTCOMES = SamplingParams(0.0), SamplingParams(1.0), SamplingParams(1.0, top_k=3)
_PENALTY = 1.3
_LETTERS = Constraint("regex", "[abc, ]{4,60}")


@dataclass(frozen=True)
class Check:
    """``state``: "open" where nothing was drafted, so that nothing was tested; "not offered" where the method refuses
    the setting. ``words``: the result in a sentence; ``numbers``: the figures by name."""

    name: str
    state: State
    words: str
    numbers: dict[str, float | int | None]


@dataclass(frozen=True)
class ToySubject:
    """The weather pair with a method that needs no weights, or whose draft is a table of three words."""

    method: str
    gamma: int = 3
    name: str = "toy"
    sampling: SamplingParams = _DRAWN

    def law(self, sampling: SamplingParams, length: int) -> Law:
        return exact_distribution(weather_pair()[0], [0], length, sampling)

    def runs(self, sampling: SamplingParams, acceptance: str, length: int) -> Runs:
        target, draft = weather_pair()
        return distribution_test.toy_runs(target, draft, length, sampling, self.gamma, None, self.method, acceptance)

    def texts(self, sampling: SamplingParams, seeds: Sequence[int], is_together: bool) -> list[list[Round]]:
        decoders = {seed: self._decoder(self.method, self.gamma, sampling, seed) for seed in seeds}
        if not is_together:
            return [list(decoder.rounds()) for decoder in decoders.values()]
        return _together(Batch(), {seed: decoder.steps() for seed, decoder in decoders.items()})

    def plain(self, sampling: SamplingParams, seed: int) -> list[Round]:
        return list(self._decoder("none", 0, sampling, seed).rounds())

    def constrained_runs(self) -> tuple[Law, Runs, int]:
        """Returns the law of runs with a constraint, these runs, and how many tokens are counted."""
        runs = json_runs(lambda draft: make_drafter(self.method, draft), self.sampling, self.gamma, TRUE_RULES)
        return json_law(self.sampling), runs, JSON_TOKENS

    def _decoder(self, method: str, gamma: int, sampling: SamplingParams, seed: int):
        target, draft = weather_pair()
        drafter, prompt = make_drafter(method, draft), [0, 1, 2, 0, 1]
        return toy_decoder(target, drafter, prompt, sampling, gamma, seed=seed, max_new_tokens=_TOKENS, method=method)


@dataclass(frozen=True)
class EngineSubject:
    """A real pair. Few tokens may follow each other there, so that their law can be enumerated. ``open_batch``: makes a
    batch of the engine for a given number of requests."""

    engine: Any
    open_batch: Callable[[int], Any]
    method: str
    gamma: int = 3
    prompt: str = "Repeat this: a b c, a b c, a b c."
    sampling: SamplingParams = _FEW_OUTCOMES

    @property
    def name(self) -> str:
        return self.engine.pair.name

    def law(self, sampling: SamplingParams, length: int) -> Law:
        return distribution_test.exact_law(self.engine, self._config(sampling), length)

    def runs(self, sampling: SamplingParams, acceptance: str, length: int) -> Runs:
        config = replace(self._config(sampling), acceptance=acceptance)
        return distribution_test.engine_runs(self.engine, config, length)

    def texts(self, sampling: SamplingParams, seeds: Sequence[int], is_together: bool) -> list[list[Round]]:
        configs = {seed: replace(self._config(sampling), seed=seed) for seed in seeds}
        if not is_together:
            return [self._rounds(config) for config in configs.values()]
        return _together(self.open_batch(len(seeds)), configs)

    def plain(self, sampling: SamplingParams, seed: int) -> list[Round]:
        return self._rounds(replace(self._config(sampling), seed=seed).baseline())

    def constrained_runs(self) -> tuple[Law, Runs, int]:
        config = self._config(self.sampling, _LETTERS)
        law = distribution_test.exact_law(self.engine, config, LENGTH)
        return law, distribution_test.engine_runs(self.engine, config, LENGTH), LENGTH

    def _config(self, sampling: SamplingParams, constraint: Constraint | None = None) -> RunConfig:
        return RunConfig(self.prompt, self.name, self.method, self.gamma, sampling, _TOKENS, constraint=constraint)

    def _rounds(self, config: RunConfig) -> list[Round]:
        with closing(self.engine.run(config)) as events:
            return [event for event in events if isinstance(event, Round)]


Subject = ToySubject | EngineSubject


def _together(batch, requests: dict[int, Any]) -> list[list[Round]]:
    rounds: dict[int, list[Round]] = {seed: [] for seed in requests}
    for seed, request in requests.items():
        batch.add(seed, request)
    try:
        while len(batch):
            for name, event in batch.step():
                if isinstance(event, Exception):
                    raise event
                if isinstance(event, Round):
                    rounds[name].append(event)
    finally:
        batch.close()
    return list(rounds.values())


def subject_of(method: str, gamma: int, engine: Any, open_batch: Any) -> Subject:
    """Returns the subject of a proof: the toy without an ``engine``. Raises BadInput for a method that the toy has no
    draft for, or that drafts nothing."""
    if method == "none":
        raise BadInput("Plain decoding drafts nothing, so there is nothing to prove; name a method that drafts.")
    if engine is not None:
        return EngineSubject(engine, open_batch, method, gamma)
    check_toy_method(method, TOY_PROOFS)
    return ToySubject(method, gamma)


def check_toy_method(method: str, names: Sequence[str] = tuple(TOY_METHODS)) -> None:
    """Raises BadInput for a method that needs weights which the three-word toy does not have."""
    if method not in names:
        if method not in {AUTO, *METHODS, *TOY_METHODS}:
            raise BadInput(
                f"There is no method {spell(method)}; choose from {', '.join(names)}, or with --pair others."
            )
        raise BadInput(
            f"The toy has no draft for the method {method!r}; name a pair that has one with --pair, or choose from "
            f"{', '.join(names)}."
        )


def prove(
    subject: Subject,
    runs: int,
    progress: Callable[[float, str], None] = lambda share, words: None,
    acceptance: str = "",
) -> Iterator[Check]:
    """Yields each check when it is done. ``acceptance``: the one rule whose law is tested, instead of token and block;
    the checks after the penalty are by token."""
    sampling, penal = subject.sampling, replace(subject.sampling, repetition_penalty=_PENALTY)
    rule = acceptance or "token"
    blocks = ("blocks", lambda show: _law(subject, "blocks", sampling, "block", runs, show))
    checks = (
        ("law", lambda show: _law(subject, "law", sampling, rule, runs, show)),
        *(() if acceptance else (blocks,)),
        ("penalty", lambda show: _law(subject, "penalty", penal, rule, runs, show)),
        ("constraint", lambda show: _judge("constraint", *subject.constrained_runs(), runs, show)),
        ("shared passes", lambda show: _check_sharing(subject)),
        ("greedy", lambda show: _check_greedy(subject)),
    )
    for done, (name, run) in enumerate(checks):
        try:
            yield run(lambda share, done=done, name=name: progress((done + share) / len(checks), name))
        except BadInput as error:
            yield Check(name, "not offered", str(error), {})


def _law(subject: Subject, name: str, sampling: SamplingParams, acceptance: str, runs: int, show) -> Check:
    return _judge(name, subject.law(sampling, LENGTH), subject.runs(sampling, acceptance, LENGTH), LENGTH, runs, show)


def _judge(name: str, law: Law, run: Runs, length: int, runs: int, show) -> Check:
    draws = count_outcomes(run, range(runs), length, show)
    test = judge(law, draws)
    numbers = {
        "runs": test.runs, "outcomes": len(law), "p_value": test.p_value, "distance": test.distance,
        "band_low": test.band[0], "band_high": test.band[1], "alpha": draws.alpha, "tested": draws.tested,
    }  # fmt: skip
    if not test.lossless:
        return Check(name, "failed", f"The output is not the target's distribution (p = {test.p_value:.3g}).", numbers)
    if not draws.tested:
        return Check(name, "open", "Nothing was drafted, so nothing was tested.", numbers)
    words = f"The target's distribution, as far as {quantity(test.runs, 'run')} can tell (p = {test.p_value:.3g})."
    return Check(name, "passed", words, numbers)


def _check_sharing(subject: Subject) -> Check:
    """Checks that requests which share passes write what each writes alone."""
    seeds = range(TOGETHER)
    sampling = subject.sampling if isinstance(subject, ToySubject) else _GREEDY  # rounding may change a sampled token
    alone, together = (subject.texts(sampling, seeds, is_together) for is_together in (False, True))
    return _same("shared passes", together, alone, f"{TOGETHER} requests in one pass", "alone")


def _check_greedy(subject: Subject) -> Check:
    """Checks that the greedy text is the one of plain decoding."""
    ours = subject.texts(_GREEDY, (0,), False)
    return _same("greedy", ours, [subject.plain(_GREEDY, 0)], "With drafts", "without")


def _same(name: str, ours: list[list[Round]], theirs: list[list[Round]], mine: str, other: str) -> Check:
    drafted = sum(len(round_.parents) for rounds in ours for round_ in rounds)
    differs, gaps = 0, []
    for a, b in zip(ours, theirs, strict=True):
        at = first_difference(_ids(a), _ids(b))
        if at is not None:
            differs += 1
            gaps.append(_gap(b, at))
    numbers = {"texts": len(ours), "differ": differs, "drafted": drafted, "largest_gap": _largest(gaps)}
    if differs and not all(gap is not None and gap < NEAR_TIE for gap in gaps):
        words = f"{mine}: not the same as {other} in {differs} of {quantity(len(ours), 'text')}."
        return Check(name, "failed", words, numbers)
    if not drafted:
        return Check(name, "open", "Nothing was drafted, so nothing was tested.", numbers)
    ties = f", but for {quantity(differs, 'near tie')} that rounding decides" if differs else ""
    return Check(name, "passed", f"{mine}: the same text as {other}{ties}.", numbers)


def _ids(rounds: Sequence[Round]) -> Ids:
    return tuple(token.id for round_ in rounds for token in round_.emitted if token.id is not None)


def _gap(rounds: Sequence[Round], at: int) -> float | None:
    gaps = [token.gap for round_ in rounds for token in round_.emitted]
    return gaps[at] if at < len(gaps) else None


def _largest(gaps: Sequence[float | None]) -> float | None:
    known = [gap for gap in gaps if gap is not None]
    return max(known) if known and len(known) == len(gaps) else None


def to_dict(subject: Subject, method: str, checks: Sequence[Check]) -> dict:
    """Returns the proof as JSON values."""
    states = {check.state for check in checks}
    is_proved = "passed" in states and states <= {"passed", "not offered"}
    return {"speclens": "proof", "method": method, "subject": subject.name, "proved": is_proved,
            "checks": [asdict(check) for check in checks]}  # fmt: skip

"""Tests whether seeded runs are distributed as the target's own output, on toy and real models.

The law (exact distribution) of the first tokens is computed by enumeration, so one sample is enough: Pearson's
chi-squared at a stated false-alarm rate, and the total variation distance next to the 95 % band that samples of the law
itself would show.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from engine.config import RunConfig, SamplingParams
from engine.decoding.constrained import grammar_reader
from engine.decoding.loop import TRUE_RULES, Rules
from engine.decoding.tokenization import Detokenizer, encode_prompt
from engine.errors import BadInput
from engine.sampling.constraint import GrammarReader, mask_logits
from engine.sampling.warping import History, penalise, warp
from engine.tools.exactness.constraint_mutants import CONSTRAINT_MUTANTS
from engine.tools.exactness.mutants import MUTANTS, Mutant
from engine.tools.exactness.results import JSON_TOKENS, JSON_TOY, RIGHT, Draws, Law, Outcome, RuleTestResult
from engine.tools.exactness.toy_json import WORDS, json_drafter, json_law, json_runs
from engine.tools.exactness.toy_models import ToyLM, exact_distribution, make_drafter, toy_decoder, weather_pair
from engine.trace.events import ACCEPTED, TESTED, Round, Token

_FEWEST = 5.0  # expected in a cell for chi-squared to hold; rarer outcomes are counted together
_BAND = 2_000  # simulated sets of runs that the noise band is read from
_MOST_OUTCOMES = 4_000

ShareCallback = Callable[[float], None]  # the share of the runs that is done
Runs = Callable[[int], Iterator[Round]]  # seed → the rounds of that run


def judge(law: Law, draws: Draws) -> RuleTestResult:
    """Returns chi-squared and total variation of the draws against the law."""
    runs = draws.runs
    statistic, freedom = chi_squared(draws.counts, {cell: runs * mass for cell, mass in law.items()})
    p_value = 1.0
    if freedom:
        half = torch.tensor([freedom / 2, statistic / 2], dtype=torch.float64)
        p_value = float(torch.special.gammaincc(half[0], half[1])) if statistic < float("inf") else 0.0
    return RuleTestResult(law, draws, statistic, freedom, p_value, _distance(law, draws.counts), _band(law, runs))


def chi_squared(seen: Mapping[Outcome, int], expected: Mapping[Outcome, float]) -> tuple[float, int]:
    """Returns Pearson's statistic and its degrees of freedom; infinity if an outcome of probability 0 was seen.

    >>> chi_squared({(0,): 60, (1,): 40}, {(0,): 50.0, (1,): 50.0})
    (4.0, 1)
    """
    if any(count and expected.get(cell, 0.0) <= 0 for cell, count in seen.items()):
        return float("inf"), 1
    cells = [(seen.get(cell, 0), mean) for cell, mean in expected.items() if mean >= _FEWEST]
    rare = [(seen.get(cell, 0), mean) for cell, mean in expected.items() if 0 < mean < _FEWEST]
    if rare:
        cells.append((sum(count for count, _ in rare), sum(mean for _, mean in rare)))
    return sum((count - mean) ** 2 / mean for count, mean in cells), len(cells) - 1


def _distance(law: Law, counts: Mapping[Outcome, int]) -> float:
    runs = sum(counts.values())
    return sum(abs(counts.get(cell, 0) / runs - law.get(cell, 0.0)) for cell in {*law, *counts}) / 2


def _band(law: Law, runs: int) -> tuple[float, float]:
    masses = np.array(list(law.values()))
    drawn = np.random.default_rng(0).multinomial(runs, masses / masses.sum(), _BAND) / runs
    low, high = np.percentile(np.abs(drawn - masses).sum(1) / 2, [2.5, 97.5])
    return float(low), float(high)


class ToyTest(NamedTuple):
    """What a toy's answers are counted against, how a seed's are written, how many tokens of each count, and the words
    of its vocabulary."""

    law: Law
    runs: Runs
    length: int
    words: tuple[str, ...]


def mutant_of(rule: str) -> Mutant | None:
    """Returns the mutant of this name; None for the right rule."""
    return None if rule == RIGHT else next(each for each in (*MUTANTS, *CONSTRAINT_MUTANTS) if each.name == rule)


def toy_test(
    toy: str, length: int, sampling: SamplingParams, gamma: int, method: str, rule: str,
    acceptance: str = "token",
) -> ToyTest:  # fmt: skip
    """Returns the test of a rule on one of the toys. The JSON toy ignores ``length``."""
    mutant = mutant_of(rule)
    if toy == JSON_TOY:
        rules = mutant.rules if mutant else TRUE_RULES
        runs = json_runs(lambda draft: json_drafter(method, draft), sampling, gamma, rules, acceptance)
        return ToyTest(json_law(sampling), runs, JSON_TOKENS, WORDS)
    target, draft = weather_pair()
    runs = toy_runs(target, draft, length, sampling, gamma, mutant, method, acceptance)
    return ToyTest(exact_distribution(target, [0], length, sampling), runs, length, target.words)


def toy_runs(
    target: ToyLM, draft: ToyLM, length: int, sampling: SamplingParams, gamma: int, mutant: Mutant | None, method: str,
    acceptance: str = "token",
) -> Runs:  # fmt: skip
    """Returns seed → rounds, of runs just long enough that each of the first ``length`` tokens can be a draft. A mutant
    brings the ``acceptance`` rule that it breaks."""
    settings: dict[str, Any] = {
        "max_new_tokens": length + gamma,
        "rules": mutant.rules if mutant else TRUE_RULES,
        "trace": False,
    }
    settings["acceptance"] = mutant.mistake.acceptance if mutant else acceptance

    def rounds(seed: int) -> Iterator[Round]:
        drafter = mutant.drafter(draft) if mutant else make_drafter(method, draft)
        return toy_decoder(target, drafter, [0], sampling, gamma, seed=seed, **settings).rounds()

    return rounds


def engine_runs(
    engine,
    config: RunConfig,
    length: int,
    rules: Rules = TRUE_RULES,
    cancelled: Callable[[], bool] = lambda: False,
) -> Runs:
    """Returns seed → rounds as `toy_runs` does, for a real pair, whose first token may be a draft, too."""
    spare = 1 if isinstance(config.gamma, str) else max(1, config.gamma)  # a run's last positions get shorter drafts
    short = replace(config, max_new_tokens=length + spare, trace=False)

    def rounds(seed: int) -> Iterator[Round]:
        own = replace(short, seed=config.seed + seed)
        with closing(engine.run(own, cancelled, rules=rules, drafts_first=True)) as events:
            yield from (event for event in events if isinstance(event, Round))

    return rounds


def count_outcomes(
    runs: Runs,
    seeds: Sequence[int],
    length: int,
    progress: ShareCallback = lambda share: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Draws:
    """Counts the first ``length`` tokens of each seed's run, and ends the run there. A cancelled run is not counted."""
    counts, accepted, tested = Counter(), 0, 0
    for done, seed in enumerate(seeds, 1):
        tokens = _beginning(runs(seed), length)
        if cancelled():
            break
        counts[tuple(token.id for token in tokens if token.emitted)[:length]] += 1
        accepted += sum(token.status in ACCEPTED for token in tokens)
        tested += sum(token.status in TESTED for token in tokens)
        progress(done / len(seeds))
    return Draws(counts, accepted, tested)


def _beginning(rounds: Any, length: int) -> list[Token]:
    """Returns the tokens of a run up to the round that emits the ``length``-th one."""
    tokens: list[Token] = []
    with closing(rounds):
        for round_ in rounds:
            tokens += round_.tokens
            if sum(token.emitted for token in tokens) >= length:
                break
    return tokens


@torch.inference_mode()
def exact_law(engine, config: RunConfig, length: int) -> dict[Outcome, float]:
    """Returns the exact distribution of the first ``length`` tokens, from the target alone; end of text ends an
    outcome. Raises BadInput at temperature 0 and for more than 4,000 outcomes."""
    if config.sampling.temperature == 0:
        raise BadInput("At temperature 0 there is one outcome and nothing to test; choose a higher temperature.")
    runner, prompt = engine.target.runner, list(encode_prompt(engine.target.tokenizer, config))
    reader = grammar_reader(engine.grammars, config)
    law: dict[Outcome, float] = {(): 1.0}
    try:
        runner.reset(len(prompt) + length + 1)
        runner.prefill(prompt[:-1])
        for _ in range(length):
            law = _extend(engine, config.sampling, prompt, law, reader)
    finally:
        runner.release()
    return law


def _extend(
    engine, sampling: SamplingParams, prompt: list[int], law: dict, reader: GrammarReader | None
) -> dict[Outcome, float]:
    runner, longer = engine.target.runner, {}
    for so_far, mass in law.items():
        if so_far and so_far[-1] in engine.target.eos:
            longer[so_far] = mass
            continue
        fed = [*prompt[-1:], *so_far]
        logits = runner.forward(torch.tensor(fed, device=runner.device), last=True).float()
        runner.rollback(len(prompt) - 1)
        if sampling.repetition_penalty != 1.0:
            seen = History([*prompt, *so_far], runner.vocab_size, runner.device).seen[None]
            logits = penalise(logits, seen, sampling.repetition_penalty)
        if reader is not None:
            logits = mask_logits(logits, reader.allowed_after(so_far)[None])
        row = warp(logits, sampling)[0].double().cpu()
        for token in row.nonzero()[:, 0].tolist():
            longer[*so_far, token] = mass * float(row[token] / row.sum())
        if len(longer) > _MOST_OUTCOMES:
            raise BadInput("There are too many outcomes to count; choose a smaller top-k, such as 3, or fewer tokens.")
    return longer


def outcome_words(engine, outcomes: Sequence[Outcome]) -> dict[Outcome, tuple[str, ...]]:
    """Returns the text of each token of each outcome; vocabulary entries where a token has no text of its own."""
    names = Detokenizer(engine.target.tokenizer)
    return {outcome: tuple(names.name(token) for token in outcome) for outcome in outcomes}

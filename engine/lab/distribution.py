"""Is it lossless? Many seeded runs against the target's own distribution, on toy and real models.

The law of the first tokens is known exactly (by enumeration), so the runs can be judged without a second sample:
Pearson's chi-squared at a stated false-alarm rate, and the total variation distance beside the distances that runs of
the target itself would show.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
import torch

from engine.broken import Mutant
from engine.config import AUTO, RunConfig, SamplingParams
from engine.decode import TRUE_RULES, Rules
from engine.errors import BadInput
from engine.events import TESTED, Round, Token
from engine.loading import Engine
from engine.sampling import History, penalise, warp
from engine.text import Detokenizer, encode_prompt
from engine.toy import PLAIN, ToyLM, decoding, drafter_for, joint

FALSE_ALARM = 1e-3
_FEWEST = 5.0  # expected in a cell for chi-squared to hold; rarer outcomes are counted together
_BAND = 2_000  # simulated sets of runs that the noise band is read from
_MOST_OUTCOMES = 4_000

Outcome = tuple[int, ...]
Law = Mapping[Outcome, float]
Progress = Callable[[float], None]
Runs = Callable[[int], Iterator[Round]]  # seed → the rounds of that run


@dataclass(frozen=True)
class Draws:
    """``counts``: how often each outcome came; accepted and tested drafts on the way. Draws of other seeds add up."""

    counts: Counter
    accepted: int = 0
    tested: int = 0

    def __add__(self, other: "Draws") -> "Draws":
        return Draws(self.counts + other.counts, self.accepted + other.accepted, self.tested + other.tested)

    @property
    def runs(self) -> int:
        return self.counts.total()

    @property
    def alpha(self) -> float | None:
        return self.accepted / self.tested if self.tested else None


@dataclass(frozen=True)
class DistributionTest:
    """``distance``: total variation, half the sum of |seen − law|, 0 … 1. ``band``: where 95 % of the distances lie
    when nothing is wrong. ``p_value``: how often a lossless engine would stray so far by chance."""

    law: Law
    draws: Draws
    runs: int
    statistic: float
    freedom: int
    p_value: float
    distance: float
    band: tuple[float, float]
    false_alarm: float = FALSE_ALARM

    @property
    def lossless(self) -> bool:
        return self.p_value >= self.false_alarm


def judge(law: Law, draws: Draws, false_alarm: float = FALSE_ALARM, seed: int = 0) -> DistributionTest:
    """Chi-squared and total variation of what was drawn against the law."""
    runs = draws.runs
    statistic, freedom = chi_squared(draws.counts, {cell: runs * mass for cell, mass in law.items()})
    p_value = 1.0
    if freedom:
        half = torch.tensor([freedom / 2, statistic / 2], dtype=torch.float64)
        p_value = float(torch.special.gammaincc(half[0], half[1])) if statistic < float("inf") else 0.0
    return DistributionTest(
        law, draws, runs, statistic, freedom, p_value, _distance(law, draws.counts), _band(law, runs, seed), false_alarm
    )


def chi_squared(seen: Mapping[Outcome, int], expected: Mapping[Outcome, float]) -> tuple[float, int]:
    """Pearson's statistic and its degrees of freedom. What cannot happen and was seen gives infinity.

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


def _band(law: Law, runs: int, seed: int) -> tuple[float, float]:
    masses = np.array(list(law.values()))
    drawn = np.random.default_rng(seed).multinomial(runs, masses / masses.sum(), _BAND) / runs
    low, high = np.percentile(np.abs(drawn - masses).sum(1) / 2, [2.5, 97.5])
    return float(low), float(high)


# ---- where the runs come from --------------------------------------------------------------------------------------


def on_toy(
    target: ToyLM,
    draft: ToyLM,
    runs: int,
    length: int = 2,
    sampling: SamplingParams = PLAIN,
    gamma: int = 3,
    mutant: Mutant | None = None,
    method: str = "lm",
    progress: Progress = lambda share: None,
) -> tuple[Law, Draws]:
    """The first ``length`` tokens of seeded runs of a toy pair, by the true rules or a wrong one."""
    made = toy_runs(target, draft, length, sampling, gamma, mutant, method)
    return joint(target, [0], length, sampling), drawn(made, range(runs), length, progress)


def on_engine(
    engine: Engine,
    config: RunConfig,
    runs: int,
    length: int = 2,
    rules: Rules = TRUE_RULES,
    cancelled: Callable[[], bool] = lambda: False,
    progress: Progress = lambda share: None,
) -> tuple[Law, Draws]:
    """The same for a real pair. The law needs few outcomes: temperature above 0 and a small top-k. BadInput if not."""
    law = law_of(engine, config, length)
    return law, drawn(engine_runs(engine, config, length, rules, cancelled), range(runs), length, progress, cancelled)


def toy_runs(
    target: ToyLM, draft: ToyLM, length: int, sampling: SamplingParams, gamma: int, mutant: Mutant | None, method: str
) -> Runs:
    """Runs just long enough that all of ``length`` tokens may be drafted. A mutant brings its own drafter."""
    rules = mutant.rules if mutant else TRUE_RULES

    def rounds(seed: int) -> Iterator[Round]:
        drafter = mutant.drafter(draft) if mutant else drafter_for(method, draft)
        return decoding(target, drafter, [0], sampling, gamma, length + gamma, seed, rules, trace=False).rounds()

    return rounds


def engine_runs(
    engine: Engine,
    config: RunConfig,
    length: int,
    rules: Rules = TRUE_RULES,
    cancelled: Callable[[], bool] = lambda: False,
) -> Runs:
    spare = 1 if config.gamma == AUTO else max(1, config.gamma)  # the last places of a run are not drafted in full
    asked = replace(config, max_new_tokens=length + spare, trace=False)

    def rounds(seed: int) -> Iterator[Round]:
        with closing(engine.run(replace(asked, seed=config.seed + seed), cancelled, rules=rules)) as events:
            yield from (event for event in events if isinstance(event, Round))

    return rounds


def drawn(
    runs: Runs,
    seeds: Sequence[int],
    length: int,
    progress: Progress = lambda share: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Draws:
    """The first ``length`` tokens of each seed's run, which goes on no longer. A run that was broken off is no
    outcome and is not counted."""
    counts, accepted, tested = Counter(), 0, 0
    for done, seed in enumerate(seeds, 1):
        tokens = _beginning(runs(seed), length)
        if cancelled():
            break
        counts[tuple(token.id for token in tokens if token.emitted)[:length]] += 1
        accepted += sum(token.status == "accepted" for token in tokens)
        tested += sum(token.status in TESTED for token in tokens)
        progress(done / len(seeds))
    return Draws(counts, accepted, tested)


def _beginning(rounds: Iterator[Round], length: int) -> list[Token]:
    """The tokens of a run up to the round that makes the ``length``-th one."""
    tokens: list[Token] = []
    with closing(rounds):
        for round_ in rounds:
            tokens += round_.tokens
            if sum(token.emitted for token in tokens) >= length:
                break
    return tokens


@torch.inference_mode()
def law_of(engine: Engine, config: RunConfig, length: int) -> dict[Outcome, float]:
    """The exact distribution of the first ``length`` tokens, from the target alone; an end-of-text token ends one."""
    if config.sampling.temperature == 0:
        raise BadInput("At temperature 0 there is one outcome and nothing to test; choose a higher temperature.")
    runner, prompt = engine.target.runner, list(encode_prompt(engine.target.tokenizer, config))
    law: dict[Outcome, float] = {(): 1.0}
    try:
        runner.reset(len(prompt) + length + 1)
        runner.prefill(prompt[:-1])
        for _ in range(length):
            law = _longer(engine, config.sampling, prompt, law)
    finally:
        runner.release()
    return law


def _longer(engine: Engine, sampling: SamplingParams, prompt: list[int], law: dict) -> dict[Outcome, float]:
    runner, found = engine.target.runner, {}
    for so_far, mass in law.items():
        if so_far and so_far[-1] in engine.target.eos:
            found[so_far] = mass
            continue
        fed = [*prompt[-1:], *so_far]
        logits = runner.forward(torch.tensor(fed, device=runner.device), last=True).float()
        runner.rollback(len(prompt) - 1)
        if sampling.repetition_penalty != 1.0:
            seen = History([*prompt, *so_far], runner.vocab_size, runner.device).seen[None]
            logits = penalise(logits, seen, sampling.repetition_penalty)
        row = warp(logits, sampling)[0].double().cpu()
        for token in row.nonzero()[:, 0].tolist():
            found[*so_far, token] = mass * float(row[token] / row.sum())
        if len(found) > _MOST_OUTCOMES:
            raise BadInput("There are too many outcomes to count; choose a smaller top-k, such as 3, or fewer tokens.")
    return found


def words_of(engine: Engine, outcomes: Sequence[Outcome]) -> dict[Outcome, tuple[str, ...]]:
    """What each token of each outcome is called, for people; a space or a broken character by its name."""
    names = Detokenizer(engine.target.tokenizer)
    return {outcome: tuple(names.name(token) for token in outcome) for outcome in outcomes}

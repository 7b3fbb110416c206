"""What the distribution test asks for and finds out: numbers and words only, no engine."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from engine.config import RunConfig, SamplingParams
from engine.errors import BadInput

TOY = "toy"
RIGHT = "right"
MOST_RUNS, MOST_LENGTH = 20_000, 4
Outcome = tuple[int, ...]


@dataclass(frozen=True)
class Rule:
    """A rule of acceptance in words. ``method``: of the toy, what shows the mistake; ``anywhere``: it can be made on a
    real pair too, not only where the toy's own drafter makes it."""

    words: str
    method: str = "lm"
    anywhere: bool = False


# The mistakes of engine.broken, which cannot be read here: it needs torch, and the page opens without.
MISTAKES: Mapping[str, Rule] = {
    "raw-q": Rule("q is taken before temperature and top-p, the drafts were drawn after."),
    "argmax-drafts": Rule("Drafts are q's favourites, but tested as draws from q."),
    "no-residual": Rule("A refused draft is replaced from p, not from the residual.", anywhere=True),
    "residual-unclamped": Rule("The residual keeps its negative parts.", anywhere=True),
    "residual-absolute": Rule("The residual is |p − q|, so tokens that q had too much of come back.", anywhere=True),
    "u-reused-for-closing": Rule("The draw that refused a draft also chooses its replacement.", anywhere=True),
    "u-shared-by-drafts": Rule("One draw decides every draft of a round.", anywhere=True),
    "p-row-late": Rule("Draft i is tested against the target's row after it, not before it.", anywhere=True),
    "closing-row-early": Rule("The closing token is drawn one row too early.", anywhere=True),
    "bonus-from-q": Rule("After a fully accepted round the bonus token comes from the draft.", anywhere=True),
    "tail-kept": Rule("Drafts behind a refused one are kept when they pass their own test.", anywhere=True),
    "ratio-inverted": Rule("Accepts when u < q/p.", anywhere=True),
    "q-ignored": Rule("Accepts when u < p, as if the draft had been certain.", anywhere=True),
    "good-enough": Rule(
        "Accepts whatever the target gives at least a tenth: faster, and not the target any more.", anywhere=True
    ),
    "sibling-residual": Rule(
        "A second sibling is tested against p itself, not against what the first one left.", "independent"
    ),
    "sibling-q": Rule("Siblings drawn without replacement are tested with the first one's q.", "without_replacement"),
    "sibling-closing": Rule("After all siblings are refused the closing token is drawn from p.", "independent"),
    "top-p-crossing": Rule("Top-p drops the token that crosses the line.", anywhere=True),
    "temperature-last": Rule("Temperature is applied after top-p.", anywhere=True),
}
# Mistakes that what the toy starts with hides, and settings of the toy under which each shows. A u used twice matters
# only where the residual holds two words, which is behind rain; at temperature 1 it rains often. With two words left
# the second sibling is drafted for certain, q = 1, where the first one's q says a half.
SHOWS: Mapping[str, Mapping[str, float]] = {
    "u-reused-for-closing": {"gamma": 3, "temperature": 1.0, "top_k": 0, "top_p": 0.9, "runs": 2_000, "length": 3},
    "sibling-q": {"gamma": 2, "temperature": 0.5, "top_k": 2, "top_p": 1.0, "runs": 1_000, "length": 4},
}
RULES: Mapping[str, Rule] = {RIGHT: Rule("Rejection sampling as the papers have it.", anywhere=True), **MISTAKES}


@dataclass(frozen=True)
class Asked:
    """Seeded runs to be judged. ``pair``: TOY, or the name of a real one, which continues ``prompt``. ``first``: the
    first run's seed. BadInput says what cannot be."""

    pair: str = TOY
    rule: str = RIGHT
    method: str = "lm"
    gamma: int = 2
    sampling: SamplingParams = field(default_factory=lambda: SamplingParams(0.5, top_p=0.95))
    runs: int = 1_000
    length: int = 3  # one more than γ, or nobody would see where a bonus token comes from
    first: int = 0
    prompt: str = ""

    def __post_init__(self):
        if self.rule not in RULES:
            raise BadInput(f"There is no rule {self.rule[:40]!r}; choose one of the list.")
        if not self.toy and not RULES[self.rule].anywhere:
            raise BadInput("This mistake is made by a drafter that only the toy has; choose the toy, or another rule.")
        if self.sampling.greedy:
            raise BadInput("At temperature 0 there is one outcome and nothing to test; choose a higher temperature.")
        for name, value, low, high in (
            ("Runs", self.runs, 20, MOST_RUNS), ("Tokens looked at", self.length, 1, MOST_LENGTH),
            ("Draft length γ", self.gamma, 1, 16), ("First seed", self.first, 0, 2**53 - 1),
        ):  # fmt: skip
            if type(value) is not int or not low <= value <= high:
                raise BadInput(f"{name} is {value!r}, but must be a whole number from {low:,} to {high:,}.")

    @property
    def toy(self) -> bool:
        return self.pair == TOY

    @property
    def drafted_by(self) -> str:
        """The method that really runs: on the toy a mistake brings the drafter that shows it."""
        return RULES[self.rule].method if self.toy and self.rule != RIGHT else self.method

    @property
    def setting(self) -> "Asked":
        """What must be alike for two rules to be compared."""
        return replace(self, rule=RIGHT)

    @property
    def config(self) -> RunConfig | None:
        """For the service and the engine; None on the toy, which needs no model."""
        if self.toy:
            return None
        return RunConfig(
            self.prompt, self.pair, self.method, self.gamma, self.sampling, self.length, self.first, chat=False
        )


@dataclass(frozen=True)
class Finding:
    """How the runs made so far sit with the target's own distribution ``law``; the numbers are those of
    engine.lab.distribution. ``words``: each token of every outcome, as people read it."""

    asked: Asked
    law: Mapping[Outcome, float]
    counts: Mapping[Outcome, int]
    words: Mapping[Outcome, tuple[str, ...]]
    accepted: int
    tested: int
    statistic: float
    freedom: int
    p_value: float
    distance: float
    band: tuple[float, float]
    false_alarm: float

    @property
    def runs(self) -> int:
        return sum(self.counts.values())

    @property
    def alpha(self) -> float | None:
        return self.accepted / self.tested if self.tested else None

    @property
    def verdict(self) -> str:
        """ "right" as far as this can tell, "wrong", or "open": too few runs for chi-squared to say anything."""
        if self.p_value < self.false_alarm:
            return "wrong"
        return "right" if self.freedom else "open"

    @property
    def whole(self) -> bool:
        return self.runs >= self.asked.runs


class Trials:
    """One or more tests of one setting, each under its own rule, and what has been found. Made anew at every press."""

    def __init__(self, asked: Sequence[Asked]):
        self.asked, self.found = tuple(asked), {}

    def add(self, finding: Finding) -> None:
        self.found[finding.asked] = finding

    def missing(self) -> Iterator[tuple[Asked, Finding | None]]:
        """The test at hand and what it has found so far, again and again until each has its runs."""
        for asked in self.asked:
            while (so_far := self.found.get(asked)) is None or not so_far.whole:
                yield asked, so_far

    @property
    def share(self) -> float:
        """Of all runs, how many have been made, 0 … 1."""
        return sum(finding.runs for finding in self.found.values()) / sum(asked.runs for asked in self.asked)

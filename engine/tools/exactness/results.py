"""Describes the rules of acceptance, right and wrong, and the result of testing one. Imports no torch.

The wrong rules themselves are in mutants.py and constraint_mutants.py, the test in distribution_test.py.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile

from engine.config import METHODS

Outcome = tuple[int, ...]
Law = Mapping[Outcome, float]

RIGHT = "right"  # the name of the rule of the papers
FALSE_ALARM = 1e-3  # the share of lossless engines that the test calls wrong; of servers: in servers/check_server.py
TOY, JSON_TOY = "toy", "json-toy"  # a toy with three words, and one whose grammar allows only JSON about them
TOYS = (TOY, JSON_TOY)
TOY_WORDS = ("sun", "rain", "wind")
TOY_TARGET = ((0.6, 0.3, 0.1), (0.2, 0.5, 0.3), (0.3, 0.3, 0.4))  # p of the next word, after each word
TOY_DRAFT = ((0.4, 0.4, 0.2), (0.4, 0.4, 0.2), (0.2, 0.4, 0.4))
JSON_TOKENS = 12  # the most in an answer of the JSON toy; a right one has fewer
JSON_END = "∎"  # the word that ends such an answer
TREES = ("independent", "without_replacement", "top")  # how a tree's siblings are chosen
TOY_METHODS = {
    "lm": "draft model: another table of three words",
    **{name: f"{method.title}: {method.description}" for name, method in METHODS.items() if method.reads == "text"},
    "independent": "tree, siblings drawn independently",
    "without_replacement": "tree, siblings drawn without replacement",
    "top": "tree of the draft's favourites",
}
TOY_PROOFS = tuple(name for name in TOY_METHODS if name in METHODS and name != "none")  # methods of a run, for `prove`


@dataclass(frozen=True)
class Mistake:
    """One mistake in rejection sampling, in a sentence. ``method``: the toy's method that shows it; ``own_drafter``:
    the drafter is wrong, not the rule; ``acceptance``: the rule that it breaks; ``masks``: it is made with the masks of
    a constraint."""

    words: str
    method: str = "lm"
    own_drafter: bool = False
    acceptance: str = "token"
    masks: bool = False

    @property
    def toy(self) -> str:
        """The toy that shows it."""
        return JSON_TOY if self.masks else TOY

    @property
    def on_pairs(self) -> bool:
        """Whether it can be made with a real pair, which has neither the toy's trees nor its wrong drafters."""
        return self.method == "lm" and not self.own_drafter and not self.masks


MISTAKES: Mapping[str, Mistake] = {
    "raw-q": Mistake("q is taken before temperature and top-p, the drafts were drawn after.", own_drafter=True),
    "argmax-drafts": Mistake("Drafts are q's favourites, but tested as draws from q.", own_drafter=True),
    "no-residual": Mistake("A rejected draft is replaced from p, not from the residual."),
    "residual-unclamped": Mistake("The residual keeps its negative parts."),
    "residual-absolute": Mistake("The residual is |p − q|, so tokens that q had too much of come back."),
    "u-reused-for-closing": Mistake("The draw that rejected a draft also chooses its replacement."),
    "u-shared-by-drafts": Mistake("One draw decides every draft of a round."),
    "p-row-late": Mistake("Draft i is tested against the target's row after it, not before it."),
    "closing-row-early": Mistake("The closing token is drawn one row too early."),
    "bonus-from-q": Mistake("After a fully accepted round the bonus token comes from the draft."),
    "tail-kept": Mistake("Drafts after a rejected one are kept when they pass their own test."),
    "ratio-inverted": Mistake("Accepts when u < q/p."),
    "q-ignored": Mistake("Accepts when u < p, as if the draft had been certain."),
    "good-enough": Mistake("Accepts every token to which the target gives at least a tenth: faster, but not lossless."),
    "sibling-residual": Mistake(
        "A second sibling is tested against p itself, not against the residual of the first.", "independent"
    ),
    "sibling-q": Mistake(
        "Siblings drawn without replacement are tested with the first one's q.", "without_replacement"
    ),
    "sibling-q-unscaled": Mistake(
        "After a draw without replacement q lacks the earlier siblings, but is not scaled to 1 again.",
        "without_replacement",
    ),
    "ancestor-residual": Mistake(
        "Each residual is made from the parent's p, not from what the earlier siblings left.", "without_replacement"
    ),
    "sibling-choice": Mistake(
        "The likelier siblings of those drawn are chosen, and tested as if drawn from q.",
        "independent",
        own_drafter=True,
    ),
    "sibling-closing": Mistake("After all siblings are rejected the closing token is drawn from p.", "independent"),
    "top-p-crossing": Mistake("Top-p drops the token that crosses the line."),
    "temperature-last": Mistake("Temperature is applied after top-p."),
    "block-stops": Mistake("Block verification ends at the first draft that fails.", acceptance="block"),
    "block-same-u": Mistake(
        "Block verification draws u by position, so the next round meets it again.", acceptance="block"
    ),
    "block-residual": Mistake("Block verification takes the residual of p alone.", acceptance="block"),
    "traversal-weight": Mistake(
        "After a failed draft of a tree its parent's weight becomes S over what q has left, as published code has it.",
        "without_replacement",
        acceptance="block",
    ),
    "traversal-q-unscaled": Mistake(
        "In a tree decided on together q lacks the earlier siblings, but is not scaled to 1 again.",
        "without_replacement",
        acceptance="block",
    ),
    "traversal-same-draws": Mistake(
        "Branches of a tree decided on together share their draws.",
        "without_replacement",
        own_drafter=True,
        acceptance="block",
    ),
    "mask-stays": Mistake("The mask does not move along with the drafts.", masks=True),
    "closing-only": Mistake("Only the token that closes a round is masked.", masks=True),
    "target-unmasked": Mistake("The draft is masked, and the target is not.", masks=True),
    "requests-mask": Mistake("After a rejection the round's first mask is used, not the row's.", masks=True),
    "ends-early": Mistake("The text may end before the grammar is satisfied.", masks=True),
    "cut-unscaled": Mistake("Forbidden drafts are cut off, and q is not scaled to the rest.", masks=True),
}


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
class RuleTestResult:
    """Seeded runs judged against the target's own distribution ``law``.

    ``statistic``: Pearson's χ² with ``freedom`` degrees of freedom. ``p_value``: how often a lossless engine would
    differ so much by chance. ``distance``: total variation, half the sum of |seen − law|, 0 … 1. ``band``: 95 % of the
    distances of a lossless engine.
    """

    law: Law
    draws: Draws
    statistic: float
    freedom: int
    p_value: float
    distance: float
    band: tuple[float, float]
    false_alarm: float = FALSE_ALARM

    @property
    def runs(self) -> int:
        return self.draws.runs

    @property
    def alpha(self) -> float | None:
        return self.draws.alpha

    @property
    def lossless(self) -> bool:
        return self.p_value >= self.false_alarm

    @property
    def verdict(self) -> str:
        """ "right" as far as this can tell, "wrong", or "open": too few runs for χ² to say anything."""
        return "wrong" if not self.lossless else "right" if self.freedom else "open"


def as_it_should_be(text: str, law: Mapping[str, float]) -> str:
    """Returns the text of a law {text: probability} that a broken one agrees with furthest, the likeliest of several.

    >>> as_it_should_be('{"sky":"rain"}"', {'{"sky":"sun"}': 0.6, '{"sky":"rain"}': 0.4})
    '{"sky":"rain"}'
    """

    def agreement(right: str) -> int:
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(right, text, strict=False)))

    return max(law, key=lambda right: (agreement(right), law[right]))

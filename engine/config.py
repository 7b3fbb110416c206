"""Defines the drafting methods and the configuration of a run: frozen, validated on construction, without torch."""

import json
import math
import re
from dataclasses import dataclass, field
from importlib import import_module
from typing import Literal

from engine.errors import BadInput, spell

MAX_GAMMA = 32
MAX_NODES = 64  # drafts of a tree
MAX_SHARERS = 64  # runs that share a pass
MAX_WAITING = 30  # runs in a device's queue
MAX_NEW_TOKENS = 8192
AUTO = "auto"
DEFAULT_PAIR = "smollm2-135m"
PRECISIONS = (AUTO, "fp32", "bf16", "fp16", "int8", "int4")


@dataclass(frozen=True, slots=True)
class Method:
    """A drafting method. ``drafter`` is "module:Class", imported when the method is first used, because the page reads
    this list without torch.

    ``reads``: what it drafts from: the committed "text" alone, the "grammar" of a constraint, a "corpus" of other
    texts, a "draft model", a "head" on the target's hidden states, or a rounded "copy" of the target. ``passes``: how
    often that runs: "each" draft takes one pass, or all drafts of a round take "one". ``is_window``: its drafts are
    further rows of the target's own pass, a tree. ``competes``: auto may choose it. ``shares``: the method whose
    weights it uses; auto leaves such a one out. ``settings``: the fields of `RunConfig` that its drafter's `start` gets
    by name.
    """

    title: str
    description: str
    drafter: str
    reads: Literal["text", "grammar", "corpus", "draft model", "head", "copy"] = "text"
    passes: Literal["none", "one", "each"] = "none"
    is_window: bool = False
    competes: bool = True
    shares: str = ""
    settings: tuple[str, ...] = ()

    @property
    def needs_weights(self) -> bool:
        """Whether a pair must bring weights for it."""
        return self.reads in ("draft model", "head")

    @property
    def needs_constraint(self) -> bool:
        """Whether it drafts only in runs with a constraint."""
        return self.reads == "grammar"

    @property
    def runs_model(self) -> bool:
        """Whether drafting takes passes of a model."""
        return self.passes != "none"

    @property
    def drafts_at_once(self) -> bool:
        """Whether all drafts of a round take one pass, so that a draft's cost c is a round's."""
        return self.passes == "one"

    @property
    def drafts_one_by_one(self) -> bool:
        """Whether its γ drafts can be a chain, each of them a step of its own."""
        return bool(self.drafter) and not self.drafts_at_once and not self.is_window


# The one registry: the command line, the page, the benchmark and the sweep are made from it, in this order.
METHODS = {
    "none": Method("plain decoding", "the baseline", "engine.drafters.none:NoDrafter"),
    "ngram": Method("n-gram lookup", "copies what came before", "engine.drafters.ngram:NgramDrafter"),
    "grammar": Method("grammar", "writes what must come", "engine.drafters.grammar:GrammarDrafter", reads="grammar"),
    "corpus": Method(
        "corpus lookup", "copies what followed in other texts", "engine.drafters.corpus:CorpusDrafter", reads="corpus"
    ),
    "lm": Method(
        "draft model", "a small model guesses", "engine.drafters.draft_model:DraftModelDrafter",
        reads="draft model", passes="each",
    ),
    "quantised": Method(
        "int4 copy", "the model itself, rounded, guesses", "engine.drafters.quantised:QuantisedDrafter",
        reads="copy", passes="each",
    ),
    "lookahead": Method(
        "lookahead", "the target guesses ahead of itself", "engine.drafters.lookahead:LookaheadDrafter",
        is_window=True, competes=False, settings=("lookahead",),
    ),
    "eagle": Method(
        "EAGLE head", "reads the model's states, branches where it pays", "engine.drafters.eagle_tree:EagleTreeDrafter",
        reads="head", passes="each",
    ),
    "eagle-chain": Method(
        "EAGLE chain", "the same head, never branching", "engine.drafters.eagle_chain:EagleChainDrafter",
        reads="head", passes="each", shares="eagle",
    ),
    "block": Method(
        "block head", "guesses a whole block in one pass", "engine.drafters.block:BlockDrafter",
        reads="head", passes="one", competes=False,
    ),
    "medusa": Method(
        "Medusa heads", "guess several places from its last state", "engine.drafters.medusa:MedusaDrafter",
        reads="head", passes="one", competes=False,
    ),
    "exit": Method(
        "early exit", "the model's own lower layers guess", "engine.drafters.exit:ExitDrafter",
        reads="head", passes="each", competes=False,
    ),
}  # fmt: skip
_UNKNOWN = Method("", "", "")


def method_of(name: str) -> Method:
    """Returns the method of this name; for any other name, such as auto, one that drafts nothing."""
    return METHODS.get(name, _UNKNOWN)


def constraint_methods() -> tuple[str, ...]:
    """Returns the methods that draft from a run's constraint. They need nothing of a pair, so any pair has them."""
    return tuple(name for name, method in METHODS.items() if method.needs_constraint)


def load_object(path: str):
    """Returns the object that "module:name" names."""
    module, name = path.split(":")
    return getattr(import_module(module), name)


def draft_of(method: str) -> str:
    """Returns the method whose weights this one uses."""
    return method_of(method).shares or method


@dataclass(frozen=True, slots=True)
class AcceptanceRule:
    """How the target decides on the drafts of a round. ``chain`` and ``tree``: the functions that decide, each as
    "module:name". They get what `verify_chain` and `verify_tree` of `engine.sampling.rejection` get, and by name those
    fields of `RunConfig` that ``settings`` names. ``is_joint``: the drafts are decided on together, so their draws
    belong to the round and not to positions. ``is_lossy``: the output does not keep the target's distribution."""

    title: str
    description: str
    chain: str
    tree: str
    is_joint: bool = False
    is_lossy: bool = False
    settings: tuple[str, ...] = ()


# The one registry of rules, as METHODS is that of methods. Every rule but the last keeps the target's distribution.
ACCEPTANCE = {
    "token": AcceptanceRule(
        "token by token", "each draft has a test of its own",
        "engine.sampling.rejection:verify_chain", "engine.sampling.rejection:verify_tree",
    ),
    "block": AcceptanceRule(
        "block verification", "the drafts of a round are tested together",
        "engine.sampling.block_verification:verify_block", "engine.sampling.traversal:verify_traversal", is_joint=True,
    ),
    "typical": AcceptanceRule(
        "typical acceptance", "lossy: what is likely enough is accepted",
        "engine.sampling.typical:typical_chain", "engine.sampling.typical:typical_tree",
        is_lossy=True, settings=("epsilon", "delta"),
    ),
}  # fmt: skip
LOSSY = "typical acceptance: above temperature 0 the output does not follow the target's distribution"


def is_lossy(acceptance: str, method: str, gamma: int | str | None, temperature: float) -> bool:
    """Returns whether a run may leave the target's distribution: it drafts, with a lossy rule, above temperature 0."""
    return ACCEPTANCE[acceptance].is_lossy and method != "none" and gamma != 0 and temperature != 0


def _check_number(name: str, value, low: float, high: float, advice: str) -> None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or not low <= value <= high:
        raise BadInput(f"{name} is {spell(value)}, but must be {advice}.")


def _check_integer(name: str, value, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise BadInput(f"{name} is {spell(value)}, but must be a whole number from {low} to {high}.")


def _check_prefix(prefix: tuple, limit: int) -> None:
    if not all(isinstance(i, int) and not isinstance(i, bool) and 0 <= i < 2**31 for i in prefix):
        raise BadInput("The tokens that the output begins with must be numbers of tokens.")
    if len(prefix) >= max(limit, 1):
        raise BadInput(
            f"The forced token would be number {len(prefix)} of the {limit} allowed, so nothing could follow it; force "
            "an earlier one or ask for more tokens."
        )


def is_text(value) -> bool:
    """Returns whether it is a string that UTF-8 can hold (a lone surrogate cannot)."""
    return isinstance(value, str) and not re.search("[\ud800-\udfff]", value)


@dataclass(frozen=True)
class SamplingParams:
    """How logits become the distribution that is sampled; the same for the target (p) and the draft (q).

    ``temperature`` 0 is greedy: a one-hot distribution. ``top_k`` 0, ``top_p`` 1, ``min_p`` 0 and
    ``repetition_penalty`` 1 switch those off.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0

    def __post_init__(self):
        _check_number("temperature", self.temperature, 0.0, 100.0, "a number from 0 (greedy) to 100")
        if 0 < self.temperature < 1e-3:
            raise BadInput(f"temperature is {self.temperature!r}; use 0 for greedy or at least 0.001.")
        _check_integer("top_k", self.top_k, 0, 1_000_000)
        _check_number("top_p", self.top_p, 1e-6, 1.0, "a number above 0 and up to 1 (1 switches it off)")
        _check_number("min_p", self.min_p, 0.0, 1.0, "a number from 0 (off) to 1")
        _check_number(
            "repetition_penalty", self.repetition_penalty, 0.01, 100.0, "a number from 0.01 to 100 (1 is off)"
        )

    @property
    def greedy(self) -> bool:
        return self.temperature == 0


@dataclass(frozen=True)
class LookaheadSizes:
    """The sizes of method lookahead: columns of its window (W), tokens of an n-gram (N), and n-grams of the pool
    that are tried at once (G). They are small, because on a CPU every row costs time."""

    window: int = 5
    ngram: int = 4
    guesses: int = 5

    def __post_init__(self):
        _check_integer("window", self.window, 1, 16)
        _check_integer("ngram", self.ngram, 2, 8)
        _check_integer("guesses", self.guesses, 1, 16)
        if self.rows > MAX_NODES:
            raise BadInput(
                f"A window of {self.window}, n-grams of {self.ngram} and {self.guesses} guesses make {self.rows} rows "
                f"a round; choose sizes with (n-gram − 1) · (window + guesses) up to {MAX_NODES}."
            )

    @property
    def rows(self) -> int:
        """Rows that a round scores at most, beside the pending token's."""
        return (self.ngram - 1) * (self.window + self.guesses)


CONSTRAINTS = {"json_schema": "JSON schema", "regex": "regular expression", "choice": "choice", "grammar": "grammar"}
_COMPACT = "Compact JSON is for a run with a JSON schema; give one, or leave it out."


@dataclass(frozen=True)
class Constraint:
    """What the whole answer must match. ``kind``: one of ``CONSTRAINTS``; ``text``: the schema, the regular expression,
    the texts to choose from (one a line) or a Lark grammar. ``compact``: JSON has no white space between its parts."""

    kind: str
    text: str
    compact: bool = False

    def __post_init__(self):
        if self.kind not in CONSTRAINTS:
            raise BadInput(f"The constraint is {spell(self.kind)}; choose from {', '.join(CONSTRAINTS)}.")
        name = CONSTRAINTS[self.kind]
        if is_text(self.text) and not self.text.strip():
            raise BadInput(f"The {name} is empty; it says what the whole answer must match.")
        if not is_text(self.text) or len(self.text) > 100_000:
            raise BadInput(f"The {name} must be a text of up to 100,000 characters.")
        if self.compact and self.kind != "json_schema":
            raise BadInput(_COMPACT)
        if self.kind == "json_schema":
            try:
                json.loads(self.text)
            except (ValueError, RecursionError) as error:
                raise BadInput(f"The JSON schema cannot be read as JSON: {str(error)[:100]}.") from error

    @staticmethod
    def from_texts(compact: bool = False, **texts: str | None) -> "Constraint | None":
        """Returns the constraint of the one text that is given, by its kind, or None. Raises BadInput for several
        texts, and for a blank one."""
        by_kind = {kind: text for kind, text in texts.items() if text is not None}
        if len(by_kind) > 1:
            raise BadInput("A run takes one constraint; give a schema, a regular expression, choices or a grammar.")
        if compact and not by_kind:
            raise BadInput(_COMPACT)
        return next((Constraint(kind, text, compact) for kind, text in by_kind.items()), None)


@dataclass(frozen=True)
class RunConfig:
    """One request; raises BadInput if a value is out of range. ``method`` names a drafter, or is "auto": the fastest
    one on this device. ``gamma``: tokens drafted a round, or "auto".

    ``seed`` fixes every random draw. ``thinking`` None leaves the chat template's default. ``trace_top``: candidates of
    p, q and the residual that each token records; ``trace`` False records only ids and statuses. ``precision`` "auto"
    is the one that `usual_precision` chooses. ``prefix``: ids that the output begins with, counted as output; the last
    one is the token that a branch forces. ``acceptance``: one of ``ACCEPTANCE``. ``lookahead``: of that method.
    ``epsilon`` and ``delta``: of typical acceptance. ``constraint``: what the answer must match, if any.
    """

    prompt: str
    pair: str = DEFAULT_PAIR
    method: str = AUTO
    gamma: int | str = AUTO
    sampling: SamplingParams = field(default_factory=SamplingParams)
    max_new_tokens: int = 128
    seed: int = 0
    stop: tuple[str, ...] = ()
    chat: bool = True
    system: str | None = None
    thinking: bool | None = None
    trace: bool = True
    trace_top: int = 8
    precision: str = AUTO
    prefix: tuple[int, ...] = ()
    acceptance: str = "token"
    lookahead: LookaheadSizes = field(default_factory=LookaheadSizes)
    epsilon: float = 0.09
    delta: float = 0.3
    constraint: Constraint | None = None

    def __post_init__(self):
        if not isinstance(self.prompt, str) or not self.prompt.strip():
            raise BadInput("The prompt is empty; type something for the model to answer.")
        if not all(is_text(t) for t in (self.prompt, self.system or "", *self.stop)):
            raise BadInput("The prompt holds half of a surrogate pair, which is not a character; type it again.")
        if self.gamma != AUTO:
            _check_integer("gamma", self.gamma, 0, MAX_GAMMA)
        _check_integer("max_new_tokens", self.max_new_tokens, 1, MAX_NEW_TOKENS)
        _check_integer("seed", self.seed, 0, 2**63 - 1)
        _check_integer("trace_top", self.trace_top, 1, 50)
        if self.precision not in PRECISIONS:
            raise BadInput(f"precision is {spell(self.precision)}; choose from {', '.join(PRECISIONS)}.")
        _check_number("epsilon", self.epsilon, 0.0, 1.0, "a number from 0 to 1")
        _check_number("delta", self.delta, 0.0, 1.0, "a number from 0 to 1")
        object.__setattr__(self, "prefix", tuple(self.prefix))
        if self.prefix:
            _check_prefix(self.prefix, self.max_new_tokens)
        if method_of(self.method).needs_constraint and self.constraint is None:
            raise BadInput(
                f"The method {self.method} drafts what a constraint demands; add a constraint or choose another."
            )
        if self.acceptance not in ACCEPTANCE:
            raise BadInput(f"acceptance is {spell(self.acceptance)}; choose from {', '.join(ACCEPTANCE)}.")
        object.__setattr__(self, "stop", tuple(self.stop))
        if len(self.stop) > 16 or not all(isinstance(s, str) and 0 < len(s) <= 200 for s in self.stop):
            raise BadInput("Stop strings must be at most 16 non-empty texts of up to 200 characters.")

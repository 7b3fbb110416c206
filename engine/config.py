"""Defines the drafting methods and the configuration of a run: frozen, validated on construction, without torch."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from typing import Any, Literal

from engine.constraint import Constraint, is_text
from engine.errors import BadInput, spell

MAX_GAMMA = 32
MAX_NODES = 64  # drafts of a tree
MAX_SHARERS = 64  # runs that share a pass
MAX_WAITING = 30  # runs in a device's queue
MAX_NEW_TOKENS = 8192
NGRAM_LONGEST = 8  # tokens of the longest match that `ngram` looks up
AUTO = "auto"
DEFAULT_PAIR = "smollm2-135m"
PRECISIONS = (AUTO, "fp32", "bf16", "fp16", "int8", "int4")
ROUNDED = {"int8": 8, "int4": 4}  # the precisions of CPUs that round weights, and to how many bits


@dataclass(frozen=True)
class Setting:
    """A setting of a run. ``name``: its control on the page, its parameter in a link, its argument in the API and its
    option. ``hint``: a sentence that all of them show. ``low`` and ``high``: what a number may be. ``step`` is 1 for
    whole numbers. ``choices``: value → words; empty where they depend on the machine. ``lines``: the height of a text
    box. ``only``: another setting and the one value of it with which this one counts; with others it stays at its
    default. ``key``: its name in a trace, where that is another.
    """

    name: str
    label: str
    hint: str
    default: Any
    kind: Literal["text", "choice", "switch", "slider", "number"]
    low: Any = None
    high: Any = None
    step: float | None = None
    choices: dict[str, str] = field(default_factory=dict)
    lines: int = 1
    only: tuple[str, str] | None = None
    key: str = ""

    @property
    def trace_key(self) -> str:
        return self.key or self.name

    @property
    def value_type(self) -> type:
        numbers = {"slider", "number"}
        return (int if self.step == 1 else float) if self.kind in numbers else bool if self.kind == "switch" else str

    def applies_to(self, values: Mapping[str, Any]) -> bool:
        """Returns whether it has a part in a run of these ``values``, of every setting by name."""
        return self.only is None or values[self.only[0]] == self.only[1]

    def check(self, value: Any) -> None:
        """Raises BadInput for a value that it cannot have."""
        if self.value_type is int:
            _check_integer(self.name, value, self.low, self.high)
        elif self.value_type is float:
            _check_number(self.name, value, self.low, self.high, f"a number from {self.low} to {self.high}")
        elif not isinstance(value, self.value_type) or (self.choices and value not in self.choices):
            raise BadInput(f"{self.name} cannot be {spell(value)}.")

    def accepts(self, value: Any) -> bool:
        try:
            self.check(value)
        except BadInput:
            return False
        return True


@dataclass(frozen=True, slots=True)
class Method:
    """A drafting method. ``drafter`` is "module:Class", imported when the method is first used, because the page reads
    this list without torch.

    ``reads``: what it drafts from: the committed "text" alone, the "grammar" of a constraint, a "corpus" of other
    texts, a "draft model", a "head" on the target's hidden states, or a rounded "copy" of the target. ``passes``: how
    often that runs: "each" draft takes one pass, or all drafts of a round take "one". ``competes``: auto may choose it.
    ``shares``: the method whose weights it uses; auto leaves such a one out. ``settings``: its own, which its drafter's
    `start` gets by name. ``rows``: where its drafts are further rows of the target's own pass, a tree, how many they
    are at most, by its settings.
    """

    title: str
    description: str
    drafter: str
    reads: Literal["text", "grammar", "corpus", "draft model", "head", "copy"] = "text"
    passes: Literal["none", "one", "each"] = "none"
    competes: bool = True
    shares: str = ""
    settings: tuple[Setting, ...] = ()
    rows: Callable[..., int] | None = None

    @property
    def is_window(self) -> bool:
        """Whether its drafts are rows of the target's own pass."""
        return self.rows is not None

    @property
    def defaults(self) -> dict[str, Any]:
        """The default of each of its own settings, by name."""
        return {each.name: each.default for each in self.settings}

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
        competes=False, rows=lambda window, ngram_size, guesses: (ngram_size - 1) * (window + guesses),
        settings=(  # small, because on a CPU every row costs time
            Setting("window", "Window W", "Places ahead that the target guesses in each pass.", 5, "slider", 1, 16, 1),
            Setting("ngram_size", "n-gram N", "Tokens of an n-gram. A pass scores (N − 1) · (W + G) rows more.",
                    4, "slider", 2, 8, 1, key="ngram"),
            Setting("guesses", "Guesses G", "n-grams of the pool that are tried in a round.", 5, "slider", 1, 16, 1),
        ),
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
        reads="head", passes="one",
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
    "module:name". They get what `verify_chain` and `verify_tree` of `engine.sampling.rejection` get, and by name the
    rule's own ``settings``. ``is_joint``: the drafts are decided on together, so their draws belong to the round and
    not to positions. ``is_lossy``: the output does not keep the target's distribution."""

    title: str
    description: str
    chain: str
    tree: str
    is_joint: bool = False
    is_lossy: bool = False
    settings: tuple[Setting, ...] = ()


# The one registry of rules, as METHODS is for methods. A rule that is not lossy keeps the target's distribution.
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
        is_lossy=True, settings=(
            Setting("epsilon", "Threshold ε", "A p above ε is always enough.", 0.09, "slider", 0, 1, 0.01),
            Setting("delta", "Factor δ", "A p above δ · exp(−H) is enough, too; H is the entropy of p.",
                    0.3, "slider", 0, 1, 0.01),
        ),
    ),
}  # fmt: skip
LOSSY = "typical acceptance: above temperature 0 the output does not follow the target's distribution"


def own_settings() -> dict[str, Setting]:
    """Returns the settings that single rules and methods have, by name, each with the value that it counts with."""
    registries = {"acceptance": ACCEPTANCE, "method": METHODS}
    return {
        each.name: replace(each, only=(choice, name))
        for choice, registry in registries.items()
        for name, entry in registry.items()
        for each in entry.settings
    }


def is_plain(method: str, gamma: int | str | None) -> bool:
    return method == "none" or gamma == 0


def is_lossy(acceptance: str, method: str, gamma: int | str | None, temperature: float) -> bool:
    """Returns whether a run may leave the target's distribution: it drafts, with a lossy rule, above temperature 0."""
    return ACCEPTANCE[acceptance].is_lossy and not is_plain(method, gamma) and temperature != 0


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
class RunConfig:
    """One request; raises BadInput if a value is out of range. ``method`` names a drafter, or is "auto": the fastest
    one on this device. ``gamma``: tokens drafted a round, or "auto".

    ``seed`` fixes every random draw. ``thinking`` None leaves the chat template's default. ``trace_top``: candidates of
    p, q and the residual that each token records; ``trace`` False records only ids and statuses. ``precision`` "auto"
    is the one that `usual_precision` chooses. ``prefix``: ids that the output begins with, counted as output; the last
    one is the token that a branch forces. ``acceptance``: one of ``ACCEPTANCE``. ``own_settings``: the settings of
    single methods and rules by name; absent ones are at their defaults. ``constraint``: what the answer must match, if
    any. ``earlier``: the turns of the chat before the prompt, of user and assistant in turn.
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
    own_settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    constraint: Constraint | None = None
    earlier: tuple[str, ...] = ()

    def __post_init__(self):
        if not isinstance(self.prompt, str) or not self.prompt.strip():
            raise BadInput("The prompt is empty; type something for the model to answer.")
        if not all(is_text(t) for t in (self.prompt, self.system or "", *self.earlier, *self.stop)):
            raise BadInput(
                "The prompt, the system prompt or a stop text holds half of a surrogate pair or a byte that is not "
                "UTF-8, and neither is a character; type it again."
            )
        if self.earlier and (len(self.earlier) % 2 or not self.chat):
            raise BadInput("Earlier turns are a user's and the answer to each, in a chat; leave out what follows them.")
        if self.gamma != AUTO:
            _check_integer("gamma", self.gamma, 0, MAX_GAMMA)
        _check_integer("max_new_tokens", self.max_new_tokens, 1, MAX_NEW_TOKENS)
        _check_integer("seed", self.seed, 0, 2**63 - 1)
        _check_integer("trace_top", self.trace_top, 1, 50)
        if self.precision not in PRECISIONS:
            raise BadInput(f"precision is {spell(self.precision)}; choose from {', '.join(PRECISIONS)}.")
        self._check_own_settings()
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

    def _check_own_settings(self) -> None:
        values, known = self.own_settings, own_settings()
        if unknown := sorted(set(values) - set(known)):
            raise BadInput(f"There is no setting {unknown[0][:40]!r}; choose from {', '.join(known)}.")
        object.__setattr__(self, "own_settings", {name: each.default for name, each in known.items()} | dict(values))
        for name, each in known.items():
            each.check(self.own_settings[name])
        for method in METHODS.values():
            values = self.settings_of(method)
            if method.rows and (rows := method.rows(**values)) > MAX_NODES:
                words = ", ".join(f"{name} {value}" for name, value in values.items())
                raise BadInput(f"{words} make {rows} rows a round; choose smaller ones, for up to {MAX_NODES} rows.")

    @property
    def is_plain(self) -> bool:
        return is_plain(self.method, self.gamma)

    def baseline(self) -> "RunConfig":
        """Returns the same request without drafting, whose speed is the denominator of a speedup."""
        return replace(self, method="none", gamma=0)

    def settings_of(self, entry: Method | AcceptanceRule) -> dict[str, Any]:
        """Returns the values of the settings that a method or a rule has, by name."""
        return {each.name: self.own_settings[each.name] for each in entry.settings}

    def as_dict(self) -> dict[str, Any]:
        """Returns the settings as a trace has them: a method's own at its name, a rule's beside the others. The prefix
        is in the trace itself."""
        known: dict[str, Any] = {}
        for name, value in asdict(self).items():
            if name == "own_settings":
                known |= {
                    method: {each.trace_key: value[each.name] for each in entry.settings}
                    for method, entry in METHODS.items()
                    if entry.settings
                }
                known |= {each.trace_key: value[each.name] for rule in ACCEPTANCE.values() for each in rule.settings}
            elif name != "prefix" and (value or name not in ("constraint", "earlier")):
                known[name] = value
        return known | {"stop": list(self.stop)}

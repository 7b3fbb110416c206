"""Defines the events of a run: frozen and tensor-free, so that it can be stored, sent, compared and replayed.

A run is one ``RunStarted``, any number of ``Round``, one ``RunFinished``. Seconds everywhere; positions count new
tokens from 0. Imports no torch.
"""

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from engine.config import ACCEPTANCE, AUTO, Setting, is_lossy, method_of
from engine.trace.costs import CostModel

Status = Literal["accepted", "rescued", "rejected", "resampled", "bonus", "discarded", "plain", "closing"]


class StatusRow(NamedTuple):
    """``mark`` is the sign beside the token, in the terminal and on the page; ``meaning`` explains the status there."""

    drafted: bool
    tested: bool  # the target decided on it; α is counted over these
    emitted: bool  # part of the output
    mark: str
    meaning: str


STATUSES: dict[str, StatusRow] = {
    "accepted": StatusRow(True, True, True, "✓", "a draft that passed its test"),
    "rescued": StatusRow(True, True, True, "◎", "would fail alone; a later draft of its block passed"),
    "rejected": StatusRow(True, True, False, "✗", "a draft that failed its test"),
    "resampled": StatusRow(False, False, True, "↻", "drawn in place of a rejected draft"),
    "bonus": StatusRow(False, False, True, "+", "one more, after guesses accepted to their end"),
    "discarded": StatusRow(True, False, False, "┊", "a draft that was not tested, or comes after the end of the text"),
    "plain": StatusRow(False, False, True, "", "made without a draft"),
    "closing": StatusRow(False, False, True, "·", "ends a round; the server does not say whether drafts were rejected"),
}
SERVER_ONLY = frozenset({"closing"})  # a run of our own engine never has these
DRAFTED = frozenset(name for name, status in STATUSES.items() if status.drafted)
TESTED = frozenset(name for name, status in STATUSES.items() if status.tested)
ACCEPTED = frozenset(name for name, status in STATUSES.items() if status.drafted and status.emitted)
EMITTED = frozenset(name for name, status in STATUSES.items() if status.emitted)

Reason = Literal["eos", "stop", "length", "cancelled"]


# Drafts of `Round.forbidden` are not rejected, because they were not scored.
FORBIDDEN = StatusRow(True, False, False, "⊘", "a draft that the grammar forbids, so that it was not scored")


@dataclass(frozen=True, slots=True)
class Candidate:
    """One token of a distribution and its probability."""

    id: int
    text: str
    mass: float


@dataclass(frozen=True, slots=True)
class Distribution:
    """The most probable tokens, most probable first, and the mass of all the rest."""

    top: tuple[Candidate, ...]
    rest: float


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a round: a draft, or the one that closes it. With tracing off, ``p`` to ``removed`` are None."""

    id: int | None  # None where another server did not tell it, as for each rejected draft
    # The texts of the emitted tokens join to the decoded output exactly. So it is empty for special tokens and for
    # bytes of a character that is not complete yet; ``label`` then says what to show instead.
    text: str
    status: Status
    position: int
    depth: int  # 1 for a first draft
    label: str | None = None
    p: float | None = None  # the target's probability after warping
    q: float | None = None  # the draft's; None where nothing was drafted
    # The uniform that decided: the accept draw of a tested draft, the residual/bonus draw of a closing token, None for
    # a discarded draft.
    u: float | None = None
    accept: float | None = None  # min(1, p/q)
    gap: float | None = None  # between the target's top two logits after penalties: shows near ties
    p_top: Distribution | None = None
    q_top: Distribution | None = None
    residual: Distribution | None = None  # set where p < q
    # p_i and h_i of block verification, where u decides about all drafts up to this one; there every draft has a u, and
    # the residual is taken from running · p. In a tree both are weights of traversal verification, once this draft's
    # turn has come.
    running: float | None = None
    h: float | None = None
    expected: float | None = None  # the estimated chance, before the pass, that a tree's draft would be accepted
    threshold: float | None = None  # p must exceed it in typical acceptance; then a draft has no ``u`` and ``accept``
    removed: Distribution | None = None  # what a constraint took of p, before truncation
    from_grammar: bool = False  # a constraint demanded this draft

    @property
    def emitted(self) -> bool:
        return self.status in EMITTED


@dataclass(frozen=True, slots=True)
class Timings:
    """Where a round's time went, in seconds; ``host`` is bookkeeping, tracing and detokenising."""

    draft: float
    verify: float
    accept: float
    host: float

    @property
    def total(self) -> float:
        return self.draft + self.verify + self.accept + self.host


@dataclass(frozen=True, slots=True)
class Forbidden:
    """A draft that was not scored, because a constraint forbids it after the node ``parent`` (as in `Round`)."""

    id: int
    text: str
    parent: int
    position: int


@dataclass(frozen=True, slots=True)
class Round:
    """One draft → verify → accept → commit.

    ``tokens``: the N drafts in order, then the closing token (absent when the run ended inside the drafts).
    ``parents`` [N]: for each draft the index of its parent node, 0 being the pending token and i the i-th draft
    (1-based). ``gamma``: N for a chain; for a tree of fixed γ the γ of the settings,
    which N may stay below. ``draft_steps``: passes of the draft model. ``start`` and ``end`` are seconds since the run
    started, on a clock that stands still while a draft reads the prompt; ``reading``: the seconds which that took just
    before this round's draft (0 in older traces). ``context``: tokens in the target's cache before the round.
    ``drafter``: the method that drafted it, where several compete; else empty, as in a round without drafts.
    ``row_cost``: what a tree's next row would have cost, in tokens that the same time yields on average. ``rows``: how
    many runs shared the target; with more than one the times are not this run's own. ``gamma``, ``draft_steps``,
    ``context`` and ``timings`` are None in the recording of a server that does not tell them. ``forbidden``: further
    drafts, not scored because a constraint forbids them.
    """

    index: int
    gamma: int | None
    tokens: tuple[Token, ...]
    parents: tuple[int, ...]
    draft_steps: int | None
    context: int | None
    timings: Timings | None
    start: float
    end: float
    drafter: str = ""
    row_cost: float | None = None
    rows: int = 1
    forbidden: tuple[Forbidden, ...] = ()
    reading: float = 0.0

    @property
    def emitted(self) -> tuple[Token, ...]:
        return tuple(t for t in self.tokens if t.status in EMITTED)


@dataclass(frozen=True, slots=True)
class PromptToken:
    """``label``: as in `Token`, of a token that the output begins with."""

    id: int
    text: str
    label: str | None = None


@dataclass(frozen=True, slots=True)
class Translated:
    """A draft model with another tokenizer. ``by``: "tokens" drafts those that both vocabularies have, ``common`` of
    them; "text" drafts in its own and encodes the text again. ``target`` and ``draft``: tokens in each vocabulary."""

    by: Literal["tokens", "text"]
    common: int
    target: int
    draft: int

    @property
    def words(self) -> str:
        way = "by tokens that both have" if self.by == "tokens" else "as text"
        return f"{way}; {self.common:,} in common, of the target's {self.target:,} and the draft's {self.draft:,}"


@dataclass(frozen=True, slots=True)
class Server:
    """The server of another engine whose run was recorded. ``adapter``: what read its answers. ``flags``: its settings,
    as far as they could be read. ``has_counts``: whether each round's drafts were counted, so that α is known.
    ``notes``: sentences about what it does not tell, and what does not fit. ``counters``: the totals that it reported
    itself: ``rounds`` (those with drafts), ``drafted`` and ``accepted``. ``hidden_tokens``: how many it counted and
    its pieces do not show, None where it does not say how many a piece has; τ is then unknown."""

    engine: str
    version: str
    model: str
    adapter: str
    flags: dict[str, str] = field(default_factory=dict)
    has_counts: bool = False
    notes: tuple[str, ...] = ()
    counters: dict[str, int] = field(default_factory=dict)
    hidden_tokens: int | None = 0

    @property
    def title(self) -> str:
        return f"{self.engine} {self.version}".strip()

    @property
    def why_uncounted(self) -> str:
        """The reason for an unknown α."""
        if drafted := self.counters.get("drafted"):
            return f"the server counts drafts in total only: {self.counters.get('accepted', 0)} of {drafted} accepted"
        return "the server does not count its drafts"


@dataclass(frozen=True, slots=True)
class RunStarted:
    """Everything needed to repeat the run. ``config`` is RunConfig as a plain dict; ``weights`` maps "target" and
    "draft" to a hash of the loaded weights; ``prompt`` are the tokens after the chat template. ``at``: its start in
    ISO 8601; empty in older traces. ``prefix``: the tokens that the output begins with, decoded without a round; the
    last one was forced. ``translated``: None where the draft has the target's tokenizer. ``exit_layers``: how many of
    the target's layers drafted, and how many it has; None without an exit head. ``same_bits``: whether the load found
    that a token's logits have the same bits in every pass over a chain; None where it was not tried. ``notes``:
    sentences that a reader should see, such as why auto goes without a draft. ``draft_dtype``: the precision that the
    method's draft ran in; empty without one, and in older traces. ``server``: the one that a recording is of; None in a
    run of our own."""

    config: dict
    prompt: tuple[PromptToken, ...]
    pair: str
    revision: str
    weights: dict[str, str]
    device: str
    dtype: str
    versions: dict[str, str]
    costs: CostModel | None = None
    at: str = ""
    prefix: tuple[PromptToken, ...] = ()
    translated: Translated | None = None
    exit_layers: tuple[int, int] | None = None
    same_bits: bool | None = None
    notes: tuple[str, ...] = ()
    draft_dtype: str = ""
    server: Server | None = None

    # The settings of a trace file may be any JSON. These properties have a value of the right type for all of them.

    def _setting(self, name: str, kind, default: Any) -> Any:
        value = self.config.get(name)
        return value if isinstance(value, kind) and not isinstance(value, bool) else default

    @property
    def method(self) -> str:
        """Empty where it is not known; a file may name a method that does not exist."""
        return self._setting("method", str, "")

    @property
    def gamma(self) -> int | str | None:
        """A number or "auto"."""
        gamma = self._setting("gamma", int | str, None)
        return gamma if isinstance(gamma, int) or gamma == AUTO else None

    @property
    def temperature(self) -> float:
        temperature = self._setting("sampling", dict, {}).get("temperature", 0.0)
        return temperature if isinstance(temperature, int | float) else 0.0

    @property
    def is_greedy(self) -> bool:
        return self.temperature == 0

    @property
    def acceptance(self) -> str:
        """A name in ``ACCEPTANCE``."""
        name = self._setting("acceptance", str, "token")
        return name if name in ACCEPTANCE else "token"

    @property
    def is_lossy(self) -> bool:
        return is_lossy(self.acceptance, self.method, self.gamma, self.temperature)

    @property
    def max_new_tokens(self) -> int | None:
        return self._setting("max_new_tokens", int, None)

    @property
    def prompt_text(self) -> str:
        """The prompt as the visitor wrote it, before the chat template."""
        return self._setting("prompt", str, "")

    @property
    def constraint(self) -> dict[str, Any]:
        """The fields of a `Constraint`; empty without one."""
        return self._setting("constraint", dict, {})

    @property
    def method_settings(self) -> list[tuple[Setting, Any]]:
        """The method's own settings, each with its value."""
        return _own_settings(method_of(self.method).settings, self._setting(self.method, dict, {}))

    @property
    def rule_settings(self) -> list[tuple[Setting, Any]]:
        """The acceptance rule's own settings, each with its value."""
        return _own_settings(ACCEPTANCE[self.acceptance].settings, self.config)


def _own_settings(settings: tuple[Setting, ...], values: dict) -> list[tuple[Setting, Any]]:
    return [(each, values[each.trace_key]) for each in settings if each.accepts(values.get(each.trace_key))]


@dataclass(frozen=True, slots=True)
class RunFinished:
    """Why the run ended, and totals that only the engine can measure.

    ``reason``: a `Reason`, or in a recording the word of another server where it is none of these.
    ``prefill``: seconds in which the target read the prompt; ``ttft``: seconds to the end of the first round;
    ``decode_seconds``: first round's start to last round's end, on their clock, so without the drafts' ``reading`` of
    the prompt; ``seconds``: end to end, with it. In older traces drafts read before the first round, in ``prefill``.
    ``peak_memory`` in bytes (None where not measurable).
    ``text``: the output up to, not including, a stop string. ``notes``: as in `RunStarted`, learnt during the run.
    ``kept_tokens``: how many tokens of the prompt "target" and "draft" took from earlier runs; empty without any.
    """

    reason: str
    text: str
    prefill: float
    ttft: float
    decode_seconds: float
    seconds: float
    peak_memory: int | None = None
    extra: dict = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    kept_tokens: dict[str, int] = field(default_factory=dict)


Event = RunStarted | Round | RunFinished


@dataclass(frozen=True, slots=True)
class Progress:
    """The step that a run waits for before it starts; ``fraction`` from 0 to 1, or None where it is not known."""

    message: str
    fraction: float | None = None

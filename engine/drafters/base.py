"""Defines drafters: each makes an offer, a policy chooses one, and that drafts tokens, each from a known q."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import torch

from engine.config import SamplingParams
from engine.models.decoder.runner import Runner
from engine.sampling.constraint import GrammarReader
from engine.sampling.random_streams import Uniforms
from engine.sampling.warping import History

Keys = Sequence[Hashable]  # the class of confidence of each guess, or PER_TOKEN
Outcomes = Sequence[bool | None]  # whether each draft was accepted; None if it was not tested
PER_TOKEN = "per token"  # the keys of a drafter that knows them only after each of its passes


class Estimates(NamedTuple):
    """What a tree whose nodes were chosen by cost expects; [N] as in `Token`, and as in `Round` of trace/events.py."""

    expected: tuple[float, ...]
    row_cost: float


@dataclass(frozen=True, slots=True)
class Draft:
    """The drafts of a round, N of them; ``[…]`` are shapes."""

    tokens: torch.Tensor  # [N] on the device
    q: torch.Tensor | None = None  # [N, V]: the row each token was drawn from; None if deterministic (one-hot)
    parents: tuple[int, ...] | None = None  # [N] for a tree, None for a chain
    passes: int = 0  # how many passes of the draft model it took
    keys: tuple[Hashable, ...] = ()  # [N], where they are not a beginning of the offer's
    estimates: Estimates | None = None
    finite: torch.Tensor | None = None  # finite if the draft model's numbers are; None: they are known to be

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def parent_nodes(self) -> tuple[int, ...]:
        """The node that each draft follows, [N], for a chain as well."""
        return tuple(range(len(self))) if self.parents is None else self.parents


@dataclass(frozen=True, slots=True)
class DraftOffer:
    """What a drafter could draft after a text. ``draft(gamma, policy)`` drafts up to gamma ≥ 1 tokens; a policy decides
    after each of them, and about the shape of a tree. None decides nothing more."""

    drafter: "Drafter"
    keys: Keys
    draft: Callable[[int, "DraftPolicy | None"], Draft]


class GammaPolicy:
    """Base class: chooses which offer is drafted in each round, and how many tokens."""

    def share(self, rows: int) -> None:
        """Takes into account that from now on ``rows`` requests share each pass."""

    def choose(self, offers: Sequence[DraftOffer], room: int) -> tuple[DraftOffer | None, int]:
        """Returns one of the offers, of which there is at least one, and how many tokens it drafts, up to ``room``."""
        return offers[0], self.length(offers[0].keys, room)

    def length(self, keys: Keys, room: int) -> int:
        """Returns how many tokens an offer with these keys drafts."""
        raise NotImplementedError

    def observe(
        self, keys: Keys | None, outcomes: Outcomes, path: Keys = (), steps: int = 0, scored: int | None = None
    ) -> None:
        """Learns from a round. ``keys``: the offer's, None without one; ``path``: the keys of the drafts, where they
        are not a beginning of those; ``steps``: draft steps; ``scored``: how many drafts were scored, if not all."""


class DraftPolicy:
    """Base class: decides after each token whether drafting goes on. ``path``: the keys of the drafts so far."""

    def worth_verifying(self, path: Sequence[Hashable]) -> bool:
        """Returns whether the last draft of ``path`` is worth its place in the target's pass. Must be called before
        that token is drawn: the decision may depend on q, but not on the token."""
        return True

    def worth_drafting(self, path: Sequence[Hashable]) -> bool:
        """Returns whether one more pass of the draft model is worth its cost."""
        return True

    def tree_shape(self) -> Any:
        """Returns which guesses of a tree are kept (a shape of `token_tree`), or None for the most probable γ."""
        return None


@dataclass(frozen=True, slots=True)
class DrafterSetup:
    """The settings of one run."""

    sampling: SamplingParams  # how the target samples
    vocab_size: int  # V
    uniforms: Uniforms  # seeded
    history: History | None  # the tokens that a repetition penalty counts; None without a penalty
    capacity: int  # how many tokens the target's cache holds
    device: str
    prompt_length: int = 0  # tokens before the first new one
    copy_from: int = 0  # the first prompt token that may be copied: a hidden system prompt must not be shown
    eos_ids: frozenset[int] = frozenset()  # ids that end a text
    control_ids: frozenset[int] = frozenset()  # those and the other marks of a chat template, never inside a text
    trees: bool = False  # the target can score a tree
    reader: GrammarReader | None = None  # for the constraint, at the end of the committed text; None without one
    reads_grammar: bool = False  # a draft model takes the text that must come from the constraint, without guessing
    read: Callable[[Runner, Sequence[int]], None] = lambda runner, ids: runner.prefill(ids)  # by an empty draft model

    @staticmethod
    def greedy(vocab_size: int, capacity: int, device: str) -> "DrafterSetup":
        """Returns the setup of a greedy run without a repetition penalty."""
        return DrafterSetup(SamplingParams(), vocab_size, Uniforms(0, capacity), None, capacity, device)

    def position(self, text: Sequence[int]) -> int:
        """Returns the index, among the run's new tokens, of the one that follows ``text``."""
        return len(text) - self.prompt_length


class Drafter:
    """Base class of all methods. A new method is one file with a subclass and one line in `engine.config.METHODS`.

    ``priors`` maps each confidence key to the acceptance rate that is assumed before a run has measured any.
    """

    name: str
    priors: ClassVar[Any] = MappingProxyType({})
    reads_prompt: ClassVar[bool] = False  # `start` runs a model over the prompt, and `offer` does not need it

    def start(self, prompt: Sequence[int], setup: DrafterSetup) -> None:
        """Prepares for a new run, before the first offer, or with ``reads_prompt`` before the first draft: by then the
        text is longer than ``prompt``. Gets the method's own settings, too, by name."""
        self.setup = setup

    def offer(self, text: Sequence[int]) -> DraftOffer | None:
        """Returns what could be drafted after ``text``, the ids of prompt and output so far; None for nothing."""

    def commit(self, accepted: int) -> None:
        """Notes how many tokens of the offer were accepted (a prefix of a chain); 0 where it was not drafted."""

    def observe_target(self, logits: torch.Tensor) -> None:
        """Notes the target's rows [N+1, V] after the pending token and each of the N ≥ 1 drafts."""

    def memory(self, capacity: int) -> int:
        """Returns the bytes that a run of ``capacity`` tokens takes, beside the weights."""
        return 0

    def release(self) -> None:
        """Frees the run's memory."""

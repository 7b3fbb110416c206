"""Defines a drafter: it proposes tokens and reports the distribution q that each was drawn from."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch

from engine.config import SamplingParams
from engine.sampling.constraint import GrammarReader
from engine.sampling.random_streams import Uniforms
from engine.sampling.warping import History

Keys = Sequence[Hashable] | None  # as `Drafter.confidence_classes` returns them
PER_TOKEN = "per token"  # the confidence keys of a drafter that knows its confidence only after each pass


@dataclass(frozen=True, slots=True)
class Draft:
    """The drafts of a round, N of them; ``[…]`` are shapes."""

    tokens: torch.Tensor  # [N] on the device
    q: torch.Tensor | None = None  # [N, V]: the row each token was drawn from; None if deterministic (one-hot)
    parents: tuple[int, ...] | None = None  # [N] for a tree, None for a chain
    passes: int = 0  # how many passes of the draft model it took
    confidence_classes: tuple[Hashable, ...] = ()  # [N], from drafters that decide per token
    drafter: str = ""  # the member that proposed it, where several compete
    expected: tuple[float, ...] = ()  # [N], as in `Token.expected`, for a tree whose nodes were chosen by cost
    row_cost: float | None = None  # as in `Round.row_cost`, for the same tree
    is_broken: bool = False  # the draft model's numbers were not finite, and drafting ended before them
    finite: torch.Tensor | None = None  # finite if the model's numbers are, on the device; None: the host has looked
    from_grammar: tuple[bool, ...] = ()  # [N]: which drafts a constraint demanded; empty where it demanded none
    is_window: bool = False  # every row is wanted, even those of drafts that a constraint forbids

    def __len__(self) -> int:
        return len(self.tokens)


class GammaPolicy:
    """Base class: chooses how many tokens each round drafts. ``keys`` are those of `Drafter.confidence_classes`, or
    those of each member by its name where several drafters compete."""

    def share(self, rows: int) -> None:
        """Takes into account that from now on ``rows`` requests share each pass."""

    def choose(self, keys: Any, limit: int) -> int:
        """Returns the drafts of this round, at most ``limit``."""
        raise NotImplementedError

    def observe(
        self,
        keys: Any,
        outcomes: Sequence[bool | None],
        path: Sequence[Hashable] = (),
        steps: int = 0,
        scored: int | None = None,
    ) -> None:
        """Learns from a round: whether each draft was accepted (None if it was not tested), the keys of the drafts
        where they are not a beginning of ``keys``, the draft steps, and how many drafts were scored if not all."""


@runtime_checkable
class DraftPolicy(Protocol):
    """Decides after each token whether drafting goes on. ``path``: the confidence keys of the drafts so far."""

    def worth_verifying(self, path: Sequence[Hashable]) -> bool:
        """Returns whether the last draft of ``path`` is worth its place in the target's pass. Must be called before
        that token is drawn: the decision may depend on q, but not on the token."""
        ...

    def worth_drafting(self, path: Sequence[Hashable]) -> bool:
        """Returns whether one more pass of the draft model is worth its cost."""
        ...

    def tree_shape(self) -> Any:
        """Returns which guesses of a tree are kept (a shape of `token_tree`), or None for the most probable γ."""


@dataclass(frozen=True, slots=True)
class DrafterSetup:
    """The settings of one run."""

    sampling: SamplingParams  # how the target samples
    vocab_size: int  # V
    uniforms: Uniforms  # seeded
    history: History | None  # the tokens that a repetition penalty counts; None without a penalty
    capacity: int  # how many tokens the target's cache holds
    device: str
    policy: DraftPolicy | None = None  # None where the draft length is fixed in advance
    copy_from: int = 0  # the first prompt token that may be copied: a hidden system prompt must not be shown
    eos_ids: frozenset[int] = frozenset()  # ids that end a text
    control_ids: frozenset[int] = frozenset()  # those and the other marks of a chat template, never inside a text
    trees: bool = False  # the target can score a tree
    reader: GrammarReader | None = None  # for the constraint, at the end of the committed text; None without one
    reads_grammar: bool = False  # a draft model takes the text that must come from the constraint, without guessing

    @staticmethod
    def greedy(vocab_size: int, capacity: int, device: str, policy: DraftPolicy | None = None) -> "DrafterSetup":
        """Returns the setup of a greedy run without a repetition penalty."""
        return DrafterSetup(SamplingParams(), vocab_size, Uniforms(0, capacity), None, capacity, device, policy)


class Drafter:
    """Base class of all methods. A new method is one file with a subclass and one line in `engine.config.METHODS`.

    ``priors`` maps each confidence key to the acceptance rate that is assumed before a run has measured any.
    """

    name: str
    priors: ClassVar[Any] = MappingProxyType({})

    def start(self, prompt: Sequence[int], setup: DrafterSetup) -> None:
        """Prepares for a new run. Gets the method's own settings, too, by name."""

    def confidence_classes(self, committed: Sequence[int]) -> Keys | Mapping[str, Any]:
        """Returns the class of each guess that could be proposed (a sequence of keys into ``priors``), PER_TOKEN if
        they show only while drafting, or None if there is nothing to propose. Of several drafters: those of each, by
        its name."""

    def propose(self, committed: Sequence[int], gamma: int, position: int) -> Draft:
        """Returns up to gamma ≥ 1 tokens to follow ``committed``. ``position``: index of the first one among the new
        tokens of the run."""
        raise NotImplementedError

    def commit(self, accepted: int) -> None:
        """Notes how many tokens of the round's proposal were accepted (a prefix of a chain); 0 without a proposal."""

    def observe_target(self, logits: torch.Tensor) -> None:
        """Notes the target's rows [N+1, V] after the pending token and each of the N ≥ 1 drafts."""

    def memory(self, capacity: int) -> int:
        """Returns the bytes that a run of ``capacity`` tokens takes, beside the weights."""
        return 0

    def release(self) -> None:
        """Frees the run's memory."""

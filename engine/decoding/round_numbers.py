"""Holds the numbers that a trace shows of a round: one class for each kind of rule, which says what its numbers mean.

They are measured on the device (`measure`), copied with the verdict, and read on the host.

Dimension key: N drafts, V vocabulary, k candidates kept.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from engine.device import to_device
from engine.drafters.base import Draft
from engine.sampling.rejection import Verdict, leftover, leftover_words, rows_in_turn
from engine.sampling.top_words import gap, top
from engine.sampling.warping import one_hot
from engine.trace.events import DRAFTED, TESTED

Array = np.ndarray | tuple[Any, ...]  # empty where nothing was measured


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundNumbers:
    """The numbers of a round in which each draft has a test of its own. tested, accept [N]: as in `Verdict`; p, q [N]:
    of every draft, discarded ones included; closing_p, closing_q [1]: of the closing token. mass and ids [·, k]: the
    likeliest words of p after each node (p_), of the q that each draft was drawn from (q_; empty: one-hot), and of the
    residual that it leaves (r_; empty: p itself, or nothing). gap [N+1]: of greedy rows. removed [N+1], removed_mass,
    removed_words [N+1, k]: as `Constrained.measure_removed` has them."""

    drawn: ClassVar[frozenset[str]] = TESTED  # the statuses of drafts about which a draw has decided
    tested: np.ndarray
    accept: np.ndarray
    closing_p: np.ndarray
    p_mass: np.ndarray
    p_ids: np.ndarray
    p: Array = ()
    q: Array = ()
    closing_q: Array = ()
    q_mass: Array = ()
    q_ids: Array = ()
    r_mass: Array = ()
    r_ids: Array = ()
    gap: Array = ()
    removed: Array = ()
    removed_mass: Array = ()
    removed_words: Array = ()

    def of_test(self, i: int) -> dict[str, float]:
        """Returns what draft i was tested with, as fields of `Token`."""
        is_tested = self.tested[i]
        return {"accept": float(self.accept[i]) if is_tested else min(1.0, float(self.p[i]) / float(self.q[i]))}

    def can_end_before(self, i: int, parent: int) -> bool:
        """Returns whether the round can end before draft i, so that its residual matters."""
        return self.of_test(i)["accept"] < 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockNumbers(RoundNumbers):
    """The numbers of drafts that are decided on together. running, h [N]: as in `Block`."""

    drawn: ClassVar[frozenset[str]] = DRAFTED
    running: np.ndarray
    h: np.ndarray

    def of_test(self, i: int) -> dict[str, float]:
        return {"accept": float(self.accept[i]), "running": float(self.running[i]), "h": float(self.h[i])}

    def can_end_before(self, i: int, parent: int) -> bool:
        return bool(self.running[i] < 1 and (parent == 0 or self.h[parent - 1] > 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class TypicalNumbers(RoundNumbers):
    """The numbers of typical acceptance, which draws nothing. threshold [N]: as in `Verdict`."""

    drawn: ClassVar[frozenset[str]] = frozenset()
    threshold: np.ndarray

    def of_test(self, i: int) -> dict[str, float]:
        return {"threshold": float(self.threshold[i])}

    def can_end_before(self, i: int, parent: int) -> bool:
        return False


def kind_of(verdict: Verdict) -> type[RoundNumbers]:
    """Returns the class for the numbers of the rule that decided."""
    if verdict.threshold is not None:
        return TypicalNumbers
    return RoundNumbers if verdict.block is None else BlockNumbers


def measure(p, logits, draft: Draft, verdict: Verdict, is_greedy: bool, k: int) -> dict[str, torch.Tensor]:
    """Returns on the device the fields of `kind_of(verdict)` that the verdict itself does not hold."""

    def likeliest(name: str, rows) -> dict[str, torch.Tensor]:
        if is_greedy:  # one-hot rows have one candidate
            mass, ids = rows.max(-1, keepdim=True)
        else:
            mass, ids = top(rows, k)
        return {f"{name}_mass": mass, f"{name}_ids": ids}

    N, tokens = len(draft), draft.tokens
    # Indexed by one-element tensors throughout: a 0-dim index would be read by the host.
    last, closing = verdict.last.view(1), verdict.closing.view(1)
    numbers = {"closing_p": p[last, closing], **likeliest("p", p)}
    if is_greedy:
        numbers["gap"] = gap(logits)
    if verdict.threshold is not None:
        numbers["threshold"] = verdict.threshold
    if verdict.block is not None:
        numbers["running"], numbers["h"] = verdict.block.running, verdict.block.h
    if not N:
        return numbers
    # [N, V]: the row of draft i's place, before earlier siblings took their shares
    before = p[:N] if draft.parents is None else p[to_device(draft.parents, p.device)]
    numbers["p"] = before.gather(1, tokens[:, None])[:, 0]
    # The closing token's residual was computed with the q of the draft that was tested last.
    rejected = (verdict.tested * torch.arange(N, device=p.device)).amax(0, keepdim=True)
    if draft.q is None:
        numbers["q"], numbers["closing_q"] = torch.ones_like(numbers["p"]), tokens[rejected] == closing
    else:
        numbers["q"] = draft.q.gather(1, tokens[:, None])[:, 0]
        numbers["closing_q"] = draft.q[rejected, closing]
        numbers |= likeliest("q", draft.q)
    if verdict.threshold is None and not (is_greedy and draft.q is None):
        numbers["r_mass"], numbers["r_ids"] = _top_residuals(p, draft, verdict, 1 if is_greedy else k)
    return numbers


def _top_residuals(p, draft: Draft, verdict: Verdict, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the likeliest words [N, k] of the residual that each draft leaves to the token in its place, and their
    ids. Only these words are normalised."""
    block, tokens = verdict.block, draft.tokens
    if block is not None and block.residual_after is not None:
        return top(block.residual_after, k)
    rows = p[:-1] if draft.parents is None else rows_in_turn(p, draft.q, tokens, draft.parents)
    if draft.q is None and block is None:
        left, total = leftover_words(rows, tokens)
    else:
        q, weight = one_hot(tokens, p.shape[-1]) if draft.q is None else draft.q, None
        if block is not None:  # the p_i of the drafts before
            weight = torch.cat([torch.ones_like(q[:1, 0]), block.running[:-1]])[:, None]
        left, total = leftover(rows, q, weight)
    mass, ids = top(left, k)
    return mass / total, ids

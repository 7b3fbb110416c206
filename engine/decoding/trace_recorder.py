"""Turns a verdict on the device into the Tokens of a Round: one copy to the host, then plain data.

Dimension key: N drafts, V vocabulary, k candidates kept.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from engine.config import RunConfig
from engine.decoding.tokenization import Detokenizer
from engine.device import to_device, to_host
from engine.drafters.base import Draft
from engine.sampling.rejection import Verdict, residual, rows_in_turn
from engine.sampling.top_words import gap, top
from engine.sampling.warping import one_hot
from engine.trace.events import EMITTED, TESTED, Candidate, Distribution, Forbidden, Status, Token

_NOTHING: Mapping[str, torch.Tensor] = {}


@dataclass(slots=True)
class HostVerdict:
    """A verdict on the host. tokens, path, tested, accept [N]; last, closing as in `Verdict`. ``numbers``: the
    arrays of `TraceRecorder._numbers`, empty if tracing is off. ``rescued``: the rescued drafts of a block.
    ``is_finite``: whether the target's deciding numbers are finite; ``draft_is_finite``: whether the draft's are."""

    tokens: list[int]
    path: np.ndarray
    tested: np.ndarray
    accept: np.ndarray
    last: int
    closing: int
    numbers: dict[str, np.ndarray]
    rescued: frozenset[int] = frozenset()
    is_finite: bool = True
    draft_is_finite: bool = True

    @property
    def accepted_tokens(self) -> tuple[int, ...]:
        """The accepted drafts, in order."""
        return tuple(token for token, on_path in zip(self.tokens, self.path, strict=True) if on_path)

    @property
    def outcomes(self) -> list[bool | None]:
        """Whether each draft was accepted; None if it was not tested."""
        return [bool(on_path) if tested else None for on_path, tested in zip(self.path, self.tested, strict=True)]


def all_to_host(tensors: dict[str, torch.Tensor]) -> dict[str, np.ndarray]:
    """Copies all tensors in one transfer, as fp32 (token ids stay exact below 2²⁴). On a CPU they stay."""
    if all(tensor.device.type == "cpu" for tensor in tensors.values()):
        return {name: tensor.float().numpy() for name, tensor in tensors.items()}
    flat = to_host(torch.cat([t.reshape(-1).float() for t in tensors.values()]))
    result, at = {}, 0
    for name, tensor in tensors.items():
        result[name] = flat[at : at + tensor.numel()].reshape(tensor.shape)
        at += tensor.numel()
    return result


def classify(verdict: HostVerdict, parents: Sequence[int], emitted: int) -> list[Status]:
    """Returns the status of each draft in order, then of the closing token if the text reaches it.

    ``parents`` [N]: the node each draft follows. ``emitted``: tokens of the round up to the end of the text, so at most
    the accepted drafts and the closing token. Drafts after the end are discarded even if the target accepted them.
    """
    statuses, accepted = [], 0
    for i, (on_path, tested) in enumerate(zip(verdict.path, verdict.tested, strict=True)):
        if on_path and accepted < emitted:
            statuses.append("rescued" if i in verdict.rescued else "accepted")
            accepted += 1
        else:
            statuses.append("rejected" if tested and not on_path and accepted < emitted else "discarded")
    if accepted < emitted:
        replaces = _rejected_after(verdict.last, statuses, parents)
        statuses.append("plain" if not statuses else "resampled" if replaces else "bonus")
    return statuses


def _rejected_after(node: int, statuses: Sequence[Status], parents: Sequence[int]) -> list[int]:
    """Returns the drafts that were rejected as successors of ``node``, in order."""
    return [i for i, parent in enumerate(parents) if parent == node and statuses[i] == "rejected"]


class TraceRecorder:
    """Turns the device's results into the Tokens of a Round. ``text`` decodes the emitted ids as they are committed."""

    def __init__(self, config: RunConfig, tokenizer):
        self.config, self.text = config, Detokenizer(tokenizer)
        self.greedy, self.k = config.sampling.greedy, config.trace_top

    def fetch(
        self,
        p,
        logits,
        draft: Draft,
        verdict: Verdict,
        words: torch.Tensor | None = None,
        removed: Mapping[str, Any] = _NOTHING,
    ) -> HostVerdict:
        """Copies the verdict to the host, and p, q and candidates if tracing is on: the round's one host sync.
        ``words`` [C]: the ids of p's columns and of the draft's tokens, where they are not all V. ``removed``: those of
        `Constrained.measure_removed`."""
        tensors = {
            "tokens": draft.tokens,
            "path": verdict.path,
            "tested": verdict.tested,
            "accept": verdict.accept,
            "closing": torch.stack([verdict.last, verdict.closing]),
            "tops": self._tops(p, logits, words),
        }
        if draft.finite is not None:
            tensors["draft_tops"] = draft.finite
        if verdict.block is not None:
            tensors["rescued"] = verdict.block.rescued
        if self.config.trace:
            tensors |= self._numbers(p, logits, draft, verdict) | dict(removed)
        got = all_to_host(tensors)
        last, closing = got.pop("closing").astype(int).tolist()
        path, tested = got.pop("path") > 0, got.pop("tested") > 0
        read_rows = np.concatenate([[True], path])  # the root's, and that of each accepted draft
        is_finite = bool(np.isfinite(got.pop("tops"))[read_rows].all())
        draft_is_finite = not draft.is_broken and bool(np.isfinite(got.pop("draft_tops", 0.0)).all())
        rescued = frozenset(got.pop("rescued", np.zeros(0)).nonzero()[0].tolist())
        tokens, accept = got.pop("tokens").astype(int), got.pop("accept")
        if words is not None:
            ids = words.numpy()
            tokens, closing = ids[tokens], int(ids[closing])
            got |= {name: ids[numbers.astype(int)] for name, numbers in got.items() if name.endswith("_ids")}
        tokens = tokens.tolist()
        return HostVerdict(tokens, path, tested, accept, last, closing, got, rescued, is_finite, draft_is_finite)

    def _tops(self, p: torch.Tensor, logits: torch.Tensor, words: torch.Tensor | None) -> torch.Tensor:
        """Returns a number [N+1] for each row that is finite only if the row's decision is: a probability, or for
        greedy rows, whose probabilities are always finite, the largest logit."""
        if not self.greedy:
            return p[:, 0]
        if words is None:
            return logits.amax(-1)
        return logits.gather(1, words[p.argmax(-1)][:, None])[:, 0]

    def _numbers(self, p, logits, draft: Draft, verdict: Verdict) -> dict[str, torch.Tensor]:
        """Returns p, q [N] of every draft, discarded ones included; mass and ids [·, k] of the top of p, q and the
        residual (p_, q_, r_); the closing token's p and q [1]; top-2 logit gaps [N+1] if greedy; a block's running and
        h [N]."""
        N, tokens = len(draft), draft.tokens
        # Indexed by one-element tensors throughout: a 0-dim index would be read by the host.
        last, closing = verdict.last.view(1), verdict.closing.view(1)
        numbers = {"closing_p": p[last, closing]}
        numbers["p_mass"], numbers["p_ids"] = self._top(p)
        if self.greedy:
            numbers["gap"] = gap(logits)
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
            numbers["q_mass"], numbers["q_ids"] = self._top(draft.q)
        if verdict.threshold is not None:
            numbers["threshold"] = verdict.threshold
            return numbers
        if verdict.block is not None:
            numbers["running"], numbers["h"] = verdict.block.running, verdict.block.h
        if not (self.greedy and draft.q is None):  # then the residual is p itself, or empty
            numbers["r_mass"], numbers["r_ids"] = self._top(self._residuals(p, draft, verdict))
        return numbers

    @staticmethod
    def _residuals(p, draft: Draft, verdict: Verdict) -> torch.Tensor:
        """Returns [N, V] the residual that each draft leaves to the token in its place."""
        q = one_hot(draft.tokens, p.shape[-1]) if draft.q is None else draft.q
        if draft.parents is None:
            weight = 1.0  # p's weight; in block acceptance, the p_i of the drafts before
            if verdict.block is not None:
                weight = torch.cat([torch.ones_like(q[:1, 0]), verdict.block.running[:-1]])[:, None]
            return residual(p[:-1], q, weight)
        if verdict.block is not None and verdict.block.residual_after is not None:
            return verdict.block.residual_after
        return residual(rows_in_turn(p, draft.q, draft.tokens, draft.parents), q)

    def _top(self, rows):
        if self.greedy:  # one-hot rows have one candidate
            best = rows.max(-1, keepdim=True)
            return best.values, best.indices
        return top(rows, self.k)

    def draft_texts(self, verdict: HostVerdict, draft: Draft) -> list[str]:
        """Returns [N] the text each draft adds after its ancestors. Comes before the round's ids go to ``text``."""
        if draft.parents is None:
            return self.text.peek(verdict.tokens)
        paths: list[list[int]] = [[]]
        for token, parent in zip(verdict.tokens, draft.parents, strict=True):
            paths.append([*paths[parent], token])
        return [self.text.peek(path)[-1] for path in paths[1:]]

    def tokens(
        self, verdict: HostVerdict, draft: Draft, draft_texts: list[str], texts: list[str], tail: str,
        u: Sequence[float], u_closing: np.ndarray, depth: Sequence[int], position: int,
    ) -> tuple[Token, ...]:  # fmt: skip
        """Builds the drafts in order, then the closing token if the text reaches it. ``texts``: those of the emitted
        tokens, ``tail``: added to the last of them. u [N] accept draws; u_closing, depth [N+1] by node."""
        N, parents = len(draft), range(len(draft)) if draft.parents is None else draft.parents
        statuses = classify(verdict, parents, len(texts))
        last_emitted = max(i for i, status in enumerate(statuses) if status in EMITTED)
        tokens: list[Token] = []
        for i, status in enumerate(statuses):
            if i < N:
                token, text, at = verdict.tokens[i], draft_texts[i], depth[i + 1]
                is_decided = (status in TESTED or "running" in verdict.numbers) and "threshold" not in verdict.numbers
                numbers = self._draft_numbers(verdict, i, parents[i], u[i] if is_decided else None)
                if numbers and draft.expected:
                    numbers["expected"] = draft.expected[i]
            else:
                token, text, at = verdict.closing, texts[-1], depth[verdict.last] + 1
                rejected = [tokens[k] for k in _rejected_after(verdict.last, statuses, parents)]
                numbers = self._closing_numbers(verdict, float(u_closing[verdict.last]), rejected)
            piece = text + tail if i == last_emitted else text
            label, is_demanded = self.text.label(token, text), any(draft.from_grammar[i : i + 1])
            tokens.append(
                Token(token, piece, status, position + at - 1, at, label, **numbers, from_grammar=is_demanded)
            )
        return tuple(tokens)

    def forbidden(self, drafts: Sequence, depth: Sequence[int], position: int) -> tuple[Forbidden, ...]:
        """Returns the drafts that a constraint cut off, for the trace; ``depth`` [N+1] of the nodes they followed."""
        return tuple(
            Forbidden(draft.token, self.text.name(draft.token), draft.parent, position + depth[draft.parent])
            for draft in drafts
        )

    def _draft_numbers(self, verdict: HostVerdict, i: int, parent: int, u: float | None) -> dict:
        """Returns p, q, u, the chance to be accepted and the candidates of draft i; empty if tracing is off."""
        arrays = verdict.numbers
        if not arrays:
            return {}
        p, q = float(arrays["p"][i]), float(arrays["q"][i])
        numbers = {"p": p, "q": q, "u": u}
        if "threshold" in arrays:
            numbers["threshold"] = float(arrays["threshold"][i])
        else:
            is_known = verdict.tested[i] or "running" in arrays
            numbers["accept"] = float(verdict.accept[i]) if is_known else min(1.0, p / q)
        numbers["p_top"] = self._distribution(arrays["p_mass"][parent], arrays["p_ids"][parent])
        if "q_mass" in arrays:
            numbers["q_top"] = self._distribution(arrays["q_mass"][i], arrays["q_ids"][i])
        else:
            token = verdict.tokens[i]
            numbers["q_top"] = Distribution((Candidate(token, self.text.name(token), 1.0),), 0.0)
        if "running" in arrays:
            numbers |= {"running": float(arrays["running"][i]), "h": float(arrays["h"][i])}
        if self._can_end_before(verdict, i, parent, p, q):
            mass, ids = ("r_mass", "r_ids") if "r_mass" in arrays else ("p_mass", "p_ids")
            row = i if mass == "r_mass" else parent
            numbers["residual"] = self._distribution(arrays[mass][row], arrays[ids][row])
        return numbers | self._of_row(arrays, parent)

    def _of_row(self, arrays: dict[str, np.ndarray], row: int) -> dict:
        """Returns the numbers of a row, the same for a draft and for a closing token."""
        numbers = {}
        if "gap" in arrays and np.isfinite(gap := arrays["gap"][row]):  # a constraint may leave one word
            numbers["gap"] = float(gap)
        if "removed" in arrays:
            top = self._distribution(arrays["removed_mass"][row], arrays["removed_words"][row]).top
            rest = float(arrays["removed"][row]) - sum(candidate.mass for candidate in top)
            numbers["removed"] = Distribution(top, max(0.0, rest))
        return numbers

    @staticmethod
    def _can_end_before(verdict: HostVerdict, i: int, parent: int, p: float, q: float) -> bool:
        """Returns whether the round can end before draft i, so that its residual matters."""
        if "threshold" in verdict.numbers:
            return False
        if "running" not in verdict.numbers:
            return verdict.accept[i] < 1 if verdict.tested[i] else p < q
        return verdict.numbers["running"][i] < 1 and (parent == 0 or verdict.numbers["h"][parent - 1] > 0)

    def _closing_numbers(self, verdict: HostVerdict, u: float, rejected: Sequence[Token]) -> dict:
        """Returns the numbers of the closing token; ``rejected``: the drafts it replaces."""
        arrays, row = verdict.numbers, verdict.last
        if not arrays:
            return {}
        numbers: dict[str, Any] = {"p": float(arrays["closing_p"][0]), "u": u}
        numbers["p_top"] = self._distribution(arrays["p_mass"][row], arrays["p_ids"][row])
        numbers |= self._of_row(arrays, row)
        if rejected:  # the residual it was drawn from is that of the last one
            numbers["q"] = float(arrays["closing_q"][0])
            numbers |= {"q_top": rejected[-1].q_top, "residual": rejected[-1].residual}
            numbers["threshold"] = rejected[-1].threshold
        return numbers

    def _distribution(self, mass: np.ndarray, ids: np.ndarray) -> Distribution:
        top = tuple(
            Candidate(int(i), self.text.name(int(i)), float(m)) for m, i in zip(mass, ids, strict=True) if m > 0
        )
        return Distribution(top, max(0.0, 1.0 - sum(c.mass for c in top)))

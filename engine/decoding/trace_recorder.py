"""Turns a verdict on the device into the Tokens of a Round: one copy to the host, then plain data.

Dimension key: N drafts, V vocabulary.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from engine.config import RunConfig
from engine.decoding.constrained import Allowed
from engine.decoding.round_numbers import RoundNumbers, kind_of, measure
from engine.decoding.tokenization import Detokenizer
from engine.device import to_host
from engine.drafters.base import Draft
from engine.sampling.rejection import Verdict
from engine.trace.events import EMITTED, Candidate, Distribution, Forbidden, Status, Token

_NOTHING: Mapping[str, torch.Tensor] = {}


@dataclass(slots=True)
class HostVerdict:
    """A verdict on the host. tokens, path, tested [N]; last, closing as in `Verdict`. ``numbers``: None if tracing is
    off. ``rescued``: the rescued drafts of a block. ``is_finite``: whether the target's deciding numbers are finite;
    ``draft_is_finite``: whether the draft's are."""

    tokens: list[int]
    path: np.ndarray
    tested: np.ndarray
    last: int
    closing: int
    numbers: RoundNumbers | None = None
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
    """Turns the device's results into the Tokens of a Round. ``detokenizer`` decodes the emitted ids as they are
    committed."""

    def __init__(self, config: RunConfig, tokenizer):
        self.config, self.detokenizer = config, Detokenizer(tokenizer)
        self.greedy, self.k = config.sampling.greedy, config.trace_top

    def fetch(
        self, p, logits, draft: Draft, verdict: Verdict, words: torch.Tensor | None = None,
        removed: Mapping[str, Any] = _NOTHING,
    ) -> HostVerdict:  # fmt: skip
        """Copies the verdict to the host, and p, q and candidates if tracing is on: the round's one host sync.
        ``words`` [C]: the ids of p's columns and of the draft's tokens, where they are not all V. ``removed``:
        the numbers of `Constrained.measure_removed`."""
        tensors = {
            "tokens": draft.tokens,
            "path": verdict.path,
            "tested": verdict.tested,
            "closing": torch.stack([verdict.last, verdict.closing]),
            "tops": self._tops(p, logits, words),
        }
        if draft.finite is not None:
            tensors["draft_tops"] = draft.finite
        if verdict.block is not None:
            tensors["rescued"] = verdict.block.rescued
        if self.config.trace:
            tensors |= measure(p, logits, draft, verdict, self.greedy, self.k) | dict(removed, accept=verdict.accept)
        got = all_to_host(tensors)
        last, closing = got.pop("closing").astype(int).tolist()
        path, tested = got.pop("path") > 0, got.pop("tested") > 0
        read_rows = np.concatenate([[True], path])  # the root's, and each accepted draft's
        is_finite = bool(np.isfinite(got.pop("tops"))[read_rows].all())
        draft_is_finite = bool(np.isfinite(got.pop("draft_tops", 0.0)).all())
        rescued = frozenset(got.pop("rescued", np.zeros(0)).nonzero()[0].tolist())
        tokens = got.pop("tokens").astype(int)
        if words is not None:
            ids = words.numpy()
            tokens, closing = ids[tokens], int(ids[closing])
            got |= {name: ids[numbers.astype(int)] for name, numbers in got.items() if name.endswith("_ids")}
        numbers = kind_of(verdict)(tested=tested, **got) if self.config.trace else None
        return HostVerdict(tokens.tolist(), path, tested, last, closing, numbers, rescued, is_finite, draft_is_finite)

    def _tops(self, p: torch.Tensor, logits: torch.Tensor, words: torch.Tensor | None) -> torch.Tensor:
        """Returns a number [N+1] for each row that is finite only if the row's decision is: a probability, or for
        greedy rows, whose probabilities are always finite, the largest logit."""
        if not self.greedy:
            return p[:, 0]
        if words is None:
            return logits.amax(-1)
        return logits.gather(1, words[p.argmax(-1)][:, None])[:, 0]

    def draft_texts(self, verdict: HostVerdict, draft: Draft) -> list[str]:
        """Returns [N] the text each draft adds after its ancestors. Comes before the round's ids are committed."""
        if draft.parents is None:
            return self.detokenizer.peek(verdict.tokens)
        paths: list[list[int]] = [[]]
        for token, parent in zip(verdict.tokens, draft.parents, strict=True):
            paths.append([*paths[parent], token])
        return [self.detokenizer.peek(path)[-1] for path in paths[1:]]

    def tokens(
        self, verdict: HostVerdict, allowed: Allowed, draft_texts: list[str], texts: list[str], tail: str,
        u: Sequence[float], u_closing: np.ndarray, depth: Sequence[int], position: int,
    ) -> tuple[Token, ...]:  # fmt: skip
        """Builds the drafts in order, then the closing token if the text reaches it. ``texts``: the emitted tokens'
        texts, ``tail``: added to the last of them. u [N] accept draws; u_closing, depth [N+1] by node."""
        draft, parents, N = allowed.draft, allowed.draft.parent_nodes, len(allowed.draft)
        statuses = classify(verdict, parents, len(texts))
        last_emitted = max(i for i, status in enumerate(statuses) if status in EMITTED)
        tokens: list[Token] = []
        for i, status in enumerate(statuses):
            if i < N:
                token, text, at = verdict.tokens[i], draft_texts[i], depth[i + 1]
                numbers = self._draft_numbers(verdict, i, parents[i], status, u)
                if numbers and draft.estimates:
                    numbers["expected"] = draft.estimates.expected[i]
            else:
                token, text, at = verdict.closing, texts[-1], depth[verdict.last] + 1
                rejected = [tokens[k] for k in _rejected_after(verdict.last, statuses, parents)]
                numbers = self._closing_numbers(verdict, float(u_closing[verdict.last]), rejected)
            piece = text + tail if i == last_emitted else text
            label, is_demanded = self.detokenizer.label(token, text), any(allowed.demanded[i : i + 1])
            place = position + at - 1
            tokens.append(Token(token, piece, status, place, at, label, **numbers, from_grammar=is_demanded))
        return tuple(tokens)

    def forbidden(self, drafts: Sequence, depth: Sequence[int], position: int) -> tuple[Forbidden, ...]:
        """Returns the drafts that a constraint cut off, for the trace; ``depth`` [N+1] of the nodes they followed."""
        return tuple(
            Forbidden(draft.token, self.detokenizer.name(draft.token), draft.parent, position + depth[draft.parent])
            for draft in drafts
        )

    def _draft_numbers(self, verdict: HostVerdict, i: int, parent: int, status: Status, u: Sequence[float]) -> dict:
        """Returns p, q, u, the test and the candidates of draft i; empty if tracing is off."""
        numbers = verdict.numbers
        if numbers is None:
            return {}
        fields = {"p": float(numbers.p[i]), "q": float(numbers.q[i]), "u": u[i] if status in numbers.drawn else None}
        fields["p_top"] = self._distribution(numbers.p_mass[parent], numbers.p_ids[parent])
        if not len(numbers.q_mass):
            token = verdict.tokens[i]
            fields["q_top"] = Distribution((Candidate(token, self.detokenizer.name(token), 1.0),), 0.0)
        else:
            fields["q_top"] = self._distribution(numbers.q_mass[i], numbers.q_ids[i])
        if numbers.can_end_before(i, parent):
            fields["residual"] = fields["p_top"]
            if len(numbers.r_mass):
                fields["residual"] = self._distribution(numbers.r_mass[i], numbers.r_ids[i])
        return fields | numbers.of_test(i) | self._of_row(numbers, parent)

    def _of_row(self, numbers: RoundNumbers, row: int) -> dict:
        """Returns the numbers of a row, the same for a draft and for a closing token."""
        fields = {}
        if len(numbers.gap) and np.isfinite(gap := numbers.gap[row]):  # a constraint may leave one word
            fields["gap"] = float(gap)
        if len(numbers.removed):
            top = self._distribution(numbers.removed_mass[row], numbers.removed_words[row]).top
            rest = float(numbers.removed[row]) - sum(candidate.mass for candidate in top)
            fields["removed"] = Distribution(top, max(0.0, rest))
        return fields

    def _closing_numbers(self, verdict: HostVerdict, u: float, rejected: Sequence[Token]) -> dict:
        """Returns the numbers of the closing token; ``rejected``: the drafts it replaces."""
        numbers, row = verdict.numbers, verdict.last
        if numbers is None:
            return {}
        fields: dict[str, Any] = {"p": float(numbers.closing_p[0]), "u": u}
        fields["p_top"] = self._distribution(numbers.p_mass[row], numbers.p_ids[row])
        fields |= self._of_row(numbers, row)
        if rejected:  # it was drawn from the residual of the last one
            fields["q"] = float(numbers.closing_q[0])
            fields |= {"q_top": rejected[-1].q_top, "residual": rejected[-1].residual}
            fields["threshold"] = rejected[-1].threshold
        return fields

    def _distribution(self, mass: np.ndarray, ids: np.ndarray) -> Distribution:
        pairs = [(int(i), float(m)) for m, i in zip(mass, ids, strict=True) if m > 0]
        top = tuple(Candidate(i, self.detokenizer.name(i), m) for i, m in pairs)
        return Distribution(top, max(0.0, 1.0 - sum(c.mass for c in top)))

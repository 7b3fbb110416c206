"""From a verdict on the device to the Tokens of a Round: one copy to the host, then plain data.

Dimension key: N drafts, V vocabulary, k candidates kept.
"""

from dataclasses import dataclass

import numpy as np
import torch

from engine.acceptance import Verdict, residual
from engine.config import RunConfig
from engine.device import to_device
from engine.drafters.base import Draft
from engine.events import Candidate, Distribution, Token
from engine.sampling import one_hot
from engine.text import Detokenizer


@dataclass(slots=True)
class Outcome:
    """A verdict on the host. Arrays are [N] unless said otherwise; the optional ones are there when tracing."""

    tokens: list[int]
    path: np.ndarray
    tested: np.ndarray
    accept: np.ndarray
    last: int
    closing: int
    numbers: dict[str, np.ndarray]


def to_host(tensors: dict[str, torch.Tensor]) -> dict[str, np.ndarray]:
    """All of them in one transfer, as fp32 (token ids stay exact below 2²⁴)."""
    flat = torch.cat([t.reshape(-1).float() for t in tensors.values()]).cpu().numpy()
    result, at = {}, 0
    for name, tensor in tensors.items():
        result[name] = flat[at : at + tensor.numel()].reshape(tensor.shape)
        at += tensor.numel()
    return result


class Recorder:
    """Builds the tokens of each round. ``emit`` walks the kept ones in order, so text pieces follow the output."""

    def __init__(self, config: RunConfig, tokenizer):
        self.config, self.text = config, Detokenizer(tokenizer)
        self.greedy, self.k = config.sampling.greedy, config.trace_top

    def fetch(self, p, logits, draft: Draft, verdict: Verdict) -> Outcome:
        """The round's one host sync."""
        wanted = {
            "tokens": draft.tokens,
            "path": verdict.path,
            "tested": verdict.tested,
            "accept": verdict.accept,
            "ends": torch.stack([verdict.last, verdict.closing]),
        }
        if self.config.trace:
            wanted |= self._numbers(p, logits, draft, verdict)
        got = to_host(wanted)
        last, closing = got.pop("ends").astype(int).tolist()
        path, tested = got.pop("path") > 0, got.pop("tested") > 0
        return Outcome(got.pop("tokens").astype(int).tolist(), path, tested, got.pop("accept"), last, closing, got)

    def _numbers(self, p, logits, draft: Draft, verdict: Verdict) -> dict[str, torch.Tensor]:
        """p and q of every draft (also of the discarded ones), top-k of p, q and the residual, top-2 logit gaps."""
        N, tokens = len(draft), draft.tokens
        # Indexed by one-element tensors throughout: a 0-dim index would be read by the host.
        last, closing = verdict.last.view(1), verdict.closing.view(1)
        found = {"closing_p": p[last, closing]}
        found["p_mass"], found["p_ids"] = self._top(p)
        if self.greedy:
            two = logits.topk(2).values
            found["gap"] = two[:, 0] - two[:, 1]
        if not N:
            return found
        # [N, V]: the row that draft i was tested against
        before = p[:N] if draft.parents is None else p[to_device(draft.parents, p.device)]
        found["p"] = before.gather(1, tokens[:, None])[:, 0]
        # What the closing token's residual was taken against: the q of the draft that was refused last.
        refused = last.clamp_max(N - 1) if draft.parents is None else verdict.tested.nonzero()[-1]
        if draft.q is None:
            found["q"], found["closing_q"] = torch.ones_like(found["p"]), tokens[refused] == closing
        else:
            found["q"] = draft.q.gather(1, tokens[:, None])[:, 0]
            found["closing_q"] = draft.q[refused, closing]
            found["q_mass"], found["q_ids"] = self._top(draft.q)
        if not (self.greedy and draft.q is None):  # there the residual is p itself, or empty
            q = one_hot(tokens, before.shape[-1]) if draft.q is None else draft.q
            found["r_mass"], found["r_ids"] = self._top(residual(before, q))
        return found

    def _top(self, rows):
        if self.greedy:  # one-hot rows: there is nothing below the first
            best = rows.max(-1, keepdim=True)
            return best.values, best.indices
        top = rows.topk(min(self.k, rows.shape[-1]))
        return top.values, top.indices

    def drafts(self, outcome: Outcome, draft: Draft, depth, u, position: int, statuses: list[str]) -> list[Token]:
        """The N draft tokens, texts of those that are not emitted included (emitted ones get theirs from ``emit``)."""
        made, texts = [], self._texts(outcome.tokens, draft.parents)
        for i, (token, status) in enumerate(zip(outcome.tokens, statuses, strict=True)):
            known = {"label": self.text.label(token, texts[i])}
            if outcome.numbers:
                known |= self._known(outcome, draft, i, status, u)
            made.append(Token(token, texts[i], status, position + int(depth[i]) - 1, int(depth[i]), **known))
        return made

    def _known(self, outcome: Outcome, draft: Draft, i: int, status: str, u) -> dict:
        numbers = outcome.numbers
        p, q = float(numbers["p"][i]), float(numbers["q"][i])
        parent = i if draft.parents is None else draft.parents[i]
        tested = status in ("accepted", "rejected")
        known = {"p": p, "q": q, "u": float(u[i]) if tested else None}
        known["accept"] = float(outcome.accept[i]) if tested else min(1.0, p / q)
        known["p_top"] = self._distribution(numbers["p_mass"][parent], numbers["p_ids"][parent])
        if "q_mass" in numbers:
            known["q_top"] = self._distribution(numbers["q_mass"][i], numbers["q_ids"][i])
        else:
            known["q_top"] = Distribution((Candidate(outcome.tokens[i], self.text.name(outcome.tokens[i]), 1.0),), 0.0)
        if p < q:
            mass, ids = ("r_mass", "r_ids") if "r_mass" in numbers else ("p_mass", "p_ids")
            row = i if mass == "r_mass" else parent
            known["residual"] = self._distribution(numbers[mass][row], numbers[ids][row])
        if "gap" in numbers:
            known["gap"] = float(numbers["gap"][parent])
        return known

    def closing(self, outcome: Outcome, draft: Draft, u: float, position: int, drafts: list[Token]) -> Token:
        """The token that ends the round: resampled after a refusal, bonus after none, plain if nothing was drafted."""
        parents = range(len(draft)) if draft.parents is None else draft.parents
        refused = [
            t for t, parent in zip(drafts, parents, strict=True) if t.status == "rejected" and parent == outcome.last
        ]
        status = "plain" if not len(draft) else "resampled" if refused else "bonus"
        depth = int(outcome.path.sum()) + 1
        known, numbers = {}, outcome.numbers
        if numbers:
            row = outcome.last
            known = {"p": float(numbers["closing_p"][0]), "u": u}
            known["p_top"] = self._distribution(numbers["p_mass"][row], numbers["p_ids"][row])
            if "gap" in numbers:
                known["gap"] = float(numbers["gap"][row])
            if refused:
                known |= {"q": float(numbers["closing_q"][0])}
                known |= {"q_top": refused[-1].q_top, "residual": refused[-1].residual}
        return Token(outcome.closing, "", status, position + depth - 1, depth, **known)

    def _texts(self, tokens: list[int], parents) -> list[str]:
        if parents is None:
            return self.text.peek(tokens)
        paths: list[list[int]] = [[]]
        for token, parent in zip(tokens, parents, strict=True):
            paths.append([*paths[parent], token])
        return [self.text.peek(path)[-1] for path in paths[1:]]

    def _distribution(self, mass: np.ndarray, ids: np.ndarray) -> Distribution:
        top = tuple(
            Candidate(int(i), self.text.name(int(i)), float(m)) for m, i in zip(mass, ids, strict=True) if m > 0
        )
        return Distribution(top, max(0.0, 1.0 - sum(c.mass for c in top)))

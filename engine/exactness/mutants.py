"""Defines mutants: rejection sampling with one mistake each, to prove that the tests would notice it.

A `Mutant` runs in the real loop, through `Rules` of decoding/loop.py. Its text looks plausible and its speed may even
be higher; only the distribution of the output differs from the target's.

Dimension key, as in rejection.py: N drafts, V vocabulary; p [N+1, V], q [N, V], tokens and u [N], u_closing [N+1].
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from engine.config import SamplingParams
from engine.decoding.loop import TRUE_RULES, Rules
from engine.drafters.draft_model import DraftModelDrafter
from engine.exactness.results import MISTAKES, Mistake
from engine.exactness.toy_models import ToyLM, ToyRunner, make_drafter
from engine.sampling.rejection import Verdict, residual, verify_chain
from engine.sampling.warping import draw, one_hot, warp


@dataclass(frozen=True)
class Mutant:
    """The mistake ``name`` of results.MISTAKES, as code."""

    name: str
    rules: Rules = TRUE_RULES
    drafts: type[DraftModelDrafter] | None = None  # a drafter with a mistake of its own

    @property
    def mistake(self) -> Mistake:
        return MISTAKES[self.name]

    def drafter(self, draft: ToyLM):
        return self.drafts(ToyRunner(draft)) if self.drafts else make_drafter(self.mistake.method, draft)


# ---- chains: the correct parts, and a rule made of parts -----------------------------------------------------------


def passes_test(p, q, tokens, u):
    """[N] bool: does each draft pass its own test, u < p/q?"""
    p_x, q_x = drafted_probabilities(p, q, tokens)
    return u * q_x < p_x


def cut_at_first_rejection(passed):
    """Drafts after the first rejection do not count."""
    return passed.long().cumprod(0)


def closing_distribution(p, q, last):
    """[V]: the row the closing token is drawn from. ``last``: number of accepted drafts."""
    return residual(p[last], q[last]) if last < len(q) else p[last]


def closing_uniform(u, u_closing, last):
    return u_closing[last]


def drafted_probabilities(p, q, tokens):
    steps = torch.arange(len(tokens), device=tokens.device)
    return p[steps, tokens], q[steps, tokens]


def chain_rule(
    passes=passes_test, cut=cut_at_first_rejection, close=closing_distribution, closing_uniform=closing_uniform
) -> Callable:
    """Returns a replacement for `verify_chain`; with the default parts it gives the same verdicts."""

    def rule(p, q, tokens, u, u_closing) -> Verdict:
        N, V = len(tokens), p.shape[-1]
        if N == 0:
            return verify_chain(p, q, tokens, u, u_closing)
        q = one_hot(tokens, V) if q is None else q
        path = cut(passes(p, q, tokens, u))
        last = path.sum()
        row = close(p, q, int(last))
        closing = draw(row[None], closing_uniform(u, u_closing, int(last)).view(1))[0].clamp_max(V - 1)
        p_x, q_x = drafted_probabilities(p, q, tokens)
        tested = torch.arange(N, device=tokens.device) <= last
        return Verdict(path.bool(), tested, (p_x / q_x).clamp_max(1.0), last, closing, row)

    return rule


# ---- trees ---------------------------------------------------------------------------------------------------------


def tree_rule(next_row=residual, q_of=lambda q, i, first: q[i], closing_row=lambda row, untouched: row) -> Callable:
    """Returns a replacement for `verify_tree`; with the default parts it gives the same verdicts. ``next_row``: p for
    the next sibling after a rejection. ``first``: index of the first sibling. ``untouched``: p before any rejection."""

    def rule(p, q, tokens, parents, u, u_closing) -> Verdict:
        N, node, row, left, first = len(tokens), 0, p[0], p[0], None
        q = one_hot(tokens, p.shape[-1]) if q is None else q
        path, tested, accept = torch.zeros(N, dtype=torch.bool), torch.zeros(N, dtype=torch.bool), torch.zeros(N)
        for i in range(N):
            if parents[i] != node:
                continue
            first = i if first is None else first
            x, q_i = tokens[i], q_of(q, i, first)
            tested[i], accept[i] = True, (row[x] / q_i[x]).clamp_max(1.0)
            if u[i] * q_i[x] < row[x]:
                path[i], node, row, left, first = True, i + 1, p[i + 1], p[i + 1], None
            else:
                row, left = next_row(row, q_i), residual(left, q_i)
        row = closing_row(left, p[node])
        return Verdict(path, tested, accept, torch.tensor(node), draw(row[None], u_closing[node].view(1))[0], row)

    return rule


# ---- drafters and warping with a mistake of their own ----------------------------------------------------------------


class RawQ(DraftModelDrafter):
    """Drafts are drawn from the warped distribution, but q is reported as it was before warping."""

    def _sample(self, logits, seen, u):
        token, _ = super()._sample(logits, seen, u)
        return token, warp(logits, SamplingParams(temperature=1.0))


class ArgmaxDrafts(DraftModelDrafter):
    """The most probable token is drafted, but tested as if it had been drawn from q."""

    def _sample(self, logits, seen, u):
        _, q = super()._sample(logits, seen, u)
        return logits.argmax(-1), q


def top_p_without_crossing(logits, params: SamplingParams):
    """Keeps only tokens whose mass together stays below top-p: the one that crosses it is lost."""
    probs = warp(logits, replace(params, top_p=1.0))
    ranked, order = probs.sort(-1, descending=True)
    in_nucleus = ranked.cumsum(-1) < params.top_p
    in_nucleus[:, 0] = True
    mask = torch.zeros_like(in_nucleus).scatter_(1, order, in_nucleus)
    return torch.where(mask, probs, 0.0) / torch.where(mask, probs, 0.0).sum(-1, keepdim=True)


def temperature_last(logits, params: SamplingParams):
    """Truncates first and applies the temperature to the rest, so other tokens survive than in transformers."""
    truncated = warp(logits, replace(params, temperature=1.0))
    return truncated.log().div(params.temperature).softmax(-1)


# ---- the list ------------------------------------------------------------------------------------------------------


def _chain(**parts) -> Rules:
    return Rules(verify_chain=chain_rule(**parts))


MUTANTS: tuple[Mutant, ...] = (
    Mutant("raw-q", drafts=RawQ),
    Mutant("argmax-drafts", drafts=ArgmaxDrafts),
    Mutant("no-residual", _chain(close=lambda p, q, last: p[last])),
    Mutant("residual-unclamped", _chain(close=lambda p, q, last: p[last] - q[last] if last < len(q) else p[last])),
    Mutant(
        "residual-absolute", _chain(close=lambda p, q, last: (p[last] - q[last]).abs() if last < len(q) else p[last])
    ),
    Mutant(
        "u-reused-for-closing",
        _chain(closing_uniform=lambda u, u_closing, last: u[last] if last < len(u) else u_closing[last]),
    ),
    Mutant(
        "u-shared-by-drafts", _chain(passes=lambda p, q, tokens, u: passes_test(p, q, tokens, u[:1].expand(len(u))))
    ),
    Mutant("p-row-late", _chain(passes=lambda p, q, tokens, u: passes_test(p[1:], q, tokens, u))),
    Mutant(
        "closing-row-early",
        _chain(close=lambda p, q, last: closing_distribution(p, q, last) if last < len(q) else p[last - 1]),
    ),
    Mutant(
        "bonus-from-q",
        _chain(close=lambda p, q, last: closing_distribution(p, q, last) if last < len(q) else q[last - 1]),
    ),
    Mutant("tail-kept", _chain(cut=lambda passed: passed.long())),
    Mutant(
        "ratio-inverted",
        _chain(
            passes=lambda p, q, tokens, u: (
                u * drafted_probabilities(p, q, tokens)[0] < drafted_probabilities(p, q, tokens)[1]
            )
        ),
    ),
    Mutant("q-ignored", _chain(passes=lambda p, q, tokens, u: u < drafted_probabilities(p, q, tokens)[0])),
    Mutant("good-enough", _chain(passes=lambda p, q, tokens, u: drafted_probabilities(p, q, tokens)[0] > 0.1)),
    Mutant("sibling-residual", Rules(verify_tree=tree_rule(next_row=lambda row, q: row))),
    Mutant("sibling-q", Rules(verify_tree=tree_rule(q_of=lambda q, i, first: q[first]))),
    Mutant("sibling-closing", Rules(verify_tree=tree_rule(closing_row=lambda row, untouched: untouched))),
    Mutant("top-p-crossing", Rules(warp=top_p_without_crossing)),
    Mutant("temperature-last", Rules(warp=temperature_last)),
)
# One mutant for each mistake, in the same order, with a drafter of its own where the mistake is the drafter's.
assert [(mutant.name, mutant.drafts is not None) for mutant in MUTANTS] == [
    (name, mistake.own_drafter) for name, mistake in MISTAKES.items()
]

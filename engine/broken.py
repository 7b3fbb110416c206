"""Rejection sampling, wrong in one place at a time: what each mistake does to the output, for tests and lessons.

Every `Mutant` runs through the real loop (`engine.decode.Rules` is the seam). The text still looks plausible and the
speed may even go up; only the distribution is no longer the target's. Tests assert that each one is noticed.

Dimension key: N drafts, V vocabulary. p [N+1, V], q [N, V], tokens and u [N], u_closing [N+1], as in `acceptance.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from engine.acceptance import Verdict, accept_chain, residual
from engine.config import SamplingParams
from engine.decode import TRUE_RULES, Rules
from engine.drafters.lm import LmDrafter
from engine.sampling import draw, one_hot, warp
from engine.toy import ToyLM, ToyRunner, drafter_for


@dataclass(frozen=True)
class Mutant:
    """``wrong``: the mistake in one sentence. ``method``: the drafter that shows it. Settings that hide it are easy
    to find (p == q hides most of them), which is why such bugs survive."""

    name: str
    wrong: str
    rules: Rules = TRUE_RULES
    method: str = "lm"
    drafts: type[LmDrafter] | None = None  # a drafter that is wrong itself

    def drafter(self, draft: ToyLM):
        return self.drafts(ToyRunner(draft)) if self.drafts else drafter_for(self.method, draft)


# ---- chains: the right parts, and a rule put together from parts ---------------------------------------------------


def keep(p, q, tokens, u):
    """[N] bool: would each draft pass its own test, u < p/q?"""
    p_x, q_x = of_drafts(p, q, tokens)
    return u * q_x < p_x


def cut(kept):
    """Nothing behind the first refusal counts."""
    return kept.long().cumprod(0)


def close(p, q, last):
    """[V]: what the closing token is drawn from. ``last``: drafts kept."""
    return residual(p[last], q[last]) if last < len(q) else p[last]


def closing_draw(u, u_closing, last):
    return u_closing[last]


def of_drafts(p, q, tokens):
    steps = torch.arange(len(tokens), device=tokens.device)
    return p[steps, tokens], q[steps, tokens]


def chain_rule(keep=keep, cut=cut, close=close, closing_draw=closing_draw) -> Callable:
    """A drop-in for `accept_chain`; with the parts above it is `accept_chain`."""

    def rule(p, q, tokens, u, u_closing) -> Verdict:
        N, V = len(tokens), p.shape[-1]
        if N == 0:
            return accept_chain(p, q, tokens, u, u_closing)
        q = one_hot(tokens, V) if q is None else q
        path = cut(keep(p, q, tokens, u))
        last = path.sum()
        row = close(p, q, int(last))
        closing = draw(row[None], closing_draw(u, u_closing, int(last)).view(1))[0].clamp_max(V - 1)
        p_x, q_x = of_drafts(p, q, tokens)
        tested = torch.arange(N, device=tokens.device) <= last
        return Verdict(path.bool(), tested, (p_x / q_x).clamp_max(1.0), last, closing, row)

    return rule


# ---- trees ---------------------------------------------------------------------------------------------------------


def tree_rule(next_row=residual, q_of=lambda q, i, first: q[i], closing_row=lambda row, untouched: row) -> Callable:
    """A drop-in for `accept_tree`; with these parts it is `accept_tree`. ``next_row``: what a refused sibling leaves
    for the next one. ``first``: the index of the first sibling. ``untouched``: the node's p before any refusal."""

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


# ---- drafters and warping that are wrong themselves ----------------------------------------------------------------


class RawQ(LmDrafter):
    """Drafts are drawn from the warped distribution, but q is reported as it was before warping."""

    def _drawn(self, logits, seen, u):
        token, _ = super()._drawn(logits, seen, u)
        return token, warp(logits, SamplingParams(temperature=1.0))


class ArgmaxDrafts(LmDrafter):
    """The most probable token is drafted, but tested as if it had been drawn from q."""

    def _drawn(self, logits, seen, u):
        _, q = super()._drawn(logits, seen, u)
        return logits.argmax(-1), q


def top_p_without_crossing(logits, params: SamplingParams):
    """Keeps only tokens whose mass together stays below top-p: the one that crosses the line is lost."""
    probs = warp(logits, replace(params, top_p=1.0))
    ranked, order = probs.sort(-1, descending=True)
    kept = ranked.cumsum(-1) < params.top_p
    kept[:, 0] = True
    kept = torch.zeros_like(kept).scatter_(1, order, kept)
    return torch.where(kept, probs, 0.0) / torch.where(kept, probs, 0.0).sum(-1, keepdim=True)


def temperature_last(logits, params: SamplingParams):
    """Truncates first and applies the temperature to what is left: other tokens survive than people expect."""
    kept = warp(logits, replace(params, temperature=1.0))
    return kept.log().div(params.temperature).softmax(-1)


# ---- the list ------------------------------------------------------------------------------------------------------


def _chain(**parts) -> Rules:
    return Rules(chain=chain_rule(**parts))


MUTANTS: tuple[Mutant, ...] = (
    Mutant("raw-q", "q is taken before temperature and top-p, the drafts were drawn after.", drafts=RawQ),
    Mutant("argmax-drafts", "Drafts are q's favourites, but tested as draws from q.", drafts=ArgmaxDrafts),
    Mutant(
        "no-residual",
        "A refused draft is replaced from p, not from the residual.",
        _chain(close=lambda p, q, last: p[last]),
    ),
    Mutant(
        "residual-unclamped",
        "The residual keeps its negative parts.",
        _chain(close=lambda p, q, last: p[last] - q[last] if last < len(q) else p[last]),
    ),
    Mutant(
        "residual-absolute",
        "The residual is |p − q|, so tokens that q had too much of come back.",
        _chain(close=lambda p, q, last: (p[last] - q[last]).abs() if last < len(q) else p[last]),
    ),
    Mutant(
        "u-reused-for-closing",
        "The draw that refused a draft also chooses its replacement.",
        _chain(closing_draw=lambda u, u_closing, last: u[last] if last < len(u) else u_closing[last]),
    ),
    Mutant(
        "u-shared-by-drafts",
        "One draw decides every draft of a round.",
        _chain(keep=lambda p, q, tokens, u: keep(p, q, tokens, u[:1].expand(len(u)))),
    ),
    Mutant(
        "p-row-late",
        "Draft i is tested against the target's row after it, not before it.",
        _chain(keep=lambda p, q, tokens, u: keep(p[1:], q, tokens, u)),
    ),
    Mutant(
        "closing-row-early",
        "The closing token is drawn one row too early.",
        _chain(close=lambda p, q, last: close(p, q, last) if last < len(q) else p[last - 1]),
    ),
    Mutant(
        "bonus-from-q",
        "After a fully accepted round the bonus token comes from the draft.",
        _chain(close=lambda p, q, last: close(p, q, last) if last < len(q) else q[last - 1]),
    ),
    Mutant(
        "tail-kept",
        "Drafts behind a refused one are kept when they pass their own test.",
        _chain(cut=lambda kept: kept.long()),
    ),
    Mutant(
        "ratio-inverted",
        "Accepts when u < q/p.",
        _chain(keep=lambda p, q, tokens, u: u * of_drafts(p, q, tokens)[0] < of_drafts(p, q, tokens)[1]),
    ),
    Mutant(
        "q-ignored",
        "Accepts when u < p, as if the draft had been certain.",
        _chain(keep=lambda p, q, tokens, u: u < of_drafts(p, q, tokens)[0]),
    ),
    Mutant(
        "good-enough",
        "Accepts whatever the target gives at least a tenth: faster, and not the target any more.",
        _chain(keep=lambda p, q, tokens, u: of_drafts(p, q, tokens)[0] > 0.1),
    ),
    Mutant(
        "sibling-residual",
        "A second sibling is tested against p itself, not against what the first one left.",
        Rules(tree=tree_rule(next_row=lambda row, q: row)),
        "independent",
    ),
    Mutant(
        "sibling-q",
        "Siblings drawn without replacement are tested with the first one's q.",
        Rules(tree=tree_rule(q_of=lambda q, i, first: q[first])),
        "without_replacement",
    ),
    Mutant(
        "sibling-closing",
        "After all siblings are refused the closing token is drawn from p.",
        Rules(tree=tree_rule(closing_row=lambda row, untouched: untouched)),
        "independent",
    ),
    Mutant("top-p-crossing", "Top-p drops the token that crosses the line.", Rules(warp=top_p_without_crossing)),
    Mutant("temperature-last", "Temperature is applied after top-p.", Rules(warp=temperature_last)),
)

"""Defines mutants: rejection sampling with one mistake each, to prove that the tests would notice it.

A `Mutant` runs in the real loop, through `Rules` of decoding/loop.py. Its text looks plausible and its speed may even
be higher; only the distribution of the output differs from the target's.

Dimension key, as in rejection.py: N drafts, V vocabulary; p [N+1, V], q [N, V], tokens and u [N], u_closing [N+1].
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from engine.config import ACCEPTANCE, SamplingParams
from engine.decoding.loop import TRUE_RULES, Rules
from engine.drafters.base import Drafter
from engine.drafters.draft_model import DraftModelDrafter
from engine.sampling.block_verification import verify_block
from engine.sampling.random_streams import DRAFTING
from engine.sampling.rejection import Verdict, residual, verify_chain
from engine.sampling.warping import draw, one_hot, warp
from engine.tools.exactness.results import MISTAKES, Mistake
from engine.tools.exactness.toy_models import ToyLM, ToyRunner, ToyTreeDrafter, make_drafter


@dataclass(frozen=True)
class Mutant:
    """The mistake ``name`` of results.MISTAKES, as code."""

    name: str
    rules: Rules = TRUE_RULES
    drafts: Callable[[Any], Drafter] | None = None  # a drafter with a mistake of its own

    @property
    def mistake(self) -> Mistake:
        return MISTAKES[self.name]

    def drafter(self, draft: ToyLM):
        return self.drafts(ToyRunner(draft)) if self.drafts else make_drafter(self.mistake.method, draft)


# ---- the correct rule in parts, of which most mutants replace one ---------------------------------------------------


def rules(
    passes: Callable = lambda p_x, q_x, u: u * q_x < p_x,
    test_row: Callable = lambda p, row, i: row,
    test_q: Callable = lambda q, i, first: q[i],
    test_u: Callable = lambda u, i: u[i],
    before: Callable = lambda row, ancestor: row,
    sibling_row: Callable = residual,
    closing_row: Callable = residual,
    bonus_row: Callable = lambda p, q: p[-1],
    closing_u: Callable = lambda u_closing, u_rejected: u_closing,
) -> Rules:
    """Returns replacements for `verify_tree` and `verify_chain`; with the default parts they give the same verdicts.

    ``passes``: whether a draft passes its test, from its p, q and u, which ``test_row``, ``test_q`` and ``test_u``
    choose for draft i, ``first`` being its first sibling. After a rejection: ``sibling_row`` is p for the next sibling,
    ``closing_row`` for the closing token, both of the row that ``before`` chooses from the one just used and the
    parent's; ``u_rejected`` the draft's u. ``bonus_row``: after a fully accepted round.
    """

    def verify_tree(p, q, tokens, parents, u, u_closing) -> Verdict:
        N, V, node, first, u_rejected = len(tokens), p.shape[-1], 0, None, None
        row = left = p[0]
        q = one_hot(tokens, V) if q is None else q
        path, tested, accept = (torch.zeros(N, dtype=kind, device=p.device) for kind in (torch.bool, torch.bool, None))
        for i in range(N):
            if parents[i] != node:
                continue
            first = i if first is None else first
            x, q_i = tokens[i], test_q(q, i, first)
            tested[i], accept[i] = True, (row[x] / q_i[x]).clamp_max(1.0)
            if passes(test_row(p, row, i)[x], q_i[x], test_u(u, i)):
                path[i], node, row, left, first, u_rejected = True, i + 1, p[i + 1], p[i + 1], None, None
            else:
                row, left = sibling_row(before(row, p[node]), q_i), closing_row(before(left, p[node]), q_i)
                u_rejected = u[i]
        row = bonus_row(p, q) if node == N > 0 else left
        closing = draw(row[None], closing_u(u_closing[node], u_rejected).view(1))[0].clamp_max(V - 1)
        return Verdict(path, tested, accept, torch.tensor(node, device=p.device), closing, row)

    def verify_chain(p, q, tokens, u, u_closing) -> Verdict:
        return verify_tree(p, q, tokens, range(len(tokens)), u, u_closing)

    return Rules(verdicts={ACCEPTANCE["token"].chain: verify_chain, ACCEPTANCE["token"].tree: verify_tree})


def verify_each_alone(p, q, tokens, u, u_closing) -> Verdict:
    """Replaces `verify_chain`: a draft that passes its own test is kept, after a rejected one too."""
    if not len(tokens):
        return verify_chain(p, q, tokens, u, u_closing)
    q = one_hot(tokens, p.shape[-1]) if q is None else q
    steps = torch.arange(len(tokens), device=p.device)
    p_x, q_x = p[steps, tokens], q[steps, tokens]
    path = u * q_x < p_x
    last = path.sum()
    row = residual(p[last], q[last]) if last < len(q) else p[last]
    closing = draw(row[None], u_closing[last].view(1))[0]
    return Verdict(path, steps <= last, (p_x / q_x).clamp_max(1.0), last, closing, row)


# ---- block verification ----------------------------------------------------------------------------------------------


def block_rules(
    last: Callable = lambda passes, steps: torch.where(passes, steps + 1, 0).amax(),
    closing_row: Callable = residual,
) -> Rules:
    """Returns rules with `verify_block` in parts that a mutant replaces. ``last``: how many drafts are accepted, from
    those that passed. ``closing_row``: the row of the closing token from p, q and p_i."""

    def verify(p, q, tokens, u, u_closing) -> Verdict:
        right = verify_block(p, q, tokens, u, u_closing)
        if right.block is None:
            return right
        N, steps = len(tokens), torch.arange(len(tokens), device=p.device)
        at = last(u < right.block.h, steps)
        q_rows = torch.cat([one_hot(tokens, p.shape[-1]) if q is None else q, torch.zeros_like(p[:1])])
        weight = torch.cat([torch.ones_like(p[0, :1]), right.block.running])[at]
        row = closing_row(p[at], q_rows[at], weight) if at < N else p[N]
        closing = draw(row[None], u_closing[at].view(1))[0]
        return Verdict(steps < at, steps <= at, right.accept, at, closing, row, right.block)

    return Rules(verdicts={ACCEPTANCE["block"].chain: verify})


def traversal_rules(
    test_q: Callable = lambda q, i, first: q[i],
    weight: Callable = lambda over, w, q_x: over / (over + 1 - w) if w < 1 else 1.0,
    sibling_row: Callable = residual,
) -> Rules:
    """Returns rules with `verify_traversal`, from node to node, in parts that a mutant replaces. ``test_q`` as in
    `rules`. For a node whose child has failed: ``weight`` from S, the weight before and the child's q(y);
    ``sibling_row`` from its row, the child's q and the weight before."""

    def verify(p, q, tokens, parents, u, u_closing) -> Verdict:
        q = one_hot(tokens, p.shape[-1]) if q is None else q
        path, tested, accept = (
            torch.zeros(len(u), dtype=kind, device=p.device) for kind in (torch.bool, torch.bool, None)
        )

        def walk(node, w, row):
            """Returns the node that is accepted and its row, None if no draft of this branch is."""
            drafts = [i for i, parent in enumerate(parents) if parent == node]
            for i in drafts:
                q_i, x = test_q(q, i, drafts[0]), tokens[i]
                accept[i] = (row[x] / q_i[x]).clamp_max(1.0)
                below = walk(i + 1, min(1.0, float(w * row[x] / q_i[x])), p[i + 1])
                if below is not None:
                    path[i] = True
                    tested[drafts[: drafts.index(i) + 1]] = True
                    return below
                over = float((w * row - q_i).clamp_min(0.0).sum())
                w, row = weight(over, w, float(q_i[x])), sibling_row(row, q_i, w)
            if node and not u[node - 1] < w:
                return None
            tested[drafts] = True
            return node, row

        last, row = walk(0, 1.0, p[0])
        closing = draw(row[None], u_closing[last].view(1))[0]
        return Verdict(path, tested, accept, torch.tensor(last, device=p.device), closing, row)

    return Rules(verdicts={ACCEPTANCE["block"].tree: verify})


# ---- drafters and warping with a mistake of their own ----------------------------------------------------------------


class RawQ(DraftModelDrafter):
    """Drafts are drawn from the warped distribution, but q is reported as it was before warping."""

    def sample(self, logits, seen, u):
        token, _ = super().sample(logits, seen, u)
        return token, warp(logits, SamplingParams(temperature=1.0))


class ArgmaxDrafts(DraftModelDrafter):
    """The most probable token is drafted, but tested as if it had been drawn from q."""

    def sample(self, logits, seen, u):
        _, q = super().sample(logits, seen, u)
        return logits.argmax(-1), q


class ChosenSiblings(ToyTreeDrafter):
    """Three siblings are drawn, and the two that q likes best go on, as a tree's rerank would have it; their q says
    nothing of that choice. A tree whose nodes are chosen by their tokens must be one-hot."""

    def __init__(self, runner: ToyRunner):
        super().__init__(runner.model, widths=(3, 3))

    def _children(self, context, u):
        drawn = super()._children(context, u)
        return sorted(drawn, key=lambda child: -float(child[1][child[0]]))[:2]


class DrawsByPlace(ToyTreeDrafter):
    """The drafts of one place share their draws, in different branches and when the place is drafted again. That does
    no harm where each draft has a test of its own."""

    def __init__(self, runner: ToyRunner):
        super().__init__(runner.model, "without_replacement", widths=(2, 1))

    def _uniform(self, position, number, depth, sibling):
        return float(self.setup.uniforms.table(DRAFTING, sibling)[position + depth])


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


MUTANTS: tuple[Mutant, ...] = (
    Mutant("raw-q", drafts=RawQ),
    Mutant("argmax-drafts", drafts=ArgmaxDrafts),
    Mutant("no-residual", rules(closing_row=lambda row, q: row)),
    Mutant("residual-unclamped", rules(closing_row=lambda row, q: row - q)),
    Mutant("residual-absolute", rules(closing_row=lambda row, q: (row - q).abs())),
    Mutant("u-reused-for-closing", rules(closing_u=lambda u, u_rejected: u if u_rejected is None else u_rejected)),
    Mutant("u-shared-by-drafts", rules(test_u=lambda u, i: u[0])),
    Mutant("p-row-late", rules(test_row=lambda p, row, i: p[i + 1])),
    Mutant("closing-row-early", rules(bonus_row=lambda p, q: p[-2])),
    Mutant("bonus-from-q", rules(bonus_row=lambda p, q: q[-1])),
    Mutant("tail-kept", Rules(verdicts={ACCEPTANCE["token"].chain: verify_each_alone})),
    Mutant("ratio-inverted", rules(passes=lambda p_x, q_x, u: u * p_x < q_x)),
    Mutant("q-ignored", rules(passes=lambda p_x, q_x, u: u < p_x)),
    Mutant("good-enough", rules(passes=lambda p_x, q_x, u: p_x > 0.1)),
    Mutant("sibling-residual", rules(sibling_row=lambda row, q: row)),
    Mutant("sibling-q", rules(test_q=lambda q, i, first: q[first])),
    Mutant("sibling-q-unscaled", rules(test_q=lambda q, i, first: torch.where(q[i] > 0, q[first], 0.0))),
    Mutant("ancestor-residual", rules(before=lambda row, ancestor: ancestor)),
    Mutant("sibling-choice", drafts=ChosenSiblings),
    Mutant("sibling-closing", rules(closing_row=lambda row, q: row)),
    Mutant("top-p-crossing", Rules(warp=top_p_without_crossing)),
    Mutant("temperature-last", Rules(warp=temperature_last)),
    Mutant("block-stops", block_rules(last=lambda passes, steps: passes.long().cumprod(0).sum())),
    Mutant("block-same-u", Rules(block_stream=lambda step: 0)),
    Mutant("block-residual", block_rules(closing_row=lambda p, q, weight: residual(p, q))),
    Mutant("traversal-weight", traversal_rules(weight=lambda over, w, q_x: min(1.0, over / max(1 - q_x, 1e-9)))),
    Mutant("traversal-q-unscaled", traversal_rules(test_q=lambda q, i, first: torch.where(q[i] > 0, q[first], 0.0))),
    Mutant("traversal-same-draws", drafts=DrawsByPlace),
)
# One mutant for each mistake without masks, in the same order, with a drafter of its own where the drafter is wrong.
assert [(mutant.name, mutant.drafts is not None) for mutant in MUTANTS] == [
    (name, mistake.own_drafter) for name, mistake in MISTAKES.items() if not mistake.masks
]

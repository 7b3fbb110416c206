"""Decides by rejection sampling which drafts are accepted, and draws the token that closes the round.

Chains: Leviathan et al. 2023 and Chen et al. 2023. Trees with several siblings: multi-round speculative sampling,
SpecInfer (Miao et al. 2024). For any q, the token emitted at each position is distributed exactly as p. Pure functions:
no model, and the uniforms are arguments.

Dimension key: N drafts, V vocabulary. Node 0 is the pending token, node i (1-based) the i-th draft.
p [N+1, V]: row i is the target's distribution *after* node i. q [N, V]: what draft i was drawn from, None = one-hot.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F

from engine.device import to_device
from engine.sampling.warping import draw, one_hot


class Verdict(NamedTuple):
    """path [N] bool: draft i is on the accepted path. tested [N] bool. accept [N]: min(1, p/q) of the tested ones.
    last: the node that the closing token follows. closing: that token. row [V]: the distribution it was drawn from.
    All are tensors on the device; computing them does not wait for it."""

    path: torch.Tensor
    tested: torch.Tensor
    accept: torch.Tensor
    last: torch.Tensor
    closing: torch.Tensor
    row: torch.Tensor


def residual(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """Normalised max(p − q, 0) over the last axis; p itself where that is 0 everywhere (p == q up to rounding)."""
    left = (p - q).clamp_min(0.0)
    total = left.sum(-1, keepdim=True)
    return torch.where(total > 0, left / total.clamp_min(1e-38), p)


def verify_chain(p, q, tokens, u, u_closing) -> Verdict:
    """Verifies a chain, in which draft i follows draft i − 1. tokens [N]; u [N] decides draft i; u_closing [N+1] is
    indexed by the last node.

    >>> # p(x) = 0.3, q(x) = 0.6: accepted when u < 0.5, else replaced by a draw from the residual
    """
    N = len(tokens)
    if N == 0:
        none = torch.zeros(0, dtype=torch.bool, device=p.device)
        last = torch.zeros((), dtype=torch.long, device=p.device)
        return Verdict(none, none, u, last, draw(p, u_closing)[0], p[0])
    steps = torch.arange(N, device=p.device)
    p_x = p[steps, tokens]
    q_x = torch.ones_like(p_x) if q is None else q[steps, tokens]
    accepted = (u * q_x < p_x).long().cumprod(0)
    last = accepted.sum()
    at = last.view(1)
    # After a fully accepted round row N has no draft to subtract: q counts as 0 there, and the residual is p itself.
    rejected_at = at.clamp_max(N - 1)
    if q is None:
        q_row = torch.zeros_like(p[:1]).scatter_(1, tokens[rejected_at][:, None], 1.0)
    else:
        q_row = q[rejected_at]
    row = residual(p[at], q_row * (last < N))
    tested = steps <= last
    return Verdict(accepted.bool(), tested, (p_x / q_x).clamp_max(1.0), last, draw(row, u_closing[at])[0], row[0])


def verify_tree(p, q, tokens, parents, u, u_closing) -> Verdict:
    """Verifies a tree: a node's children are tried in order; after each rejection p ← residual(p, q of that child).

    parents [N]: node numbers on the host, each smaller than its child's; children of one node in the order they are
    tried. Every draft is tested as if its parent were reached and its elder siblings rejected; then the path is read
    off. Because the rows of all branches are computed side by side, nothing waits for the device. A chain gives exactly
    `verify_chain`'s verdict.
    """
    if not parents:
        return verify_chain(p, q, tokens, u, u_closing)
    N, V, tree, steps = len(parents), p.shape[-1], TreeShape.of(parents), torch.arange(len(parents), device=p.device)

    def drawn_from(drafts: torch.Tensor) -> torch.Tensor:
        return one_hot(tokens[drafts], V) if q is None else q[drafts]

    parent = to_device(parents, p.device)
    p_x = p[parent, tokens]  # [N]
    q_x = torch.ones_like(p_x) if q is None else q[steps, tokens]
    branch_rows, finished = p[to_device(tree.branches, p.device)], []
    for siblings in tree.siblings:
        elder, younger = to_device(siblings, p.device)
        finished.insert(0, branch_rows[len(elder) :])
        branch_rows = residual(branch_rows[: len(elder)], drawn_from(elder))
        p_x[younger] = branch_rows.gather(1, tokens[younger, None])[:, 0]
    passes = u * q_x < p_x
    elders = (parent == parent[:, None]) & (steps < steps[:, None])  # [N, N]: column before row
    has_turn = ~(elders & passes).any(1)
    reached = torch.ones(N + 1, dtype=torch.bool, device=p.device)
    for _ in range(tree.depth):
        path = passes & has_turn & reached[parent]
        reached = F.pad(path, (1, 0), value=True)
    last = torch.where(path, steps + 1, 0).amax().view(1)
    branch, youngest = to_device([tree.branch_of, tree.youngest], p.device)[:, last]
    row = p[last]
    if tree.branches:
        row = torch.where(branch[:, None] >= 0, torch.cat([branch_rows, *finished])[branch], row)
    # Of a leaf q counts as 0, and the residual is p itself.
    row = residual(row, drawn_from(youngest) * (youngest >= 0))
    closing = draw(row, u_closing[last])[0]
    return Verdict(path, reached[parent] & has_turn, (p_x / q_x).clamp_max(1.0), last[0], closing, row[0])


class TreeShape(NamedTuple):
    """Describes a tree on the host. branches: the nodes with several children, those with the most first. siblings: by
    rank, [elders, the drafts tried after them], a pair of each branch that has so many. By node [N+1], −1 for none:
    branch_of, its index in ``branches``, and youngest, the child tried last. depth: of the deepest node."""

    branches: list[int]
    siblings: list[list[list[int]]]
    branch_of: list[int]
    youngest: list[int]
    depth: int

    @staticmethod
    def of(parents: Sequence[int]) -> "TreeShape":
        """
        >>> TreeShape.of([0, 0, 1])  # two siblings, and a child of the first
        TreeShape(branches=[0], siblings=[[[0], [1]]], branch_of=[0, -1, -1, -1], youngest=[1, 2, -1, -1], depth=2)
        """
        children: list[list[int]] = [[] for _ in range(len(parents) + 1)]
        depths = [0]
        for draft, parent in enumerate(parents):
            children[parent].append(draft)
            depths.append(depths[parent] + 1)
        nodes = range(len(children))
        branches = sorted((n for n in nodes if len(children[n]) > 1), key=lambda n: -len(children[n]))
        siblings = []
        for rank in range(1, max(map(len, children))):
            members = [children[n] for n in branches if len(children[n]) > rank]
            siblings.append([[c[rank - 1] for c in members], [c[rank] for c in members]])
        branch_of = [branches.index(n) if n in branches else -1 for n in nodes]
        return TreeShape(branches, siblings, branch_of, [c[-1] if c else -1 for c in children], max(depths))

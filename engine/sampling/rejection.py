"""Decides by rejection sampling which drafts are accepted, and draws the token that closes the round.

Chains: Leviathan et al. 2023 and Chen et al. 2023. Trees with several siblings: multi-round speculative sampling,
SpecInfer (Miao et al. 2024). For any q, the token emitted at each position is distributed exactly as p. Pure functions:
no model, and the uniforms are arguments.

Dimension key: N drafts, V vocabulary. Node 0 is the pending token, node i (1-based) the i-th draft.
p [N+1, V]: row i is the target's distribution *after* node i. q [N, V]: what draft i was drawn from, None = one-hot.
"""

from typing import NamedTuple

import torch

from engine.sampling.warping import draw


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

    parents [N]: node numbers, each smaller than its child's; children of one node in the order they are tried.
    Runs on the host. A chain gives exactly `verify_chain`'s verdict.
    """
    N, node, row = len(tokens), 0, p[0]
    path, tested = torch.zeros(N, dtype=torch.bool), torch.zeros(N, dtype=torch.bool)
    accept = torch.zeros(N)
    for i in range(N):
        if int(parents[i]) != node:
            continue
        x = int(tokens[i])
        q_i = torch.zeros_like(row).index_fill_(0, tokens[i].view(1), 1.0) if q is None else q[i]
        tested[i], accept[i] = True, (row[x] / q_i[x]).clamp_max(1.0)
        if u[i] * q_i[x] < row[x]:
            path[i], node, row = True, i + 1, p[i + 1]
        else:
            row = residual(row, q_i)
    closing = draw(row[None], u_closing[node].view(1))[0]
    return Verdict(path, tested, accept, torch.tensor(node), closing, row)

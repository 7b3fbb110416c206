"""Decides by rejection sampling which drafts are accepted, and draws the token that closes the round.

Chains: Leviathan et al. 2023 and Chen et al. 2023. Trees with several siblings: multi-round speculative sampling,
SpecInfer (Miao et al. 2024). For any q, the token emitted at each position is distributed exactly as p. Pure functions:
no model, and the uniforms are arguments. A new rule is a file beside this one and an entry of `ACCEPTANCE` in
config.py.

Dimension key: N drafts, V vocabulary. Node 0 is the pending token, node i (1-based) the i-th draft.
p [N+1, V]: row i is the target's distribution *after* node i. q [N, V]: what draft i was drawn from, None = one-hot.
"""

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

from engine.device import to_device
from engine.sampling.siblings import Siblings
from engine.sampling.warping import draw, one_hot


class Block(NamedTuple):
    """The numbers of drafts that are decided on together, each [N]: p_i, h_i, and whether a draft that its own ratio
    would have rejected was rescued by a later one. residual_after [N, V]: in a tree, the residual each draft leaves."""

    running: torch.Tensor
    h: torch.Tensor
    rescued: torch.Tensor
    residual_after: torch.Tensor | None = None


class Verdict(NamedTuple):
    """path [N] bool: draft i is on the accepted path. tested [N] bool. accept [N]: min(1, p/q) of the tested ones.
    last: the node that the closing token follows. closing: that token. row [V]: the distribution it was drawn from.
    block: None where each draft had a test of its own. threshold [N]: in typical acceptance, else None. All are tensors
    on the device; computing them does not wait for it."""

    path: torch.Tensor
    tested: torch.Tensor
    accept: torch.Tensor
    last: torch.Tensor
    closing: torch.Tensor
    row: torch.Tensor
    block: Block | None = None
    threshold: torch.Tensor | None = None


def residual(p: torch.Tensor, q: torch.Tensor, weight: torch.Tensor | None = None) -> torch.Tensor:
    """Returns max(weight · p − q, 0), normalised over the last axis; p itself where that is 0 everywhere (p ≈ q).
    Without a weight it is 1."""
    left, total = leftover(p, q, weight)
    return left / total


def leftover(p: torch.Tensor, q: torch.Tensor, weight: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the residual before it is divided, and what to divide it by."""
    return _total((p - q if weight is None else weight * p - q).clamp_min_(0.0), p)


def leftover_words(p: torch.Tensor, words: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns `leftover` of rows p [R, V] for a q that is one-hot at a word [R] each."""
    return _total(p.scatter(1, words[:, None], 0.0), p)


def _total(left: torch.Tensor, p: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    total = left.sum(-1, keepdim=True)
    is_left, divisor = total > 0, total.clamp_min(1e-38)
    if p.device.type == "cpu" and bool(is_left.all()):  # three times as quick as choosing
        return left, divisor
    return torch.where(is_left, left, p), torch.where(is_left, divisor, 1.0)


def verify_chain(p, q, tokens, u, u_closing) -> Verdict:
    """Verifies a chain, in which draft i follows draft i − 1. tokens [N]; u [N] decides draft i; u_closing [N+1] is
    indexed by the last node.

    For example, with p(x) = 0.3 and q(x) = 0.6 it is accepted when u < 0.5, else replaced by a draw from the residual.
    """
    if p.device.type == "cpu":
        return walk_tree(p, q, tokens, range(len(tokens)), u, u_closing)
    return verify_chain_at_once(p, q, tokens, u, u_closing)


def verify_chain_at_once(p, q, tokens, u, u_closing) -> Verdict:
    """Decides as `verify_chain`, without waiting for the device."""
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
    tried. A chain gives exactly `verify_chain`'s verdict.
    """
    rule = walk_tree if p.device.type == "cpu" else verify_tree_at_once
    return rule(p, q, tokens, parents, u, u_closing)


def walk_tree(p, q, tokens, parents, u, u_closing) -> Verdict:
    """Decides as `verify_tree`, from node to node: only a draft whose turn comes costs a row. For the host, where numpy
    reads single numbers much quicker than torch."""
    draws, N = u.numpy(), len(parents)
    node, row, tokens_of, q_rows = 0, p[0], tokens.tolist(), None if q is None else q.numpy()
    path, tested, accept = np.zeros(N, bool), np.zeros(N, bool), np.zeros(N, np.float32)
    for i, parent in enumerate(parents):
        if parent != node:
            continue
        p_x, q_x = row.numpy()[tokens_of[i]], 1.0 if q_rows is None else q_rows[i, tokens_of[i]]
        tested[i], accept[i] = True, min(p_x / q_x, 1.0) if q_x else 1.0
        if draws[i] * q_x < p_x:
            path[i], node, row = True, i + 1, p[i + 1]
        else:
            at = row[None]
            left, total = leftover_words(at, tokens[i : i + 1]) if q is None else leftover(at, q[i])
            row = (left / total)[0]
    closing = draw(row[None], u_closing[node : node + 1])[0]
    path, tested, accept = (torch.from_numpy(each) for each in (path, tested, accept))
    return Verdict(path, tested, accept, torch.tensor(node), closing, row)


def rows_in_turn(p, q, tokens, parents) -> torch.Tensor:
    """Returns [N, V]: the row that each draft of a tree is tested against, once its earlier siblings were rejected."""
    left, rows = {}, []
    for i, parent in enumerate(parents):
        rows.append(left.get(parent, p[parent]))
        left[parent] = residual(rows[i], one_hot(tokens[i : i + 1], p.shape[-1])[0] if q is None else q[i])
    return torch.stack(rows)


def verify_tree_at_once(p, q, tokens, parents, u, u_closing) -> Verdict:
    """Decides as `verify_tree`, without waiting for the device: every draft is tested as if its parent were reached and
    its earlier siblings rejected; then the path is read off."""
    if not parents:
        return verify_chain_at_once(p, q, tokens, u, u_closing)
    N, tree, steps = len(parents), Siblings.from_parents(parents), torch.arange(len(parents), device=p.device)
    parent = to_device(parents, p.device)
    p_x, left_to_youngest = _after_elders(p, q, tokens, parent, tree)
    q_x = torch.ones_like(p_x) if q is None else q[steps, tokens]
    passes = u * q_x < p_x
    elders = (parent == parent[:, None]) & (steps < steps[:, None])  # [N, N]: column before row
    has_turn = ~(elders & passes).any(1)
    reached = torch.ones(N + 1, dtype=torch.bool, device=p.device)
    for _ in range(tree.depth):
        path = passes & has_turn & reached[parent]
        reached = F.pad(path, (1, 0), value=True)
    last = torch.where(path, steps + 1, 0).amax().view(1)
    fork, youngest = to_device([tree.fork_of, tree.youngest], p.device)[:, last]
    row = torch.where(fork[:, None] >= 0, left_to_youngest[fork], p[last])
    # At a leaf q counts as 0, so the residual is p itself.
    row = residual(row, _drawn_from(q, tokens, youngest, p) * (youngest >= 0))
    closing = draw(row, u_closing[last])[0]
    return Verdict(path, reached[parent] & has_turn, (p_x / q_x).clamp_max(1.0), last[0], closing, row[0])


def _after_elders(p, q, tokens, parent, tree: Siblings) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns each draft's p [N] after its earlier siblings were rejected, and the row that is left to the last child
    of each fork [forks, V] (p itself without forks)."""
    p_x = p[parent, tokens]
    if not tree.forks:
        return p_x, p
    rows, finished = p[to_device(tree.forks, p.device)], []
    for pairs in tree.pairs:
        elder, younger = to_device(pairs, p.device)
        finished.insert(0, rows[len(elder) :])  # forks that have no further child
        rows = residual(rows[: len(elder)], _drawn_from(q, tokens, elder, p))
        p_x[younger] = rows.gather(1, tokens[younger, None])[:, 0]
    return p_x, torch.cat([rows, *finished])


def _drawn_from(q, tokens, drafts, p) -> torch.Tensor:
    return one_hot(tokens[drafts], p.shape[-1]) if q is None else q[drafts]

"""Decides on the drafts of a tree together: traversal verification (Weng et al. 2025).

The drafts are tried from the leaves to the root. The first one that passes is accepted with all before it on its
path, even if one of them would have been rejected alone. On a chain this is block verification.

A node has a weight w and a row p: its path is to be accepted with the chance w, and then to go on as p. The root has
w = 1 and the target's p. Its children y are tried in order, each with all that follows it:
    the child's weight is min(w · p(y)/q(y), 1), q being what y was drawn from; its row is the target's after it
    when they have failed: R = max(w · p − q, 0), S = Σ R, then w ← S/(S + 1 − w) and p ← R/S
After its last child a node passes if u < w; this w is its h. Why it is exact: averaged over y a child is accepted with
the chance Σ min(w · p, q) = w − S, and once it has failed w and p no longer depend on it. So the path is accepted
with the chance w − S + (1 − w + S) · S/(S + 1 − w) = w, and then x follows the node with min(w · p(x), q(x)) + R(x)
= w · p(x). Which further drafts a tree gets may depend on those drawn before them.

One u decides about a whole path, and drafts that fail decide about those tried later. So every draft needs an accept
draw of its own, used in no other round, and so does its drawing. Dimension key as in rejection.py.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from engine.device import to_device
from engine.sampling.rejection import Block, Verdict, residual, verify_chain
from engine.sampling.warping import draw, one_hot


class Order(NamedTuple):
    """The order of a tree's traversal, on the host. waves: the drafts that can be weighed at once, each wave after
    those it needs; [3, k] each: the drafts, their parents, and the siblings tried before them (−1: none). nodes [N+1]:
    in the order they are tried, the root last. For each node: path and tested [N+1, N], as in a verdict that ends
    there, and youngest [N+1], the child tried last (−1: none)."""

    waves: list[np.ndarray]
    nodes: list[int]
    path: np.ndarray
    tested: np.ndarray
    youngest: list[int]

    @staticmethod
    def from_parents(parents: Sequence[int]) -> "Order":
        """Returns the order in which a traversal visits the nodes.

        >>> Order.from_parents([0, 0, 1]).nodes  # two siblings, and a child of the first
        [3, 1, 2, 0]
        """
        N = len(parents)
        children: list[list[int]] = [[] for _ in range(N + 1)]
        path, tested = np.zeros((N + 1, N), dtype=bool), np.zeros((N + 1, N), dtype=bool)
        waves: dict[tuple, list] = {}
        for i, parent in enumerate(parents):
            elders = children[parent]
            path[i + 1] = path[parent]
            path[i + 1, i] = True
            tested[i + 1] = tested[parent] | path[i + 1]
            tested[i + 1, elders] = True
            place = int(path[i + 1].sum()), len(elders)
            waves.setdefault(place, []).append((i, parent, elders[-1] if elders else -1))
            elders.append(i)
        for node, drafts in enumerate(children):
            tested[node, drafts] = True

        def visit(node: int) -> list[int]:
            return [*(below for i in children[node] for below in visit(i + 1)), node]

        in_turn = [np.array(waves[place]).T for place in sorted(waves)]
        return Order(in_turn, visit(0), path, tested, [drafts[-1] if drafts else -1 for drafts in children])


class TreeWeights(NamedTuple):
    """The weight of each draft once its turn comes: p_x [N], running [N], its weight; after [N] and residual_after [N,
    V], its parent's weight and row once it has failed."""

    p_x: torch.Tensor
    running: torch.Tensor
    after: torch.Tensor
    residual_after: torch.Tensor


def verify_traversal(p, q, tokens, parents, u, u_closing) -> Verdict:
    """Verifies a tree; the arguments are as in `verify_tree`. ``tested`` are the accepted drafts, the siblings tried
    before them, and the children of the last one."""
    if not parents:
        return verify_chain(p, q, tokens, u, u_closing)
    order, device = Order.from_parents(parents), p.device
    q = one_hot(tokens, p.shape[-1]) if q is None else q
    weights = weigh(p, q, tokens, order)
    nodes, youngest = to_device([order.nodes, order.youngest], device)
    of_leaf = youngest[1:] < 0
    h = torch.where(of_leaf, weights.running, weights.after[youngest[1:]])
    passes = torch.cat([torch.ones_like(of_leaf[:1]), u < h])  # the root always does
    last = nodes[passes[nodes].long().argmax().view(1)]
    path, tested = to_device(np.stack([order.path, order.tested]), device, torch.bool)[:, last, :][:, 0]
    row = torch.where(youngest[last][:, None] < 0, p[last], weights.residual_after[youngest[last]])
    q_x = q.gather(1, tokens[:, None])[:, 0]
    is_inside = path & (torch.arange(1, len(parents) + 1, device=device) != last)
    block = Block(weights.running, h, is_inside & (u * q_x >= weights.p_x), weights.residual_after)
    accept = (weights.p_x / q_x).clamp_max(1.0)
    return Verdict(path, tested, accept, last[0], draw(row, u_closing[last])[0], row[0], block)


def weigh(p, q, tokens, order: Order) -> TreeWeights:
    """Weighs every draft. The weights do not depend on u, because a draft's turn comes in one way: all that is tried
    before it has failed."""
    N, V = q.shape
    start, (p_x, after), left = p.new_ones(N + 1), p.new_empty(2, N), p.new_empty(N, V)
    for wave in order.waves:
        drafts, above, elders = to_device(wave, p.device)
        is_first = wave[2][0] < 0
        at, w = (p[above], start[above]) if is_first else (left[elders], after[elders])
        mine, q_x = at.gather(1, tokens[drafts, None])[:, 0], q[drafts, tokens[drafts]].clamp_min(1e-38)
        p_x[drafts], start[drafts + 1] = mine, (w * mine / q_x).clamp_max(1.0)
        after[drafts] = weight_after(at, q[drafts], w)
        left[drafts] = residual(at, q[drafts], w[:, None])
    return TreeWeights(p_x, start[1:], after, left)


def weight_after(at, q, w) -> torch.Tensor:
    """Returns S/(S + 1 − w) of rows ``at`` [k, V] with weights w [k]. A weight of 1 stays 1: S/S, and 0/0 where p
    and q are equal."""
    over = (w[:, None] * at - q).clamp_min(0.0).sum(-1)
    return torch.where(w < 1, over / (over + 1 - w), 1.0)

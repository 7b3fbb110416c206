"""Decides on the drafts of a chain together: block verification (Sun et al. 2025).

The longest beginning of the chain that passes its test is accepted, even if a draft inside it would have been rejected
alone. The output has exactly the target's distribution, and on average at least as many drafts are accepted as with a
test for each. With one draft, with a one-hot q and at temperature 0 both rules accept with the same chances.

With p_0 = 1, for the beginning x_1 … x_i:
    p_i = min(p_{i−1} · p(x_i)/q(x_i), 1)
    S_i = Σ_x max(p_i · p(x) − q(x), 0), p and q being the rows of the token after it
    h_i = S_i/(S_i + 1 − p_i), and h_N = p_N for the last draft
Draft i passes if u_i < h_i. Why this is exact: a beginning is accepted with the chance p_i, no matter what follows it,
because (from the back) E[p_{i+1}] = Σ_x min(p_i · p(x), q(x)) = p_i − S_i, and p_i − S_i + (1 − p_i + S_i) · h_i = p_i.
Then x comes next as a draft with the chance min(p_i · p(x), q(x)), and from the residual with max(p_i · p(x) − q(x),
0): together p_i · p(x). Nothing here needs N to be fixed: a drafter may stop according to the tokens it has drawn.
For a tree the same rule is in `traversal.py`.

One u_i decides about all drafts before it, so no u may be used in two rounds (`SpeculativeDecoder._draws`).
Dimension key as in rejection.py.
"""

import torch

from engine.sampling.rejection import Block, Verdict, residual, verify_chain
from engine.sampling.warping import draw, one_hot


def verify_block(p, q, tokens, u, u_closing) -> Verdict:
    """Verifies a chain; the arguments are as in `verify_chain`. ``tested`` ends with the first rejected draft, as
    there.

    For example, with p/q = 0.5 and then 2, p_1 = 0.5 and p_2 = 1: the second draft always passes and rescues the first.
    """
    N = len(tokens)
    if N == 0:
        return verify_chain(p, q, tokens, u, u_closing)
    q = one_hot(tokens, p.shape[-1]) if q is None else q
    steps = torch.arange(N, device=p.device)
    p_x, q_x = p[steps, tokens], q[steps, tokens]
    running = running_products(p_x, q_x)
    h = chances(p, q, running)
    last = torch.where(u < h, steps + 1, 0).amax()
    at = last.view(1)
    weight = torch.cat([torch.ones_like(running[:1]), running])[at]
    # After a fully accepted round row N has no draft to subtract: q counts as 0 there, and the residual is p itself.
    row = residual(p[at], q[at.clamp_max(N - 1)] * (last < N), weight[:, None])
    rescued = (steps + 1 < last) & (u * q_x >= p_x)
    accept = (p_x / q_x).clamp_max(1.0)
    block = Block(running, h, rescued)
    return Verdict(steps < last, steps <= last, accept, last, draw(row, u_closing[at])[0], row[0], block)


def running_products(p_x: torch.Tensor, q_x: torch.Tensor) -> torch.Tensor:
    """Returns p_i [N] from the target's and the draft's probability of each draft [N]. 0 stays 0: after a draft that
    the target rules out nothing can be accepted."""
    product, products = torch.ones_like(p_x[0]), []
    for target, draft in zip(p_x, q_x.clamp_min(1e-38), strict=True):
        product = (product * target / draft).clamp_max(1.0)
        products.append(product)
    return torch.stack(products)


def chances(p: torch.Tensor, q: torch.Tensor, running: torch.Tensor) -> torch.Tensor:
    """Returns h_i [N]: the chance that the block ends with draft i, if no longer one was accepted. At most p_i."""
    inner = running[:-1]
    left = (inner[:, None] * p[1:-1] - q[1:]).clamp_min(0.0).sum(-1)
    # p_i = 1 is accepted for sure: S/S, and 0/0 where p and q are equal from there on.
    h = torch.where(inner < 1, left / (left + 1 - inner), 1.0)
    return torch.cat([h, running[-1:]])

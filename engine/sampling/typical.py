"""Accepts every draft that the target finds likely enough: typical acceptance (Cai et al. 2024, Medusa). Lossy.

A draft x is accepted if p(x) > min(ε, δ · exp(−H)), with H the entropy of p in nats, and q plays no part. The closing
token is drawn from p. So a drafted token comes more often than p has it if it is likely enough, and less often if not:
above temperature 0 the output does not follow the target's distribution. At temperature 0 only the target's first
choice has p > 0, and the rule is exact.

Dimension key as in rejection.py.
"""

import torch

from engine.device import to_device
from engine.sampling.rejection import Verdict, verify_chain
from engine.sampling.warping import draw


def thresholds(p: torch.Tensor, epsilon: float, delta: float) -> torch.Tensor:
    """Returns min(ε, δ · exp(−H)) [R] for p [R, V]. With two tokens of 0.5 each, ε = 0.09 and δ = 0.3, exp(−H) is 0.5
    and the threshold 0.09."""
    return (delta * torch.exp(torch.special.entr(p).sum(-1).neg())).clamp_max(epsilon)


def typical_chain(p, q, tokens, u, u_closing, epsilon: float, delta: float) -> Verdict:
    """Verifies a chain; neither q nor u plays a part."""
    return typical_tree(p, q, tokens, None, u, u_closing, epsilon, delta)


def typical_tree(p, q, tokens, parents, u, u_closing, epsilon: float, delta: float) -> Verdict:
    """Verifies a chain (``parents`` None) or a tree, of which the longest accepted path counts, the likelier one of two
    as long. Siblings that are accepted as well, but not on it, count as untested. Neither q nor u plays a part."""
    N = len(tokens)
    if N == 0:
        return verify_chain(p, None, tokens, u_closing[:0], u_closing)
    numbers = range(N) if parents is None else parents
    parent = to_device(list(numbers), p.device)
    p_x, threshold = p[parent, tokens], thresholds(p, epsilon, delta)[parent]
    passes = p_x > threshold
    # By node: how long its accepted path is, and how likely; −∞ where a node on the path is not accepted.
    scores = [torch.zeros_like(p_x[0])]
    steps = torch.where(passes, N + 1 + p_x.clamp_min(1e-38).log() / 100, -torch.inf)
    for i, node in enumerate(numbers):
        scores.append(scores[node] + steps[i])
    last = torch.stack(scores).argmax().view(1)
    on_path, node = [], last
    for i in reversed(range(N)):
        is_here = node == i + 1
        on_path.insert(0, is_here)
        node = torch.where(is_here, parent[i : i + 1], node)
    path = torch.cat(on_path)
    reached = torch.cat([torch.ones_like(path[:1]), path])[parent]
    row = p[last]
    closing = draw(row, u_closing[last])[0]
    return Verdict(path, reached & (path | ~passes), passes.float(), last[0], closing, row[0], threshold=threshold)

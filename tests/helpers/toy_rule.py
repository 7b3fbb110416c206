"""An acceptance rule of a test's own: the target draws a token at every node, and a draft passes if it is the same.

It is registered as CONTRIBUTING.md describes under "Add an acceptance rule": two functions and an entry of ACCEPTANCE.
Every emitted token is a draw from p, so the rule is exact; it accepts fewer drafts than the others.
"""

import torch

from engine.config import ACCEPTANCE, AcceptanceRule
from engine.sampling.rejection import Verdict
from engine.sampling.warping import draw


def verify_tree(p, q, tokens, parents, u, u_closing) -> Verdict:
    own, drafts = draw(p, u_closing), tokens.tolist()  # [N+1]
    path, tested, node = [False] * len(drafts), [False] * len(drafts), 0
    for i, token in enumerate(drafts):  # in order, so that a parent comes before its children
        if parents[i] == node:
            tested[i], path[i] = True, token == int(own[node])
            node = i + 1 if path[i] else node
    last = torch.tensor(node)
    return Verdict(torch.tensor(path), torch.tensor(tested), torch.tensor(path).float(), last, own[last], p[last])


def verify_chain(p, q, tokens, u, u_closing) -> Verdict:
    return verify_tree(p, q, tokens, range(len(tokens)), u, u_closing)


def register(patch) -> None:
    """Adds the rule until the test ends."""
    rule = AcceptanceRule(
        "toy rule", "a draft must be the target's own draw", "toy_rule:verify_chain", "toy_rule:verify_tree"
    )
    patch.setitem(ACCEPTANCE, "toy", rule)

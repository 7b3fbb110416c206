"""Draws a tree of guesses: siblings without replacement, so that each is a draw from a q that is known.

How many draws follow a node is decided before they are drawn, from earlier draws and from the distribution they come
from; and none is dropped afterwards. So q is real, and the output exact. Every draft has a draw of its own, by its
number in the round, because a rule may decide on all of them together.
"""

from collections.abc import Sequence

import torch

from engine.device import to_device
from engine.drafters.autoregressive import NOT_FINITE, certainties
from engine.drafters.token_tree import Node, Plan, TokenTree, Worthwhile, sibling_key
from engine.sampling.random_streams import DRAFTING, Uniforms
from engine.sampling.warping import draw, one_hot


def draw_siblings(q: torch.Tensor, u: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Draws K tokens of each row of q [W, V] by u [W, K], without replacement. Returns them [W, K] and the rows they
    were drawn from [W, K, V]. Where nothing is left to draw, the last token comes again, as a guess that is certain."""
    tokens, rows = [], []
    for number in u.unbind(1):
        token = draw(q, number)
        tokens.append(token)
        rows.append(q)
        left = q.scatter(1, token[:, None], 0.0)
        total = left.sum(-1, keepdim=True)
        q = torch.where(total > 0, left / total.clamp_min(1e-38), one_hot(token, q.shape[-1]))
    return torch.stack(tokens, 1), torch.stack(rows, 1)


class DrawnTree(TokenTree):
    """``position``: the first draft's place among the run's new tokens; ``target_ids`` [Vd] are the draft's words."""

    def __init__(self, shape: Worthwhile | Plan, uniforms: Uniforms, position: int, target_ids: torch.Tensor):
        super().__init__(shape)
        self.shape: Worthwhile | Plan = shape
        self._uniforms, self._position, self._target_ids = uniforms, position, target_ids
        self._place: dict[Node, int] = {}  # each node's number among all that were drawn
        self._tokens = target_ids[:0]
        self._rows = target_ids.new_zeros(0, len(target_ids), dtype=torch.float32)

    def draw(self, level: Sequence[Node], logits: torch.Tensor, q: torch.Tensor) -> list[Node]:
        """Draws what follows the nodes of ``level`` from their logits and q [W, Vd]."""
        # A shape that is given needs no keys, so that the host does not wait for the device.
        is_given = isinstance(self.shape, Plan)
        keys = [0] * len(level) if is_given else certainties(logits)
        if NOT_FINITE in keys or (q.device.type == "cpu" and bool(q[:, 0].isnan().any())):
            self.is_broken = True
            return []
        widths = self.shape.widths(level, keys, len(self.nodes))
        if not any(widths):
            return []
        u, places, start = [[0.0] * max(widths) for _ in level], [], len(self.nodes)
        for row, (node, width) in enumerate(zip(level, widths, strict=True)):
            for sibling in range(width):
                u[row][sibling] = self._uniform(len(self.nodes))
                places.append((row, sibling))
                child = self.append(node, -1, keys[row] if sibling == 0 else sibling_key(sibling), 1.0)
                self._place[child] = len(self._place)
        tokens, rows = draw_siblings(q, to_device(u, q.device, torch.float32))
        at_row, at_sibling = to_device(list(zip(*places, strict=True)), q.device)
        self._tokens = torch.cat([self._tokens, self._target_ids[tokens[at_row, at_sibling]]])
        self._rows = torch.cat([self._rows, rows[at_row, at_sibling]])
        return self.nodes[start:]

    def selection(self) -> list[Node]:
        return self.nodes

    def tokens_of(self, nodes: Sequence[Node], device: str | torch.device) -> torch.Tensor:
        return self._tokens[to_device([self._place[node] for node in nodes], device)]

    def q_of(self, nodes: Sequence[Node]) -> torch.Tensor | None:
        """Returns [N, Vd], q of these draws."""
        return None if not nodes else self._rows[to_device([self._place[node] for node in nodes], self._rows.device)]

    def _uniform(self, number: int) -> float:
        return float(self._uniforms.table(DRAFTING, number)[self._position + number])

"""Drafts a tree with an EAGLE-3 head: several guesses after the likeliest ones (EAGLE-2, Li et al. 2024).

Each level of the tree is one pass of the head over the nodes that go on; every node attends to the committed text and
its own ancestors. Where a chain is all that pays, or all that the target can score, a chain is drafted. At temperature
0 the guesses are the likeliest words, and one-hot. Above it they are drawn from q (`drawn_tree.py`), which the target
accepts more often.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from engine.config import MAX_GAMMA, MAX_NODES
from engine.device import to_device, to_host
from engine.drafters.autoregressive import certain_where_broken
from engine.drafters.base import PER_TOKEN, Draft, DraftPolicy, Keys
from engine.drafters.drawn_tree import DrawnTree
from engine.drafters.eagle_chain import EagleChainDrafter
from engine.drafters.static_tree import best_tree
from engine.drafters.token_tree import MAX_CHILDREN, MostProbable, Node, Plan, TokenTree, Worthwhile, sibling_key
from engine.sampling.warping import penalise, warp


class EagleTreeDrafter(EagleChainDrafter):
    """``chances``: how often a node's first, second, … draw is accepted, for a tree of fixed size."""

    name, spare = "eagle", MAX_GAMMA * MAX_CHILDREN
    # How often a later sibling passed its test, by −log2 of its share of what its elders left, rounded down: counted
    # with the shipped head over 12 prompts of the benchmark, 64 tokens each, greedy.
    priors = EagleChainDrafter.priors | {("later", i): a for i, a in enumerate((0.5, 0.3, 0.14, 0.07, 0.035, 0.01))}
    # Acceptance of each draw by its turn, at temperature 1 over 24 prompts; the ninth and tenth take the eighth's.
    chances = (0.37, 0.17, 0.115, 0.06, 0.06, 0.05, 0.04, 0.03, 0.03, 0.03)
    priors |= {sibling_key(rank): chance for rank, chance in enumerate(chances) if rank}

    def keys(self) -> Keys:
        return PER_TOKEN

    def propose(self, text: Sequence[int], gamma: int, policy: DraftPolicy | None = None) -> Draft:
        if not self.setup.trees:
            return super().propose(text, gamma, policy)
        free_slots, device = min(MAX_NODES, self.setup.capacity - len(text) - 1), self.target_ids.device
        shape = self._shape(min(gamma, free_slots), free_slots, policy)
        tree, place = TokenTree(shape), self.setup.position(text)
        if not self.setup.sampling.greedy:
            tree = DrawnTree(shape, self.setup.uniforms, place, self.target_ids)
        steps = self._grow(tree, text, gamma)
        self.runner.rollback(len(text) - 1)  # the next round feeds the drafted positions again, with features
        draft = tree.draft(free_slots, device)
        finite = torch.cat(self._tops) if self._tops else None
        finite = torch.full((1,), math.nan, device=device) if tree.is_broken else finite
        q = None if draft.q is None else self.spread_over_target(draft.q)
        return replace(draft, q=q, passes=steps, finite=finite)

    def _shape(self, gamma: int, free_slots: int, policy: DraftPolicy | None) -> Any:
        shape = policy.tree_shape() if policy else None
        if isinstance(shape, Worthwhile):
            return replace(shape, limit=min(shape.limit, free_slots))
        if shape is not None:
            return shape
        return MostProbable(gamma) if self.setup.sampling.greedy else Plan(best_tree(self.chances, gamma, gamma))

    def _grow(self, tree: TokenTree, text: Sequence[int], limit: int) -> int:
        """Grows the tree, at most ``limit`` deep. Returns the passes it took."""
        runner = self.runner
        ids, features = self._not_yet_fed(text)
        self._tops: list[torch.Tensor] = []
        logits, states = runner.extend(ids, features=features)
        level, fed, steps = [tree.root], [tree.root], 1
        while True:
            before, grown = level, self._add(tree, level, logits)
            level = tree.to_expand(grown) if steps < limit else []
            if not level or len(level) > runner.free_slots:
                return steps
            parents: list[Any] = [node.parent for node in level]
            states = states[to_device([before.index(parent) for parent in parents], states.device)]
            fed += level
            logits, states = runner.extend(tree.tokens_of(level, states.device), _attention(level, fed), state=states)
            steps += 1

    def _add(self, tree: TokenTree, level: list[Node], logits: torch.Tensor) -> list[Node]:
        """Adds the guesses after each node of ``level``, from logits [W, Vd]: the likeliest ones, or draws."""
        logits = logits[:, : self.setup.vocab_size].float()
        if self.setup.reader is not None and logits.device.type == "cpu":
            logits = self.mask_rows(logits, [tuple(tree.tokens_of(node.path(), "cpu").tolist()) for node in level])
        penalised = self._penalise(tree, level, logits)
        if isinstance(tree, DrawnTree):
            if logits.device.type != "cpu":
                self._tops.append(logits.amax(-1))
            return tree.draw(level, logits, certain_where_broken(warp(penalised, self.setup.sampling)))
        best = penalised.softmax(-1).topk(min(MAX_CHILDREN, logits.shape[1]))
        shares, tokens = to_host(torch.stack([best.values, self.target_ids[best.indices].float()])).tolist()
        if any(math.isnan(first) for first, *_ in shares):
            tree.is_broken = True
            return []
        return [
            child
            for node, words, likely in zip(level, tokens, shares, strict=True)
            for child in tree.add(node, [int(token) for token in words], likely)
        ]

    def _penalise(self, tree: TokenTree, level: list[Node], logits: torch.Tensor) -> torch.Tensor:
        """Applies the repetition penalty, which counts the tokens of each node's own path."""
        if self.setup.history is None:
            return logits
        seen = self.setup.history.seen[self.target_ids].expand_as(logits).clone()
        for row, node in enumerate(level):
            seen[row] |= torch.isin(self.target_ids, tree.tokens_of(node.path(), self.target_ids.device))
        return penalise(logits, seen, self.setup.sampling.repetition_penalty)


def _attention(level: list[Node], fed: list[Node]) -> tuple[np.ndarray, np.ndarray]:
    """Returns depth [W] and ancestors [W, M] of the nodes of one level, the last W of the M nodes fed so far."""
    column = {node: i for i, node in enumerate(fed)}
    ancestors = np.zeros((len(level), len(fed)), dtype=bool)
    ancestors[:, 0] = True
    for row, node in enumerate(level):
        ancestors[row, [column[one] for one in node.path()]] = True
    return np.array([node.depth for node in level]), ancestors

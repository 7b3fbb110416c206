"""Drafts a tree with an EAGLE-3 head: several guesses after the likeliest ones (EAGLE-2, Li et al. 2024).

Each level of the tree is one pass of the head over the nodes that go on; every node attends to the committed text and
its own ancestors. Where a chain is all that pays, a chain is drafted. A tree's guesses are one-hot. Above temperature 0
that costs acceptance, so there the chain drawn from q is drafted: at temperature 1 one draft of it was accepted in 0.40
of 154 tests, and after 94 nodes the ten likeliest guesses together in 0.43 (4 prompts of the benchmark, 40 tokens).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from engine.config import MAX_GAMMA, MAX_NODES, SamplingParams
from engine.device import read, to_device
from engine.drafters.base import PER_TOKEN, Draft, DrafterSetup
from engine.drafters.eagle3 import Eagle3Drafter
from engine.drafters.token_tree import BRANCHES, MostProbable, Node, Shape, TokenTree, Worthwhile
from engine.sampling.warping import penalise


class EagleTreeDrafter(Eagle3Drafter):
    """``drafts_trees``: whether this run's rounds may be trees; False until it starts, which method auto does late."""

    drafts_trees = False

    name = "eagle"
    # Shares of tests that later siblings passed, by halvings of what the elder ones had left: counted with the shipped
    # head over 12 prompts of the benchmark, 64 tokens each, greedy.
    priors = Eagle3Drafter.priors | {("later", i): a for i, a in enumerate((0.5, 0.3, 0.14, 0.07, 0.035, 0.01))}

    def start(self, prompt: Sequence[int], setup: DrafterSetup) -> None:
        self.drafts_trees = self._may_branch(setup.sampling)
        super().start(prompt, setup)

    @staticmethod
    def _may_branch(sampling: SamplingParams) -> bool:
        return sampling.greedy

    def _capacity(self, setup: DrafterSetup) -> int:
        return setup.capacity + MAX_GAMMA * BRANCHES if self.drafts_trees else super()._capacity(setup)

    def confidence_keys(self, committed: Sequence[int]) -> Sequence[str]:
        return PER_TOKEN if self.drafts_trees else super().confidence_keys(committed)

    def propose(self, committed: Sequence[int], gamma: int, position: int) -> Draft:
        if not self.drafts_trees:
            return super().propose(committed, gamma, position)
        policy, room = self.setup.policy, min(MAX_NODES, self.setup.capacity - len(committed) - 1)
        shape = (policy and policy.tree_shape()) or MostProbable(min(gamma, room))
        tree, steps = self._grow(shape, committed, gamma)
        nodes, parents = tree.select()
        nodes, parents = nodes[:room], parents[:room]
        self.runner.rollback(len(committed) - 1)  # the next round feeds the drafted positions again, with features
        tokens = to_device([node.token for node in nodes], self.setup.device)
        is_chain = parents == tuple(range(len(parents)))
        draft = Draft(tokens, None, None if is_chain else parents, steps, tuple(node.key for node in nodes))
        if not isinstance(shape, Worthwhile):
            return draft
        return replace(draft, expected=tuple(node.reach for node in nodes), row_cost=shape.row_cost(len(nodes)))

    def _grow(self, shape: Shape, committed: Sequence[int], most: int) -> tuple[TokenTree, int]:
        """Returns the tree, at most ``most`` deep, and the passes it took."""
        tree, runner = TokenTree(shape), self.runner
        ids, features = self._not_yet_fed(committed)
        logits, states = runner.extend(ids, features=features)
        level, fed, steps = [tree.root], [tree.root], 1
        while True:
            before, grown = level, self._add_guesses(tree, level, logits)
            level = tree.to_expand(grown) if steps < most else []
            if not level or len(level) > runner.room:
                return tree, steps
            states = states[to_device([before.index(node.parent) for node in level], states.device)]
            fed += level
            tokens = to_device([node.token for node in level], states.device)
            logits, states = runner.extend(tokens, _attention(level, fed), state=states)
            steps += 1

    def _add_guesses(self, tree: TokenTree, level: list[Node], logits: torch.Tensor) -> list[Node]:
        """logits [W, Vd] after the nodes of ``level`` → the likeliest guesses after each."""
        logits = logits[:, : self.setup.vocab_size].float()
        if self.setup.history is not None:
            seen = self.setup.history.seen[self.words].expand_as(logits).clone()
            for row, node in enumerate(level):
                seen[row] |= torch.isin(self.words, to_device([one.token for one in node.path()], self.words.device))
            logits = penalise(logits, seen, self.setup.sampling.repetition_penalty)
        best = logits.softmax(-1).topk(min(BRANCHES, logits.shape[1]))
        shares, tokens = read(torch.stack([best.values, self.words[best.indices].float()])).tolist()
        return [
            child
            for node, words, likely in zip(level, tokens, shares, strict=True)
            for child in tree.add(node, [int(token) for token in words], likely)
        ]


def _attention(level: list[Node], fed: list[Node]) -> tuple[np.ndarray, np.ndarray]:
    """depth [W] and ancestors [W, M] of the nodes of one level, the last W of the M nodes that were fed so far."""
    column = {node: i for i, node in enumerate(fed)}
    ancestors = np.zeros((len(level), len(fed)), dtype=bool)
    ancestors[:, 0] = True
    for row, node in enumerate(level):
        ancestors[row, [column[one] for one in node.path()]] = True
    return np.array([node.depth for node in level]), ancestors

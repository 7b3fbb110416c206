"""Drafts by lookahead (Fu et al. 2024): the target guesses ahead of itself in a window, and its guesses become n-grams.

The window has N − 1 levels of W tokens. Level 0 fills the next W places; its tokens may be any. A token of level
l + 1 is the target's likeliest after level l's in the same column (a Jacobi iteration), so each column becomes an
n-gram, and the pool keeps the last G of each first token. A round's tree holds the pool's n-grams after the last token,
then the window: a token of a higher level follows that below it, and level 0 is a chain.

A token of the window is a guess like any other, because its row has been paid for. All are one-hot. No round is left
out, because each moves the window by a step; so (N − 1) · (W + G) further rows are scored each time.
"""

from collections import deque
from collections.abc import Sequence
from functools import partial
from itertools import cycle
from typing import ClassVar

import torch

from engine.config import MAX_NODES
from engine.device import to_device, to_host
from engine.drafters.base import PER_TOKEN, Draft, Drafter, DrafterSetup, DraftOffer, DraftPolicy

_POOL, _WINDOW = "pool", "window"  # confidence keys


class LookaheadDrafter(Drafter):
    """``levels``: the window's tokens, lowest level first; ``pool``: first token → the tokens after it, the latest
    n-gram first."""

    name = "lookahead"
    # Shares of tests passed: counted with the embedded target over 6 prompts of the benchmark, 64 tokens each, greedy.
    priors: ClassVar = {PER_TOKEN: 0.3, _POOL: 0.39, _WINDOW: 0.02}

    def start(self, prompt: Sequence[int], setup: DrafterSetup, window: int, ngram_size: int, guesses: int) -> None:
        self.setup, self.W, self.N, self.G = setup, window, ngram_size, guesses
        self.pool: dict[int, deque[tuple[int, ...]]] = {}
        self._indexed = setup.copy_from  # the first token that no n-gram of the pool begins with
        copied = [token for token in prompt[setup.copy_from :] if token not in setup.control_ids]
        self._filling = cycle(copied or prompt[-1:])
        self.levels = [self._fill([])]
        self._window_at = len(prompt)  # the index of the place that level 0 begins with
        self._in_tree = 0  # nodes before the window in the last tree; −1 where it had none

    def _fill(self, tokens: list[int]) -> list[int]:
        """Fills a level up to W tokens with tokens of the prompt."""
        return tokens + [next(self._filling) for _ in range(self.W - len(tokens))]

    def offer(self, text: Sequence[int]) -> DraftOffer | None:
        return DraftOffer(self, PER_TOKEN, partial(self.propose, text))

    def propose(self, text: Sequence[int], gamma: int, policy: DraftPolicy | None = None) -> Draft:
        self._index(text)
        self._move_window(len(text))
        nodes = self._guesses(text[-1], gamma)
        guesses, free_slots = len(nodes), min(MAX_NODES, self.setup.capacity - len(text) - 1)
        window = self._window(guesses)
        self._in_tree = guesses if guesses + len(window) <= free_slots else -1
        nodes = (nodes + window)[:free_slots]
        tokens, parents = [token for token, _ in nodes], tuple(parent for _, parent in nodes)
        keys = ((_POOL,) * guesses + (_WINDOW,) * len(window))[: len(nodes)]
        return Draft(to_device(tokens, self.setup.device), None, parents, keys=keys)

    def _index(self, committed: Sequence[int]) -> None:
        """Adds the n-grams of the text to the pool."""
        while self._indexed + self.N <= len(committed):
            self._add(committed[self._indexed : self._indexed + self.N])
            self._indexed += 1

    def _add(self, ngram: Sequence[int]) -> None:
        first, *rest = ngram
        known = self.pool.setdefault(first, deque(maxlen=self.G))
        if tuple(rest) in known:
            known.remove(tuple(rest))
        known.appendleft(tuple(rest))

    def _move_window(self, length: int) -> None:
        """Drops the columns of places that are decided by now."""
        past = length - self._window_at
        self.levels = [self._fill(level[past:]) for level in self.levels]
        self._window_at = length

    def _guesses(self, last: int, gamma: int) -> list[tuple[int, int]]:
        """Returns (token, parent) of the pool's n-grams after ``last``, up to ``gamma`` tokens of each; they share
        nodes where they begin alike."""
        nodes, numbers = [], {}
        for ngram in self.pool.get(last, ()):
            parent, path = 0, ()
            for token in ngram[:gamma]:
                path += (token,)
                if path not in numbers:
                    nodes.append((token, parent))
                    numbers[path] = len(nodes)
                parent = numbers[path]
        return nodes

    def _window(self, before: int) -> list[tuple[int, int]]:
        """Returns (token, parent) of the window's nodes, which come after ``before`` others."""
        nodes = []
        for level, tokens in enumerate(self.levels):
            for column, token in enumerate(tokens):
                below = column if level == 0 else (level - 1) * self.W + column + 1
                nodes.append((token, before + below if below else 0))
        return nodes

    def observe_target(self, logits: torch.Tensor) -> None:
        """Adds the target's likeliest tokens after the highest level as one level more. Once there are N, they are
        n-grams for the pool, and the lowest is dropped. On a device this waits once more."""
        if self._in_tree < 0:
            return
        first = 1 + self._in_tree + (len(self.levels) - 1) * self.W
        self.levels.append([int(token) for token in to_host(logits[first : first + self.W].argmax(-1))])
        if len(self.levels) == self.N:
            for column in zip(*self.levels, strict=True):
                self._add(column)
            del self.levels[0]
            self._window_at += 1

    def release(self) -> None:
        self.pool, self.levels = {}, []

"""Drafts what followed the same words in a corpus of texts, often of the target's own (SuffixDecoding, Oliaro et al.
2024).

Every length of match offers the continuation that most of its places share; the one that promises the most tokens is
proposed. q is one-hot. A corpus must hold no text that a run writes again with the same draws, because a draft made of
them would not be independent of the verdict; the shipped one was written with seeds of its own.
"""

from collections.abc import Sequence
from itertools import accumulate
from operator import mul
from typing import ClassVar

import numpy as np

from engine.device import to_device
from engine.drafters.base import Draft, Drafter, DraftOffer
from engine.drafters.context_index import ContextIndex

LONGEST = 16  # tokens in a proposal
_LEAST = 0.1  # chance of being reached below which a continuation ends
_MOST_PLACES = 1000  # of a context that are counted at most, spread over all of them
_DOUBT = 3  # places added to a count, because few places prove little


class CorpusDrafter(Drafter):
    """``index`` holds texts with an id between them that no token has."""

    name = "corpus"
    # Acceptance rate by tenth of the estimate: counted over 24 of the benchmark's prompts in int8, greedy and at
    # temperature 0.8, with the shipped corpus.
    priors: ClassVar = dict(enumerate((0.01, 0.09, 0.14, 0.18, 0.25, 0.46, 0.46, 0.51, 0.58, 0.82)))

    def __init__(self, index: ContextIndex):
        self.index = index

    def offer(self, text: Sequence[int]) -> DraftOffer | None:
        """Offers the continuation with the most expected tokens; its keys are the tenths of the estimates along it."""
        paths = [self._continuation(places) for places in self.index.matches(text)]
        tokens, estimates = max(paths, key=lambda path: sum(accumulate(path[1], mul)), default=([], []))
        keys, device = [int(10 * estimate) for estimate in estimates], self.setup.device
        return DraftOffer(self, keys, lambda gamma, _: Draft(to_device(tokens[:gamma], device))) if tokens else None

    def _continuation(self, places: np.ndarray) -> tuple[list[int], list[float]]:
        """Follows the most frequent token from place to place. Returns the tokens, and the estimated chance of each if
        those before it are right."""
        text, tokens, estimates, reached = self.index.tokens, [], [], 1.0
        places = places[:: -(-len(places) // _MOST_PLACES)]
        while len(tokens) < LONGEST:
            places = places[places < len(text)]
            followers, counts = np.unique(text[places], return_counts=True)
            if not len(followers):
                break
            best = counts.argmax()
            token, estimate = int(followers[best]), counts[best] / (len(places) + _DOUBT)
            reached *= estimate
            if token >= self.setup.vocab_size or (tokens and reached < _LEAST):
                break
            tokens.append(token)
            estimates.append(float(estimate))
            places = places[text[places] == token] + 1
        return tokens, estimates

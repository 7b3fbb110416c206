"""What draft models have in common: one pass a token, each token drawn from q with the target's own settings.

Dimension key: N drafts, V target vocabulary, Vd words the draft can guess.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar

import torch
import torch.nn.functional as F

from engine.device import to_device
from engine.drafters.base import ASK, Draft, Setup
from engine.runner import Runner
from engine.sampling import DRAFTING, draw, penalise, warp

LONGEST_CATCH_UP = 8  # committed tokens fed together with the first step; more than that are prefilled
_KEPT = (0.12, 0.23, 0.35, 0.44, 0.53, 0.62, 0.73, 0.78, 0.87, 0.95)
_BUCKETS = len(_KEPT)
_UNASKED = "unasked"  # the one situation there is where nobody can be asked on the way

Step = Callable[[], torch.Tensor]


class ChainDrafter:
    """A subclass brings the draft model up to date and says how one token leads to the next one's logits.

    A draft model's own certainty tells which guesses will be kept, so its situations are the highest probability of
    the unwarped distribution in tenths. Inside a captured CUDA graph nobody can be asked; there γ is chosen first.
    """

    name: str
    words: torch.Tensor | None = None  # [Vd] target ids, where the draft's own ids are others
    # Share of greedy guesses kept at each certainty, over the shipped drafts' held-out prompts: it is nearly the
    # certainty itself, at any draft position and for the head and the small model alike.
    priors: ClassVar = {ASK: 0.5, _UNASKED: 0.5, **dict(enumerate(_KEPT))}

    def __init__(self, runner: Runner):
        self.runner = runner
        self._buffers: dict[tuple, torch.Tensor] = {}

    def start(self, prompt: Sequence[int], setup: Setup) -> None:
        self.setup = setup
        self.runner.reset(min(setup.capacity, self.runner.max_length))

    def situation(self, committed: Sequence[int]):
        return _UNASKED if self.runner.captured else ASK

    def deeper(self, situation):
        return situation

    def release(self) -> None:
        self.runner.release()

    def _draft(self, advance: Callable, u: torch.Tensor, gamma: int, judge) -> Draft:
        """``advance(token)`` runs one step after ``token`` (None: the first) and gives logits [1, Vd].

        With a ``judge`` a guess not worth scoring ends the chain before its token is drawn.
        """
        tokens, rows, path, token, steps = [], [], [], None, 0
        seen = None if self.setup.history is None else self.setup.history.seen[None].clone()
        while len(tokens) < gamma:
            logits = advance(token)[:, : self.setup.vocab_size].float()
            steps += 1
            if judge is not None:
                path.append(certainty(logits))
                if not judge.keep(path):
                    path.pop()
                    break
            token, q = self._drawn(logits, seen, u[len(tokens) : len(tokens) + 1])
            tokens.append(token)
            rows.append(q)
            if judge is not None and not judge.more(path):
                break
        if not tokens:
            return Draft(torch.zeros(0, dtype=torch.long, device=self.setup.device), steps=steps)
        q = None if rows[0] is None else torch.cat(rows)
        return Draft(torch.cat(tokens), q, steps=steps, situations=tuple(path))

    def _drawn(self, logits: torch.Tensor, seen: torch.Tensor | None, u: torch.Tensor):
        """logits [1, Vd], u [1] → the target's id of the token drawn [1], q [1, V]; ``seen`` then holds it too.
        Greedy is no draw: q is None, and nobody fills and subtracts rows of one 1."""
        V, words = self.setup.vocab_size, self.words
        if seen is not None:
            known = seen[:, : logits.shape[1]] if words is None else seen[:, words]
            logits = penalise(logits, known, self.setup.sampling.repetition_penalty)
        if self.setup.sampling.greedy:
            token, q = logits.argmax(-1), None
        else:
            q = warp(logits, self.setup.sampling)
            token = draw(q, u)
            q = F.pad(q, (0, V - q.shape[1])) if words is None else q.new_zeros(1, V).index_copy_(1, words, q)
        token = token if words is None else words[token]
        if seen is not None:
            seen.scatter_(1, token[None], True)
        return token, q

    def _uniforms(self, position: int, gamma: int) -> torch.Tensor:
        table = self.setup.uniforms.table(DRAFTING)[position : position + gamma]
        return self._buffer("u", table, torch.float32)

    def _buffer(self, name: str, values, dtype: torch.dtype) -> torch.Tensor:
        """``values`` in a buffer that keeps its address, as a captured graph needs."""
        key, fresh = (name, len(values)), to_device(values, self.setup.device, dtype)
        return self._buffers.setdefault(key, torch.empty_like(fresh)).copy_(fresh)


def certainty(logits: torch.Tensor) -> int:
    """logits [1, Vd] → the highest probability in tenths, 0 … 9."""
    top = (logits.max() - logits.logsumexp(-1)).exp().item()
    return min(int(top * _BUCKETS), _BUCKETS - 1)

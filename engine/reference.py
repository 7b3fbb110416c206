"""Decodes speculatively on one page: no cache, no tree, no recorder. Start reading here, then `decoding/loop.py`.

A draft model guesses tokens, the target scores them all in one pass, and each is accepted or rejected so that the text
keeps the target's own distribution (Leviathan et al. 2023, Chen et al. 2023). With the same random numbers, the method
`lm` and a fixed γ, the loop with ``drafts_first`` writes the same by the same verdicts: tests/engine/test_reference.py.

Dimension key: N drafts of a round (γ, or fewer at the end), T tokens of a text, V vocabulary, L new tokens at most.
p [N+1, V], q [N, V]: row i is the distribution of the round's token i, the target's and the draft's.
"""

from collections.abc import Callable, Container, Iterator, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F

Model = Callable[[list[int]], torch.Tensor]  # ids [T] → probabilities [T, V]: row i is about the token after ids[i]


class RandomNumbers(NamedTuple):
    """Numbers in [0, 1), by place: the index of a new token. A place that is drafted again takes another number."""

    drafting: torch.Tensor  # [γ, L]: by the draft's index in its round, and its place
    accepting: torch.Tensor  # [L]
    closing: torch.Tensor  # [L]


class Round(NamedTuple):
    drafts: list[int]  # [N]
    accepted: int  # so many of them, from the first on
    written: list[int]  # the accepted drafts and the closing token, up to the end of the text


def speculate(
    target: Model, draft: Model, prompt: Sequence[int], max_new_tokens: int, gamma: int, u: RandomNumbers,
    eos_ids: Container[int] = (),
) -> Iterator[Round]:  # fmt: skip
    """Yields rounds until the text has all new tokens, or ends with one of ``eos_ids``.

    >>> counts = lambda ids: F.one_hot((torch.tensor(ids) + 1) % 10, 10).float()  # after 5 comes 6
    >>> to_five = lambda ids: F.one_hot((torch.tensor(ids) + 1) % 6, 10).float()  # after 5 comes 0
    >>> [tuple(r) for r in speculate(counts, to_five, [1], 6, 3, RandomNumbers(*map(torch.rand, [(3, 6), 6, 6])))]
    [([2, 3, 4], 3, [2, 3, 4, 5]), ([0], 0, [6]), ([], 0, [7])]
    """
    text, place = list(prompt), 0
    while place < max_new_tokens and not (place and text[-1] in eos_ids):
        # Step 1, draft: guess up to γ tokens, and leave a place for the token that closes the round.
        N = min(gamma, max_new_tokens - place - 1)
        drafts, q = propose(draft, text, [u.drafting[i, place + i] for i in range(N)])
        # Step 2, verify: one pass of the target gives p at the place of every draft, and at the one after them.
        p = target(text + drafts)[len(text) - 1 :]
        # Step 3, accept: test the drafts, then draw the closing token: resampled, or a bonus if all were accepted.
        accepted = count_accepted(p, q, drafts, u.accepting[place:])
        row = residual(p[accepted], q[accepted]) if accepted < N else p[N]
        closing = draw(row, u.closing[place + accepted])
        # Step 4, commit: drafts after a rejected one are discarded, because they continue a text that was not written.
        written = cut_at_end([*drafts[:accepted], closing], eos_ids)
        text, place = text + written, place + len(written)
        yield Round(drafts, accepted, written)


def propose(draft: Model, text: list[int], u: Sequence[torch.Tensor]) -> tuple[list[int], list[torch.Tensor]]:
    """Draws a draft by each of u [N], with a pass of the draft model for each. Returns the drafts and q."""
    drafts, q = [], []
    for number in u:
        q.append(draft(text + drafts)[-1])
        drafts.append(draw(q[-1], number))
    return drafts, q


def count_accepted(p: torch.Tensor, q: list[torch.Tensor], drafts: list[int], u: torch.Tensor) -> int:
    """Counts the drafts before the first rejected one. A draft is accepted if u < p/q: with the chance min(1, p/q)."""
    rejected = (i for i, token in enumerate(drafts) if u[i] * q[i][token] >= p[i][token])
    return next(rejected, len(drafts))


def residual(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """Returns max(p − q, 0), normalised; p itself if that is 0 everywhere, because p and q differ by rounding only.

    It makes the text exact. A token is drafted and accepted with the chance q · min(1, p/q) = min(p, q), so a rejection
    has the chance 1 − Σ min(p, q) = Σ max(p − q, 0). Times the residual that is max(p − q, 0): together min(p, q) and
    max(p − q, 0) give each token the chance p.
    """
    left = (p - q).clamp_min(0)
    return left / left.sum() if left.any() else p


def draw(row: torch.Tensor, u: torch.Tensor) -> int:
    """Returns the first token at which the cumulative sum of row [V] exceeds u, scaled because an fp32 sum is not 1."""
    cdf = row.cumsum(-1)
    return int(torch.searchsorted(cdf, u * cdf[-1], right=True))


def cut_at_end(tokens: list[int], eos_ids: Container[int]) -> list[int]:
    return next((tokens[: i + 1] for i, token in enumerate(tokens) if token in eos_ids), tokens)


def probabilities(logits: torch.Tensor, temperature: float) -> torch.Tensor:
    """Returns rows of probabilities. Greedy (temperature 0) is a one-hot distribution and needs no rule of its own."""
    return (logits / temperature).softmax(-1) if temperature else F.one_hot(logits.argmax(-1), logits.shape[-1]).float()

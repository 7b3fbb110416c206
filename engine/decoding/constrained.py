"""Holds a run to its grammar: cuts the drafts that it forbids, and masks the rows of the rest.

A forbidden draft is not scored. Without it the drafts before it stay what they were: each was drawn from its q, whether
the next one is scored depends on draws that decide nothing else, and one that is scored was drawn from q over the
allowed words, which is what it is tested with (`mask_rows`). So the output has the distribution of plain constrained
decoding, however a drafter guesses.

Dimension key: N drafts that are scored, V vocabulary.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

from engine.config import RunConfig
from engine.device import to_device, to_host
from engine.drafters.base import Draft
from engine.sampling.constraint import GrammarReader, Path, factors, is_set, mask_logits, mask_rows
from engine.sampling.constraint_compiler import Grammars
from engine.sampling.top_words import top

SHOWN = 5  # how many of the words that a grammar forbids in a place a trace names


def grammar_reader(grammars: Grammars, config: RunConfig) -> GrammarReader | None:
    """Returns a reader of the run's constraint, at the beginning of its text; None without one. Raises BadInput."""
    if config.constraint is None:
        return None
    matcher = grammars.matcher(config.constraint, config.max_new_tokens)
    return GrammarReader(matcher, grammars.eos_ids, grammars.vocab_size)


class ForbiddenDraft(NamedTuple):
    """``parent``: the node that it would have followed; ``key``: its class of confidence, if it has one of its own."""

    token: int
    parent: int
    key: object


class Allowed(NamedTuple):
    """A round inside the grammar. draft: the one that is scored. bits [N+1, B]: the tokens that may follow each node,
    empty without a grammar.
    forbidden: the drafts that were cut off where they left the grammar. is_inside [N] bool: for drafts that are
    scored even if they are forbidden, because their rows serve the drafter; else None. demanded [N]: which of them a
    grammar that drafts itself demanded; empty where it demanded none."""

    draft: Draft
    bits: np.ndarray = np.empty(0)
    forbidden: tuple[ForbiddenDraft, ...] = ()
    is_inside: torch.Tensor | None = None
    demanded: tuple[bool, ...] = ()

    def with_forbidden(
        self, outcomes: list[bool | None], keys: tuple, reached: Collection[int]
    ) -> tuple[list[bool | None], tuple]:
        """Adds the forbidden drafts whose turn came, after the nodes ``reached``: a policy should know that they were
        of no use, though they were not tested."""
        missed = [draft for draft in self.forbidden if draft.parent in reached]
        return [*outcomes, *(False for _ in missed)], keys and (*keys, *(draft.key for draft in missed))


class Constrained:
    """``reader`` is where the text is. ``drafts``: whether the grammar itself drafts in this run."""

    def __init__(self, reader: GrammarReader, vocab_size: int, device: str, drafts: bool = False):
        self.reader, self.vocab_size, self.device, self.drafts = reader, vocab_size, device, drafts

    def mask_draft(self, draft: Draft, is_window: bool = False) -> Allowed:
        """Cuts a draft where it leaves the grammar; a window is not cut. Waits for the device if there are drafts."""
        tokens = to_host(draft.tokens).tolist() if len(draft) else []
        if is_window:
            return self._all_scored(draft, tokens)
        numbers: list[int | None] = [0]  # by node: its number among those that are scored
        paths: list[Path] = [()]  # by that number, like the masks
        bits, scored, forbidden, demanded = [self.mask(())], [], [], []
        for i, (token, parent) in enumerate(zip(tokens, draft.parent_nodes, strict=True)):
            number = numbers[parent]
            numbers.append(None)
            if number is None or self._has_ended(paths[number]):
                continue
            before = paths[number]
            if not is_set(bits[number], token):
                key = draft.keys[i] if draft.keys else None
                forbidden.append(ForbiddenDraft(token, number, key))
                continue
            is_demanded = self.drafts and self.reader.forced_tokens(before)[:1] == [token]
            if (mask := self.mask((*before, token))).any():  # nothing can follow where the tokenizer cannot go on
                numbers[-1] = len(paths)
                paths.append((*before, token))
                bits.append(mask)
                scored.append(i)
                demanded.append(is_demanded)
        masks = np.stack(bits)
        if len(scored) < len(tokens):
            draft = _part(draft, scored, numbers)
        if draft.q is not None and scored:
            at = list(range(len(scored)) if draft.parents is None else draft.parents)
            draft = replace(draft, q=mask_rows(draft.q, factors(masks[at], self.vocab_size, self.device)))
        return Allowed(draft, masks, tuple(forbidden), demanded=tuple(demanded))

    def _has_ended(self, path: Path) -> bool:
        return not self.reader.eos_ids.isdisjoint(path)

    def mask(self, path: Path) -> np.ndarray:
        """Returns [B]: the tokens that may follow a path of the draft, which is inside the grammar."""
        return self.reader.allowed_after(path)

    def _all_scored(self, draft: Draft, tokens: Sequence[int]) -> Allowed:
        """Cuts nothing off a window, whose rows all have a use. After a forbidden draft, and after the end, any token
        may come, because nothing there can be reached."""
        paths: list[Path | None] = [()]  # by node
        for token, parent in zip(tokens, draft.parent_nodes, strict=True):
            before = paths[parent]
            if before is None or self._has_ended(before) or not is_set(self.mask(before), token):
                paths.append(None)
            else:
                paths.append((*before, token))
        anything = np.full_like(self.mask(()), 0xFF)
        bits = np.stack([anything if path is None else self.mask(path) for path in paths])
        is_inside = to_device([path is not None for path in paths[1:]], self.device, torch.bool)
        return Allowed(draft, bits, is_inside=is_inside)

    def mask_target(self, logits: torch.Tensor, allowed: Allowed) -> torch.Tensor:
        """Masks the target's penalised logits [N+1, V]: the words that may come keep theirs."""
        return mask_logits(logits.float(), allowed.bits)

    def measure_removed(self, logits: torch.Tensor, allowed: Allowed, config: RunConfig) -> dict[str, torch.Tensor]:
        """Measures for the trace the share of p of each row [N+1], as it would be without truncation, that the grammar
        removed, and its likeliest words [N+1, k]."""
        p = (logits.float() / (config.sampling.temperature or 1.0)).softmax(-1)
        p *= factors(~allowed.bits, self.vocab_size, self.device)
        mass, words = top(p, SHOWN)
        return {"removed": p.sum(-1), "removed_mass": mass, "removed_words": words}


def _part(draft: Draft, places: Sequence[int], numbers: Sequence[int | None]) -> Draft:
    """Keeps the drafts of these places, ``numbers`` [N+1] being the new number of each node. Estimates are left out."""
    index = to_device(places, draft.tokens.device)
    parents = tuple(range(len(places)) if draft.parents is None else (numbers[draft.parents[i]] for i in places))
    return replace(
        draft,
        tokens=draft.tokens[index],
        q=None if draft.q is None or not places else draft.q[index],
        parents=None if parents == tuple(range(len(places))) else parents,
        keys=tuple(draft.keys[i] for i in places) if draft.keys else (),
        estimates=None,
    )

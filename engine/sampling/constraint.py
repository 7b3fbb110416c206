"""Says which tokens may follow a text that must match a grammar, as masks over rows of logits.

A row is changed in this order: penalties, the mask, temperature, truncation. So the truncation counts only words that
may come, and p is the target's distribution over these. The mask belongs to exactly the text before the row. It limits
the text, not how it is cut: where `"name` must come, the tokens `"`, `"n` and `"name` are allowed.

Dimension key: R rows, V vocabulary, B = ⌈V/8⌉ bytes of a mask, in which bit i of byte j is token 8j + i.
"""

from collections.abc import Collection
from typing import Protocol

import numpy as np
import torch

from engine.device import to_device

Path = tuple[int, ...]


class Matcher(Protocol):
    """Knows a grammar and a place in a text of it, but no end of the text. A toy has one, and so has
    `engine.sampling.constraint_compiler`."""

    def allowed_tokens(self) -> np.ndarray:
        """Returns [B] uint8, a new array: the tokens that may come next; none where the text can only end."""

    def consume(self, token: int) -> None:
        """Goes on with a token that is allowed."""

    def rollback(self, count: int) -> None:
        """Takes back the last ``count`` ≥ 1 tokens."""

    def is_complete(self) -> bool:
        """Returns whether the text so far matches the whole grammar."""

    def forced_tokens(self) -> list[int]:
        """Returns the tokens in which the only text that can come next would be cut; none if several can."""


class GrammarReader:
    """Follows the text of one run. It may end where the grammar accepts it, with one of ``eos_ids``, and nowhere
    else. A draft is named by its ``path``: the tokens after the text, up to and with the draft."""

    def __init__(self, matcher: Matcher, eos_ids: Collection[int], vocab_size: int):
        self._matcher, self.eos_ids, self.vocab_size = matcher, frozenset(eos_ids), vocab_size
        self._path: Path = ()  # where the matcher is, after the text
        self._masks: dict[Path, np.ndarray | None] = {}  # for this round only, like ``_forced``
        self._forced: dict[Path, list[int]] = {}
        self._has_ended = False

    def advance(self, token: int) -> None:
        """Adds a token, which is allowed, to the text."""
        if self._has_ended:
            return
        self._go(())
        self._masks, self._forced = {}, {}
        self._has_ended = token in self.eos_ids
        if not self._has_ended:
            self._matcher.consume(token)

    def is_complete(self) -> bool:
        """Returns whether the text is one of the grammar, even if more may follow."""
        self._go(())
        return self._matcher.is_complete()

    def tokens_after(self, path: Path = ()) -> np.ndarray | None:
        """Returns [B] uint8, not to be changed: the tokens that may follow ``path``. None of them where the tokenizer
        cannot go on; all after the end, of which a grammar says nothing. None for a path outside it."""
        if path not in self._masks:
            self._masks[path] = self._compute(path)
        return self._masks[path]

    def allowed_after(self, path: Path = ()) -> np.ndarray:
        """Returns the same for a path that is inside the grammar."""
        bits = self.tokens_after(path)
        assert bits is not None, path
        return bits

    def _compute(self, path: Path) -> np.ndarray | None:
        if path and ((before := self.tokens_after(path[:-1])) is None or not is_set(before, path[-1])):
            return None
        if self._has_ended or not self.eos_ids.isdisjoint(path):
            return np.full((self.vocab_size + 7) // 8, 0xFF, np.uint8)
        self._go(path)
        bits = self._matcher.allowed_tokens()
        for token in self.eos_ids:
            set_bit(bits, token, self.may_end())
        return bits

    def may_end(self) -> bool:
        """Returns whether an end-of-text token may come at this place."""
        return self._matcher.is_complete()

    def _go(self, path: Path) -> None:
        shared = 0
        while shared < min(len(path), len(self._path)) and path[shared] == self._path[shared]:
            shared += 1
        if len(self._path) > shared:
            self._matcher.rollback(len(self._path) - shared)
        for token in path[shared:]:
            self._matcher.consume(token)
        self._path = path

    def forced_tokens(self, path: Path = ()) -> list[int]:
        """Returns the tokens of the only text that can follow ``path``, as the tokenizer would cut it; none if several
        texts can, or none."""
        if path not in self._forced:
            self._forced[path] = self._compute_forced(path)
        return self._forced[path]

    def _compute_forced(self, path: Path) -> list[int]:
        if self._has_ended or self.tokens_after(path) is None or not self.eos_ids.isdisjoint(path):
            return []
        before = self._forced.get(path[:-1], []) if path else []
        if len(before) > 1 and before[0] == path[-1]:
            return before[1:]
        self._go(path)
        return self._matcher.forced_tokens()

    def to_draft(self, path: Path = ()) -> np.ndarray | None:
        """Returns [B], as `tokens_after`: what a drafter that reads the grammar may guess there. Where one text must
        come, that is only its next token, so that q is one-hot."""
        forced = self.forced_tokens(path)
        if not forced or (allowed := self.tokens_after(path)) is None or not is_set(allowed, forced[0]):
            return self.tokens_after(path)
        bits = np.zeros_like(allowed)
        set_bit(bits, forced[0], True)
        return bits


def is_set(bits: np.ndarray, token: int) -> bool:
    return bool(bits[token >> 3] >> (token & 7) & 1)


def set_bit(bits: np.ndarray, token: int, value: bool) -> None:
    bit = np.uint8(1 << (token & 7))
    bits[token >> 3] = bits[token >> 3] | bit if value else bits[token >> 3] & ~bit


def unpack(bits: np.ndarray, vocab_size: int, device: str | torch.device) -> torch.Tensor:
    """Unpacks bits [R, B] to [R, V] bool on the device, to which they go packed.

    >>> unpack(np.array([[0b101]], np.uint8), 3, "cpu").tolist()
    [[True, False, True]]
    """
    if _is_on_host(device):
        return torch.from_numpy(np.unpackbits(bits, axis=1, count=vocab_size, bitorder="little")).view(torch.bool)
    return unpack_on_device(to_device(bits, device, torch.uint8), vocab_size)


def unpack_on_device(packed: torch.Tensor, vocab_size: int) -> torch.Tensor:
    """Unpacks packed [R, B] uint8 to [R, V] bool, where the bits are."""
    each = packed[:, :, None] >> torch.arange(8, dtype=torch.uint8, device=packed.device) & 1
    return each.bool().flatten(1)[:, :vocab_size]


def _is_on_host(device: str | torch.device) -> bool:
    return torch.device(device).type == "cpu"


# Eight numbers for each byte of a mask. On a CPU adding a row of these takes a quarter of the time of a masked fill.
_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
_ADDED = np.where(_BITS, np.float32(0), np.float32(-np.inf))
_FACTORS = _BITS.astype(np.float32)


def _spread(table: np.ndarray, bits: np.ndarray, vocab_size: int) -> torch.Tensor:
    return torch.from_numpy(np.take(table, bits, axis=0).reshape(len(bits), -1)[:, :vocab_size])


def mask_logits(logits: torch.Tensor, bits: np.ndarray) -> torch.Tensor:
    """Masks logits [R, V] in fp32 by bits [R, B]: −∞ for every word that may not come."""
    V, device = logits.shape[-1], logits.device
    if _is_on_host(device):
        added = _spread(_ADDED, bits, V)
        # Into the same memory, because new pages for as many numbers take as long as the sum.
        return torch.add(logits, added, out=added if added.is_contiguous() else None)
    return logits.masked_fill(~unpack(bits, V, device), -torch.inf)


def factors(bits: np.ndarray, vocab_size: int, device: str) -> torch.Tensor:
    """Unpacks bits [R, B] to [R, V] in fp32: 1 for a word that may come, else 0."""
    return _spread(_FACTORS, bits, vocab_size) if _is_on_host(device) else unpack(bits, vocab_size, device).float()


def mask_guesses(logits: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    """Masks a draft's logits [R, Vd] by ``allowed`` [R, Vd] bool. A row without an allowed word stays as it is, because
    a token must be drawn from it; that one is then cut off."""
    return logits.masked_fill(~allowed & allowed.any(-1, keepdim=True), -torch.inf)


def mask_rows(q: torch.Tensor, may_come: torch.Tensor) -> torch.Tensor:
    """Returns q [R, V] over the allowed words, may_come [R, V] of `factors`, each row scaled to 1. A draft that is cut
    off if it is forbidden, and tested with this q if it is not, is one that was drawn from it, or none at all."""
    left = q * may_come
    return left / left.sum(-1, keepdim=True).clamp_min(1e-38)

"""Keeps keys and values of the last texts, so that a text which begins like one of them reads only the rest.

A text is kept in blocks of BLOCK tokens, each under the model and a hash of all tokens up to its end. So equal
beginnings are kept once, and a block is found only after those before it. Blocks are copies: no
run writes to them. They are taken only where a row was found to have the same bits in every pass (`Runner.same_bits`),
because elsewhere a run's numbers would depend on the runs before it.

Heads have no blocks. The target's tapped states are kept with its keys, and a head reads those again.
"""

import os
from collections import OrderedDict
from collections.abc import Container, Iterator, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from engine.device import return_memory
from engine.errors import BadInput
from engine.models.decoder.runner import StoredTokens
from engine.weights.preflight import available_memory

BLOCK = 16
VARIABLE, _MEGABYTES = "SPECLENS_PROMPT_CACHE", 128
_SHARE = 1 / 8  # of the memory that is free without the blocks: they take no more than that


def prompt_cache_limit() -> int:
    """Returns the bytes that SPECLENS_PROMPT_CACHE allows. Raises BadInput for another word."""
    text = os.environ.get(VARIABLE, "").strip() or str(_MEGABYTES)
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise BadInput(f"{VARIABLE} is {text[:20]!r}; set it to a number of megabytes, to 0, or not at all.")
    return int(text) * 10**6


class PromptCache:
    """The kept texts of the models of one pair, at most ``limit`` bytes. Each ``runner`` is a `Runner`."""

    def __init__(self, limit: int):
        self.limit, self.bytes = limit, 0
        self._blocks: OrderedDict[Any, StoredTokens] = OrderedDict()  # the least recently used first

    def take(self, runner: Any, ids: Sequence[int]) -> int:
        """Appends the longest kept beginning of ``ids`` to a runner that holds nothing. Returns its tokens."""
        names = self._names(runner, ids)
        for name in names:
            block = self._blocks.get(name)
            if block is None or not runner.append_copy(block):
                break
        self._touch(names)
        return runner.length

    def keep(self, runner: Any, ids: Sequence[int]) -> None:
        """Keeps ``ids``, the first tokens that the runner holds, as far as they fit beside no other text."""
        names = self._names(runner, ids)
        self._touch(names)
        limit, own = self.bytes + self.spare(available_memory(runner.device)), {*names}
        for at, name in enumerate(names):
            if name in self._blocks and self._blocks[name].has(runner):
                continue
            block = runner.copy_tokens(at * BLOCK, (at + 1) * BLOCK)
            self._drop(name)
            if not self._shrink(limit - block.bytes, own):
                break
            self._blocks[name] = block
            self.bytes += block.bytes
        self._touch(names)

    def read(self, runner: Any, ids: Sequence[int]) -> int:
        """Reads a text with an empty runner, and keeps it. Returns how many of its tokens were kept before."""
        count = self.take(runner, ids)
        runner.prefill(ids[count:])
        self.keep(runner, ids)
        return count

    def spare(self, free: int | None) -> int:
        """Returns how many more bytes may be kept where ``free`` ones are left; below 0 it is too many already."""
        return (self.limit if free is None else min(self.limit, int((free + self.bytes) * _SHARE))) - self.bytes

    def make_room(self, needed: int, device: str) -> None:
        """Drops blocks where the device has less free memory than the ``needed`` bytes."""
        free = available_memory(device)
        if self.bytes and free is not None and needed > free:
            self._shrink(max(0, self.bytes - (needed - free)))
            return_memory()

    def clear(self) -> None:
        self._shrink(0)

    def _names(self, runner: Any, ids: Sequence[int]) -> list[Any]:
        """Returns the names of the text's whole blocks; none where nothing is kept of this runner."""
        return [*_hashes(runner, ids)] if self.limit and runner.same_bits else []

    def _touch(self, names: Sequence[Any]) -> None:
        """Marks blocks as just used: the later ones of a text are dropped before those that they follow."""
        for name in reversed(names):
            if name in self._blocks:
                self._blocks.move_to_end(name)

    def _shrink(self, limit: int, spared: Container = ()) -> bool:
        """Drops the least recently used blocks down to ``limit`` bytes. Returns False if only ``spared`` are left."""
        while self.bytes > limit:
            oldest = next(iter(self._blocks), None)
            if oldest is None or oldest in spared:
                return False
            self._drop(oldest)
        return True

    def _drop(self, name: Any) -> None:
        if block := self._blocks.pop(name, None):
            self.bytes -= block.bytes


def _hashes(runner: Any, ids: Sequence[int]) -> Iterator[tuple]:
    """Yields the name of each whole block: its model, which stays alive with it, and a hash of the text so far."""
    text = blake2b(digest_size=16)
    for end in range(BLOCK, len(ids) + 1, BLOCK):
        text.update(np.array(ids[end - BLOCK : end], dtype=np.int64).tobytes())
        yield runner.model, text.digest()

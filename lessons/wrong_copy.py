"""Drafts by lookup, but one token too late, because a recording needs guesses that are all wrong."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from engine.config import METHODS
from engine.drafters.ngram import NgramDrafter


class WrongCopyDrafter(NgramDrafter):
    """Skips the token that followed the match, so that each guess belongs to the place after its own."""

    def _continuation(self, text: Sequence[int], after: int, limit: int) -> list[int]:
        return super()._continuation(text, after, limit + 1)[1:]


@contextmanager
def wrong_copies() -> Iterator[None]:
    """Makes the method "ngram" copy one token too late."""
    right = METHODS["ngram"]
    METHODS["ngram"] = replace(right, drafter=f"{__name__}:{WrongCopyDrafter.__name__}")
    try:
        yield
    finally:
        METHODS["ngram"] = right

"""Defines a grammar of a few texts over a toy's words, and the exact distribution of the answers that it allows.

As in a real tokenizer one text can be cut in several ways: with the words a, b and ab the text "ab" is one token or
two. So the masks limit the text, and not the tokens that write it.
"""

from collections.abc import Sequence

import numpy as np
import torch

from engine.config import SamplingParams
from engine.sampling.constraint import GrammarReader, mask_logits
from engine.sampling.warping import penalise, warp
from engine.tools.exactness.toy_models import PLAIN, ToyLM


class TextMatcher:
    """`Matcher` of the grammar that holds exactly ``texts``; ``words`` are the tokens."""

    def __init__(self, texts: Sequence[str], words: Sequence[str]):
        self._texts, self._words, self._tokens = tuple(texts), tuple(words), []

    @property
    def _so_far(self) -> str:
        return "".join(self._words[token] for token in self._tokens)

    def _remaining(self) -> list[str]:
        """Returns what may still come of each text that begins as the one so far."""
        return [text[len(self._so_far) :] for text in self._texts if text.startswith(self._so_far)]

    def allowed_tokens(self) -> np.ndarray:
        left = self._remaining()
        may_come = [bool(word) and any(rest.startswith(word) for rest in left) for word in self._words]
        return np.packbits(may_come, bitorder="little")

    def consume(self, token: int) -> None:
        self._tokens.append(token)

    def rollback(self, count: int) -> None:
        del self._tokens[-count:]

    def is_complete(self) -> bool:
        return "" in self._remaining()

    def forced_tokens(self) -> list[int]:
        """Cuts the text that must come into the longest words."""
        left, tokens = self._remaining(), []
        text = max((rest for rest in _beginnings(left[0]) if all(t.startswith(rest) for t in left)), key=len)
        by_length = sorted(range(len(self._words)), key=lambda token: -len(self._words[token]))
        while text:
            tokens.append(next(t for t in by_length if self._words[t] and text.startswith(self._words[t])))
            text = text[len(self._words[tokens[-1]]) :]
        return tokens


def _beginnings(text: str) -> list[str]:
    return [text[:length] for length in range(len(text) + 1)]


def text_reader(texts: Sequence[str], words: Sequence[str], eos: int) -> GrammarReader:
    """Returns a reader of the grammar of ``texts``; the word ``eos`` ends one."""
    return GrammarReader(TextMatcher(texts, ["" if i == eos else w for i, w in enumerate(words)]), [eos], len(words))


def constrained_distribution(
    model: ToyLM, prompt: Sequence[int], reader: GrammarReader, sampling: SamplingParams = PLAIN
) -> dict[tuple[int, ...], float]:
    """Returns the exact distribution of whole answers, {tokens with the end: probability} in float64, by enumeration:
    the target's own, under the mask of exactly the tokens before."""
    law, open_paths = {}, {(): 1.0}
    while open_paths:
        longer = {}
        for path, mass in open_paths.items():
            row = _row(model, [*prompt, *path], reader, path, sampling)
            for token in row.nonzero()[:, 0].tolist():
                where = law if token in reader.eos_ids else longer
                where[*path, token] = mass * float(row[token] / row.sum())
        open_paths = longer
    return law


def _row(model: ToyLM, context: list[int], reader: GrammarReader, path: tuple[int, ...], sampling: SamplingParams):
    """Computes p [V] float64 after a context, ``path`` being the answer so far: penalties, mask, warping."""
    seen = torch.zeros(1, model.vocab_size, dtype=torch.bool)
    seen[0, context] = True
    logits = penalise(model.logits(context)[None], seen, sampling.repetition_penalty)
    return warp(mask_logits(logits, reader.allowed_after(path)[None]), sampling)[0].double()

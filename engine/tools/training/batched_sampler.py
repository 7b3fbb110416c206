"""Samples many texts at once (continuous batching): a slot is refilled as soon as its row ends, so that every pass is
full. Prompts are read in the same passes.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import torch

from engine.config import SamplingParams
from engine.models.decoder.runner import DecoderRunner, Tokens
from engine.sampling.random_streams import CLOSING, Uniforms
from engine.sampling.warping import draw, warp
from engine.tools.training.pace import Pace

_CHUNK = 64  # tokens of each prompt in a pass


@dataclass
class Row:
    """One text to sample: ``tokens`` begins with the prompt and grows."""

    index: int
    tokens: list[int]
    temperature: float
    seed: int
    prompt_len: int = field(init=False)

    def __post_init__(self):
        self.prompt_len = len(self.tokens)


class _Slot:
    """A row in progress: its cache, and the number that draws each of its tokens."""

    def __init__(self, row: Row, runner: DecoderRunner, longest: int):
        self.row, self.runner = row, runner
        self.runner.reset(longest)
        self._uniforms = Uniforms(row.seed, longest).table(CLOSING)

    def wants(self) -> Tokens:
        """Returns the next chunk of the prompt, or its last token with all that follows."""
        unread = self.row.tokens[self.runner.length :]
        if len(unread) > 1:
            return Tokens(self.runner, unread[:-1][:_CHUNK], wants_logits=False)
        return Tokens(self.runner, torch.tensor(unread, device=self.runner.device))

    def sample(self, logits: torch.Tensor) -> int:
        """Appends a token drawn from logits [1, V]."""
        u = float(self._uniforms[len(self.row.tokens) - self.row.prompt_len])
        p = warp(logits, SamplingParams(self.row.temperature))
        token = int(draw(p, torch.tensor([u], device=p.device)))
        self.row.tokens.append(token)
        return token


class BatchedSampler:
    """Samples up to ``slots`` rows at once, each up to ``longest`` tokens in all. ``pace``: how fast it writes
    tokens."""

    def __init__(self, runner: DecoderRunner, slots: int, longest: int):
        self.longest = min(longest, runner.max_length)
        self._idle = [runner.fork() for _ in range(slots)]
        self._slots: list[_Slot] = []
        self.pace = Pace()

    @torch.inference_mode()
    def sample(self, rows: Iterable[Row], ends: frozenset[int], limit: int) -> Iterator[Row]:
        """Yields each row when it ends: at a token of ``ends``, or after ``limit`` new ones."""
        waiting = iter(rows)
        self._idle += [slot.runner for slot in self._slots]  # whose call was given up
        self._slots.clear()
        while self._fill(waiting):
            batch = [slot.wants() for slot in self._slots]
            results = batch[0].runner.forward_many(batch)
            for slot, logits in zip([*self._slots], results, strict=True):
                if logits is None:
                    continue
                row, token = slot.row, slot.sample(logits)
                self.pace.count(1)
                new = len(row.tokens) - row.prompt_len
                if token in ends or new >= limit or len(row.tokens) >= self.longest:
                    self._slots.remove(slot)
                    self._idle.append(slot.runner)
                    yield row

    def _fill(self, waiting: Iterator[Row]) -> bool:
        """Gives idle runners the next rows. Returns whether any row is in progress."""
        while self._idle and (row := next(waiting, None)) is not None:
            self._slots.append(_Slot(row, self._idle.pop(), self.longest))
        return bool(self._slots)

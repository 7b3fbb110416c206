"""A server that is checked: its answers, and where two of them differ. Imports no torch."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from engine.tools.servers.check_server import PROMPTS, TOPS, by_token, many
from engine.tools.servers.client import Client
from engine.tools.servers.recording import Recorder
from engine.tools.servers.server_request import ServerRequest
from engine.tools.servers.streamed_answer import mapping
from engine.trace.metrics import first_difference
from engine.trace.trace import Trace

Judgement = tuple[str, ...]  # the fields of a `Finding` after its name
STEP = 0.02  # log-probabilities that differ by less are taken for equal


@dataclass(frozen=True)
class Written:
    """One answer. ``rows``: token, log-probability, and the log-probabilities of the likeliest choices; ``raw``: the
    answer itself. A log-probability is None if it is exactly 0 and lacks the requested choices that other tokens have,
    because the server filled it in."""

    rows: tuple[tuple[str, float | None, Mapping[str, float]], ...]
    text: str
    raw: dict
    count: int | None

    @classmethod
    def from_answer(cls, answer: dict) -> "Written":
        raw = mapping(answer["choices"][0])
        try:
            rows = list(by_token(raw["logprobs"]))
        except (KeyError, TypeError, ValueError):  # it gives none, or not one for each token
            rows = []
        has_others = any(len(tops) > 1 for _, _, tops in rows)
        rows = tuple((token, None if p == 0 and has_others and len(tops) < 2 else p, tops) for token, p, tops in rows)
        return cls(rows, str(raw.get("text", "")), raw, mapping(answer.get("usage")).get("completion_tokens"))

    @property
    def tokens(self) -> tuple[str, ...]:
        return tuple(token for token, _, _ in self.rows)

    def __iter__(self) -> Iterator:
        return iter(self.rows)

    def gap(self, place: int, other: str) -> float:
        """Returns how much likelier its token at a place is than another, by its own numbers. A token that is not among
        the choices is at least as far off as the last of them; nan where it has no second choice."""
        _, own, tops = self.rows[place]
        if own is None or len(tops) < 2:
            return math.nan
        return abs(own - tops.get(other, min(tops.values())))


@dataclass(frozen=True)
class Subject:
    """A server and its model; ``tokens`` to write in a greedy text, ``draws`` of a sampled one."""

    client: Client
    model: str
    tokens: int = 48
    draws: int = 200

    def write(self, prompt: str, tokens: int | None = None, temperature: float = 0.0, seed: int = 0, **more) -> Written:
        body = {"model": self.model, "prompt": prompt, "max_tokens": tokens or self.tokens, "temperature": temperature}
        body |= {"seed": seed, "logprobs": TOPS} | self.no_penalty | more
        return Written.from_answer(self.client.post_json("/v1/completions", body))

    @property
    def no_penalty(self) -> dict[str, float]:
        """The fields that switch penalties off; with a server's defaults, greedy text may not be the likeliest."""
        return dict.fromkeys(self.recorder.adapter.penalties, 1.0)

    def greedy(self) -> list[Written]:
        return [self.write(prompt) for prompt in PROMPTS]

    def draw_answers(self, first: int) -> list[Written]:
        return many(self.write, [(PROMPTS[2], 2, 1.0, seed) for seed in range(first, first + self.draws)], 8)

    @cached_property
    def recorder(self) -> Recorder:
        return Recorder(self.client)

    def stream(self, prompt: str, tokens: int | None = None) -> tuple[Trace, str]:
        """Returns the streamed answer as a trace, and why it broke off, or ""."""
        request = ServerRequest(self.model, prompt, tokens or self.tokens, chat=False, more=self.no_penalty)
        return self.recorder.record(request)


def differences(ones: Sequence[Written], others: Sequence[Written]) -> list[tuple[int, float]]:
    """Returns (place, gap) of the first difference of each pair of unlike texts. The gap is by the numbers of
    ``ones``, because drafts change some servers' numbers; infinite where one ends early, nan where it is unknown."""
    partings = []
    for one, other in zip(ones, others, strict=True):
        if (place := first_difference(one.tokens, other.tokens)) is not None:
            ends_early = place == min(len(one.tokens), len(other.tokens))
            partings.append((place, math.inf if ends_early else one.gap(place, other.tokens[place])))
    return partings

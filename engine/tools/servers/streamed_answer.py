"""Collects a streamed answer of an OpenAI-compatible server as the pieces in which it came.

An adapter gives the request what its engine needs to tell more, and reads what only its engine says.
"""

import math
from dataclasses import dataclass, field
from typing import Any

from engine.errors import Unavailable
from engine.tools.servers.client import Client

LONGEST = 10_000  # characters in a piece, as in a token of a trace
MOST = 20_000  # pieces, as many as a trace may have rounds
ENDS = {"stop": "eos", "length": "length", "tool_calls": "eos"}  # finish_reason → the reason of a trace


@dataclass(frozen=True)
class ServerRequest:
    """``chat``: as the user's message of a chat; otherwise the text is continued. ``logprobs``: ask for p. ``more``:
    fields beyond these."""

    model: str
    prompt: str
    max_tokens: int = 128
    temperature: float = 0.0
    seed: int = 0
    chat: bool = True
    logprobs: bool = False
    more: dict = field(default_factory=dict)

    @property
    def path(self) -> str:
        return "/v1/chat/completions" if self.chat else "/v1/completions"

    def body(self, **fields) -> dict:
        """Returns the request as OpenAI's API has it, with the fields that an adapter adds."""
        words = {"messages": [{"role": "user", "content": self.prompt}]} if self.chat else {"prompt": self.prompt}
        extra = ({"logprobs": True, "top_logprobs": 0} if self.chat else {"logprobs": 0}) if self.logprobs else {}
        settings = {"max_tokens": self.max_tokens, "temperature": self.temperature, "seed": self.seed}
        stream = {"stream": True, "stream_options": {"include_usage": True}}
        return {"model": self.model} | words | settings | extra | stream | self.more | fields


@dataclass(frozen=True, slots=True)
class Piece:
    """The content of one event, ``at`` seconds after the request. ``ids``, ``texts`` and ``ps`` are by token, and empty
    where they were not told. ``size``: its tokens. ``drafted`` and ``accepted``: the server's counts up to here."""

    at: float
    text: str
    size: int
    ids: tuple[int, ...] = ()
    texts: tuple[str, ...] = ()
    ps: tuple[float, ...] = ()
    drafted: int | None = None
    accepted: int | None = None


@dataclass
class StreamedAnswer:
    """``steps``: (accepted, drafted) of each round with drafts, in order; None where the server does not list them.
    ``counters``: totals that the server reported: rounds, drafted, accepted. ``fault``: why it ended early.
    ``date``: when it was requested, and ``seconds``: from then to its end."""

    pieces: list[Piece] = field(default_factory=list)
    prompt_ids: list[int] = field(default_factory=list)
    prompt_size: int | None = None
    size: int | None = None
    reason: Any = ""  # the reason in a trace; empty until the server says why it ended
    steps: list[tuple[int, int]] | None = None
    counters: dict[str, int] = field(default_factory=dict)
    flags: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    fault: str = ""
    date: str = ""
    seconds: float = 0.0

    def add(self, at: float, event: dict, **counts: int | None) -> None:
        """Takes one event of the stream; other forms are passed over. Raises Unavailable for too many."""
        self._usage(event)
        choice = first(event.get("choices"))
        self.prompt_ids = self.prompt_ids or _ids(event.get("prompt_token_ids")) or _ids(choice.get("prompt_token_ids"))
        self.reason = ENDS.get(_word(choice.get("finish_reason")), "") or self.reason
        text, (texts, ps), ids = _text(choice), _logprobs(choice.get("logprobs")), tuple(_ids(choice.get("token_ids")))
        size = len(ids) or len(texts) or self._count_tokens(event) or bool(text)
        if len(text) > LONGEST or len(self.pieces) >= MOST or size > LONGEST:
            raise Unavailable("The server sent more than a trace can hold, so the rest was left out.")
        if size:
            fits = len(texts) == size and "".join(texts) == text
            self.pieces.append(
                Piece(at, text, size, ids, texts if fits else (), ps if len(ps) == size else (), **counts)
            )

    def _usage(self, event: dict) -> None:
        usage = mapping(event.get("usage"))
        self.prompt_size = as_count(usage.get("prompt_tokens")) or self.prompt_size
        if not event.get("choices"):
            self.size = as_count(usage.get("completion_tokens")) or self.size

    def _count_tokens(self, event: dict) -> int:
        """Counts the tokens of a piece where each event says how many there have been so far."""
        count = as_count(mapping(event.get("usage")).get("completion_tokens"))
        return max(0, count - sum(piece.size for piece in self.pieces)) if count is not None else 0


class Adapter:
    """The part of a recording that one engine does in its own way. It keeps nothing of a request."""

    name: str
    can_split = False  # whether it has /detokenize
    penalties: tuple[str, ...] = ("repetition_penalty",)  # the names of its repetition penalty

    def recognise(self, client: Client) -> dict[str, str] | None:
        """Returns its settings, at least a version; None for the server of another engine."""
        raise NotImplementedError

    def fields(self) -> dict:
        """Returns the fields of a request beyond OpenAI's API. These make each event say how many tokens there are."""
        return {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}

    def counts_before(self, client: Client) -> dict[str, int]:
        """Returns what `add_counts` needs from before the request."""
        return {}

    def read_event(self, answer: StreamedAnswer, at: float, event: dict) -> None:
        """Takes an event of the stream."""
        answer.add(at, event)

    def add_counts(self, client: Client, answer: StreamedAnswer, before: dict[str, int]) -> None:
        """Adds to a complete answer, which was alone on the server, what that tells elsewhere."""


def mapping(value: Any) -> dict:
    return value if isinstance(value, dict) else {}


def first(values: Any) -> dict:
    """Returns the first object of a list; empty where there is none."""
    return mapping(values[0]) if isinstance(values, list) and values else {}


def owners(client: Client) -> list[Any]:
    """Returns who owns each model that the server lists."""
    models = mapping(client.get_json("/v1/models")).get("data")
    return [mapping(model).get("owned_by") for model in (models if isinstance(models, list) else [])]


def as_count(value: Any) -> int | None:
    """Returns a count; None for anything else."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_number and 0 <= value < 2**53 and value == int(value) else None


def _word(value: Any) -> str:
    """Makes a text that UTF-8 can hold: half of a surrogate pair becomes a question mark."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _ids(value: Any) -> list[int]:
    ids: list[Any] = [as_count(each) for each in value] if isinstance(value, list) else []
    return [] if None in ids or len(ids) > LONGEST else ids


def _text(choice: dict) -> str:
    """Returns a piece's text, of a continuation or a chat; what a model thinks before its answer counts, too."""
    delta = mapping(choice.get("delta"))
    return next(filter(None, map(_word, (choice.get("text"), *(delta.get(k) for k in _WORDS)))), "")


_WORDS = ("content", "reasoning_content", "reasoning")


def _logprobs(value: Any) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Reads texts and probabilities by token, in either form of OpenAI's API."""
    numbers = mapping(value)
    rows = numbers.get("content")
    if not isinstance(rows, list):
        pairs = (numbers.get("tokens"), numbers.get("token_logprobs"))
        rows = [
            {"token": t, "logprob": p} for t, p in zip(*(x if isinstance(x, list) else [] for x in pairs), strict=False)
        ]
    rows = [mapping(row) for row in rows]
    known = all(isinstance(row.get("logprob"), int | float) and row["logprob"] <= 1e-3 for row in rows)
    ps = tuple(min(1.0, math.exp(max(-1e3, row["logprob"]))) for row in rows) if known else ()
    return tuple(_word(row.get("token")) for row in rows), ps

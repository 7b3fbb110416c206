"""Holds the text of a run as it grows: its ids, what they decode to, and why it ends."""

from collections.abc import Sequence

from engine.config import RunConfig
from engine.decoding.tokenization import Detokenizer
from engine.errors import BadInput
from engine.models.decoder.runner import Runner
from engine.sampling.constraint import GrammarReader, is_set
from engine.sampling.warping import History
from engine.trace.events import Reason


class StopTexts:
    """Looks for stop texts in the output as it grows. Decoding leaves special tokens out, so those that a stop text
    names are looked for as they are spelled."""

    def __init__(self, tokenizer, stops: Sequence[str]):
        listed = getattr(tokenizer, "added_tokens_decoder", {}) if stops else {}
        special = {i: token.content for i, token in listed.items() if token.special}
        self._special = {i: name for i, name in special.items() if any(name in stop for stop in stops)}
        self._stops, self._end = tuple(stops), ""

    def end_with(self, token: int, piece: str) -> bool:
        """Adds a token and its piece; returns whether a stop text ends in it."""
        added = self._special.get(token, piece)
        if not (added and self._stops):
            return False
        self._end = (self._end + added)[-max(map(len, self._stops)) - len(added) :]
        return any(stop in self._end[-(len(stop) + len(added) - 1) :] for stop in self._stops)


class Text:
    """``ids``: the prompt's and the output's so far; ``output``: the output, decoded; ``reason``: why it ended, None
    before. ``reader`` follows the run's constraint, and ``history`` has the tokens that a repetition penalty counts;
    None without one."""

    def __init__(
        self, config: RunConfig, prompt: Sequence[int], target: Runner, detokenizer: Detokenizer,
        eos_ids: frozenset[int], reader: GrammarReader | None,
    ):  # fmt: skip
        """Begins with the config's prefix. Raises BadInput for a token of it that does not exist or ends the text."""
        self.ids, self.output, self.reader = list(prompt), "", reader
        self.reason: Reason | None = None
        self.history: History | None = None
        self._detokenizer, self._eos_ids = detokenizer, eos_ids
        self._stops = StopTexts(detokenizer.tokenizer, config.stop)
        self._prompt, self._limit = len(prompt), config.max_new_tokens
        for token in config.prefix:
            if token >= target.vocab_size:
                raise BadInput(f"Token {token} does not exist: the vocabulary has {target.vocab_size:,} tokens.")
            if reader and not is_set(reader.allowed_after(), token):
                name = detokenizer.name(token)
                raise BadInput(f"The constraint forbids the token {name!r} in this place; force another one.")
            self.append([token])
            if self.reason is not None:
                raise BadInput("The forced token ends the text, so nothing would follow it; force another one.")
        if config.sampling.repetition_penalty != 1.0:
            self.history = History(self.ids, target.vocab_size, target.device)

    @property
    def emitted(self) -> int:
        """How many tokens the output has, and so the position of the next one."""
        return len(self.ids) - self._prompt

    def append(self, ids: Sequence[int]) -> list[str]:
        """Appends ids up to the end of the text. Returns the piece that each of them adds."""
        pieces = []
        for token in ids:
            pieces.append(self._detokenizer.push(token))
            self.output += pieces[-1]
            self.ids.append(token)
            if self.reader is not None:
                self.reader.advance(token)
            if token in self._eos_ids:
                self.reason = "eos"
            elif self._stops.end_with(token, pieces[-1]):
                self.reason = "stop"
            elif self.emitted >= self._limit:
                self.reason = "length"
            if self.reason is not None:
                break
        if self.history is not None:
            self.history.add(self.ids[-len(pieces) :])
        return pieces

    def end(self) -> str:
        """Returns the tail: bytes that the output shows as they are, because no later token completes their
        character."""
        tail = self._detokenizer.tail()
        self.output += tail
        return tail

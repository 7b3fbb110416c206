"""Collects a streamed answer of an OpenAI-compatible server as the pieces in which it came.

One reader serves all engines and looks for the counts of each in every event, because a gateway may hide which engine
answers. It uses a field or keeps its name, for a note in the trace.
"""

import math
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from engine.errors import Unavailable, quantity
from engine.tools.servers.event_stream import error_words, quote
from engine.trace.range_checks import MAX_TEXT
from engine.trace.trace import MAX_ROUNDS

HALF = 3  # bytes of a character that is not complete, and so tokens that a server may have counted but not shown
MIN_REPEATS = 3  # pieces longer than the one before that begin with it; in a stream of parts that does not happen
MOST_NAMES = 8  # of fields that a note lists
ENDS = {"stop": "eos", "length": "length"}  # finish_reason → the reason of a trace; any other word is kept
# The fields of a text, in the order in which it is shown. Some servers send one text under several names of a row.
TEXTS = (("reasoning_content", "reasoning", "thinking", "reasoning_details"), ("content", "text"), ("refusal",))
# Fields that say nothing of an answer, and the others that are read from an event and from a choice.
SILENT = {
    "id", "object", "created", "model", "system_fingerprint", "service_tier", "provider", "obfuscation", "role",
    "index", "type", "native_finish_reason", "stop_reason", "matched_stop", "prompt_text", "content_filter_results",
    "prompt_filter_results", "usage", "prompt_token_ids", "signature", "format", "p",
}  # fmt: skip
IN_EVENT = SILENT | {"choices", "error", "errors", "x_groq", "timings", "metrics", "sglext", "stats"}
IN_PART = dict.fromkeys(("text", "content", "thinking", "summary"))  # one of them is the part's text
IN_DELTA = SILENT | {name for row in TEXTS for name in row}
IN_CHOICE = IN_DELTA | {"delta", "message", "error", "logprobs", "token_ids", "finish_reason"}
NAMES = ("rounds", "drafted", "accepted")
_LM_STUDIO = ("", "total_draft_tokens_count", "accepted_draft_tokens_count")
# Engine, where its events count drafts, and its own names for these.
DRAFT_COUNTS = (
    ("vLLM", ("metrics", "speculative_decoding"), ("num_spec_steps", "num_draft_tokens", "num_accepted_draft_tokens")),
    ("SGLang", ("sglext", "spec_tokens_details"),
     ("spec_verify_ct", "spec_num_proposed_drafts", "spec_num_correct_drafts")),
    ("LM Studio", ("stats",), _LM_STUDIO), ("LM Studio", ("usage",), _LM_STUDIO),
)  # fmt: skip


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
    ``counters``: totals that the server reported: rounds, drafted, accepted. ``engine``: whose way of counting drafts
    its events have, or "". ``size``: its tokens as the server counts them. ``hidden_tokens``: as in `Server`.
    ``has_ended``: the server said that this is all. ``fault``: why it ended early. ``date``: when it was requested, and
    ``seconds``: from then to its end."""

    pieces: list[Piece] = field(default_factory=list)
    prompt_ids: list[int] = field(default_factory=list)
    prompt_size: int | None = None
    cached: int | None = None  # tokens of the prompt that the server took from its cache
    size: int | None = None
    hidden_tokens: int | None = 0
    reason: str = ""  # the reason in a trace; empty until the server says why it ended
    has_ended: bool = False
    steps: list[tuple[int, int]] | None = None
    counters: dict[str, int] = field(default_factory=dict)
    engine: str = ""
    flags: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    words: str = ""  # the first event that is not JSON: a sign of life if a reason follows, else of an error
    fault: str = ""
    date: str = ""
    seconds: float = 0.0
    _counts: list[int | None] = field(default_factory=list)  # by piece, the tokens that the server had counted so far
    _newest: tuple[float, int | None, int | None] = (0.0, None, None)  # time, drafted and accepted of the last count
    _index: int | None = None  # of the choice that is recorded
    _has_deltas: bool = False
    _half: str = ""  # the first half of a surrogate pair, whose second half comes with the next event

    def leave_out(self, name: str) -> None:
        """Keeps the name of something that is not used. A server may send any number of them."""
        if name in self.left_out or len(self.left_out) < 100:
            self.left_out[quote(name, 40)] += 1

    def add(self, at: float, event: dict | str | None) -> None:
        """Takes one event of the stream, None for its end mark. Raises Unavailable for an error and for too much."""
        if event is None and self.words and not self.reason:
            raise Unavailable(f"The server sent an event that is not JSON: “{self.words}”.")
        if event is None or isinstance(event, str):
            self.has_ended |= event is None
            self.words = self.words or event or ""
            if event:
                self.leave_out(f"“{event[:38]}”")
            return
        end = self.has_ended, self.reason
        self._check_fields(event, IN_EVENT)
        *others, last = self._choices(event) or [{}]
        for choice in others:
            self._add_choice(at, choice, None, None, None)
        drafted, accepted = self._add_draft_counts(event)
        self._add_choice(at, last, self._add_count(at, event, last, drafted, accepted), drafted, accepted)
        self.prompt_ids = self.prompt_ids or _ids(event.get("prompt_token_ids"))
        if words := _error(event) or error_words(last.get("error")):
            self.has_ended, self.reason = end  # the reason that comes with an error ends no whole answer
            raise Unavailable(f"The server broke off with an error: {words}.")

    def _choices(self, event: dict) -> list[dict]:
        """Returns the parts of an event that belong to the answer; the first index that comes is the answer's."""
        choices = event.get("choices")
        if choices is not None and not isinstance(choices, list):
            self.leave_out("choices that are no list")
        own = []
        for choice in choices if isinstance(choices, list) else []:
            index = as_count(mapping(choice).get("index"))
            self._index = index if self._index is None else self._index
            if not isinstance(choice, dict):
                self.leave_out("a choice that is no object")
            elif index in (None, self._index):
                own.append(choice)
            else:
                self.leave_out(f"choice {index}")
        return own

    def _add_choice(
        self, at: float, choice: dict, count: int | None, drafted: int | None, accepted: int | None
    ) -> None:
        self.prompt_ids = self.prompt_ids or _ids(choice.get("prompt_token_ids"))
        word = choice.get("finish_reason")
        if isinstance(word, str) and word.lower() not in ("", "null", "none"):
            self.reason, self.has_ended = ENDS.get(word.lower(), quote(word, 40)), True
        elif word and not isinstance(word, str):
            self.leave_out("finish_reason")
        text, (texts, ps), ids = (
            self._text(choice),
            _logprobs(choice.get("logprobs")),
            tuple(_ids(choice.get("token_ids"))),
        )
        for name, value in (("token_ids", ids), ("logprobs", texts)):
            if choice.get(name) and not value and text:
                self.leave_out(name)
        size = len(ids) or len(texts)
        if len(text) > MAX_TEXT or len(self.pieces) >= MAX_ROUNDS or size > MAX_TEXT:
            raise Unavailable("The server sent more than a trace can hold, so the rest was left out.")
        if size or text:
            fits = len(texts) == size and "".join(texts) == text
            self.pieces.append(
                Piece(at, text, size, ids, texts if fits else (), ps if size == len(ps) else (), drafted, accepted)
            )
            self._counts.append(count)

    def _text(self, choice: dict) -> str:
        """Returns the text of an event, of a continuation or a chat; what a model thinks before it answers counts, too.
        A whole message is left out where its parts have come already."""
        delta, message = choice.get("delta"), choice.get("message")
        places = [choice, mapping(delta)]
        if delta and not isinstance(delta, dict):
            self.leave_out("delta")
        if message and (delta or self._has_deltas or not isinstance(message, dict)):
            self.leave_out("message")
        elif message:
            places.append(message)
        for place in places:
            self._check_fields(place, IN_CHOICE if place is choice else IN_DELTA)
        texts = [dict.fromkeys(self._words(name, each.get(name)) for name in row for each in places) for row in TEXTS]
        text = self._half + "".join(word for row in texts for word in row)
        self._has_deltas |= bool(text) and bool(delta)
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        text = text.removesuffix(self._half)
        if re.search("[\ud800-\udfff]", text):
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            if "\ufffd" in text:
                self.leave_out("half a character")
        return text

    def _words(self, name: str, value: Any, depth: int = 0) -> str:
        """Returns a text that comes as itself or in parts."""
        if isinstance(value, str):
            return value
        if isinstance(value, list) and depth < 8:
            return "".join(self._words(name, part, depth + 1) for part in value)
        part = mapping(value)
        key = next((key for key in IN_PART if part.get(key)), None)
        if key and depth < 8:
            self._check_fields(part, SILENT | {key})
            return self._words(name, part[key], depth + 1)
        if value and not part.keys() & IN_PART:
            self.leave_out(f"{part.get('type') or 'a part'} in {name}")
        return ""

    def _check_fields(self, values: dict, known: set[str]) -> None:
        """Keeps the names of fields that nothing here reads."""
        for name, value in values.items():
            if name not in known and value not in (None, "", 0) and value != [] and value != {}:
                self.leave_out(name)

    def _add_count(self, at: float, event: dict, choice: dict, drafted: int | None, accepted: int | None) -> int | None:
        """Returns how many tokens there have been by the server's count, wherever the event has it."""
        count = None
        for place in (choice, mapping(event.get("x_groq")), event):
            usage = place.get("usage")
            if usage and not isinstance(usage, dict):
                self.leave_out("usage")
            self.prompt_size = as_count(mapping(usage).get("prompt_tokens")) or self.prompt_size
            details = mapping(mapping(usage).get("prompt_tokens_details"))
            self.add_cached(as_count(details.get("cached_tokens")))
            own = as_count(mapping(usage).get("completion_tokens"))
            count = count if own is None else own
        timings = mapping(event.get("timings"))
        self.add_cached(as_count(timings.get("cache_n")))
        own = as_count(timings.get("predicted_n"))
        count = count if own is None else own
        if count:
            self.size, self._newest = count, (at, drafted, accepted)
        return count

    def add_cached(self, count: int | None) -> None:
        self.cached = self.cached if count is None else count

    def _add_draft_counts(self, event: dict) -> tuple[int | None, int | None]:
        """Takes the totals of an event, and returns llama-server's counts up to here: it leaves both out while they are
        0."""
        for engine, path, names in DRAFT_COUNTS:
            details: Any = event
            for name in path:
                details = mapping(details).get(name)
            counts = {
                ours: as_count(mapping(details).get(name)) for ours, name in zip(NAMES, names, strict=True) if name
            }
            if details and None not in counts.values():
                self.counters, self.engine = {name: n for name, n in counts.items() if n is not None}, engine
                self._add_steps(mapping(details))
        timings = mapping(event.get("timings"))
        if not timings.keys() & {"predicted_n", "draft_n"}:
            return None, None
        drafted, accepted = (as_count(timings.get(name)) or 0 for name in ("draft_n", "draft_n_accepted"))
        self.counters, self.engine = {"drafted": drafted, "accepted": accepted}, "llama-server"
        return drafted, accepted

    def _add_steps(self, details: dict) -> None:
        """Takes the lists of vLLM, which have each round."""
        if size := as_count(details.get("num_spec_tokens")):
            self.flags["num_speculative_tokens"] = str(size)
        lists: list[Any] = [details.get("per_step_accepted"), details.get("per_step_drafted")]
        if all(isinstance(each, list) for each in lists) and len(lists[0]) == len(lists[1]):
            pairs: list[Any] = [(as_count(a), as_count(d)) for a, d in zip(*lists, strict=True)]
            self.steps = pairs if all(None not in pair and pair[0] <= pair[1] for pair in pairs) else None

    def settle(self) -> None:
        """Gives each piece its tokens, and adds the notes that only the whole stream can tell.

        The server's count up to a piece tells its tokens only where it follows the text. A count that comes with the
        end alone does not say which piece they were in, so it makes no rounds: such tokens stay ``hidden_tokens``.
        """
        if self._half:
            self.leave_out("half a character")
        self._cut_repeats()
        self._drop_lists()
        has_sizes, sizes = all(piece.size for piece in self.pieces), self._growths()
        if sizes and not has_sizes:
            if sizes[-1] == self.pieces[-1].size == 0:  # the rest of a text that was held back
                last = self.pieces.pop()
                self.pieces[-1] = replace(self.pieces[-1], text=self.pieces[-1].text + last.text, texts=())
            self.pieces = [replace(p, size=p.size or n) for p, n in zip(self.pieces, sizes, strict=False)]
        self.pieces = [piece if piece.size else replace(piece, size=1) for piece in self.pieces]
        shown, (at, drafted, accepted) = sum(piece.size for piece in self.pieces), self._newest
        rest, most = (self.size or 0) - shown, 1 if drafted is None else HALF
        room = sum(len(piece.text.encode()) for piece in self.pieces) + HALF - shown
        if sizes and 0 < rest <= min(most, room):
            # The end of the text is a token, too, and half a character is never shown.
            self.pieces.append(Piece(at, "", rest, (), (), (), drafted, accepted))
            shown += rest
        if self.size is None or self.size < shown:
            self.hidden_tokens = 0 if has_sizes or not self.pieces else None
        else:
            self.hidden_tokens = self.size - shown
        self._add_notes(shown)

    def _cut_repeats(self) -> None:
        """Leaves each piece what it adds, where a server sends all of the text each time (QwenLM/qwen-code#3896). The
        text may begin once more, because thoughts and the answer are two. Longer and longer drafts of one character
        look the same, but there the server counted more tokens than the longest texts have."""
        texts = [piece.text for piece in self.pieces]
        longest = [before for before, after in pairwise([*texts, ""]) if not after.startswith(before)]
        steps = sum(before != after and after.startswith(before) for before, after in pairwise(texts))
        is_cumulative = steps >= MIN_REPEATS and len(longest) <= 2
        if is_cumulative and (self.size or 0) <= sum(len(text.encode()) for text in longest) + HALF:
            added = (text.removeprefix(before) for before, text in pairwise(("", *texts)))
            self._keep([replace(piece, text=text, texts=()) for piece, text in zip(self.pieces, added, strict=True)])
            self.notes.append("The server sent all of its text each time, so only what each event added is shown.")

    def _drop_lists(self) -> None:
        """Drops lists of more tokens than the server counted. They hold the prompt's (vllm-project/vllm#8988) or
        earlier events' tokens (sgl-project/sglang#21583). A server may not count the token that ends a text."""
        are_told = all("".join(piece.texts) == piece.text for piece in self.pieces)
        if self.size and sum(piece.size for piece in self.pieces) > self.size + 1 and not are_told:
            self._keep([replace(piece, size=0, ids=(), texts=(), ps=()) for piece in self.pieces])
            self.notes.append("Its events list more tokens than the server counted, so these lists were left out.")

    def _keep(self, pieces: list[Piece]) -> None:
        """Keeps these pieces in the place of the ones that came, without those that are empty now."""
        rows = [row for row in zip(pieces, self._counts, strict=True) if row[0].text or row[0].size]
        self.pieces, self._counts = [piece for piece, _ in rows], [count for _, count in rows]

    def _growths(self) -> list[int] | None:
        """Returns by how much the server's count grew with each piece; None where it does not follow the text."""
        counts, written = [count for count in self._counts if count is not None], 0
        if len(counts) < len(self._counts) or len({*counts, self.size}) < 2:
            return None
        for piece, count in zip(self.pieces, counts, strict=True):
            written += len(piece.text.encode())
            if count > written + HALF:
                return None  # it also counts tokens that are not shown, such as thoughts
        sizes = [after - before for before, after in pairwise((0, *counts))]
        return sizes if all(size > 0 for size in sizes[:-1]) and sizes[-1] >= (len(sizes) == 1) else None

    def _add_notes(self, shown: int) -> None:
        if self.left_out:
            names = [f"{name} ({n} times)" if n > 1 else name for name, n in self.left_out.most_common(MOST_NAMES)]
            more = len(self.left_out) - MOST_NAMES
            self.notes.append(f"Left out of the stream: {', '.join(names)}{f' and {more} more' if more > 0 else ''}.")
        if self.size is not None and self.size != shown:
            what = ", so tokens per pass are unknown" if self.hidden_tokens else ""
            self.notes.append(
                f"The server counted {quantity(self.size, 'token')}, but its stream showed {shown}{what}."
            )
        elif self.hidden_tokens is None:
            self.notes.append("The server does not count its tokens, so each piece of the stream is shown as one.")
        elif not self.pieces:
            self.notes.append("No text was read from the stream.")
        elif all(piece.size == 1 for piece in self.pieces) and not self.counters:
            self.notes.append("Each piece of the stream was one token, so rounds cannot be told apart.")


def mapping(value: Any) -> dict:
    return value if isinstance(value, dict) else {}


def first(values: Any) -> dict:
    """Returns the first object of a list; empty where there is none."""
    return mapping(values[0]) if isinstance(values, list) and values else {}


def as_count(value: Any) -> int | None:
    """Returns a count; None for anything else."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_number and 0 <= value < 2**53 and value == int(value) else None


def _ids(value: Any) -> list[int]:
    ids: list[Any] = [as_count(each) for each in value] if isinstance(value, list) else []
    return [] if None in ids or len(ids) > MAX_TEXT else ids


def _word(value: Any) -> str:
    """Makes a text that UTF-8 can hold: half of a surrogate pair becomes a question mark."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _error(event: dict) -> str:
    """Returns the words of an error in an answer whose status was right; "" for none."""
    if event.get("error") or event.get("errors"):
        return error_words(event.get("error") or event.get("errors"))
    is_error = "error" in (event.get("object"), event.get("type"), event.get("status"))
    return error_words(event if is_error else event.get("detail")) if not event.get("choices") else ""


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

"""Turns what a server wrote down into traces: llama-server's log at its debug level, and saved answers or streams.

At ``-lv 5`` llama-server (watched on build 11434 of October 2026) logs each draft's three likeliest words with q, how
many drafts it accepted, and each token that it wrote, all with the time. Answers are read as `recording` reads a
stream, so vLLM's per_step_accepted and per_step_drafted become rounds. Anything else stays unknown.
"""

import re
from codecs import getincrementaldecoder
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from engine.errors import BadInput
from engine.tools.servers.adapters.chunks import Chunks
from engine.tools.servers.log_forms import Text
from engine.tools.servers.recording import as_rounds, trace_of
from engine.tools.servers.rounds import Offer, ServedRound, ServedToken
from engine.tools.servers.server_request import ServerRequest
from engine.tools.servers.streamed_answer import StreamedAnswer
from engine.trace.events import Candidate, Distribution, RunFinished, RunStarted, Server
from engine.trace.trace import Trace, from_json, to_json

ADAPTER = "llama-server’s log"
FIRST_DRAWING = 11368  # the first build of llama-server that can draw its drafts
Q = "q is the draft’s own share among its ten likeliest words; the log has three of them."
DRAWN = "Above temperature 0 the log doesn’t say which word was drafted, so a rejected one stays unknown."
NO_WORDS = "The answer has its text in one piece, shown at its end; logprobs in the request tells each token’s."
NO_TIMES = "A saved answer has no times."
CUT = "The log ends before the answer does."
OTHER_TOTALS = "The server’s own totals are other ones than its rounds add up to."
NOTHING = "{} has no rounds: a trace needs llama-server’s log at -lv 5, or an answer that counts its drafts."
RESTORED = "llama-server went back to a copy of the model’s state after a rejection; such rounds are not read."

_TIME = r"([0-9]+)\.([0-9]{2})\.([0-9]{3})\.([0-9]{3}) [A-Z] "
_ENTRY = re.compile(rf"^(?:{_TIME})?(?=(?:spec|slot|srv|que|res|cmn) )", re.MULTILINE)
_TASK = r"slot [^|]*?: id +(?P<slot>[0-9]+) \| task (?P<task>-?[0-9]+) \| "
_KINDS = [
    (kind, re.compile(pattern, re.DOTALL))
    for kind, pattern in (
        ("candidate", r"spec [^\n]*?seq_id (?P<slot>[0-9]+), draft candidate +(?P<rank>[0-9]+), pos +(?P<place>[0-9]+):"
                      r" +(?P<id>[0-9]+) \( *(?P<q>[0-9.]+)\) '(?P<text>.*)'\s*\Z"),
        ("token", _TASK + r"n_gen = [0-9]+, n_remaining = (?P<left>-?[0-9]+), next token: +(?P<id>[0-9]+) "
                          r"'(?P<text>.*)'\s*\Z"),
        ("drafted", _TASK + r"add accepted tokens: [^\n]*ids\.size=(?P<size>[0-9]+), n_draft=(?P<drafts>[0-9]+)"),
        ("settings", _TASK + r"sampler params:.*?\btemp = (?P<temperature>[0-9.]+)"),
        ("begin", _TASK + "processing task"),
        ("prompt", _TASK + r"new prompt, [^\n]*task\.n_tokens = (?P<size>[0-9]+)"),
        ("eos", _TASK + "stopped by EOS"),
        ("totals", _TASK + r"draft acceptance = [^\n]*?\( *(?P<accepted>[0-9]+) accepted / *(?P<drafted>[0-9]+) gen"),
        ("restored", _TASK + "restoring speculative checkpoint"),
        ("end", _TASK + "stop processing"),
    )
]  # fmt: skip


@dataclass
class _Answer:
    """One answer of a log, as far as it has come. ``expected``: the tokens that its last round still has to write."""

    start: float
    temperature: float
    rounds: list[ServedRound] = field(default_factory=list)
    context: int | None = None
    expected: int = 0
    limit: int | None = None
    reason: str = "length"
    has_ended: bool = False
    totals: dict[str, int] = field(default_factory=dict)
    decoder: Any = field(default_factory=lambda: getincrementaldecoder("utf-8")("replace"))

    def add_round(self, at: float, size: int, offers: tuple[Offer, ...] = ()) -> None:
        start = self.rounds[-1].end if self.rounds else at
        self.rounds.append(ServedRound((), start, at, (size - 1, len(offers)) if offers else None, offers=offers))
        self.expected = size

    def add_token(self, at: float, id_: int, piece: str) -> None:
        if not self.expected:
            self.add_round(at, 1)
        self.expected -= 1
        token = ServedToken(self.decoder.decode(_bytes(piece)), id_)
        self.rounds[-1] = replace(self.rounds[-1], tokens=(*self.rounds[-1].tokens, token))


def read_traces(data: bytes, name: str) -> list[Trace]:
    """Returns a trace for each answer of a log or of saved answers. Raises BadInput where there is none."""
    text = data.decode("utf-8", "surrogateescape")
    traces = [*_of_log(text)] or [*_of_answers(text.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))]
    if not any(len(trace.rounds) > 1 for trace in traces):
        raise BadInput(NOTHING.format(name))
    return [from_json(to_json(trace)) for trace in traces]  # refuses a log that says what cannot be


# ── llama-server's log ──


def _of_log(text: str) -> Iterator[Trace]:
    number, model = re.search(r"\bbuild ([0-9]{1,9})\b", text), re.search(r"general\.name *= (.{1,100})", text)
    build = int(number[1]) if number else 0
    flags = {"spec-type": ", ".join(dict.fromkeys(re.findall(r"called impl ([a-z0-9-]{1,40}), ", text)))}
    for answer in _answers_of_log(text, build):
        offers = [offer for one in answer.rounds for offer in one.offers if offer.likeliest]
        notes = [Q] * bool(offers) + [DRAWN] * any(not offer.word for offer in offers)
        drafting = [one.step for one in answer.rounds if one.step]
        own = {"accepted": sum(a for a, _ in drafting), "drafted": sum(n for _, n in drafting)}
        notes += [OTHER_TOTALS] * bool(answer.totals and answer.totals != own) + [CUT] * (not answer.has_ended)
        server = Server(
            "llama-server", f"b{build}" if build else "", model[1].strip() if model else "model", ADAPTER,
            {key: value for key, value in flags.items() if value}, True, tuple(notes),
            {"rounds": len(drafting), **(answer.totals or own)},
        )  # fmt: skip
        yield _trace(answer, server)


def _trace(answer: _Answer, server: Server) -> Trace:
    config = {"method": "server", "sampling": {"temperature": answer.temperature}, "max_new_tokens": answer.limit}
    rounds = as_rounds([replace(one, start=one.start - answer.start, end=one.end - answer.start)
                        for one in answer.rounds], answer.context)  # fmt: skip
    first, last = rounds[0].end, rounds[-1].end
    text = "".join(token.text for one in answer.rounds for token in one.tokens)
    end = RunFinished(answer.reason, text, first, first, last - first, last) if answer.has_ended else None
    return Trace(RunStarted(config, (), server.model, "", {}, "", "", {}, server=server), tuple(rounds), end)


def _answers_of_log(text: str, build: int) -> list[_Answer]:
    """Reads the log once. A slot works on one task at a time, and each of its lines names the slot."""
    tasks: dict[tuple[str, str], _Answer] = {}
    offered: dict[str, dict[int, list[Candidate]]] = {}
    temperatures: dict[str, float] = {}
    for at, kind, fields in _entries(text):
        slot = fields["slot"]
        answer = tasks.get((slot, fields.get("task", "")))
        if kind == "candidate":
            word = Candidate(int(fields["id"]), _bytes(fields["text"]).decode("utf-8", "replace"), float(fields["q"]))
            if fields["place"] == fields["rank"] == "0":
                offered[slot] = {}
            offered.setdefault(slot, {}).setdefault(int(fields["place"]), []).append(word)
        elif kind == "settings":
            temperatures[slot] = float(fields["temperature"])
        elif kind == "begin":
            tasks[slot, fields["task"]] = _Answer(at, temperatures.get(slot, 0.0))
        elif kind == "restored":
            raise BadInput(RESTORED)
        elif answer and kind == "drafted":
            is_favourite = answer.temperature == 0 or 0 < build < FIRST_DRAWING
            places = offered.pop(slot, {})
            offers = (_offer(places.get(place, []), is_favourite) for place in range(int(fields["drafts"])))
            answer.add_round(at, int(fields["size"]), tuple(offers))
        elif answer and kind == "token":
            answer.limit = answer.limit or max(0, int(fields["left"])) + 1
            answer.add_token(at, int(fields["id"]), fields["text"])
        elif answer:
            answer.context = int(fields["size"]) if kind == "prompt" else answer.context
            answer.reason = "eos" if kind == "eos" else answer.reason
            answer.totals = {n: int(fields[n]) for n in ("accepted", "drafted")} if kind == "totals" else answer.totals
            answer.has_ended |= kind == "end"
    return [answer for answer in tasks.values() if answer.rounds]


def _offer(top: list[Candidate], is_favourite: bool) -> Offer:
    if not top:
        return Offer()
    word = ServedToken(top[0].text, top[0].id) if is_favourite else None
    return Offer(Distribution(tuple(top), max(0.0, 1 - sum(each.mass for each in top))), word)


def _entries(text: str) -> Iterator[tuple[float, str, dict[str, str]]]:
    """Yields (seconds, kind, fields) of each entry that says something of a round; a word may hold line breaks."""
    starts = [*_ENTRY.finditer(text)]
    for match, after in zip(starts, [*(each.start() for each in starts[1:]), len(text)], strict=False):
        entry = text[match.end() : after]
        for kind, pattern in _KINDS if entry.startswith(("spec ", "slot ")) else ():
            if fields := pattern.match(entry):
                minutes, *rest = (int(part or 0) for part in match.groups())
                yield 60 * minutes + rest[0] + rest[1] / 1e3 + rest[2] / 1e6, kind, fields.groupdict()
                break


def _bytes(piece: str) -> bytes:
    """Returns the bytes of a token, which may be half a character."""
    return piece.encode("utf-8", "surrogateescape")


# ── saved answers ──


def _of_answers(text: str) -> Iterator[Trace]:
    answers: dict[Any, tuple[StreamedAnswer, str]] = {}
    for id_, event in Text(text).objects:
        if "choices" in event:
            answer, _ = answers.setdefault(id_, (StreamedAnswer(), str(event.get("model", "model"))[:200]))
            answer.add(0.0, event)
    for answer, model in answers.values():
        if answer.steps and len(answer.pieces) == 1 and answer.size:  # its list tells the rounds of the whole text
            answer.pieces = [replace(piece, size=answer.size) for piece in answer.pieces]
            answer.notes += [NO_WORDS] * (not answer.pieces[0].texts)
        answer.settle()
        answer.notes.append(NO_TIMES)
        yield trace_of(Chunks(), {}, ServerRequest(model, ""), answer)

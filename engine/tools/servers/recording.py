"""Records an answer of a server as a trace. What the server does not tell stays unknown in it."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any

from engine.errors import EngineError, Unavailable, and_list
from engine.tools.servers.adapters.adapter import Adapter
from engine.tools.servers.adapters.chunks import Chunks
from engine.tools.servers.adapters.llama_server import LlamaServer
from engine.tools.servers.adapters.lm_studio import LmStudio
from engine.tools.servers.adapters.ollama import Ollama
from engine.tools.servers.adapters.sglang import Sglang
from engine.tools.servers.adapters.tensorrt_llm import TensorRtLlm
from engine.tools.servers.adapters.vllm import Vllm
from engine.tools.servers.client import Client, Missing
from engine.tools.servers.event_stream import Cut
from engine.tools.servers.rounds import Offer, ServedRound, rounds_of
from engine.tools.servers.server_request import ServerRequest
from engine.tools.servers.streamed_answer import NAMES, Piece, StreamedAnswer, mapping
from engine.trace.events import PromptToken, Round, RunFinished, RunStarted, Server, Token
from engine.trace.trace import Trace

ENGINES: tuple[Callable[[], Adapter], ...] = (Vllm, Sglang, LlamaServer, TensorRtLlm, LmStudio, Ollama)

NO_ANSWER = "The server sent no answer of an OpenAI-compatible server; what came holds {}."


def recognise(client: Client) -> tuple[Adapter, dict[str, str]]:
    """Finds the adapter of the engine that answers there, and its settings as far as it tells them. Raises Unavailable
    where nothing answers."""
    for make in ENGINES:
        adapter = make()
        try:
            settings = adapter.recognise(client)
        except Missing:
            continue
        if settings is not None:
            return adapter, settings
    return Chunks(), {}


class Recorder:
    """Records the answers of one server. Finds out which engine it is when it is created, and raises Unavailable where
    nothing answers."""

    def __init__(self, client: Client):
        self.client = client
        self.adapter, self.settings = recognise(client)
        self._texts: dict[tuple[str, int], str] = {}  # by model and token, as /detokenize returned them

    def record(self, request: ServerRequest) -> tuple[Trace, str]:
        """Returns one answer as a trace, and why it broke off in the middle, or "". Raises Unavailable."""
        before = self.counts_before()
        answer = self.ask(request)
        return self.finish(request, answer, before), answer.fault

    def counts_before(self) -> dict[str, int]:
        """Returns the server's counts so far, for `finish`."""
        return self.adapter.counts_before(self.client)

    def ask(self, request: ServerRequest) -> StreamedAnswer:
        """Reads one answer as it comes, and nothing else, so that its time is the server's. Several threads may ask."""
        answer = StreamedAnswer(date=datetime.now(UTC).isoformat(timespec="seconds"))
        body, start = request.body(**self.adapter.fields()), time.perf_counter()
        try:
            for seconds, event in self.client.stream(request.path, body, answer.leave_out):
                answer.add(seconds, event)
            if not answer.has_ended and answer.words:
                answer.add(0.0, None)
            if not answer.has_ended:
                raise (
                    Cut()
                    if answer.pieces
                    else Unavailable(NO_ANSWER.format(", ".join(list(answer.left_out)[:5]) or "nothing"))
                )
        except EngineError as error:
            if not answer.pieces and not answer.has_ended:
                raise
            # Some gateways omit the end mark. After its reason a text is complete.
            if answer.has_ended:
                answer.notes.append(f"After the end of the answer: {error}")
            else:
                answer.fault = str(error)
        answer.seconds = time.perf_counter() - start
        if refused := [name for name in body if name in self.client.refused]:
            answer.notes.append(f"The server refuses {and_list(refused)}, so the request was sent without.")
        answer.settle()
        return answer

    def finish(self, request: ServerRequest, answer: StreamedAnswer, before: dict[str, int] | None) -> Trace:
        """Asks what the stream did not tell, and makes the trace. ``before`` is None for one of several answers at
        once, because the server counts for all of them together."""
        if self.adapter.is_plain:
            answer.counters = dict.fromkeys(NAMES, 0)
        if not answer.fault:
            if before is not None:
                self.adapter.add_counts(self.client, answer, before)
            if self.adapter.can_split:
                answer.pieces = [self._split(request.model, piece) for piece in answer.pieces]
        return trace_of(self.adapter, self.settings, request, answer)

    def _split(self, model: str, piece: Piece) -> Piece:
        """Returns the piece with the text of each token, where the server can say it."""
        if piece.texts or len(piece.ids) < 2:
            return piece
        try:
            texts = tuple(self._text(model, id) for id in piece.ids)
        except EngineError:
            return piece
        return replace(piece, texts=texts) if "".join(texts) == piece.text else piece

    def _text(self, model: str, id: int) -> str:
        if (model, id) not in self._texts:
            details = mapping(self.client.post_json("/detokenize", {"model": model, "tokens": [id]}))
            self._texts[model, id] = str(details.get("prompt", details.get("text", "")))
        return self._texts[model, id]


def as_rounds(served: Sequence[ServedRound], context: int | None) -> list[Round]:
    """Returns rounds of a trace; ``context``: the tokens of the prompt, if they are known."""
    starts = accumulate((len(one.tokens) for one in served), initial=0)
    placed = enumerate(zip(served, starts, strict=False))
    return [_round(index, one, at, context and context + at) for index, (one, at) in placed]


def trace_of(adapter: Adapter, settings: dict, request: ServerRequest, answer: StreamedAnswer) -> Trace:
    """Returns an answer as a trace, with the settings that its server told."""
    served = rounds_of(answer)
    rounds = as_rounds(served, answer.prompt_size or len(answer.prompt_ids) or None)
    flags = {name: value for name, value in (settings | answer.flags).items() if name != "version" and value}
    name, engine = adapter.name, adapter.name
    if isinstance(adapter, Chunks):
        name, engine = answer.engine or adapter.name, answer.engine or "server"
        if answer.engine:
            answer.notes.append(f"The server does not say what it is; its events count drafts as {engine} does.")
    server = Server(
        engine, settings.get("version", ""), request.model, name, flags, all(one.is_told for one in served),
        tuple(answer.notes), answer.counters, answer.hidden_tokens,
    )  # fmt: skip
    config = {
        "prompt": request.prompt, "method": "server", "sampling": {"temperature": request.temperature},
        "max_new_tokens": request.max_tokens, "seed": request.seed, "chat": request.chat,
        "system": request.system or None,
    }  # fmt: skip
    prompt = tuple(PromptToken(id, "") for id in answer.prompt_ids)
    started = RunStarted(config, prompt, request.model, "", {}, "", "", {}, at=answer.date, server=server)
    finished = None
    if not answer.fault:
        seconds = answer.seconds
        first, last = (answer.pieces[0].at, rounds[-1].end) if rounds else (seconds, seconds)
        text = "".join(piece.text for piece in answer.pieces)
        finished = RunFinished(answer.reason or "unknown", text, first, first, last - first, seconds)
    return Trace(started, tuple(rounds), finished)


def _round(index: int, one: ServedRound, position: int, context: int | None) -> Round:
    """Derives the statuses of a round from how many drafts were accepted. Only a log tells words that were rejected."""
    size = len(one.tokens)
    accepted, drafted = one.step or ((0, 0) if one.is_told else (size - 1, size - 1))
    used = min(accepted, size)
    has_closing = size > used
    closing = "plain" if not drafted else "bonus" if accepted == drafted else "resampled"
    if not one.is_told and index > 0:
        closing = "closing"
    rejected = drafted - used
    statuses: list[Any] = ["accepted"] * used + (["rejected"] if rejected and has_closing else [])
    statuses += ["discarded"] * (drafted - len(statuses)) + [closing] * has_closing
    words, tokens, place = iter(one.tokens), [], position
    for i, status in enumerate(statuses):
        is_lost, offer = status in ("rejected", "discarded"), one.offers[i] if i < len(one.offers) else Offer()
        word = offer.word if is_lost else next(words)
        text, id_ = (word.text, word.id) if word else ("", None)
        label = None if text or (id_ is not None and not one.offers) else "?" if is_lost else "…"
        at, depth = position + i if i < drafted else place, i + 1 if i < drafted else used + 1
        p, q = word.p if word else None, offer.q(id_)
        tokens.append(Token(id_, text, status, at, depth, label, p, q, q_top=offer.likeliest))
        place += not is_lost
    gamma = drafted if one.is_told else None
    return Round(index, gamma, tuple(tokens), tuple(range(drafted)), None, context, None, one.start, one.end)

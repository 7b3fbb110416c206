"""Serves `run` of the API over plain HTTP, with names instead of positions. All refusals are a sentence in JSON."""

import json
import re
import uuid
from collections.abc import AsyncIterator, Generator, Iterator
from dataclasses import dataclass
from typing import Any, cast, get_type_hints

import gradio as gr
from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from app.api.endpoints import Api, SentenceError
from app.api.openapi import ALIASES, ARGUMENTS, operation
from app.jobs.service import Service
from engine.errors import BadInput, EngineError, QueueFull, Unavailable

FLAGS = ("stream", *(name for name, kind in get_type_hints(Api.run).items() if kind is bool))
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")  # GET brings HEAD
MOST_BYTES, MOST_UNREAD = 1_000_000, 8_000_000  # bytes: the largest body, and how much of a larger one is read


class TooLong(BadInput):
    """A request's body has more bytes than are taken."""


class NotJson(BadInput):
    """A request does not say that its body is JSON. Pages of other sites can send other types without asking first."""


STATUSES: dict[type, int] = {
    EngineError: 500, BadInput: 400, Unavailable: 400, TooLong: 413, NotJson: 415, QueueFull: 503,
}  # fmt: skip


@dataclass(frozen=True)
class _Visitor:
    """Each request over HTTP is a visitor of its own, so that none replaces another."""

    session_hash: str
    address: str | None


def http_routes(service: Service) -> list[BaseRoute]:
    """POST /api/run: a JSON object with the arguments of `Api.run` by name. Answers {"text", "figures", "trace"}; with
    `"stream": true` a line of JSON for each update. Refusals are {"error": sentence}, also for other paths and ways."""
    api = Api(service)
    # Every run holds a thread until it ends; Starlette's own few also serve the page's files.
    threads = CapacityLimiter(service.runs.most_requests)

    async def elsewhere(request: Request) -> Response:
        if request.path_params["path"] != "run":
            return _refusal("There is nothing at this address; POST a JSON object to /api/run.", 404)
        return _refusal("/api/run takes POST, with a JSON object.", 405, Allow="POST")

    async def answer(request: Request) -> Response:
        try:
            body = await _body(request)
            _check_type(request.headers.get("content-type", ""))
            values, is_stream = _arguments(body)
        except BadInput as error:
            service.runs.numbers.refuse(error)
            return _refuse(error)
        visitor = _Visitor(uuid.uuid4().hex, request.client.host if request.client else None)
        updates: Any = api.run(cast(gr.Request, visitor), **values)
        try:
            first = await run_sync(next, updates, limiter=threads)
            if is_stream:
                lines = _stream(_lines(first, updates), threads)
                return StreamingResponse(lines, media_type="application/x-ndjson")
            return JSONResponse(_answer(await _last(first, updates, request, threads)))
        except SentenceError as refusal:
            return _refuse(refusal.error)

    run = APIRoute("/api/run", answer, methods=["POST"], summary="Run a prompt", openapi_extra=operation())
    return [run, Route("/api/{path:path}", elsewhere, methods=METHODS)]


def _refuse(error: EngineError) -> Response:
    return _refusal(str(error), next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES))


def _refusal(words: str, status: int, **headers: str) -> Response:
    return JSONResponse({"error": words}, status, headers=headers)


async def _body(request: Request) -> bytes:
    """Reads the body. Raises TooLong for one that is; a client that is still sending would not see the answer, so the
    rest is read as well, within reason."""
    body, size = bytearray(), 0
    async for part in request.stream():
        size += len(part)
        if size > MOST_UNREAD:
            break
        if size <= MOST_BYTES:
            body += part
    if size > MOST_BYTES:
        raise TooLong(f"The request has more than {MOST_BYTES:,} bytes; send fewer.")
    return bytes(body)


def _check_type(content_type: str) -> None:
    """Raises NotJson for a body that is not declared as JSON."""
    kind = content_type.split(";")[0].strip().lower()
    if kind != "application/json" and not re.fullmatch(r"application/[\w.-]+\+json", kind):
        raise NotJson("/api/run takes JSON; send it with the header `Content-Type: application/json`.")


def _arguments(body: bytes) -> tuple[dict, bool]:
    """Returns the arguments by name, and whether to stream. BadInput names the one that is wrong."""
    try:
        values = json.loads(body)
    except UnicodeDecodeError as error:
        words = "The request is not in UTF-8; where a console writes another encoding, send a file."
        raise BadInput(words) from error
    except RecursionError as error:
        raise BadInput("The request is nested too deeply; send a flatter one.") from error
    except ValueError as error:
        if not isinstance(error, json.JSONDecodeError):  # Python reads no longer ones, and names its own setting
            raise BadInput("The request has a number with thousands of digits; send a shorter one.") from error
        raise BadInput('The request must be a JSON object, such as {"prompt": "Hello", "method": "ngram"}.') from error
    if not isinstance(values, dict) or not isinstance(values.get("prompt"), str):
        raise BadInput('The request must be a JSON object with a text as "prompt".')
    for alias, name in ALIASES.items():
        if alias in values and name in values:
            raise BadInput(f"{alias} and {name} are one argument; give one of them.")
    values = {ALIASES.get(name, name): value for name, value in values.items()}
    if unknown := sorted(values.keys() - ARGUMENTS.keys() - {"stream"}):
        other = " This is not OpenAI's API." if {"messages", "model"} & {*unknown} else ""
        raise BadInput(
            f"There is no argument {unknown[0][:40]!r}; choose from {', '.join(sorted(ARGUMENTS))}, stream.{other}"
        )
    if wrong := [name for name in FLAGS if not isinstance(values.get(name, False), bool)]:
        raise BadInput(f"{wrong[0]} must be true or false.")
    return values, values.pop("stream", False)


def _answer(update: tuple[str, dict, dict | None]) -> dict:
    return dict(zip(("text", "figures", "trace"), update, strict=True))


async def _last(update, updates: Any, request: Request, threads: CapacityLimiter):
    """Returns the last update. Once the client has gone, the run is cancelled."""
    while (later := await run_sync(next, updates, None, limiter=threads)) is not None:
        update = later
        if await request.is_disconnected():
            await run_sync(updates.close, limiter=threads)
    return update


async def _stream(lines: Generator[str], threads: CapacityLimiter) -> AsyncIterator[str]:
    try:
        while line := await run_sync(next, lines, "", limiter=threads):
            yield line
    finally:
        lines.close()  # the client may have gone: at once, not when Python collects it


def _lines(first, updates: Iterator) -> Generator[str]:
    yield json.dumps(_answer(first)) + "\n"
    try:
        for update in updates:
            yield json.dumps(_answer(update)) + "\n"
    except SentenceError as refusal:
        yield json.dumps({"error": str(refusal.error)}) + "\n"

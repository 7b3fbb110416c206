"""Talks HTTP to a server that a person named on the command line, within limits of time and size.

The answers are untrusted. A redirect is not followed, a line and an answer have a largest size, and each fault raises
`Unavailable` with one sentence, which quotes at most a line of the server's own words.
"""

import http.client
import json
import socket
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from engine.errors import BadInput, Unavailable

MAX_LINE, MAX_ANSWER = 2**20, 2**25  # bytes
MAX_SECONDS = 600.0  # for one answer
QUIET = 60.0  # seconds without a byte after which the server is taken to hang
REFUSALS = {
    401: "asks for a key; put it into SPECLENS_SERVER_KEY",
    403: "refuses this key; put another into SPECLENS_SERVER_KEY",
    429: "has too many requests; wait a little and try again",
    503: "is not ready; wait until its model is loaded",
}


class Missing(Unavailable):
    """The server has no such path, or something else than JSON there."""


@dataclass(frozen=True)
class Client:
    """``address``: http://HOST:PORT, with or without /v1. ``seconds``: the most that one answer may take."""

    address: str
    key: str = ""
    seconds: float = MAX_SECONDS

    def __post_init__(self):
        try:
            parts = urlsplit(self.address)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
        if not usable or parts.username or parts.query or not self.address.isascii():
            raise BadInput(f"{self.address[:80]!r} is not the address of a server; write http://HOST:PORT.")
        if not (self.key.isascii() and self.key.isprintable()):
            raise BadInput("SPECLENS_SERVER_KEY holds characters that no key has; set it again.")
        if not 0 < self.seconds <= 24 * 3600:
            raise BadInput("The time limit must be above 0 and at most a day, in seconds.")

    def get(self, path: str) -> str:
        """Gets the text at the path."""
        return _text(b"".join(block for _, block in self._blocks("GET", path, None)))

    def get_json(self, path: str) -> Any:
        return _json(self.get(path))

    def post_json(self, path: str, body: dict) -> Any:
        return _json(_text(b"".join(block for _, block in self._blocks("POST", path, body))))

    def stream(self, path: str, body: dict) -> Iterator[tuple[float, dict]]:
        """Yields (seconds since the request was sent, the object) of each event of a stream, until its [DONE]. Raises
        Unavailable in the middle, too; the events before it stay good."""
        rest = b""
        for at, block in self._blocks("POST", path, body):
            *lines, rest = (rest + block).split(b"\n")
            if len(rest) > MAX_LINE or any(len(line) > MAX_LINE for line in lines):
                raise Unavailable(
                    f"The server sent a line of over {MAX_LINE // 2**20} MiB, so the stream was given up."
                )
            for line in lines:
                if line.startswith(b"data:") and (data := line[5:].strip()):
                    if data == b"[DONE]":
                        return
                    yield at, _object(_json(_text(data)))
        raise Unavailable("The connection was cut before the end of the answer.")

    def _blocks(self, method: str, path: str, body: dict | None) -> Iterator[tuple[float, bytes]]:
        """Yields the bytes of an answer as they come, each with the seconds since the request was sent."""
        parts, size = urlsplit(self.address), 0
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=min(QUIET, self.seconds))
        root = parts.path.rstrip("/").removesuffix("/v1")
        headers = {"Content-Type": "application/json", "Accept": "*/*"}
        headers |= {"Authorization": f"Bearer {self.key}"} if self.key else {}
        start = time.perf_counter()
        try:
            connection.request(method, root + path, json.dumps(body) if body is not None else None, headers)
            answer = connection.getresponse()
            if answer.status != 200:
                raise _refusal(answer.status, path, answer.read1(2**16))
            while block := answer.read1(2**16):
                at, size = time.perf_counter() - start, size + len(block)
                if at > self.seconds:
                    raise Unavailable(f"The answer was not complete after {self.seconds:g} s; it was given up.")
                if size > MAX_ANSWER:
                    raise Unavailable(f"The server sent over {MAX_ANSWER // 2**20} MiB, so the answer was given up.")
                yield at, block
        except TimeoutError as error:
            raise Unavailable(f"The server sent nothing for {min(QUIET, self.seconds):g} s.") from error
        except (ConnectionRefusedError, socket.gaierror, UnicodeError) as error:
            raise Unavailable(f"No server answers at {self.address}; is it running, and is the port right?") from error
        except ssl.SSLError as error:
            raise Unavailable(f"{self.address} does not speak https; try http://.") from error
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable("The connection was cut before the end of the answer.") from error
        finally:
            connection.close()


def _refusal(status: int, path: str, body: bytes) -> Unavailable:
    if 300 <= status < 400:
        return Unavailable(
            f"The server sends {path} elsewhere ({status}), which is not followed; name its own address."
        )
    if status in (404, 405, 501):
        return Missing(f"The server has no {path}; is this the address of an OpenAI-compatible server?")
    reason = REFUSALS.get(status, "refuses the request")
    words = " ".join(body.decode("utf-8", "replace").split())[:200]
    quoted = f": {words}" if words and status not in REFUSALS else ""
    return Unavailable(f"The server {reason} ({status}){quoted}.")


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unavailable("The server sent bytes that are not UTF-8, so its answer cannot be read.") from error


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Missing("The server sent an answer that is not JSON; is this an OpenAI-compatible server?") from error


def _object(value: Any) -> dict:
    if not isinstance(value, dict):
        raise Unavailable("The server sent an event that is not an object; is this an OpenAI-compatible server?")
    if error := value.get("error"):
        words = error.get("message") if isinstance(error, dict) else error
        raise Unavailable(f"The server broke off with an error: {' '.join(str(words).split())[:200]}.")
    return value

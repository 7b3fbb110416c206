"""Talks HTTP to a server that a person named on the command line, within limits of time and size.

The answers are untrusted. A redirect is not followed, a line and an answer have a largest size, and each fault raises
`Unavailable` with one sentence, which quotes at most a line of the server's own words. The key goes to the address that
the person wrote and nowhere else, and no sentence advises an address to which it would go unencrypted.
"""

import http.client
import io
import json
import re
import socket
import ssl
import time
import zlib
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast
from urllib.parse import SplitResult, unquote, urlsplit

from engine.errors import BadInput, Unavailable
from engine.tools.servers.address import find_fault, find_proxy, may_be_plain, split_address
from engine.tools.servers.event_stream import Cut, LeaveOut, decode, error_words, parse, quote, read_events

MAX_ANSWER = 2**25  # bytes
MAX_SECONDS = 600.0  # for one answer
CONNECT = 60.0  # seconds for a connection; a server may then be silent as long as an answer may take
REFUSALS = {
    401: "asks for a key; put it into SPECLENS_SERVER_KEY",
    403: "forbids this, perhaps for this key; put another into SPECLENS_SERVER_KEY",
    407: "is behind a proxy that wants a name and a password; write http://NAME:PASSWORD@HOST:PORT into HTTP_PROXY",
    429: "has too many requests; wait a little and try again",
    502: "cannot be reached by the gateway that answered; start it, or wait until it is ready",
    503: "is not ready; wait until its model is loaded",
    504: "did not answer its gateway in time; the gateway needs a longer limit",
}
CERTIFICATES = {  # OpenSSL's number of a fault → advice
    9: "check the clock of this computer",
    10: "the server needs a new one",
    62: "write the address with a name that it holds",
    64: "write the address with a name that it holds",
}
TRUST = "if you trust it, put the file of the authority that signed it into SSL_CERT_FILE"
# Fields that only make an answer tell more, each with others that mean nothing without it. A server that refuses one is
# asked without it.
SPARE = {
    "stream_options": (), "return_token_ids": (), "timings_per_token": (), "return_spec_tokens_details": (),
    "repetition_penalty": (), "repeat_penalty": (), "seed": (), "logprobs": ("top_logprobs",), "top_logprobs": (),
}  # fmt: skip


class Missing(Unavailable):
    """The server has no such path, or something else than JSON there."""


class Refused(Unavailable):
    """The server refuses what a request holds. ``words``: all that it says about it."""

    def __init__(self, sentence: str, words: str):
        super().__init__(sentence)
        self.words = words

    def spare_fields(self, body: dict) -> set[str]:
        """Returns the fields of the body that it may do without: those that the words name, else every spare one."""
        spare = [name for name in SPARE if name in body]
        named = [name for name in spare if re.search(rf"\b{name}\b", self.words)]
        return {each for name in named or spare for each in (name, *SPARE[name]) if each in body}


@dataclass(frozen=True)
class Client:
    """``address``: http://HOST:PORT, with or without /v1 and what follows it. ``seconds``: the most that one answer may
    take. ``refused``: the fields that the server turned out to refuse, so that requests omit them."""

    address: str
    key: str = ""
    seconds: float = MAX_SECONDS
    refused: set[str] = field(default_factory=set, compare=False)

    def __post_init__(self):
        object.__setattr__(self, "address", self.address.strip())
        if fault := find_fault(self.address, self.key):
            raise BadInput(fault)
        if not (self.key.isascii() and self.key.isprintable()):
            raise BadInput("SPECLENS_SERVER_KEY holds characters that no key has; set it again.")
        if not 0 < self.seconds <= 24 * 3600:
            raise BadInput("The time limit must be above 0 and at most a day, in seconds.")

    def get(self, path: str) -> str:
        return decode(b"".join(block for _, block in self._blocks("GET", path, None)))

    def get_json(self, path: str) -> Any:
        return _json(self.get(path))

    def post_json(self, path: str, body: dict) -> Any:
        return _json(decode(b"".join(block for _, block in self._post(path, body))))

    def stream(self, path: str, body: dict, leave_out: LeaveOut) -> Iterator[tuple[float, dict | str | None]]:
        """Yields (seconds since the request was sent, the event) as `read_events` has it. Raises Unavailable in the
        middle, too; the events before it stay good."""
        return read_events(self._post(path, body), leave_out)

    def _post(self, path: str, body: dict) -> Iterator[tuple[float, bytes]]:
        """Yields the bytes of an answer, which a strict server may give only without some fields of the request."""
        left_out = set(self.refused)
        while True:
            blocks = self._blocks("POST", path, {name: value for name, value in body.items() if name not in left_out})
            try:
                first = next(blocks, None)
            except Refused as error:
                more = error.spare_fields(body) - left_out
                if not more:
                    raise
                left_out |= more
                continue
            self.refused.update(left_out)
            yield from [first] if first else []
            yield from blocks
            return

    def _blocks(self, method: str, path: str, body: dict | None) -> Iterator[tuple[float, bytes]]:
        """Yields the bytes of an answer as they come, each with the seconds since the request was sent."""
        parts, root, api = split_address(self.address)
        target = api + path.removeprefix("/v1") if path.startswith("/v1/") else root + path
        headers = {"Content-Type": "application/json", "Accept": "*/*"}
        headers |= {"Authorization": f"Bearer {self.key}"} if self.key else {}
        proxy, size, is_connected, answer = find_proxy(parts), 0, False, None
        connection, prefix = _connection(parts, proxy, headers)
        start = time.perf_counter()
        deadline = start + self.seconds
        connection.timeout = min(CONNECT, self.seconds)
        # A limit for each read alone would let a server send a byte a minute, in its headers, too.
        connection.response_class = cast(Any, partial(_response, deadline))
        try:
            connection.connect()
            is_connected = True
            connection.sock.settimeout(self.seconds)
            connection.request(method, prefix + target, json.dumps(body) if body is not None else None, headers)
            answer = connection.getresponse()
            blocks = _unpack(answer)
            if not 200 <= answer.status < 300:
                first = next(blocks, b"")
                rest = b"".join(blocks) if answer.length and answer.length < 2**16 else b""
                text = (first + rest).decode("utf-8", "replace")
                text = text.replace(self.key, "…") if self.key else text
                raise _refusal(answer, target, path.startswith("/v1/"), text)
            for block in blocks:
                at, size = time.perf_counter() - start, size + len(block)
                if at > self.seconds:
                    raise TimeoutError
                if size > MAX_ANSWER:
                    raise Unavailable(f"The server sent over {MAX_ANSWER // 2**20} MiB, so the answer was given up.")
                yield at, block
        except (OSError, http.client.HTTPException, UnicodeError, zlib.error) as error:
            raise self._fault(error, proxy, is_connected, answer is not None) from error
        finally:
            connection.close()

    def _fault(self, error: Exception, proxy: SplitResult | None, is_connected: bool, has_answer: bool) -> Unavailable:
        """Words a fault of the connection, which tells the most by when it came."""
        parts = urlsplit(self.address)
        place = f"{parts.scheme}://{parts.netloc}"
        if isinstance(error, TimeoutError) and is_connected:
            return Unavailable(
                f"The answer was not complete after {self.seconds:g} s; it was given up. --time-limit allows longer."
            )
        if isinstance(error, ssl.SSLCertVerificationError):
            why = quote(error.verify_message or str(error))
            return Unavailable(
                f"The certificate of {place} is not trusted ({why}); {CERTIFICATES.get(error.verify_code, TRUST)}."
            )
        if isinstance(error, zlib.error):
            return Unavailable("The server sent bytes that are not compressed as its header says.")
        if has_answer:
            return Cut()
        if proxy and not isinstance(error, ssl.SSLError) and (not is_connected or parts.scheme == "http"):
            via, why = f"{proxy.hostname}:{proxy.port}", quote(str(error)) or "it closed the connection"
            return Unavailable(
                f"The proxy {via}, which the environment names, does not lead to {place} ({why}); "
                f"NO_PROXY={parts.hostname} asks the server without it."
            )
        is_reset = parts.scheme == "https" and not is_connected and isinstance(error, ConnectionResetError)
        if isinstance(error, ssl.SSLError) or is_reset:
            why = quote(getattr(error, "reason", None) or str(error)).lower().replace("_", " ")
            plain = ""
            if may_be_plain(parts.hostname or "", self.key):
                plain = f" If it speaks http, write http://{parts.netloc}."
            return Unavailable(f"{place} cannot be reached by https ({why}); is the port right?{plain}")
        if not is_connected:
            return Unavailable(f"No server answers at {place}; is it running, and is the port right?")
        https = f" If it speaks https, write https://{parts.netloc}." if parts.scheme == "http" else ""
        return Unavailable(f"{place} closed the connection without an answer.{https}")


def _response(deadline: float, sock: socket.socket, *args, **options) -> http.client.HTTPResponse:
    return http.client.HTTPResponse(cast(socket.socket, _Deadline(sock, deadline)), *args, **options)


class _Deadline(io.RawIOBase):
    """Reads a socket up to a moment of `time.perf_counter`, however slowly its bytes come."""

    def __init__(self, sock: socket.socket, moment: float):
        self._sock, self._moment, self._raw = sock, moment, sock.makefile("rb", buffering=0)

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int | None:
        remaining = self._moment - time.perf_counter()
        if remaining <= 0:
            raise TimeoutError("timed out")
        self._sock.settimeout(remaining)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _connection(parts: SplitResult, proxy: SplitResult | None, headers: dict) -> tuple[http.client.HTTPConnection, str]:
    """Returns a connection, and the prefix of each path. A proxy passes on bytes of https, but requests of http."""
    is_https = parts.scheme == "https"
    kind = http.client.HTTPSConnection if is_https else http.client.HTTPConnection
    if proxy is None:
        return kind(parts.hostname or "", parts.port), ""
    connection = kind(proxy.hostname or "", proxy.port)
    login = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}" if proxy.username else ""
    own = {"Proxy-Authorization": f"Basic {b64encode(login.encode()).decode()}"} if login else {}
    if is_https:
        connection.set_tunnel(parts.hostname or "", parts.port or 443, own)
        return connection, ""
    headers |= own
    return connection, f"http://{parts.netloc}"


def _unpack(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    """Yields the bytes of an answer as they come. Some gateways compress, although the request does not ask for it."""
    coding = (answer.headers.get("Content-Encoding") or "identity").strip().lower()
    if coding not in ("identity", "gzip", "x-gzip", "deflate"):
        raise Unavailable(
            f"The server compresses its answer as {quote(coding, 20)}, which is not read here; switch it off."
        )
    unpack = None if coding == "identity" else zlib.decompressobj(zlib.MAX_WBITS | 32)
    while block := answer.read1(2**16):
        while unpack and block:
            # More than this in one block is over the limit of an answer, so the rest of it is not needed.
            yield unpack.decompress(block, MAX_ANSWER + 1)
            block = unpack.unused_data
            unpack = zlib.decompressobj(zlib.MAX_WBITS | 32) if unpack.eof else unpack
        if block:
            yield block


def _refusal(answer: http.client.HTTPResponse, target: str, is_api: bool, body: str) -> Unavailable:
    """Words an answer that is none. ``is_api``: not one of the paths that only tell more of an engine, which a gateway
    need not let through."""
    status, (value, is_json) = answer.status, parse(body)
    words = error_words(value) if is_json else quote(body)
    has_no_path = status in (404, 405, 501) and not (is_json and "model" in words.lower())
    if has_no_path or not is_api:
        return Missing(f"The server has no {target}; is this the address of an OpenAI-compatible server?")
    if 300 <= status < 400:
        goal = urlsplit(answer.headers.get("Location") or "")
        named = f" It names https://{quote(goal.netloc)}." if goal.scheme == "https" and "@" not in goal.netloc else ""
        return Unavailable(
            f"The server sends {target} elsewhere ({status}), which is not followed; name its own address.{named}"
        )
    # Servers quote a part of a wrong key, and a gateway's own page says less than the advice.
    quoted = f": {words}" if words and status != 401 and (is_json or status not in REFUSALS) else ""
    sentence = f"The server {REFUSALS.get(status, 'refuses the request')} ({status}){quoted}."
    return Refused(sentence, body) if status in (400, 422) else Unavailable(sentence)


def _json(text: str) -> Any:
    value, is_json = parse(text.removeprefix("\ufeff"))
    if not is_json:
        raise Missing("The server sent an answer that is not JSON; is this an OpenAI-compatible server?")
    return value

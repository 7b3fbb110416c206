"""A small HTTP server that answers with recorded or hostile bytes, in place of an engine."""

import json
import threading
from collections.abc import Iterable
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from engine.tools.servers.client import Client
from engine.tools.servers.recording import Recorder
from engine.tools.servers.server_request import ServerRequest

RECORDED = Path(__file__).parents[1] / "engine" / "tools" / "servers" / "recorded"
Answer = str | bytes | tuple[int, str] | tuple[int, bytes, dict] | Iterable[bytes]


@contextmanager
def serving(answers: dict, requests: list | None = None):
    """Yields the address of a server that answers each path with a text, (status, text), (status, text, headers), parts
    as they are sent, or the result of a function of the request's body. Other paths are 404. ``requests`` gets each
    path, headers and body."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self):
            size = int(self.headers.get("Content-Length") or 0)
            asked = json.loads(self.rfile.read(size)) if size else {}
            if requests is not None:
                requests.append((self.path, dict(self.headers), asked))
            given = answers.get(self.path, (404, "no such path"))
            given = given(asked) if callable(given) else given
            status, body, *headers = given if isinstance(given, tuple) else (200, given)
            self.send_response(status)
            for name, value in (headers[0] if headers else {"Location": body} if 300 <= status < 400 else {}).items():
                self.send_header(name, value)
            self.end_headers()
            try:
                for part in [body] if isinstance(body, str | bytes) else body:
                    self.wfile.write(part.encode() if isinstance(part, str) else part)
                    self.wfile.flush()
            except OSError:
                pass  # the reader gave up

        do_GET = do_POST = _answer

        def log_message(self, *_):
            pass

    server = type("Server", (ThreadingHTTPServer,), {"request_queue_size": 64})(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def event(**fields) -> bytes:
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


def vllm() -> dict:
    """The answers of vLLM 0.32.0 with the shipped EAGLE head: a chat, and a text with several rounds in a piece."""
    return {
        "/v1/models": (RECORDED / "vllm_0.32_models.json").read_text(),
        "/version": '{"version": "0.32.0"}',
        "/metrics": (RECORDED / "vllm_0.32_metrics.txt").read_text(),
        "/v1/chat/completions": (RECORDED / "vllm_0.32_eagle_chat.txt").read_bytes(),
        "/v1/completions": (RECORDED / "vllm_0.32_eagle_merged.txt").read_bytes(),
    }


def llama() -> dict:
    """The answers of llama-server 0.5.0, shortened: a chat with a draft model, which ends by itself, and a text with
    n-gram drafts."""
    return {
        "/props": (RECORDED / "llama_0.5.0_props.json").read_text(),
        "/metrics": (RECORDED / "llama_0.5.0_metrics.txt").read_text(),
        "/v1/chat/completions": (RECORDED / "llama_0.5.0_draft_chat.txt").read_bytes(),
        "/v1/completions": (RECORDED / "llama_0.5.0_ngram.txt").read_bytes(),
    }


def recorded(answers: dict, chat: bool = True, seconds: float = 20.0, **more):
    """The trace of one answer, and why it broke off."""
    with serving(answers) as address:
        recorder = Recorder(Client(address + "/v1", seconds=seconds))
        return recorder.record(ServerRequest("m", "Count.", chat=chat, **more))

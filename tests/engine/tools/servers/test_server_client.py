"""Addresses, certificates, proxies, silence and strict servers work or get one sentence, which gives no key away."""

import json
import re
import socket
import ssl
import subprocess
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from stand_in_server import DONE, event, recorded, serving

from engine.errors import BadInput, Unavailable
from engine.tools.servers import client as http
from engine.tools.servers.client import Client
from engine.tools.servers.recording import Recorder
from engine.tools.servers.server_request import ServerRequest

ANSWER = event(choices=[{"text": "One", "finish_reason": "stop"}]) + DONE
MODELS = {"/v1/models": '{"data": []}'}


def sentence(address: str, key: str = "", path: str = "/v1/models", seconds: float = 10) -> str:
    """The sentence with which a request ends; "" for none."""
    try:
        Client(address, key, seconds).get(path)
    except (BadInput, Unavailable) as error:
        assert re.fullmatch(r"[^\n]+[.?]", str(error))
        return str(error)
    return ""


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


# ── addresses ──

TAILS = ("", "/", "//", "/v1", "/v1/", "/V1", "/v1/chat/completions", "/v1/completions/", "/v1/models",
         "/V1/Chat/Completions", "/completion", "/api/chat", "/health", "/metrics", "/v1/responses",
         "/chat/completions")  # fmt: skip


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("spaces", ["", " \n"])
def test_a_whole_address_is_understood(tail, spaces):
    asked = []
    with serving(MODELS | {"/v1/completions": ANSWER}, asked) as address:
        Recorder(Client(spaces + address.replace("http", "HTTP") + tail + spaces)).record(
            ServerRequest("m", "x", chat=False)
        )
    probes = ["/v1/models", "/get_server_info", "/props", "/v1/models", "/api/v1/models", "/"]
    assert [path for path, *_ in asked] == [*probes, "/v1/completions"]


@pytest.mark.parametrize(("tail", "api", "root"), [
    ("/api/v1", "/api/v1/models", "/api/props"), ("/proxy", "/proxy/v1/models", "/proxy/props"),
    ("/api/paas/v4/chat/completions", "/api/paas/v4/models", "/api/paas/props"),
    ("/v1beta/openai/", "/v1beta/openai/models", "/props"),
])  # fmt: skip
def test_the_rest_of_an_address_is_kept(tail, api, root):
    asked = []
    with serving({api: "{}", root: "{}"}, asked) as address:
        client = Client(address + tail)
        assert client.get_json("/v1/models") == client.get_json("/props") == {}


# An address, a key, words of the refusal, and words that are not in it.
ADDRESSES = [
    *((address, "", "http://HOST:PORT", None) for address in
      ("", "ftp://h", "http://", "http://h:99999", "http://h:0", "http://h h", "“http://h”", "http://häst")),
    ("localhost:8000", "k", "write http://localhost:8000.", None),
    ("//localhost/v1", "k", "write http://localhost/v1.", None),
    ("[::1]:8000", "k", "write http://[::1]:8000.", None), ("vllm:8000", "", "write http://vllm:8000.", None),
    ("192.168.1.5:8000", "", "write http://192.168.1.5:8000.", None),
    ("192.168.1.5:8000", "k", "write https://192.168.1.5:8000.", "http://"),
    ("api.host.org/v1", "", "write https://api.host.org/v1.", "http://"),
    ("http://u:secret@h", "", "before the @", "secret"), ("u:secret@h:80", "", "before the @", "secret"),
    ("https://u@h", "", "before the @", "u@"), ("http://h?key=secret", "", "after it", "secret"),
    ("http://h/v1#secret", "", "after it", "secret"), ("h?key=secret", "", "after it", "secret"),
]  # fmt: skip


@pytest.mark.parametrize(("address", "key", "words", "absent"), ADDRESSES)
def test_an_address_that_is_none_gets_a_hint_and_keeps_its_secret(address, key, words, absent):
    with pytest.raises(BadInput) as caught:
        Client(address, key)
    assert words in str(caught.value) and (absent or "\n") not in str(caught.value)


# ── certificates ──


@contextmanager
def https(tmp_path, *more: str):
    """The address of a server that speaks https with a certificate which openssl makes as ``more`` says."""
    key, certificate = tmp_path / "key.pem", tmp_path / "own.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate]
    subprocess.run([*made, "-subj", "/CN=localhost", *more], check=True, capture_output=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_: None
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"https://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


NAMED, OTHER = ("-addext", "subjectAltName=IP:127.0.0.1"), ("-addext", "subjectAltName=DNS:other.org")


@pytest.mark.parametrize(("more", "is_trusted", "words"), [
    (NAMED, False, "self-signed certificate); if you trust it, put"), (OTHER, True, "write the address with a name"),
    (NAMED, True, "has no /v1/models"),
])  # fmt: skip
def test_a_certificate_that_is_not_trusted_is_called_that(more, is_trusted, words, tmp_path, monkeypatch):
    with https(tmp_path, *more) as address:
        if is_trusted:
            monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "own.pem"))
        said = sentence(address, "secret")
    assert words in said and "http://" not in said


def test_a_certificate_of_another_time_is_told():
    for code, why, advice in ((9, "not yet valid", "check the clock"), (10, "expired", "needs a new one")):
        error = ssl.SSLCertVerificationError(1, why)
        error.verify_code, error.verify_message = code, why
        said = str(Client("https://h")._fault(error, None, False, False))
        assert f"is not trusted ({why})" in said and advice in said


def test_http_and_https_at_each_others_port_are_told(tmp_path):
    with https(tmp_path, *NAMED) as address:
        plain = address.replace("https", "http")
        assert f"If it speaks https, write {address}." in sentence(plain)
    with serving(MODELS) as address:
        secure = address.replace("http", "https")
        assert "cannot be reached by https (" in sentence(secure)
        assert f"If it speaks http, write {address}." in sentence(secure, "secret")


@pytest.mark.parametrize(("host", "key", "is_advised"), [
    ("api.host.org", "", False), ("api.host.org", "k", False), ("192.168.1.5", "k", False), ("8.8.8.8", "", False),
    ("192.168.1.5", "", True), ("localhost", "k", True), ("127.0.0.2", "k", True),
])  # fmt: skip
def test_no_key_is_advised_onto_a_line_that_others_read(host, key, is_advised):
    fault = Client(f"https://{host}", key)._fault(ssl.SSLError(1, "wrong version number"), None, False, False)
    assert ("http://" in str(fault)) == is_advised


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_redirect_gets_no_key(status, scheme):
    other = []
    with serving({}, other) as elsewhere:
        goal = elsewhere.replace("http", scheme) + "/v1/models"
        with serving({"/v1/models": (status, goal)}) as address:
            said = sentence(address, "secret")
    assert not other and "which is not followed" in said and (elsewhere[4:] in said) == (scheme == "https")


# ── proxies ──


def test_a_proxy_is_asked_for_http_and_https(monkeypatch):
    asked = []
    answers = {"http://models.invalid/v1/models": '{"data": []}'}
    with serving(answers, asked) as proxy:
        for name in ("HTTP_PROXY", "HTTPS_PROXY"):
            monkeypatch.setenv(name, proxy.replace("http://", "http://me:p%40ss@"))
        assert Client("http://models.invalid", "secret").get_json("/v1/models") == {"data": []}
        assert asked[0][1]["Proxy-Authorization"] == "Basic bWU6cEBzcw==" and asked[0][1]["Host"] == "models.invalid"
        said = sentence("https://models.invalid", "secret")  # the stand-in has no CONNECT
        assert "does not lead to https://models.invalid" in said and "501" in said and "NO_PROXY=models." in said
        assert "p%40ss" not in said and "p@ss" not in said
        with serving(MODELS) as address:  # this computer's own servers need none
            assert Client(address).get_json("/v1/models") == {"data": []} and len(asked) == 1


@pytest.mark.parametrize(("proxy", "words"), [
    ("socks5://127.0.0.1:1080", "the only kind"), ("https://127.0.0.1:1", "the only kind"),
    ("http://h:x", "the only kind"),
    ("127.0.0.1:9", "proxy 127.0.0.1:9"), ("http://127.0.0.1:9", "NO_PROXY=models.invalid asks"),
])  # fmt: skip
@pytest.mark.parametrize("name", ["https_proxy", "ALL_PROXY"])
def test_a_proxy_that_cannot_be_used_is_named(name, proxy, words, monkeypatch):
    monkeypatch.setenv(name, proxy)
    assert words in sentence("https://models.invalid")
    monkeypatch.setenv("NO_PROXY", "other.org, .invalid")
    assert "No server answers at https://models.invalid" in sentence("https://models.invalid")


# ── silence ──


@contextmanager
def dripping(*parts: bytes, pause: float):
    """The address of a server that sends each part and then another byte of the last one after every pause."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            connection, _ = listener.accept()
            with connection:
                connection.recv(2**16)
                try:
                    connection.sendall(b"".join(parts[:-1]))
                    while True:
                        connection.sendall(parts[-1])
                        time.sleep(pause)
                except OSError:
                    pass

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("parts", [
    (HEAD, b"x"), (HEAD, b"X-A: b\r\n"), (b"HTTP/1.1 100 Continue\r\n\r\n",), (HEAD + b"\r\n", b"x"),
    (CHUNKED, b"0"), (CHUNKED + b"0\r\n", b"a: b\r\n"),
    (HEAD + b"Content-Length: 900\r\n\r\n", b": keep-alive\n\n"),
], ids=["header", "headers", "continue", "body", "chunk size", "trailers", "comments"])  # fmt: skip
def test_a_server_that_drips_is_given_up_at_the_limit(parts):
    start = time.monotonic()
    with dripping(*parts, pause=0.05) as address:
        said = sentence(address, seconds=0.6)
    assert "not complete after 0.6 s" in said and "--time-limit" in said and 0.5 < time.monotonic() - start < 3


def test_the_limit_is_of_the_whole_answer_and_not_of_each_byte():
    start = time.monotonic()
    with dripping(HEAD + b"\r\n", b"x", pause=0.9) as address:
        assert "not complete" in sentence(address, seconds=1)
    assert time.monotonic() - start < 1.6


def test_a_server_may_be_silent_as_long_as_the_limit(monkeypatch):
    monkeypatch.setattr(http, "CONNECT", 0.2)

    def late(_):
        time.sleep(0.6)
        return ANSWER

    trace, fault = recorded({"/v1/completions": late}, chat=False, seconds=5)
    assert trace.text == "One" and not fault and trace.finished.ttft > 0.5
    with pytest.raises(Unavailable, match=r"not complete after 0\.3 s"):
        recorded({"/v1/completions": late}, chat=False, seconds=0.3)


def test_a_long_prompt_may_be_read_late(monkeypatch):
    monkeypatch.setattr(http, "CONNECT", 0.2)
    prompt = "x" * 2**24
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            connection, _ = listener.accept()
            time.sleep(0.6)
            with connection, connection.makefile("rb") as asked:
                head = [*iter(asked.readline, b"\r\n")]
                asked.read(next(int(line[15:]) for line in head if line.startswith(b"Content-Length:")))
                connection.sendall(HEAD + b"\r\n{}")

        threading.Thread(target=serve, daemon=True).start()
        assert Client(f"http://127.0.0.1:{listener.getsockname()[1]}").post_json("/v1/x", {"prompt": prompt}) == {}


# ── fields that a strict server refuses ──


def strict(*refused: str, status=400, words="Unrecognized request arguments supplied: {}"):
    """A server that refuses these fields, as OpenAI's API words it."""

    def answer(asked):
        if bad := [name for name in refused if name in asked]:
            return status, json.dumps({"error": {"message": words.format(", ".join(bad))}})
        return ANSWER

    return MODELS | {"/v1/completions": answer, "/v1/chat/completions": answer}


@pytest.mark.parametrize("refused", [
    ("stream_options",), ("return_token_ids", "timings_per_token"), ("logprobs",), ("top_logprobs",), ("seed",),
])  # fmt: skip
@pytest.mark.parametrize("status", [400, 422])
def test_a_field_that_is_refused_is_left_out_and_noted(refused, status):
    asked = []
    with serving(strict(*refused, status=status), asked) as address:
        recorder = Recorder(Client(address))
        traces = [recorder.record(ServerRequest("m", "x", logprobs=True))[0] for _ in range(2)]
    note = next(each for each in traces[1].started.server.notes if "refuses" in each)
    assert all(name in note for name in refused) and traces[0].text == "One"
    bodies = [body for path, _, body in asked if "completions" in path]
    assert len(bodies) == 3 and not set(refused) & bodies[2].keys(), "the second prompt is not refused again"
    assert {"model", "messages", "max_tokens", "temperature", "stream"} <= bodies[2].keys()


def test_refused_fields_that_are_not_named_are_tried_without():
    trace, _ = recorded(strict("timings_per_token", words="Bad request"))
    assert trace.text == "One" and "timings_per_token" in " ".join(trace.started.server.notes)


@pytest.mark.parametrize("field", ["temperature", "max_tokens", "messages"])
def test_a_field_that_is_needed_is_not_left_out(field):
    asked = []
    with serving(strict(field), asked) as address, pytest.raises(Unavailable, match=rf"\(400\): Unrec.*: {field}\."):
        client = Client(address)
        Recorder(client).record(ServerRequest("m", "x"))
    assert not client.refused, "another reason refuses no field"


def test_a_refusal_names_the_field_as_pydantic_does():
    detail = [{"type": "extra_forbidden", "loc": ["body", "temperature"], "msg": "Extra inputs are not permitted"}]
    answers = MODELS | {"/v1/completions": (422, json.dumps({"detail": detail}))}
    with pytest.raises(Unavailable, match=r"\(422\): body\.temperature: Extra inputs are not permitted\."):
        recorded(answers, chat=False)


@pytest.mark.parametrize(("status", "quoted"), [(403, True), (429, True), (503, True), (500, True), (401, False)])
def test_a_refusal_has_the_servers_words_but_never_the_key(status, quoted):
    body = json.dumps({"error": {"message": "Only over HTTPS, sk-secret."}})
    with serving({"/v1/models": (status, body)}) as address:
        said = sentence(address, "sk-secret")
    assert f"({status})" in said and ("Only over HTTPS, …." in said) == quoted and "sk-secret" not in said


def test_a_model_that_does_not_exist_is_told_in_the_servers_words():
    missing = (404, '{"error": {"message": "The model `m` does not exist."}}')
    with pytest.raises(Unavailable, match=r"\(404\): The model `m` does not exist\."):
        recorded(MODELS | {"/v1/chat/completions": missing})


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 500, 502])
def test_a_gateway_need_not_let_the_other_paths_through(status):
    answers = dict.fromkeys(("/get_server_info", "/props", "/version", "/metrics"), (status, "http://elsewhere/login"))
    trace, _ = recorded(
        answers | {"/v1/models": '{"data": [{"owned_by": "vllm"}]}', "/v1/completions": ANSWER}, chat=False
    )
    assert trace.started.server.engine == "vLLM"
    trace, _ = recorded(answers | {"/v1/completions": ANSWER}, chat=False)
    assert trace.started.server.engine == "server"

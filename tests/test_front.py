"""The document on its way out: packed where the browser takes it, one script more, everything else untouched."""

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import HTMLResponse, PlainTextResponse, StreamingResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from app.front import NO_CLOCK, Front

PAGE = "<html><head><title>é</title></head><body>" + "word " * 5000 + "</body></html>"


def pieces():
    yield from (PAGE[:10].encode(), PAGE[10:].encode())


@pytest.fixture(scope="module")
def client():
    routes = [
        Route("/", lambda request: HTMLResponse(PAGE)),
        Route("/other", lambda request: HTMLResponse(PAGE)),
        Route("/words", lambda request: PlainTextResponse("<head>")),
    ]
    return TestClient(Starlette(routes=routes, middleware=[Middleware(Front)]))


def test_the_document_is_packed_and_its_first_script_is_ours(client):
    packed = client.get("/", headers={"Accept-Encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip" and int(packed.headers["content-length"]) < len(PAGE) / 10
    plain = client.get("/", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers and int(plain.headers["content-length"]) == len(plain.content)
    assert packed.text == plain.text == PAGE.replace("<head>", "<head>" + NO_CLOCK.decode())


def test_what_is_asked_about_the_document_without_fetching_it_is_answered(client):
    assert client.head("/").status_code == 200 and client.head("/").content == b""


def test_a_document_that_comes_in_pieces_is_whole():
    streamed = Starlette(
        routes=[Route("/", lambda request: StreamingResponse(pieces()))], middleware=[Middleware(Front)]
    )
    assert TestClient(streamed).get("/").text == PAGE.replace("<head>", "<head>" + NO_CLOCK.decode())


def test_nothing_else_is_touched(client):
    assert client.get("/other").text == PAGE and "content-encoding" not in client.get("/other").headers
    assert client.get("/words").text == "<head>" and client.get("/nowhere").status_code == 404

"""The document on its way out: packed where the browser takes it, one script more. Its scripts and styles: packed and
remembered. Everything else untouched."""

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import HTMLResponse, PlainTextResponse, StreamingResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from app.front import FOR_GOOD, NO_CLOCK, Front

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
    asked = client.head("/")
    assert asked.status_code == 200 and asked.content == b""
    assert asked.headers["content-length"] == client.get("/").headers["content-length"]


def test_a_document_that_comes_in_pieces_is_whole():
    streamed = Starlette(
        routes=[Route("/", lambda request: StreamingResponse(pieces()))], middleware=[Middleware(Front)]
    )
    assert TestClient(streamed).get("/").text == PAGE.replace("<head>", "<head>" + NO_CLOCK.decode())


@pytest.fixture
def asked():
    return []


@pytest.fixture
def files(asked):
    """Gradio's files as a server would answer for them; ``asked`` are the paths that reached it."""

    def file(request):
        asked.append(request.url.path)
        if "Missing" in request.url.path:
            return PlainTextResponse("not here", 404)
        if request.headers.get("if-none-match") == "same":
            return PlainTextResponse("", 304)
        return PlainTextResponse(SCRIPT, headers={"ETag": "same"})

    routes = [Route(where, file) for where in ("/assets/{name:path}", "/file/{name:path}")]
    return TestClient(Starlette(routes=routes, middleware=[Middleware(Front)]))


SCRIPT = "const word = 1;\n" * 2000


@pytest.mark.parametrize("name", ["Index-D54Utk5o.js", "iframe.resizer-WpXJfu_P.css"])
def test_a_file_that_is_named_by_its_hash_is_packed_once_and_for_good(files, asked, name):
    for _ in range(3):
        packed = files.get(f"/assets/{name}", headers={"Accept-Encoding": "gzip, br"})
        assert packed.text == SCRIPT and packed.headers["content-encoding"] == "gzip"
        assert int(packed.headers["content-length"]) < len(SCRIPT) / 10 and packed.headers["etag"] == "same"
        assert packed.headers["cache-control"] == FOR_GOOD
    assert len(asked) == 1
    for _ in range(2):
        plain = files.get(f"/assets/{name}", headers={"Accept-Encoding": "identity"})
        assert plain.text == SCRIPT and "content-encoding" not in plain.headers
    assert len(asked) == 2


def test_who_asks_for_the_document_is_told_of(asked):
    routes = [Route(where, lambda request: HTMLResponse(PAGE)) for where in ("/", "/assets/{name}", "/other")]
    client = TestClient(Starlette(routes=routes, middleware=[Middleware(Front, opens=lambda: asked.append("opens"))]))
    for path in ("/other", "/assets/Index-D54Utk5o.js", "/", "/other", "/"):
        client.get(path)
    assert asked == ["opens"] * 2


def test_two_files_are_not_taken_for_each_other(files, asked):
    for name in ("Index-aaaaaaaa.js", "Index-bbbbbbbb.js", "Index-aaaaaaaa.js"):
        assert files.get(f"/assets/{name}").text == SCRIPT
    assert asked == ["/assets/Index-aaaaaaaa.js", "/assets/Index-bbbbbbbb.js"]


def test_a_file_that_is_not_here_may_come(files, asked):
    for _ in range(2):
        missing = files.get("/assets/Missing-D54Utk5o.js")
        assert missing.status_code == 404 and missing.text == "not here" and "cache-control" not in missing.headers
    assert len(asked) == 2


@pytest.mark.parametrize(
    "header, status",
    [({"If-None-Match": "same"}, 304), ({"Range": "bytes=0-5"}, 200), ({"If-Modified-Since": "x"}, 200)],
)
def test_a_question_about_a_file_goes_to_whoever_has_it(files, asked, header, status):
    for _ in range(2):
        assert files.get("/assets/Index-D54Utk5o.js", headers=header).status_code == status
    assert files.get("/assets/Index-D54Utk5o.js").status_code == 200 and len(asked) == 3
    assert files.get("/assets/Index-D54Utk5o.js", headers=header).status_code == status and len(asked) == 4
    assert files.head("/assets/Index-D54Utk5o.js").status_code == 200 and len(asked) == 5


@pytest.mark.parametrize(
    "path", ["/assets/plain.js", "/assets/KaTeX-D54Utk5o.ttf", "/file/Index-D54Utk5o.js", "/assets/Index-D54Utk5o.jsx"]
)
def test_what_may_change_is_never_remembered(files, asked, path):
    for _ in range(2):
        assert "cache-control" not in files.get(path).headers
    assert len(asked) == 2


def test_whoever_stands_further_out_changes_no_later_answer():
    """Gradio's own middleware adds headers to what it lets through."""

    class Outer:
        def __init__(self, app):
            self.app = app

        async def __call__(self, scope, receive, send):
            async def more(message):
                if message["type"] == "http.response.start":
                    message["headers"].append((b"x-more", b"1"))
                else:
                    message["body"] += b"!"
                await send(message)

            await self.app(scope, receive, more)

    inner = Starlette(routes=[Route("/assets/{name}", lambda request: PlainTextResponse("short"))])
    client = TestClient(Outer(Front(inner)))
    for _ in range(3):
        answer = client.get("/assets/Index-D54Utk5o.js")
        assert answer.headers.get_list("x-more") == ["1"] and answer.content == b"short!"


def test_nothing_else_is_touched(client):
    assert client.get("/other").text == PAGE and "content-encoding" not in client.get("/other").headers
    assert client.get("/words").text == "<head>" and client.get("/nowhere").status_code == 404

"""The document: compressed where the browser accepts it, with one script first. Hashed assets: compressed, cacheable.
Every other response is untouched."""

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import HTMLResponse, PlainTextResponse, StreamingResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from app.server.gradio_patches import SCRIPT as PATCH
from app.server.middleware import IMMUTABLE, PageMiddleware

PAGE = "<html><head><title>é</title></head><body>" + "word " * 5000 + "</body></html>"
SCRIPT = "const word = 1;\n" * 2000


def served(routes: dict) -> TestClient:
    routes = [Route(path, answer) for path, answer in routes.items()]
    return TestClient(Starlette(routes=routes, middleware=[Middleware(PageMiddleware)]))


def html(request):
    return HTMLResponse(PAGE)


@pytest.fixture(scope="module")
def client():
    halves = PAGE[:10].encode(), PAGE[10:].encode()  # patched as a whole
    streamed = lambda request: StreamingResponse(iter(halves))  # noqa: E731
    return served({"/": streamed, "/other": html, "/words": lambda request: PlainTextResponse("<head>")})


def test_the_document_is_compressed_and_its_first_script_is_ours(client):
    packed = client.get("/", headers={"Accept-Encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip" and int(packed.headers["content-length"]) < len(PAGE) / 10
    plain = client.get("/", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers and int(plain.headers["content-length"]) == len(plain.content)
    assert packed.text == plain.text == PAGE.replace("<head>", "<head>" + PATCH.decode())


@pytest.fixture(scope="module")
def files():
    """A server that answers like Gradio's for its files."""

    def file(request):
        if "Missing" in request.url.path:
            return PlainTextResponse("not here", 404)
        if request.headers.get("if-none-match") == "same":
            return PlainTextResponse("", 304)
        if "range" in request.headers:
            return PlainTextResponse(SCRIPT[:1000], 206)
        return PlainTextResponse(SCRIPT, headers={"ETag": "same"})

    return served({"/assets/{name:path}": file, "/file/{name:path}": file})


@pytest.mark.parametrize("name", ["Index-D54Utk5o.js", "iframe.resizer-WpXJfu_P.css"])
def test_a_hashed_asset_is_compressed_and_cached_for_good(files, name):
    packed = files.get(f"/assets/{name}", headers={"Accept-Encoding": "gzip, br"})
    assert packed.text == SCRIPT and packed.headers["content-encoding"] == "gzip"
    assert packed.headers["etag"] == "same" and packed.headers["cache-control"] == IMMUTABLE
    plain = files.get(f"/assets/{name}", headers={"Accept-Encoding": "identity"})
    assert plain.text == SCRIPT and "content-encoding" not in plain.headers
    revalidated = files.get(f"/assets/{name}", headers={"If-None-Match": "same"})
    assert revalidated.status_code == 304 and revalidated.headers["cache-control"] == IMMUTABLE


@pytest.mark.parametrize(
    "path, status",
    [
        ("/assets/plain.js", 200), ("/assets/KaTeX-D54Utk5o.ttf", 200), ("/file/Index-D54Utk5o.js", 200),
        ("/assets/Index-D54Utk5o.jsx", 200), ("/assets/Missing-D54Utk5o.js", 404),
    ],
)  # fmt: skip
def test_a_file_that_may_change_or_is_missing_is_not_cached(files, path, status):
    answer = files.get(path)
    assert answer.status_code == status and "cache-control" not in answer.headers


def test_every_other_response_is_untouched(client, files):
    assert client.get("/other").text == PAGE and "content-encoding" not in client.get("/other").headers
    assert client.get("/words").text == "<head>" and client.get("/nowhere").status_code == 404
    part = files.get("/assets/Index-D54Utk5o.js", headers={"Range": "bytes=0-999", "Accept-Encoding": "gzip"})
    assert part.status_code == 206 and part.text == SCRIPT[:1000] and "content-encoding" not in part.headers

"""What other sites make a browser send is refused: their requests, and any for a name that they gave this machine."""

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from app.server.own_site import OwnSite, host_name

HERE = "127.0.0.1:7860"


def status(method="POST", host=HERE, names=(), path="/gradio_api/queue/join", **headers: str) -> int:
    """The status of a request with these headers, an underscore for each dash."""
    routes = [Route("/{path:path}", lambda request: PlainTextResponse("done"), methods=["GET", "POST", "DELETE"])]
    client = TestClient(Starlette(routes=routes, middleware=[Middleware(OwnSite, names=names)]))
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = client.request(method, path, headers={"Host": host} | sent)
    assert answer.status_code == 200 or "SPECLENS_HOSTS" in answer.text
    return answer.status_code


@pytest.mark.parametrize("host", [
    HERE, "localhost", "localhost:7860", "LOCALHOST.", "[::1]:7860", "[fe80::1]", "192.168.1.7:7860", "0.0.0.0:1",
    "speclens", "speclens:7860", "demo.localhost:7860", "lab-pc.local", "host.docker.internal:7860",
])  # fmt: skip
def test_a_name_that_no_other_site_can_have_is_answered(host):
    assert status("GET", host) == status("POST", host) == 200


@pytest.mark.parametrize("host", [
    "evil.example", "evil.example:7860", "127.0.0.1.evil.example", "localhost.evil.example", "evil.example.",
    "7.0.0.1.nip.io", "[::1", "@", "evil.example:port",
])  # fmt: skip
def test_a_foreign_name_is_refused_whatever_is_asked(host):
    assert status("GET", host) == status("POST", host) == status("GET", host, path="/metrics") == 403


def test_an_operator_lists_the_names_of_a_server():
    names = ("demo.example.edu", "https://other.example.org:8443", "*.class.example.edu")
    for host in ("demo.example.edu", "DEMO.example.edu:443", "other.example.org", "a.class.example.edu:1"):
        assert status("GET", host, names) == status("POST", host, names) == 200
    for host in ("example.edu", "evil-demo.example.edu", "class.example.edu", "demo.example.edu.evil.example"):
        assert status("GET", host, names) == 403
    assert status("GET", "any.example", ("*",)) == 200


ELSEWHERE = [
    {"Sec_Fetch_Site": "cross-site"}, {"Sec_Fetch_Site": "cross-site", "Origin": "https://evil.example"},
    {"Origin": "https://evil.example"}, {"Origin": "null"}, {"Origin": ""}, {"Origin": "http://127.0.0.1.evil.example"},
    {"Sec_Fetch_Site": "cross-site", "Origin": "http://localhost:7860"}, {"Origin": "http://[::1"},
]  # fmt: skip


@pytest.mark.parametrize("headers", ELSEWHERE)
def test_a_request_from_a_page_of_another_site_is_refused(headers):
    for path in ("/gradio_api/queue/join", "/api/run", "/gradio_api/upload"):
        assert status(path=path, **headers) == status("DELETE", path=path, **headers) == 403
    assert status("GET", **headers) == 200, "reading changes nothing"


@pytest.mark.parametrize("headers", [
    {}, {"Sec_Fetch_Site": "same-origin", "Origin": "http://127.0.0.1:7860"}, {"Sec_Fetch_Site": "none"},
    {"Origin": "http://127.0.0.1:7860"}, {"Sec_Fetch_Site": "same-site", "Origin": "http://127.0.0.1:3000"},
    {"Origin": "https://lab.example.edu", "X_Forwarded_Host": "lab.example.edu"},
    {"Sec_Fetch_Site": "same-origin", "Origin": "https://lab.example.edu"},  # a proxy that passes no name on
])  # fmt: skip
def test_programs_and_the_page_itself_are_answered(headers):
    assert status(**headers) == 200


def test_a_listed_site_may_send_requests_from_its_pages():
    asked = {"Sec_Fetch_Site": "cross-site", "Origin": "https://course.example.edu"}
    assert status(**asked) == 403 and status(names=("course.example.edu",), **asked) == 200


def test_a_refusal_is_json_for_programs():
    client = TestClient(OwnSite(PlainTextResponse("done")))
    answer = client.post("/api/run", headers={"Host": "evil.example"})
    assert answer.status_code == 403 and "does not answer to the name evil.example" in answer.json()["error"]


@pytest.mark.parametrize(("address", "name"), [
    ("A.b:80", "a.b"), ("http://user@a.b:80/c", "a.b"), ("[::1]:8", "::1"), ("", None), ("[", None), ("null", "null"),
])  # fmt: skip
def test_a_name_is_read_from_a_host_and_an_origin(address, name):
    assert host_name(address) == name

"""Where the page listens: any host, a port that is free, and never through a proxy."""

import os
import socket
import subprocess
import sys
from urllib.request import ProxyHandler, build_opener

import pytest
from paths import ROOT

from app.server.address import Address, address_from, bypass_proxy, check_free, check_root
from engine.errors import BadInput, Unavailable


@pytest.mark.parametrize(
    "environment, address",
    [
        ({}, Address("127.0.0.1", 7860)),
        ({"SPACE_ID": "a/b"}, Address("0.0.0.0", 7860)),
        ({"HOST": "::", "PORT": "81"}, Address("::", 81)),
        ({"HOST": "[::1]"}, Address("::1", 7860)),
        ({"GRADIO_SERVER_NAME": "::", "GRADIO_SERVER_PORT": "82"}, Address("::", 82)),
        ({"PORT": ""}, Address("127.0.0.1", 7860)),
    ],
)
def test_the_environment_names_the_address(environment, address):
    assert address_from(environment) == address


def test_an_ipv6_address_is_in_brackets_for_gradio():
    assert Address("::", 1).server_name == "[::]" and Address("0.0.0.0", 1).server_name == "0.0.0.0"


def test_no_port_and_a_root_path_without_a_slash_are_refused():
    for port in ("http", "0", "65536", "-1", "7860 "):
        with pytest.raises(BadInput, match="set PORT to a number"):
            address_from({"PORT": port})
    for path in ("", "/speclens", "https://lab.example.edu/speclens"):
        check_root({"GRADIO_ROOT_PATH": path})
    with pytest.raises(BadInput, match="begin it with a slash"):
        check_root({"GRADIO_ROOT_PATH": "speclens"})


@pytest.fixture
def used_port():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen(1)
        yield other.getsockname()[1]


def test_a_port_in_use_is_a_sentence(used_port):
    for host, words in (
        ("127.0.0.1", f"Another program listens at port {used_port} of 127.0.0.1"),
        ("192.0.2.7", "no address"),
        ("no.such.host.invalid", "no address of this machine"),
    ):
        with pytest.raises(Unavailable, match=words):
            check_free(Address(host, used_port))


@pytest.mark.slow
def test_the_app_ends_with_that_sentence(used_port):
    done = subprocess.run(
        [sys.executable, "app.py"], cwd=ROOT, env=os.environ | {"PORT": str(used_port), "HOST": "127.0.0.1"},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 1 and done.stderr.strip().splitlines()[-1].startswith("Another program listens at port")
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("host", ["127.0.0.1", "::"])
def test_the_page_is_served_beside_a_proxy_that_does_not_answer(host):
    """Gradio's own requests must not be sent there."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        port = probe.getsockname()[1]
    proxy = "http://127.0.0.1:9"
    variables = os.environ | {"HOST": host, "PORT": str(port), "http_proxy": proxy, "HTTPS_PROXY": proxy}
    variables |= {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests/helpers'}", "PYTHONUNBUFFERED": "1"}
    server = subprocess.Popen(
        [sys.executable, "-c", SERVE], cwd=ROOT, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip
    try:
        lines = []
        while lines[-1:] != ["served\n"] and (line := server.stdout.readline()):
            lines.append(line)
        assert lines and lines[-1] == "served\n", "".join(lines)
        home = f"http://[::1]:{port}/" if ":" in host else f"http://{host}:{port}/"
        assert build_opener(ProxyHandler({})).open(home, timeout=10).status == 200
    finally:
        server.kill()
        server.wait(10)


SERVE = """
import os, time
from app.server.address import address_from, bypass_proxy, check_free
import gradio as gr
address = address_from(os.environ)
check_free(address)
bypass_proxy(os.environ, address.host)
with gr.Blocks(analytics_enabled=False) as demo:
    gr.HTML("x")
demo.launch(server_name=address.server_name, server_port=address.port, prevent_thread_lock=True, ssr_mode=False)
print("served", flush=True)
time.sleep(60)
"""


def test_this_machine_is_excepted_from_a_proxy_only():
    environment = {"HTTP_PROXY": "http://proxy", "no_proxy": "intranet,localhost"}
    bypass_proxy(environment, "::")
    assert environment["no_proxy"] == environment["NO_PROXY"] == "intranet,localhost,127.0.0.1,::1,::"
    without = {}
    bypass_proxy(without, "::")
    assert without == {}

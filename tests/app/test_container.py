"""The container's steps without docker: its files, its torch without CUDA, its start with its environment, its health
check, and a reverse proxy with a path before it. The install step is done by `make rehearse-space`."""

import json
import os
import re
import shlex
import subprocess
import sys
import urllib.request

import pytest
from gradio_client import Client
from packaging.requirements import Requirement
from paths import ROOT
from reverse_proxy import proxy
from server import APP, FAKE_APP, serving

from app.publish import CPU_ONLY

TEXT = (ROOT / "Dockerfile").read_text()
STEPS = [step for step in re.sub(r"\\\n\s*", " ", TEXT).splitlines() if step and not step.startswith("#")]


def step(name: str, nth: int = 0) -> str:
    return [line.split(" ", 1)[1] for line in STEPS if line.startswith(f"{name} ")][nth]


def test_the_files_that_it_copies_are_here():
    *sources, _ = step("COPY").split()
    assert all((ROOT / name).is_file() for name in sources)
    assert all(f"-r {name}" in step("RUN", 1) for name in ("$TORCH", "requirements.txt"))
    assert step("ARG") == "TORCH=pre-requirements.txt"


def torch_of(name: str) -> tuple[str, Requirement]:
    """The whole file and its line on torch."""
    text = (ROOT / name).read_text()
    (line,) = (line for line in text.splitlines() if line.startswith("torch"))
    return text, Requirement(line)


def test_cpu_torch_is_pinned_and_satisfies_the_later_requirements():
    """A Space installs the same. test_publish.py checks that a GPU gets no pre-requirements, so torch with CUDA."""
    (pre, cpu), (whole, any_device) = torch_of(CPU_ONLY), torch_of("requirements.txt")
    (pin,) = cpu.specifier
    assert pin.operator == "==" and pin.version.endswith("+cpu") and "https://download.pytorch.org/whl/cpu" in pre
    assert any_device.specifier.contains(pin.version), "pip would install another, with CUDA"
    assert "+cpu" not in str(any_device) and "index-url" not in whole, "alone it brings torch with CUDA"


def environment(weights) -> dict[str, str]:
    """The image's ENV, with the volume's place in this test."""
    pairs = dict(pair.split("=", 1) for pair in shlex.split(step("ENV")))
    return {name: value.replace(step("VOLUME"), str(weights)) for name, value in pairs.items() if name != "PORT"}


def health_check(port: str) -> int:
    command = step("HEALTHCHECK").split(" CMD ", 1)[1]
    assert command.startswith("python ")
    command = f"{shlex.quote(sys.executable)} {command.removeprefix('python ')}"
    return subprocess.run(["sh", "-c", command], env=os.environ | {"PORT": port}, stderr=subprocess.DEVNULL).returncode


@pytest.mark.slow
def test_it_starts_with_its_environment_and_is_healthy(tmp_path):
    assert step("USER") == "lens"
    assert json.loads(step("CMD")) == ["python", "app.py"] and "SPECLENS_CACHE=/weights" in step("ENV")
    assert "SPECLENS_OWN_MODELS=0" in step("ENV"), "strangers name no folders"
    assert "SPECLENS_LAB_SECONDS=0" in step("ENV"), "nor do they hold the cores for half an hour"
    with serving(APP, tmp_path / "log", **environment(tmp_path / "weights")) as url:
        port = url.rsplit(":", 1)[1]
        assert health_check(port) == 0
        with urllib.request.urlopen(f"{url}/healthz", timeout=5) as answer:
            assert answer.read() == b"ok"
    assert health_check(port) != 0, "of a page that has ended"


@pytest.mark.slow
@pytest.mark.browser  # it shares their server's port range and gradio's client
def test_a_run_behind_a_proxy_with_a_path(tmp_path):
    """The proxy cuts the path off, and GRADIO_ROOT_PATH names it, as docs/container.md says."""
    document = (ROOT / "docs" / "container.md").read_text()
    path = re.search(r"location (/\w+)/ \{", document)[1]
    assert f"-e GRADIO_ROOT_PATH={path} -e SPECLENS_HOSTS=" in document and f"handle_path {path}/*" in document
    with serving(FAKE_APP, tmp_path / "log", GRADIO_ROOT_PATH=path) as url, proxy(url, path) as outside:
        with urllib.request.urlopen(outside, timeout=10) as answer:
            page = answer.read().decode()
        address = outside.removesuffix("/")
        assert re.search(rf'"root":"[^"]*{path}"', page.replace(" ", "")), "the page knows its path"
        for path in ("_state", "healthz", "metrics", "config"):
            with urllib.request.urlopen(f"{address}/{path}", timeout=10) as answer:
                assert answer.status == 200
        text, figures, _ = Client(outside, verbose=False).predict("Hello", tokens=8, api_name="/run")
        assert text and figures["status"] == "finished"

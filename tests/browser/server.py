"""Starts the app as a person would, on a free port, and waits until it answers."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

from paths import ROOT

APP = [sys.executable, "app.py"]
FAKE_APP = [sys.executable, "tests/browser/fake_app.py"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def serving(command: list[str], log: Path, seconds: float = 240, **environment: str):
    """Yields the address; ends the server afterwards. AssertionError with its log if it never answers. Offers no engine
    in the tab unless ``environment`` says so, because its files are made beside what many tests time."""
    port, path = free_port(), f"{ROOT}{os.pathsep}{ROOT / 'tests/helpers'}"
    variables = os.environ | {"PORT": str(port), "PYTHONPATH": path, "SPECLENS_TAB": "none"} | environment
    variables.pop("SPACE_ID", None)
    with log.open("w") as out:
        server = subprocess.Popen(command, cwd=ROOT, env=variables, stdout=out, stderr=subprocess.STDOUT)
        try:
            _wait(server, port, log, seconds)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.send_signal(signal.SIGTERM)
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()


def _wait(server, port: int, log: Path, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until and server.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=2):
                return
        except OSError:
            time.sleep(0.2)
    raise AssertionError(f"The server did not answer on port {port}:\n{log.read_text()}")


def change_fake(url: str, **settings) -> None:
    """Sets the made-up engine's behaviour; other settings go back to their defaults. ``stop`` ends its runs."""
    request = urllib.request.Request(f"{url}/fake", json.dumps(settings).encode(), method="POST")
    with urllib.request.urlopen(request, timeout=10):
        pass

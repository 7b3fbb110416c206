"""The registry of drafting methods: one file and one line make a method appear everywhere."""

import json
import subprocess
import sys

import pytest
from paths import ROOT

from engine.config import METHODS
from engine.drafters import drafter_class
from engine.drafters.base import Drafter

pytestmark = pytest.mark.xdist_group("registry")  # one process that registers a method


@pytest.fixture(scope="module")
def echo(tiny_pair, tmp_path_factory) -> dict:
    """Where the made-up method "echo" appears, in a process that registers it first."""
    folder = tmp_path_factory.mktemp("echo")
    command = [sys.executable, ROOT / "tests/helpers/echo_method.py", tiny_pair, folder]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr[-3000:] + result.stdout[-3000:]
    return json.loads(result.stdout.splitlines()[-1])


def test_a_new_method_runs_and_its_output_is_the_targets(echo):
    assert echo["drafted"] > 0 and echo["lossless"]


def test_a_new_method_is_on_the_command_line(echo):
    assert echo["pairs"] and echo["help"] and echo["sweep"]
    assert {"none", "echo"} <= set(echo["bench"])


def test_a_new_method_is_on_the_page(echo):
    assert echo["form"] == "echo" and echo["label"] == "echo: repeats the last token"
    controls = {"method", "sweep-methods", "theory-method", "lossless-method", "compare-method-1"}
    assert controls <= set(echo["controls"])
    assert echo["recipes"] == ["Not described yet for this method."]


@pytest.mark.parametrize("name", METHODS)
def test_every_line_of_the_registry_names_a_drafter(name):
    drafter = drafter_class(name)
    assert issubclass(drafter, Drafter) and drafter.name == name
    assert METHODS[name].title and METHODS[name].description

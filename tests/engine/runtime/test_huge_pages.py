"""Starts a program again with large memory pages: once, with its arguments, and not against a user's own setting."""

import os
import subprocess
import sys

import pytest
from paths import ROOT

from engine.runtime.huge_pages import SETTING, VARIABLE

CODE = """
import os, sys
from engine.runtime.huge_pages import *
restart_with_huge_pages()
print(os.environ[VARIABLE], sys.argv[1:], SETTING in open("/proc/self/environ").read())  # as the process began
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc is Linux's")
@pytest.mark.parametrize("own", [None, "glibc.malloc.arena_max=2"])
def test_a_program_starts_again_once_with_its_arguments(own):
    others = {name: value for name, value in os.environ.items() if name != VARIABLE}
    command = [sys.executable, "-c", CODE, "a b", "--c"]
    environment = others | ({VARIABLE: own} if own else {})
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    assert ended.stdout == f"{own or SETTING} ['a b', '--c'] {own is None}\n", ended.stderr

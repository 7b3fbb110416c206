"""The command line where something around it is missing: a stream, a locale, the current folder, a reader."""

import os
import subprocess
import sys

import pytest

from engine.files import ASSETS

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="the commands are a POSIX shell's")]
ENGINE = f"{sys.executable} -m engine"


def shell(command: str, **settings: str) -> subprocess.CompletedProcess:
    environment = os.environ | {"PYTHONPATH": str(ASSETS.parent)} | settings
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], env=environment, capture_output=True)
    assert b"Traceback" not in done.stderr and b"terminate called" not in done.stderr, done.stderr.decode()
    return done


def test_closed_streams_change_nothing():
    assert shell(f"{ENGINE} pairs >&-").returncode == 0
    assert shell(f"{ENGINE} pairs nonsense 2>&-").returncode == 2


def test_a_deleted_folder_is_named(tmp_path):
    (tmp_path / "gone").mkdir()
    done = shell(f"cd {tmp_path}/gone; rmdir {tmp_path}/gone; {ENGINE} pairs")
    assert done.returncode == 1 and done.stderr.decode().splitlines()[-1].startswith(
        "The current folder has been deleted"
    )


def test_a_reader_that_leaves_ends_the_run(tiny_pair):
    done = shell(f"{ENGINE} run aaaa --pair {tiny_pair} --raw --max-new-tokens 200 --method none | head -1")
    assert done.returncode in (0, 1) and done.stdout.count(b"\n") == 1


def test_the_locale_c_reads_the_prompt_as_utf_8(tiny_pair, tmp_path):
    trace = tmp_path / "t.json"
    command = f"{ENGINE} run 'Grüße 🙂' --pair {tiny_pair} --raw --max-new-tokens 2 --method none --trace {trace}"
    assert shell(command, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0").returncode == 0
    assert '"prompt":"Grüße 🙂"' in trace.read_text(encoding="utf-8")

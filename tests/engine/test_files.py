"""Files as other systems write them, and machines without a home folder."""

import os
import subprocess
import sys

import pytest
from sample_traces import small

from engine import files
from engine.errors import BadInput, Unavailable
from engine.trace.trace import from_json, to_json

TEXT = "Grüße 1, 2, 3\n🙂\n"
ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_text_is_read_in_any_encoding_of_unicode(tmp_path, encoding):
    file = tmp_path / "text.txt"
    file.write_bytes(TEXT.replace("\n", "\r\n").encode(encoding))
    assert files.read_text(file, "file") == TEXT
    file.write_bytes('{"a": "ü"}'.encode(encoding))
    assert files.read_json(file) == {"a": "ü"}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_trace_is_read_in_any_encoding_of_unicode(encoding):
    trace = small()
    assert from_json(to_json(trace).encode(encoding)) == trace


def test_text_in_another_encoding_is_refused_by_its_name(tmp_path):
    (tmp_path / "latin.txt").write_bytes("Grüße".encode("latin-1"))
    with pytest.raises(BadInput, match=r"The prompts .*latin.txt is not in UTF-8; save it in that encoding"):
        files.read_text(tmp_path / "latin.txt", "prompts")
    (tmp_path / "empty.txt").touch()
    assert files.read_text(tmp_path / "empty.txt", "prompts") == ""


WITHOUT_HOME = """
import pwd, sys
def unknown(*_): raise KeyError
pwd.getpwuid = pwd.getpwnam = unknown
from engine.tools.cli.main import main
sys.argv = ["engine", "pairs", *sys.argv[1:]]
main()
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="another system finds the home folder otherwise")
@pytest.mark.parametrize("pair", [[], ["smollm2-360m"]])
def test_a_user_without_a_home_folder_is_told_what_to_set(tmp_path, pair):
    unset = {"HOME", "HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME", "SPECLENS_CACHE"}
    environment = {name: value for name, value in os.environ.items() if name not in unset}

    def pairs(**settings):
        command = [sys.executable, "-c", WITHOUT_HOME, *pair]
        return subprocess.run(command, env=environment | settings, capture_output=True, text=True)

    refused = pairs()
    assert refused.returncode == 1 and refused.stderr.strip().splitlines() == [
        "This user has no home folder; set SPECLENS_CACHE to a folder for models."
    ]
    served = pairs(SPECLENS_CACHE=str(tmp_path))
    assert served.returncode == 0 and "smollm2-360m" in served.stdout and "Traceback" not in served.stderr


def test_a_home_folder_that_nobody_has_is_a_sentence(monkeypatch):
    with pytest.raises(BadInput, match="no home folder for '~nobody-here/x'; write the whole path"):
        files.expand_home("~nobody-here/x")
    monkeypatch.setenv("SPECLENS_CACHE", "~nobody-here/x")
    with pytest.raises(BadInput, match="write the whole path"):
        files.cache_root()
    monkeypatch.delenv("SPECLENS_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("pathlib.Path.home", lambda: (_ for _ in ()).throw(RuntimeError))
    if sys.platform != "win32":
        with pytest.raises(Unavailable, match="set SPECLENS_CACHE"):
            files.cache_root()

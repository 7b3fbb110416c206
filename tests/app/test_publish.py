"""Publishing a Space: the checks of a tree, and uploads by the real client to a hub on this machine."""

import hashlib
import importlib.metadata
import os
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from hubs import TOKEN, SpaceHub
from paths import ROOT

from app.publish import checks, upload
from engine.errors import BadInput, Unavailable

GIT = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
FRONT = """---
title: Small
short_description: A page
colorFrom: indigo
colorTo: blue
sdk: gradio
sdk_version: {version}
python_version: "3.11"
app_file: app.py
---
# Small
"""
GRADIO = importlib.metadata.version("gradio")


def git(root, *command):
    subprocess.run(["git", "-C", str(root), *command], check=True, capture_output=True, env=os.environ | GIT)


def commit(root):
    git(root, "add", "-A")
    git(root, "commit", "-qm", "x")


@pytest.fixture
def tree(tmp_path):
    """A checkout with two files that a git push would be refused for."""
    root = tmp_path / "tree"
    (root / "assets").mkdir(parents=True)
    (root / "README.md").write_text(FRONT.format(version=GRADIO))
    (root / "app.py").write_text("print('hello')")
    (root / "requirements.txt").write_text(f"torch==2.13.0\ngradio=={GRADIO}\n")
    (root / checks.CPU_ONLY).write_text("torch==2.13.0+cpu\n")
    (root / ".gitignore").write_text("out/\n")
    for name in ("one", "two"):
        (root / "assets" / f"{name}.bin").write_bytes(name.encode() + bytes(checks.PUSH_LIMIT))
    git(tmp_path, "init", "-q", str(root))
    commit(root)
    return root


@pytest.fixture
def hub(monkeypatch):
    from huggingface_hub.utils import _http

    pauses = SimpleNamespace(**{**vars(time), "sleep": lambda seconds: None})
    monkeypatch.setattr(_http, "time", pauses)  # of the client between tries
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with SpaceHub.serving(monkeypatch) as server:
        yield server


def send(tree, hub, name="alice/lens", **options):
    return upload.publish(upload.full_name(name), tree, checks.tracked(tree), **options)


def test_the_tracked_files_are_published_and_no_others(tree):
    (tree / "out").mkdir()
    (tree / "out" / "private.txt").write_text("mine")
    files = checks.tracked(tree)
    assert {file.path for file in files} == {
        ".gitignore", "README.md", "app.py", "assets/one.bin", "assets/two.bin", "pre-requirements.txt",
        "requirements.txt",
    }  # fmt: skip
    assert [file.path for file in files if file.is_large] == ["assets/one.bin", "assets/two.bin"]
    assert checks.problems(tree, files) == []
    left_out = set(files) - set(checks.tracked(tree, gpu=True))
    assert {file.path for file in left_out} == {checks.CPU_ONLY}, "a GPU gets no torch without CUDA"


def test_a_tree_that_is_not_clean_is_refused(tree, tmp_path):
    def refused(words):
        with pytest.raises(BadInput, match=words):
            checks.tracked(tree)

    (tree / "app.py").write_text("print('changed')")
    refused("app.py is not as it was committed")
    commit(tree)
    (tree / "new.txt").write_text("new")
    refused("new.txt is not as it was committed")
    (tree / "new.txt").unlink()
    (tree / "link").symlink_to("app.py")
    commit(tree)
    refused("link is a link or a submodule")
    (tree / "link").unlink()
    (tree / "out").mkdir()
    (tree / "out" / "x").write_text("x")
    git(tree, "add", "-f", "out/x")
    commit(tree)
    refused("out/x is tracked, but .gitignore names it")
    with pytest.raises(Unavailable, match="not a git checkout"):
        checks.tracked(tmp_path)


def test_what_a_space_could_not_start_with_is_named(tree):
    readme = (tree / "README.md").read_text()
    for old, new, words in (
        (f"sdk_version: {GRADIO}", "sdk_version: 5.0.0", "asks for gradio 5.0.0, but this environment has"),
        ("title: Small", "", "gives no title"),
        ("A page", "A page " * 20, "longer than 60 characters"),
        ("colorTo: blue", "colorTo: teal", "colorTo in README.md must be one of"),
        ("app_file: app.py", "app_file: main.py", "starts main.py, which is not there"),
    ):
        (tree / "README.md").write_text(readme.replace(old, new))
        assert any(words in problem for problem in checks.problems(tree, [])), words
    (tree / "README.md").write_text(readme)
    large = [checks.File("a", 2 * 10**9)] + [checks.File(f"b/{i}", 0) for i in range(10_001)]
    (tree / checks.CPU_ONLY).write_text("torch==2.12.0+cpu\n")
    found = "\n".join(checks.problems(tree, large))
    assert all(words in found for words in ("2.0 GB together", "folder b holds", "different versions of torch"))
    for text in ("no settings", "---\n- a\n- b\n---\n", "---\na: [\n---\n"):
        (tree / "README.md").write_text(text)
        with pytest.raises(BadInput, match="settings"):
            checks.front_matter(tree)


def test_this_repository_stays_small():
    """So that a plain git push takes all of it: 40 MiB at most, and no file of 10 MB (the hub's limit is 10 MiB)."""
    listed = subprocess.check_output(["git", "-C", str(ROOT), "ls-files", "-z"], text=True)
    sizes = {name: (ROOT / name).stat().st_size for name in listed.split("\0") if name and (ROOT / name).is_file()}
    assert {name: size for name, size in sizes.items() if size >= 10**7} == {}
    assert sum(sizes.values()) <= 40 * 2**20


def test_a_fresh_clone_of_this_repository_passes(tmp_path):
    """Up to the login, as a person follows docs/publishing.md."""
    git(tmp_path, "clone", "-q", str(ROOT), "clone")
    command = [sys.executable, "-m", "app.publish", "alice/lens"]
    env = os.environ | {"HF_TOKEN": "", "HF_HOME": str(tmp_path)}
    run = {"cwd": tmp_path / "clone", "env": env, "capture_output": True, "text": True}
    listed = subprocess.run([*command, "--dry-run"], **run)
    assert listed.returncode == 0, listed.stderr
    assert "app.py" in listed.stdout and "too large for a git push: 0." in listed.stdout
    refused = subprocess.run(command, **run)
    assert refused.returncode == 1 and refused.stderr.strip() == upload.LOGIN


def test_upload_brings_all_files_and_only_an_update_replaces_them(tree, hub):
    address = send(tree, hub, "lens")  # of the account
    files = hub.spaces["alice/lens"]
    assert address == f"{hub.url}/spaces/alice/lens"
    assert set(files) == {file.path for file in checks.tracked(tree)} | {".gitattributes"}
    assert files["app.py"] == (tree / "app.py").read_bytes()
    for name in ("one", "two"):
        data = (tree / "assets" / f"{name}.bin").read_bytes()
        assert files[f"assets/{name}.bin"] == hashlib.sha256(data).hexdigest() and data in hub.store.values()
    (tree / "app.py").rename(tree / "main.py")
    commit(tree)
    with pytest.raises(BadInput, match=r"alice/lens exists already; .*--update"):
        send(tree, hub)
    assert "app.py" in hub.spaces["alice/lens"]
    send(tree, hub, update=True)
    assert "app.py" not in hub.spaces["alice/lens"] and "main.py" in hub.spaces["alice/lens"]


def test_an_upload_that_was_cut_goes_on(tree, hub):
    hub.cut_after = 1
    with pytest.raises(Unavailable, match=r"broke off .*say it again: large files that have arrived are not sent"):
        send(tree, hub)
    assert list(hub.spaces["alice/lens"]) == [".gitattributes"] and len(hub.received) == 1
    hub.cut_after = None
    send(tree, hub, update=True)
    assert len(hub.received) == len(set(hub.received)) == 2 and "app.py" in hub.spaces["alice/lens"]


def test_a_malformed_name_is_refused_before_anything_is_sent(hub):
    for name in ("a/b/c", "sp ace", "a/..", "", "-a", "x" * 97):
        with pytest.raises(BadInput, match="cannot name a Space"):
            upload.full_name(name)


def refused(tree, words: str, name="alice/lens") -> None:
    with pytest.raises(Unavailable, match=words) as caught:
        upload.publish(name, tree, checks.tracked(tree))
    assert "\n" not in str(caught.value)


def test_what_the_hub_answers_is_one_sentence(tree, hub):
    refused(tree, "may not write to the Space bob/lens", "bob/lens")
    for status, words in (
        (401, "does not accept this login. Log in first"),
        (403, "may not write to the Space alice/lens"),
        (429, "takes no more requests"),
        (500, "The hub answered 500"),
    ):
        hub.refusal = status, ""
        refused(tree, words)


def test_a_hub_that_is_gone_and_a_login_that_is_missing_are_one_sentence(tree, hub, monkeypatch, tmp_path):
    hub.close()
    refused(tree, r"broke off \(.+\)")
    monkeypatch.setenv("HF_TOKEN", "")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "none"))
    with pytest.raises(Unavailable, match=r"^Log in first: `hf auth login`"):
        upload.full_name("alice/lens")

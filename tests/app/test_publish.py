"""Publishing a Space: the checks of a tree, and uploads by the real client to a hub on this machine."""

import hashlib
import importlib.metadata
import os
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from hubs import LIMIT, TOKEN, SpaceHub
from paths import ROOT

from app.publish import CPU_ONLY, LOGIN, check_versions, copy_committed, publish
from engine.errors import BadInput, Unavailable

GIT = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
GRADIO = importlib.metadata.version("gradio")
README = f"---\ntitle: Small\nsdk: gradio\nsdk_version: {GRADIO}\napp_file: app.py\n---\n# Small\n"


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
    (root / "README.md").write_text(README)
    (root / "app.py").write_text("print('hello')")
    (root / "requirements.txt").write_text(f"torch==2.13.0\ngradio=={GRADIO}\n")
    (root / CPU_ONLY).write_text("torch==2.13.0+cpu\n")
    (root / ".gitignore").write_text("out/\n")
    for name in ("one", "two"):
        (root / "assets" / f"{name}.bin").write_bytes(name.encode() + bytes(LIMIT))
    git(tmp_path, "init", "-q", str(root))
    commit(root)
    return root


@pytest.fixture
def hub(monkeypatch):
    from huggingface_hub.utils import _http

    pauses = SimpleNamespace(**{**vars(time), "sleep": lambda seconds: None})
    monkeypatch.setattr(_http, "time", pauses)  # the client sleeps between tries
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with SpaceHub.serving(monkeypatch) as server:
        yield server


@pytest.fixture
def send(tree, tmp_path_factory):
    def send(name="alice/lens", **options):
        folder = tmp_path_factory.mktemp("committed")
        copy_committed(tree, folder)
        return publish(name, folder, **options)

    return send


def test_publish_takes_the_committed_files_only(tree, tmp_path):
    (tree / "out").mkdir()
    (tree / "out" / "private.txt").write_text("mine")
    every = {".gitignore", "README.md", "app.py", "assets/one.bin", "assets/two.bin", CPU_ONLY, "requirements.txt"}
    for gpu, expected in ((False, every), (True, every - {CPU_ONLY})):  # a GPU gets no torch without CUDA
        folder = tmp_path / str(gpu)
        assert {file.relative_to(folder).as_posix() for file in copy_committed(tree, folder, gpu)} == expected


def test_publish_refuses_a_tree_that_is_not_clean(tree, tmp_path):
    def refused(words):
        with pytest.raises(BadInput, match=words):
            copy_committed(tree, tmp_path / "copy")

    (tree / "app.py").write_text("print('changed')")
    refused("app.py is not as it was committed")
    commit(tree)
    (tree / "new.txt").write_text("new")
    refused("new.txt is not as it was committed")
    (tree / "new.txt").unlink()
    (tree / "out").mkdir()
    (tree / "out" / "x").write_text("x")
    git(tree, "add", "-f", "out/x")
    commit(tree)
    refused("out/x is tracked, but .gitignore names it")
    git(tree, "rm", "-fq", "out/x")
    (tree / "way").symlink_to(tmp_path)
    commit(tree)
    refused("way is a link; put files")
    (tree / "way").unlink()
    git(tree, "clone", "-q", str(tree), "inner")
    commit(tree)
    refused("inner is a submodule; put files")
    with pytest.raises(Unavailable, match="not a git checkout"):
        copy_committed(tmp_path, tmp_path / "copy")


def test_publish_refuses_a_tree_that_would_not_start(tree, monkeypatch):
    check_versions(tree)
    for file, old, new, words in (
        (
            "README.md",
            f"sdk_version: {GRADIO}",
            "sdk_version: 5.0.0",
            "asks for gradio 5.0.0, but requirements.txt has",
        ),
        ("README.md", "app_file: app.py", "app_file: main.py", "starts main.py, which is not there"),
        (CPU_ONLY, "2.13.0", "2.12.0", "different versions of torch"),
    ):
        good = (tree / file).read_text()
        (tree / file).write_text(good.replace(old, new))
        with pytest.raises(BadInput, match=words):
            check_versions(tree)
        (tree / file).write_text(good)
    monkeypatch.setattr(importlib.metadata, "version", lambda package: "5.0.0")
    with pytest.raises(BadInput, match=r"this environment has 5\.0\.0"):
        check_versions(tree)


def test_this_repository_stays_small():
    """A plain git push takes all of it: 40 MiB at most, and no file of 10 MB (the hub's limit is 10 MiB)."""
    listed = subprocess.check_output(["git", "-C", str(ROOT), "ls-files", "-z"], text=True)
    sizes = {name: (ROOT / name).stat().st_size for name in listed.split("\0") if name and (ROOT / name).is_file()}
    assert {name: size for name, size in sizes.items() if size >= 10**7} == {}
    assert sum(sizes.values()) <= 40 * 2**20


@pytest.mark.slow
def test_a_fresh_clone_of_this_repository_passes(tmp_path):
    """It passes up to the login, for a person who follows docs/publishing.md."""
    git(tmp_path, "clone", "-q", str(ROOT), "clone")
    command = [sys.executable, "-m", "app.publish", "alice/lens"]
    env = os.environ | {"HF_TOKEN": "", "HF_HOME": str(tmp_path)}
    run = {"cwd": tmp_path / "clone", "env": env, "capture_output": True, "text": True}
    listed = subprocess.run([*command, "--dry-run"], **run)
    assert listed.returncode == 0, listed.stderr
    assert "  app.py\n" in listed.stdout and " files, " in listed.stdout
    refused = subprocess.run(command, **run)
    assert refused.returncode == 1 and refused.stderr.strip() == LOGIN


def test_upload_sends_all_files_and_only_an_update_replaces_them(tree, hub, send):
    address = send("lens")  # in the account's own namespace
    files = hub.spaces["alice/lens"]
    assert address == f"{hub.url}/spaces/alice/lens"
    listed = subprocess.check_output(["git", "-C", str(tree), "ls-files"], text=True).split()
    assert set(files) == {*listed, ".gitattributes"}
    assert files["app.py"] == (tree / "app.py").read_bytes()
    for name in ("one", "two"):
        data = (tree / "assets" / f"{name}.bin").read_bytes()
        assert files[f"assets/{name}.bin"] == hashlib.sha256(data).hexdigest() and data in hub.store.values()
    (tree / "app.py").rename(tree / "main.py")
    commit(tree)
    with pytest.raises(BadInput, match=r"alice/lens exists already; .*--update"):
        send()
    assert "app.py" in hub.spaces["alice/lens"]
    send(update=True)
    assert "app.py" not in hub.spaces["alice/lens"] and "main.py" in hub.spaces["alice/lens"]


def test_upload_goes_on_after_it_was_cut(hub, send):
    hub.cut_after = 1
    advice = r"broke off .*run the command again with --update: large files that have arrived are not sent"
    with pytest.raises(Unavailable, match=advice):
        send()
    assert list(hub.spaces["alice/lens"]) == [".gitattributes"] and len(hub.received) == 1
    hub.cut_after = None
    send(update=True)
    assert len(hub.received) == len(set(hub.received)) == 2 and "app.py" in hub.spaces["alice/lens"]


@pytest.mark.parametrize("name", ["a/b/c", "sp ace", "a/..", "", "-a", "x" * 97])
def test_publish_refuses_a_malformed_name_before_anything_is_sent(hub, tmp_path, name):
    with pytest.raises(BadInput, match="cannot name a Space"):
        publish(name, tmp_path)
    assert hub.asked == []


def test_refusal_of_the_hub_is_one_sentence(hub, send):
    def refused(words: str, *status: int, name="alice/lens", **options) -> None:
        hub.refusal = (*status, "") if status else None
        with pytest.raises(Unavailable, match=words) as caught:
            send(name, **options)
        assert "\n" not in str(caught.value)

    refused("may not write to the Space bob/lens", name="bob/lens")
    refused("does not accept this login. Log in first", 401)
    refused("takes no more requests.* run the command again in some minutes", 429)
    refused("takes no more requests.* run the command again with --update in some minutes", 429, update=True)
    refused("The hub answered 500", 500)
    hub.close()
    refused(r"^The upload to alice/lens broke off \(.+\); run the command again: ")

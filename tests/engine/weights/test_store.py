"""Bringing weights: GGUF files, the cache folder, pip's failures, and a hub that runs on this machine."""

import errno
import itertools
import re
import shutil
import sys
import threading
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
from fake_worker import wait_for
from filelock import FileLock
from gguf_files import tiny_model, write_gguf
from hubs import ModelHub
from safetensors.numpy import save_file
from transformers import AutoTokenizer

from engine.errors import Unavailable
from engine.weights import checkpoint_dir, store
from engine.weights.catalogue import get_pair
from engine.weights.checkpoint_dir import weights_hash
from engine.weights.hub import download_file
from engine.weights.specs import GgufSource, PairSpec
from engine.weights.store import fetch_pair, locate


@pytest.fixture(scope="module")
def tiny_gguf(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gguf")
    return write_gguf(folder / "tiny.gguf", tiny_model(folder))


@pytest.fixture
def tiny(tiny_gguf, tmp_path, monkeypatch):
    """A pair whose target is the tiny GGUF, data of a package that can be imported from but must not be imported."""
    package = tmp_path / "site" / "tiny_gguf_package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('needs llama.cpp')")
    shutil.copy(tiny_gguf, package / "tiny.gguf")
    monkeypatch.syspath_prepend(str(package.parent))
    size, digest = tiny_gguf.stat().st_size, checkpoint_dir.sha256(tiny_gguf)
    source = GgufSource("tiny.gguf", size, digest, "tiny-gguf-package", "1.0")
    known = {"name": "tiny", "gguf": source, "parameters": 10_000, "repo": "us/tiny", "revision": "c" * 40}
    return PairSpec("tiny-pair", "Tiny", replace(get_pair("smollm2-135m").target, **known))


def package_file(pair):
    return store._packaged_file(pair.target.gguf)


def test_the_share_fetched_never_goes_back_where_another_try_begins(tiny, monkeypatch):
    def fetch(model, say):
        for share in (0.6, 0.0, 0.3, 1.0):  # pip fails, and the hub begins
            say(share, "Downloading")

    monkeypatch.setattr(store, "_fetch", fetch)
    shares = []
    fetch_pair(replace(tiny, drafts={"lm": tiny.target}), lambda fraction, message: shares.append(fraction))
    assert shares == [0.3, 0.3, 0.3, 0.5, 0.8, 0.8, 0.8, 1.0, 1.0]


def test_fetching_the_packaged_file(tiny, cache):
    assert locate(tiny.target) is None
    seen = []
    (folder,) = fetch_pair(tiny, lambda fraction, message: seen.append((fraction, message))).values()
    assert folder == locate(tiny.target) and cache in folder.parents
    assert AutoTokenizer.from_pretrained(folder, trust_remote_code=False).eos_token == "<|end|>"
    assert [f for f, _ in seen] == sorted(f for f, _ in seen) and seen[-1] == (1.0, "tiny-pair is here")
    assert "tiny_gguf_package" not in sys.modules
    before = (folder / "model.gguf").stat().st_mtime_ns
    assert fetch_pair(tiny) == {"target": folder} and (folder / "model.gguf").stat().st_mtime_ns == before
    assert leftovers(cache) == []


def leftovers(cache):
    return [p.name for p in (cache / "models").iterdir() if p.name.startswith(".") and not p.name.endswith(".lock")]


def test_a_damaged_cache_is_told_and_mended(tiny, cache):
    (folder,) = fetch_pair(tiny).values()
    whole = weights_hash(folder)
    for file, is_cut in itertools.product(("model.gguf", "config.json", "speclens.json"), (True, False)):
        if is_cut:
            (folder / file).write_bytes((folder / file).read_bytes()[:-7])
        else:
            (folder / file).unlink()
        words = rf"{re.escape(file)} is (damaged|missing).*engine fetch`, with the name of the pair, downloads it again"
        with pytest.raises(Unavailable, match=words):
            locate(tiny.target)
        assert fetch_pair(tiny) == {"target": folder} and weights_hash(folder) == whole
        assert leftovers(cache) == []
    data = bytearray((folder / "model.gguf").read_bytes())
    data[-3] ^= 1
    (folder / "model.gguf").write_bytes(data)
    assert locate(tiny.target), "a flipped bit is found by the hash only"
    with pytest.raises(Unavailable, match="are damaged; delete that folder and fetch the pair again"):
        weights_hash(folder)


def test_a_damaged_package_file_is_told(tiny, cache):
    file, reinstall = package_file(tiny), "pip install --no-deps --force-reinstall tiny-gguf-package==1.0"
    data = file.read_bytes()
    for damaged, words in ((data[:-1], "bytes instead of"), (data[:-1] + b"\x7f", "its SHA-256 differs")):
        file.write_bytes(damaged)
        with pytest.raises(Unavailable, match=f"{words}.*{reinstall}"):
            fetch_pair(tiny)
    assert leftovers(cache) == [] and locate(tiny.target) is None


@pytest.mark.parametrize("what, name", [("tiny", "tiny"), ("remote", "remote")])
def test_too_little_disk_is_told_with_figures(request, cache, monkeypatch, what, name):
    pair = request.getfixturevalue(what)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 10**9, 10))
    with pytest.raises(Unavailable, match=rf"{name} needs \d\.\d MB on disk, but .* has 0\.0 MB free; free some space"):
        fetch_pair(pair)
    assert not (cache / "models").exists() or leftovers(cache) == []


DISK_FAILS = [(errno.ENOSPC, "is full; free some space or name"), (errno.EROFS, "cannot be written to .*SPECLENS")]


@pytest.mark.parametrize("what, place", [("tiny", "os.fsync"), ("remote", "huggingface_hub.file_download.http_get")])
def test_a_disk_that_fails_half_way_leaves_nothing(request, cache, monkeypatch, what, place):
    pair = request.getfixturevalue(what)
    for number, words in DISK_FAILS:

        def fail(*args, number=number, **kwargs):
            raise OSError(number, "the disk says no")

        with monkeypatch.context() as patch, pytest.raises(Unavailable, match=words):
            patch.setattr(place, fail)
            fetch_pair(pair)
        assert locate(pair.target) is None and (what == "remote" or leftovers(cache) == [])
    fetch_pair(pair)
    assert locate(pair.target)


def test_two_at_once_and_the_rest_of_a_killed_one(tiny, cache):
    stale = cache / "models" / f".{store._prepared_folder(tiny.target).name}-killed"
    stale.mkdir(parents=True)
    told, folders = [], []

    def one():
        folders.append(fetch_pair(tiny, lambda fraction, message: told.append(message))["target"])

    threads = [threading.Thread(target=one) for _ in range(2)]
    with FileLock(cache / "models" / f".{store._prepared_folder(tiny.target).name}.lock"):
        [thread.start() for thread in threads]
        wait_for(lambda: told.count("Another process is preparing tiny; waiting for it") == 2, 20)
        assert folders == []
    [thread.join() for thread in threads]
    assert folders == [locate(tiny.target)] * 2 and told.count("Preparing tiny") > 0
    assert len([message for message in told if message.startswith("Checking")]) == 1, "made twice"
    assert not stale.exists() and leftovers(cache) == []


@pytest.mark.parametrize("number", ["ENOLCK", "ENOSYS", "ENOTSUP", "EOPNOTSUPP"])
def test_a_disk_without_locks_takes_models(tiny, cache, monkeypatch, number):
    """Also beside the lock file of a killed process; what others write is left alone."""

    def refuse(*_):
        raise OSError(getattr(errno, number), "No locks")

    monkeypatch.setattr("fcntl.flock", refuse)
    others, left = (cache / "models" / f".{store._prepared_folder(tiny.target).name}{end}" for end in ("-x", ".lock"))
    others.mkdir(parents=True)
    left.touch()
    assert fetch_pair(tiny)["target"] == locate(tiny.target) and others.exists()
    monkeypatch.setattr("fcntl.flock", Mock(side_effect=OSError(errno.EIO, "broken")))
    shutil.rmtree(locate(tiny.target))
    with pytest.raises(Unavailable, match=r"cannot be written to \(broken\); name another cache folder"):
        fetch_pair(tiny)


def test_the_hash_is_of_the_weights_and_remembered(tmp_path, monkeypatch):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        save_file({"a": np.arange(4, dtype="f4")}, tmp_path / name / "model.safetensors")
    first = weights_hash(tmp_path / "one")
    assert first == weights_hash(tmp_path / "two") == checkpoint_dir.sha256(tmp_path / "one" / "model.safetensors")
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_dir, "sha256", lambda path: pytest.fail("read again"))
        assert weights_hash(tmp_path / "one") == first
    save_file({"a": np.arange(4, dtype="f4") + 1}, tmp_path / "one" / "model.safetensors")
    assert weights_hash(tmp_path / "one") != first


def test_without_pip_and_hub_the_reason_is_told(tiny, monkeypatch, hub):
    hub.files = {}
    monkeypatch.setattr(store, "_packaged_file", lambda source: None)
    monkeypatch.setattr(sys, "executable", shutil.which("false") or "false")
    with pytest.raises(Unavailable, match=r"this Python has no pip\. The hub failed as well: .*no longer has"):
        fetch_pair(tiny)


def test_what_pip_says_is_told(tmp_path):
    source = replace(get_pair("smollm2-135m").target.gguf, package="no such package", version="0")
    with pytest.raises(Unavailable, match=r"pip could not install no such package==0 \(.+\)"):
        store._pip(source, tmp_path / "package", lambda fraction, message: None)


@pytest.fixture
def remote(hub, tmp_path):
    """A hub pair whose files lie on the server, among them some that must not be brought."""
    tiny_model(made := tmp_path / "made")
    hub.files = {file.name: file.read_bytes() for file in made.iterdir()}
    hub.files |= {"tokenizer.json": b"{}", "pytorch_model.bin": b"pickle", "modeling.py": b"code", "README.md": b"#"}
    hub.files |= {"onnx/config.json": b"{}", "consolidated.safetensors": b"twice"}
    model = replace(get_pair("qwen3-8b").target, name="remote", repo="us/remote", revision="c" * 40, parameters=9)
    return PairSpec("remote-pair", "Remote", model)


def test_hub_model_comes_without_pickles_or_code_and_again_if_damaged(hub, remote):
    assert locate(remote.target) is None
    seen = []
    (folder,) = fetch_pair(remote, lambda fraction, message: seen.append((fraction, message))).values()
    brought = ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json"]
    assert sorted(file.name for file in folder.iterdir()) == brought
    assert [f for f, _ in seen] == sorted(f for f, _ in seen) and len({f for f, _ in seen}) > 2
    hub.asked.clear()
    assert locate(remote.target) == folder and fetch_pair(remote) == {"target": folder} and hub.asked == []
    blob = (folder / "model.safetensors").resolve()
    blob.write_bytes(blob.read_bytes()[:-1])
    with pytest.raises(Unavailable, match=r"model\.safetensors is damaged .*downloads it again"):
        locate(remote.target)
    assert fetch_pair(remote) == {"target": locate(remote.target)}


def hold_no_weights(hub):
    hub.files = {name: data for name, data in hub.files.items() if not name.endswith(".safetensors")}


@pytest.mark.parametrize("change, words", [
    ((403, "GatedRepo"), "us/remote is gated: accept its licence .* log in with `hf auth login`"),
    ((401, "RepoNotFound"), "has no public repository us/remote"),
    ((404, "RevisionNotFound"), "no longer has the revision in the catalogue"),
    ((403, ""), "The hub answered 403 for us/remote; try again later"),
    (ModelHub.close, r"The hub cannot be reached for us/remote \(.+\); check the connection"),
    (hold_no_weights, "us/remote has no safetensors weights"),
])  # fmt: skip
def test_what_the_hub_refuses_or_lacks_is_told(hub, remote, change, words):
    if callable(change):
        change(hub)
    else:
        hub.refusal = change
    with pytest.raises(Unavailable, match=words) as caught:
        fetch_pair(remote)
    assert "\n" not in str(caught.value) and not any("pytorch_model.bin" in path for path in hub.asked)


def test_the_same_gguf_comes_from_the_hub(tiny, hub, tmp_path, monkeypatch):
    hub.files = {"tiny.gguf": package_file(tiny).read_bytes()}
    file = download_file(tiny.target, tmp_path / "work", lambda fraction, message: None)
    assert checkpoint_dir.sha256(file) == tiny.target.gguf.sha256
    monkeypatch.setattr(store, "_packaged_file", lambda source: None)
    monkeypatch.setattr(store, "_pip", lambda *args: (_ for _ in ()).throw(Unavailable("No pip.")))
    assert locate(tiny.target) is None and fetch_pair(tiny) == {"target": locate(tiny.target)}


def test_a_gguf_in_the_hubs_cache_is_taken_before_anybody_is_asked(tiny, hub, monkeypatch):
    from huggingface_hub import constants, hf_hub_download

    model = replace(tiny.target, repo="us/tiny", revision="c" * 40)
    hub.files = {"tiny.gguf": package_file(tiny).read_bytes()}
    hf_hub_download(model.repo, model.gguf.file, revision=model.revision, cache_dir=constants.HF_HUB_CACHE)
    hub.files = {}
    monkeypatch.setattr(store, "_packaged_file", lambda source: None)
    monkeypatch.setattr(store, "_pip", lambda *args: pytest.fail("pip was asked"))
    assert fetch_pair(replace(tiny, target=model))["target"].is_dir()

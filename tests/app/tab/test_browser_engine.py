"""The files of the engine in a tab: a runtime that is not the pinned one is refused."""

import base64
import hashlib
import io
import subprocess
import tarfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from tab_model import tab_model

from app.tab import package as browser_engine
from engine.errors import BadInput, Unavailable
from engine.weights.catalogue import get_pair


@pytest.fixture
def npm(tmp_path, monkeypatch):
    """An npm that brings ``npm.data``, or fails with ``npm.error``; and an empty cache."""
    state = SimpleNamespace(data=package(), error="", calls=0)

    def run(command, **_):
        state.calls += 1
        folder = command[command.index("--pack-destination") + 1]
        if not state.error:
            with open(f"{folder}/package.tgz", "wb") as file:
                file.write(state.data)
        return subprocess.CompletedProcess(command, bool(state.error), "", state.error)

    monkeypatch.setenv("SPECLENS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(browser_engine.shutil, "which", lambda name: name)
    monkeypatch.setattr(browser_engine.subprocess, "run", run)
    return state


def package() -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as file:
        for name in ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm"):
            entry = tarfile.TarInfo(f"package/dist/{name}")
            entry.size = 3
            file.addfile(entry, io.BytesIO(b"abc"))
    return data.getvalue()


def pin(monkeypatch, data: bytes) -> None:
    monkeypatch.setattr(browser_engine, "INTEGRITY", base64.b64encode(hashlib.sha512(data).digest()).decode())


def test_runtime_with_another_hash_is_refused(npm, tmp_path, monkeypatch):
    file = str(tab_model(tmp_path))
    with pytest.raises(Unavailable, match="SHA-512 differs"):
        browser_engine.browser_engine(file, "beside")
    npm.error = "npm error\nno network"
    with pytest.raises(Unavailable, match="no network"):
        browser_engine.browser_engine(file, "beside")
    npm.error = ""
    pin(monkeypatch, npm.data)
    calls = npm.calls
    for _ in range(2):  # the second time from the cache folder
        engine = browser_engine.browser_engine(file, "beside")
        assert engine.files["engine/ort.mjs"] == b"abc" and npm.calls == calls + 1
    assert engine.weights.read_bytes() == Path(file).read_bytes()
    assert set(engine.files) == {
        f"engine/{name}"
        for name in ("ort.mjs", "ort.wasm.gz", "graph.onnx.gz", "model.json.gz", "LICENSE-onnxruntime-web.txt")
    }


def test_hub_has_an_address_for_the_catalogues_models_only(npm, tmp_path, monkeypatch):
    pin(monkeypatch, npm.data)
    with pytest.raises(BadInput, match="choose beside"):
        browser_engine.browser_engine(str(tab_model(tmp_path)), "hub")
    assert not npm.calls, "before anything is built"
    target = get_pair("smollm2-135m").target
    address = f"https://huggingface.co/{target.repo}/resolve/{target.revision}/{target.gguf.file}"
    assert browser_engine.hub_address(target) == address
    with pytest.raises(Unavailable, match="engine fetch"):
        browser_engine.browser_engine("smollm2-135m", "hub")  # not in this cache

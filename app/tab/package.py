"""Collects the files of the engine that runs in a visitor's browser tab, for the served page and the static site.

The runtime comes from the npm registry, pinned by its hash; the graph has no weights, because the tab makes them from
the same GGUF file as every other engine of this project.
"""

import base64
import gzip
import hashlib
import io
import json
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.server.limits import TAB_NEW_TOKENS, TAB_PROMPT_TOKENS
from engine.config import RunConfig
from engine.errors import BadInput, Unavailable
from engine.files import ASSETS, cache_root, sha256, write_atomically
from engine.weights.catalogue import get_pair
from engine.weights.gguf.layout import gguf_files, is_prepared
from engine.weights.specs import ModelSpec
from engine.weights.store import locate

WEIGHTS = ("hub", "beside", "none")  # where the tab gets the file from; none: no tab runs it
FOLDER = "engine"  # beside the page
RUNTIME, VERSION = "onnxruntime-web", "1.30.0"
INTEGRITY = "q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4CXAfKYQ=="  # sha512
HUB = "https://huggingface.co"
BESIDE = f"{FOLDER}/weights.gguf"
MEMORY = 2.25  # times the weights in fp32: the peak of the tab's process, in Chromium 156


@dataclass(frozen=True)
class BrowserEngine:
    """``files``: name below the site's folder and content; ``page``: what its page must know."""

    files: dict[str, bytes]
    page: dict[str, Any]
    weights: Path | None = None  # to be copied to BESIDE


def browser_engine(pair: str, weights: str) -> BrowserEngine:
    """Returns what a tab needs. ``weights``: one of WEIGHTS but none. Raises BadInput for another and for a pair that
    no tab can run, Unavailable where its model or the runtime cannot be had."""
    if weights not in WEIGHTS:
        raise BadInput(f"The model's file cannot come from {weights[:40]!r}; choose from {', '.join(WEIGHTS)}.")
    spec = get_pair(pair)
    address = hub_address(spec.target) if weights == "hub" else BESIDE
    folder = locate(spec.target)
    if folder is None:
        raise Unavailable(f"The weights of {pair} are not here; run `python -m engine fetch {pair}` first.")
    if not is_prepared(folder) or len(gguf_files(folder)) != 1:
        raise BadInput(f"The browser's engine makes its weights from one GGUF file, and {pair} has none.")
    from app.tab.model import describe

    file = gguf_files(folder)[0]
    graph, facts = describe(folder)
    facts |= {
        "pair": spec.name, "revision": spec.target.revision or "", "sha256": sha256(file), "size": file.stat().st_size,
        "promptTokens": TAB_PROMPT_TOKENS, "versions": facts["versions"] | {RUNTIME: VERSION},
    }  # fmt: skip
    files = {f"{FOLDER}/{name}": data for name, data in _runtime()} | {
        f"{FOLDER}/graph.onnx.gz": _compress(graph),
        f"{FOLDER}/model.json.gz": _compress(json.dumps(facts, ensure_ascii=False, separators=(",", ":")).encode()),
        f"{FOLDER}/LICENSE-{RUNTIME}.txt": (ASSETS / "web" / "tab" / "licence.txt").read_bytes(),
    }
    page = {
        "address": address, "size": facts["size"], "sha256": facts["sha256"],
        "memory": int(MEMORY * facts["graph"]["bytes"]), "mostTokens": TAB_NEW_TOKENS,
        "defaults": _defaults(spec.name),
    }  # fmt: skip
    return BrowserEngine(files, page, None if weights == "hub" else file)


def _defaults(pair: str) -> dict:
    """Returns the settings of a trace that the tab's form does not ask for."""
    return RunConfig("x", pair, "none", 0, precision="fp32", max_new_tokens=128).as_dict()


def hub_address(model: ModelSpec) -> str:
    """Returns where the hub has the model's file, at its pinned commit. BadInput for a model that is not of the hub."""
    if model.gguf is None or model.repo is None:
        raise BadInput(f"{model.name} is not a file of the hub; choose beside, so that the page's own host has it.")
    return f"{HUB}/{model.repo}/resolve/{model.revision}/{model.gguf.file}"


def _compress(data: bytes) -> bytes:
    return gzip.compress(data, 9, mtime=0)


def _runtime() -> Iterator[tuple[str, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(package())) as files:

        def read(name: str) -> bytes:
            file = files.extractfile(f"package/dist/{name}")
            assert file is not None
            return file.read()

        yield "ort.mjs", read("ort.wasm.bundle.min.mjs")
        yield "ort.wasm.gz", _compress(read("ort-wasm-simd-threaded.wasm"))


def package() -> bytes:
    """Gets the npm package from the cache folder or through npm, so that its settings count. Raises Unavailable unless
    its hash is INTEGRITY."""
    stored = cache_root() / f"{RUNTIME}-{VERSION}.tgz"
    if stored.is_file() and _is_right(data := stored.read_bytes()):
        return data
    npm = shutil.which("npm")
    if npm is None:
        raise Unavailable(f"npm is needed to download {RUNTIME}; install Node.js.")
    with tempfile.TemporaryDirectory() as folder:
        command = [npm, "pack", "--silent", "--pack-destination", folder, f"{RUNTIME}@{VERSION}"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        file = next(Path(folder).glob("*.tgz"), None)
        if result.returncode or file is None:
            reason = (result.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise Unavailable(f"npm could not download {RUNTIME} {VERSION}: {reason}")
        data = file.read_bytes()
    if not _is_right(data):
        raise Unavailable(f"{RUNTIME} {VERSION} is not the package that was pinned (its SHA-512 differs).")
    stored.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(stored, data)
    return data


def _is_right(data: bytes) -> bool:
    return base64.b64encode(hashlib.sha512(data).digest()).decode() == INTEGRITY

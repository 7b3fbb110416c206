"""Checks a checkpoint folder: missing or damaged files, model sizes, a hash of the weights.

It has the transformers format; a folder prepared here may hold a GGUF file instead of safetensors.

Reads only headers (except for the hash), so it needs neither torch nor transformers.
"""

import hashlib
import json
import struct
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import Any

from engine.errors import BadInput, Unavailable
from engine.files import cache_root, read_json, sha256, write_file
from engine.weights.eight_bits import SCALE
from engine.weights.folder_kinds import contents_of, folder_problem, listing, tokenizer_problem
from engine.weights.gguf.layout import GGUF, changed_source, gguf_files, is_prepared, places
from engine.weights.head_config import flat, with_defaults
from engine.weights.head_kinds import HEAD_KINDS, other_drafter, own_name

TOKENIZERS = ("tokenizer.json", "tekken.json", "tokenizer.model", "vocab.json")
MANIFEST = "speclens.json"  # in folders that were prepared here: file sizes and the hash of the weights
AGAIN = "`python -m engine fetch`, with the name of the pair, downloads it again."
INDEX = "model.safetensors.index.json"
_MAX_HEADER = 100_000_000
UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error)  # from a bad header or index
_NOT_LOADED = {"embed_tokens.weight", "d2t", "t2d"}  # in a head: the target's embedding, and maps of words


def weight_files(folder: Path) -> list[Path]:
    """Returns the files to load: GGUF files in a folder that was prepared for them, else model.safetensors, else the
    files of the index, else all safetensors (the shards, if there are any). Like transformers, it prefers
    model.safetensors to an index, which is then of another state of the folder."""
    if is_prepared(folder):
        return gguf_files(folder)
    if (folder / "model.safetensors").is_file():
        return [folder / "model.safetensors"]
    if (folder / INDEX).is_file():
        shards = json.loads((folder / INDEX).read_text(encoding="utf-8-sig"))["weight_map"].values()
        if not all(Path(shard).name == shard for shard in shards):
            raise ValueError("shards lie beside their index")
        return [folder / shard for shard in sorted(set(shards))]
    return sorted(folder.glob("model-*-of-*.safetensors")) or sorted(folder.glob("*.safetensors"))


def head_method(folder: Path) -> str:
    """Returns the method that the folder's heads draft with (a key of HEAD_KINDS), "" if it holds a model. Heads have
    no tokenizer."""
    folder = Path(folder)
    config, tensors = read_json(folder / "config.json"), _shapes_if_readable(folder)
    if other_drafter(config, tensors):
        return ""
    for method, kind in HEAD_KINDS.items():
        if kind.field and kind.field in config:
            return method
    names = {own_name(name) for name in tensors}
    return next((method for method, kind in HEAD_KINDS.items() if kind.tensor and kind.tensor in names), "")


def eagle_version(folder: Path) -> int:
    """Returns 1 or 3: in EAGLE-1 the first layer's attention reads as many numbers as the head is wide, in EAGLE-3
    twice as many."""
    shapes = {own_name(name): shape for name, shape in tensor_shapes(Path(folder)).items()}
    query = shapes.get("layers.0.self_attn.q_proj.weight", [0, 0])
    out = shapes.get("layers.0.self_attn.o_proj.weight", [0])
    return 1 if query[-1] == out[0] and "layers.0.hidden_norm.weight" not in shapes else 3


def tensor_shapes(folder: Path) -> dict[str, list[int]]:
    """Returns the shapes of a folder's tensors by name. Raises one of `UNREADABLE`."""
    if is_prepared(folder):
        return {name: place["shape"] for name, place in places(folder).items()}
    return {name: shape for file in weight_files(folder) for name, shape in _layout(file)[0].items()}


def _shapes_if_readable(folder: Path) -> dict[str, list[int]]:
    try:
        return tensor_shapes(folder)
    except UNREADABLE:  # `damage` describes it
        return {}


def missing(folder: Path) -> str | None:
    """Returns a sentence about the first missing part of a checkpoint; None if it is complete."""
    if not folder.is_dir():
        return f"There is no folder {folder}."
    if not (folder / "config.json").is_file():
        return f"{folder} has no config.json."
    try:
        files = weight_files(folder)
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"{folder / INDEX} is damaged."
    if not files:
        return f"{folder} has no safetensors weights."
    if not head_method(folder) and not any((folder / name).is_file() for name in TOKENIZERS):
        return f"{folder} has no tokenizer (tokenizer.json)."
    absent = [file.name for file in files if not file.is_file()]
    return f"{folder} lacks {listing(absent)}, which its index names." if absent else None


def damage(folder: Path) -> str | None:
    """Returns a sentence about the first truncated or unreadable file of a complete folder; None if there is none."""
    if not read_json(folder / "config.json"):
        return f"{folder / 'config.json'} is damaged."
    if problem := changed_source(folder):
        return problem
    for file in weight_files(folder):
        size = file.stat().st_size
        try:
            expected = _expected_size(folder, file)
        except (ValueError, KeyError, TypeError, AttributeError, struct.error):
            return f"{file} is damaged (its header cannot be read)."
        if size != expected:
            return f"{file} is damaged ({size} bytes instead of {expected})."
    return None


def _expected_size(folder: Path, file: Path) -> int:
    if not is_prepared(folder):
        return _layout(file)[1]
    if file.parent != folder:  # a file of the user's own is as it was when its header was read
        return file.stat().st_size
    return max(place["offset"] + place["bytes"] for place in places(folder).values())


def _layout(file: Path) -> tuple[dict[str, list[int]], int]:
    """Returns the shapes of the tensors by name, and the expected file size, from the header."""
    with open(file, "rb") as f:
        length = struct.unpack("<Q", f.read(8))[0]
        if length > _MAX_HEADER:
            raise ValueError("header too long")
        header = json.loads(f.read(length))
    tensors = {name: tensor for name, tensor in header.items() if name != "__metadata__"}
    end = max((t["data_offsets"][1] for t in tensors.values()), default=0)
    return {name: t["shape"] for name, t in tensors.items()}, 8 + length + end


def other_kind(folder: Path) -> str | None:
    """Returns a sentence about a path that holds something that is not loaded here; None for a model or a head, which
    may still be incomplete."""
    if folder.is_file():
        return f"{folder} is a file and not *.gguf; name a folder with config.json and a tokenizer, or a GGUF file."
    if not folder.is_dir() or is_prepared(folder):
        return None
    tensors = _shapes_if_readable(folder)
    contents = contents_of(folder, tensors)
    if drafter := other_drafter(contents.config, tensors):
        return f"{folder} holds {drafter}."
    if tensors and head_method(folder):
        return None
    return folder_problem(contents) or tokenizer_problem(contents)


def figures(folder: Path) -> dict[str, Any]:
    """Returns a checkpoint's sizes by the names of ModelSpec. Raises BadInput for any other folder."""
    if problem := other_kind(folder):
        raise BadInput(problem)
    if problem := missing(folder) or damage(folder):
        raise BadInput(f"{problem} Name a folder with config.json, a tokenizer and whole *.safetensors files.")
    tensors, head = tensor_shapes(folder), head_method(folder)
    if head:
        tensors = {own_name(name): shape for name, shape in tensors.items()}
    others = {f"{name}{SCALE}" for name in tensors} | (_NOT_LOADED if head else set())
    parameters = sum(prod(shape) for name, shape in tensors.items() if name not in others)
    if head and HEAD_KINDS[head].width:
        return _head_figures(folder, tensors, head) | {"parameters": parameters}
    config = read_json(folder / "config.json")
    config = {"num_hidden_layers": 1} | with_defaults(flat(config)) if head else config
    return config_figures(config, str(folder / "config.json")) | {"parameters": parameters}


def config_figures(config: dict, where: str) -> dict[str, Any]:
    """Returns the sizes that a config.json gives, by the names of ModelSpec. Raises BadInput, naming ``where``."""
    config = config | (config.get("text_config") or config.get("transformer_layer_config") or {})

    def figure(*names: str, default: int | None = None) -> int:
        value = next((config[n] for n in names if config.get(n) is not None), default)
        if type(value) is not int or value < 1:
            raise BadInput(
                f"{where} gives no {names[0]} that is a whole number, as each language model has; name another folder."
            )
        return value

    heads, hidden = figure("num_attention_heads", "n_head", "n_heads"), figure("hidden_size", "n_embd", "d_model")
    return {
        "hidden_size": hidden,
        "layers": figure("num_hidden_layers", "n_layer", "n_layers"),
        "kv_heads": figure("num_key_value_heads", default=heads),
        "head_dim": figure("head_dim", default=hidden // heads),
        "vocab_size": figure("vocab_size"),
        "context": figure("max_position_embeddings", "n_positions", "max_seq_len"),
    }


def _head_figures(folder: Path, tensors: dict[str, list[int]], method: str) -> dict[str, int]:
    """Returns the sizes of heads without a KV cache; their context is unlimited."""
    kind = HEAD_KINDS[method]
    if kind.width not in tensors:
        raise BadInput(f"{folder} holds no {kind.name}: its weights have no tensor {kind.width!r}.")
    width, words = tensors[kind.width][0], tensors.get(kind.words, [1])[0]
    return {"hidden_size": width, "layers": 1, "kv_heads": 1, "head_dim": 1, "vocab_size": words, "context": 2**20}


def weights_hash(folder: Path) -> str:
    """Returns the SHA-256 of the weights a folder loads: of the file, or of the shards' names and hashes.

    Cached by file size and time of change, in the cache folder, because the checkpoint's own folder may be read-only.
    Raises Unavailable if weights that were prepared here have changed since.
    """
    folder = Path(folder).resolve()
    cache = cache_root() / "hashes" / f"{hashlib.sha256(str(folder).encode()).hexdigest()[:32]}.json"
    known, fresh = read_json(cache), {}
    for file in weight_files(folder):
        stat = file.stat()
        stamp = [stat.st_size, stat.st_mtime_ns]
        entry = known.get(file.name)
        remembered = isinstance(entry, list) and len(entry) == 3 and entry[:2] == stamp
        fresh[file.name] = entry if remembered else [*stamp, sha256(file)]
    if fresh != known:
        with suppress(OSError, Unavailable):  # without a cache the hash is computed again next time
            write_file(cache, json.dumps(fresh))
    hashes = {name: entry[2] for name, entry in fresh.items()}
    if len(hashes) == 1:
        digest = next(iter(hashes.values()))
    else:
        digest = hashlib.sha256("".join(f"{name} {h}\n" for name, h in sorted(hashes.items())).encode()).hexdigest()
    written = read_json(folder / MANIFEST).get("weights")
    if written and written != digest:
        raise Unavailable(f"The weights in {folder} are damaged; delete that folder and fetch the pair again.")
    return digest


def write_manifest(folder: Path) -> None:
    """Writes the manifest of a prepared folder, which `manifest_problem` compares."""
    sizes = {f.name: f.stat().st_size for f in sorted(folder.iterdir()) if f.name != MANIFEST}
    manifest = {"weights": sha256(folder / GGUF), "sizes": sizes}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")


def manifest_problem(folder: Path) -> str | None:
    """Returns a sentence about the first file that differs from the manifest; None if all agree."""
    sizes = read_json(folder / MANIFEST).get("sizes")
    if not isinstance(sizes, dict):
        return f"{folder / MANIFEST} is damaged."
    for name, size in sizes.items():
        file = folder / name
        actual = file.stat().st_size if file.is_file() else None
        if actual != size:
            state = "missing" if actual is None else f"damaged ({actual} bytes instead of {size})"
            return f"{file} is {state}."
    return None

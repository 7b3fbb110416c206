"""Writes the weights of a draft's folder in 8 bits, which halves it, or in 16 again, which every other program reads.

8 bits are those in which ONNX Runtime runs drafts (`GroupedWeight.round`), so nothing changes there.
"""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file

from engine.errors import BadInput
from engine.files import read_json
from engine.models.tensors.gguf_reader import open_weights
from engine.models.tensors.grouped import GroupedWeight
from engine.models.tensors.safetensors_reader import TensorReader
from engine.tools.training.export import replace_folder
from engine.tools.training.kinds import check_bits
from engine.weights.checkpoint_dir import INDEX, damage, head_method, missing, weight_files
from engine.weights.eight_bits import GROUP, SCALE, WEIGHTS
from engine.weights.head_kinds import HEAD_KINDS

_LARGEST = 9_900_000  # bytes of tensors in a file: hosts of git refuse files of 10 MB


def convert(source: Path, out: Path, bits: int, target: Path | None = None) -> None:
    """Writes the draft in ``source`` into ``out``, which may be the same folder. BadInput for one that is not whole, or
    of a kind that is always stored in 16 bits. ``target``: the folder of the target, whose output layer a head without
    one of its own gets for its words."""
    if problem := missing(source) or damage(source):
        raise BadInput(problem)
    check_bits(bits)
    if (method := head_method(source)) not in ("", "eagle", "block"):
        raise BadInput(f"{source} holds {HEAD_KINDS[method].noun}, always stored in 16 bits, because it is small.")
    replace_folder(out, lambda work: _write(source, work, bits, method, target))


def _write(source: Path, work: Path, bits: int, method: str, target: Path | None) -> None:
    replaced = {*weight_files(source), source / INDEX}
    for file in source.iterdir():
        if file.is_file() and file not in replaced:
            shutil.copyfile(file, work / file.name)
    config = read_json(source / "config.json")
    config.pop("quantization_config", None)
    dtype = torch.float16 if "float16" in (config.get("dtype"), config.get("torch_dtype")) else torch.bfloat16
    tensors = _tensors(TensorReader(source, dtype, "cpu"), bits)
    if target and "d2t" in tensors and "lm_head.weight" not in tensors:
        tensors["lm_head.weight"] = _output_rows(target, tensors["d2t"], dtype)
    if bits == 8:
        config["quantization_config"] = _quantization(config, method)
    (work / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    _write_shards(tensors, work)


def _output_rows(target: Path, d2t: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Returns [words, hidden]: the target's output layer for the words of a head, which d2t tells as differences."""
    read = open_weights(target, dtype, "cpu")
    name = "lm_head.weight" if "lm_head.weight" in read else "model.embed_tokens.weight"
    rows, words = read(name), torch.arange(len(d2t)) + d2t
    if not 0 <= int(words.min()) <= int(words.max()) < len(rows):
        raise BadInput(f"{target} has {len(rows)} words, but the head knows others; name the target of this head.")
    return rows[words].contiguous()


def _quantization(config: dict, method: str) -> dict:
    if method:
        return quantization_config(["Linear"])
    # A tied output layer is the embedding, and has no scales of its own.
    return quantization_config(["Linear", "Embedding"], ["lm_head"] if config.get("tie_word_embeddings") else [])


def _tensors(read: TensorReader, bits: int) -> dict[str, torch.Tensor]:
    """Converts every tensor of a folder: matrices in so many bits, the rest as they are stored."""
    tensors = {}
    for name in sorted({*read.names} - {f"{name}{SCALE}" for name in read.names}):
        tensor = read.raw(name)
        is_matrix = tensor.dim() == 2 and (tensor.dtype.is_floating_point or tensor.dtype == torch.int8)
        if bits == 8 and is_matrix and tensor.shape[1] % GROUP == 0:
            rounded = read.blocks(name) or GroupedWeight.round(tensor, bits)
            tensors |= {name: rounded.n, f"{name}{SCALE}": rounded.scale}
        else:
            tensors[name] = read(name) if is_matrix else tensor
    return tensors


def _write_shards(tensors: dict[str, torch.Tensor], folder: Path) -> None:
    """Writes model.safetensors, or as many files of less than 10 MB as the tensors need, and their index."""
    shards, room = [], 0
    for name, tensor in tensors.items():
        if tensor.nbytes > room:
            shards.append({})
            room = _LARGEST
        shards[-1][name] = tensor
        room -= tensor.nbytes
    if len(shards) == 1:
        save_file(shards[0], folder / "model.safetensors", {"format": "pt"})
        return
    where = {}
    for i, shard in enumerate(shards, 1):
        file = f"model-{i:05}-of-{len(shards):05}.safetensors"
        save_file(shard, folder / file, {"format": "pt"})
        where |= dict.fromkeys(shard, file)
    index = {"metadata": {"total_size": sum(t.nbytes for t in tensors.values())}, "weight_map": where}
    (folder / INDEX).write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")


def quantization_config(layers: Sequence[str], ignored: Sequence[str] = ()) -> dict:
    """Returns the field of config.json where all ``layers`` (torch's names of classes) are stored so, except those
    ``ignored``."""
    weights = WEIGHTS | {"strategy": "group", "group_size": GROUP}
    return {
        "quant_method": "compressed-tensors",
        "format": "int-quantized",
        "quantization_status": "compressed",
        "dequantize": True,  # else transformers 5.23 expects layers with plain activations to be packed in int32
        "config_groups": {"group_0": {"targets": list(layers), "weights": weights}},
        "ignore": list(ignored),
    }

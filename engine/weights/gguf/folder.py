"""Prepares a folder for a GGUF file of the Llama family: its config, its tokenizer and the places of its tensors.

The weights stay as they are. Every field and every tensor of the file is used, is known to have no effect, or is
refused by name.
"""

import json
import os
import shutil
import struct
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine.config import is_text
from engine.errors import Unavailable, quantity
from engine.weights.gguf.file import GgufHeader, GgufTensor, OtherFormat, check_type, read_header
from engine.weights.gguf.layout import GGUF, LAYOUT, SOURCES, stamp
from engine.weights.gguf.rope import rope_parameters
from engine.weights.gguf.tokenizer import end_ids, special_id, write_tokenizer

# By GGUF's name of the architecture: transformers' model_type and class. Mistral and SmolLM call themselves llama.
_ARCHITECTURES = {
    "llama": ("llama", "LlamaForCausalLM"),
    "qwen2": ("qwen2", "Qwen2ForCausalLM"),
    "qwen3": ("qwen3", "Qwen3ForCausalLM"),
}
_TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_BLOCK = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip
_HEAD_NORMS = {"attn_q_norm", "attn_k_norm"}  # only in qwen3
_ATTENTION, _MLP = ("attn_q", "attn_k", "attn_v", "attn_output"), ("ffn_gate", "ffn_up", "ffn_down")
ROPE_FACTORS = "rope_freqs.weight"
_TEXTS = ("tokenizer.", "general.architecture", "general.type", "split.")  # fields of which the texts are read
# Fields of the architecture that are read here; the rotary embedding's are read in `rope.py`.
_READ = {
    "block_count", "context_length", "embedding_length", "feed_forward_length", "vocab_size", "attention.head_count",
    "attention.head_count_kv", "attention.layer_norm_rms_epsilon", "attention.key_length", "attention.value_length",
    "attention.sliding_window",
}  # fmt: skip
_ROLES = {"bos": "bos", "eos": "eos", "pad": "padding"}  # in config.json: in a GGUF file
_NEUTRAL = {"expert_count": 0, "expert_used_count": 0, "attention.causal": True, "use_parallel_residual": True,
            "tensor_data_layout": "Meta AI original pth", "pooling_type": 0}  # fmt: skip


@dataclass(frozen=True)
class GgufModel:
    """A model's headers: the ``fields`` of its first part, and the tensors of all parts."""

    fields: Mapping[str, object]
    tensors: Sequence[GgufTensor]

    @property
    def architecture(self) -> str:
        return str(self.fields.get("general.architecture"))

    @property
    def own(self) -> dict[str, Any]:
        """The architecture's own fields, without its name before them."""
        start = f"{self.architecture}."
        return {name.removeprefix(start): value for name, value in self.fields.items() if name.startswith(start)}


def read_model(files: Sequence[Path]) -> GgufModel:
    """Reads the headers of a file's parts. Raises Unavailable for a damaged file."""
    headers = []
    for file in files:
        header = header_of(file)
        if (size := file.stat().st_size) < header.size:
            raise Unavailable(
                f"{file.name} is cut off ({size:,} bytes of at least {header.size:,}); download it again."
            )
        headers.append(header)
    return model_of(headers, files[0].name)


def header_of(file: Path) -> GgufHeader:
    """Reads a header. Raises Unavailable; the cause of it is a `CutOff` if the file ends before the header does."""
    try:
        return read_header(file)
    except OtherFormat as error:
        raise Unavailable(f"{file.name} cannot be read: {error}.") from error
    except ValueError as error:
        raise Unavailable(f"{file.name} is damaged, or is no GGUF file: {error}; download it again.") from error


def model_of(headers: Sequence[GgufHeader], name: str) -> GgufModel:
    """Puts the headers of all parts together. Raises Unavailable, naming ``name``, unless they make a whole model."""
    model = GgufModel(headers[0].fields, tuple(tensor for header in headers for tensor in header.tensors))
    for field, value in model.fields.items():  # what only describes the file may be in any encoding
        texts = [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str)]
        if field.startswith((*_TEXTS, f"{model.architecture}.")) and not all(map(is_text, texts)):
            raise Unavailable(f"{name} cannot be read: its field {field!a} is not written in UTF-8; convert it again.")
    tensors = model.tensors
    kind = headers[0].fields.get("general.type", "model")
    if kind != "model" or not tensors:
        contents = "a vocabulary without weights" if not tensors else f"a part that belongs beside a model ({kind})"
        raise Unavailable(f"{name} holds {contents}; name the file of a language model.")
    promised = headers[0].fields.get("split.tensors.count", len(tensors))
    if len({tensor.name for tensor in tensors}) != promised:
        raise Unavailable(
            f"The parts of {name} hold {quantity(len(tensors), 'tensor')} instead of {promised}; all parts are found "
            "only where their names end in -00001-of-00002.gguf and so on, as they were split."
        )
    return model


def prepare(files: Sequence[Path], folder: Path, is_copied: bool = True) -> None:
    """Fills ``folder`` (which must exist) for a GGUF file, or for its parts. With ``is_copied`` the file is copied into
    it, else it is read where it lies. Raises Unavailable if it is damaged or of another family."""
    model = read_model(files)
    try:
        config, generation = configuration(model)
        places = {_rename(t.name): t for t in model.tensors if t.name != ROPE_FACTORS}
        _write(folder / "config.json", config)
        _write(folder / "generation_config.json", generation)
        write_tokenizer(folder, model.fields, config["max_position_embeddings"])
    except KeyError as error:
        raise Unavailable(f"{files[0].name} has no field {error}, so it cannot be read completely.") from error
    except (ValueError, IndexError, TypeError, struct.error) as error:
        raise Unavailable(f"{files[0].name} cannot be run here: {error}.") from error
    except OSError:
        raise
    except Exception as error:  # the tokenizers library raises bare Exceptions
        raise Unavailable(f"The tokenizer in {files[0].name} cannot be read: {error}.") from error
    if is_copied:
        _copy(files[0], folder / GGUF)
    else:
        _write(folder / SOURCES, {"files": [stamp(file) for file in files]})
    _write(folder / LAYOUT, {name: _place(tensor, is_copied) for name, tensor in places.items()})


def configuration(model: GgufModel) -> tuple[dict, dict]:
    """Returns config.json and generation_config.json as transformers reads them. Raises ValueError, with the reason,
    for a model that cannot be run; KeyError for a missing field."""
    if model.architecture not in _ARCHITECTURES:
        raise ValueError(
            f"its architecture is {model.architecture}, and those read from GGUF are {', '.join(_ARCHITECTURES)}"
        )
    own, shapes = model.own, {tensor.name: tensor.shape for tensor in model.tensors}
    heads, hidden = _one(own, "attention.head_count"), _one(own, "embedding_length")
    head_size = own.get("attention.key_length", hidden // heads)
    rope, used = rope_parameters(own, head_size, _values(model, ROPE_FACTORS))
    _refuse_unknown(own, {*_READ, *used}, head_size)
    biased = _check_tensors(model.architecture, {*shapes}, own["block_count"])
    for kind in {tensor.type for tensor in model.tensors}:
        check_type(kind)
    model_type, name = _ARCHITECTURES[model.architecture]
    window = own.get("attention.sliding_window") or own["context_length"]
    config = {
        "architectures": [name],
        "model_type": model_type,
        "attention_bias": "attn_q" in biased,
        "mlp_bias": "ffn_up" in biased,
        "attention_dropout": 0.0,
        "hidden_act": "silu",
        "vocab_size": shapes["token_embd.weight"][0],
        "hidden_size": hidden,
        "intermediate_size": _one(own, "feed_forward_length"),
        "num_hidden_layers": own["block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": _one(own, "attention.head_count_kv", heads),
        "head_dim": head_size,
        # No older key is dropped here, so a text may be as long as the window.
        "max_position_embeddings": min(own["context_length"], window),
        "rms_norm_eps": _shortest(own["attention.layer_norm_rms_epsilon"]),
        "rope_parameters": rope,
        "tie_word_embeddings": "output.weight" not in shapes,
        "dtype": "float32",
        "use_cache": True,
    }
    ids = {f"{name}_token_id": special_id(model.fields, role) for name, role in _ROLES.items()}
    ends = end_ids(model.fields)
    return config | ids, ids | {"eos_token_id": ends[0] if len(ends) == 1 else ends or None}


def _refuse_unknown(own: Mapping, read: set[str], head_size: int) -> None:
    for name, value in own.items():
        if name not in read and _NEUTRAL.get(name, ...) != value:
            raise ValueError(f"its field {name} ({str(value)[:40]}) is not known here, and may change what it computes")
    if own.get("attention.value_length", head_size) != head_size:
        raise ValueError("its values have another size than its keys")


def _check_tensors(architecture: str, names: set[str], blocks: int) -> set[str]:
    """Returns the parts of a block that have a bias. Raises ValueError, naming a tensor, unless the file has all of its
    architecture and no others."""
    biased = {*_ATTENTION[:3]} if architecture == "qwen2" else set()
    blocks = min(blocks, len(names) + 1)  # where a damaged file says more, enough are absent
    groups = {"llama": (_ATTENTION, _MLP), "qwen3": (_ATTENTION,)}.get(architecture, ())
    for group in groups:
        if any(f"blk.{i}.{part}.bias" in names for i in range(blocks) for part in group):
            biased |= {*group}
    weights = {*_BLOCK} - (set() if architecture == "qwen3" else _HEAD_NORMS)
    of_block = [f"{part}.weight" for part in weights] + [f"{part}.bias" for part in biased]
    needed = {f"blk.{i}.{name}" for i in range(blocks) for name in of_block}
    needed |= {"token_embd.weight", "output_norm.weight"}
    if absent := needed - names:
        raise ValueError(f"its tensor {min(absent)!r} is missing, which a {architecture} model needs")
    if strange := names - needed - {"output.weight", ROPE_FACTORS}:
        raise ValueError(f"it holds a tensor {min(strange)!r}, which nothing here reads")
    return biased


def _one(own: Mapping, name: str, default: int | None = None) -> int:
    """Reads a number that some files give for each layer. Raises ValueError where the layers differ."""
    value = own[name] if default is None else own.get(name, default)
    if isinstance(value, list):
        if len({*value}) != 1:
            raise ValueError(f"its layers differ in {name}")
        return value[0]
    return value


def _values(model: GgufModel, name: str) -> tuple[float, ...] | None:
    """Reads the numbers of a small tensor in fp32; None if the file has none of this name."""
    tensor = next((t for t in model.tensors if t.name == name), None)
    if tensor is None:
        return None
    if tensor.type != "F32" or len(tensor.shape) != 1:
        raise ValueError(f"its tensor {name} is stored in another way than fp32")
    with open(tensor.file, "rb") as file:
        file.seek(tensor.offset)
        return struct.unpack(f"<{tensor.shape[0]}f", file.read(tensor.bytes))


def _shortest(number: float) -> float:
    """Finds the decimal number that a float32 was rounded from: 1e-05, and not 9.999999747378752e-06."""
    import numpy as np

    return float(str(np.float32(number)))


def _rename(name: str) -> str:
    """Returns transformers' name of a tensor.

    >>> _rename("blk.3.attn_q.weight"), _rename("output.weight")
    ('model.layers.3.self_attn.q_proj.weight', 'lm_head.weight')
    """
    stem, _, kind = name.rpartition(".")
    if stem in _TOP:
        return f"{_TOP[stem]}.{kind}"
    _, block, part = stem.split(".")
    return f"model.layers.{block}.{_BLOCK[part]}.{kind}"


def _place(tensor: GgufTensor, is_copied: bool) -> dict:
    place = asdict(tensor)
    del place["name"]
    place["file"] = str(tensor.file)
    if is_copied:
        del place["file"]
    return place


def _write(path: Path, content: dict) -> None:
    path.write_text(json.dumps(content, indent=None if path.name == LAYOUT else 2), encoding="utf-8")


def _copy(source: Path, target: Path) -> None:
    """Copies the file, or moves one that was downloaded for this folder. A full disk raises OSError."""
    if target.parent.parent in source.parents:
        os.replace(source, target)
        return
    with open(source, "rb") as data, open(target, "wb") as out:
        shutil.copyfileobj(data, out, 2**20)
        out.flush()
        os.fsync(out.fileno())

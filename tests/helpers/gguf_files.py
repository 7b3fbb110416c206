"""Writes tiny GGUF files of models with random weights, as llama.cpp's converter lays them out."""

import gguf
import numpy as np
from tiny_models import write

WORDS = ["<|end|>", "<|user|>", "a", "b", "Ġ", "1", "2", "Ċ", "ĊĊ", "ab"]
TEMPLATE = "{% for m in messages %}<|user|>{{ m.content }}<|end|>{% endfor %}"
_ARCHITECTURES = {"llama": gguf.MODEL_ARCH.LLAMA, "qwen2": gguf.MODEL_ARCH.QWEN2, "qwen3": gguf.MODEL_ARCH.QWEN3}
# The bytes of a block of each type, and where its 16-bit scales begin.
_K_BLOCKS = {
    "Q2_K": (84, (80, 82)), "Q3_K": (110, (108,)), "Q4_K": (144, (0, 2)), "Q5_K": (176, (0, 2)),
    "Q6_K": (210, (208,)), "IQ4_NL": (18, (0,)), "IQ4_XS": (136, (0,)),
}  # fmt: skip


def tiny_model(folder, kind="llama-tied", **settings):
    """A model in ``folder`` whose vocabulary is WORDS."""
    known = {"vocab_size": len(WORDS), "intermediate_size": 64, "rms_norm_eps": 1e-5, "max_position_embeddings": 128,
             "bos_token_id": 1, "eos_token_id": 0}  # fmt: skip
    return write(folder, kind, **(known | settings))


def permuted(weight, heads):
    """llama.cpp's order of the rows of q and k, written independently of the engine."""
    half, out = len(weight) // heads // 2, weight.clone()
    for head in range(heads):
        for i in range(half):
            out[2 * (head * half + i)] = weight[2 * head * half + i]
            out[2 * (head * half + i) + 1] = weight[2 * head * half + half + i]
    return out


def random_blocks(kind: str, shape: tuple[int, int], seed: int = 0) -> np.ndarray:
    """Bytes [N, bytes of a row] of a type that the gguf package reads and does not write, with small scales."""
    draw = np.random.default_rng(seed)
    (size, scale_places), per_block = _K_BLOCKS[kind], 32 if kind == "IQ4_NL" else 256
    blocks = draw.integers(0, 256, (shape[0], shape[1] // per_block, size), dtype=np.uint8)
    for at in scale_places:
        scales = draw.uniform(1e-4, 1e-3, blocks.shape[:2]).astype(np.float16)
        blocks[..., at : at + 2] = scales[..., None].view(np.uint8)
    return blocks.reshape(shape[0], -1)


def stored(data: np.ndarray, kind, seed: int = 0) -> tuple[np.ndarray, object]:
    """A matrix as a type stores it; of a type that is not written here, random blocks instead of the matrix."""
    if kind.name in _K_BLOCKS:
        return random_blocks(kind.name, data.shape, seed), kind
    return gguf.quants.quantize(data, kind), kind


def write_gguf(path, model, quantise=None, pre="smollm", arch="llama", extra=None, fields=None, name=None):
    """Writes ``model``. ``quantise``: the type of its matrices. ``extra``: further tensors. ``fields``: values by the
    writer's methods (add_NAME), or by the field's own name if that has a dot. ``name``: the architecture's name in the
    file, if it is none that the package has."""
    c, writer = model.config, gguf.GGUFWriter(path, name or arch)
    settings = {
        "name": "tiny", "block_count": c.num_hidden_layers, "context_length": c.max_position_embeddings,
        "head_count": c.num_attention_heads, "embedding_length": c.hidden_size,
        "feed_forward_length": c.intermediate_size, "head_count_kv": c.num_key_value_heads,
        "rope_freq_base": c.rope_parameters["rope_theta"], "layer_norm_rms_eps": c.rms_norm_eps,
        "tokenizer_model": "gpt2", "tokenizer_pre": pre, "token_list": WORDS, "token_merges": ["a b", "Ċ Ċ"],
        "token_types": [3, 3] + [1] * (len(WORDS) - 2), "bos_token_id": 1, "eos_token_id": 0, "chat_template": TEMPLATE,
    }  # fmt: skip
    head = getattr(c, "head_dim", None)
    if head and head != c.hidden_size // c.num_attention_heads:
        settings |= {"key_length": head, "value_length": head}
    for field, value in (settings | (fields or {})).items():
        _add_field(writer, field, value)
    names = gguf.get_tensor_name_map(_ARCHITECTURES[arch], c.num_hidden_layers)
    tensors = {k: v for k, v in model.state_dict().items() if k != "lm_head.weight" or not c.tie_word_embeddings}
    for i, (tensor, weight) in enumerate(tensors.items()):
        heads = {"q_proj": c.num_attention_heads, "k_proj": c.num_key_value_heads}.get(tensor.split(".")[-2])
        data = (permuted(weight, heads) if heads and arch == "llama" else weight).numpy()
        out = names.get_name(tensor, (".weight", ".bias"))
        if quantise and data.ndim == 2:
            data, kind = stored(data, quantise, i)
            writer.add_tensor(out, data, raw_dtype=kind)
        else:
            writer.add_tensor(out, data)
    for tensor, data in (extra or {}).items():
        writer.add_tensor(tensor, data)
    for write_part in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        write_part()
    writer.close()
    return path


def _add_field(writer, field: str, value) -> None:
    kinds = {bool: "bool", str: "string", list: "array", float: "float32", int: "uint32"}
    if "." in field:
        getattr(writer, f"add_{kinds[type(value)]}")(field, value)
    else:
        getattr(writer, f"add_{field}")(value)

"""Converts a Llama-family GGUF file to a folder in the transformers format: config, tokenizer, float32 safetensors.

Float32 because it alone keeps the dequantised values exactly: a 4-bit weight is scale × nibble + offset with both
factors in fp16, which fp16 and bf16 would round.
"""

import json
import os
import re
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np

from engine.errors import Unavailable

_TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_BLOCK = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_CONTROL, _USER_DEFINED = 3, 4  # GGUF's token types that no merge produces


def convert(gguf_file: Path, folder: Path, progress: Callable[[float], None] = lambda fraction: None) -> None:
    """Writes ``folder`` (which must exist) from ``gguf_file``. Unavailable if it is damaged or of another family."""
    import gguf

    try:
        reader = gguf.GGUFReader(gguf_file)
        meta = {name: field.contents() for name, field in reader.fields.items()}
        tensors = {_rename(t.name): t for t in reader.tensors}
        config = _config(meta, tensors)
        tokenizer = _tokenizer(meta)
    except (ValueError, KeyError, IndexError, TypeError, OverflowError) as error:
        raise Unavailable(
            f"{gguf_file.name} is damaged, or is not a Llama-family GGUF file ({error}); delete it and fetch the pair "
            "again."
        ) from error
    _write_config(folder, config)
    tokenizer.save_pretrained(folder)
    _write_safetensors(folder / "model.safetensors", tensors, config, progress)


def _rename(name: str) -> str:
    """blk.3.attn_q.weight → model.layers.3.self_attn.q_proj.weight"""
    if (stem := name.removesuffix(".weight")) in _TOP:
        return f"{_TOP[stem]}.weight"
    block = re.fullmatch(r"blk\.(\d+)\.(\w+)", stem)
    if not block or block[2] not in _BLOCK or stem == name:
        raise ValueError(f"it holds a tensor {name}")
    return f"model.layers.{block[1]}.{_BLOCK[block[2]]}.weight"


def _config(meta: dict, tensors: dict) -> dict:
    if meta["general.architecture"] != "llama":
        raise ValueError(f"its architecture is {meta['general.architecture']}")
    if any(key.startswith("llama.rope.scaling") for key in meta):
        raise ValueError("it scales its rotary embedding")
    heads, hidden = meta["llama.attention.head_count"], meta["llama.embedding_length"]
    return {
        "vocab_size": int(tensors["model.embed_tokens.weight"].shape[1]),
        "hidden_size": hidden,
        "intermediate_size": meta["llama.feed_forward_length"],
        "num_hidden_layers": meta["llama.block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": meta["llama.attention.head_count_kv"],
        "head_dim": meta.get("llama.attention.key_length", hidden // heads),
        "max_position_embeddings": meta["llama.context_length"],
        # Stored as a float32: 1e-05 would otherwise come back as 9.999999747378752e-06.
        "rms_norm_eps": float(str(np.float32(meta["llama.attention.layer_norm_rms_epsilon"]))),
        "rope_parameters": {"rope_type": "default", "rope_theta": meta.get("llama.rope.freq_base", 10000.0)},
        "tie_word_embeddings": "lm_head.weight" not in tensors,
        "bos_token_id": meta.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": meta.get("tokenizer.ggml.eos_token_id"),
        "pad_token_id": meta.get("tokenizer.ggml.padding_token_id"),
    }


def _write_config(folder: Path, config: dict) -> None:
    from transformers import GenerationConfig, LlamaConfig

    LlamaConfig(**config, architectures=["LlamaForCausalLM"], dtype="float32").save_pretrained(folder)
    special = {k: v for k, v in config.items() if k.endswith("_token_id")}
    GenerationConfig(**special).save_pretrained(folder)


def _tokenizer(meta: dict):
    """Returns the tokenizer. Transformers' own GGUF reader is not used, because it drops the splitting before BPE
    (5.23), so that "\\n\\n1" becomes other tokens than the model was trained on."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    kind, pre = meta["tokenizer.ggml.model"], meta.get("tokenizer.ggml.pre", "default")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    splits = {
        "smollm": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level]),
        "gpt-2": byte_level,
    }
    if kind != "gpt2" or pre not in splits:
        raise ValueError(f"its tokenizer is {kind}/{pre}")
    tokens = meta["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in meta["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = splits[pre]
    tokenizer.decoder = decoders.ByteLevel()
    for token, type_ in zip(tokens, meta["tokenizer.ggml.token_type"], strict=True):
        if type_ in (_CONTROL, _USER_DEFINED):
            tokenizer.add_tokens([AddedToken(token, special=type_ == _CONTROL, normalized=False)])
    roles = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
    ids = {role: meta.get(f"tokenizer.ggml.{name}_token_id") for role, name in roles.items()}
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        chat_template=meta.get("tokenizer.chat_template"),
        model_max_length=meta["llama.context_length"],
        clean_up_tokenization_spaces=False,
        **{role: tokens[i] for role, i in ids.items() if i is not None},
    )


def _write_safetensors(path: Path, tensors: dict, config: dict, progress: Callable[[float], None]) -> None:
    """Writes one tensor at a time, so that it fits into little memory; a full disk raises OSError."""
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, tensor in tensors.items():
        shape = [int(n) for n in reversed(tensor.shape)]  # GGUF counts dimensions from the innermost
        end = offset + 4 * int(np.prod(shape))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for name, tensor in tensors.items():
            values = _values(name, tensor, config)
            assert list(values.shape) == header[name]["shape"], name
            out.write(values.tobytes())
            progress(header[name]["data_offsets"][1] / offset)
        out.flush()
        os.fsync(out.fileno())


def _values(name: str, tensor, config: dict) -> np.ndarray:
    from gguf.quants import dequantize

    values = dequantize(tensor.data, tensor.tensor_type).astype("<f4", copy=False)
    if ".q_proj." in name:
        return _unpermute(values, config["num_attention_heads"])
    if ".k_proj." in name:
        return _unpermute(values, config["num_key_value_heads"])
    return values


def _unpermute(values: np.ndarray, heads: int) -> np.ndarray:
    """Reorders the rows of each head from a0 b0 a1 b1 … to a0 a1 … b0 b1 …, because GGUF stores the halves of a rotary
    pair adjacent, and transformers half a head apart."""
    rows, columns = values.shape
    return values.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)

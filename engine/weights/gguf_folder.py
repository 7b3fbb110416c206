"""Prepares a folder for a Llama-family GGUF file: config and tokenizer as transformers reads them, beside the file.

The weights stay as they are. `tensors.json` lists their places, because reading the file's own header takes a second.
"""

import json
import os
import re
import shutil
from pathlib import Path

import numpy as np

from engine.errors import Unavailable
from engine.weights.checkpoint_dir import GGUF, LAYOUT

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


def prepare(gguf_file: Path, folder: Path) -> None:
    """Fills ``folder`` (which must exist) from ``gguf_file``. Unavailable if it is damaged or of another family."""
    import gguf

    try:
        reader = gguf.GGUFReader(gguf_file)
        meta = {name: field.contents() for name, field in reader.fields.items()}
        layout = {_rename(t.name): _place(t) for t in reader.tensors}
        config = _config(meta, layout)
        tokenizer = _tokenizer(meta)
    except (ValueError, KeyError, IndexError, TypeError, OverflowError) as error:
        raise Unavailable(
            f"{gguf_file.name} is damaged, or is not a Llama-family GGUF file ({error}); delete it and fetch the pair "
            "again."
        ) from error
    _write_config(folder, config)
    tokenizer.save_pretrained(folder)
    (folder / LAYOUT).write_text(json.dumps(layout), encoding="utf-8")
    _copy(gguf_file, folder / GGUF)


def _place(tensor) -> dict:
    shape = [int(n) for n in reversed(tensor.shape)]  # GGUF counts dimensions from the innermost
    return {
        "type": tensor.tensor_type.name, "shape": shape, "offset": int(tensor.data_offset), "bytes": int(tensor.n_bytes)
    }  # fmt: skip


def _copy(source: Path, target: Path) -> None:
    """A full disk raises OSError."""
    with open(source, "rb") as data, open(target, "wb") as out:
        shutil.copyfileobj(data, out, 2**20)
        out.flush()
        os.fsync(out.fileno())


def _rename(name: str) -> str:
    """blk.3.attn_q.weight → model.layers.3.self_attn.q_proj.weight"""
    if (stem := name.removesuffix(".weight")) in _TOP:
        return f"{_TOP[stem]}.weight"
    block = re.fullmatch(r"blk\.(\d+)\.(\w+)", stem)
    if not block or block[2] not in _BLOCK or stem == name:
        raise ValueError(f"it holds a tensor {name}")
    return f"model.layers.{block[1]}.{_BLOCK[block[2]]}.weight"


def _config(meta: dict, layout: dict) -> dict:
    if meta["general.architecture"] != "llama":
        raise ValueError(f"its architecture is {meta['general.architecture']}")
    if any(key.startswith("llama.rope.scaling") for key in meta):
        raise ValueError("it scales its rotary embedding")
    heads, hidden = meta["llama.attention.head_count"], meta["llama.embedding_length"]
    return {
        "vocab_size": layout["model.embed_tokens.weight"]["shape"][0],
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
        "tie_word_embeddings": "lm_head.weight" not in layout,
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

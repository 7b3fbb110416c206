"""Writes tiny checkpoints in real architectures, and makes small tokenizers."""

from contextlib import contextmanager
from functools import cache
from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from engine.models.decoder.llama import LlamaModel
from engine.models.decoder.runner import DecoderRunner
from engine.models.onnx.llama import OnnxLlama

SMALL = {
    "vocab_size": 96, "hidden_size": 64, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 256, "bos_token_id": 1, "eos_token_id": 2,
    "pad_token_id": 0, "tie_word_embeddings": False, "initializer_range": 0.3,
}  # fmt: skip
THETA = {"rope_theta": 10000.0}
LLAMA3 = {"rope_type": "llama3", **THETA, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}  # fmt: skip
YARN = {"rope_type": "yarn", **THETA, "factor": 4.0, "original_max_position_embeddings": 64}
LINEAR = {"rope_type": "linear", **THETA, "factor": 2.0}

CHECKPOINTS = {
    "llama": ("Llama", {}),
    "llama-tied": ("Llama", {"tie_word_embeddings": True}),
    "llama-wide-head": ("Llama", {"head_dim": 32}),
    "llama-biased": ("Llama", {"attention_bias": True, "mlp_bias": True}),
    "llama3-rope": ("Llama", {"rope_parameters": LLAMA3}),
    "yarn-rope": ("Llama", {"rope_parameters": YARN}),
    "linear-rope": ("Llama", {"rope_parameters": LINEAR}),
    "many-eos": ("Llama", {"eos_token_id": [2, 3, 4]}),
    "multi-query": ("Llama", {"num_key_value_heads": 1}),
    "mistral": ("Mistral", {"sliding_window": None}),
    "mistral-window": ("Mistral", {"sliding_window": 40}),
    "qwen2": ("Qwen2", {}),
    "qwen3": ("Qwen3", {"head_dim": 32}),
    "qwen3-tied": ("Qwen3", {"head_dim": 16, "tie_word_embeddings": True}),
}
LONGROPE = {"rope_type": "longrope", **THETA, "factor": 4.0, "original_max_position_embeddings": 32,
            "short_factor": [1.0] * 8, "long_factor": [1.0 + 0.7 * i for i in range(8)]}  # fmt: skip
# Architectures that only the universal runner knows.
OTHERS = {
    "gpt2": ("GPT2", {}),
    "gemma": ("Gemma", {"head_dim": 8}),
    "gemma2": ("Gemma2", {"head_dim": 8, "sliding_window": 16, "query_pre_attn_scalar": 8}),
    "gemma3": ("Gemma3Text", {"head_dim": 8, "sliding_window": 16, "query_pre_attn_scalar": 8, "num_hidden_layers": 3,
                              "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}),
    "phi3": ("Phi3", {"sliding_window": None, "rope_parameters": LONGROPE, "original_max_position_embeddings": 32}),
    "phi3-window": ("Phi3", {"sliding_window": 12}),
    "mamba": ("Mamba", {"state_size": 4, "intermediate_size": 64}),
    "recurrent_gemma": ("RecurrentGemma", {"head_dim": 8, "num_hidden_layers": 3, "lru_width": 32,
                                           "attention_window_size": 16}),
}  # fmt: skip


@contextmanager
def seeded(seed: int):
    """Lets torch draw from this seed, then restores its global generator, so that no test changes another one."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def write(folder: Path, name: str = "llama", seed: int = 0, shards: str | None = None, **overrides):
    """Write a random checkpoint of a real architecture; gives the transformers model it came from (eval, fp32)."""
    family, settings = (CHECKPOINTS | OTHERS)[name]
    config = getattr(transformers, f"{family}Config")(**{**SMALL, **settings, **overrides})
    with seeded(seed), torch.no_grad():
        model = transformers.AutoModelForCausalLM.from_config(config).eval()
        for key, weight in model.named_parameters():
            if "norm" in key or key.endswith("bias"):  # otherwise ones and zeros, which hide a forgotten one
                weight.add_(0.2 * torch.randn_like(weight))
    model.save_pretrained(folder, **({"max_shard_size": shards} if shards else {}))
    return model


def logits_of(model, ids) -> torch.Tensor:
    """transformers' own logits [len(ids), V]."""
    with torch.inference_mode():
        return model(torch.tensor([list(ids)])).logits[0]


def runner_of(folder: Path, model, device: str = "cpu", dtype=torch.float32):
    """The model as torch runs it."""
    return DecoderRunner(LlamaModel(folder, model.config, dtype, device))


def onnx_runner_of(folder: Path, model, precision: str = "fp32"):
    """The model as ONNX Runtime runs it."""
    return DecoderRunner(OnnxLlama(folder, model.config, precision))


RUNTIMES = {"torch": runner_of, "onnx": onnx_runner_of}


def byte_level_bpe(tokens, merges) -> Tokenizer:
    """BPE of bytes, as GPT-2 and Llama 3 have it."""
    raw = Tokenizer(models.BPE({token: i for i, token in enumerate(dict.fromkeys(tokens))}, merges))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    return raw


def byte_fallback_bpe(tokens, merges) -> Tokenizer:
    """Metaspace with byte fallback, as Llama 2 and Mistral have it."""
    vocabulary = {token: i for i, token in enumerate(dict.fromkeys(tokens))}
    raw = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    raw.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    raw.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return raw


ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())
BYTES = [f"<0x{i:02X}>" for i in range(256)]


@cache
def byte_tokenizer() -> PreTrainedTokenizerFast:
    """Two specials, then every byte and a few merges."""
    raw = byte_level_bpe(["<pad>", "<end>", *ALPHABET, "th", "the", "Ġt"], [("t", "h"), ("th", "e"), ("Ġ", "t")])
    return PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="<pad>", eos_token="<end>")


@cache
def fallback_tokenizer() -> PreTrainedTokenizerFast:
    """Specials, every byte, a few words."""
    tokens = ["<unk>", "<s>", "</s>", *BYTES, "▁", *"abcdeho", "▁he", "he", "▁c", "é"]
    raw = byte_fallback_bpe(tokens, [("h", "e"), ("▁", "he"), ("▁", "c")])
    return PreTrainedTokenizerFast(tokenizer_object=raw, unk_token="<unk>", bos_token="<s>", eos_token="</s>")

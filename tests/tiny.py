"""What several tests share: tiny checkpoints in real architectures, small tokenizers, and the chi-squared check."""

from collections import Counter
from functools import cache
from pathlib import Path

import pytest
import torch
import transformers
from scipy.stats import chi2
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from engine.decoder import Decoder
from engine.runner import DecoderRunner


@pytest.fixture(autouse=True)
def one_thread():
    """Tiny tensors gain nothing from threads, and on a busy machine threads that wait for each other cost minutes."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


FALSE_ALARM = 1e-4  # the chance that a right rule fails one of the statistical tests, had the seeds not been fixed
CAUGHT = 1e-6  # a mutant must be this clear

SMALL = {
    "vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
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
    "llama-wide-head": ("Llama", {"head_dim": 16}),
    "llama-biased": ("Llama", {"attention_bias": True, "mlp_bias": True}),
    "llama3-rope": ("Llama", {"rope_parameters": LLAMA3}),
    "yarn-rope": ("Llama", {"rope_parameters": YARN}),
    "linear-rope": ("Llama", {"rope_parameters": LINEAR}),
    "many-eos": ("Llama", {"eos_token_id": [2, 3, 4]}),
    "multi-query": ("Llama", {"num_key_value_heads": 1}),
    "mistral": ("Mistral", {"sliding_window": None}),
    "mistral-window": ("Mistral", {"sliding_window": 40}),
    "qwen2": ("Qwen2", {}),
    "qwen3": ("Qwen3", {"head_dim": 16}),
    "qwen3-tied": ("Qwen3", {"head_dim": 8, "tie_word_embeddings": True}),
}


def write(folder: Path, name: str = "llama", seed: int = 0, shards: str | None = None, **overrides):
    """Write a random checkpoint of a real architecture; gives the transformers model it came from (eval, fp32)."""
    family, settings = CHECKPOINTS[name]
    config = getattr(transformers, f"{family}Config")(**{**SMALL, **settings, **overrides})
    torch.manual_seed(seed)
    model = getattr(transformers, f"{family}ForCausalLM")(config).eval()
    with torch.no_grad():
        for key, weight in model.named_parameters():
            if "norm" in key or key.endswith("bias"):  # otherwise ones and zeros, which hide a forgotten one
                weight.add_(0.2 * torch.randn_like(weight))
    model.save_pretrained(folder, **({"max_shard_size": shards} if shards else {}))
    return model


def runner_of(folder: Path, model, packed: bool | None = False, device: str = "cpu", dtype=torch.float32):
    return DecoderRunner(Decoder(folder, model.config, dtype, device, packed=packed))


@cache
def byte_tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE as GPT-2 and Llama 3 have it: 2 specials, then every byte (and a few merges)."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate(["<pad>", "<end>", *alphabet, "th", "the", "Ġt"])}
    tokenizer = Tokenizer(models.BPE(vocabulary, [("t", "h"), ("th", "e"), ("Ġ", "t")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<end>")


@cache
def fallback_tokenizer() -> PreTrainedTokenizerFast:
    """Metaspace with byte fallback, as Llama 2 and Mistral have it: specials, 256 byte tokens, a few words."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256)), "▁", *"abcdeho", "▁he", "he", "▁c", "é"]
    merges = [("h", "e"), ("▁", "he"), ("▁", "c")]
    tokenizer = Tokenizer(
        models.BPE({t: i for i, t in enumerate(tokens)}, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    )
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>")


def chi_squared(observed: dict, expected: dict, smallest: float = 5.0) -> tuple[float, int]:
    """Pearson's statistic and its degrees of freedom; cells expecting fewer than ``smallest`` are merged.

    Something seen that cannot happen gives infinity.
    """
    if any(count and expected.get(cell, 0.0) <= 0 for cell, count in observed.items()):
        return float("inf"), 1
    cells, rest_seen, rest_expected = [], 0.0, 0.0
    for cell, mean in expected.items():
        if mean >= smallest:
            cells.append((observed.get(cell, 0), mean))
        else:
            rest_seen, rest_expected = rest_seen + observed.get(cell, 0), rest_expected + mean
    if rest_expected > 0:
        cells.append((rest_seen, rest_expected))
    return sum((seen - mean) ** 2 / mean for seen, mean in cells), max(len(cells) - 1, 0)


def joint_p_value(outputs: Counter, law: dict) -> float:
    """How probable so large a deviation is if the outputs were drawn from ``law``."""
    total = sum(outputs.values())
    statistic, freedom = chi_squared(outputs, {cell: total * mass for cell, mass in law.items()})
    return float(chi2.sf(statistic, freedom))


def markov_p_value(model, tokens: list[int], sampling) -> float:
    """The same for one long run of a ToyLM: given the two tokens before it, each next token is a draw from p.

    One chi-squared a context, summed: together they say what the joint law of the whole run says.
    """
    following: dict[tuple, Counter] = {}
    for a, b, c in zip(tokens, tokens[1:], tokens[2:], strict=False):
        following.setdefault((a, b), Counter())[c] += 1
    statistic, freedom = 0.0, 0
    for context, seen in following.items():
        row = model.probabilities(context, sampling).double().tolist()
        total = sum(seen.values())
        part, degrees = chi_squared(seen, {token: total * mass for token, mass in enumerate(row) if mass > 0})
        statistic, freedom = statistic + part, freedom + degrees
    return float(chi2.sf(statistic, freedom)) if freedom else float(statistic == 0)

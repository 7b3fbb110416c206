"""Tiny pairs on disk: a checkpoint in a real architecture with a tokenizer and a chat template beside it."""

from pathlib import Path

import torch
import transformers
from tiny_models import SMALL, byte_tokenizer, write

from engine.config import RunConfig, SamplingParams

TEMPLATE = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}[assistant] "
VOCABULARY = 264  # three more than the tokenizer has, as padded checkpoints have them
PROMPT = "the cat, the hat, the cat"
END = 1  # <end> of the byte tokenizer
# Architectures that only the universal runner knows.
OTHERS = {
    "gpt2": ("GPT2", {"n_positions": 256}),
    "gemma": ("Gemma", {"head_dim": 8}),
    "gemma2": ("Gemma2", {"head_dim": 8, "sliding_window": 16, "query_pre_attn_scalar": 8}),
    "gemma3": ("Gemma3", {"head_dim": 8, "sliding_window": 16, "query_pre_attn_scalar": 8, "num_hidden_layers": 3,
                          "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}),
    "mamba": ("Mamba", {"state_size": 4, "intermediate_size": 64}),
    "recurrent_gemma": ("RecurrentGemma", {"head_dim": 8, "num_hidden_layers": 3, "lru_width": 32,
                                           "attention_window_size": 16}),
}  # fmt: skip


def model_folder(folder: Path, name="llama", tokenizer=True, template=TEMPLATE, noise=0.0, seed=0, **settings):
    """Write a checkpoint with its tokenizer into ``folder``; gives the transformers model (eval, fp32).

    ``noise`` moves every weight a little: a draft that often agrees with the model of the same seed.
    """
    settings = {"vocab_size": VOCABULARY, "eos_token_id": END, "bos_token_id": None} | settings
    folder.mkdir(parents=True, exist_ok=True)
    if name in OTHERS:
        model = _other(name, seed, settings)
    else:
        model = write(folder, name, seed, **settings)
    if noise:
        torch.manual_seed(seed + 1)
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(noise * weight.std() * torch.randn_like(weight))
    model.save_pretrained(folder)
    if tokenizer:
        kept = byte_tokenizer() if tokenizer is True else tokenizer
        kept.chat_template = template
        kept.save_pretrained(folder)
    return model


def _other(name: str, seed: int, settings: dict):
    family, own = OTHERS[name]
    shared = {k: v for k, v in SMALL.items() if family != "GPT2"} or {
        "n_embd": 32, "n_layer": 2, "n_head": 4, "initializer_range": 0.3, "pad_token_id": 0,
    }  # fmt: skip
    kind = "Gemma3Text" if family == "Gemma3" else family
    config = getattr(transformers, f"{kind}Config")(**{**shared, **own, **settings})
    torch.manual_seed(seed)
    head = "LMHeadModel" if family == "GPT2" else "ForCausalLM"
    return getattr(transformers, family + head)(config).eval()


def request(pair: str | Path, method="none", **settings) -> RunConfig:
    """A short greedy run on raw text, unless told otherwise."""
    asked = {"prompt": PROMPT, "gamma": 4, "max_new_tokens": 16, "chat": False} | settings
    if "temperature" in asked:
        asked["sampling"] = SamplingParams(asked.pop("temperature"))
    return RunConfig(pair=str(pair), method=method, **asked)


def generated(model, ids: list[int], count: int, eos=(END,)) -> list[int]:
    """What transformers' own greedy generate gives after ``ids``."""
    with torch.inference_mode():
        out = model.generate(
            torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long), do_sample=False,
            max_new_tokens=count, eos_token_id=list(eos), pad_token_id=0, use_cache=True,
        )  # fmt: skip
    return out[0, len(ids) :].tolist()


def without_clocks(trace) -> str:
    """A trace as text with everything in it that a second run cannot repeat left out."""
    from dataclasses import replace

    from engine.trace.events import Timings
    from engine.trace.trace import to_json

    still = Timings(0.0, 0.0, 0.0, 0.0)
    rounds = tuple(replace(r, timings=still, start=0.0, end=0.0) for r in trace.rounds)
    end = replace(trace.finished, prefill=0.0, ttft=0.0, decode_seconds=0.0, seconds=0.0, peak_memory=None)
    return to_json(replace(trace, started=replace(trace.started, costs=None, at=""), rounds=rounds, finished=end))

"""transformers' generate on the same shape: eager, and with a static cache and compiled. Its decoding alone is timed,
as ours is."""

import gc
import statistics
import time
from collections.abc import Callable

import torch
import transformers
from transformers import AutoModelForCausalLM, GenerationConfig

from engine.contestants import Watch
from engine.memory import out_of_memory
from engine.shapes.models import Shape

WAYS = {"eager": {"disable_compile": True}, "compiled": {"cache_implementation": "static"}}
Say = Callable[[str], None]


def measure(
    shape: Shape, context: int, dtype: torch.dtype, device: str, say: Say = lambda text: None, tokens: int = 128,
    repeats: int = 3,
) -> dict:  # fmt: skip
    """Tokens a second of each way; a reason in words where one cannot run."""
    transformers.logging.set_verbosity_error()
    say("transformers: making the model")
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(shape.config, dtype=dtype).eval()
    ids = torch.tensor([[(7_919 * i + 13) % model.config.vocab_size for i in range(context)]], device=device)
    found = {}
    try:
        for way, settings in WAYS.items():
            say(f"transformers: {way}")
            found[way] = _tried(model, ids, settings, tokens, repeats, device)
    finally:
        del model
        gc.collect()
        if torch.device(device).type == "cuda":
            torch.cuda.empty_cache()
    return found


def _tried(model, ids, settings: dict, tokens: int, repeats: int, device: str) -> dict:
    try:
        rates = [_rate(model, ids, settings, tokens, device) for _ in range(repeats + 2)][2:]  # two compile and warm
    except Exception as error:  # whatever the compiler or the memory says; the others still run
        reason = "out of memory" if out_of_memory(error) else f"{type(error).__name__}: {str(error)[:200]}"
        return {"problem": reason}
    return {"tokens_per_second": statistics.median_low(rates)}


def _rate(model, ids, settings: dict, tokens: int, device: str) -> float:
    watch = Watch()
    wanted = GenerationConfig(
        max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False, pad_token_id=0, use_cache=True, **settings
    )
    with torch.inference_mode():
        model.generate(ids, generation_config=wanted, streamer=watch)
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()
    end = time.perf_counter()
    (first, _), count = watch.puts[0], sum(number for _, number in watch.puts[1:])
    return count / (end - first)

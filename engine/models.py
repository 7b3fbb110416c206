"""From a folder to a model that runs: which device and precision, which of the two ways, and refusals in words."""

import platform
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import GenerationConfig

from engine.config import AUTO
from engine.decoder import Decoder, unsupported
from engine.errors import BadInput, Unavailable
from engine.folders import weights_hash
from engine.memory import out_of_memory
from engine.pretrained import load_config, load_tokenizer
from engine.runner import DecoderRunner, Runner
from engine.universal import UniversalRunner, first_line

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
_KINDS = ("cuda", "mps", "cpu")


def default_device() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def choose_device(name: str = AUTO) -> str:
    """With "auto" cuda > mps > cpu. Unavailable if the device named is not here."""
    if name == AUTO:
        return default_device()
    try:
        if torch.device(name).type not in _KINDS:
            raise NotImplementedError(name)
        torch.zeros(1, device=torch.device(name))
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        here = default_device()
        raise Unavailable(f"Device {name[:40]!r} cannot be used here; this machine offers {here!r}.") from error
    return name


def choose_precision(name: str, device: str) -> str:
    """With "auto" bf16 on CUDA and fp32 elsewhere (bf16 without matrix units is slower than fp32)."""
    if name == AUTO:
        return "bf16" if torch.device(device).type == "cuda" else "fp32"
    if name not in PRECISIONS:
        raise BadInput(f"Unknown precision {name[:40]!r}; choose from {', '.join([AUTO, *PRECISIONS])}.")
    return name


def device_name(device: str) -> str:
    if torch.device(device).type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device} ({platform.machine()}, {torch.get_num_threads()} threads)"


@dataclass
class Model:
    """A loaded checkpoint: the runner, its tokenizer, the ids that end a text, a hash of the weights."""

    runner: Runner
    tokenizer: object
    eos: frozenset[int]
    hash: str
    folder: Path


def load_model(
    folder: Path, device: str, precision: str, progress: Callable[[float], None] | None = None, quantised: bool = False
) -> Model:
    """Our decoder where it knows the architecture, transformers otherwise. Unavailable with a reason in words.

    ``quantised``: a draft whose products may be done in 8 bits where that is faster (`engine/linear.py`).
    """
    config, tokenizer, dtype = load_config(folder), load_tokenizer(folder), PRECISIONS[precision]
    with memory_in_words(f"{folder.name} does not fit into the memory of {device}"):
        try:
            if unsupported(config):
                runner = UniversalRunner(folder, dtype, device)
            else:
                with torch.inference_mode():
                    decoder = Decoder(folder, config, dtype, device, progress=progress, quantised=quantised)
                runner = DecoderRunner(decoder)
        except (RuntimeError, TypeError, AttributeError, KeyError) as error:
            if out_of_memory(error):
                raise
            raise Unavailable(f"The weights in {folder} do not fit its config.json: {first_line(error)}") from error
    return Model(runner, tokenizer, _eos_ids(folder, config, tokenizer), weights_hash(folder), folder)


@contextmanager
def memory_in_words(what: str):
    """An allocation that fails inside becomes Unavailable."""
    try:
        yield
    except Exception as error:
        if not out_of_memory(error):
            raise
        raise Unavailable(f"{what}; choose a smaller pair, a lower precision or a shorter text.") from error


def _eos_ids(folder: Path, config, tokenizer) -> frozenset[int]:
    """What transformers' generate stops at: the generation config's ids, else the config's, else the tokenizer's."""
    candidates = [getattr(config, "eos_token_id", None), tokenizer.eos_token_id]
    if (folder / "generation_config.json").exists():
        try:
            candidates.insert(0, GenerationConfig.from_pretrained(folder).eos_token_id)
        except (OSError, ValueError) as error:
            raise Unavailable(f"{folder / 'generation_config.json'} is damaged: {first_line(error)}") from error
    found = next((c for c in candidates if c is not None), None)
    return frozenset(found if isinstance(found, list) else [] if found is None else [found])

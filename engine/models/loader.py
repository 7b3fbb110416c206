"""Loads a model folder with the implementation that can run it, and explains why none can."""

import platform
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import GenerationConfig

from engine.config import ROUNDED
from engine.device import out_of_memory
from engine.errors import Unavailable, quantity
from engine.models.decoder.config import check_fields, head_size, unsupported_reason
from engine.models.decoder.llama import LlamaModel
from engine.models.decoder.runner import DecoderRunner
from engine.models.decoder.transformers_config import load_config, load_tokenizer
from engine.models.decoder.transformers_runner import TransformersRunner, first_line
from engine.models.onnx import session as onnx_session
from engine.models.onnx.attention import HEAD_SIZES
from engine.models.tensors.gguf_reader import open_weights
from engine.models.tensors.grouped import RoundedReader
from engine.weights.byte_order_marks import hide_byte_order_marks

# The type of activations, keys and values. int8 and int4 are for CPUs; products round their inputs to 8 bits there.
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "int8": torch.float32,
              "int4": torch.float32}  # fmt: skip


def device_name(device: str) -> str:
    if torch.device(device).type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device} ({platform.machine()}, {quantity(onnx_session.threads(), 'thread')})"


def runs_in_onnx(device: str, precision: str) -> bool:
    """Returns whether our own decoder runs models in this precision as ONNX Runtime graphs."""
    return torch.device(device).type == "cpu" and precision in ("fp32", *ROUNDED) and onnx_session.works()


@dataclass
class LoadedModel:
    """A checkpoint ready to run; ``eos``: the ids that end a text; ``precision``: the precision of its products."""

    runner: Any  # a Runner, until the pair is closed
    tokenizer: Any
    eos: frozenset[int]
    folder: Path
    precision: str = ""


def load_model(
    folder: Path, device: str, precision: str, progress: Callable[[float], None] | None = None
) -> LoadedModel:
    """Loads a folder into our own Llama forward pass if it knows the architecture, else with transformers. Raises
    Unavailable with the reason."""
    config, tokenizer, dtype = load_config(folder), load_tokenizer(folder), DTYPES[precision]
    check_fields(config, str(folder / "config.json"))
    with memory_errors(f"{folder.name} does not fit into the memory of {device}"):
        try:
            if reason := unsupported_reason(config):
                if precision in ROUNDED:
                    raise Unavailable(f"{folder.name} cannot run in {precision}: {reason}. Choose fp32.")
                runner = TransformersRunner(folder, dtype, device)
            else:
                with torch.inference_mode():
                    runner = DecoderRunner(_decoder(folder, config, device, precision, progress))
        except (RuntimeError, TypeError, AttributeError, KeyError) as error:
            if out_of_memory(error):
                raise
            raise Unavailable(f"The weights in {folder} do not fit its config.json: {first_line(error)}") from error
    return LoadedModel(runner, tokenizer, eos_ids(folder, config, tokenizer), folder, precision)


def _decoder(folder: Path, config, device: str, precision: str, progress):
    if runs_in_onnx(device, precision) and head_size(config) % HEAD_SIZES == 0:
        from engine.models.onnx.llama import OnnxLlama

        return OnnxLlama(folder, config, precision, progress)
    dtype = DTYPES[precision]
    reader = open_weights(folder, dtype, device)
    if precision in ROUNDED:
        reader = RoundedReader(reader, ROUNDED[precision])
    return LlamaModel(folder, config, dtype, device, progress, reader)


MEMORY_ADVICE = "choose a smaller pair, a lower precision or a shorter text"


@contextmanager
def memory_errors(problem: str):
    """Raises Unavailable for a failed allocation inside the with block."""
    try:
        yield
    except Exception as error:
        if not out_of_memory(error):
            raise
        raise Unavailable(f"{problem}; {MEMORY_ADVICE}.") from error


def eos_ids(folder: Path, config, tokenizer) -> frozenset[int]:
    """Returns the ids at which transformers' generate stops: the generation config's ids, else the config's, else the
    tokenizer's."""
    candidates = [getattr(config, "eos_token_id", None), tokenizer.eos_token_id]
    if (folder / "generation_config.json").exists():
        try:
            with hide_byte_order_marks(folder) as clean:
                candidates.insert(0, GenerationConfig.from_pretrained(clean).eos_token_id)
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise Unavailable(f"{folder / 'generation_config.json'} is damaged: {first_line(error)}") from error
    ids = next((c for c in candidates if c is not None), [])
    return frozenset(ids if isinstance(ids, list) else [ids])

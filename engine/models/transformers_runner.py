"""Runs any transformers causal LM whose cache can be cropped, under the Runner protocol: slower than `LlamaModel`.

Recurrent models and caches that cannot be rolled back are refused. Because not every model declares this, a probe
appends tokens, rolls them back and appends them again: the logits must be the same.
"""

from collections.abc import Callable, Sequence
from copy import copy
from pathlib import Path

import torch
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoConfig, AutoModelForCausalLM, DynamicCache
from transformers.utils import logging as transformers_logging

from engine.device import out_of_memory
from engine.errors import BadInput, EngineError, Unavailable
from engine.models.gguf_reader import open_weights
from engine.models.runner import Tokens
from engine.weights.eight_bits import is_read_here
from engine.weights.gguf_layout import is_prepared
from engine.weights.rounded_kinds import rounding_problem

_PREFILL_CHUNK = 512
_TOLERANCE = {torch.float32: 1e-3, torch.float16: 0.1, torch.bfloat16: 0.5}


class TransformersRunner:
    """Chains only: trees need an attention mask that not every architecture takes."""

    trees = False
    captured = False
    same_bits = None

    def __init__(self, folder: Path, dtype: torch.dtype, device: str):
        self.model = load_transformers(folder, dtype, device)
        self.dtype, self.device = dtype, device
        text = self.model.config.get_text_config()
        self.vocab_size = text.vocab_size
        self.max_length = getattr(text, "max_position_embeddings", None) or 2048
        self.cache: DynamicCache | None = None
        self._check_rollback()

    def _check_rollback(self) -> None:
        kind = self.model.config.model_type
        refused = Unavailable(
            f"{kind} models keep a state that cannot be rolled back, so drafts cannot be taken back; "
            "speculative decoding needs a model with a key/value cache."
        )
        if getattr(self.model, "_is_stateful", False):
            raise refused
        try:
            self.reset(6)
            self.forward(torch.arange(1, 4, device=self.device) % self.vocab_size)
            probe = torch.arange(4, 7, device=self.device) % self.vocab_size
            first = self.forward(probe)
            self.rollback(3)
            again = self.forward(probe)
            same = self.length == 6 and float((first - again).abs().max()) <= _TOLERANCE[self.dtype]
        except EngineError:
            raise
        except Exception as error:  # architectures fail in many ways without a cache that can be cropped
            if out_of_memory(error):
                raise
            raise refused from error
        finally:
            self.release()
        if not same:
            raise refused

    @property
    def length(self) -> int:
        return self.cache.get_seq_length() if self.cache is not None else 0

    def fork(self) -> "TransformersRunner":
        twin = copy(self)
        twin.cache = None
        return twin

    def forward_many(self, batch: Sequence[Tokens]) -> list[torch.Tensor | None]:
        return [tokens.alone() for tokens in batch]  # padding needs a mask, which not every architecture takes

    def memory(self, capacity: int) -> int:
        text = self.model.config.get_text_config()
        heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
        size = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
        return capacity * 2 * text.num_hidden_layers * heads * size * self.dtype.itemsize

    def reset(self, capacity: int) -> None:
        if capacity > self.max_length:
            raise BadInput(
                f"Prompt and answer together need {capacity} tokens, but this model's context is {self.max_length}; "
                "shorten the prompt or ask for fewer new tokens."
            )
        self.cache = DynamicCache()  # without the config: sliding layers then keep every key, and can be cropped

    @torch.inference_mode()
    def prefill(self, ids: Sequence[int]) -> None:
        for start in range(0, len(ids), _PREFILL_CHUNK):
            self.forward(torch.tensor(ids[start : start + _PREFILL_CHUNK], device=self.device), last=True)

    @torch.inference_mode()
    def forward(self, tokens, parents=None, last=False):
        assert parents is None, "this model runs chains only"
        keep = 1 if last else 0  # 0 is all; a model that does not know the argument gives all rows either way
        output = self.model(tokens[None], past_key_values=self.cache, use_cache=True, logits_to_keep=keep)
        return output.logits[0, -1:] if last else output.logits[0]

    def loop(self, key, total: int, body: Callable):
        return body(lambda ids, offset: (self.forward(ids, last=True), None))

    @torch.inference_mode()
    def rollback(self, length: int) -> None:
        surplus = self.length - length
        assert surplus >= 0, f"cannot roll back from {self.length} to {length}"
        if surplus:
            self.cache.crop(-surplus)

    def keep(self, base: int, nodes: list[int]) -> None:
        assert nodes == list(range(len(nodes))), "this model runs chains only"
        self.rollback(base + len(nodes))

    def release(self) -> None:
        self.cache = None

    def close(self) -> None:
        self.release()
        self.model = None


def load_transformers(folder: Path, dtype: torch.dtype, device: str):
    """Returns transformers' own model on the device, in evaluation mode; a quantised checkpoint as the package that it
    names runs it. Raises Unavailable with the reason; memory errors pass through."""
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        model, absent = (_from_gguf if is_prepared(folder) else _from_folder)(folder, dtype, device)
    except EngineError:
        raise
    except Exception as error:  # architectures fail to load in many ways
        if out_of_memory(error):
            raise
        raise Unavailable(f"transformers cannot load {folder}: {first_line(error)}") from error
    finally:
        if bars:
            transformers_logging.enable_progress_bar()
    if absent:  # transformers would fill them with random values
        raise Unavailable(
            f"{folder} has no tensor {min(absent)!r}; its weights do not fit its config.json. Fetch the pair again."
        )
    return model.eval()


def _from_folder(folder: Path, dtype: torch.dtype, device: str):
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    # Quantised weights are put on the device as they are loaded and cannot be moved later; it takes accelerate.
    quantization = getattr(config, "quantization_config", None)
    if is_read_here(quantization):  # without the package that transformers would need
        del config.quantization_config
        return _filled(config, folder, dtype, device)
    quantised = quantization is not None
    check_kind(folder, config)
    model, loaded = AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, trust_remote_code=False, use_safetensors=True, local_files_only=True,
        output_loading_info=True, device_map={"": device} if quantised else None,
    )  # fmt: skip
    return model if quantised else model.to(device), loaded["missing_keys"]


def check_kind(folder: Path, config) -> None:
    """Raises Unavailable for weights that were rounded in a way that cannot be read here, and for another kind of model
    than a language model."""
    if problem := rounding_problem(str(folder), config.to_dict()):
        raise Unavailable(problem)
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise Unavailable(
            f"{folder} holds a {config.model_type} model, which transformers does not run as a language model; name "
            "one that writes text."
        )


def _from_gguf(folder: Path, dtype: torch.dtype, device: str):
    # Transformers' own GGUF reader needs one more package.
    return _filled(
        AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True), folder, dtype, device
    )


def _filled(config, folder: Path, dtype: torch.dtype, device: str):
    """A model of this configuration, filled tensor by tensor, and the names of those that the folder lacks."""
    model, weights = AutoModelForCausalLM.from_config(config, dtype=dtype), open_weights(folder, dtype, "cpu")
    absent = []
    for name, parameter in model.named_parameters():  # a tied output layer is not among them
        if name in weights:
            parameter.data.copy_(weights(name, tuple(parameter.shape)))
        else:
            absent.append(name)
    return model.to(device), absent


def first_line(error: Exception) -> str:
    """Returns another library's words as the end of a sentence."""
    line = next(iter(str(error).strip().splitlines()), type(error).__name__)[:300]
    return f"{line.rstrip(' .:')}."

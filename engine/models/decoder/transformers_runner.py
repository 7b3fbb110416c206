"""Runs any transformers causal LM whose cache can be cropped, under the Runner protocol: slower than `LlamaModel`.

Recurrent models and caches that cannot be rolled back are refused. Because not every model declares this, a probe
appends tokens, rolls them back and appends them again: the logits must be the same.

Some models (longrope: Phi-3, Phi-4-mini) turn all positions in another way once a text is longer than their original
context. Where transformers' `generate` then reads the whole text again, this runner does the same; the text of others
ends at the original context.
"""

from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Any, cast

import torch
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoConfig, AutoModelForCausalLM, DynamicCache
from transformers.utils import logging as transformers_logging

from engine.device import out_of_memory
from engine.errors import EngineError, Unavailable
from engine.models.decoder.runner import Runner, check_capacity
from engine.models.decoder.unread_tensors import is_harmless, is_of_another_part
from engine.models.decoder.unread_tensors import surplus as surplus_problem
from engine.models.tensors.gguf_reader import open_weights
from engine.weights.byte_order_marks import hide_byte_order_marks
from engine.weights.eight_bits import SCALE, is_read_here
from engine.weights.folder_kinds import rounding_problem
from engine.weights.gguf.layout import is_prepared

_PREFILL_CHUNK = 512
_REREADS = ("phi3", "phimoe", "phi4_multimodal")  # whose generate reads the text again where the rotary factors change
_TOLERANCE = {torch.float32: 1e-3, torch.float16: 0.1, torch.bfloat16: 0.5}


class TransformersRunner(Runner):
    """Chains only, and one sequence in a pass: trees and padding need a mask that not every architecture takes."""

    trees = False

    def __init__(self, folder: Path, dtype: torch.dtype, device: str):
        self.model: Any = load_transformers(folder, dtype, device)
        self.dtype, self.device = dtype, device
        text = self.model.config.get_text_config()
        self.vocab_size = text.vocab_size
        self.max_length = getattr(text, "max_position_embeddings", None) or 2048
        self.cache: Any = None  # a DynamicCache between reset and release
        self._switch: int | None = None  # the longest text that is turned by the short factors, where it can grow on
        self._seen = torch.zeros(0, dtype=torch.long, device=device)  # the cached tokens, kept for reading them again
        self._is_long = False  # whether the cached keys were turned by the long factors
        self._check_rollback()
        self._find_switch()

    def _check_rollback(self) -> None:
        kind = self.model.config.model_type
        refused = Unavailable(
            f"{kind} models keep a state that cannot be rolled back, so drafts cannot be taken back; "
            "speculative decoding needs a model with a key/value cache."
        )
        if getattr(self.model, "_is_stateful", False):
            raise refused
        probe = torch.arange(1, 7, device=self.device) % self.vocab_size
        if problem := self._plain_problem(probe):
            raise Unavailable(f"transformers cannot run this {kind} model: {problem}")
        try:
            self.reset(6)
            self.forward(probe[:3])
            first = self.forward(probe[3:])
            self.rollback(3)
            again = self.forward(probe[3:])
            same = self.length == 6 and self._agree(first, again)
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

    @torch.inference_mode()
    def _plain_problem(self, ids: torch.Tensor) -> str | None:
        """Says why a pass without a cache fails, as the end of a sentence; None if it does not."""
        try:
            logits = self.model(ids[None], use_cache=False).logits
        except Exception as error:
            if out_of_memory(error):
                raise
            return first_line(error)
        if not logits.isfinite().all():
            return f"its logits are not finite; its weights are damaged, or too large for {self.dtype}."
        return None

    def _agree(self, one: torch.Tensor, other: torch.Tensor) -> bool:
        return bool(((one - other).abs() <= _TOLERANCE[self.dtype]).all())

    def _find_switch(self) -> None:
        """Sets where a longer text is computed in another way, or ends the context there."""
        text = self.model.config.get_text_config()
        ropes = getattr(text, "rope_parameters", None) or {}
        ropes = [ropes, *(each for each in ropes.values() if isinstance(each, dict))]
        lengths = {holder.get("original_max_position_embeddings") for holder in (vars(text), *ropes)}
        is_long = any(each.get("rope_type") == "longrope" for each in ropes)
        for length in sorted(length for length in lengths if length and length < self.max_length):
            if not (is_long or self._changes_at(length)):
                continue
            if text.model_type in _REREADS:
                self._switch = length
            else:
                self.max_length = length
            return

    @torch.inference_mode()
    def _changes_at(self, length: int) -> bool:
        """Tests whether tokens get other logits in a pass that ends past ``length``. Their places are far apart,
        because the difference grows with the distance."""
        places = torch.tensor([[0, length // 3, 2 * length // 3, length - 1, length]], device=self.device)
        ids = (places + 1) % self.vocab_size
        try:
            longer, shorter = (
                self.model(ids[:, :end], position_ids=places[:, :end], use_cache=False).logits[0, :4] for end in (5, 4)
            )
        except Exception as error:  # an architecture that takes no places cannot be tried
            if out_of_memory(error):
                raise
            return True
        return not self._agree(longer, shorter)

    @property
    def length(self) -> int:
        return self.cache.get_seq_length() if self.cache is not None else 0

    def fork(self) -> "TransformersRunner":
        twin = copy(self)
        twin.cache = None
        return twin

    def memory(self, capacity: int) -> int:
        text = self.model.config.get_text_config()
        heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
        size = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
        return capacity * 2 * text.num_hidden_layers * heads * size * self.dtype.itemsize

    def reset(self, capacity: int) -> None:
        check_capacity(capacity, self.max_length)
        self._empty()

    def _empty(self) -> None:
        self.cache = DynamicCache()  # without the config: sliding layers then keep every key, and can be cropped
        self._seen, self._is_long = self._seen[:0], False

    @torch.inference_mode()
    def prefill(self, ids: Sequence[int]) -> None:
        for start in range(0, len(ids), _PREFILL_CHUNK):
            self.forward(torch.tensor(ids[start : start + _PREFILL_CHUNK], device=self.device), last=True)

    @torch.inference_mode()
    def forward(self, tokens, parents=None, last=False):
        assert parents is None, "this model runs chains only"
        if self._switch is None:
            return self._append(tokens, 1 if last else len(tokens))
        return self._append_past_switch(tokens, last)

    def _append(self, tokens: torch.Tensor, rows: int) -> torch.Tensor:
        """Returns the logits of the last ``rows`` tokens; a model that does not know the argument gives them all."""
        output = self.model(tokens[None], past_key_values=self.cache, use_cache=True, logits_to_keep=rows)
        return output.logits[0, -rows:]

    def _append_past_switch(self, tokens: torch.Tensor, last: bool) -> torch.Tensor:
        """Appends rows, each as a pass over the whole text before it gives it: up to the switch by the short factors,
        after it by the long ones. Reads the text again where the cached keys were turned by the others."""
        start, at = self.length, self._switch
        assert at is not None, "these factors have a switch"
        seen = torch.cat([self._seen, tokens])
        before, rows = max(0, min(at - start, len(tokens))), []  # tokens up to the switch
        is_all_short = before == len(tokens)
        if before and (is_all_short or not last):
            if self._is_long:
                self._empty()
                if start:
                    self._append(seen[:start], 1)
            rows.append(self._append(tokens[:before], 1 if last else before))
        if not is_all_short:
            count = 1 if last else len(tokens) - before
            if self._is_long:
                rows.append(self._append(tokens[before:], count))
            else:
                self._empty()
                rows.append(self._append(seen, count))
            self._is_long = True
        self._seen = seen
        return torch.cat(rows)

    @torch.inference_mode()
    def rollback(self, length: int) -> None:
        surplus = self.length - length
        assert surplus >= 0, f"cannot roll back from {self.length} to {length}"
        if surplus:
            self.cache.crop(-surplus)
            self._seen = self._seen[:length]

    def keep(self, base: int, nodes: list[int]) -> None:
        assert nodes == list(range(len(nodes))), "this model runs chains only"
        self.rollback(base + len(nodes))

    def release(self) -> None:
        self.cache = None

    def close(self) -> None:
        self.release()
        self.model = None


def load_transformers(folder: Path, dtype: torch.dtype, device: str):
    """Returns transformers' own model on the device, in evaluation mode; the package that a quantised checkpoint
    names runs it. Raises Unavailable with the reason; memory errors pass through."""
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        with hide_byte_order_marks(folder) as clean:
            model, absent, surplus = _from_folder(clean, dtype, device)
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
    if unread := [name for name in surplus if not (is_harmless(name) or is_of_another_part(name))]:
        raise Unavailable(surplus_problem(folder, min(unread)))
    return model.eval()


def _from_folder(folder: Path, dtype: torch.dtype, device: str):
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    if is_prepared(folder):  # transformers' own GGUF reader needs one more package
        return _load_filled(config, folder, dtype, device)
    # Quantised weights are put on the device as they are loaded and cannot be moved later; it takes accelerate.
    quantization = getattr(config, "quantization_config", None)
    if is_read_here(quantization):  # without the package that transformers would need
        del config.quantization_config
        return _load_filled(config, folder, dtype, device)
    quantised = quantization is not None
    check_kind(folder, config)
    model, loaded = cast(Any, AutoModelForCausalLM).from_pretrained(
        folder, dtype=dtype, trust_remote_code=False, use_safetensors=True, local_files_only=True,
        output_loading_info=True, device_map={"": device} if quantised else None,
    )  # fmt: skip
    # Quantised weights have scales and offsets, which their package reads under other names.
    return (
        model if quantised else model.to(device),
        loaded["missing_keys"],
        () if quantised else loaded["unexpected_keys"],
    )


def check_kind(folder: Path, config) -> None:
    """Raises Unavailable for weights that were rounded in a way that cannot be read here, and for anything but a
    language model."""
    if problem := rounding_problem(str(folder), config.to_dict()):
        raise Unavailable(problem)
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise Unavailable(
            f"{folder} holds a {config.model_type} model, which is not among transformers' models that only read and "
            "write text; name one of those."
        )


def _load_filled(config, folder: Path, dtype: torch.dtype, device: str):
    """Returns a model of this configuration, filled tensor by tensor, the names of the tensors that the folder
    lacks, and of those that the model lacks."""
    model, weights = AutoModelForCausalLM.from_config(config, dtype=dtype), open_weights(folder, dtype, "cpu")
    absent = []
    for name, parameter in model.named_parameters():  # a tied output layer is not among them
        if name in weights:
            parameter.data.copy_(weights(name, tuple(parameter.shape)))
        else:
            absent.append(name)
    unread = {name for name in weights.names if name.removesuffix(SCALE) not in weights.read}
    return model.to(device), absent, unread


def first_line(error: Exception) -> str:
    """Returns another library's words as the end of a sentence."""
    line = next(iter(str(error).strip().splitlines()), type(error).__name__)[:300]
    return f"{line.rstrip(' .:')}."

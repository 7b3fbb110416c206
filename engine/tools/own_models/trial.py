"""Tries whether a pair's models can be loaded, without reading their weights.

Each is built as a load builds it, but on torch's "meta" device. That looks every tensor up by its name and compares its
shape with config.json, and reads headers only.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

from engine.errors import EngineError, Unavailable
from engine.models.decoder.config import unsupported_reason
from engine.models.decoder.llama import LlamaModel
from engine.models.decoder.transformers_config import load_config, load_tokenizer
from engine.models.decoder.transformers_runner import check_kind, first_line
from engine.models.heads.loader import load_head
from engine.models.loader import load_model
from engine.models.tensors.gguf_reader import GgufReader
from engine.runtime.pair_models import NEEDS_STATES
from engine.weights.checkpoint_dir import tensor_shapes
from engine.weights.gguf.layout import is_prepared
from engine.weights.specs import PairSpec
from engine.weights.store import locate
from engine.weights.vocabulary import Vocabulary, needs_translation


def faults(pair: PairSpec) -> dict[str, str]:
    """Says why the target, or a draft in a folder, could not be loaded: sentences by "target" or the draft's method.
    Models that are not here yet are not tried."""
    try:
        folder = locate(pair.target)
        if folder is None:
            return {}
        tokenizer, target = load_tokenizer(folder), _try_model(folder)
        has_states = not unsupported_reason(load_config(folder))
    except EngineError as error:
        return {"target": str(error)}
    reasons = {}
    for method, spec in pair.drafts.items():
        try:
            if spec.folder is None or (folder := locate(spec)) is None:
                continue
            if spec.head and not has_states:
                reasons[method] = NEEDS_STATES.format(spec.name)
            elif spec.head:
                _try_head(method, folder, target)
            else:
                needs_translation(
                    Vocabulary.from_tokenizer(tokenizer), Vocabulary.from_tokenizer(load_tokenizer(folder))
                )
                _try_model(folder)
        except EngineError as error:
            reasons[method] = str(error)
    return reasons


class _GgufShapes(GgufReader):
    """Gives tensors without values, because a GGUF file's values would be computed."""

    def __call__(self, name: str, shape: tuple[int, ...] | None = None) -> torch.Tensor:
        return torch.empty(self._place(name, shape)["shape"], dtype=self.dtype, device=self.device)


def _try_model(folder: Path) -> LlamaModel | None:
    """Makes the model without its weights; None where our own decoder does not run it, or a load looks at values.
    Raises Unavailable."""
    config = load_config(folder)
    if unsupported_reason(config):
        _try_with_transformers(folder, config)
        return None
    with _misfits(folder):
        if not is_prepared(folder):
            return load_model(folder, "meta", "fp32").runner.model
        shapes = _GgufShapes(folder, torch.float32, "meta")
        return LlamaModel(folder, config, torch.float32, "meta", weights=shapes)
    return None


def _try_head(method: str, folder: Path, target: LlamaModel | None) -> None:
    if target is not None:
        with _misfits(folder), torch.inference_mode():
            load_head(method, folder, target)


@contextmanager
def _misfits(folder: Path) -> Iterator[None]:
    """Raises Unavailable for tensors that do not fit together. What only their values can decide is left open."""
    try:
        yield
    except (EngineError, RuntimeError, TypeError, AttributeError, KeyError) as error:
        if "meta tensor" in str(error.__cause__ or error):
            return
        if isinstance(error, EngineError):
            raise
        raise Unavailable(f"The weights in {folder} do not fit its config.json: {first_line(error)}") from error


def _try_with_transformers(folder: Path, config) -> None:
    """Compares names and shapes. Transformers renames the tensors of some architectures while it loads them; where a
    stored name is not one of the model's, nothing is said to be missing."""
    check_kind(folder, config)
    if is_prepared(folder) or getattr(config, "quantization_config", None):
        return
    try:
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
    except Exception as error:  # architectures fail in many ways
        raise Unavailable(f"transformers cannot load {folder}: {first_line(error)}") from error
    known, top = model.state_dict(), f"{model.base_model_prefix}."
    stored = {name if name in known else top + name: shape for name, shape in tensor_shapes(folder).items()}
    for name in stored.keys() & known.keys():
        if tuple(stored[name]) != tuple(known[name].shape):
            shape = tuple(known[name].shape)
            raise Unavailable(f"{name} in {folder} is {tuple(stored[name])}, but config.json says {shape}.")
    missing = dict(model.named_parameters()).keys() - stored.keys()
    if missing and stored.keys() <= known.keys():
        raise Unavailable(f"{folder} has no tensor {min(missing)!r}; its weights do not fit its config.json.")

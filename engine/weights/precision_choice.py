"""Chooses the precision that `auto` means, and tells whether a model's weights can be rounded."""

from engine.config import ROUNDED
from engine.files import read_json
from engine.weights import hub
from engine.weights.eight_bits import GROUP, is_read_here
from engine.weights.own_models import FAMILIES, ROPE_KINDS, gguf_config
from engine.weights.specs import DEVICE_PRECISIONS, ModelSpec

_LARGE = 5e8  # parameters from which a model takes int8 on a CPU


def usual_precision(model: ModelSpec | None, kind: str) -> str:
    """Returns the precision that suits a target on a ``kind`` of device. On CUDA it is bf16, which matrix units
    multiply. On a CPU it is fp32 for a small model, because drafting shows best there: over the README's prompts fp32
    gained 1.45 and int8 1.29, and a rounded target holds no trees. For a larger one it is int8, because fp32 takes
    three times the memory and time."""
    if kind == "cuda":
        return "bf16"
    is_large = kind == "cpu" and model is not None and model.parameters > _LARGE
    return "int8" if is_large and can_be_rounded(model) else "fp32"


def offered_precisions(model: ModelSpec, device: str) -> tuple[str, ...]:
    """Returns the precisions in which this device can run a target."""
    names = DEVICE_PRECISIONS[device.split(":")[0]]
    return names if can_be_rounded(model) else tuple(name for name in names if name not in ROUNDED)


def can_be_rounded(model: ModelSpec) -> bool:
    """Returns whether the engine's own decoder runs the model, as far as its config.json tells; it is what rounds
    weights, in groups of 32."""
    if model.gguf:
        return True
    config = read_config(model)
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    stored = config.get("quantization_config")
    widths = (model.hidden_size, config.get("intermediate_size") or 0)
    return (
        config.get("model_type") in FAMILIES
        and config.get("hidden_act", "silu") == "silu"
        and rope.get("rope_type", rope.get("type", "default")) in ROPE_KINDS
        and (not stored or is_read_here(stored))
        and not any(width % GROUP for width in widths)
    )


def read_config(model: ModelSpec) -> dict:
    """Returns the model's config.json, from its folder or as it was looked up. Empty where there is none."""
    if model.folder:
        return read_json(model.folder / "config.json")
    if model.gguf:
        return read_json(gguf_config(model.gguf.sha256))
    file = hub.cached_file(model, "config.json")
    return read_json(file) if file else {}

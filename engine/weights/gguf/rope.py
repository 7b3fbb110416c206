"""Turns a GGUF file's rotary embedding into transformers' `rope_parameters`.

Llama 3 files store the divisor of each frequency instead of the rule that made it. The rule is found again, and the
file is refused if no rule gives those divisors.
"""

import math
from collections.abc import Mapping, Sequence

_LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
_CLOSE = 1e-4  # relative; the divisors are stored in fp32
_YARN = {"beta_fast": ("rope.scaling.yarn_beta_fast", 32.0), "beta_slow": ("rope.scaling.yarn_beta_slow", 1.0)}


def rope_parameters(own: Mapping, head_size: int, divisors: Sequence[float] | None) -> tuple[dict, set[str]]:
    """Returns the parameters, and the names of the fields that were read. ``own``: the architecture's fields;
    ``divisors``: the tensor `rope_freqs`. Raises ValueError with the reason if the embedding is not known."""
    theta = own.get("rope.freq_base", 10000.0)
    parameters = {"rope_type": "default", "rope_theta": theta}
    used = {"rope.dimension_count", "rope.freq_base", "rope.scaling.type", "rope.scaling.finetuned"}
    used |= {"rope.scaling.factor", "rope.scale_linear"}
    if own.get("rope.dimension_count", head_size) != head_size:
        raise ValueError("it turns only a part of each attention head")
    # As llama.cpp reads it: a factor of 0 or none is 1, and without a type it is linear, as in files of 2023.
    factor = own.get("rope.scaling.factor", own.get("rope.scale_linear")) or 1.0
    kind = own.get("rope.scaling.type", "linear")
    if kind == "linear" and factor == 1:
        kind = "none"
    if divisors is not None:
        if kind != "none":
            raise ValueError(f"it scales its rotary embedding twice: by {kind} and by a table")
        return parameters | _llama3(theta, head_size, divisors), used
    if kind == "none":
        return parameters, used
    if kind == "linear":
        return parameters | {"rope_type": "linear", "factor": factor}, used
    if kind == "yarn":
        used |= {"rope.scaling.original_context_length", *(name for name, _ in _YARN.values())}
        original = own["rope.scaling.original_context_length"]
        betas = {name: own.get(field, default) for name, (field, default) in _YARN.items()}
        yarn = {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": original}
        return parameters | yarn | betas, used
    raise ValueError(f"it scales its rotary embedding in the way {kind!r}, and linear, yarn and Llama 3's are known")


def _llama3(theta: float, head_size: int, divisors: Sequence[float]) -> dict:
    """Finds the rule of Llama 3.1 that gives these divisors; the largest is its factor."""
    rule = {"rope_type": "llama3", "factor": float(max(divisors)), **_LLAMA3}
    expected = _divisors(theta, head_size, rule)
    if len(expected) != len(divisors) or not all(
        math.isclose(a, b, rel_tol=_CLOSE) for a, b in zip(expected, divisors, strict=True)
    ):
        raise ValueError("its tensor 'rope_freqs.weight' scales the rotary embedding in a way that is not Llama 3's")
    return rule


def _divisors(theta: float, head_size: int, rule: Mapping) -> list[float]:
    """Returns the divisor of each frequency by Llama 3.1's rule: nothing for short waves, the factor for long ones, and
    a blend between."""
    original, low, high = (rule[name] for name in (
        "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"
    ))  # fmt: skip
    result = []
    for i in range(0, head_size, 2):
        turns = original / (2 * math.pi * theta ** (i / head_size))
        smooth = min(max((turns - low) / (high - low), 0.0), 1.0)
        result.append(1 / ((1 - smooth) / rule["factor"] + smooth))
    return result

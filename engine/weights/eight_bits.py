"""Describes weights that are stored in 8 bits, in the layout that compressed-tensors calls int-quantized.

Beside a matrix ``NAME`` [N, K] of whole numbers in −128 … 127 lies ``NAME_scale`` [N, G]: a weight is its number times
the scale of its group of K / G. config.json says so under `quantization_config`.
"""

from typing import Any

GROUP = 32  # weights of a row that share a scale, in folders written by tools/training
SCALE, ZERO = "_scale", "_zero_point"  # added to the name of a matrix
WEIGHTS = {"num_bits": 8, "type": "int", "symmetric": True, "dynamic": False}
# Fields of the description that change no number of a pass. All others must be empty: some have inputs rotated.
_NO_EFFECT = {"quant_method", "format", "quantization_status", "dequantize", "config_groups", "ignore", "version",
              "global_compression_ratio"}  # fmt: skip


def is_read_here(quantization: Any) -> bool:
    """Returns whether a `quantization_config` describes that layout, with activations, keys and values that are not
    rounded, and nothing else that changes what a model computes."""
    try:
        if (quantization["quant_method"], quantization["format"]) != ("compressed-tensors", "int-quantized"):
            return False
        groups = [*quantization["config_groups"].values()]
        rounds_more = any(group.get(f"{part}_activations") for group in groups for part in ("input", "output"))
        weights = [{name: group["weights"].get(name, False) for name in WEIGHTS} for group in groups]
        does_more = any(value for name, value in quantization.items() if name not in _NO_EFFECT)
        return not (rounds_more or does_more) and weights == [WEIGHTS] * len(groups)
    except (KeyError, TypeError, AttributeError):
        return False

"""JSON that is safe to hand to a page, whatever text a model wrote."""

import json
import math


def encode(value: dict) -> str:
    """One line of ASCII JSON without ``<``: no tag can form, and a lone surrogate stays an escape."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def short(number: float | None) -> float | None:
    """Six significant digits; more would only be sent, never seen."""
    if number is None or not math.isfinite(number):
        return None
    return float(f"{number:.6g}")

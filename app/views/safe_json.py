"""Encodes JSON that is safe to put into a page, also with hostile model text."""

import json
import math


def encode(value: dict) -> str:
    """Returns one line of ASCII JSON without ``<``: no tag can form, and a lone surrogate stays an escape."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def short(number: float | None) -> float | None:
    """Rounds ``number`` to six significant digits, enough for any chart; None for NaN and infinities."""
    if number is None or not math.isfinite(number):
        return None
    return float(f"{number:.6g}")

"""Detects a hosted page, and requests its GPU. Elsewhere nothing here has an effect."""

import importlib
import importlib.util
import os
from collections.abc import Callable


def is_hosted() -> bool:
    """Returns whether the page is open to strangers, on a host's machine."""
    return "SPACE_ID" in os.environ


def shared_gpu() -> bool:
    """Returns whether this is ZeroGPU: a GPU is granted to single calls, each in a process of its own."""
    return os.environ.get("SPACES_ZERO_GPU", "").lower() in {"1", "t", "true"}


def gpu(seconds: int) -> Callable[[Callable], Callable]:
    """Returns ``@spaces.GPU`` for calls of up to ``seconds``; without that package, what leaves a function as it is."""
    if importlib.util.find_spec("spaces") is None:
        return lambda function: function
    return importlib.import_module("spaces").GPU(duration=seconds)

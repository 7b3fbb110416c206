"""Chooses the device and the precision that a model runs in."""

import torch

from engine.config import AUTO, ROUNDED
from engine.errors import BadInput, Unavailable
from engine.models.loader import DTYPES
from engine.models.onnx import session as onnx_session
from engine.weights.precision_choice import usual_precision
from engine.weights.specs import ModelSpec

_KINDS = ("cuda", "mps", "cpu")


def default_device() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def choose_device(name: str = AUTO) -> str:
    """Returns the device; "auto" prefers cuda, then mps, then cpu. Raises Unavailable if this machine lacks it."""
    if name == AUTO:
        return default_device()
    try:
        if torch.device(name).type not in _KINDS:
            raise NotImplementedError(name)
        torch.zeros(1, device=torch.device(name))
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        here = default_device()
        raise Unavailable(f"Device {name[:40]!r} cannot be used here; this machine offers {here!r}.") from error
    return name


def choose_precision(name: str, device: str, target: ModelSpec | None = None) -> str:
    """Returns the precision; "auto" becomes what `usual_precision` says for the ``target``, as far as this machine has
    it."""
    kind = torch.device(device).type
    if name == AUTO:
        usual = usual_precision(target, kind)
        return usual if usual not in ROUNDED or onnx_session.works() else "fp32"
    if name not in DTYPES:
        raise BadInput(f"Unknown precision {name[:40]!r}; choose from {', '.join([AUTO, *DTYPES])}.")
    if name in ROUNDED and kind != "cpu":
        raise Unavailable(f"{name} is for CPUs, and this model would run on {device!r}; choose bf16, fp16 or fp32.")
    return name

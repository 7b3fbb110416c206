"""Says how the weights of a checkpoint were rounded (quantised), where nothing here can read them, and what to do.

Knows config.json and the names of tensors, neither torch nor transformers.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec

from engine.weights.eight_bits import is_read_here


@dataclass(frozen=True)
class RoundedKind:
    """``modules``: what transformers imports for it, beside accelerate, by the package that brings it."""

    name: str
    modules: dict[str, str]

    @property
    def absent(self) -> list[str]:
        """The packages that are not installed."""
        needed = self.modules | {"accelerate": "accelerate"}
        return [package for package, module in needed.items() if not _is_installed(module)]


# By the `quant_method` of config.json: those that transformers reads (5.23).
ROUNDED_KINDS = {
    "gptq": RoundedKind("GPTQ", {"optimum": "optimum", "gptqmodel": "gptqmodel"}),
    "awq": RoundedKind("AWQ", {"gptqmodel": "gptqmodel"}),
    "bitsandbytes": RoundedKind("bitsandbytes", {"bitsandbytes": "bitsandbytes"}),
    "compressed-tensors": RoundedKind("compressed-tensors", {"compressed-tensors": "compressed_tensors"}),
    "fp8": RoundedKind("FP8", {}),
    "mxfp4": RoundedKind("MXFP4", {}),
    "mxfp8": RoundedKind("MXFP8", {}),
    "bitnet": RoundedKind("BitNet", {}),
    "fbgemm_fp8": RoundedKind("FBGEMM's FP8", {"fbgemm-gpu": "fbgemm_gpu"}),
    "torchao": RoundedKind("torchao", {"torchao": "torchao"}),
    "hqq": RoundedKind("HQQ", {"hqq": "hqq"}),
    "quanto": RoundedKind("Quanto", {"optimum-quanto": "optimum.quanto"}),
    "aqlm": RoundedKind("AQLM", {"aqlm": "aqlm"}),
    "vptq": RoundedKind("VPTQ", {"vptq": "vptq"}),
    "eetq": RoundedKind("EETQ", {"kernels": "kernels"}),
    "spqr": RoundedKind("SpQR", {"spqr-quant": "spqr_quant"}),
    "auto-round": RoundedKind("AutoRound", {"auto-round": "auto_round"}),
    "quark": RoundedKind("Quark", {"amd-quark": "quark"}),
}
DESCRIPTIONS = ("quantization_config", "quantization", "compression_config")  # fields of config.json
# The end of a tensor's name that only such weights have, for files whose config.json does not say it.
_TENSORS = {
    ".qweight": "GPTQ or AWQ",
    ".weight_packed": "compressed-tensors",
    ".weight_scale_inv": "FP8",
    ".absmax": "bitsandbytes",
    ".SCB": "bitsandbytes",
    ".biases": "MLX",
}


def rounding_problem(where: str, config: dict, tensors: Iterable[str] = (), origin: str = "") -> str | None:
    """Says why nothing here reads the rounded weights of a checkpoint; None if something does, or if they are not
    rounded. ``origin``: the model that it was made from, where that is known."""
    text = config.get("text_config")
    text = text if isinstance(text, dict) else {}
    described = next((part[key] for part in (config, text) for key in DESCRIPTIONS if part.get(key)), None)
    way_out = f"name the model that it was made from{f', {origin}' if origin else ''}"
    if not described:
        names = [name for ending, name in _TENSORS.items() if any(tensor.endswith(ending) for tensor in tensors)]
        if not names:
            return None
        return f"{where} holds weights rounded by {names[0]}, which its config.json does not say; {way_out}."
    if is_read_here(described):
        return None
    described = described if isinstance(described, dict) else {}
    method = described.get("quant_method")
    if method is None and any(described.get(f"load_in_{bits}bit") for bits in (4, 8)):
        method = "bitsandbytes"
    if method is None and {"group_size", "bits"} <= described.keys():
        bits = str(described["bits"])[:10]
        return f"{where} holds weights that MLX rounded to {bits} bits, which only MLX reads; {way_out}."
    if (kind := ROUNDED_KINDS.get(str(method))) is None:
        by = f"by {str(method)[:40]!r}" if method else "in a way that its config.json does not name"
        return f"{where} holds weights rounded {by}, and transformers does not know that kind; {way_out}."
    if not kind.absent:
        return None
    packages = " ".join(kind.absent)
    return (
        f"{where} holds weights rounded by {kind.name}, which our decoder does not read; {way_out}, or run "
        f"`pip install {packages}`, which transformers needs to read it."
    )


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package above it
        return False

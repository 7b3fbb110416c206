"""Loads heads that draft from a target's states, for the runtime that the target runs in."""

from pathlib import Path

from engine.models.eagle1_head import Eagle1Model
from engine.models.eagle3_head import EagleModel
from engine.models.exit_head import ExitModel
from engine.models.medusa_heads import MedusaModel
from engine.models.runner import DecoderRunner
from engine.models.safetensors_reader import TensorReader


def runner_of(kind: str, head, target: DecoderRunner):
    """What runs a head beside its target, and the layers of the target whose incoming states it reads."""
    if kind == "medusa":
        return head, head.reads
    if kind == "exit":  # its passes are captured beside the target's, because they use the same cache
        return DecoderRunner(head, target.graphs), ()
    return DecoderRunner(head), head.reads


def load_head(kind: str, folder: Path, target):
    """The head in ``folder``: ``kind`` eagle, medusa or exit. An EAGLE-3 head norms the states it reads, an EAGLE-1
    head does not. Raises Unavailable for one that cannot run here."""
    eagle3, eagle1, medusa, leave = _classes(target.on_host)
    if kind == "medusa":
        return medusa(folder, target)
    if kind == "exit":
        return leave(folder, target)
    weights = TensorReader(folder, target.dtype, target.device)
    is_third = any(name.endswith("hidden_norm.weight") for name in weights.names)
    return (eagle3 if is_third else eagle1)(folder, target, weights=weights)


def _classes(is_onnx: bool) -> tuple[type, ...]:
    if not is_onnx:
        return EagleModel, Eagle1Model, MedusaModel, ExitModel
    from engine.models.onnx_eagle import OnnxEagle, OnnxEagle1
    from engine.models.onnx_heads import OnnxExit, OnnxMedusa

    return OnnxEagle, OnnxEagle1, OnnxMedusa, OnnxExit

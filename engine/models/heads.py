"""Loads heads that draft from a target's states, for the runtime that the target runs in."""

from pathlib import Path

from engine.config import imported
from engine.models.block_head import BlockModel
from engine.models.eagle1_head import Eagle1Model
from engine.models.eagle3_head import EagleModel
from engine.models.exit_head import ExitModel
from engine.models.medusa_heads import MedusaModel
from engine.models.runner import DecoderRunner
from engine.models.safetensors_reader import TensorReader
from engine.weights.head_kinds import head_kind


def load_head(kind: str, folder: Path, target):
    """The head in ``folder``; ``kind``: a key of HEAD_KINDS. Raises Unavailable for one that cannot run here."""
    return imported(head_kind(kind).load)(folder, target)


def runner_of(kind: str, head, target: DecoderRunner):
    """What runs a head beside its target, and the layers of the target whose incoming states it reads."""
    match head_kind(kind).cache:
        case "none":
            return head, head.reads
        case "the target's":  # so its passes are captured beside the target's
            return DecoderRunner(head, target.graphs), ()
        case _:
            return DecoderRunner(head), head.reads


def load_eagle(folder: Path, target):
    """An EAGLE-3 head norms the states it reads, an EAGLE-1 head does not."""
    weights = TensorReader(folder, target.dtype, target.device)
    is_third = any(name.endswith("hidden_norm.weight") for name in weights.names)
    if target.on_host:
        from engine.models.onnx_eagle import OnnxEagle, OnnxEagle1

        kind = OnnxEagle if is_third else OnnxEagle1
    else:
        kind = EagleModel if is_third else Eagle1Model
    return kind(folder, target, weights=weights)


def load_block(folder: Path, target):
    if target.on_host:
        from engine.models.onnx_eagle import OnnxBlock

        return OnnxBlock(folder, target)
    return BlockModel(folder, target)


def load_medusa(folder: Path, target):
    if target.on_host:
        from engine.models.onnx_heads import OnnxMedusa

        return OnnxMedusa(folder, target)
    return MedusaModel(folder, target)


def load_exit(folder: Path, target):
    if target.on_host:
        from engine.models.onnx_heads import OnnxExit

        return OnnxExit(folder, target)
    return ExitModel(folder, target)

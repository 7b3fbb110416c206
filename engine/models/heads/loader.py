"""Loads heads that draft from a target's states, for the runtime that the target runs in."""

from pathlib import Path

from engine.config import load_object
from engine.models.decoder.runner import DecoderRunner
from engine.models.heads.block import BlockModel
from engine.models.heads.eagle1 import Eagle1Model
from engine.models.heads.eagle3 import EagleModel
from engine.models.heads.exit import ExitModel
from engine.models.heads.medusa import MedusaModel
from engine.models.heads.reader import HeadReader
from engine.weights.checkpoint_dir import eagle_version
from engine.weights.head_kinds import head_kind


def load_head(kind: str, folder: Path, target):
    """Loads the head in ``folder``; ``kind``: a key of HEAD_KINDS. Raises Unavailable for one that cannot run here, and
    for one with a tensor that is not read, or not finite."""
    weights = HeadReader(folder, target.dtype, target.device)
    head = load_object(head_kind(kind).load)(folder, target, weights)
    weights.check_all_read()
    return head


def runner_of(kind: str, head, target: DecoderRunner):
    """Returns the runner of a head beside its target, and the layers of the target whose incoming states it reads."""
    match head_kind(kind).cache:
        case "none":
            return head, head.reads
        case "the target's":  # so its passes are captured beside the target's
            return DecoderRunner(head, target.graphs), ()
        case _:
            return DecoderRunner(head), head.reads


def load_eagle(folder: Path, target, weights: HeadReader):
    if eagle_version(folder) == 3:
        return _class_for(target, "eagle:OnnxEagle", EagleModel)(folder, target, weights=weights)
    return _class_for(target, "eagle:OnnxEagle1", Eagle1Model)(folder, target, weights=weights)


def load_block(folder: Path, target, weights: HeadReader):
    return _class_for(target, "eagle:OnnxBlock", BlockModel)(folder, target, weights=weights)


def load_medusa(folder: Path, target, weights: HeadReader):
    return _class_for(target, "heads:OnnxMedusa", MedusaModel)(folder, target, weights)


def load_exit(folder: Path, target, weights: HeadReader):
    return _class_for(target, "heads:OnnxExit", ExitModel)(folder, target, weights=weights)


def _class_for(target, on_host: str, in_torch: type) -> type:
    """Returns the class that runs a head beside this target; ONNX Runtime's is imported only where it is used."""
    return load_object(f"engine.models.onnx.{on_host}") if target.on_host else in_torch

"""Reads an exported EAGLE-3 or block head back, so that a student can begin as it."""

from pathlib import Path

import torch

from engine.errors import BadInput, Unavailable
from engine.models.eagle_config import read_config
from engine.models.reduced_output import word_ids
from engine.models.safetensors_reader import TensorReader
from engine.training.eagle3_module import TENSORS


def words_of_head(folder: Path, vocabulary: int, taps: tuple[int, ...], count: int) -> torch.Tensor:
    """Returns [Vd] the words of a head to start from. BadInput if it guesses among another number of words or reads
    other layers."""
    try:
        config, read = read_config(folder), _reader(folder)
        words = word_ids(read.raw("d2t"), vocabulary, folder)
    except Unavailable as error:
        raise BadInput(f"The head in {folder} cannot be started from: {error}") from error
    if len(words) != count:
        raise BadInput(f"The head in {folder} guesses among {len(words)} words; ask for as many with --words.")
    if config.fc_norm or config.norm_before_fc or config.norm_output:
        raise BadInput(f"The head in {folder} norms its states (EAGLE-3.1); start from its WORK/eagle instead.")
    if (named := config.eagle_config.eagle_aux_hidden_state_layer_ids) != taps:
        raise BadInput(f"The head in {folder} reads layers {named}, not {taps}; name them with --taps.")
    return words


def start_from_head(module: torch.nn.Module, folder: Path) -> None:
    """Copies the head's weights into an EAGLE or block module; what it lacks stays. BadInput if a size differs."""
    read, own = _reader(folder), dict(module.named_parameters())
    at = "layers.0." if "layers.0.hidden_norm.weight" in read else "midlayer."
    names = {ours: at + theirs for ours, theirs in TENSORS.items()} | {"fc.weight": "fc.weight", "norm": "norm.weight"}
    weights = {ours: read(theirs) for ours, theirs in names.items()}
    if "mask_hidden" in own and "mask_hidden" in read:
        weights["mask_hidden"] = read("mask_hidden").flatten()
    with torch.no_grad():
        for name, value in weights.items():
            if own[name].shape != value.shape:
                raise BadInput(f"The head in {folder} is of another size than this target's; name one that fits.")
            own[name].copy_(value)


def _reader(folder: Path) -> TensorReader:
    return TensorReader(folder, torch.float32, "cpu")

"""Reads an exported draft back, so that a student can begin as it."""

from pathlib import Path

import torch

from engine.errors import BadInput, Unavailable
from engine.models.heads.reduced_output import MAP, word_ids
from engine.models.tensors.safetensors_reader import TensorReader
from engine.tools.training.students import Student


def is_exported(folder: str | Path) -> bool:
    """Returns whether a folder is an exported draft, and not the WORK/STUDENT of one in training."""
    return (Path(folder) / "config.json").exists()


def words_of_draft(
    kind: type[Student], folder: Path, vocabulary: int, taps: tuple[int, ...], count: int, bias: int = 0
) -> torch.Tensor | None:
    """Returns [Vd] the words of a draft to start from, None if it guesses among all. BadInput if it is of another
    kind, guesses among another number of words, reads other layers or has a bias of another rank than ``bias``."""
    try:
        named, read = kind.layers_read(folder), _reader(kind, folder)
        rank = kind.bias_stored(read)
        words = word_ids(read.raw(MAP), vocabulary, folder) if kind.reduced else None
    except Unavailable as error:
        raise _unfit(folder, error) from error
    if words is not None and len(words) != count:
        raise BadInput(f"The draft in {folder} guesses among {len(words)} words; ask for as many with --words.")
    if named is not None and named != taps:
        raise BadInput(f"The draft in {folder} reads layers {named}, not {taps}; name them with --taps.")
    if rank not in (0, bias):
        raise BadInput(f"The draft in {folder} has a bias of rank {rank}; ask for the same with --bias.")
    return words


def start_from(student: Student, folder: Path) -> None:
    """Copies the draft's weights into the student; what the draft lacks stays. BadInput if a size differs."""
    read, own = _reader(type(student), folder), dict(student.module.named_parameters())
    layer = "layers.0." if "layers.0.hidden_norm.weight" in read else "midlayer."
    with torch.no_grad():
        for ours, theirs in student.tensor_names().items():
            theirs = theirs.replace("midlayer.", layer)
            if theirs not in read and ours.startswith(student.ADDED):
                continue
            if theirs not in read or (value := read(theirs).squeeze()).shape != own[ours].squeeze().shape:
                raise _unfit(folder, f"{theirs} is missing, or of another size than this target needs.")
            own[ours].copy_(value.reshape(own[ours].shape))


def _reader(kind: type[Student], folder: Path) -> TensorReader:
    return TensorReader(folder, torch.float32, "cpu", kind.FILE)


def _unfit(folder: Path, reason: object) -> BadInput:
    return BadInput(f"The draft in {folder} cannot be started from: {reason}")

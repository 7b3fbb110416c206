"""Checks whether a pair can run here, before anything is loaded: files, licence, memory and tokenizers."""

import os
from functools import lru_cache
from pathlib import Path

import psutil

from engine.config import AUTO
from engine.errors import EngineError
from engine.files import gigabytes
from engine.weights.container_limits import free_memory
from engine.weights.precision_choice import offered_precisions
from engine.weights.specs import CONTEXT, ModelSpec, PairSpec, methods
from engine.weights.store import locate
from engine.weights.vocabulary import Vocabulary, needs_translation

UNTRIED = "Not run by us: its figures come from its model card."
TRANSLATED = "The {method} draft has a tokenizer of its own: its tokens are translated, so fewer are accepted."


def check_pair(
    pair: PairSpec,
    method: str | None = None,
    device: str = "cpu",
    dtype: str = "fp32",
    available_bytes: int | None = None,
    fetch: bool = False,
) -> list[str]:
    """Returns the reasons why this pair cannot run here, each a sentence; an empty list if it can. Loads nothing.

    ``method`` None checks the target alone. ``available_bytes`` None measures the free memory of ``device``. With
    ``fetch``, weights that can be downloaded are not a problem.
    """
    if method not in (None, AUTO, *methods(pair)):
        return [f"{pair.name} has no method {method!r}; choose from {', '.join(methods(pair))}."]
    problems = []
    for model in pair.models(method):
        try:
            if locate(model) is None and (reason := _absent(pair, model, fetch)):
                problems.append(reason)
        except EngineError as error:
            problems.append(str(error))
    try:
        translates(pair, method)
    except EngineError as error:
        if str(error) not in problems:
            problems.append(str(error))
    needed = pair.memory(dtype, method)
    free = available_memory(device) if available_bytes is None else available_bytes
    if free is not None and needed > free:
        context = f"{min(CONTEXT, pair.target.context):,} tokens"
        smaller = [name for name in offered_precisions(pair.target, device) if pair.memory(name, method) <= free]
        problems.append(
            f"{pair.name} needs about {gigabytes(needed)} in {dtype} for a context of {context}, but {device} has "
            f"{gigabytes(free)} free; choose a smaller pair{' or '.join(['', *smaller])}."
        )
    return problems


def _absent(pair: PairSpec, model: ModelSpec, fetch: bool) -> str | None:
    from huggingface_hub import get_token

    command = f"`python -m engine fetch {pair.name}`"
    if model.gated and not get_token():
        return (
            f"{model.repo} is gated: accept its licence ({model.licence}) on its hub page, log in with `hf auth login` "
            f"or set HF_TOKEN, then run {command}."
        )
    is_packaged = model.gguf is not None and model.gguf.package  # pip brings it, not the hub
    if not is_packaged and os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}:
        return f"The weights of {model.name} are not here yet and HF_HUB_OFFLINE is set; unset it and run {command}."
    return None if fetch else f"The weights of {model.name} are not here yet; run {command}."


@lru_cache(8)
def _translates(target: Path, draft: Path, changed: tuple[int, int]) -> bool:
    """Applies `needs_translation` to two tokenizer.json files, as they were when they were ``changed``."""
    from tokenizers import Tokenizer

    if target.read_bytes() == draft.read_bytes():
        return False
    ours, theirs = (Vocabulary.from_tokenizer(Tokenizer.from_file(str(file))) for file in (target, draft))
    return needs_translation(ours, theirs)


def translates(pair: PairSpec, method: str | None) -> bool:
    """Returns whether the method's draft model has another tokenizer than the target, so that it works by translation.
    False while their files are not here. Raises Unavailable if they have no token in common."""
    draft = pair.draft(method)
    if draft is None or draft.head:
        return False
    folders = [locate(model) for model in (pair.target, draft)]
    files = [folder / "tokenizer.json" for folder in folders if folder is not None]
    if len(files) < 2 or not all(file.is_file() for file in files):
        return False
    try:
        return _translates(*files, tuple(file.stat().st_mtime_ns for file in files))
    except EngineError:
        raise
    except Exception:  # the tokenizers library raises bare Exceptions; loading gives the reason
        return False


def notes(pair: PairSpec) -> list[str]:
    """Returns sentences about drafts that work, but not as one would expect, and about those that cannot."""
    untried = [] if pair.run_by_us else [UNTRIED]
    return untried + [note for method in pair.drafts if (note := _note(pair, method))]


def _note(pair: PairSpec, method: str) -> str:
    try:
        return TRANSLATED.format(method=method) if translates(pair, method) else ""
    except EngineError as error:
        return str(error)


def available_memory(device: str) -> int | None:
    """Returns the bytes still free on a device; None for CUDA where there is none."""
    if device.split(":")[0] == "cuda":
        import torch

        if not torch.cuda.is_available():
            return None
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)  # torch hands it out again
        return torch.cuda.mem_get_info(torch.device(device))[0] + unused
    machine, container = psutil.virtual_memory().available, free_memory()
    return machine if container is None else min(machine, container)

"""Checks whether a pair can run here, before anything is loaded: files, licence, memory and tokenizers."""

import os
import re
from pathlib import Path

import psutil

from engine.config import AUTO
from engine.errors import EngineError
from engine.files import gigabytes
from engine.weights.specs import CONTEXT, ModelSpec, PairSpec, methods
from engine.weights.store import locate


def check_pair(
    pair: PairSpec,
    method: str | None = None,
    device: str = "cpu",
    dtype: str = "fp32",
    available_bytes: int | None = None,
    context: int = CONTEXT,
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
    needed = pair.memory(dtype, method, context)
    free = available_memory(device) if available_bytes is None else available_bytes
    if free is not None and needed > free:
        problems.append(
            f"{pair.name} needs about {gigabytes(needed)} in {dtype} for a context of {context} tokens, but {device} "
            f"has {gigabytes(free)} free; choose a smaller pair{' or bf16' if dtype == 'fp32' else ''}."
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
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}:
        return f"The weights of {model.name} are not here yet and HF_HUB_OFFLINE is set; unset it and run {command}."
    return None if fetch else f"The weights of {model.name} are not here yet; run {command}."


def compare_tokenizers(target, draft) -> str | None:
    """Returns the reason why a draft's tokenizer does not fit the target's, comparing the tokens id by id; else None.

    Sizes are not compared: padded vocabularies differ in size and fit, unrelated ones may have the same size. Special
    tokens may have different names.
    """
    ours, theirs = ({i: token for token, i in t.get_vocab().items()} for t in (target, draft))
    added = ({*t.get_added_vocab().values()} for t in (target, draft))
    both_added = set.intersection(*added)
    shared = ours.keys() & theirs.keys()
    serious = sorted(i for i in shared if ours[i] != theirs[i] and i not in both_added)
    if shared and not serious:
        return None
    example = f": id {serious[0]} is {ours[serious[0]]!r} there and {theirs[serious[0]]!r} here" if serious else ""
    return (
        f"The draft has another tokenizer than the target ({len(serious)} of {len(shared)} shared ids differ"
        f"{example}); choose a draft of the target's own family."
    )


def available_memory(device: str = "cpu") -> int | None:
    """Returns the bytes still free on a device; None for CUDA where there is none."""
    if device.split(":")[0] == "cuda":
        import torch

        return torch.cuda.mem_get_info(torch.device(device))[0] if torch.cuda.is_available() else None
    return min([psutil.virtual_memory().available, *_cgroup_free()])


def _cgroup_free() -> list[int]:
    """Returns the bytes left under a container's limit, where there is one. Cached files count as free, because the
    kernel drops them."""
    group = Path("/sys/fs/cgroup")
    try:
        limit, used = (int((group / name).read_text()) for name in ("memory.max", "memory.current"))
        cached = int(re.search(r"^inactive_file (\d+)", (group / "memory.stat").read_text(), re.M)[1])
    except (OSError, ValueError, TypeError):  # no container, another cgroup version, or no limit ("max")
        return []
    return [limit - used + cached]

"""Names the models of a pair as other engines do: by hub names, folders, and files for llama.cpp."""

import re
from dataclasses import dataclass

from engine.errors import EngineError
from engine.files import ASSETS
from engine.weights import preflight
from engine.weights.catalogue import get_pair, load_catalogue
from engine.weights.checkpoint_dir import eagle_version, missing
from engine.weights.gguf.layout import gguf_files, is_prepared


@dataclass(frozen=True)
class ModelNames:
    """The models of a method as other engines name them: hub names or folders; ``gguf`` is a name for llama.cpp.
    ``translated``: whether the draft has another tokenizer; ``eagle``: the version of an EAGLE head, 1 or 3."""

    target: str
    draft: str | None = None
    gguf: str | None = None
    translated: bool = False
    eagle: int | None = None


def model_names(pair: str, method: str) -> ModelNames:
    """Returns the names of a pair's target and of its draft for a method. Loads nothing."""
    spec = get_pair(pair)
    draft, target, gguf = spec.draft(method), spec.target, None
    if target.gguf:  # most engines want the checkpoint that it was rounded from
        gguf = f"{target.repo}:{re.split('[-.]', target.gguf.file.removesuffix('.gguf'))[-1]}"
        alike = [one.target for one in load_catalogue().values() if _shape(one.target) == _shape(target)]
        target = next((model for model in alike if not model.gguf), target)
    elif target.folder and is_prepared(target.folder):
        gguf = _where(target)
    try:
        is_translated = preflight.translates(spec, method)
    except EngineError:  # the pair's note gives the reason
        is_translated = False
    return ModelNames(_where(target), _where(draft) if draft else None, gguf, is_translated, _eagle(draft))


def _shape(model) -> tuple:
    return model.parameters, model.layers, model.hidden_size, model.vocab_size


def _eagle(draft) -> int | None:
    """Says which version an EAGLE head is; None for any other draft, and while its files are not here."""
    is_here = draft is not None and draft.head == "eagle" and draft.folder is not None
    return eagle_version(draft.folder) if is_here and not missing(draft.folder) else None


def _where(model) -> str:
    """Returns a repository-relative path for a shipped draft, never an absolute path of this server."""
    root = ASSETS.parent
    if model.folder and model.folder.is_relative_to(root):
        return model.folder.relative_to(root).as_posix()
    if model.folder and is_prepared(model.folder):  # for a GGUF file of the user's own
        return str(gguf_files(model.folder)[0])
    return model.repo or str(model.folder or model.name)

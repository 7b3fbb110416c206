"""Looks up a model of the hub that the catalogue does not list: its sizes, family and files, none of its weights.

`look_up` pins the model to its newest commit and writes down what it learnt, so that `own_model` knows it from then on
without a network, and all who run it here run the same weights. Neither imports transformers.
"""

import importlib.util
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from engine.errors import BadInput
from engine.files import cache_root, read_json, write_file
from engine.weights import hub
from engine.weights.checkpoint_dir import TOKENIZERS, config_figures
from engine.weights.folder_kinds import Contents, folder_problem, tokenizer_problem
from engine.weights.rounded_kinds import rounding_problem
from engine.weights.specs import ModelSpec

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")  # those of the engine's own decoder
_HUB_NAME = r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*"
_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
# Marks of layers whose state cannot be taken back, in the configurations that have them.
_RECURRENT = ("ssm_cfg", "state_size", "lru_width", "rescale_every", "mamba_d_state", "linear_num_key_heads")
_TOO_LARGE = 10**7  # bytes of a config.json


@dataclass(frozen=True)
class _Named:
    """As much of a ModelSpec as the hub's sentences need, before there is one."""

    repo: str
    revision: str = "main"
    licence: str = "see its page"


def hub_name(text: str) -> str | None:
    """OWNER/NAME where the text is that, or the address of a model's page; else None. An existing folder is none."""
    text = re.sub(r"^(https?://)?(www\.)?(huggingface\.co|hf\.co)/", "", text.strip()).rstrip("/")
    return text if re.fullmatch(_HUB_NAME, text) and ".." not in text and not Path(text).exists() else None


def own_model(name: str) -> ModelSpec | None:
    """The model of the hub that was looked up here under this name; None if none was."""
    record = read_json(_record(name))
    try:
        return TypeAdapter(ModelSpec).validate_json(json.dumps(record)) if record else None
    except ValidationError:  # of another version
        return None


def _record(name: str) -> Path:
    return cache_root() / "own" / f"{name.replace('/', '--')}.json"


def look_up(name: str) -> ModelSpec:
    """Asks the hub for a model's description and config.json. BadInput for a model that no engine here runs, with the
    reason; Unavailable where the hub refuses or does not answer."""
    config, description = hub.describe(_Named(name), _TOO_LARGE)
    files = {each.rfilename: each.size or 0 for each in description.siblings or []}
    base = getattr(description.card_data, "base_model", None) or ""
    contents = Contents(name, files, config, origin=str(base[0] if isinstance(base, list) else base))
    if problem := folder_problem(contents) or files_problem(contents) or family_problem(name, config):
        raise BadInput(problem)
    licence = getattr(description.card_data, "license", None) or "see its page"
    weights = sum(size for file, size in files.items() if file.endswith(".safetensors") and "/" not in file)
    stored = config.get("dtype") or config.get("torch_dtype") or "bfloat16"
    counted = getattr(description.safetensors, "total", None)
    model = ModelSpec(
        name, str(licence), counted or max(1, weights // _BYTES.get(str(stored), 2)), **config_figures(config, name),
        repo=name, revision=description.sha, gated=bool(description.gated),
    )  # fmt: skip
    write_file(_record(name), json.dumps(asdict(model) | {"gguf": None, "folder": None}))
    return model


def files_problem(contents: Contents) -> str | None:
    """Which part of a model a repository lacks, as a sentence; None if it has all."""
    if "config.json" not in contents.files:
        return f"{contents.where} has no config.json, so it is not a model that transformers wrote."
    if not contents.weights:
        return f"{contents.where} has no safetensors weights, the only kind loaded; name another model."
    if problem := tokenizer_problem(contents):
        return problem
    if not any(file in contents.files for file in TOKENIZERS):
        head = "so it is a head or a part of a model; name the model that it belongs to."
        return f"{contents.where} has no tokenizer, {head}"
    return None


def family_problem(name: str, config: dict) -> str | None:
    """Why no engine here runs a model with this configuration, as a sentence; None if one may."""
    family = config.get("model_type")
    text = config | (config.get("text_config") or {})
    if not isinstance(family, str) or not re.fullmatch(r"[\w-]{1,60}", family):
        return f"{name} does not say its family (model_type in config.json); name another model."
    if problem := rounding_problem(name, config):
        return problem
    if any(mark in text for mark in _RECURRENT) or "linear_attention" in (text.get("layer_types") or []):
        return f"{name} ({family}) keeps a state that cannot be rolled back, so drafts cannot be taken back."
    if family not in FAMILIES and not _in_transformers(family):
        code = ", and code that comes with a model is not run" if config.get("auto_map") else ""
        return f"{name} is of the family {family}, which the transformers installed here does not know{code}."
    return None


def _in_transformers(family: str) -> bool:
    """Looked for among its files, because importing it takes seconds and belongs to the engine's thread."""
    spec = importlib.util.find_spec("transformers")
    folders = [Path(folder) / "models" for folder in spec.submodule_search_locations] if spec else []
    names = {family, family.removesuffix("_text"), family.replace("-", "_")}
    return any((folder / name).is_dir() for folder in folders for name in names)

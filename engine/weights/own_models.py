"""Looks up a model of the hub that the catalogue does not list: its sizes, family and files, none of its weights.

`look_up` pins the model to its newest commit and writes down what it learnt, so that `own_model` knows it from then on
without a network, and all who run it here run the same weights. Neither imports transformers.
"""

import importlib.util
import json
import re
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import TypeAdapter, ValidationError

from engine.errors import BadInput
from engine.files import cache_root, read_json, write_file
from engine.weights import hub
from engine.weights.checkpoint_dir import TOKENIZERS, config_figures
from engine.weights.folder_kinds import Contents, folder_problem, rounding_problem, tokenizer_problem
from engine.weights.gguf.file import parts_of
from engine.weights.gguf.folder import configuration, model_of
from engine.weights.gguf.own import ENDING
from engine.weights.specs import GgufSource, ModelSpec

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")  # those that the engine's own decoder runs
ROPE_KINDS = ("default", "linear", "llama3", "yarn")  # those whose frequencies do not change with the length
_HUB_NAME = r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(:[\w./-]+)?"
_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
# Marks of layers whose state cannot be taken back, in the configurations that have them.
_RECURRENT = ("ssm_cfg", "state_size", "lru_width", "rescale_every", "mamba_d_state", "linear_num_key_heads")
_TOO_LARGE = 10**7  # bytes of a config.json


@dataclass(frozen=True)
class OwnModelReport:
    """``lines``: (name, sentence) of each thing to know. ``problems``: why it cannot run in any precision, sentences;
    empty if it can. ``precisions``: the ones whose memory suffices; ``to_choose``: one of them if the usual one does
    not fit, else ""."""

    lines: tuple[tuple[str, str], ...]
    problems: tuple[str, ...]
    precisions: tuple[str, ...]
    to_choose: str = ""


@dataclass(frozen=True)
class _Named:
    """The fields of a ModelSpec that the hub's sentences need, before there is one."""

    repo: str
    revision: str = "main"
    licence: str = "see its page"


def hub_name(text: str) -> str | None:
    """Returns OWNER/NAME for that or for the address of a model's page, OWNER/NAME:FILE for one of its GGUF files, else
    None. An existing folder is not a name."""
    text = re.sub(r"^(https?://)?(www\.)?(huggingface\.co|hf\.co)/", "", text.strip()).rstrip("/")
    text = re.sub(r"^([^/:]+/[^/:]+)/(?:blob|resolve)/[^/]+/(.+\.gguf)(\?.*)?$", r"\1:\2", text)
    is_path = (text.endswith(ENDING) and ":" not in text) or ".." in text or Path(text).exists()
    return text if re.fullmatch(_HUB_NAME, text) and not is_path else None


def own_model(name: str) -> ModelSpec | None:
    """Returns the model of the hub that was looked up here under this name; None if none was."""
    record = read_json(_record(name))
    try:
        return TypeAdapter(ModelSpec).validate_json(json.dumps(record)) if record else None
    except ValidationError:  # written by another version
        return None


def _record(name: str) -> Path:
    return cache_root() / "own" / f"{re.sub('[/:]', '--', name)}.json"


def look_up(name: str) -> ModelSpec:
    """Asks the hub for a model's description and config.json. BadInput for a model that no engine here runs, with the
    reason; Unavailable where the hub refuses or does not answer."""
    repo, _, file_name = name.partition(":")
    description = hub.describe(_Named(repo))
    files = {each.rfilename: each.size or 0 for each in description.siblings or []}
    if file_name or has_only_gguf(files):
        return _look_up_gguf(name, description)
    config = hub.read_config(replace(_Named(name), revision=description.sha), files, _TOO_LARGE)
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
    write_file(_record(name), json.dumps(asdict(model) | {"folder": None}))
    return model


def has_only_gguf(files: Collection[str]) -> bool:
    """Returns whether a repository has GGUF files and no other weights that are loaded."""
    return any(file.endswith(ENDING) for file in files) and not any(file.endswith(".safetensors") for file in files)


def _look_up_gguf(name: str, description) -> ModelSpec:
    """Reads the header of one file of a repository. Its configuration is kept where `gguf_config` says."""
    repo, _, file_name = name.partition(":")
    listed = {each.rfilename: each for each in description.siblings or []}
    file = listed[chosen_gguf(repo, file_name, [*listed])]
    digest = getattr(file.lfs, "sha256", None)
    if not digest or not file.size:
        raise BadInput(f"The hub gives no SHA-256 for {file.rfilename} of {repo}; download it and name the file.")
    place = _Named(repo, description.sha)
    with TemporaryDirectory(prefix="speclens-") as folder:
        start = Path(folder) / Path(file.rfilename).name
        model = model_of([hub.fetch_header(place, file.rfilename, start)], start.name)
    try:
        config = configuration(model)[0]
    except (ValueError, KeyError) as error:
        raise BadInput(f"{file.rfilename} of {repo} cannot be run here: {error}.") from error
    spec = ModelSpec(
        Path(file.rfilename).stem, str(getattr(description.card_data, "license", None) or "see its page"),
        sum(prod(tensor.shape) for tensor in model.tensors), **config_figures(config, name), repo=repo,
        revision=description.sha, gated=bool(description.gated),
        gguf=GgufSource(file.rfilename, file.size, digest),
    )  # fmt: skip
    write_file(gguf_config(digest), json.dumps(config))
    write_file(_record(name), json.dumps(asdict(spec) | {"folder": None}))
    return spec


def gguf_config(digest: str) -> Path:
    """Says where the configuration of a GGUF file with this SHA-256 is kept, once it was looked up."""
    return cache_root() / "own" / f"{digest}.config.json"


def chosen_gguf(repo: str, file_name: str, files: Collection[str]) -> str:
    """Returns the file that is named, or whose name ends with the type that is named, such as Q4_K_M; without either
    the only one. Raises BadInput that lists the choices.

    >>> chosen_gguf("a/b", "q8_0", ["m-Q4_K_M.gguf", "m-Q8_0.gguf", "README.md"])
    'm-Q8_0.gguf'
    """
    models = [file for file in files if file.endswith(ENDING) and "mmproj" not in file and "imatrix" not in file]
    kind = file_name.lower().removesuffix(ENDING)
    exact = [file for file in models if file == file_name]
    fitting = exact or [file for file in models if re.search(rf"[-._]{re.escape(kind)}\{ENDING}$", file.lower())]
    if not file_name and len(models) == 1:
        fitting = models
    if len(fitting) == 1 and len(parts_of(Path(fitting[0]))) == 1:
        return fitting[0]
    if fitting and len(parts_of(Path(fitting[0]))) > 1:
        raise BadInput(f"{repo} has {file_name or fitting[0]} in parts; download them all and name one of the files.")
    choices = ", ".join(sorted(models)[:8]) or "none"
    raise BadInput(f"Name one GGUF file of {repo} as {repo}:FILE; it has {choices}.")


def files_problem(contents: Contents) -> str | None:
    """Says which part of a model a repository lacks; None if it has all."""
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
    """Says why no engine here runs a model with this configuration; None if one may."""
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
    """Looks among the files of transformers, because importing it takes seconds and belongs to the engine's thread."""
    spec = importlib.util.find_spec("transformers")
    folders = (spec.submodule_search_locations if spec else None) or []
    names = {family, family.removesuffix("_text"), family.replace("-", "_")}
    return any(Path(folder, "models", name).is_dir() for folder in folders for name in names)

"""Reads the catalogue of model pairs, and makes pairs of the user's own folders. Uses neither torch nor the network."""

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import field, fields
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import PositiveInt, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from engine.config import METHODS, draft_of, is_text, method_of
from engine.errors import BadInput, did_you_mean, explain
from engine.files import ASSETS, expand_home
from engine.weights.checkpoint_dir import damage, figures, head_method, missing
from engine.weights.gguf.own import ENDING, is_gguf, prepared_folder
from engine.weights.head_kinds import HEAD_KINDS
from engine.weights.own_models import hub_name, own_model
from engine.weights.specs import STRICT, ModelSpec, PairSpec, Text

CATALOGUE = ASSETS / "data" / "models.toml"


@dataclass(frozen=True, config=STRICT)
class _Shipped:
    """A draft in this repository; its sizes are read from its files."""

    shipped: Text
    licence: Text
    alpha: float


@dataclass(frozen=True, config=STRICT)
class _Pair:
    title: Text
    run_by_us: bool
    target: str
    drafts: dict[str, str] = field(default_factory=dict)
    corpus: Text | None = None


@dataclass(frozen=True, config=STRICT)
class _File:
    models: dict[str, dict]
    pairs: dict[str, _Pair]


@cache
def load_catalogue(path: Path | None = None) -> Mapping[str, PairSpec]:
    """Returns all pairs by name, in file order. BadInput names the wrong entry and its field."""
    path = Path(path or CATALOGUE)
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise BadInput(f"The catalogue {path} cannot be read: {error}.") from error
    file = _parse(_File, raw, f"The catalogue {path}")
    models = {name: _model(name, entry) for name, entry in file.models.items()}
    return MappingProxyType({name: _pair(name, entry, models) for name, entry in file.pairs.items()})


def _parse(kind: type, entry: dict, where: str):
    try:  # as JSON, because strict validation of Python objects takes no dict for a dataclass
        return TypeAdapter(kind).validate_json(json.dumps(entry, default=str))
    except ValidationError as error:
        raise BadInput(f"{where} is not valid at {explain(error)}.") from error


def _model(name: str, entry: dict) -> ModelSpec:
    where = f"[models.{name}] in the catalogue"
    if "shipped" in entry:
        return _shipped_model(name, _parse(_Shipped, entry, where), where)
    if wrong := {"name", "folder"} & entry.keys():
        raise BadInput(f"{where} is not valid at {min(wrong)}: there is no such field.")
    if missing := {"repo", "revision"} - entry.keys():
        raise BadInput(f"{where} is not valid at {min(missing)}: it is missing.")
    return _parse(ModelSpec, entry | {"name": name}, where)


def _shipped_model(name: str, entry: _Shipped, where: str) -> ModelSpec:
    """Returns a shipped draft. If its files are missing, loading it says so; other methods still work."""
    folder = ASSETS / entry.shipped
    if ASSETS not in folder.resolve().parents:
        raise BadInput(f"{where}: shipped is {entry.shipped!r}, but must be a folder in assets.")
    try:
        sizes = figures(folder)
    except BadInput:
        sizes: dict[str, Any] = {f.name: 1 for f in fields(ModelSpec) if f.type is PositiveInt}
    return ModelSpec(name, entry.licence, **sizes, folder=folder, head=head_method(folder), alpha=entry.alpha)


def _pair(name: str, entry: _Pair, models: dict[str, ModelSpec]) -> PairSpec:
    where = f"[pairs.{name}] in the catalogue"
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", name):
        raise BadInput(f"{where}: a pair's name consists of small letters, digits, dots and dashes.")
    for model in (entry.target, *entry.drafts.values()):
        if model not in models:
            raise BadInput(f"{where} uses {model!r}, but there is no [models.{model}].")
    for method in entry.drafts:
        if not method_of(method).needs_weights or draft_of(method) != method:
            takes = ", ".join(name for name, each in METHODS.items() if each.needs_weights and not each.shares)
            raise BadInput(f"{where}: the method {method!r} takes no draft model; those that do are {takes}.")
    drafts = MappingProxyType({method: models[draft] for method, draft in entry.drafts.items()})
    for method, draft in drafts.items():
        is_whole = draft.folder is None or not (missing(draft.folder) or damage(draft.folder))  # else loading says so
        if is_whole and draft.head != (method if METHODS[method].reads == "head" else ""):
            raise BadInput(f"{where}: {draft.name} cannot draft for the method {method!r}; see its `head`.")
    corpus = None if entry.corpus is None else ASSETS / entry.corpus
    return PairSpec(name, entry.title, models[entry.target], drafts, corpus, entry.run_by_us)


def get_pair(name: str) -> PairSpec:
    """Returns a pair of the catalogue, or of the user's own models: ``TARGET`` or ``TARGET+DRAFT``, each a checkpoint
    folder, a GGUF file, or a folder with GGUF files. Raises BadInput with the nearest names for an unknown one."""
    pairs = load_catalogue()
    if name in pairs:
        return pairs[name]
    if not is_text(name):
        raise BadInput(f"The name {name[:80]!a} is not written in UTF-8, so no trace could hold it; rename the folder.")
    if name_on_hub := hub_name(name):
        return _own_pair(name_on_hub, pairs)
    if re.search(rf"[/\\+]|^[.~]|\{ENDING}$", name) or Path(name).exists():
        return local_pair(name)
    raise BadInput(f"There is no pair {name[:80]!r}; {did_you_mean(name.lower(), pairs)}")


def _own_pair(name: str, pairs: Mapping[str, PairSpec]) -> PairSpec:
    """Returns a model of the hub that was looked up here, with the drafts that the catalogue knows for it."""
    model = own_model(name)
    if model is None:
        raise BadInput(f"{name} has not been looked up here yet; run `python -m engine check {name}`.")
    alike = (pair.drafts for pair in pairs.values() if (pair.target.repo, pair.target.gguf) == (model.repo, model.gguf))
    drafts = next(alike, MappingProxyType({}))
    return PairSpec(name, f"{name} (of the hub)", model, drafts)


def local_pair(name: str) -> PairSpec:
    path = expand_home(name)
    plus = [i for i, letter in enumerate(name) if letter == "+"]
    splits = [(expand_home(name[:i]), expand_home(name[i + 1 :])) for i in plus]
    if path.exists() or not splits:
        return PairSpec(name, f"{path.name} (of your own)", _local_target(path))
    # A name may contain a plus: take the split whose halves both exist.
    target, draft = next((s for s in splits if s[0].exists() and s[1].exists()), splits[0])
    model = local_model(draft)
    drafts = MappingProxyType({model.head or "lm": model})
    return PairSpec(name, f"{target.name} with {draft.name} (of your own)", _local_target(target), drafts)


def _local_target(folder: Path) -> ModelSpec:
    model = local_model(folder)
    if model.head:
        kind = HEAD_KINDS[model.head]
        raise BadInput(f"{folder} holds {kind.noun}, which only {kind.verb} for a target; name TARGET_DIR+{folder}.")
    return model


def local_model(path: Path) -> ModelSpec:
    """Describes a checkpoint in the transformers format or a GGUF file. BadInput names the part that is missing."""
    folder = prepared_folder(path) if is_gguf(path) else path
    name = path.stem if path.is_file() else path.name
    return ModelSpec(name, "your own", **figures(folder), folder=folder.resolve(), head=head_method(folder))

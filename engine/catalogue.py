"""Pairs of models: where their weights come from, what they cost, and whether a pair can run here.

Says everything in words before anything is loaded; imports no torch and touches no network.
"""

import difflib
import os
import re
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from types import MappingProxyType

from engine.config import AUTO
from engine.errors import BadInput, EngineError
from engine.folders import figures, gigabytes, is_head

CATALOGUE = Path(__file__).parent.parent / "assets" / "models.toml"
BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "float32": 4, "bfloat16": 2, "float16": 2}
MODEL_FREE = ("none", "ngram")
CONTEXT = 4096  # what a memory estimate assumes when nothing else is said
_WORKING_ROOM = 256 * 2**20  # activations, logits and scratch buffers beside weights and KV
_REVISION = re.compile(r"main|[0-9a-f]{40}")


@dataclass(frozen=True)
class GgufSource:
    """One GGUF file, data of a package on PyPI; the same file stands in the model's hub repository."""

    package: str
    version: str
    file: str
    size: int
    sha256: str


@dataclass(frozen=True)
class ModelSpec:
    """``parameters`` as they stand in memory (a tied head once). ``folder``: a checkpoint of the user's own, or one
    shipped here. ``head``: not a model but an EAGLE head, of use with its own target only. ``alpha``: of a draft, the
    share of its first guesses that its target was seen to keep."""

    name: str
    licence: str
    parameters: int
    hidden_size: int
    layers: int
    kv_heads: int
    head_dim: int
    vocab_size: int
    context: int
    repo: str | None = None
    revision: str | None = None
    gated: bool = False
    gguf: GgufSource | None = None
    folder: Path | None = None
    head: bool = False
    alpha: float | None = None

    def weight_bytes(self, dtype: str) -> int:
        return self.parameters * _width(dtype)

    def kv_bytes(self, dtype: str, context: int = CONTEXT) -> int:
        """Keys and values of ``context`` tokens, or of as many as the model attends to."""
        return 2 * self.layers * self.kv_heads * self.head_dim * min(context, self.context) * _width(dtype)

    def memory(self, dtype: str, context: int = CONTEXT) -> int:
        return self.weight_bytes(dtype) + self.kv_bytes(dtype, context)


@dataclass(frozen=True)
class PairSpec:
    """A target, and for each method that needs one the draft model it uses."""

    name: str
    title: str
    target: ModelSpec
    drafts: Mapping[str, ModelSpec] = field(default_factory=lambda: MappingProxyType({}))

    def models(self, method: str | None = None) -> tuple[ModelSpec, ...]:
        """What a method loads: the target, and its draft if it has one. To find the fastest one everything is tried."""
        if method == AUTO:
            return (self.target, *self.drafts.values())
        return (self.target, self.drafts[method]) if method in self.drafts else (self.target,)

    def memory(self, dtype: str, method: str | None = None, context: int = CONTEXT) -> int:
        return sum(model.memory(dtype, context) for model in self.models(method)) + _WORKING_ROOM


def methods(pair: PairSpec) -> tuple[str, ...]:
    """What can draft for this pair: always "none" and "ngram", and a method for each draft."""
    return (*MODEL_FREE, *pair.drafts)


@cache
def load_catalogue(path: Path | None = None) -> Mapping[str, PairSpec]:
    """All pairs by name, in file order. BadInput names the entry that is wrong."""
    path = Path(path or CATALOGUE)
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(f"The catalogue {path} cannot be read: {error}.") from error
    tables = [table for part in raw.values() for table in (part.values() if isinstance(part, dict) else [part])]
    if set(raw) - {"models", "pairs"} or not all(isinstance(table, dict) for table in tables):
        raise BadInput(f"The catalogue {path} may hold only [models.NAME] and [pairs.NAME] tables.")
    models = {name: _model(name, entry) for name, entry in raw.get("models", {}).items()}
    return MappingProxyType({name: _pair(name, entry, models) for name, entry in raw.get("pairs", {}).items()})


def _model(name: str, entry: dict) -> ModelSpec:
    where = f"[models.{name}] in the catalogue"
    try:
        if "gguf" in entry:
            entry = entry | {"gguf": GgufSource(**entry["gguf"])}
        if "shipped" in entry:
            return _shipped(name, entry, where)
        spec = ModelSpec(name=name, **entry)
    except TypeError as error:
        raise BadInput(f"{where} does not fit: {str(error).split('() ')[-1]}.") from error
    for f in fields(spec):
        value = getattr(spec, f.name)
        if f.type is int and (type(value) is not int or value < 1):
            raise BadInput(f"{where}: {f.name} is {value!r}, but must be a whole number above 0.")
    if spec.folder or not (isinstance(spec.repo, str) and spec.repo.count("/") == 1):
        raise BadInput(f"{where}: repo is {spec.repo!r}, but must read OWNER/NAME.")
    if not isinstance(spec.revision, str) or not _REVISION.fullmatch(spec.revision):
        raise BadInput(f'{where}: revision is {spec.revision!r}, but must be 40 hex digits, or "main" if not pinned.')
    if type(spec.gated) is not bool or not isinstance(spec.licence, str) or not spec.licence:
        raise BadInput(f"{where}: licence must be a text and gated true or false.")
    if spec.gguf and not re.fullmatch(r"[0-9a-f]{64}", str(spec.gguf.sha256)):
        raise BadInput(f"{where}: gguf.sha256 must be 64 hex digits.")
    return spec


def _shipped(name: str, entry: dict, where: str) -> ModelSpec:
    """A draft that lies in this repository; what it weighs is read from the files. Where they are missing or damaged
    that is said when somebody asks for it, and the other methods work."""
    folder = CATALOGUE.parent / str(entry["shipped"])
    if set(entry) != {"shipped", "licence", "alpha"} or CATALOGUE.parent not in folder.resolve().parents:
        raise BadInput(f"{where}: a shipped draft has shipped (a folder in assets), licence and alpha, nothing else.")
    try:
        sizes = figures(folder)
    except BadInput:
        sizes = {f.name: 0 for f in fields(ModelSpec) if f.type is int}
    return ModelSpec(name, entry["licence"], **sizes, folder=folder, head=is_head(folder), alpha=entry["alpha"])


def _pair(name: str, entry: dict, models: dict[str, ModelSpec]) -> PairSpec:
    where = f"[pairs.{name}] in the catalogue"
    drafts = entry.get("drafts") or {}
    if set(entry) - {"title", "target", "drafts"} or not {"title", "target"} <= set(entry):
        raise BadInput(f"{where} must hold title, target and, if it has any, drafts.")
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", name):
        raise BadInput(f"{where}: a pair's name is made of small letters, digits, dots and dashes.")
    for used in (entry["target"], *drafts.values()):
        if str(used) not in models:
            raise BadInput(f"{where} uses {used!r}, which is no [models.…] entry.")
    if clash := set(drafts) & set(MODEL_FREE):
        raise BadInput(f"{where}: the method {min(clash)!r} takes no draft model.")
    drafts = MappingProxyType({method: models[draft] for method, draft in drafts.items()})
    return PairSpec(name, entry["title"], models[entry["target"]], drafts)


def get_pair(name: str, allow_local: bool = True) -> PairSpec:
    """A pair of the catalogue, or checkpoints of the user's own: ``TARGET_DIR`` or ``TARGET_DIR+DRAFT_DIR``.

    BadInput with the nearest names for an unknown one. A page open to strangers passes ``allow_local=False``.
    """
    pairs = load_catalogue()
    if name in pairs:
        return pairs[name]
    if allow_local and (re.search(r"[/\\+]|^[.~]", name) or Path(name).is_dir()):
        return local_pair(name)
    near = difflib.get_close_matches(name.lower(), pairs, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else f"choose from {', '.join(pairs)}."
    raise BadInput(f"There is no pair {name[:80]!r}; {hint}")


def local_pair(name: str) -> PairSpec:
    whole = Path(name).expanduser()
    plus = [i for i, letter in enumerate(name) if letter == "+"]
    splits = [(Path(name[:i]).expanduser(), Path(name[i + 1 :]).expanduser()) for i in plus]
    if whole.is_dir() or not splits:
        return PairSpec(name, f"{whole.name} (a local folder)", _local_target(whole))
    # A folder's own name may hold a plus: take the split whose halves both exist.
    target, draft = next((s for s in splits if s[0].is_dir() and s[1].is_dir()), splits[0])
    model = local_model(draft)
    drafts = MappingProxyType({"eagle" if model.head else "lm": model})
    return PairSpec(name, f"{target.name} with {draft.name} (local folders)", _local_target(target), drafts)


def _local_target(folder: Path) -> ModelSpec:
    model = local_model(folder)
    if model.head:
        raise BadInput(f"{folder} holds an EAGLE head, which only drafts for a target; name TARGET_DIR+{folder}.")
    return model


def local_model(folder: Path) -> ModelSpec:
    """A checkpoint in the transformers format. BadInput says what the folder lacks."""
    return ModelSpec(folder.name, "your own", **figures(folder), folder=folder.resolve(), head=is_head(folder))


def check_pair(
    pair: PairSpec,
    method: str | None = None,
    device: str = "cpu",
    dtype: str = "fp32",
    available_bytes: int | None = None,
    context: int = CONTEXT,
    fetch: bool = False,
) -> list[str]:
    """Why this pair cannot run here, each reason a sentence; an empty list if it can. Loads nothing.

    ``method`` None asks for the target alone. ``available_bytes`` None measures what ``device`` has free. With
    ``fetch`` weights that only have to be brought are no reason.
    """
    from engine.fetch import locate

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
            f"has {gigabytes(free)} free; choose a smaller pair{' or bf16' if _width(dtype) > 2 else ''}."
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


def pair_notes(pair: PairSpec, method: str | None = None) -> list[str]:
    """What is worth knowing and stops nothing."""
    notes = []
    draft = pair.drafts.get(method)
    if draft and draft.vocab_size != pair.target.vocab_size:
        notes.append(_padding_note(pair.target.vocab_size, draft.vocab_size))
    notes += [f"{m.repo} is not pinned: its weights may change." for m in pair.models(method) if m.revision == "main"]
    return notes


def _padding_note(target: int, draft: int) -> str:
    return f"The target's vocabulary has {target} entries, the draft's {draft}; q counts as 0 where the draft has none."


def compare_tokenizers(target, draft) -> tuple[str | None, str | None]:
    """(problem, note): the tokens of two tokenizers compared id by id, as strings, where both have one.

    Sizes say little: padded vocabularies differ in size and fit, unrelated ones may be equally long.
    """
    ours, theirs = ({i: token for token, i in t.get_vocab().items()} for t in (target, draft))
    added = ({*t.get_added_vocab().values()} for t in (target, draft))
    both_added = set.intersection(*added)
    shared = ours.keys() & theirs.keys()
    differing = sorted(i for i in shared if ours[i] != theirs[i])
    serious = [i for i in differing if i not in both_added]
    if serious or not shared:
        example = f": id {serious[0]} is {ours[serious[0]]!r} there and {theirs[serious[0]]!r} here" if serious else ""
        problem = (
            f"The draft has another tokenizer than the target ({len(serious)} of {len(shared)} shared ids differ"
            f"{example}); choose a draft of the target's own family."
        )
        return problem, None
    notes = []
    if differing:
        i = differing[0]
        notes.append(f"{len(differing)} special tokens differ (id {i} is {ours[i]!r} there, {theirs[i]!r} here).")
    if len(ours) != len(theirs):
        notes.append(_padding_note(len(ours), len(theirs)))
    return None, " ".join(notes) or None


def available_memory(device: str = "cpu") -> int | None:
    """Bytes that can still be had on a device; None where the platform does not tell."""
    if device.split(":")[0] == "cuda":
        import torch

        return torch.cuda.mem_get_info(torch.device(device))[0] if torch.cuda.is_available() else None
    if sys.platform == "win32":
        import ctypes

        status = (ctypes.c_ulonglong * 8)()  # MEMORYSTATUSEX: two 32-bit fields, then total and available bytes
        ctypes.cast(status, ctypes.POINTER(ctypes.c_ulong))[0] = ctypes.sizeof(status)
        return status[2] if ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)) else None
    try:
        meminfo = Path("/proc/meminfo").read_text()
    except OSError:
        return None
    free = int(re.search(r"MemAvailable:\s+(\d+) kB", meminfo)[1]) * 1024
    return min(free, *_cgroup_free(free))


def _cgroup_free(free: int) -> list[int]:
    """What a container's limit leaves, files the kernel would drop not counted as used."""
    group = Path("/sys/fs/cgroup")
    try:
        limit, used = (int((group / name).read_text()) for name in ("memory.max", "memory.current"))
        cached = int(re.search(r"^inactive_file (\d+)", (group / "memory.stat").read_text(), re.M)[1])
    except (OSError, ValueError, TypeError):  # no container, another cgroup version, or no limit ("max")
        return [free]
    return [limit - used + cached]


def _width(dtype: str) -> int:
    if dtype not in BYTES:
        raise BadInput(f"Unknown precision {dtype!r}; choose from fp32, bf16, fp16.")
    return BYTES[dtype]

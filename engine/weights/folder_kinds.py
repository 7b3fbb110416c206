"""Says what a folder, or a repository of the hub, holds that nothing here can load, and what to do about it.

Each kind is one entry of a table (`weight_formats`, `rounded_kinds`) or one function of `CHECKS`, which are called in
order. Reads names, sizes and small text files; knows neither torch nor transformers.
"""

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path

from engine.files import read_json
from engine.weights.rounded_kinds import DESCRIPTIONS, rounding_problem
from engine.weights.weight_formats import FORMATS

_MOST_FILES, _DEEPEST = 5000, 3  # of a listing: someone may name a home folder
_POINTER, _LONGEST_POINTER = "version https://git-lfs", 1024


@dataclass(frozen=True)
class Contents:
    """``files``: bytes by path from the top, with / between. ``folder``: None of a repository. ``tensors``: their
    names, where they are known. ``origin``: the model that it was made from, "" where it does not say."""

    where: str
    files: Mapping[str, int]
    config: dict = field(default_factory=dict)
    folder: Path | None = None
    tensors: Collection[str] = ()
    origin: str = ""
    adapter: dict = field(default_factory=dict)

    @property
    def top(self) -> list[str]:
        return [file for file in self.files if "/" not in file]

    def find(self, *patterns: str) -> str:
        """Finds the first file of these forms, in the order of the forms; "" if there is none."""
        return next((file for form in patterns for file in self.files if fnmatch(file, form)), "")

    @property
    def weights(self) -> list[str]:
        """The safetensors of a model, at the top."""
        others = ("adapter_model*", "adapters*", "consolidated*")
        files = [file for file in self.top if file.endswith(".safetensors")]
        return [file for file in files if not any(fnmatch(file, form) for form in others)]

    @property
    def of_origin(self) -> str:
        return f", {self.origin}" if self.origin else ""


def contents_of(folder: Path, tensors: Collection[str] = ()) -> Contents:
    """Lists the contents of a folder: its first level, and where that has no weights, two more."""
    files: dict[str, int] = {}
    for place, folders, names in os.walk(folder):
        level = Path(place).relative_to(folder)
        files |= {(level / name).as_posix(): _size(Path(place, name)) for name in sorted(names)}
        has_enough = len(level.parts) >= _DEEPEST or len(files) > _MOST_FILES
        if has_enough or any(name.endswith(".safetensors") for name in names):
            folders.clear()
        folders.sort()
    adapter = read_json(folder / "adapter_config.json")
    origin = adapter.get("base_model_name_or_path") or adapter.get("model") or _origin(folder / "README.md")
    origin = origin if re.fullmatch(r"[\w./:~ -]{1,200}", str(origin)) else ""
    return Contents(str(folder), files, read_json(folder / "config.json"), folder, tensors, origin, adapter)


def _size(file: Path) -> int:
    """Returns a file's size; −1 for a link to nowhere."""
    try:
        return file.stat().st_size
    except OSError:
        return -1


def _origin(readme: Path) -> str:
    """Reads the base_model of a model card's head; "" without one."""
    try:
        head = readme.read_text(encoding="utf-8", errors="replace")[:4000].split("---")[1]
    except (OSError, IndexError):
        return ""
    named = re.search(r"^base_model:\s*(?:-\s*)?[\"']?([\w.-]+/[\w.-]+)", head, re.M)
    return named[1] if named else ""


_NO_WEIGHTS = ("training_args.bin", "optimizer.*", "scheduler.*", "rng_state*", "scaler.*")  # pickles of a training
_PARTIAL = ("*.incomplete", "*.part", "*.partial", "*.crdownload", "*.aria2", "*.download")


def _links(c: Contents) -> str | None:
    """Finds Git LFS pointers, and links to nowhere, in the place of files that a load reads."""
    needed = [*c.weights, *(file for file in c.top if file.startswith(("tokenizer", "config.json")))]
    if link := next((file for file in needed if c.files[file] < 0), None):
        return f"{c.where}/{link} is a link to a file that is not here; copy the folder with what its links point to."
    if c.folder is None:
        return None
    small = [file for file in (needed if c.weights else c.top) if len(_POINTER) < c.files[file] <= _LONGEST_POINTER]
    pointer = next((file for file in small if read_text(c.folder / file).startswith(_POINTER)), None)
    if pointer is None:
        return None
    return f"{c.where}/{pointer} is a Git LFS pointer, not the file itself; run `git lfs pull` in that folder."


def _empty(c: Contents) -> str | None:
    return None if c.files else f"{c.where} is empty; name a folder with config.json, a tokenizer and *.safetensors."


def _adapter(c: Contents) -> str | None:
    if not c.find("adapter_config.json", *(() if c.weights else ("adapter_model.*", "adapters.safetensors"))):
        return None
    kind, base = str(c.adapter.get("peft_type") or "LoRA or alike")[:40], f"its base model{c.of_origin}"
    if c.weights:
        return (
            f"{c.where} holds a model and an adapter beside it; merge both (`merge_and_unload` of peft), or move "
            "adapter_config.json away to run the model without it."
        )
    if c.find("adapters.safetensors") and "peft_type" not in c.adapter:
        return f"{c.where} holds an adapter of MLX; merge it with {base} by `mlx_lm.fuse` and name the result."
    if "PROMPT" in kind or "TUNING" in kind:
        return f"{c.where} holds an adapter ({kind}) that cannot be merged; name {base}."
    return (
        f"{c.where} holds an adapter ({kind}), not a model; merge it with {base} (`merge_and_unload`, then "
        "`save_pretrained` of peft) and name the folder that it was saved to."
    )


def _pipeline(c: Contents) -> str | None:
    if c.find("model_index.json"):
        return f"{c.where} holds a diffusers pipeline, which makes pictures, not text; name a language model."
    if c.find("modules.json", "config_sentence_transformers.json"):
        return f"{c.where} holds a sentence-transformers model, which makes vectors, not text; name a language model."
    return None


_WRITES = ("CausalLM", "LMHead", "ForConditionalGeneration")  # in the names of architectures that write text
_ENCODERS = ("bert", "roberta", "distilbert", "albert", "electra", "deberta", "deberta-v2", "camembert", "xlm-roberta",
             "mpnet", "modernbert", "ernie", "big_bird", "megatron-bert", "nomic_bert")  # fmt: skip


def _architecture(c: Contents) -> str | None:
    family, listed = c.config.get("model_type"), c.config.get("architectures")
    name = str(listed[0])[:60] if isinstance(listed, list) and listed else str(family)[:60]
    advice = "name a model that writes text token by token (its config.json says …ForCausalLM)."
    if c.config.get("is_encoder_decoder") is True:
        return f"{c.where} holds {name}, an encoder with a decoder, and only decoders run here; {advice}"
    if family in _ENCODERS and not c.config.get("is_decoder"):
        return f"{c.where} holds {name}, an encoder, which reads text and writes none; {advice}"
    if re.search(r"For[A-Z]", name) and not any(mark in name for mark in _WRITES):
        return f"{c.where} holds {name}, which gives labels, scores or vectors, not text; {advice}"
    return None


def _rounding(c: Contents) -> str | None:
    beside = {"hf_quant_config.json": "modelopt", "quantize_config.json": "gptq", "quant_config.json": "awq"}
    method = next((kind for file, kind in beside.items() if file in c.files), None)
    is_described = any(c.config.get(key) for key in DESCRIPTIONS)
    config = c.config if is_described or not method else c.config | {DESCRIPTIONS[0]: {"quant_method": method}}
    return rounding_problem(c.where, config, c.tensors, c.origin)


def _elsewhere(c: Contents) -> str | None:
    """Finds a folder above or below that is the one to name."""
    if c.weights or c.folder is None:
        return None
    homes = {file.rpartition("/")[0] for file in c.files if file.endswith("/config.json")}
    models = sorted(home for home in homes if c.find(f"{home}/*.safetensors"))
    if models:
        current = read_text(c.folder / "refs" / "main")  # of the hub's cache
        chosen = [home for home in models if current and home.endswith(current)] or models[:3]
        names = " or ".join(str(c.folder / home) for home in chosen)
        return f"{c.where} holds no model itself, but its subfolder does; name {names}."
    above = c.folder.resolve().parent
    if not c.find("*.gguf") and (above / "config.json").is_file() and any(above.glob("*.safetensors")):
        return f"{c.where} holds no model in the transformers format, but the folder above does; name {above}."
    return None


def read_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""


def _download(c: Contents) -> str | None:
    partial = c.find(*_PARTIAL, *(f"*/{form}" for form in _PARTIAL))
    if not partial or c.weights:
        return None
    return f"{c.where} holds a download that was not finished ({partial}); finish it, or download the model again."


def _parts(c: Contents) -> str | None:
    absent = missing_parts(c.top)
    if not absent or any(file == "model.safetensors" or file.endswith(".index.json") for file in c.top):
        return None
    return f"{c.where} lacks {listing(absent)} of a model in parts; download the rest."


def missing_parts(names: Collection[str]) -> list[str]:
    """Returns the absent files of sets in parts such as model-00001-of-00003.safetensors.

    >>> missing_parts(["a-00001-of-00003.safetensors", "a-00003-of-00003.safetensors"])
    ['a-00002-of-00003.safetensors']
    """
    parts = [re.fullmatch(r"(.+)-(\d{5})-of-(\d{5})\.safetensors", name) for name in names]
    sets = {(part[1], part[3]) for part in parts if part}
    files = (f"{stem}-{i:05}-of-{n}.safetensors" for stem, n in sorted(sets) for i in range(1, min(int(n), 999) + 1))
    return [name for name in files if name not in names]


def listing(names: list[str]) -> str:
    """Lists up to three names, and says how many more there are."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def _format(c: Contents) -> str | None:
    if c.weights:
        return None
    weights = {file: 0 for file in c.files if not any(fnmatch(file, form) for form in _NO_WEIGHTS)}
    for kind in FORMATS:
        if file := Contents(c.where, weights).find(*kind.files):
            words = f"{kind.what}; {kind.advice}.".replace("{file}", file).replace("{origin}", c.of_origin)
            return f"{c.where} {words}"
    return None


def _original(c: Contents) -> str | None:
    if c.weights or not c.find("consolidated*.safetensors"):
        return None
    return (
        f"{c.where} holds weights in Mistral's own format (consolidated.safetensors); name a copy in the transformers "
        "format, which has config.json and model.safetensors."
    )


def tokenizer_problem(c: Contents) -> str | None:
    """Says why the tokenizer of a model cannot be read here; None if it can, or if there is none."""
    if c.find("tokenizer.json", "tekken.json"):
        return None
    advice = "add the tokenizer.json of the model that it was made from" + c.of_origin
    if "tokenizer.model" in c.files:
        if find_spec("sentencepiece"):
            return None
        return (
            f"{c.where} has a SentencePiece tokenizer (tokenizer.model) and no tokenizer.json; run `pip install "
            f"sentencepiece`, with which transformers converts it, or {advice}."
        )
    other = c.find("*.tiktoken", "tiktoken.model", "spiece.model", "sentencepiece*.model", "vocab.txt", "*.vocab")
    return f"{c.where} has a tokenizer that is not read here ({other}), no tokenizer.json; {advice}." if other else None


CHECKS = (
    _empty,
    _links,
    _adapter,
    _pipeline,
    _rounding,
    _architecture,
    _elsewhere,
    _download,
    _parts,
    _original,
    _format,
)


def folder_problem(contents: Contents) -> str | None:
    """Says in one sentence what a folder or repository holds that cannot be loaded as a model, and what to do. None for
    a model, whose parts may still be damaged."""
    return next((problem for check in CHECKS if (problem := check(contents))), None)

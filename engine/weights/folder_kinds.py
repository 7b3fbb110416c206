"""Says what a folder, or a repository of the hub, holds that nothing here can load, and what to do about it.

A kind that its files give away is a row of `FORMATS`, a way of rounding one of `ROUNDINGS`; the rest are functions of
`CHECKS`, which are called in order. Reads names, sizes and small text files; knows neither torch nor
transformers.
"""

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path

from engine.files import read_json
from engine.weights.eight_bits import is_read_here

Problem = tuple[str, str] | None  # the contents, and the way out

_MOST_FILES, _DEEPEST = 5000, 3  # limits of a listing, because someone may name a home folder
_POINTER, _LONGEST_POINTER = "version https://git-lfs", 1024
_WRITES = ("CausalLM", "LMHead", "ForConditionalGeneration")  # in the names of architectures that write text
_ENCODERS = ("bert", "roberta", "distilbert", "albert", "electra", "deberta", "deberta-v2", "camembert", "xlm-roberta",
             "mpnet", "modernbert", "ernie", "big_bird", "megatron-bert", "nomic_bert")  # fmt: skip
_ORIGINAL = "name the model that it was made from{origin}"

# Where safetensors are absent: forms of the files (a * matches / too), what they are, and what to do. The first that
# matches counts.
FORMATS = (
    ("*.incomplete *.part *.partial *.crdownload *.aria2 *.download", "a download that was not finished ({file})",
     "finish it, or download the model again"),
    ("*.gguf", "GGUF files, not at its top", "name one of them, such as {file}"),
    ("*/model*.safetensors", "a model in a subfolder ({file})", "name that folder, in a copy on your own disk"),
    ("zero_to_fp32.py global_step*/* zero_pp_rank_* *.distcp", "a checkpoint in the parts that training wrote ({file})",
     "join them, DeepSpeed's with `python zero_to_fp32.py . OUT --safe_serialization` and torch's with `accelerate "
     "merge-weights`, and name the result"),
    ("pytorch_model*.bin *.ckpt *.pth *.pt *.pkl", "{file}, a pickle, which is never loaded because it can run code",
     "name a copy that has config.json and *.safetensors, or make one: of a model with `AutoModelForCausalLM."
     "from_pretrained(…).save_pretrained(…)` of transformers, of a head with save_file of safetensors.torch"),
    ("*.zip *.tar *.tar.gz *.tgz *.tar.zst *.7z *.rar", "an archive ({file})", "unpack it and name the folder inside"),
    ("[!.]*.*", "no *.safetensors of a model at its top, but {file}",
     f"{_ORIGINAL}, or a copy of it that has config.json and *.safetensors"),
)  # fmt: skip
# Files that do not say which format the weights have; the first five are pickles from training.
_NO_WEIGHTS = ("training_args.bin", "optimizer.*", "scheduler.*", "rng_state*", "scaler.*", "*.json", "*.jsonl",
               "*.txt", "*.md", "*.jinja", "*.model", "*.tiktoken", "*.png", "*.jpg")  # fmt: skip

# The kinds of rounding that transformers reads (5.23), and the packages that it needs for them beside accelerate.
ROUNDINGS = {
    "GPTQ": "optimum gptqmodel", "AWQ": "gptqmodel", "bitsandbytes": "bitsandbytes",
    "compressed-tensors": "compressed-tensors", "FP8": "", "MXFP4": "", "MXFP8": "", "BitNet": "",
    "FBGEMM_FP8": "fbgemm-gpu", "torchao": "torchao", "HQQ": "hqq", "Quanto": "optimum-quanto", "AQLM": "aqlm",
    "VPTQ": "vptq", "EETQ": "kernels", "SpQR": "spqr-quant", "Auto-Round": "auto-round", "Quark": "amd-quark",
}  # fmt: skip
_MODULES = {"optimum-quanto": "optimum.quanto", "amd-quark": "quark"}  # packages whose module has another name
_DESCRIPTIONS = ("quantization_config", "quantization", "compression_config")  # fields of config.json
_METHOD_FILES = {"hf_quant_config.json": "modelopt", "quantize_config.json": "gptq", "quant_config.json": "awq"}
# The end of a tensor's name that only such weights have, for files whose config.json does not say it.
_TENSORS = {".qweight": "GPTQ or AWQ", ".weight_packed": "compressed-tensors", ".weight_scale_inv": "FP8",
            ".absmax": "bitsandbytes", ".SCB": "bitsandbytes", ".biases": "MLX"}  # fmt: skip


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

    def sentence(self, problem: tuple[str, str]) -> str:
        """Joins the two halves; ``{origin}`` in what to do is the model that it was made from."""
        origin = f", {self.origin}" if self.origin else ""
        return f"{self.where} holds {problem[0]}; {problem[1].replace('{origin}', origin)}."


def contents_of(folder: Path, tensors: Collection[str]) -> Contents:
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
    return Contents(str(folder), files, read_json(folder / "config.json"), folder, tensors, origin)


def _size(file: Path) -> int:
    """Returns a file's size; −1 for a link to nowhere, and in a folder that may not be read."""
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


def _read_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""


def _links(c: Contents) -> Problem:
    """Finds Git LFS pointers, and links to nowhere, in the place of files that a load reads."""
    needed = [*c.weights, *(file for file in c.top if file.startswith(("tokenizer", "config.json")))]
    if link := next((file for file in needed if c.files[file] < 0), None):
        return f"{link}, a link to a file that is not here", "copy the folder with what its links point to"
    for file in needed if c.weights else c.top:
        is_small = c.folder and len(_POINTER) < c.files[file] <= _LONGEST_POINTER
        if is_small and _read_text(c.folder / file).startswith(_POINTER):
            return f"{file}, a Git LFS pointer, not the file itself", "run `git lfs pull` in that folder"
    return None


def _adapter(c: Contents) -> Problem:
    if not c.find("adapter_config.json", *(() if c.weights else ("adapter_model.*", "adapters.safetensors"))):
        return None
    if c.weights:
        advice = "merge both (`merge_and_unload` of peft), or move adapter_config.json away to run the model alone"
        return "a model and an adapter beside it", advice
    tools = "`merge_and_unload` of peft, or `mlx_lm.fuse`"
    return "an adapter, not a model", f"merge it with its base model{{origin}} ({tools}), or name that model alone"


def _rounding(c: Contents) -> Problem:
    text = c.config.get("text_config")
    texts = (c.config, text if isinstance(text, dict) else {})
    described = next((part[key] for part in texts for key in _DESCRIPTIONS if part.get(key)), None)
    if not described and (beside := next((name for file, name in _METHOD_FILES.items() if file in c.files), None)):
        described = {"quant_method": beside}
    if described:
        name = None if is_read_here(described) else _method(described if isinstance(described, dict) else {})
    else:
        endings = (name for end, name in _TENSORS.items() if any(tensor.endswith(end) for tensor in c.tensors))
        name = next((f"{name}, but its config.json does not say so" for name in endings), None)
    packages = [*ROUNDINGS[name].split(), "accelerate"] if name in ROUNDINGS else []
    absent = " ".join(package for package in packages if not _is_installed(package))
    if not name or (packages and not absent):
        return None
    if not absent:
        return f"weights rounded by {name}", _ORIGINAL
    install = f"or run `pip install {absent}`, with which transformers reads it"
    return f"weights rounded by {name}, which our decoder does not read", f"{_ORIGINAL}, {install}"


def _method(described: dict) -> str:
    """Names how weights were rounded, in the words of `ROUNDINGS` where transformers reads them."""
    method = described.get("quant_method")
    if method is None and any(described.get(f"load_in_{bits}bit") for bits in (4, 8)):
        return "bitsandbytes"
    if method is None:
        is_of_mlx = {"group_size", "bits"} <= described.keys()
        return "MLX, which only MLX reads" if is_of_mlx else "a method that its config.json does not name"
    unknown = f"{str(method)[:40]!r}, which transformers does not know"
    return next((name for name in ROUNDINGS if name.lower() == method), unknown)


def rounding_problem(where: str, config: dict) -> str | None:
    """Says why nothing here reads the weights of a checkpoint; None if they are not rounded, or if something does."""
    problem = _rounding(contents := Contents(where, {}, config))
    return contents.sentence(problem) if problem else None


def _is_installed(package: str) -> bool:
    try:
        return find_spec(_MODULES.get(package, package.replace("-", "_"))) is not None
    except ModuleNotFoundError:  # the package above it
        return False


def _architecture(c: Contents) -> Problem:
    if file := c.find("model_index.json", "modules.json", "config_sentence_transformers.json"):
        return f"a pipeline that makes pictures or vectors, not text ({file})", "name a language model"
    family, listed = c.config.get("model_type"), c.config.get("architectures")
    name = str(listed[0])[:60] if isinstance(listed, list) and listed else str(family)[:60]
    is_encoder = c.config.get("is_encoder_decoder") is True or (family in _ENCODERS and not c.config.get("is_decoder"))
    if is_encoder or (re.search(r"For[A-Z]", name) and not any(mark in name for mark in _WRITES)):
        return f"{name}, not a decoder that writes text", "name a model whose config.json says …ForCausalLM"
    return None


def _parts(c: Contents) -> Problem:
    absent = missing_parts(c.top)
    if not absent or any(file == "model.safetensors" or file.endswith(".index.json") for file in c.top):
        return None
    return f"a model in parts and lacks {listing(absent)}", "download the rest"


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


def _files(c: Contents) -> Problem:
    files = {file: 0 for file in c.files if not any(fnmatch(file, form) for form in _NO_WEIGHTS)}
    for forms, contents, advice in () if c.weights else FORMATS:
        if file := Contents(c.where, files).find(*forms.split()):
            return contents.replace("{file}", file), advice.replace("{file}", file)
    return None


def tokenizer_problem(c: Contents) -> str | None:
    """Says why the tokenizer of a model cannot be read here; None if it can, or if there is none."""
    other = "tokenizer.model *.tiktoken tiktoken.model spiece.model sentencepiece*.model vocab.txt *.vocab"
    file = c.find("tokenizer.json", "tekken.json", *other.split())
    is_read = file.endswith(".json") or (file == "tokenizer.model" and find_spec("sentencepiece"))
    if not file or is_read:
        return None
    install = "run `pip install sentencepiece`, or " if file == "tokenizer.model" else ""
    advice = f"{install}add the tokenizer.json of the model that it was made from{{origin}}"
    return c.sentence((f"a tokenizer that is not read here ({file})", advice))


CHECKS = (_links, _adapter, _rounding, _architecture, _parts, _files)


def folder_problem(contents: Contents) -> str | None:
    """Says in one sentence what a folder or repository holds that cannot be loaded as a model, and what to do. None for
    a model, whose parts may still be damaged."""
    if not contents.files:
        return f"{contents.where} is empty; name a folder with config.json, a tokenizer and *.safetensors."
    return next((contents.sentence(problem) for check in CHECKS if (problem := check(contents))), None)

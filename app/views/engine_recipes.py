"""Renders the current method and draft length as a configuration for other engines, or as "not supported".

Each recipe uses the flags of the version that it names, taken from that version's sources or documentation. The page
shows the version beside the recipe, because flags change.
"""

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass

from app.views.safe_json import encode
from engine.config import AUTO, METHODS

NGRAM_LONGEST = 8  # tokens of the longest match, as in engine.drafters.ngram
TYPICAL = 4  # the draft length of γ = auto until a run shows one


@dataclass(frozen=True, slots=True)
class Choice:
    """The setting to configure. ``target`` and ``draft`` are hub names or folders, ``gguf`` a name for llama.cpp's -hf.

    ``chosen``: the draft length that auto took on average in the run on screen.
    """

    method: str
    gamma: int | str
    target: str
    draft: str | None = None
    gguf: str | None = None
    greedy: bool = True
    chosen: int | None = None

    @property
    def length(self) -> int:
        return self.gamma if isinstance(self.gamma, int) else self.chosen or TYPICAL

    @property
    def head(self) -> str:
        return self.draft or "PATH_OF_AN_EAGLE3_HEAD"


@dataclass(frozen=True, slots=True)
class Recipe:
    code: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    """Another engine: its name, the version followed, and a recipe for each method it supports."""

    name: str
    version: str
    recipes: dict[str, Callable[[Choice], Recipe]]
    missing: dict[str, str]


def production(choice: Choice, whence: str = "as set above") -> str:
    """Returns every engine's recipe as JSON, with a lead sentence about the draft length. ``whence``: the origin of the
    setting."""
    targets = () if choice.method == AUTO else TARGETS
    return encode({"lead": _lead(choice, whence), "engines": [_answer(target, choice) for target in targets]})


def _lead(choice: Choice, whence: str) -> str:
    if choice.method == AUTO:
        return "Press Run or choose a method: auto finds the fastest when a run begins."
    if _plain(choice):
        return f"Plain decoding, {whence}, needs no configuration."
    if isinstance(choice.gamma, int):
        return f"For {_drafting(choice)} with γ = {choice.gamma}, {whence}."
    fixed = f"For {_drafting(choice)}. Here γ is chosen anew each round; most of these engines take one fixed number"
    if choice.chosen:
        return f"{fixed}, so it gets the average of the run on screen: {choice.chosen}."
    return f"{fixed}; it gets {TYPICAL} until a run shows which length it drafts with."


def _drafting(choice: Choice) -> str:
    return METHODS[choice.method].title if choice.method in METHODS else choice.method


def _plain(choice: Choice) -> bool:
    return choice.method == "none" or choice.gamma == 0


def _answer(target: Target, choice: Choice) -> dict:
    line = {"name": target.name, "version": target.version}
    if _plain(choice):
        return line | {"note": "Nothing to configure: plain decoding is what it does by itself."}
    if choice.method in target.missing:
        return line | {"note": f"Not supported: {target.missing[choice.method]}"}
    if choice.method not in target.recipes:
        return line | {"note": "Not described yet for this method."}
    recipe = target.recipes[choice.method](choice)
    return line | {"code": recipe.code, "note": recipe.note}


# ── transformers ──

_TRANSFORMERS = """from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained({target})
model = AutoModelForCausalLM.from_pretrained({target})
{draft}inputs = tokenizer("Your prompt", return_tensors="pt")
output = model.generate(**inputs, max_new_tokens=128, {options})
print(tokenizer.decode(output[0], skip_special_tokens=True))"""


def _transformers(choice: Choice, options: str, draft: str = "") -> str:
    return _TRANSFORMERS.format(target=json.dumps(choice.target), draft=draft, options=options)


def _transformers_ngram(choice: Choice) -> Recipe:
    options = f"prompt_lookup_num_tokens={choice.length}, max_matching_ngram_size={NGRAM_LONGEST}"
    return Recipe(_transformers(choice, options))


def _transformers_lm(choice: Choice) -> Recipe:
    draft = [
        f"draft = AutoModelForCausalLM.from_pretrained({json.dumps(choice.draft)})",
        f"draft.generation_config.num_assistant_tokens = {choice.length}",
        'draft.generation_config.num_assistant_tokens_schedule = "constant"',
        "draft.generation_config.assistant_confidence_threshold = 0.0",
    ]
    note = (
        "The draft's own defaults end a draft early at low confidence; the threshold of 0 keeps γ as set. "
        'The schedule "heuristic" is its nearest thing to an automatic γ.'
    )
    return Recipe(_transformers(choice, "assistant_model=draft", "\n".join(draft) + "\n"), note)


# ── vLLM ──


def _vllm(choice: Choice, settings: dict) -> str:
    return f"vllm serve {shlex.quote(choice.target)} \\\n  --speculative-config {shlex.quote(json.dumps(settings))}"


def _vllm_ngram(choice: Choice) -> Recipe:
    settings = {"method": "ngram", "num_speculative_tokens": choice.length}
    settings |= {"prompt_lookup_min": 1, "prompt_lookup_max": NGRAM_LONGEST}
    return Recipe(_vllm(choice, settings))


def _vllm_model(method: str) -> Callable[[Choice], Recipe]:
    def recipe(choice: Choice) -> Recipe:
        draft = choice.head if method == "eagle3" else choice.draft
        settings = {"method": method, "model": draft, "num_speculative_tokens": choice.length}
        if choice.greedy:
            return Recipe(_vllm(choice, settings))
        note = "With draft_sample_method drafts are sampled and tested by p/q as here; without, the draft is greedy."
        return Recipe(_vllm(choice, settings | {"draft_sample_method": "probabilistic"}), note)

    return recipe


# ── SGLang ──


def _sglang(choice: Choice, *options: str) -> str:
    lines = [f"python -m sglang.launch_server --model-path {shlex.quote(choice.target)}", *options]
    return " \\\n  ".join(lines)


def _sglang_ngram(choice: Choice) -> Recipe:
    options = ("--speculative-algorithm NGRAM", "--speculative-ngram-max-bfs-breadth 1")
    note = "A breadth of 1 drafts one chain. The number counts the token before the drafts too, so it is γ + 1."
    return Recipe(_sglang(choice, *options, f"--speculative-num-draft-tokens {choice.length + 1}"), note)


def _sglang_model(algorithm: str) -> Callable[[Choice], Recipe]:
    def recipe(choice: Choice) -> Recipe:
        draft = choice.head if algorithm == "EAGLE3" else choice.draft
        options = [
            f"--speculative-algorithm {algorithm}",
            f"--speculative-draft-model-path {shlex.quote(draft)}",
            f"--speculative-num-steps {choice.length}",
            "--speculative-eagle-topk 1",
            f"--speculative-num-draft-tokens {choice.length + 1}",
        ]
        note = "A top-k of 1 drafts one chain; the tokens to verify are then the steps plus one."
        return Recipe(_sglang(choice, *options), note)

    return recipe


# ── TensorRT-LLM ──


def _tensorrt(choice: Choice, kind: str, *settings: str, overlap: bool = True) -> str:
    lines = [] if overlap else ["disable_overlap_scheduler: true"]
    lines += ["speculative_config:", f"  decoding_type: {kind}", f"  max_draft_len: {choice.length}"]
    lines += [f"  {setting}" for setting in settings]
    return "\n".join(
        ["# speculative.yaml", *lines, "", f"# trtllm-serve {shlex.quote(choice.target)} --config speculative.yaml"]
    )


def _tensorrt_ngram(choice: Choice) -> Recipe:
    return Recipe(_tensorrt(choice, "NGram", f"max_matching_ngram_size: {NGRAM_LONGEST}", overlap=False))


def _tensorrt_lm(choice: Choice) -> Recipe:
    return Recipe(_tensorrt(choice, "DraftTarget", f"speculative_model: {json.dumps(choice.draft)}", overlap=False))


def _tensorrt_eagle(choice: Choice) -> Recipe:
    return Recipe(_tensorrt(choice, "Eagle3", f"speculative_model: {json.dumps(choice.head)}"))


# ── llama.cpp ──

_CONVERT = "llama.cpp reads GGUF files: convert each checkpoint with its convert_hf_to_gguf.py first."


def _llama(choice: Choice, *options: str) -> str:
    model = f"-hf {shlex.quote(choice.gguf)}" if choice.gguf else "-m target.gguf"
    return " \\\n  ".join([f"llama-server {model}", *options])


def _llama_ngram(choice: Choice) -> Recipe:
    code = _llama(choice, "--spec-type ngram-simple", f"--spec-ngram-simple-size-m {choice.length}")
    note = (
        f"It looks up one length only, 12 tokens unless …-size-n says so; the lookup here tries {NGRAM_LONGEST} to 1."
    )
    return Recipe(code, note if choice.gguf else f"{note} {_CONVERT}")


def _llama_model(kind: str) -> Callable[[Choice], Recipe]:
    def recipe(choice: Choice) -> Recipe:
        options = [f"--spec-type {kind}", "--spec-draft-model draft.gguf", f"--spec-draft-n-max {choice.length}"]
        if not choice.greedy:
            options.append("--spec-draft-sampling probabilistic")
        return Recipe(_llama(choice, *options), _CONVERT)

    return recipe


# ── LMDeploy ──


def _lmdeploy_eagle(choice: Choice) -> Recipe:
    options = [
        f"lmdeploy serve api_server {shlex.quote(choice.target)}",
        "--backend pytorch",
        "--speculative-algorithm eagle3",
        f"--speculative-draft-model {shlex.quote(choice.head)}",
        f"--speculative-num-draft-tokens {choice.length}",
    ]
    return Recipe(" \\\n  ".join(options), "Experimental there, and only in its PyTorch backend.")


_TRAINED = "its speculative decoding takes trained heads only (EAGLE, MTP, DFlash)."

TARGETS = (
    Target(
        "transformers",
        "5.23",
        {"ngram": _transformers_ngram, "lm": _transformers_lm},
        {"eagle": "generate() takes a draft model or a lookup, no EAGLE head."},
    ),
    Target(
        "vLLM",
        "0.33",
        {"ngram": _vllm_ngram, "lm": _vllm_model("draft_model"), "eagle": _vllm_model("eagle3")},
        {},
    ),
    Target(
        "SGLang",
        "0.5.23",
        {"ngram": _sglang_ngram, "lm": _sglang_model("STANDALONE"), "eagle": _sglang_model("EAGLE3")},
        {},
    ),
    Target(
        "TensorRT-LLM",
        "1.3 (release candidates), PyTorch backend",
        {"ngram": _tensorrt_ngram, "lm": _tensorrt_lm, "eagle": _tensorrt_eagle},
        {},
    ),
    Target(
        "llama.cpp",
        "llama-server at commit 00dc805; builds before --spec-draft-n-max call it --draft-max",
        {"ngram": _llama_ngram, "lm": _llama_model("draft-simple"), "eagle": _llama_model("draft-eagle3")},
        {},
    ),
    Target(
        "LMDeploy",
        "0.18",
        {"eagle": _lmdeploy_eagle},
        {"ngram": _TRAINED, "lm": _TRAINED},
    ),
)

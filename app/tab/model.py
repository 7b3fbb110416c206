"""Describes a GGUF model for the engine in a browser tab: its graph, its tokenizer and its chat template as data."""

import json
from pathlib import Path

import engine
from app.tab.graph import portable_graph
from engine.config import RunConfig
from engine.decoding.tokenization import template_text
from engine.decoding.unwritten_text import NOTE, REFUSAL
from engine.drafters.ngram import NgramDrafter
from engine.errors import BadInput
from engine.models.decoder.transformers_config import load_config, load_tokenizer
from engine.models.loader import eos_ids

# γ = auto goes by these costs of scoring 1, 2, 4, … tokens, in plain steps: WASM on one thread (Chromium 156, AVX-512).
# They are the same in every tab, so that a seed gives the same text everywhere.
_ROW_COSTS = {1: 1.0, 2: 1.22, 4: 2.07, 8: 3.7, 16: 6.8}
_MARK = "\ue000x\ue000"  # in place of a prompt; no template holds characters of private use


def describe(folder: Path) -> tuple[bytes, dict]:
    """Returns the graph without weights, and all else that the tab needs. BadInput for a model that it cannot run."""
    config, tokenizer = load_config(folder), load_tokenizer(folder)
    graph, sizes = portable_graph(folder, config)
    return graph, {
        "graph": sizes,
        "tokenizer": _vocabulary(tokenizer) | {"eos": sorted(eos_ids(folder, config, tokenizer))},
        "costs": draft_costs(),
        "versions": {"speclens": engine.__version__},
    }


def draft_costs() -> dict[str, dict]:
    """Returns the cost of scoring rows, and the chance of each key of prompt lookup, whose drafts cost nothing."""
    chances = {key: chance for key, chance in NgramDrafter.priors.items() if isinstance(key, int)}  # only chains
    return {"v": _ROW_COSTS, "priors": chances}


def _vocabulary(tokenizer) -> dict:
    """Returns the texts of all ids and the merges, of a byte-level tokenizer that splits digits apart: the kind that
    assets/web/tab/tokens.js reads."""
    parts = json.loads(tokenizer.backend_tokenizer.to_str())
    splits = [(step["type"], step.get("individual_digits"), step.get("use_regex"), step.get("add_prefix_space"))
              for step in (parts["pre_tokenizer"] or {}).get("pretokenizers", [])]  # fmt: skip
    added = parts["added_tokens"]
    is_known = (
        splits == [("Digits", True, None, None), ("ByteLevel", None, True, False)]
        and parts["model"]["type"] == "BPE"
        and not parts["model"].get("ignore_merges")
        and parts["normalizer"] is None
        and all(token["special"] and not (token["lstrip"] or token["rstrip"]) for token in added)
    )
    if not is_known:
        raise BadInput("The browser's engine reads SmolLM's kind of tokenizer only: bytes, with each digit apart.")
    names = {i: text for text, i in tokenizer.get_vocab().items()}
    return {
        "texts": [names[i] for i in range(len(names))],
        "merges": [merge if isinstance(merge, str) else " ".join(merge) for merge in parts["model"]["merges"]],
        "special": [token["id"] for token in added],
        "marks": list(tokenizer.all_special_ids),
        "template": _template(tokenizer),
        "words": [words.format(name="prompt", characters="{}") for words in (REFUSAL, NOTE)],
    }


def _template(tokenizer) -> dict[str, str]:
    """Returns what the chat template puts before and after a prompt. Raises BadInput if it changes the prompt."""
    for prompt in (_MARK, f" {_MARK}\n"):
        before, mark, after = template_text(tokenizer, RunConfig(prompt)).partition(prompt)
        if not mark or _MARK in before + after:
            raise BadInput("This model's chat template changes the prompt, which the browser's engine cannot do.")
    return {"before": before, "after": after}

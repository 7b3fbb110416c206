"""Names what a checkpoint holds and no code read, and what it lacks, so that a target is never half read."""

import re
from pathlib import Path

import torch

from engine.errors import Unavailable
from engine.models.decoder.config import PROJECTIONS, bias_parts, norms_heads
from engine.weights.eight_bits import SCALE

# Tensors without effect: rotary frequencies, which follow from config.json, and constants of old attention code.
_NO_EFFECT = re.compile(r"rotary_emb\.inv_freq$|attn\.(masked_bias|rotary_emb\..*_cached)$|(^|\.)position_ids$")
# Parts of a model that read no text, and layers that draft for it: a causal language model's logits do without them.
_OTHER_PARTS = re.compile(r"(^|\.)(vision|visual|audio|image|speech|multi_modal|multimodal|mm_|mtp)")


def check_layers(weights, config, where: Path) -> None:
    """Raises Unavailable unless each layer has the biases and norms that config.json declares, and no others. A bias of
    zeros makes no difference."""
    biases, norms = bias_parts(config), norms_heads(config)
    declared = {f"{part}.bias": part in biases for part in PROJECTIONS}
    declared |= {f"self_attn.{side}_norm.weight": norms for side in "qk"}
    for i in range(config.num_hidden_layers):
        for part, is_declared in declared.items():
            name = f"model.layers.{i}.{part}"
            is_there = name in weights
            if is_declared and not is_there:
                raise Unavailable(
                    f"{where} has no tensor {name!r}, which its config.json declares ({config.model_type}); its "
                    "weights do not fit it. Fetch the model again."
                )
            if is_there and not is_declared and (part.endswith("norm.weight") or torch.count_nonzero(weights(name))):
                raise Unavailable(surplus(where, name))


def reads_own_head(weights, config) -> bool:
    """Returns whether the output layer is a matrix of its own. Like transformers (5.23), a stored one counts also where
    config.json says that it is the embedding, unless both are equal."""
    names = ("lm_head.weight", "model.embed_tokens.weight")
    if not config.tie_word_embeddings:
        return True
    if any(name not in weights for name in names):
        return False
    if not hasattr(weights, "raw") or any(f"{name}{SCALE}" in weights for name in names):
        return True
    return not torch.equal(*(weights.raw(name) for name in names))


def embedding_name(weights, config) -> str:
    """Returns the tensor that the embedding is read from, which in a tied pair is the one that is stored."""
    embedding, head = "model.embed_tokens.weight", "lm_head.weight"
    return head if config.tie_word_embeddings and embedding not in weights and head in weights else embedding


def check_all_read(reader) -> None:
    """Raises Unavailable, naming the tensor, if the folder holds one that was not read and may have an effect.
    ``reader`` reads a folder; weights that are made in memory have no names, and nothing is left over."""
    names = getattr(reader, "read", None) is not None and reader.names
    if not names:
        return
    scales = {f"{name}{SCALE}" for name in reader.read}
    for name in sorted(set(names) - reader.read - scales):
        if not is_harmless(name):
            raise Unavailable(surplus(reader.folder, name))


def is_harmless(name: str) -> bool:
    return bool(_NO_EFFECT.search(name))


def is_of_another_part(name: str) -> bool:
    return bool(_OTHER_PARTS.search(name))


def surplus(folder: Path, name: str) -> str:
    """Returns the sentence about a tensor that would be left out."""
    return (
        f"{folder} holds the tensor {name!r}, which a model of its config.json does not have, so its numbers may be "
        "wrong without it; correct config.json, or delete the tensor if it belongs to something else."
    )

"""Lists the kinds of heads on a target's states: how a folder shows its kind, and what loads it; and the kinds of
other programs, which nothing here runs."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from engine.errors import BadInput


@dataclass(frozen=True)
class HeadKind:
    """A head of one method. ``noun``: with its article, in the number of ``verb``. A folder is of this kind if its
    config.json has the ``field`` or its weights the ``tensor``, by the name that `own_name` gives it.

    ``load`` is "module:function" of (folder, target model, reader of its tensors). ``cache``: where keys and values of
    the head are. ``width``: a tensor as long as the target is wide; ``words``: one with a row for each word that it
    guesses; both for a head whose config.json gives no sizes."""

    noun: str
    load: str
    cache: Literal["its own", "the target's", "none"]
    verb: str = "drafts"
    field: str = ""
    tensor: str = ""
    width: str = ""
    words: str = ""

    @property
    def name(self) -> str:
        """``noun`` without its article."""
        return self.noun.removeprefix("an ").removeprefix("a ")


# By the method that drafts with them. The fields are looked at before the tensors.
HEAD_KINDS = {
    # An EAGLE head with one tensor more, so it is looked for first.
    "block": HeadKind("a block head", "engine.models.heads.loader:load_block", "its own", tensor="mask_hidden"),
    # Known by the layer that joins an embedding and a state, because its config.json names many architectures, a plain
    # Llama among them.
    "eagle": HeadKind("an EAGLE head", "engine.models.heads.loader:load_eagle", "its own", tensor="fc.weight"),
    "medusa": HeadKind(
        "Medusa heads", "engine.models.heads.loader:load_medusa", "none", verb="draft", field="medusa_num_heads",
        tensor="0.0.linear.weight", width="0.0.linear.weight", words="0.1.weight",
    ),
    "exit": HeadKind(
        "an exit head", "engine.models.heads.loader:load_exit", "the target's", field="exit_layer",
        width="down.weight", words="d2t",
    ),
}  # fmt: skip


_WRAPPERS = ("_orig_mod.", "module.", "draft_model.", "eagle_module.")  # added by torch.compile, DDP and trainers
_PREFIXES = (*_WRAPPERS, "model.", "medusa_heads.", "medusa_head.")
_SPELLINGS = (  # another program's name, and ours
    (r"midlayer\.", "layers.0."),
    (r"aux_norm_low\.", "fc_norm.0."), (r"aux_norm_mid\.", "fc_norm.1."), (r"aux_norm_high\.", "fc_norm.2."),
    (r"blocks\.(\d+)\.layers\.(\d+)\.", r"\1.\2.linear."), (r"lm_heads\.(\d+)\.", r"\1.1."),
)  # fmt: skip


def own_name(stored: str) -> str:
    """Returns the name by which a head's tensor is read here: SafeAILab, SpecForge, SGLang, vLLM and the speculators
    library have several.

    >>> own_name("model.midlayer.hidden_norm.weight"), own_name("blocks.2.layers.0.weight")
    ('layers.0.hidden_norm.weight', '2.0.linear.weight')
    >>> own_name("module.lm_head.weight")
    'lm_head.weight'
    """
    for prefix in _PREFIXES:
        stored = stored.removeprefix(prefix)
    for theirs, ours in _SPELLINGS:
        stored = re.sub(f"^{theirs}", ours, stored)
    return stored


# Drafters of other programs: words in what config.json calls them, a field that only they have, and how the name of a
# tensor begins.
_OTHERS = (
    ("a DFlash draft", ("dflash",), "dflash_config", ()),
    ("a DSpark draft", ("dspark",), "dspark_config", ()),
    ("a Domino draft", ("domino",), "domino_config", ()),
    ("a LiLiCorr draft", ("lilicorr",), "lilicorr_config", ()),
    ("Hydra heads", ("hydraheads",), "hydra_num_heads", ("hydra_head.", "hydra_heads.")),
    ("an MLP speculator", ("mlp_speculator", "mlpspeculator"), "", ("speculator.",)),
    ("a layer for multi-token prediction (MTP)", ("mtp", "nextn"), "", ()),
    ("a ReDrafter", ("redrafter", "recurrent_drafter"), "", ()),
)


def other_drafter(config: Mapping, tensors: Collection[str]) -> str:
    """Returns what a folder holds whose drafter nothing here runs, and what to do; "" for any other folder.
    ``tensors``: the names in its weights."""
    kinds = [config.get("speculators_model_type"), config.get("model_type"), *_as_list(config.get("architectures"))]
    called = [kind.lower() for kind in kinds if isinstance(kind, str)]
    for noun, words, field, beginnings in _OTHERS:
        is_called = field in config or any(word in kind for word in words for kind in called)
        if is_called or any(name.startswith(beginnings) for name in tensors):
            return (
                f"{noun}, which no method here drafts with; name an EAGLE head, a block head (P-EAGLE), Medusa heads "
                "or a draft model instead"
            )
    if any(t.startswith("medusa_head.") for t in tensors) and any(".self_attn." in t for t in tensors):
        return (
            "a whole model with Medusa heads inside it; to draft with them, save the tensors medusa_head.* in a folder "
            "of their own"
        )
    return ""


def _as_list(value: object) -> list:
    return value if isinstance(value, list) else [value]


def head_kind(method: str) -> HeadKind:
    """Raises BadInput for a method without heads."""
    if method not in HEAD_KINDS:
        raise BadInput(f"{method[:40]!r} is not a method with a head; choose from {', '.join(HEAD_KINDS)}.")
    return HEAD_KINDS[method]

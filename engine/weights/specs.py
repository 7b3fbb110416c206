"""Describes models and pairs as data: sizes, sources, methods, and the memory they need."""

import dataclasses
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

from pydantic import ConfigDict, PositiveInt
from pydantic.dataclasses import dataclass

from engine.config import AUTO, METHODS, PRECISIONS, constraint_methods, draft_of
from engine.errors import BadInput, matching
from engine.files import cache_root

# Bytes of a weight, an activation, a key or a value. In int8 and int4 only weights are smaller; theirs follow.
NUMBER_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "float32": 4, "bfloat16": 2, "float16": 2, "int8": 4, "int4": 4}
# Bytes of a rounded weight: its bits, and two fp32 numbers for 32 of them.
_ROUNDED_BYTES = {"int8": 1 + 8 / 32, "int4": 0.5 + 8 / 32}
# The precisions that a kind of device offers, in the order of the menu; `usual_precision` chooses among them.
DEVICE_PRECISIONS = {"cuda": ("bf16", "fp16", "fp32"), "mps": ("fp32", "fp16"), "cpu": ("fp32", "int8", "int4")}
CONTEXT = 4096  # tokens that a memory estimate assumes by default
_WORKING_ROOM = 128 * 2**20  # bytes for activations, logits and scratch buffers beside weights and KV
STRICT = ConfigDict(extra="forbid", strict=True)


Text = Annotated[str, matching(r"\S.*", "a text")]


@dataclass(frozen=True, config=STRICT)
class GgufSource:
    """One GGUF file of the model's hub repository; a ``package`` on PyPI may hold the same file."""

    file: str
    size: PositiveInt
    sha256: Annotated[str, matching("[0-9a-f]{64}", "64 hex digits")]
    package: str | None = None
    version: str | None = None

    @property
    def module(self) -> str:
        """The folder that the package installs."""
        assert self.package is not None
        return self.package.replace("-", "_")


@dataclass(frozen=True, config=STRICT)
class ModelSpec:
    """``parameters``: as many as memory holds (a tied head once). ``folder``: a checkpoint of the user's own, or one
    shipped here. ``head``: the method of heads on a target's states, usable with their own target only. ``alpha``:
    share of a draft's first tokens that its target accepted when it was measured."""

    name: str
    licence: Text
    parameters: PositiveInt
    hidden_size: PositiveInt
    layers: PositiveInt
    kv_heads: PositiveInt
    head_dim: PositiveInt
    vocab_size: PositiveInt
    context: PositiveInt
    repo: Annotated[str, matching(r"[^/]+/[^/]+", "OWNER/NAME")] | None = None
    revision: Annotated[str, matching("main|[0-9a-f]{40}", '40 hex digits, or "main" if not pinned')] | None = None
    gated: bool = False
    gguf: GgufSource | None = None
    folder: Path | None = None
    head: str = ""
    alpha: float | None = None

    @property
    def hub_repo(self) -> str:
        """The repository of a model that the hub has."""
        assert self.repo is not None
        return self.repo

    @property
    def gguf_source(self) -> GgufSource:
        """The file of a model that is stored in one."""
        assert self.gguf is not None
        return self.gguf

    def weight_bytes(self, dtype: str) -> int:
        if dtype not in _ROUNDED_BYTES:
            return self.parameters * byte_width(dtype)
        vocabulary = self.vocab_size * self.hidden_size  # in 8 bits: once for the embedding, once for the output layer
        layers = (self.parameters - vocabulary) * _ROUNDED_BYTES[dtype]
        return int(layers + 2 * vocabulary * _ROUNDED_BYTES["int8"])

    def kv_bytes(self, dtype: str, context: int) -> int:
        """Returns the bytes of keys and values for ``context`` tokens, at most as many as the model attends to."""
        return 2 * self.layers * self.kv_heads * self.head_dim * min(context, self.context) * byte_width(dtype)

    def memory(self, dtype: str, context: int = CONTEXT) -> int:
        return self.weight_bytes(dtype) + self.kv_bytes(dtype, context)


@dataclasses.dataclass(frozen=True)
class PairSpec:
    """A target, for each method that needs one the draft model it uses, and texts to draft from. ``run_by_us``: False
    for a pair of the catalogue that was written from its model cards alone."""

    name: str
    title: str
    target: ModelSpec
    drafts: Mapping[str, ModelSpec] = dataclasses.field(default_factory=lambda: MappingProxyType({}))
    shipped_corpus: Path | None = None
    run_by_us: bool = True

    @property
    def corpus(self) -> Path | None:
        """The texts that method corpus drafts from: the user's own for this pair before those shipped with it."""
        own = own_corpus(self.name)
        return own if own.is_file() else self.shipped_corpus

    def models(self, method: str | None = None) -> tuple[ModelSpec, ...]:
        """Returns the models that a method loads: the target, and its draft if it has one. AUTO loads every draft,
        because it compares all methods."""
        if method == AUTO:
            return (self.target, *self.drafts.values())
        draft = self.draft(method)
        return (self.target,) if draft is None else (self.target, draft)

    def draft(self, method: str | None) -> ModelSpec | None:
        """Returns the model that drafts for a method; None where it takes none, or the pair has none for it."""
        return self.drafts.get(draft_of(method or ""))

    def memory(self, dtype: str, method: str | None = None, context: int = CONTEXT) -> int:
        copy = self.target.weight_bytes("int4") if method in METHODS and METHODS[method].reads == "copy" else 0
        return sum(model.memory(dtype, context) for model in self.models(method)) + copy + _WORKING_ROOM


def methods(pair: PairSpec) -> tuple[str, ...]:
    """Returns the methods that a pair offers: all that need no draft, and the methods of its drafts."""
    absent = {*constraint_methods(), *(["corpus"] if pair.corpus is None else [])}
    drafted = (name for name, method in METHODS.items() if method.needs_weights and pair.draft(name))
    return (*(name for name, method in METHODS.items() if not method.needs_weights and name not in absent), *drafted)


def own_corpus(pair: str) -> Path:
    """Says where `python -m engine corpus` keeps a pair's own corpus. A pair may be named by folders."""
    name = re.sub(r"[^a-z0-9.-]+", "-", pair.lower()).strip("-")[-60:]
    return cache_root() / "corpora" / f"{name}-{hashlib.sha256(pair.encode()).hexdigest()[:8]}.npz"


def byte_width(dtype: str) -> int:
    """Raises BadInput for an unknown precision."""
    if dtype not in NUMBER_BYTES:
        raise BadInput(f"Unknown precision {dtype!r}; choose from {', '.join(PRECISIONS[1:])}.")
    return NUMBER_BYTES[dtype]

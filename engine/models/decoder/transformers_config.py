"""Loads a folder's config.json and tokenizer as transformers does, with fewer imports.

An architecture's own configuration class imports torch.distributed, torch._dynamo and sympy (transformers 5.23), which
takes 1.3 of the 4.5 s of a load on two cores. Its only use is to fill in missing fields, so a file that has all fields
that our decoder reads is loaded without it. The files that we write are such files.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, PositiveInt, ValidationError
from transformers import AutoConfig, AutoTokenizer, PreTrainedConfig, PreTrainedTokenizerFast

from engine.errors import Unavailable
from engine.models.decoder.transformers_runner import first_line
from engine.weights.byte_order_marks import hide_byte_order_marks
from engine.weights.eight_bits import is_read_here


class _Rope(BaseModel, strict=True, extra="forbid"):
    rope_type: Literal["default"]
    rope_theta: float


def _check(quantization: dict) -> dict:
    if not is_read_here(quantization):
        raise ValueError("transformers has to read this one")
    return quantization


class _CompleteConfig(BaseModel, strict=True, extra="forbid"):
    """Every field that `engine/models/decoder/config.py` uses, none of them left to a default, and those without effect
    that the files written here have."""

    model_type: Literal["llama"]
    hidden_act: str
    head_dim: PositiveInt
    hidden_size: PositiveInt
    intermediate_size: PositiveInt
    max_position_embeddings: PositiveInt
    num_attention_heads: PositiveInt
    num_hidden_layers: PositiveInt
    num_key_value_heads: PositiveInt
    vocab_size: PositiveInt
    rms_norm_eps: float
    rope_parameters: _Rope
    tie_word_embeddings: bool
    eos_token_id: int
    attention_bias: bool = False
    mlp_bias: bool = False
    quantization_config: Annotated[dict, AfterValidator(_check)] | None = None
    architectures: Any = None
    attention_dropout: Any = None
    bos_token_id: Any = None
    dtype: Any = None
    initializer_range: Any = None
    pad_token_id: Any = None
    pretraining_tp: Any = None
    transformers_version: Any = None
    use_cache: Any = None


class _PlainTokenizer(BaseModel):
    """A tokenizer that needs nothing beside its tokenizer.json."""

    tokenizer_class: Literal["TokenizersBackend"]


def load_config(folder: Path) -> PreTrainedConfig:
    """Raises Unavailable unless transformers understands the folder's config."""
    complete = _read(_CompleteConfig, folder / "config.json")
    try:
        if complete:
            return PreTrainedConfig(**complete.model_dump(exclude_unset=True))
        with hide_byte_order_marks(folder) as clean:
            return AutoConfig.from_pretrained(clean, trust_remote_code=False, local_files_only=True)
    except Exception as error:  # each architecture checks its config in its own way
        raise Unavailable(f"{folder} is no complete model folder: {first_line(error)}") from error


def load_tokenizer(folder: Path):
    """Raises Unavailable for a damaged tokenizer."""
    # AutoTokenizer would choose the same class, but would import the architecture's configuration first.
    is_plain = _read(_PlainTokenizer, folder / "tokenizer_config.json")
    kind = PreTrainedTokenizerFast if is_plain else AutoTokenizer
    try:
        with hide_byte_order_marks(folder) as clean:
            return kind.from_pretrained(clean, trust_remote_code=False, local_files_only=True)
    except Exception as error:  # the tokenizers library raises bare Exceptions
        if not (folder / "tokenizer.json").is_file():
            raise Unavailable(
                f"{folder} has no tokenizer.json, and transformers cannot make one of its other tokenizer files here; "
                "add the tokenizer.json of the model that it was made from."
            ) from error
        raise Unavailable(f"The tokenizer in {folder} cannot be read: {first_line(error)}") from error


def _read(kind: type[BaseModel], path: Path) -> BaseModel | None:
    """Returns the file as a ``kind``; None if it is not one, and transformers has to read it."""
    try:
        return kind.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None

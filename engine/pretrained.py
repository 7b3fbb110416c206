"""A folder's config.json and tokenizer, as transformers reads them, but importing no more than they ask for.

An architecture's own configuration class brings torch.distributed, torch._dynamo and sympy (transformers 5.23), 1.3 of
the 4.5 s that a load takes on two cores, and is there to fill in what a file leaves out. A file that leaves out nothing
that our decoder reads, as those that we write, does not need it.
"""

from pathlib import Path

from transformers import AutoConfig, AutoTokenizer, PreTrainedConfig, PreTrainedTokenizerFast

from engine.errors import Unavailable
from engine.folders import read_json
from engine.universal import first_line

_WHOLE = ("head_dim", "hidden_size", "intermediate_size", "max_position_embeddings", "num_attention_heads",
          "num_hidden_layers", "num_key_value_heads", "vocab_size")  # fmt: skip
_OTHERS = {"rms_norm_eps": float, "hidden_act": str, "tie_word_embeddings": bool, "eos_token_id": int}
_PLAIN_TOKENIZER = "TokenizersBackend"  # all of it is in tokenizer.json


def load_config(folder: Path) -> PreTrainedConfig:
    """Unavailable where there is none that transformers understands."""
    told = read_json(folder / "config.json")
    try:
        if _complete(told):
            return PreTrainedConfig(**told)
        return AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except Exception as error:  # each architecture checks its config in its own way
        raise Unavailable(f"{folder} is no complete model folder: {first_line(error)}") from error


def load_tokenizer(folder: Path):
    """Unavailable where it cannot be read."""
    # AutoTokenizer would choose the same class, after having read the architecture's configuration.
    plain = read_json(folder / "tokenizer_config.json").get("tokenizer_class") == _PLAIN_TOKENIZER
    kind = PreTrainedTokenizerFast if plain else AutoTokenizer
    try:
        return kind.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except Exception as error:  # the tokenizers library raises bare Exceptions
        raise Unavailable(f"The tokenizer in {folder} cannot be read: {first_line(error)}") from error


def _complete(told: dict) -> bool:
    """Whether nothing that `engine/decoder.py` reads is left to a default, and all of it is of the right kind."""
    rope = told.get("rope_parameters")
    return (
        told.get("model_type") == "llama"
        and isinstance(rope, dict)
        and rope.get("rope_type") == "default"
        and type(rope.get("rope_theta")) is float
        and all(type(told.get(name)) is int and told[name] > 0 for name in _WHOLE)
        and all(type(told.get(name)) is kind for name, kind in _OTHERS.items())
        and not told.get("quantization_config")
    )

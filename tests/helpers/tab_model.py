"""A tiny GGUF model with random weights whose tokenizer is of the kind that the browser's engine reads."""

from pathlib import Path

import gguf
from gguf_files import tiny_model, write_gguf
from tokenizers import pre_tokenizers

SPECIAL = ["<|end|>", "<|user|>", "<|answer|>"]
MERGES = ["Ġ t", "h e", "Ġt he", "i n", "e r", "Ġ a", "o n", "a n", "r e", "Ġa n"]
LACKING = "ēñ"  # the bytes 13 and F1, as in SmolLM2
TOKENS = [
    *SPECIAL,
    *(mark * 2 if mark in LACKING else mark for mark in sorted(pre_tokenizers.ByteLevel.alphabet())),
    *(merge.replace(" ", "") for merge in MERGES),
]
TEMPLATE = (
    "{% for m in messages %}<|user|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|answer|>{% endif %}"
)


def tab_model(folder: Path, kind: str = "Q4_1") -> Path:
    """Writes the file. ``kind``: how its matrices are stored."""
    model = tiny_model(folder / "model", vocab_size=len(TOKENS), max_position_embeddings=512)
    fields = {
        "token_list": TOKENS, "token_merges": MERGES, "chat_template": TEMPLATE,
        "token_types": [3] * len(SPECIAL) + [1] * (len(TOKENS) - len(SPECIAL)),
    }  # fmt: skip
    return write_gguf(folder / f"tab-{kind}.gguf", model, gguf.GGMLQuantizationType[kind], fields=fields)

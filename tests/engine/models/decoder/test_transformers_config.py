"""Reading a config.json and a tokenizer without the architecture's own class: the same values, fewer imports."""

import json
import shutil
from pathlib import Path

import pytest
from paths import ASSETS
from transformers import AutoConfig, AutoTokenizer, LlamaConfig

from engine.errors import Unavailable
from engine.models.decoder.attention import rope
from engine.models.decoder.config import context_length, unsupported_reason
from engine.models.decoder.transformers_config import load_config, load_tokenizer

DRAFT = ASSETS / "drafts" / "smollm2-135m-lm"
READ = ("model_type", "hidden_act", "head_dim", "hidden_size", "intermediate_size", "max_position_embeddings",
        "num_attention_heads", "num_hidden_layers", "num_key_value_heads", "vocab_size", "rms_norm_eps",
        "tie_word_embeddings", "eos_token_id")  # fmt: skip


def changed(folder: Path, file: str, **values) -> Path:
    """A copy of the draft with other values in one of its files; None takes a value out."""
    for source in DRAFT.glob("*.json"):
        shutil.copy(source, folder)
    told = json.loads((DRAFT / file).read_text()) | values
    (folder / file).write_text(json.dumps({name: value for name, value in told.items() if value is not None}))
    return folder


def test_a_complete_config_reads_as_transformers_reads_it():
    ours, theirs = load_config(DRAFT), AutoConfig.from_pretrained(DRAFT)
    assert not isinstance(ours, LlamaConfig)
    assert {name: getattr(ours, name) for name in READ} == {name: getattr(theirs, name) for name in READ}
    assert rope(ours) == rope(theirs)
    assert context_length(ours) == context_length(theirs)
    assert unsupported_reason(ours) is None


def read_by_transformers(folder: Path) -> bool:
    """Returns whether the architecture's own class has read it, or refused it."""
    try:
        theirs = type(AutoConfig.from_pretrained(folder))
    except Exception:
        with pytest.raises(Unavailable, match="no complete model folder"):
            load_config(folder)
        return True
    return type(load_config(folder)) is theirs


@pytest.mark.parametrize("values", [
    *({name: None} for name in (*READ[1:], "rope_parameters")),
    {"model_type": "mistral"},
    {"rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}},
    {"rope_parameters": {"rope_type": "default"}},
    {"quantization_config": {"quant_method": "awq", "bits": 4}},
    {"eos_token_id": [2, 3]},
    {"hidden_size": "192"},
    {"num_hidden_layers": -1},
], ids=lambda values: str(values)[:40])  # fmt: skip
def test_what_is_left_out_or_out_of_the_ordinary_is_left_to_transformers(values, tmp_path):
    assert read_by_transformers(changed(tmp_path, "config.json", **values))


@pytest.mark.parametrize("named", ["TokenizersBackend", "GPT2Tokenizer"])
def test_the_tokenizer_is_the_one_that_transformers_would_choose(named, tmp_path):
    folder = changed(tmp_path, "tokenizer_config.json", tokenizer_class=named)
    ours, theirs = load_tokenizer(folder), AutoTokenizer.from_pretrained(folder)
    assert type(ours) is type(theirs)
    text = "Why is the sky\n\n blue? \U0001f642 <|im_end|>"
    assert ours(text)["input_ids"] == theirs(text)["input_ids"]
    assert (ours.eos_token_id, ours.pad_token_id) == (theirs.eos_token_id, theirs.pad_token_id)
    assert ours.chat_template == theirs.chat_template != ""

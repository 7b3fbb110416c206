"""The description that the engine in a tab gets of a model, and the models that are refused."""

import math

import onnx
import pytest
from gguf_files import tiny_model, write_gguf
from tab_model import MERGES, SPECIAL, TOKENS, tab_model

from app.tab.model import describe
from engine.errors import BadInput
from engine.weights.gguf.own import prepared_folder


def test_graph_comes_without_weights_and_the_recipe_has_all_of_them(tmp_path):
    file = tab_model(tmp_path)
    graph, facts = describe(prepared_folder(file))
    sizes, weights = facts["graph"], onnx.load_from_string(graph).graph.initializer
    outside = [weight for weight in weights if weight.data_location == onnx.TensorProto.EXTERNAL]
    assert len(outside) == len(sizes["recipe"]) == 4 * sizes["layers"] + 2 * sizes["layers"] + 2
    assert sum(4 * math.prod(weight.dims) for weight in outside) == sizes["bytes"]
    assert len(graph) < 20_000 and {name for names in sizes["recipe"] for name in names} == set(sizes["tensors"])
    ends = [place["offset"] for place in sizes["tensors"].values()]
    assert max(ends) < file.stat().st_size and len(set(ends)) == len(ends)


def test_vocabulary_and_template_are_the_files(tmp_path):
    told = describe(prepared_folder(tab_model(tmp_path)))[1]["tokenizer"]
    assert (told["texts"], told["merges"]) == (TOKENS, MERGES)
    assert told["special"] == list(range(len(SPECIAL))) and told["eos"] == [0]
    assert told["template"] == {"before": "<|user|>", "after": "<|end|><|answer|>"}


TEMPLATES = {"{% for m in messages %}{{ m.content | upper }}{% endfor %}": "changes the prompt",
             "{{ raise_exception('no') }}": "refuses the conversation: no"}  # fmt: skip


def test_other_types_and_tokenizers_are_refused(tmp_path):
    with pytest.raises(BadInput, match="stored as Q5_0"):
        describe(prepared_folder(tab_model(tmp_path, "Q5_0")))
    other = write_gguf(tmp_path / "other.gguf", tiny_model(tmp_path / "model"), pre="qwen2")
    with pytest.raises(BadInput, match="SmolLM's kind of tokenizer"):
        describe(prepared_folder(other))
    for template, words in TEMPLATES.items():
        model = tiny_model(tmp_path / "model")
        file = write_gguf(tmp_path / f"{words}.gguf", model, fields={"chat_template": template})
        with pytest.raises(BadInput, match=words):
            describe(prepared_folder(file))

"""Pairs: the shipped catalogue, local folders, checks before loading, and the prompts."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from engine.errors import BadInput, Unavailable
from engine.weights import preflight
from engine.weights.catalogue import CATALOGUE, get_pair, load_catalogue
from engine.weights.preflight import check_pair
from engine.weights.specs import methods
from engine.weights.store import locate

ENOUGH = 10**12
SHIPPED = ("none", "ngram", "corpus", "quantised", "lookahead", "lm", "eagle", "eagle-chain", "block", "medusa", "exit")


@pytest.fixture(autouse=True)
def empty_hub(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)


def write_checkpoint(folder, config=None):
    folder.mkdir(parents=True)
    config = config or {
        "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "vocab_size": 12, "max_position_embeddings": 64,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text("{}")
    save_file({"a": np.zeros((3, 4), "f4"), "b": np.zeros(5, "f4")}, folder / "model.safetensors")
    return folder


def test_the_shipped_catalogue_lists_the_pairs_people_use():
    pairs = load_catalogue()
    shipped, other = pairs["smollm2-135m"], pairs["qwen3-8b"]
    assert methods(shipped) == SHIPPED and shipped.models("auto") == (shipped.target, *shipped.drafts.values())
    assert methods(other) == ("none", "ngram", "quantised", "lookahead", "lm", "eagle", "eagle-chain")
    assert pairs["llama-3.1-8b"].target.gated and not other.target.gated
    assert all(m.revision != "main" for p in pairs.values() for m in (p.target, *p.drafts.values()))
    assert [pair.name for pair in pairs.values() if pair.run_by_us] == ["smollm2-135m", "qwen2.5-coder-1.5b-gguf"]
    assert preflight.notes(get_pair("qwen3-32b")) == [preflight.UNTRIED]
    assert preflight.notes(get_pair("smollm2-135m")) == []


@pytest.mark.parametrize("name, inner, heads, tied", [("qwen3-1.7b", 6144, 16, True), ("qwen3-32b", 25_600, 64, False)])
def test_parameters_are_the_sum_of_a_models_tensors(name, inner, heads, tied):
    m = get_pair(name).target
    attention = m.hidden_size * m.head_dim * (2 * heads + 2 * m.kv_heads) + 2 * m.head_dim
    layer = attention + 3 * m.hidden_size * inner + 2 * m.hidden_size
    assert m.parameters == m.layers * layer + m.vocab_size * m.hidden_size * (1 if tied else 2) + m.hidden_size


def test_a_mistake_in_the_catalogue_is_named(tmp_path):
    text = CATALOGUE.read_text()
    for change, words in (
        (("layers = 36", 'layers = "36"'), r"\[models.qwen3-8b\] .* layers: Input should be a valid integer"),
        (("layers = 36", "layers = 36\nleyers = 36"), "leyers: there is no such field"),
        (('head = "eagle"\n', ""), "qwen3-8b-eagle3 cannot draft for the method 'eagle'; see its `head`"),
        (('"Qwen/Qwen3-8B"', '"Qwen3-8B"'), "repo: 'Qwen3-8B' must be OWNER/NAME"),
        (('revision = "b968826d9c46d', '# "'), "revision: it is missing"),
        (('"b968826d9c46', '"b968'), "revision: 'b968.*40 hex digits"),
        (('target = "qwen3-8b"', 'target = "qwen9"'), r"\[pairs.qwen3-8b\] .* uses 'qwen9', but there is"),
        (('drafts = { lm = "llama', 'drafts = { ngram = "llama'), "'ngram' takes no draft"),
        (("[pairs.qwen3-8b]", '[pairs."Qwen 3"]'), "small letters"),
        (("[models.qwen3-8b]", "[models.qwen3-8b"), "cannot be read"),
        (('sha256 = "b179', 'sha256 = "x179'), "gguf.sha256: .* must be 64 hex digits"),
        (('drafts = { lm = "llama', 'drafts = { magic = "llama'), "'magic' takes no draft model; those that do are lm"),
    ):
        assert change[0] in text
        (tmp_path / "models.toml").write_text(text.replace(*change))
        with pytest.raises(BadInput, match=words):
            load_catalogue(tmp_path / "models.toml")


def test_local_folders_make_a_pair(tmp_path):
    one, two = write_checkpoint(tmp_path / "a+b"), write_checkpoint(tmp_path / "c")
    alone, both = get_pair(str(one)), get_pair(f"{one}+{two}")
    assert methods(alone) == ("none", "ngram", "quantised", "lookahead")
    assert methods(both) == (*methods(alone), "lm")
    assert both.target.folder == one and both.drafts["lm"].folder == two
    assert (alone.target.parameters, alone.target.head_dim, alone.target.kv_heads) == (17, 2, 2)
    assert check_pair(both, "lm", available_bytes=ENOUGH) == []


def test_figures_of_other_architectures(tmp_path):
    gpt2 = {"n_embd": 8, "n_layer": 3, "n_head": 2, "vocab_size": 9, "n_positions": 32}
    spec = get_pair(str(write_checkpoint(tmp_path / "gpt2", gpt2))).target
    assert (spec.layers, spec.kv_heads, spec.head_dim, spec.context) == (3, 2, 4, 32)
    text = {"hidden_size": 8, "num_hidden_layers": 5, "num_attention_heads": 2, "num_key_value_heads": 1}
    text |= {"head_dim": 16, "vocab_size": 9, "max_position_embeddings": 32}
    spec = get_pair(str(write_checkpoint(tmp_path / "gemma", {"text_config": text}))).target
    assert (spec.layers, spec.kv_heads, spec.head_dim) == (5, 1, 16)
    mpt = {"d_model": 8, "n_layers": 3, "n_heads": 2, "vocab_size": 9, "max_seq_len": 32}
    spec = get_pair(str(write_checkpoint(tmp_path / "mpt", mpt))).target
    assert (spec.layers, spec.kv_heads, spec.head_dim, spec.context) == (3, 2, 4, 32)


def test_what_a_local_folder_lacks_is_named(tmp_path):
    """Missing and damaged files one by one: runtime/test_bad_requests.py."""

    def says(words, name):
        with pytest.raises(BadInput, match=words) as caught:
            get_pair(str(name))
        assert str(caught.value).endswith(".") and "\n" not in str(caught.value)

    says("There is no folder", f"{write_checkpoint(tmp_path / 'whole')}+{tmp_path / 'nowhere'}")
    says("is not written in UTF-8", write_checkpoint(tmp_path / "whole-\udcff"))
    says("gives no num_attention_heads", write_checkpoint(tmp_path / "vision", {"image_size": 3}))
    sharded = write_checkpoint(tmp_path / "sharded")
    (sharded / "model.safetensors.index.json").write_text('{"weight_map": {"a": "model-00001-of-00002.safetensors"}}')
    assert get_pair(str(sharded)), "an index is not read where model.safetensors is there"
    (sharded / "model.safetensors").unlink()
    says("lacks model-00001-of-00002.safetensors", sharded)
    (sharded / "model.safetensors.index.json").write_text("{}")
    says("index.json is damaged", sharded)


def test_a_pair_that_cannot_run_yet_is_one_sentence(monkeypatch):
    for pair, method, offline, problem in (
        ("smollm2-135m", None, "", "smollm2-135m-q4 are not here yet; run `python -m engine fetch smollm2-135m`."),
        ("smollm2-135m", None, "1", "smollm2-135m-q4 are not here yet; run `python -m engine fetch smollm2-135m`."),
        ("qwen3-4b", None, "1", "HF_HUB_OFFLINE is set; unset it and run `python -m engine fetch qwen3-4b`."),
        ("smollm2-135m-bf16", "lm", "", "has no method 'lm'; choose from none, ngram, quantised, lookahead."),
    ):
        monkeypatch.setenv("HF_HUB_OFFLINE", offline)
        (found,) = check_pair(get_pair(pair), method, available_bytes=ENOUGH)
        assert found.endswith(problem)


def test_gated_without_a_token(monkeypatch):
    for token in (None, "hf_x"):
        monkeypatch.setattr("huggingface_hub.get_token", lambda token=token: token)
        (problem,) = check_pair(get_pair("llama-3.1-8b"), available_bytes=ENOUGH)
        assert ("is gated: accept its licence (llama3.1)" in problem) == (token is None)


def test_too_little_memory_gives_the_figures(tmp_path):
    pair = get_pair(str(write_checkpoint(tmp_path / "tiny")))
    assert check_pair(pair, None, "cpu", "fp32", available_bytes=pair.memory("fp32")) == []
    (problem,) = check_pair(pair, None, "cpu", "fp32", available_bytes=pair.memory("fp32") - 1)
    assert "needs about 0.1 GB in fp32 for a context of 64 tokens, but cpu has 0.1 GB free" in problem
    assert problem.endswith("choose a smaller pair.")  # its layers are too narrow to be rounded
    problem = check_pair(get_pair("qwen3-8b"), "lm", "cuda:0", "fp32", available_bytes=20 * 10**9)[-1]
    assert problem.endswith("choose a smaller pair or bf16 or fp16.")
    problem = check_pair(get_pair("qwen3-8b"), "lm", "cuda", "bf16", available_bytes=8 * 10**9)[-1]
    assert "needs about 18.8 GB in bf16" in problem and problem.endswith("cuda has 8.0 GB free; choose a smaller pair.")


def test_shipped_drafts_say_their_sizes_and_a_missing_one_stops_no_other(tmp_path):
    drafts = get_pair("smollm2-135m").drafts
    assert {drafts[head].hidden_size for head in ("eagle", "block", "exit")} == {576}
    assert drafts["lm"].parameters == 11_060_928
    for method in ("medusa", "lm"):
        text = CATALOGUE.read_text(encoding="utf-8").replace(f"drafts/smollm2-135m-{method}", "drafts/gone")
        (tmp_path / f"{method}.toml").write_text(text, encoding="utf-8")
        pair = load_catalogue(tmp_path / f"{method}.toml")["smollm2-135m"]
        assert methods(pair) == SHIPPED
        with pytest.raises(Unavailable, match=r"There is no folder .*gone"):
            locate(pair.drafts[method])
    (tmp_path / "outside.toml").write_text(text.replace("drafts/gone", "../engine"), encoding="utf-8")
    with pytest.raises(BadInput, match=r"smollm2-135m-lm.*a folder in assets"):
        load_catalogue(tmp_path / "outside.toml")

"""A person's own model: looked up on the hub, said to run here or not, fetched whole or not at all."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from command_line import call
from gguf_files import tiny_model, write_gguf
from tiny_models import write

from engine.errors import BadInput, Unavailable
from engine.tools.own_models.report import report_on
from engine.weights import catalogue, hub, own_models
from engine.weights.catalogue import get_pair, load_catalogue
from engine.weights.checkpoint_dir import weights_hash
from engine.weights.own_models import family_problem, hub_name, look_up
from engine.weights.precision_choice import usual_precision
from engine.weights.store import fetch_pair, locate

NAME = "us/remote"
ENOUGH = 10**12


@pytest.fixture
def served(hub, tmp_path):
    """A hub with one whole model, and things beside it that are not fetched."""
    write(tmp_path / "made", "qwen3", intermediate_size=64)  # groups of 32, so that it can be rounded
    hub.files = {file.name: file.read_bytes() for file in (tmp_path / "made").iterdir()}
    hub.files |= {"tokenizer.json": b"{}", "pytorch_model.bin": b"pickle", "README.md": b"#"}
    return hub


def fits(pair, free=ENOUGH, per_byte=None):
    return report_on(pair, "cpu", per_byte or {}, free)


def test_a_pair_of_the_catalogue_runs_whether_its_files_are_here_or_not(own_cache, hub):
    for pair in load_catalogue().values():
        assert all("is gated" in problem for problem in fits(pair).problems), pair.name


def test_names_and_addresses_of_the_hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "us" / "mine").mkdir(parents=True)
    for text, name in (
        *((text, "Qwen/Qwen3-4B") for text in ("Qwen/Qwen3-4B", " https://huggingface.co/Qwen/Qwen3-4B/ ",
                                               "hf.co/Qwen/Qwen3-4B")),
        ("Qwen/Qwen3-4B-GGUF:Q4_K_M", "Qwen/Qwen3-4B-GGUF:Q4_K_M"),
        ("https://huggingface.co/a/b/blob/main/m.Q8_0.gguf", "a/b:m.Q8_0.gguf"),
        ("hf.co/a/b/resolve/main/q8/m.gguf?download=true", "a/b:q8/m.gguf"),
    ):  # fmt: skip
        assert hub_name(text) == name
    for text in ("qwen3-4b", "../Qwen/Qwen3-4B", "a/b/c", "/models/mine", "us/mine", "models/absent.gguf"):
        assert hub_name(text) is None, "us/mine is a folder that is there"


def test_model_is_looked_up_without_its_weights_then_known_offline(served):
    with pytest.raises(BadInput, match="has not been looked up here yet; run `python -m engine check us/remote`"):
        get_pair(NAME)
    model = look_up(NAME)
    assert (model.revision, model.licence, model.layers, model.kv_heads) == ("c" * 40, "mit", 2, 2)
    assert not any("model.safetensors" in path for path in served.asked)
    served.close()
    assert get_pair(NAME).target == model and locate(model) is None


def test_its_parameters_are_those_of_the_fetched_files(served):
    pair = get_pair(look_up(NAME).name)
    folder = fetch_pair(pair)["target"]
    counted = get_pair(str(folder)).target
    assert 0.98 < pair.target.parameters / counted.parameters < 1.05, "by size, headers included"


def test_the_drafts_that_the_catalogue_knows_come_with_it(served, monkeypatch):
    pairs = dict(load_catalogue())
    pairs["qwen3-8b"] = replace(pairs["qwen3-8b"], target=replace(pairs["qwen3-8b"].target, repo=NAME))
    look_up(NAME)
    monkeypatch.setattr("engine.weights.catalogue.load_catalogue", lambda: pairs)
    pair = get_pair(NAME)
    assert pair.drafts["lm"].name == "qwen3-0.6b"
    assert "known for it: lm by qwen3-0.6b" in dict(fits(pair).lines)["drafts"]


def test_what_it_needs_is_said_with_figures(served):
    pair = get_pair(look_up(NAME).name)
    result = fits(pair, per_byte={"int8": 1e-9})
    lines = dict(result.lines)
    assert lines["family"] == "qwen3, the engine’s own decoder" and result.problems == ()
    assert "to be fetched from us/remote at cccccccccc" in lines["size"]
    assert "for a context of 256 tokens; 1000.0 GB are free" in lines["memory"], "as many as its positions"
    assert f"{1e-6 * pair.target.weight_bytes('int8'):,.0f} ms in int8" in lines["a token"]
    assert lines["a token"].count(" ms") == 1 and "1000.0 GB are free" in lines["memory"]
    assert usual_precision(pair.target, "cpu") == "fp32" and lines["a token"].endswith(
        "takes fp32, which was not measured"
    )
    each = dict(fits(pair, per_byte={"fp32": 1e-9, "int8": 1e-9}).lines)["a token"]
    assert each.index("ms in fp32") < each.index("ms in int8") and "not measured" not in each
    large = replace(pair, target=replace(pair.target, parameters=10**9))
    each = dict(fits(large, per_byte={"fp32": 1e-9, "int8": 1e-9}).lines)["a token"]
    assert each.index("ms in int8") < each.index("ms in fp32"), "the one that a run takes by itself comes first"


def test_its_size_has_three_digits(served):
    pair = get_pair(look_up(NAME).name)
    for parameters, words in (
        (65_536, "0.0655 million"), (1_812_000, "1.81 million"), (134_515_008, "135 million"), (999_600_000, "1.00 b"),
        (1_777_000_000, "1.78 b"),
    ):  # fmt: skip
        sized = replace(pair, target=replace(pair.target, parameters=parameters))
        assert dict(fits(sized).lines)["size"].startswith(words)


def test_one_that_fits_in_fewer_bits_only_is_said_to(served):
    pair = get_pair(look_up(NAME).name)
    big = replace(pair, target=replace(pair.target, parameters=10**10, vocab_size=1000))
    assert fits(big, 15 * 10**9).precisions == ("int8", "int4")
    (problem,) = fits(big, 10**9).problems
    assert f"in int4 for a context of {big.target.context} tokens, but cpu has 1.0 GB free" in problem


@pytest.mark.parametrize(("absent", "more", "words"), [
    ("model.safetensors", [], "pytorch_model.bin, a pickle, which is never loaded"),
    ("model.safetensors pytorch_model.bin", ["onnx/model.safetensors"], "in a subfolder .onnx/model.safetensors."),
    ("tokenizer.json", [], "has no tokenizer, so it is a head or a part"),
    ("tokenizer.json", ["tokenizer.model"], "pip install sentencepiece"),
    ("config.json", ["model_index.json"], "a pipeline that makes pictures"),
    ("config.json", [], "has no config.json, so it is not a model that transformers wrote"),
])  # fmt: skip
def test_a_repository_that_cannot_be_loaded_is_refused(served, absent, more, words):
    served.files = {name: data for name, data in served.files.items() if name not in absent.split()}
    served.files |= dict.fromkeys(more, b"{}")
    with pytest.raises(BadInput, match=words) as caught:
        look_up(NAME)
    assert str(caught.value).startswith(NAME)


def test_a_family_that_cannot_run_is_refused():
    assert family_problem(NAME, {"model_type": "gemma3_text"}) is None
    for config, words in (
        ({}, "does not say its family"),
        ({"model_type": "nothing_like_it"}, "the transformers installed here does not know"),
        ({"model_type": "mamba", "state_size": 16}, "a state that cannot be rolled back"),
        ({"model_type": "qwen3_next", "layer_types": ["linear_attention"]}, "a state that cannot be rolled back"),
        ({"model_type": "llama", "quantization_config": {"quant_method": "awq"}}, "weights rounded by AWQ"),
    ):
        assert words in family_problem(NAME, config)


def test_the_hubs_refusals_and_a_damaged_config_are_one_sentence(served):
    for served.refusal, words in (
        ((404, "RepoNotFound"), "has no public repository us/remote"),
        ((403, "GatedRepo"), "us/remote is gated: accept its licence .* on its hub page"),
    ):
        with pytest.raises(Unavailable, match=words) as caught:
            look_up(NAME)
        assert "\n" not in str(caught.value) and own_models.own_model(NAME) is None
    served.refusal, served.files["config.json"] = None, b"["
    with pytest.raises((BadInput, Unavailable), match=r"config\.json"):
        look_up(NAME)


def test_weights_that_arrived_in_part_are_never_loaded(served, monkeypatch):
    at_once = SimpleNamespace(sleep=lambda seconds: None)  # the client waits a second before each new attempt
    monkeypatch.setattr("huggingface_hub.file_download.time", at_once)
    pair = get_pair(look_up(NAME).name)
    served.cut = "model.safetensors"
    with pytest.raises(Unavailable, match="us/remote"):
        fetch_pair(pair)
    assert locate(pair.target) is None, "not loaded"
    served.cut = None
    assert fetch_pair(pair)["target"] == locate(pair.target), "said again, it goes on"


def test_the_command_says_how_to_go_on(served):
    result = call("check", f"https://huggingface.co/{NAME}")
    assert result.exit_code == 0 and "family" in result.output
    assert f'It runs here: python -m engine run "Hello" --pair {NAME}' in result.output + result.stderr


def test_the_command_refuses_with_the_reason(served):
    config = json.loads(served.files["config.json"])
    served.files["config.json"] = json.dumps(config | {"quantization_config": {"bits": 4}}).encode()
    result = call("check", NAME)
    assert result.exit_code == 2 and "holds weights rounded by a method" in result.output + result.stderr


@pytest.fixture
def with_gguf(hub, tmp_path):
    """A hub with two GGUF files, and one that is not a language model."""
    whole = write_gguf(tmp_path / "m.gguf", tiny_model(tmp_path / "made", "qwen3-tied"), arch="qwen3").read_bytes()
    hub.files = {"m-Q4_K_M.gguf": whole, "m-Q8_0.gguf": whole, "mmproj-f16.gguf": b"GGUF", "README.md": b"#"}
    return hub


def test_a_gguf_file_of_the_hub_is_looked_up_by_its_header_then_fetched(with_gguf):
    """The file is named in full, or by its type as for llama.cpp."""
    with pytest.raises(BadInput, match=r"Name one GGUF file of us/remote as us/remote:FILE; it has m-Q4_K_M\.gguf"):
        look_up(NAME)
    with pytest.raises(BadInput, match="Name one GGUF file"):
        look_up(f"{NAME}:Q5_K_M")
    for name in (f"{NAME}:m-Q8_0.gguf", f"{NAME}:q8_0"):
        model = look_up(name)
        assert (model.name, model.layers, model.gguf.file) == ("m-Q8_0", 2, "m-Q8_0.gguf") and not model.head
        assert not fits(get_pair(name)).problems and locate(model) is None
    folder = fetch_pair(get_pair(f"{NAME}:q8_0"))["target"]
    assert locate(model) == folder and weights_hash(folder) == model.gguf.sha256
    with_gguf.close()
    assert get_pair(f"{NAME}:q8_0").target == model


def test_a_gguf_file_of_another_family_is_refused_before_it_is_fetched(with_gguf, tmp_path):
    model = tiny_model(tmp_path / "other", "llama")
    with_gguf.files = {"o.gguf": write_gguf(tmp_path / "o.gguf", model, name="gemma").read_bytes()}
    with pytest.raises(BadInput, match=r"o\.gguf of us/remote cannot be run here: its architecture is gemma"):
        look_up(NAME)


def test_only_as_much_of_a_hub_file_is_fetched_as_its_header_takes(with_gguf, monkeypatch):
    whole = with_gguf.files["m-Q8_0.gguf"]
    monkeypatch.setattr(hub, "_STARTS", (256, 1024, 1 << 16))
    assert look_up(f"{NAME}:q8_0").layers == 2
    ranges = [each for each in with_gguf.ranges if each]
    assert ranges[:3] == ["bytes=0-255", "bytes=256-1023", "bytes=1024-65535"], "what is there is not fetched again"
    with_gguf.ranges.clear()
    with_gguf.files["m-Q8_0.gguf"] = whole[:4] + b"\1\0\0\0" + whole[8:]
    with pytest.raises(Unavailable, match="its GGUF version is 1"):
        look_up(f"{NAME}:q8_0")
    assert [each for each in with_gguf.ranges if each] == ["bytes=0-255"], "no longer start would help"


def test_a_gguf_file_of_the_catalogue_has_its_drafts_on_the_hub_too(monkeypatch):
    target = load_catalogue()["qwen2.5-coder-1.5b-gguf"].target
    monkeypatch.setattr(catalogue, "own_model", lambda name: target)
    assert get_pair(f"{target.repo}:q4_k_m").draft("lm").name == "qwen2.5-coder-0.5b-q4"


@pytest.mark.parametrize(("kind", "settings", "usual"), [
    ("llama", {}, "int8"), ("llama", {"hidden_act": "gelu"}, "fp32"), ("llama", {"intermediate_size": 50}, "fp32"),
    ("llama", {"rope_scaling": {"type": "dynamic", "factor": 2.0}, "rope_parameters": None}, "fp32"),
    ("llama", {"quantization_config": {"quant_method": "gptq", "bits": 4}}, "fp32"), ("gpt2", {}, "fp32"),
])  # fmt: skip
def test_auto_takes_int8_only_for_large_models_that_can_be_rounded(tmp_path, kind, settings, usual):
    write(tmp_path, kind, **({"intermediate_size": 64} if kind == "llama" else {}))
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))
    spec = replace(load_catalogue()["qwen3-8b"].target, folder=tmp_path, repo=None, revision=None, hidden_size=64)
    assert usual_precision(spec, "cpu") == usual and usual_precision(spec, "cuda") == "bf16"
    assert usual_precision(replace(spec, parameters=10**6), "cpu") == "fp32"

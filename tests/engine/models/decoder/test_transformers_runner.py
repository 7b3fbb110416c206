"""Any transformers model whose cache can be cropped: same logits, exact rollback, same text as generate; no others."""

import json

import pytest
import torch
from closeness import is_close
from head_cases import changed
from tiny_models import LONGROPE, YARN, logits_of
from tiny_pairs import generated, ids_of, model_folder, run
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig

from engine.errors import BadInput, Unavailable
from engine.models.decoder.transformers_runner import TransformersRunner
from engine.models.loader import load_model
from engine.runtime.engine import load_engine

IDS = [(7 * i + 3) % 250 for i in range(40)]  # longer than the sliding windows of gemma2 and gemma3


@pytest.fixture
def models(pairs):
    """Folder and transformers model of an architecture."""
    return lambda name: (pairs.root / name, pairs.models[name])


@pytest.mark.parametrize("name", ["gpt2", "gemma", "gemma2", "gemma3"])
def test_logits_equal_transformers_after_exact_rollbacks(models, name):
    """Wrong drafts are fed and taken back, past the window too; what follows scores as if they had never been."""
    folder, model = models(name)
    runner, truth = TransformersRunner(folder, torch.float32, "cpu"), logits_of(model, IDS)
    runner.reset(64)
    for at in range(0, 36, 3):
        runner.forward(torch.tensor([99, 98, 97, 96]))
        runner.keep(at, [])
        assert is_close(runner.forward(torch.tensor([*IDS[at : at + 3], 5, 6]))[:3], truth[at : at + 3])
        runner.keep(at, [0, 1, 2])
        assert runner.length == at + 3
    runner.reset(64)
    runner.prefill(IDS[:20])
    assert runner.length == 20 and is_close(runner.forward(torch.tensor(IDS[20:21])), truth[20:21])
    last = runner.forward(torch.tensor(IDS[21:]), last=True)
    assert last.shape == (1, runner.vocab_size) and is_close(last, truth[-1:])


@pytest.mark.parametrize("name", ["gpt2", pytest.param("gemma3", marks=pytest.mark.slow)])
def test_greedy_output_equals_generate(models, own_cache, tmp_path, name):
    folder, model = models(name)
    model_folder(tmp_path / "draft", name, noise=0.05)
    engine, expected = load_engine(f"{folder}+{tmp_path / 'draft'}", "cpu"), None
    assert isinstance(engine.target.runner, TransformersRunner)
    for method in ("none", "ngram", "lm"):
        found = run(engine, method, max_new_tokens=32)
        prompt, written = ids_of(found)
        expected = expected or generated(model, prompt, 32)
        assert written == expected, method
    assert {token.status for each in found.rounds for token in each.tokens} >= {"accepted", "rejected"}
    engine.close()


@pytest.mark.parametrize("name", ["phi3-window", pytest.param("gemma2", marks=pytest.mark.slow)])
def test_a_window_shorter_than_the_text_changes_no_text(models, own_cache, name):
    folder, model = models(name)
    engine = load_engine(str(folder), "cpu")
    for method in ("none", "ngram"):
        prompt, written = ids_of(run(engine, method, max_new_tokens=24, prompt="abcabcabcabcabcabcabc"))
        assert written == generated(model, prompt, 24), method


SWITCH = 32  # the original context of LONGROPE


def test_a_row_past_the_original_context_is_that_of_the_whole_text(models):
    """Longrope turns all positions in another way there. Widths and rollbacks that cross it make no difference."""
    folder, model = models("phi3")
    runner = TransformersRunner(folder, torch.float32, "cpu")
    truth = torch.stack([logits_of(model, IDS[: n + 1])[-1] for n in range(len(IDS))])
    assert not is_close(logits_of(model, IDS)[SWITCH - 1], truth[SWITCH - 1]), "the models must differ"
    runner.reset(64)
    runner.prefill(IDS[:24])
    for base, width in (
        (24, 6), (28, 4), (28, 8), (30, 2), (31, 5), (32, 3), (31, 1), (32, 1), (33, 6), (26, 9), (36, 4),
    ):  # fmt: skip
        if base > runner.length:
            runner.prefill(IDS[runner.length : base])
        runner.rollback(base)
        rows = runner.forward(torch.tensor(IDS[base : base + width]))
        assert is_close(rows, truth[base : base + width]), (base, width)
        assert runner.length == base + width
    runner.reset(64)
    assert is_close(runner.forward(torch.tensor(IDS), last=True), truth[-1:])


@pytest.mark.parametrize(
    "length", [SWITCH, *(pytest.param(n, marks=pytest.mark.slow) for n in (8, SWITCH - 1, SWITCH + 1))]
)
def test_text_that_crosses_the_original_context_equals_generate(models, own_cache, tmp_path, length):
    folder, model = models("phi3")
    model_folder(tmp_path / "draft", "phi3", noise=0.05)
    engine = load_engine(f"{folder}+{tmp_path / 'draft'}", "cpu")
    for method in ("none", "ngram", "lm"):
        prompt, written = ids_of(run(engine, method, max_new_tokens=36, prompt=("abc" * 20)[:length]))
        assert len(prompt) == length and written == generated(model, prompt, 36), method


def test_a_text_ends_where_generate_would_mix_two_rotations(models, tmp_path):
    """Llama's class keeps the keys that were turned the other way, so its context ends at the original length."""
    model_folder(tmp_path, rope_parameters=LONGROPE)
    runner = TransformersRunner(tmp_path, torch.float32, "cpu")
    assert runner.max_length == SWITCH


def test_a_change_with_the_length_is_found_by_trying(models, tmp_path, monkeypatch):
    """No name of a rotary embedding tells it."""
    model_folder(tmp_path, rope_parameters=YARN)
    runner = TransformersRunner(tmp_path, torch.float32, "cpu")
    assert runner.max_length == 256, "yarn is the same at every length"
    forward = type(runner.model).forward

    def later_differs(self, ids, *args, position_ids=None, **more):
        output = forward(self, ids, *args, position_ids=position_ids, **more)
        if position_ids is not None and position_ids.max() >= YARN["original_max_position_embeddings"]:
            output.logits *= 1.1
        return output

    monkeypatch.setattr(type(runner.model), "forward", later_differs)
    assert TransformersRunner(tmp_path, torch.float32, "cpu").max_length == YARN["original_max_position_embeddings"]


def test_a_tensor_that_transformers_leaves_out_is_named(models, tmp_path):
    folder = models("gemma")[0]
    extra = {"model.layers.0.self_attn.q_norm.weight": torch.ones(8)}
    with pytest.raises(Unavailable, match=r"layers\.0\.self_attn\.q_norm\.weight"):
        load_model(changed(folder, tmp_path / "copy", {}, extra), "cpu", "fp32")
    harmless = {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4), "vision_tower.w.weight": torch.ones(4)}
    load_model(changed(folder, tmp_path / "seen", {}, harmless), "cpu", "fp32")


def test_weights_that_are_not_finite_are_called_that(models, tmp_path):
    broken = {"model.norm.weight": torch.full((64,), torch.nan)}
    with pytest.raises(Unavailable, match="not finite"):
        load_model(changed(models("gemma")[0], tmp_path / "copy", {}, broken), "cpu", "fp32")


def forget(self, tokens_to_remove):
    """Crops a cache to the right length, but what it holds scores otherwise."""
    self.keys = 0.5 * self.keys[..., :tokens_to_remove, :]
    self.values = self.values[..., :tokens_to_remove, :]


@pytest.mark.parametrize("wrong", [forget, torch.nan, torch.inf])
def test_a_cache_that_does_not_crop_is_noticed_by_trying(models, monkeypatch, wrong):
    """A name does not tell it. Logits of NaN or infinity do not pass the trial, either."""
    if wrong is forget:
        monkeypatch.setattr("transformers.cache_utils.DynamicLayer.crop", forget)
    else:
        forward = TransformersRunner.forward
        monkeypatch.setattr(TransformersRunner, "forward", lambda *args, **more: wrong * forward(*args, **more))
    with pytest.raises(Unavailable, match="cannot be rolled back"):
        TransformersRunner(models("gpt2")[0], torch.float32, "cpu")


def test_encoder_decoders_and_unknown_kinds_are_refused_in_words(tmp_path, models):
    model_folder(tmp_path / "odd", "gpt2")
    for kind in ("t5", "made-up"):
        (tmp_path / "odd" / "config.json").write_text(json.dumps({"model_type": kind, "vocab_size": 264}))
        with pytest.raises(Unavailable) as caught:
            load_model(tmp_path / "odd", "cpu", "fp32")
        assert "\n" not in str(caught.value) and str(tmp_path / "odd") in str(caught.value)


def test_code_that_comes_with_a_checkpoint_is_never_run(models, tmp_path):
    own = {"model_type": "mine", "auto_map": {"AutoConfig": "mine.Config", "AutoModelForCausalLM": "mine.Model"}}
    folder = changed(models("gpt2")[0], tmp_path / "copy", own, {})
    (folder / "mine.py").write_text(f"open({str(tmp_path / 'it ran')!r}, 'w')")
    with pytest.raises(Unavailable, match="contains custom code"):
        load_model(folder, "cpu", "fp32")
    assert not (tmp_path / "it ran").exists()


def test_a_tensor_that_is_missing_is_not_filled_with_noise(models, tmp_path):
    name = "model.layers.1.mlp.up_proj.weight"
    with pytest.raises(Unavailable, match=f"no tensor '{name}'"):
        load_model(changed(models("gemma")[0], tmp_path / "copy", {}, {name: None}), "cpu", "fp32")


def test_a_quantised_checkpoint_runs_where_its_package_is_installed(own_cache, tmp_path):
    """The checkpoint has 4 bits by bitsandbytes, which runs on CPUs, too."""
    pytest.importorskip("bitsandbytes")
    pytest.importorskip("accelerate")
    model_folder(tmp_path / "plain", hidden_size=64, intermediate_size=96, vocab_size=272)
    four_bits = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.float32)
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "plain", quantization_config=four_bits, device_map="cpu")
    for part in (model, AutoTokenizer.from_pretrained(tmp_path / "plain")):
        part.save_pretrained(tmp_path / "quantised")
    engine = load_engine(str(tmp_path / "quantised"), "cpu")
    prompt, ids = ids_of(run(engine, "ngram", max_new_tokens=12))
    assert ids == generated(model, prompt, 12) and isinstance(engine.target.runner, TransformersRunner)


def test_a_quantised_checkpoint_names_what_it_lacks(monkeypatch, tmp_path):
    model_folder(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "bitsandbytes", "load_in_4bit": True}
    (tmp_path / "config.json").write_text(json.dumps(config))
    monkeypatch.setattr("engine.weights.folder_kinds.find_spec", lambda name: None)
    with pytest.raises(Unavailable, match="pip install bitsandbytes accelerate"):
        load_model(tmp_path, "cpu", "fp32")


def test_the_context_is_the_models_own_and_a_tree_is_a_bug(models):
    runner = TransformersRunner(models("gpt2")[0], torch.float32, "cpu")
    assert runner.max_length == 256 and not runner.trees
    with pytest.raises(BadInput, match="need 257 tokens, but this model's context is 256"):
        runner.reset(257)
    with pytest.raises(AssertionError, match="chains only"):
        runner.forward(torch.tensor([1, 2]), parents=[0])

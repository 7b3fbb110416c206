"""What `check` and `pairs` call ready was tried, to the shape of a tensor; a run says which draft it goes without."""

import shutil

import command_line
import pytest
import torch
from gguf_files import WORDS, write_gguf
from head_cases import KINDS, changed
from safetensors.torch import load_file
from tiny_models import OTHERS, write
from tiny_pairs import engine_of, request, run

from engine.config import AUTO
from engine.errors import Unavailable
from engine.models.decoder.llama import LlamaModel
from engine.runtime.engine import load_engine
from engine.tools.own_models.trial import faults
from engine.trace.costs import CostModel
from engine.trace.trace import fold, from_json, to_json
from engine.weights.catalogue import get_pair

RECURRENT = ("mamba", "recurrent_gemma")  # refused for their state
NAME = "model.layers.1.mlp.down_proj.weight"


@pytest.fixture
def named(pairs, tmp_path, monkeypatch):
    """A pair whose draft lacks a tensor."""
    monkeypatch.setenv("SPECLENS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "400")
    return f"{pairs.root / 'target'}+{changed(pairs.root / 'draft', tmp_path / 'lacking', {}, {NAME: None})}"


@pytest.mark.parametrize("name", ["target", "bare", "wider", *(name for name in OTHERS if name not in RECURRENT)])
def test_a_whole_model_has_no_faults(pairs, name):
    assert faults(get_pair(str(pairs.root / name))) == {}


@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_head_has_no_faults(heads, kind):
    assert faults(get_pair(heads.pair(kind))) == {}


@pytest.mark.parametrize("kind", KINDS)
def test_a_head_without_one_of_its_tensors_is_a_fault(heads, tmp_path, kind):
    target, head = heads.root / kind / "target", heads.root / kind / "head"
    stored = load_file(next(head.glob("*.safetensors")))
    last = max(name for name in stored if name.endswith(("proj.weight", "linear.weight", "down.weight", "up.weight")))
    copy = changed(head, tmp_path / "copy", {}, {last: None})
    (reason,) = faults(get_pair(f"{target}+{copy}")).values()
    assert str(copy) in reason


def test_a_head_for_a_target_that_gives_no_states_is_a_fault(pairs, heads):
    reasons = faults(get_pair(f"{pairs.root / 'gpt2'}+{heads.root / 'eagle' / 'head'}"))
    assert "only our own decoder gives" in reasons["eagle"]


@pytest.mark.parametrize(
    ("model", "name"), [("target", NAME), ("gemma", NAME), ("gpt2", "transformer.h.1.mlp.c_fc.bias")]
)
def test_a_tensor_that_is_missing_or_of_another_shape_is_a_fault(pairs, tmp_path, model, name):
    lacking = changed(pairs.root / model, tmp_path / "lacking", {}, {name: None})
    assert f"no tensor '{name}'" in faults(get_pair(str(lacking)))["target"]
    odd = changed(pairs.root / model, tmp_path / "odd", {}, {name: torch.zeros(3)})
    assert f"{name} in {odd} is (3,), but config.json says" in faults(get_pair(str(odd)))["target"]


def test_a_tokenizer_that_cannot_be_read_is_a_fault(pairs, tmp_path):
    shutil.copytree(pairs.root / "draft", tmp_path / "draft")
    (tmp_path / "draft" / "tokenizer.json").write_text("{}")
    reasons = faults(get_pair(f"{pairs.root / 'target'}+{tmp_path / 'draft'}"))
    assert "tokenizer" in reasons["lm"] and "target" not in reasons


def test_a_gguf_file_that_lacks_a_tensor_is_a_fault(own_cache, tmp_path):
    settings = {"vocab_size": len(WORDS), "max_position_embeddings": 128, "bos_token_id": 1, "eos_token_id": 0}
    model = write(tmp_path / "made", "llama-tied", **settings)
    assert faults(get_pair(str(write_gguf(tmp_path / "whole.gguf", model)))) == {}
    del model.model.layers[1].mlp.down_proj
    with pytest.raises(Unavailable, match=r"tensor 'blk\.1\.ffn_down\.weight' is missing"):  # as the file names it
        get_pair(str(write_gguf(tmp_path / "lacking.gguf", model)))


def test_what_only_values_can_decide_is_not_a_fault(pairs, heads, monkeypatch):
    monkeypatch.setattr(LlamaModel, "_load", lambda self, weights, progress: bool(torch.ones(1, device=self.device)))
    for name in (f"{pairs.root / 'target'}+{pairs.root / 'draft'}", heads.pair("eagle")):
        assert faults(get_pair(name)) == {}


def test_a_vocabulary_that_transformers_cannot_convert_is_a_fault(pairs, tmp_path):
    shutil.copytree(pairs.root / "draft", tmp_path / "draft")
    (tmp_path / "draft" / "tokenizer.json").rename(tmp_path / "draft" / "vocab.json")
    reason = faults(get_pair(str(tmp_path / "draft")))["target"]
    assert reason.startswith(f"{tmp_path / 'draft'} has no tokenizer.json") and "add the tokenizer.json of" in reason


def test_a_draft_without_a_common_token_is_a_fault(pairs):
    (reason,) = faults(get_pair(f"{pairs.root / 'target'}+{pairs.root / 'stranger'}")).values()
    assert "has no token in common" in reason


def call(*args):
    result = command_line.call(*args)
    return result.exit_code, " ".join((result.stdout + result.stderr).split())


def test_check_does_not_call_a_draft_ready_that_lacks_a_tensor(pairs, named):
    code, words = call("check", named)
    assert code == 1 and f"no tensor '{NAME}'" in words and "It runs here" not in words
    code, words = call("check", named.split("+")[0])
    assert code == 0 and "nothing wrong was found in the names and shapes" in words and "It runs here" in words


def test_check_recommends_raw_text_for_a_model_without_a_chat_template(pairs, named):
    code, words = call("check", pairs.root / "bare")
    assert code == 0 and words.endswith(f'python -m engine run "Hello" --pair {pairs.root / "bare"} --raw')
    assert "--raw" not in call("check", named.split("+")[0])[1]


def test_pairs_does_not_call_a_draft_ready_that_lacks_a_tensor(named):
    code, words = call("pairs", named)
    assert code == 0 and "cannot run" in words and f"no tensor '{NAME}'" in words and "ready" not in words
    assert "ready" in call("pairs", named.split("+")[0])[1]


@pytest.mark.slow
def test_run_says_on_stderr_which_draft_it_goes_without(named, monkeypatch):
    monkeypatch.setattr("engine.runtime.calibration.measure", lambda *args, **more: COSTS)
    asked = ["run", "the cat", "--raw", "--pair", named, "--max-new-tokens", "4"]
    done = command_line.call(*asked)
    assert done.exit_code == 0 and done.stderr.count("This run goes without the draft lacking: ") == 1
    code, words = call(*asked, "--method", "lm")
    assert code == 1 and f"no tensor '{NAME}'" in words


COSTS = CostModel(0.1, {1: 1.0, 8: 1.5}, 64, 0.001, draft_costs={"ngram": 0.0, "lm": 0.1, "quantised": 0.1})


def auto(engine, **settings):
    return fold(engine.run(request(engine.pair.name, AUTO, **settings), costs=COSTS))


def test_a_run_of_auto_says_why_it_goes_without_a_draft(pairs, named):
    engine = load_engine(named, "cpu")
    for _ in range(2):
        whole = auto(engine)
        (note,) = whole.notes
        assert note.startswith("This run goes without the draft lacking: ") and "down_proj" in note
    assert from_json(to_json(whole)).notes == whole.notes
    assert not run(engine, "none").notes and not run(engine, "ngram").notes, "they need none"


def test_a_run_of_auto_with_its_draft_has_no_note(pairs):
    assert not auto(engine_of(pairs, draft="draft")).notes


def test_a_run_of_auto_says_that_it_outgrows_its_draft(pairs):
    engine = engine_of(pairs, draft="short")  # 48 tokens
    assert not auto(engine, max_new_tokens=8).notes
    (note,) = auto(engine, max_new_tokens=40).notes
    assert "without the draft short: it attends to 48 tokens, but prompt and answer may take" in note


def test_a_run_of_auto_names_the_method_of_a_head_that_it_never_chooses(heads):
    engine = load_engine(heads.pair("medusa"), "cpu")
    (note,) = auto(engine, max_new_tokens=4).notes
    assert "auto never chooses it; choose the method medusa" in note

"""An exported draft says what the trained student said, in files that other engines load too."""

import json
import shutil

import numpy as np
import pytest
import torch
from closeness import assert_close
from safetensors.torch import load_file, save_file
from tiny_models import RUNTIMES
from tiny_pairs import VOCABULARY, model_folder
from training_project import WORDS, files, random_head, refused, run, stage
from transformers import AutoModelForCausalLM

from engine.errors import BadInput
from engine.models.decoder.runner import DecoderRunner
from engine.models.heads.block import BIAS, MASK
from engine.models.heads.loader import load_head
from engine.models.loader import load_model
from engine.models.tensors.safetensors_reader import TensorReader
from engine.tools.training import export
from engine.tools.training.block_student import BlockStudent
from engine.tools.training.stored_bits import convert
from engine.tools.training.students import Texts


def test_a_head_is_stored_as_other_engines_load_it(journey, root):
    """vLLM's llama_eagle3.py puts "model." before each name, renames `d2t` to draft_id_to_target_id and skips `t2d`;
    SGLang's reads the same file. Target id = draft id + d2t, and layer ids count the states that enter a layer."""
    folder = root / "eagle"
    tensors, config = load_file(folder / "model.safetensors"), json.loads((folder / "config.json").read_text())
    E, heads, shared, inner = 64, 64, 32, 48
    layer = {
        "input_layernorm": (E,), "hidden_norm": (E,), "post_attention_layernorm": (E,),
        "self_attn.q_proj": (heads, 2 * E), "self_attn.k_proj": (shared, 2 * E), "self_attn.v_proj": (shared, 2 * E),
        "self_attn.o_proj": (E, heads), "mlp.gate_proj": (inner, E), "mlp.up_proj": (inner, E),
        "mlp.down_proj": (E, inner),
    }  # fmt: skip
    shapes = {f"midlayer.{name}.weight": shape for name, shape in layer.items()}
    shapes |= {"fc.weight": (E, 2 * E), "norm.weight": (E,), "lm_head.weight": (WORDS, E)}
    shapes |= {"d2t": (WORDS,), "t2d": (VOCABULARY,)}
    assert {name: tuple(t.shape) for name, t in tensors.items()} == shapes
    kinds = {name: t.dtype for name, t in tensors.items()}
    assert (kinds.pop("d2t"), kinds.pop("t2d")) == (torch.int64, torch.bool) and {*kinds.values()} == {torch.bfloat16}
    words = tensors["d2t"] + torch.arange(WORDS)
    target = AutoModelForCausalLM.from_pretrained(root / "target")
    assert torch.equal(tensors["lm_head.weight"], target.lm_head.weight[words].bfloat16())
    assert torch.equal(tensors["t2d"].nonzero()[:, 0], words)
    wanted = {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "num_hidden_layers": 1,
              "hidden_size": E, "vocab_size": VOCABULARY, "draft_vocab_size": WORDS,
              "num_attention_heads": 4, "num_key_value_heads": 2,
              "head_dim": 16, "intermediate_size": inner, "hidden_act": "silu", "tie_word_embeddings": False,
              "rope_theta": 10000.0, "rms_norm_eps": target.config.rms_norm_eps, "max_position_embeddings": 256,
              "eagle_aux_hidden_state_layer_ids": [0, 1],  # vLLM reads this list, SGLang the other and adds 1
              "eagle_config": {"use_aux_hidden_state": True, "eagle_aux_hidden_state_layer_ids": [-1, 0]}}  # fmt: skip
    assert {name: config[name] for name in wanted} == wanted


@pytest.mark.parametrize(
    ("kind", "name", "layers"),
    [*(("eagle", name, 1) for name in ("llama-wide-head", "multi-query", "yarn-rope", "qwen3", "qwen2")),
     ("normed eagle", "llama", 1), ("block", "llama3-rope", 2), ("block", "llama-tied", 3)],
)  # fmt: skip
@pytest.mark.parametrize("runtime", RUNTIMES)
@torch.no_grad()
def test_an_exported_head_says_what_the_trained_one_said(tmp_path, monkeypatch, kind, name, layers, runtime):
    """With features at every position, beyond the length where scaled rotary embeddings differ from plain ones, then a
    step further; and of a block head also the guesses of the slots after the last one."""
    monkeypatch.setattr("engine.models.onnx.graph.DRAFTS", "fp32")  # rounding would hide what we look for
    is_normed, kind = kind.startswith("normed"), kind.removeprefix("normed ")  # as in EAGLE-3.1
    student, teacher = random_head(tmp_path / "target", name, is_normed=is_normed)
    if kind == "block":
        student = BlockStudent.new(teacher, torch.arange(0, VOCABULARY, 2), torch.ones(2), layers, rank=8)
    for parameter in student.module.parameters():
        parameter.add_(0.1 * torch.randn_like(parameter)).copy_(parameter.bfloat16())
    if kind == "eagle" or teacher.head is not teacher.embed:  # else its rows are read from the target
        student.module.head.copy_(student.module.head.bfloat16())
    getattr(export, kind)(student, teacher, (0, 1), None, tmp_path / "head", "a card")
    model = model_folder(tmp_path / "target", name)  # the same, with a tokenizer
    head = load_head(kind, tmp_path / "head", RUNTIMES[runtime](tmp_path / "target", model).model)
    assert head.on_host == (runtime == "onnx") and head.layers_count == layers
    assert head.target_ids.tolist() == student.words.tolist() and head.reads == (0, 1)
    ids, tapped, L = torch.randint(0, VOCABULARY, (1, 62)), torch.randn(1, 62, 2 * 64), 60
    states = student.states(Texts(ids, tapped, tapped, None, None), 4 if kind == "block" else 2)
    masks = torch.full((3 if kind == "block" else 0,), MASK)
    runner = DecoderRunner(head)
    runner.reset(L + 3)
    span = runner.next_span(L + len(masks))
    logits, out = head.forward(torch.cat([ids[0, 1 : L + 1], masks]), [span], features=tapped[0, :L])
    if kind == "eagle":
        if not is_normed:
            assert_close(out, states[0][0, :L])
        assert_close(logits, student.logits(states[0][0, :L], None))
        runner.cache.length = L
        further = head.forward(ids[0, L + 1 :], [runner.next_span(1)], state=out[-1:])[0]
        assert_close(further, student.logits(states[1][0, L - 1 : L], None))
    else:
        block, guess = torch.stack([one[0, L - 1] for one in states]), torch.tensor([42])
        assert_close(logits, student.logits(block, None))
        assert_close(head.add_bias(guess, logits), student.logits(block, None, guess))
        assert (head.add_bias(guess, logits) - logits).abs().max() > 0.1


def test_an_lm_says_the_same_from_its_file_and_has_the_targets_tokenizer(learning, root, tmp_path):
    student = learning.student("lm")
    ids = torch.from_numpy(learning.samples.row(0).astype(np.int64))[None]
    with torch.no_grad():
        logits = student.logits(student.states(Texts(ids, None, None, None, None), 1)[0], torch.arange(VOCABULARY))
        export.lm(student, root / "target", tmp_path / "lm", "a card")
        loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "lm", dtype=torch.float32)
        again = loaded(ids).logits
    assert_close(again, logits, dtype=torch.bfloat16, roundings=2)
    assert torch.equal(load_model(tmp_path / "lm", "cpu", "fp32").runner.model.embed, loaded.lm_head.weight)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert json.loads((tmp_path / "lm" / name).read_text()) == json.loads((root / "target" / name).read_text())


@pytest.mark.parametrize("student", ["lm", "eagle", "block"])
def test_a_draft_is_stored_in_8_bits_or_in_16(copied, root, tmp_path, monkeypatch, student):
    """Each weight within half a step; rounding again gives the same numbers; large tensors are in several files."""
    monkeypatch.setattr("engine.tools.training.stored_bits._LARGEST", 12_000)
    small, wide, again = (tmp_path / name for name in ("small", "wide", "again"))
    stage(root, "export", student, "--out", small, "--bits", 8, work=copied)
    run("convert", small, "--out", wide)
    run("convert", wide, "--out", again, "--bits", 8)
    as_trained, in_8, in_16, rounded_twice = (
        TensorReader(folder, torch.float32, "cpu") for folder in (root / student, small, wide, again)
    )
    assert {*as_trained.names} == {*in_16.names} < {*in_8.names} == {*rounded_twice.names}
    matrices = {name.removesuffix("_scale") for name in in_8.names if name.endswith("_scale")}
    for name in as_trained.names:
        if name in matrices:
            step = as_trained(name).abs().amax(-1, keepdim=True) / 127
            assert in_8.raw(name).dtype == torch.int8 and torch.equal(in_8.raw(name), rounded_twice.raw(name))
            assert ((in_8(name) - as_trained(name)).abs() <= 0.51 * step).all()
            assert torch.equal(in_16(name), in_8(name).bfloat16().float())
        else:
            assert all(torch.equal(as_trained.raw(name), other.raw(name)) for other in (in_8, in_16))
    configs = [json.loads((folder / "config.json").read_text()) for folder in (root / student, wide, small)]
    assert configs[0] == configs[1] == {name: configs[2][name] for name in configs[0]}
    assert student != "block" or {*BIAS.values()} <= matrices
    assert matrices and len(list(small.glob("*.safetensors"))) > 1 and (small / "README.md").is_file()


def test_a_head_without_an_output_layer_gets_its_words_rows_of_the_target(learning, root, tmp_path):
    """vLLM would take the target's first rows for the head's words."""
    head, out, other = tmp_path / "head", tmp_path / "out", tmp_path / "other"
    shutil.copytree(root / "eagle", head)
    tensors = load_file(head / "model.safetensors")
    del tensors["lm_head.weight"]
    save_file(tensors, head / "model.safetensors")
    convert(head, out, 16, root / "target")
    ours, rows = load_file(out / "model.safetensors"), TensorReader(root / "target", torch.bfloat16, "cpu")
    words = torch.nonzero(ours["t2d"]).flatten()
    name = "lm_head.weight" if "lm_head.weight" in rows else "model.embed_tokens.weight"
    assert len(words) == len(ours["d2t"]) and torch.equal(ours["lm_head.weight"], rows(name)[words])
    tensors["d2t"] += 10**6
    save_file(tensors, head / "model.safetensors")
    with pytest.raises(BadInput, match="the head knows others"):
        convert(head, other, 16, root / "target")


@pytest.mark.parametrize(
    ("arguments", "words"), [(("eagle", 4), "stored in 16 or 8 bits, not in 4"), (("gone", 8), "There is no folder")]
)
def test_what_cannot_be_stored_so_is_a_sentence(journey, root, tmp_path, arguments, words):
    folder, bits = arguments
    assert words in run("convert", root / folder, "--out", tmp_path / "out", "--bits", bits, fails=True)
    assert not (tmp_path / "out").exists()


def test_export_replaces_an_older_draft_whole(copied, root, tmp_path):
    (tmp_path / "out").mkdir()
    stage(root, "export", "lm", "--out", tmp_path / "out", work=copied)
    stage(root, "export", "eagle", "--out", tmp_path / "out", work=copied)
    assert files(tmp_path / "out") == {"config.json", "model.safetensors", "README.md"}
    stage(root, "export", "lm", "--out", tmp_path / "out", work=copied)
    assert "tokenizer.json" in files(tmp_path / "out") and not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("what", ["notes", "target", "project", "file"])
def test_export_takes_the_place_of_nothing_but_an_older_draft(copied, root, tmp_path, what):
    out = tmp_path / "out"
    if what == "file":
        out.write_text("mine")
    elif what == "target":
        shutil.copytree(root / "target", out)
    else:
        out.mkdir()
        (out / ("config.json" if what == "project" else "notes.txt")).write_text("{}")
    before = files(tmp_path)
    words = "out holds something other than a draft; name an empty or new folder"
    words = "out is a file; name a folder" if what == "file" else words
    refused(words, root, "export", "eagle", "--out", out, work=copied)
    assert files(tmp_path) == before

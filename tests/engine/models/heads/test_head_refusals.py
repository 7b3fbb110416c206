"""A head that does not fit its target, its config.json or its own tensors is refused in a sentence."""

from dataclasses import replace
from functools import cache

import pytest
import torch
from head_cases import KINDS, RANK, E, changed
from tiny_pairs import VOCABULARY, run

from engine.errors import BadInput, Unavailable
from engine.models.heads.block import BIAS
from engine.models.heads.exit import read_exit_config
from engine.runtime.engine import load_engine
from engine.weights.catalogue import get_pair, local_model

EACH_KIND = pytest.mark.parametrize("case", KINDS.values(), ids=lambda case: case.kind)
IDS = "eagle_aux_hidden_state_layer_ids"


def of_heads(name: str, make) -> dict:
    return {f"{k}.{name}": make(k) for k in range(3)}


REFUSED = [  # kind, changed fields, changed tensors, sentence
    ("eagle", {"num_hidden_layers": 2}, {}, r"has no tensor 'layers\.1\.input_layernorm\.weight'"),
    ("eagle", {"target_hidden_size": 2 * E}, {}, f"was made for a target of width {2 * E} and {VOCABULARY} words"),
    ("eagle", {"vocab_size": 99}, {}, f"was made for a target of width {E} and 99 words"),
    ("eagle", {IDS: [1, 30], "eagle_config": {}}, {}, "reads layers 1, 30, but this target has 2"),
    ("eagle", {IDS: [0, 1, 3]}, {}, r"the states entering layers \[0, 1, 3\], but that in eagle_config the outputs"),
    ("eagle", {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 8}, {},
     "has 8 numbers for each .* multiples of 16"),
    ("eagle", {}, {"d2t": None}, r"the map of its words \(d2t\) is missing"),
    ("eagle", {IDS: [1, 0], "eagle_config": {}}, {}, "describes no EAGLE"),
    ("eagle", {IDS: None, "eagle_config": {}}, {}, "reads layers 2, 1, -1, but this target has 2"),
    ("eagle", {"eagle_config": {"use_aux_hidden_state": False}}, {}, r"the field 'eagle_config\.use_aux_hidden_state'"),
    ("eagle", {"residual_multiplier": 0.5}, {}, "has the field 'residual_multiplier', whose value is not known here"),
    ("eagle", {"quantization_config": {"quant_method": "gptq"}}, {}, "rounded in a way that is not read here"),
    ("eagle", {"rope_scaling": {"rope_type": "linear"}}, {}, "rotary settings .* are wrong .*'factor'"),
    ("eagle", {"rope_scaling": {"rope_type": "ntk"}}, {}, "rotary embedding is of the kind 'ntk'"),
    ("eagle", {"rope_scaling": {"rope_type": "yarn", "heat": 2}}, {}, "the setting 'heat', which is not known here"),
    ("eagle", {"layer_types": ["chunked_attention"]}, {}, "layer_types names 'chunked_attention'"),
    ("eagle", {"layer_types": ["sliding_attention"]}, {}, "but sliding_window is no number of tokens"),
    ("eagle", {"num_aux_hidden_states": 2}, {}, "it does not read as many states as it names layers"),
    ("eagle", {}, {"layers.0.embed_gate.weight": torch.zeros(1)}, "holds 'layers.0.embed_gate.weight', which no head"),
    ("eagle", {}, {"model.fc.weight": torch.zeros(1)}, "holds .* two names of one tensor; keep one"),
    ("eagle", {}, {"embed_tokens.weight": torch.zeros(7, E)}, r"embed_tokens\.weight .* is \(7, 64\)"),
    ("eagle", {"hidden_size": 32, "target_hidden_size": E}, {}, "is 32 wide and its target 64, so it needs an"),
    ("eagle", {"draft_vocab_size": 99}, {}, "has 132 words, not 99"),
    ("eagle", {}, {"d2t": -torch.arange(132)}, "or twice"),
    ("eagle", {}, {"d2t": torch.full((132,), -1)}, "names words that the target does not have"),
    ("eagle", {}, {"d2t": torch.arange(7), "t2d": None}, "has 7 words, not 132"),
    ("eagle", {}, {"d2t": torch.zeros(132, 3, dtype=torch.long)}, "is no list of whole numbers"),
    ("eagle", {}, {"d2t": torch.zeros(132)}, "is no list of whole numbers"),
    ("eagle", {}, {"t2d": torch.ones(264, dtype=torch.bool)}, "disagree: d2t and t2d name different words"),
    ("eagle", {"draft_vocab_size": None}, {"d2t": None}, r"the map of its words \(d2t\) is missing"),
    ("eagle", {}, {"fc.weight": torch.zeros(E, 2 * E)},
     rf"fc.weight in .* is \({E}, {2 * E}\), but config.json says \({E}, {3 * E}\)"),
    ("block", {"ptd_token_id": VOCABULARY}, {}, "token 264, has no embedding"),
    ("block", {"ptd_token_id": "last"}, {}, "mask_token: Input should be a valid integer"),
    ("block", {"num_hidden_layers": 2}, {}, "has no tensor 'layers.1.input_layernorm.weight'"),
    ("block", {}, {"mask_hidden": torch.zeros(1, E)}, f"has {E} numbers, where this target needs {3 * E}"),
    ("block", {}, {"embed_tokens.weight": torch.zeros(VOCABULARY, 3)}, r"is \(264, 3\), where this target needs"),
    ("block", {"markov_rank": None}, {}, r"holds 'markov_head\.markov_w1\.weight', which no head of this kind reads"),
    ("block", {"markov_rank": 64}, {}, rf"is \(132, {RANK}\), but config.json says \(132, 64\)"),
    ("block", {"markov_head_type": "rnn"}, {}, "markov_head_type: Input should be 'vanilla'"),
    ("block", {}, {BIAS["w2"]: None}, r"has no tensor 'markov_head\.markov_w2\.weight'"),
    ("block", {"enable_confidence_head": True}, {}, "has the field 'enable_confidence_head', whose value is not known"),
    ("block", {}, {"confidence_head.proj.weight": torch.zeros(1, E)}, r"holds 'confidence_head\.proj\.weight', which"),
    ("medusa", {"medusa_num_layers": 2}, {}, "medusa_num_layers: Input should be 1"),
    ("medusa", {"hidden_size": 24}, {}, "were made for a target of width 24 and 264 words"),
    ("medusa", {"residual_scale": 2}, {}, "has the field 'residual_scale'"),
    ("exit", {"residual_scale": 2}, {}, "has the field 'residual_scale'"),
    ("exit", {}, {"more.weight": torch.zeros(1)}, r"holds 'more\.weight', which no head of this kind reads"),
    ("medusa", {}, {"0.0.linear.weight": torch.zeros(24, 24)},
     rf"is \(24, 24\), where this target needs \({E}, {E}\)"),
    ("medusa", {}, {"d2t": None} | of_heads("1.weight", lambda k: torch.zeros(100, E)),
     r"has 100 words and the target 264.*no map of them"),
    ("medusa", {}, {"d2t": torch.zeros(9, dtype=torch.long)} | of_heads("1.weight", lambda k: torch.zeros(132, E)),
     rf"needs \(9, {E}\)"),
    ("medusa", {}, {"0.1.linear.weight": torch.zeros(E, E)},
     r"one layer each: '0\.1\.linear\.weight' is missing or too many"),
    ("medusa", {}, {"1.0.linear.weight": None, "1.0.linear.bias": None},
     r"'2\.0\.linear\.bias' is missing or too many"),
    ("exit", {"hidden_size": 24}, {}, f"made for a target of width 24 and 264 words, this one has {E} and 264"),
    ("exit", {"exit_layer": 3}, {}, "reads the state after 3 layers, but this target has 2"),
    ("exit", {"exit_layer": 0}, {}, "describes no exit head that can run here: exit_layer"),
    ("exit", {}, {"d2t": None}, r"has no map of its words \(d2t\); export it again"),
    ("exit", {}, {"d2t": torch.tensor([0, 300])}, "words that the target does not have"),
    ("exit", {}, {"gate.weight": torch.zeros(3, E)}, rf"is \(3, {E}\), but config\.json says \(256, {E}\)"),
]  # fmt: skip


@pytest.fixture(scope="module")
def without_head(heads):
    """The engine of a kind's target, whose head has not been loaded."""
    return cache(lambda kind: load_engine(heads.pair(kind), "cpu"))


@pytest.mark.parametrize("kind, fields, tensors, sentence", REFUSED)
def test_a_head_that_does_not_fit_is_refused_in_a_sentence(
    heads, without_head, monkeypatch, tmp_path, kind, fields, tensors, sentence
):
    head, method = changed(heads.root / kind / "head", tmp_path / "head", fields, tensors), KINDS[kind].method
    engine = without_head(kind)
    monkeypatch.setattr(engine.drafts, "pair", replace(engine.pair, drafts={kind: local_model(head)}))
    with pytest.raises(Unavailable, match=sentence) as refused:
        engine.drafts.drafter(method)
    assert str(refused.value).count(". ") <= 1 and not engine.has(method)
    assert engine.target.runner.model.taps == (), "nothing is loaded by half"
    assert run(engine, max_new_tokens=2).emitted


@EACH_KIND
def test_a_folder_without_a_head_that_can_be_read_is_refused(heads, tmp_path, case):
    def refused(folder, sentence):
        with pytest.raises(BadInput, match=sentence):
            get_pair(f"{heads.root / case.kind}/target+{folder}")

    whole = heads.root / case.kind / "head"
    pickled = changed(whole, tmp_path / "pickled", {}, {})
    (pickled / case.file).rename(pickled / case.pickle)
    refused(pickled, rf"{case.pickle}, a pickle, which is never loaded")
    cut = changed(whole, tmp_path / "cut", {}, {})
    (cut / case.file).write_bytes((cut / case.file).read_bytes()[:-4])
    refused(cut, "is damaged")
    for pair in (f"{whole}", f"{whole}+{whole}"):
        with pytest.raises(BadInput, match=rf"holds {case.title}, which only drafts? for a target; name TARGET_DIR\+"):
            get_pair(pair)


def test_a_folder_with_other_tensors_holds_no_head(heads, tmp_path):
    for kind, tensors, sentence in (
        ("medusa", {f"{k}.0.linear.weight": None for k in range(3)}, "holds no Medusa heads"),
        ("exit", {"down.weight": None}, r"holds no exit head: its weights have no tensor 'down\.weight'"),
    ):
        head = changed(heads.root / kind / "head", tmp_path / kind, {}, tensors)
        with pytest.raises(BadInput, match=sentence):
            get_pair(f"{heads.root / kind}/target+{head}")


def test_a_target_without_hidden_states_to_read(heads, pairs):
    engine = load_engine(f"{pairs.root}/gpt2+{heads.root}/exit/head", "cpu")
    with pytest.raises(Unavailable, match="reads hidden states, which only our own decoder gives; use another method"):
        engine.drafts.drafter("exit")
    assert run(engine, max_new_tokens=4).emitted


def test_a_config_that_is_no_text_is_damaged(tmp_path):
    (tmp_path / "config.json").write_bytes(b'{"a": "\xff"}')
    with pytest.raises(Unavailable, match=r"config\.json is damaged"):
        read_exit_config(tmp_path)

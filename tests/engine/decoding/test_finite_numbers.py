"""Numbers that are not finite: of the target they end a run in a sentence, of a draft they end its drafting only. A
model with a weight that is not finite is refused by the tensor's name where a product would hide it."""

import math
import re
from dataclasses import replace

import pytest
import torch
from head_cases import changed
from safetensors.torch import load_file
from tiny_pairs import engine_in, generated, ids_of, model_folder, run

from engine.config import METHODS, SamplingParams
from engine.drafters.autoregressive import NOT_FINITE, certain_where_broken, certainties
from engine.errors import Unavailable
from engine.runtime.engine import Engine
from engine.sampling.warping import draw, warp
from engine.trace.costs import CostModel
from engine.weights.catalogue import get_pair, local_model

NAN = float("nan")
CHEAP = CostModel(0.02, {1: 1.0, 2: 1.01, 8: 1.05, 64: 1.5}, 200, 0.001)
SETTINGS = ({"sampling": SamplingParams(0.7, top_p=0.9)}, {"trace": False}, {"temperature": 1.0, "acceptance": "block"})


def break_copy(folder, copy, name: str = "model.norm.weight", value: float = NAN, place=slice(None)):
    """A copy of a model in which a part of one tensor is not finite."""
    tensor = load_file(folder / "model.safetensors")[name]
    tensor[place] = value
    changed(folder, copy, {}, {name: tensor})
    for file in (*folder.glob("token*"), folder / "chat_template.jinja"):
        (copy / file.name).write_bytes(file.read_bytes())
    return copy


@pytest.mark.parametrize("runtime", ["torch", "onnx"])
@pytest.mark.parametrize("settings", [{}, *(pytest.param(one, marks=pytest.mark.slow) for one in SETTINGS)], ids=str)
def test_a_target_that_is_not_finite_is_a_sentence(own_cache, tmp_path, runtime, settings):
    model_folder(tmp_path / "whole")
    engine = engine_in(runtime, break_copy(tmp_path / "whole", tmp_path / "nan", "lm_head.weight"), "none")
    with pytest.raises(Unavailable, match=r"target's logits are not finite .* after 0 new tokens"):
        run(engine, "ngram", **settings)


@pytest.mark.parametrize("value", [NAN, math.inf])
@pytest.mark.parametrize("settings", [{}, {"temperature": 0.7}], ids=str)
def test_one_logit_that_is_not_finite_is_enough(own_cache, tmp_path, value, settings):
    model_folder(tmp_path / "whole")
    one = break_copy(tmp_path / "whole", tmp_path / "nan", "lm_head.weight", value, (7, 3))
    with pytest.raises(Unavailable, match="not finite"):
        run(engine_in("torch", one, "none"), **settings)


def test_a_token_that_is_never_read_does_not_end_a_run(own_cache, tmp_path):
    """An embedding row of NaN, as some padded vocabularies have; only drafts could read it, and none does."""
    model = model_folder(tmp_path / "whole")
    padded = break_copy(tmp_path / "whole", tmp_path / "nan", "model.embed_tokens.weight", NAN, 263)
    prompt, written = ids_of(run(engine_in("torch", padded, "none"), "ngram", max_new_tokens=24))
    assert 263 not in written and written == generated(model, prompt, 24)


@pytest.mark.parametrize("runtime", ["torch", "onnx"])
@pytest.mark.parametrize("gamma", [4, "auto"])
@pytest.mark.parametrize(
    "place", [slice(0, 1), pytest.param(slice(None), marks=pytest.mark.slow)], ids=["one word", "all"]
)
def test_a_draft_that_is_not_finite_is_left_out_and_named(own_cache, tmp_path, runtime, gamma, place):
    model = model_folder(tmp_path / "target")
    model_folder(tmp_path / "fine", noise=0.05)
    draft = break_copy(tmp_path / "fine", tmp_path / "draft", "lm_head.weight", place=place)
    engine = engine_in(runtime, f"{tmp_path / 'target'}+{draft}", "lm")
    engine._costs |= {"none": CHEAP, "lm": CHEAP}
    whole = run(engine, "lm", gamma=gamma, max_new_tokens=24)
    prompt, written = ids_of(whole)
    assert written == generated(model, prompt, 24)
    (note,) = whole.finished.notes
    assert note.startswith("The draft of lm gave numbers that are not finite")
    assert note.endswith("the run went on without it from token 2 on.")
    assert not any(each.parents for each in whole.rounds)
    sampled = run(engine, "lm", gamma=gamma, temperature=0.8, max_new_tokens=12)
    assert sampled.finished.notes == (note,) and len(sampled.emitted) == 12
    assert not run(engine, "ngram").finished.notes


def test_auto_goes_on_with_the_other_drafters(own_cache, tmp_path):
    model = model_folder(tmp_path / "target")
    model_folder(tmp_path / "fine", noise=0.05)
    draft = break_copy(tmp_path / "fine", tmp_path / "draft", "lm_head.weight")
    engine = engine_in("onnx", f"{tmp_path / 'target'}+{draft}", "lm")
    engine._costs |= {name: CHEAP for name in ("none", "lm", "quantised")}
    whole = run(engine, "auto", max_new_tokens=60, gamma=3)
    prompt, written = ids_of(whole)
    assert written == generated(model, prompt, 60)
    assert "of lm gave" in whole.finished.notes[0] and len({each.drafter for each in whole.rounds} - {"lm"}) > 1


@pytest.mark.parametrize("kind", ["eagle", "block", "medusa", "exit"])
@pytest.mark.parametrize(
    "settings",
    [{}, *(pytest.param(one, marks=pytest.mark.slow) for one in ({"gamma": "auto"}, {"temperature": 0.8}))],
    ids=str,
)
def test_a_head_that_is_not_finite_is_left_out_and_named(own_cache, heads, tmp_path, kind, settings):
    head, file = heads.root / kind / "head", next((heads.root / kind / "head").glob("*.safetensors"))
    floats = {name: tensor for name, tensor in load_file(file).items() if tensor.is_floating_point()}
    largest = max(floats, key=lambda name: floats[name].numel())
    huge = torch.full(floats[largest].shape, 3e38)  # so its products are infinite
    copy = changed(head, tmp_path / "head", {}, {largest: huge})
    engine = Engine(replace(get_pair(heads.pair(kind)), drafts={kind: local_model(copy)}), "cpu", "fp32")
    engine._costs |= {"none": CHEAP, kind: CHEAP}
    expected = [t.id for t in run(engine, "none", max_new_tokens=20, seed=5, **settings).emitted]
    whole = run(engine, kind, max_new_tokens=20, seed=5, **settings)
    assert f"of {kind} gave" in whole.finished.notes[0]
    assert "temperature" in settings or [t.id for t in whole.emitted] == expected


@pytest.mark.parametrize("runtime", ["torch", "onnx"])
@pytest.mark.parametrize("kind", ["eagle", "block", "medusa", "exit"])
def test_a_head_with_one_number_that_is_not_finite_is_refused(own_cache, heads, tmp_path, runtime, kind):
    head = heads.root / kind / "head"
    stored = load_file(next(head.glob("*.safetensors")))
    name = next(name for name in stored if name.endswith(("q_proj.weight", "0.0.linear.weight", "gate.weight")))
    stored[name].view(-1)[0] = NAN
    copy = changed(head, tmp_path / "head", {}, {name: stored[name]})
    pair = f"{heads.pair(kind).split('+')[0]}+{copy}"
    with pytest.raises(Unavailable, match=f"{re.escape(name)} in {copy} holds numbers that are not finite"):
        engine_in(runtime, pair, kind)
    if METHODS[kind].competes:
        engine = engine_in(runtime, pair, "none")
        engine._costs |= dict.fromkeys(METHODS, replace(CHEAP, draft_costs=dict.fromkeys(METHODS, 0.1)))
        (note,) = run(engine, "auto", max_new_tokens=8).notes
        assert note.startswith("This run goes without the draft") and name in note


HIDDEN = ("model.norm.weight", "model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.v_proj.weight",
          "model.layers.1.mlp.gate_proj.weight", "model.layers.1.post_attention_layernorm.weight")  # fmt: skip


@pytest.mark.parametrize("precision", ["int8", pytest.param("int4", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", HIDDEN)
@pytest.mark.parametrize("runtime", ["torch", "onnx"])
def test_a_rounded_product_hides_no_number(own_cache, tmp_path, runtime, name, precision):
    """A product that rounds its inputs makes whole numbers of NaN and infinity, and so a text of no meaning."""
    model_folder(tmp_path / "whole", intermediate_size=96)
    for copy, value in (("nan", NAN), ("infinite", math.inf)):
        folder = break_copy(tmp_path / "whole", tmp_path / copy, name, value, 1)
        with pytest.raises(Unavailable, match="not finite"):
            run(engine_in(runtime, folder, "none", precision))


@pytest.mark.parametrize("side", ["q", "k"])
def test_attention_hides_no_number(own_cache, tmp_path, side):
    """ONNX Runtime's attention takes a NaN in q or k for a small number."""
    model_folder(tmp_path / "whole")
    name = f"model.layers.1.self_attn.{side}_proj.weight"
    folder = break_copy(tmp_path / "whole", tmp_path / "nan", name, NAN, (0, 0))
    with pytest.raises(Unavailable, match=f"{name} in {folder} holds numbers that are not finite"):
        engine_in("onnx", folder, "none")


def test_a_broken_row_has_no_certainty_and_draws_its_last_word():
    rows = torch.tensor([[0.0, 2.0, 1.0], [NAN, 0.0, 0.0], [math.inf, 0.0, 0.0], [-math.inf] * 3])
    assert certainties(rows)[1:] == [NOT_FINITE] * 3 and certainties(rows)[0] >= 0
    q = warp(rows, SamplingParams(0.7))
    assert draw(q, torch.full((4,), 0.3)).tolist()[1:] == [2, 2, 2]
    assert certain_where_broken(q) is q, "on a CPU the host looks"

"""A folder becomes a run: pairs on disk, drafts that fit or do not, calibration, γ = auto and its replay."""

import json
from dataclasses import replace

import pytest
from tiny_models import byte_tokenizer
from tiny_pairs import VOCABULARY, engine_of, generated, ids_of, model_folder, request, run, without_clocks

from engine.config import Constraint
from engine.errors import BadInput, Unavailable
from engine.runtime.device_choice import choose_device, choose_precision
from engine.runtime.engine import load_engine
from engine.trace.branch import branch_config, check_models
from engine.trace.costs import CostModel
from engine.trace.events import Round, RunFinished, RunStarted
from engine.trace.trace import fold, from_json, to_json, with_branch

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(scope="module")
def engine(pairs):
    """Loads an engine with set costs; test_calibration.py measures them."""
    engine = engine_of(pairs, draft="draft")
    engine._costs = {"none": COSTS, "lm": COSTS}
    return engine


@pytest.mark.parametrize(("method", "gamma"), [("none", 4), ("ngram", 4), ("lm", 4), ("lm", "auto")])
def test_a_run_is_a_start_rounds_and_an_end_and_equals_generate(pairs, engine, method, gamma):
    events = list(engine.run(request(engine.pair.name, method, gamma=gamma, max_new_tokens=24)))
    assert [type(e) for e in (events[0], events[1], events[-1])] == [RunStarted, Round, RunFinished]
    whole = fold(events)
    prompt, ids = ids_of(whole)
    assert ids == generated(pairs.models["target"], prompt, 24)
    assert whole.text == whole.finished.text == byte_tokenizer().decode(ids, skip_special_tokens=True)
    assert whole.finished.reason == "length" and from_json(to_json(whole)) == whole
    assert set(whole.started.weights) == ({"target", "draft"} if method == "lm" else {"target"})
    end = whole.finished
    assert 0 < end.prefill < end.ttft <= end.seconds and end.decode_seconds <= end.seconds and end.peak_memory > 0


@pytest.mark.parametrize(("target", "draft"), [("wider", "draft"), ("target", "wider")])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_padded_vocabularies_of_different_sizes_fit(pairs, target, draft, temperature):
    engine = engine_of(pairs, target, draft)
    whole = run(engine, "lm", temperature=temperature, max_new_tokens=40)
    assert target == "target" or any(t.id >= VOCABULARY for t in whole.emitted), "only the target has that word"
    if not temperature:
        prompt, written = ids_of(whole)
        assert written == generated(pairs.models[target], prompt, len(written))
    known = VOCABULARY + (0 if draft == "draft" else 40)
    drafted = [t for r in whole.rounds for t in r.tokens if t.status in ("accepted", "rejected", "discarded")]
    assert drafted and all(t.id < min(known, engine.target.runner.vocab_size) for t in drafted)


@pytest.mark.parametrize("method", ["none", "ngram", "lm"])
def test_branch_and_its_baseline_begin_with_the_given_tokens(pairs, engine, method):
    """The tokens that were there, at a round's end, give the rest of the run; another token gives generate's."""
    sampled = {"temperature": 1.0, "seed": 4, "max_new_tokens": 24}
    first = run(engine, method, **sampled)
    ended = [token.id for each in first.rounds[:3] for token in each.emitted]
    again = run(engine, method, prefix=ended, **sampled)
    assert ended + ids_of(again)[1] == ids_of(first)[1] == again.output and again.text == first.text
    assert again.finished.text == first.finished.text and again.started.prompt == first.started.prompt
    greedy = run(engine, method, max_new_tokens=24)
    config = branch_config(greedy, 5, other := (greedy.output[5] + 1) % VOCABULARY)
    branch, plain = (fold(engine.run(replace(config, method=one))) for one in (method, "none"))
    prompt = ids_of(greedy)[0] + greedy.output[:5] + [other]
    assert ids_of(branch)[1] == ids_of(plain)[1] == generated(pairs.models["target"], prompt, 18)
    whole = with_branch(greedy, branch)
    assert from_json(to_json(whole)) == whole and "prefix" not in branch.started.config
    check_models(greedy.started, branch.started)


def test_every_end_token_of_the_generation_config_ends_the_text(pairs, tmp_path):
    model = model_folder(tmp_path / "many", eos_token_id=[7, 8])
    free = run(load_engine(str(tmp_path / "many"), "cpu"), max_new_tokens=30)
    third = free.emitted[2].id
    config = json.loads((tmp_path / "many" / "generation_config.json").read_text())
    (tmp_path / "many" / "generation_config.json").write_text(json.dumps(config | {"eos_token_id": [7, third]}))
    ended = run(load_engine(str(tmp_path / "many"), "cpu"), "ngram", max_new_tokens=30)
    prompt, written = ids_of(ended)
    free = ids_of(free)[1]
    assert ended.finished.reason == "eos" and written == free[: free.index(third) + 1]
    assert written == generated(model, prompt, 30, eos=(7, third))


def test_what_does_not_fit_the_context_is_said_with_figures(pairs):
    engine = engine_of(pairs, draft="short")
    with pytest.raises(BadInput, match=r"has 300 tokens; with up to 16 new ones .* target attends to 256; shorten"):
        run(engine, prompt="a" * 300)
    with pytest.raises(BadInput, match=r"has 40 tokens; with up to 16 new ones .* short attends to 48; shorten"):
        run(engine, "lm", prompt="a" * 40)
    assert len(run(engine, prompt="a" * 240).emitted) == 16  # exactly full
    full = run(engine, "lm", prompt="a" * 32)  # the draft's context exactly full
    assert ids_of(full) == ids_of(run(engine, prompt="a" * 32))


@pytest.mark.parametrize(("setting", "value"), [("precision", "int8"), ("pair", "smollm2-135m")])
def test_a_request_for_another_engine_is_refused(engine, setting, value):
    config = replace(request(engine.pair.name), **{setting: value})
    with pytest.raises(BadInput, match=f"The request is for {value}, but this engine has loaded"):
        next(engine.run(config))
    assert next(engine.run(replace(request(engine.pair.name), precision=engine.precision)))


def test_the_draft_must_fit_beside_the_target(pairs, monkeypatch):
    engine = engine_of(pairs, draft="draft")
    monkeypatch.setattr("engine.runtime.pair_models.available_memory", lambda device: 10_000)
    with pytest.raises(Unavailable, match=r"draft needs about .* beside the target, but cpu has 0.0 MB free"):
        run(engine, "lm")
    assert run(engine, "ngram").text


def test_an_engine_gives_the_same_trace_for_the_same_seed(engine):
    one, two, other = (run(engine, "lm", temperature=1.0, seed=seed, max_new_tokens=40) for seed in (5, 5, 6))
    assert without_clocks(one) == without_clocks(two) and one.text != other.text


def test_choices_by_default_and_by_name():
    for name in ("tpu", "cuda:99", "", "CPU"):
        with pytest.raises(Unavailable, match="cannot be used here; this machine offers"):
            choose_device(name)
    assert choose_device("cpu") == "cpu" and choose_device() in ("cuda", "mps", "cpu")
    assert choose_precision("auto", "cpu") == "fp32" and choose_precision("auto", "cuda") == "bf16"
    with pytest.raises(BadInput, match="Unknown precision 'int3'; choose from auto, fp32, bf16, fp16"):
        choose_precision("int3", "cpu")
    for name in ("int8", "int4"):
        assert choose_precision(name, "cpu") == name
        with pytest.raises(Unavailable, match=f"{name} is for CPUs, and .* run on 'cuda'; choose bf16, fp16 or fp32"):
            choose_precision(name, "cuda")


@pytest.mark.parametrize(("precision", "heads", "ending"), [("int8", 4, ""), ("int4", 8, "-dense")])
def test_rounded_weights_run_and_are_another_model_by_their_hash(tmp_path, precision, heads, ending):
    """ONNX Runtime does not attend with heads of 8 numbers, so torch multiplies by the same weights."""
    model_folder(tmp_path, num_attention_heads=heads, intermediate_size=96)
    plain, rounded = (load_engine(str(tmp_path), "cpu", name) for name in ("fp32", precision))
    assert plain.target.runner.model.on_host == rounded.target.runner.model.on_host == (heads == 4)
    whole = run(rounded, "ngram")
    assert whole.started.dtype == precision and len(whole.emitted) == 16
    assert whole.started.weights["target"] == f"{plain.drafts.hashes('none')['target']}-{precision}{ending}"


FLAT = {1: 1.0, 8: 1.5, 16: 3.0}
STEEP = {1: 1.0, 2: 2.0, 16: 16.0}  # nothing pays
COSTS = CostModel(0.1, FLAT, 200, 0.001)


@pytest.mark.parametrize(
    "c, v, drafters", [(0.01, FLAT, {"lm"}), (0.2, FLAT, {"lm", "ngram"}), (3.0, FLAT, {"ngram"}), (2.0, STEEP, set())]
)
def test_auto_drafts_every_round_with_the_method_that_pays_there(engine, monkeypatch, c, v, drafters):
    for method in ("none", "lm"):
        monkeypatch.setitem(engine._costs, method, CostModel(c if method == "lm" else 0.0, v, 200, 0.001))
    whole = run(engine, "auto", gamma="auto", max_new_tokens=40)
    assert {r.drafter for r in whole.rounds} - {""} == drafters
    assert whole.started.config["method"] == "auto" and from_json(to_json(whole)) == whole
    assert whole.started.costs.draft_costs == {"ngram": 0.0, "lm": c} and {*whole.started.weights} == {"target", "lm"}
    assert [t.id for t in whole.emitted] == [t.id for t in run(engine, "none", max_new_tokens=40).emitted]


def test_auto_takes_given_costs_in_a_run_with_a_constraint_too(engine):
    costs, own = CostModel(0.0, FLAT, 200, 0.001, draft_costs={"ngram": 0.0, "lm": 0.1}), Constraint("regex", "[ab]{9}")
    drafts = engine.prepare(request(engine.pair.name, "auto", constraint=own), costs=costs).decoding.drafters
    assert (
        {drafter.name for drafter in drafts}
        == {"ngram", "lm", "grammar"}
        == {*engine.drafts.competitors(has_constraint=True)}
    )
    assert "grammar" not in engine.drafts.competitors()


def test_auto_leaves_out_a_draft_that_cannot_be_loaded_or_reads_too_little(pairs):
    engine = engine_of(pairs, draft="stranger")
    engine._costs |= dict.fromkeys(("none", "ngram"), CostModel(0.0, {1: 1.0, 16: 1.5}, 200, 0.001))
    assert run(engine, "auto", max_new_tokens=4).started.costs.draft_costs == {"ngram": 0.0}
    assert engine.has("auto"), "what it goes without is not looked for again"

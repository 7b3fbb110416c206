"""An exit head guesses from the target's own lower layers, on its own cache; the output stays the target's own."""

import json
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from chi_squared import CAUGHT, FALSE_ALARM, joint_p_value, two_token_law
from safetensors.torch import load_file, save_file
from tiny_models import RUNTIMES
from tiny_pairs import VOCABULARY, engine_in, generated, ids_of, model_folder, request, run, without_clocks

from engine.bench import exits
from engine.bench.prompts import Prompt
from engine.config import SamplingParams
from engine.decoding.loop import TRUE_RULES
from engine.drafters.base import DrafterSetup
from engine.errors import BadInput, Unavailable
from engine.exactness.mutants import MUTANTS
from engine.models.reduced_output import word_ids
from engine.runtime import calibration
from engine.runtime.engine import load_engine
from engine.runtime.run_batch import RunBatch
from engine.sampling.random_streams import Uniforms
from engine.sampling.warping import History, penalise, warp
from engine.trace.events import CostModel
from engine.trace.trace import fold
from engine.training import export
from engine.training.students import Batch, ExitStudent
from engine.training.teacher import Teacher
from engine.weights.catalogue import get_pair, local_model

WORDS = torch.arange(0, VOCABULARY, 2)  # every second word: some of the target's favourites are out of reach
E, LAYER, FILE = 64, 1, "model.safetensors"
COSTS = CostModel(0.02, {1: 1.0, 2: 1.01}, 200, 0.001)


@pytest.fixture(scope="module", autouse=True)
def unrounded():
    with pytest.MonkeyPatch.context() as patch:  # 8 bits would hide a wrong state
        patch.setattr("engine.models.onnx_graph.DRAFTS", "fp32")
        yield


def written(root, name="llama-tied", words=WORDS):
    """A target whose upper layer changes little, and a head that was never trained, but whose every weight is its
    own."""
    model = model_folder(root / "target", name)
    with torch.no_grad():
        for weight in (model.model.layers[1].self_attn.o_proj.weight, model.model.layers[1].mlp.down_proj.weight):
            weight.mul_(0.3)
    model.save_pretrained(root / "target")
    teacher = Teacher.load(root / "target", "cpu")
    student = ExitStudent(teacher, words)
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in student.module.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter)).copy_(parameter.half())
    export.exit_head(student, teacher, (LAYER,), None, root / "head", "a card")
    return SimpleNamespace(root=root, model=model, student=student, pair=f"{root}/target+{root}/head")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return written(tmp_path_factory.mktemp("exit"))


@pytest.fixture(scope="module")
def engine(folders):
    engine = load_engine(folders.pair, "cpu")
    engine.drafts.drafter("exit")
    return engine


@pytest.fixture(scope="module", params=RUNTIMES)
def each_engine(folders, request):
    """One whose head runs in ONNX Runtime, and one in which torch runs it, as on other devices."""
    return engine_in(request.param, folders.pair, "exit")


@torch.inference_mode()
def expected(folders, ids) -> torch.Tensor:
    """The head's logits [Vd] after ``ids``, from the state that transformers computes."""
    states = folders.model.model(torch.tensor([list(ids)]), output_hidden_states=True).hidden_states
    return folders.student.logits(folders.student.module(states[LAYER][0, -1:]), WORDS)


def begin(engine, ids, **settings) -> None:
    """Reads all but the last of ``ids`` and starts the drafter, as a run does."""
    target, drafter = engine.target.runner, engine.drafts.drafter("exit")
    target.reset(64)
    target.prefill(ids[:-1])
    drafter.start(
        ids, DrafterSetup(vocab_size=VOCABULARY, uniforms=Uniforms(0, 64), capacity=64, device="cpu", **settings)
    )


@torch.inference_mode()
def test_each_guess_comes_from_the_state_after_the_lower_layers(folders, each_engine):
    ids = [(5 * i + 3) % VOCABULARY for i in range(20)]
    begin(each_engine, ids, sampling=SamplingParams(1.0), history=None)
    draft = each_engine.drafts.drafter("exit").propose(ids, 4, 0)
    assert len(draft) == draft.passes == 4 and draft.parents is None
    for k, q in enumerate(draft.q):
        row = expected(folders, ids + draft.tokens[:k].tolist()).softmax(-1)[0]
        assert torch.allclose(q[WORDS], row, atol=1e-4) and q[WORDS + 1].sum() == 0
    each_engine.target.runner.release()


@torch.inference_mode()
def test_what_was_trained_is_what_drafts(folders, engine):
    """`distil` reads the state of token t; the guess is for token t + 1."""
    ids, target = [(7 * i + 2) % VOCABULARY for i in range(16)], engine.target.runner
    target.tap((LAYER,))
    begin(engine, [*ids, 0], sampling=SamplingParams(1.0), history=None)
    batch = Batch(None, target.features((LAYER,), 0, 16)[None], None, None, None)
    row = folders.student.logits(folders.student.states(batch, 1)[0][0, 15], WORDS).softmax(-1)
    target.tap(())
    begin(engine, ids, sampling=SamplingParams(1.0), history=None)
    assert torch.allclose(engine.drafts.drafter("exit").propose(ids, 1, 0).q[0, WORDS], row, atol=1e-4)
    target.release()


@torch.inference_mode()
def test_drafting_writes_the_keys_and_values_that_verifying_writes_again(each_engine):
    """So nothing that was cached changes, and the cache of the target is the only one."""
    engine, ids = each_engine, [(5 * i + 3) % VOCABULARY for i in range(20)]
    target = engine.target.runner
    begin(engine, ids, sampling=SamplingParams(), history=None)
    before = target.cache.keys[:, :, :19].clone()
    draft = engine.drafts.drafter("exit").propose(ids, 3, 0)
    assert target.length == 19 and torch.equal(target.cache.keys[:, :, :19], before)
    assert engine.drafts.drafter("exit").memory(64) == 0 and engine.drafts.drafter("exit").runner.cache is target.cache
    drafted = [side[:LAYER, :, 19:22].clone() for side in (target.cache.keys, target.cache.values)]
    target.forward(torch.tensor([ids[-1], *draft.tokens.tolist()]))
    for ours, side in zip(drafted, (target.cache.keys, target.cache.values), strict=True):
        assert torch.allclose(ours, side[:LAYER, :, 19:22], atol=1e-5) and ours.abs().max() > 0.01
    target.release()


@torch.inference_mode()
def test_a_penalty_falls_on_committed_tokens_and_on_the_drafts_before(folders, engine):
    ids, params = [3, 4, 10, 11, 100, 101], SamplingParams(1.0, repetition_penalty=3.0)
    begin(engine, ids, sampling=params, history=History(ids, VOCABULARY, "cpu"))
    draft = engine.drafts.drafter("exit").propose(ids, 3, 0)
    for k, q in enumerate(draft.q):
        text = ids + draft.tokens[:k].tolist()
        seen = torch.zeros(VOCABULARY, dtype=torch.bool)
        seen[text] = True
        row = warp(penalise(expected(folders, text), seen[WORDS][None], 3.0), params)[0]
        assert torch.allclose(q[WORDS], row, atol=1e-4)
    engine.target.runner.release()


@pytest.mark.parametrize("gamma", [1, 6, "auto"])
def test_greedy_output_is_the_targets_own(folders, each_engine, monkeypatch, gamma):
    monkeypatch.setitem(each_engine._costs, "exit", COSTS)
    whole = run(each_engine, "exit", gamma=gamma, max_new_tokens=40)
    prompt, ids = ids_of(whole)
    assert ids == generated(folders.model, prompt, 40)
    assert whole.started.exit_layers == (LAYER, folders.model.config.num_hidden_layers)
    counts = Counter(t.status for r in whole.rounds for t in r.tokens)
    assert counts["accepted"] and counts["rejected"] and all(r.draft_steps >= len(r.parents) for r in whole.rounds)


def p_value(folders, engine, runs=160, rules=TRUE_RULES, acceptance="token"):
    """Of the first two tokens of many seeds, against the target's joint law in transformers."""
    sampling, seen, statuses = SamplingParams(0.7, top_k=4), Counter(), Counter()
    asked = request(
        engine.pair.name, "exit", gamma=2, max_new_tokens=3, sampling=sampling, acceptance=acceptance, trace=False
    )
    for seed in range(runs):
        whole = fold(engine.run(replace(asked, seed=seed), rules=rules))
        seen[tuple(ids_of(whole)[1][:2])] += 1
        statuses.update(t.status for t in whole.rounds[0].tokens)
    assert min(statuses["accepted"], statuses["rejected"]) > 20, "one side of the rule was hardly tried"
    return joint_p_value(seen, two_token_law(folders.model, ids_of(whole)[0], sampling))


@pytest.mark.parametrize("acceptance", ["token", pytest.param("block", marks=pytest.mark.slow)])
def test_sampled_output_keeps_the_targets_law(folders, engine, monkeypatch, acceptance):
    monkeypatch.setitem(engine._costs, "exit", COSTS)
    assert p_value(folders, engine, 160 if acceptance == "token" else 400, acceptance=acceptance) > FALSE_ALARM


@pytest.mark.slow
def test_a_rule_that_ignores_q_is_caught_with_it(folders, engine, monkeypatch):
    monkeypatch.setitem(engine._costs, "exit", COSTS)
    assert p_value(folders, engine, 400, next(m.rules for m in MUTANTS if m.name == "q-ignored")) < CAUGHT


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_a_run_repeats_from_its_own_pins(engine, monkeypatch, temperature):
    asked = {"gamma": "auto", "max_new_tokens": 40, "temperature": temperature}
    monkeypatch.setitem(engine._costs, "exit", COSTS)
    first = run(engine, "exit", **asked)
    pins = [(r.gamma, r.draft_steps, "", r.parents) for r in first.rounds]
    assert len(set(pins)) > 1
    assert without_clocks(run(engine, "exit", pins, **asked)) == without_clocks(first)


def test_it_drafts_beside_others_what_it_drafts_alone(engine):
    """Each run on the cache of its own."""
    asked = {
        (method, seed): request(engine.pair.name, method, gamma=2, max_new_tokens=20, temperature=0.8, seed=seed)
        for method, seed in (("exit", 0), ("exit", 1), ("none", 2), ("ngram", 3))
    }
    batch, found = RunBatch(engine, len(asked)), {name: [] for name in asked}
    for name, config in asked.items():
        batch.add(name, config, costs=COSTS)
    while len(batch):
        for name, event in batch.step():
            assert not isinstance(event, Exception), event
            found[name].append(event)
    for name, config in asked.items():
        ours, alone = (fold(events) for events in (iter(found[name]), engine.run(config, costs=COSTS)))
        assert [[t.id for t in r.tokens] for r in ours.rounds] == [[t.id for t in r.tokens] for r in alone.rounds]


def test_calibration_measures_a_step_for_each_draft(engine, monkeypatch):
    monkeypatch.setattr(calibration, "_seconds", lambda step, device: 1.0)
    costs = calibration.measure(engine.target.runner, engine.drafts.drafter("exit"), context=20, repeats=2)
    assert costs.c == pytest.approx(1 / 4)


def test_auto_leaves_it_out(engine):
    assert "exit" in engine.methods and "exit" not in engine.drafts.competitors()


# ── files ──


def test_the_head_is_stored_with_its_map_in_16_bits(folders):
    tensors, found = load_file(folders.root / "head" / FILE), local_model(folders.root / "head")
    R = ExitStudent.INNER
    shapes = {"gate.weight": (R, E), "up.weight": (R, E), "down.weight": (E, R), "norm_in": (E,), "norm": (E,)}
    assert {name: tuple(t.shape) for name, t in tensors.items()} == shapes | {"d2t": (len(WORDS),)}
    assert {t.dtype for name, t in tensors.items() if name != "d2t"} == {torch.float16}
    assert torch.equal(word_ids(tensors["d2t"], VOCABULARY, folders.root), WORDS)
    assert found.head == "exit" and found.hidden_size == E and found.vocab_size == len(WORDS)


def test_a_target_whose_output_layer_is_its_own_gets_its_rows_with_the_head(tmp_path):
    made = written(tmp_path, "llama")
    rows = load_file(tmp_path / "head" / "model.safetensors")["lm_head.weight"]
    assert torch.equal(rows, made.model.lm_head.weight[WORDS].half())
    assert run(load_engine(made.pair, "cpu"), "exit", gamma=2, max_new_tokens=6).emitted


def changed(folders, folder, settings, tensors):
    """The head with other settings and tensors; None leaves one out."""
    folder.mkdir()
    config = json.loads((folders.root / "head" / "config.json").read_text()) | settings
    (folder / "config.json").write_text(json.dumps({k: v for k, v in config.items() if v is not None}))
    stored = load_file(folders.root / "head" / FILE) | tensors
    save_file({name: t for name, t in stored.items() if t is not None}, folder / FILE)
    return f"{folders.root / 'target'}+{folder}"


REFUSED = {
    "another width": (
        {"hidden_size": 24},
        {},
        f"made for a target of width 24 and 264 words, this one has {E} and 264",
    ),
    "another vocabulary": ({"vocab_size": 99}, {}, f"of width {E} and 99 words, this one has {E} and 264"),
    "a layer it has not": ({"exit_layer": 3}, {}, "reads the state after 3 layers, but this target has 2"),
    "no layer": ({"exit_layer": 0}, {}, "describes no exit head: exit_layer"),
    "no inner size": ({"intermediate_size": None}, {}, "describes no exit head: intermediate_size"),
    "no map": ({}, {"d2t": None}, r"has no map of its words \(d2t\); export it again"),
    "a map of unknown words": ({}, {"d2t": torch.tensor([0, 300])}, "words that the target does not have"),
    "a tensor of another size": (
        {},
        {"gate.weight": torch.zeros(3, E)},
        rf"is \(3, {E}\), but config\.json says \(256, {E}\)",
    ),
    "a tensor missing": ({}, {"up.weight": None}, "has no tensor 'up.weight'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_head_that_does_not_fit_is_refused_in_a_sentence(folders, tmp_path, name):
    settings, tensors, words = REFUSED[name]
    engine = load_engine(changed(folders, tmp_path / "head", settings, tensors), "cpu")
    with pytest.raises(Unavailable, match=words) as refused:
        engine.drafts.drafter("exit")
    assert str(refused.value).count(". ") <= 1 and not engine.has("exit")


def test_folders_without_a_head_that_can_be_read(folders, tmp_path):
    changed(folders, tmp_path / "pickled", {}, {})
    (tmp_path / "pickled" / FILE).rename(tmp_path / "pickled" / "head.pt")
    with pytest.raises(BadInput, match=r"head\.pt is a pickle, which is never loaded"):
        get_pair(f"{folders.root / 'target'}+{tmp_path / 'pickled'}")
    with pytest.raises(BadInput, match=r"holds no exit head: its weights have no tensor 'down\.weight'"):
        get_pair(changed(folders, tmp_path / "other", {}, {"down.weight": None}))
    with pytest.raises(BadInput, match=r"holds an exit head, which only drafts for a target; name TARGET_DIR\+"):
        get_pair(f"{folders.root / 'head'}")


def test_a_target_without_layers_to_leave_early(folders, tmp_path):
    model_folder(tmp_path / "gpt", "gpt2")
    engine = load_engine(f"{tmp_path / 'gpt'}+{folders.root / 'head'}", "cpu")
    with pytest.raises(Unavailable, match="reads hidden states, which only our own decoder gives; use another method"):
        engine.drafts.drafter("exit")


# ── what each layer is worth ──


@torch.inference_mode()
def test_each_layer_is_read_as_the_last_one_is(folders, engine, monkeypatch):
    """Agreement counted by hand from transformers' states, on the tokens that the target wrote."""
    monkeypatch.setattr(exits, "_costs", lambda runner: {0: 0.2, 1: 0.6, 2: 1.0})
    for method in ("none", "exit"):
        monkeypatch.setitem(engine._costs, method, CostModel(0.5, {1: 1.0, 2: 1.1}, 200, 0.001))
    texts = ["the cat, the hat", "a b c"]
    results = exits.measure(engine, [Prompt(text, "chat") for text in texts], 20)
    assert [(each.layers, each.is_trained) for each in results] == [(0, False), (1, False), (2, False), (1, True)]
    assert engine.target.runner.model.taps == () and engine.target.runner.cache is None
    right, count, head = torch.zeros(3), 0, folders.model.lm_head
    for text in texts:
        prompt, ids = ids_of(run(engine, prompt=text, chat=True, max_new_tokens=20))
        states = list(folders.model.model(torch.tensor([[*prompt, *ids]]), output_hidden_states=True).hidden_states)
        states[:2] = [folders.model.model.norm(each) for each in states[:2]]  # the last one has been through it
        guesses = torch.stack([head(each[0]).argmax(-1)[len(prompt) - 1 : -1] for each in states])
        assert guesses[-1].tolist() == ids
        right, count = right + (guesses == guesses[-1]).sum(1), count + len(ids)
    assert [each.agreement for each in results[:3]] == pytest.approx((right / count).tolist())
    assert results[2].agreement == 1 and 0 < results[3].agreement < 1
    assert results[1].predicted == pytest.approx((1 + results[1].agreement) / (0.6 + 1.1))
    stored = json.loads(exits.to_json(engine, results))
    assert stored["precision"] == "fp32" and [exits.Exit(**each) for each in stored["exits"]] == results


def test_the_cost_of_a_layer_is_in_whole_steps(engine, monkeypatch):
    seconds = iter(range(1, 100))
    monkeypatch.setattr(calibration, "_seconds", lambda step, device: step() is None or float(next(seconds)))
    runner = exits._layered(engine)
    costs = exits._costs(runner)
    assert list(costs) == [0, 1, 2] and costs[2] == 1.0 and runner.cache is None

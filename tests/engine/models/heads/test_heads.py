"""Every head drafts as it was trained, from the target's own states; the output stays the target's own."""

from collections import Counter
from dataclasses import replace
from functools import cache

import head_cases
import pytest
import torch
from chi_squared import CAUGHT, FALSE_ALARM, joint_p_value, two_token_law
from closeness import approx, assert_close
from head_cases import CASE_OF, CASES, CHEAP, KINDS, PLAIN, TEXT, WORDS, E, begin, changed, engine_with
from safetensors.torch import load_file
from tiny_models import RUNTIMES
from tiny_pairs import (
    VOCABULARY,
    generated,
    ids_of,
    model_folder,
    read_late_at_once_and_blindly,
    request,
    run,
    without_clocks,
)

from engine.config import METHODS, SamplingParams
from engine.drafters.autoregressive import LONGEST_CATCH_UP
from engine.drafters.block import BlockDrafter
from engine.models.heads.reduced_output import word_ids
from engine.runtime import calibration
from engine.runtime.run_batch import RunBatch
from engine.sampling.warping import penalise, warp
from engine.trace.costs import CostModel
from engine.trace.trace import fold
from engine.weights.catalogue import get_pair, local_model

EACH_KIND = pytest.mark.parametrize("case", CASES, ids=lambda case: case.kind)
EACH_METHOD = pytest.mark.parametrize("method", CASE_OF)
EACH_RUNTIME = pytest.mark.parametrize("runtime", RUNTIMES)


@pytest.fixture(scope="module")
def engines(heads):
    """``engines(method, runtime)``: in ONNX Runtime, or in torch as on other devices. All have the same costs."""
    loaded = {}

    def engine(method: str, runtime="onnx"):
        key = (CASE_OF[method].kind, runtime)
        if key not in loaded:
            loaded[key] = head_cases.load_unrounded(heads.pair(key[0]), method, runtime)
        loaded[key]._costs |= dict.fromkeys(("none", "auto", *loaded[key].methods), CHEAP)
        return loaded[key]

    return engine


@EACH_RUNTIME
@EACH_KIND
@pytest.mark.parametrize("penalty", [3.0, pytest.param(1.0, marks=pytest.mark.slow)])
@torch.inference_mode()  # as in a run, which may have made the drafter's buffers
def test_drafts_are_what_was_trained(heads, engines, case, runtime, penalty):
    """A head that paused catches up first; a penalty falls on the text and on the drafts before."""
    params = SamplingParams(1.0, repetition_penalty=penalty)
    engine, settings = engines(case.method, runtime), {"counts_repeats": penalty > 1, "sampling": params}
    target, drafter = begin(engine, case.method, TEXT[:6], **settings)
    effects = []
    for known in (6, 7, 10, 10, 10 + LONGEST_CATCH_UP, 19 + LONGEST_CATCH_UP, 40, 41):
        target.prefill(TEXT[target.length : known - 1])
        before = target.cache.keys[:, :, : known - 1].clone()
        draft = drafter.propose(TEXT[:known], 5)
        drafts = draft.tokens.tolist()
        assert len(draft) == min(5, case.limit) and draft.passes == case.steps(5) and draft.parents is None
        assert target.length == known - 1 and torch.equal(target.cache.keys[:, :, : known - 1], before)
        right = head_cases.trained_logits(heads, case.kind, TEXT[:known], drafts)
        for k, (logits, q) in enumerate(zip(right, draft.q, strict=True)):
            seen = torch.zeros(VOCABULARY, dtype=torch.bool)
            seen[[*TEXT[:6], *drafts[:k]]] = True
            row = warp(penalise(logits[None], seen[WORDS][None], penalty), params)[0]
            assert_close(q[WORDS], row, logits)
            assert q.sum() == approx(1.0) and q[WORDS + 1].sum() == 0
            effects.append((row - logits.softmax(-1)).abs().max())
        drafter.commit(0)
    assert penalty == 1 or max(effects) > 0.01, "a penalty without effect would prove nothing"
    assert (draft.q[0] - draft.q[1]).abs().max() > 0.01, "drafts alike would prove nothing"
    target.release()
    drafter.release()


@EACH_RUNTIME
@torch.inference_mode()
def test_a_block_head_without_a_bias_ignores_the_guess_before(heads, tmp_path, runtime):
    """Each slot of the one with a bias says something else after another guess."""
    plain = changed(heads.root / "block" / "head", tmp_path / "plain", *PLAIN)
    engine = head_cases.load_unrounded(f"{heads.root}/block/target+{plain}", "block", runtime)
    draft = begin(engine, "block", TEXT[:12])[1].propose(TEXT[:12], 5)
    drafts = draft.tokens.tolist()
    right = head_cases.trained_logits(heads, "block", TEXT[:12], drafts, reads_guesses=False)
    biased = head_cases.trained_logits(heads, "block", TEXT[:12], drafts)
    for k, (logits, other, q) in enumerate(zip(right, biased, draft.q, strict=True)):
        assert_close(q[WORDS], logits.softmax(-1), logits)
        assert torch.equal(logits, other) == (k == 0)


@EACH_RUNTIME
@torch.inference_mode()
def test_exit_head_writes_the_same_keys_and_values_as_verifying(engines, runtime):
    """The target's cache can therefore be the only one."""
    target, drafter = begin(engines("exit", runtime), "exit", TEXT[:20])
    draft = drafter.propose(TEXT[:20], 3)
    assert drafter.memory(64) == 0 and drafter.runner.cache is target.cache
    drafted = [side[:1, :, 19:22].clone() for side in (target.cache.keys, target.cache.values)]
    target.forward(torch.tensor([TEXT[19], *draft.tokens.tolist()]))
    for ours, side in zip(drafted, (target.cache.keys, target.cache.values), strict=True):
        assert_close(ours, side[:1, :, 19:22])
        assert ours.abs().max() > 0.01
    target.release()


@EACH_RUNTIME
@EACH_METHOD
def test_greedy_output_is_the_targets_own(heads, engines, method, runtime):
    expected = None
    for gamma in (1, 6, "auto"):
        whole = run(engines(method, runtime), method, gamma=gamma, max_new_tokens=32)
        prompt, written = ids_of(whole)
        expected = expected or generated(heads.models[CASE_OF[method].kind], prompt, 32)
        assert written == expected
        longest = max(len(each.parents) for each in whole.rounds)
        assert longest > 1 if gamma == "auto" else longest == min(gamma, CASE_OF[method].limit)
        has_branched = any(len(set(each.parents)) < len(each.parents) for each in whole.rounds)
        assert has_branched == (method == "eagle" and gamma != 1)
    assert set(whole.started.weights) == {"target", "draft"}
    assert whole.started.exit_layers == ((1, 2) if method == "exit" else None)
    if method in ("medusa", "block"):
        assert {each.draft_steps for each in whole.rounds if each.parents} == {1}


@pytest.mark.parametrize("method", ["eagle-chain", "eagle", "block"])
def test_a_head_that_reads_late_drafts_as_if_it_had_read_before(engines, method):
    late, at_once, blindly = read_late_at_once_and_blindly(engines(method), method)
    assert late == at_once != blindly


FEW, MANY = SamplingParams(0.7, top_k=4), SamplingParams(0.5, top_p=0.9)
DRAWN = [  # method, γ, settings, acceptance, runs
    ("eagle", 3, FEW, "block", 160),
    *(
        pytest.param(*case, marks=pytest.mark.slow)
        for case in (
            ("medusa", 2, FEW, "token", 160), ("eagle-chain", 2, FEW, "token", 300),
            ("eagle", "auto", MANY, "token", 300), ("eagle", 3, MANY, "token", 300),
            ("block", "auto", FEW, "token", 300),
            ("block", 3, FEW, "block", 300), ("exit", 2, FEW, "token", 300),
        )
    ),
]  # fmt: skip


def p_value(heads, engine, method, gamma, params, acceptance, count) -> float:
    """Tests the first two tokens of many seeds against the target's joint law in transformers."""
    settings = {"gamma": gamma, "max_new_tokens": 4, "sampling": params, "acceptance": acceptance}
    asked = request(engine.pair.name, method, trace=False, **settings)
    runs = [fold(engine.run(replace(asked, seed=seed), drafts_first=True)) for seed in range(count)]
    assert {len({*r.rounds[0].parents}) < len(r.rounds[0].parents) for r in runs} == {method == "eagle"}
    statuses = Counter(token.status for each in runs for token in each.rounds[0].tokens)
    assert min(statuses["accepted"], statuses["rejected"]) > 20, "one side of the rule was hardly tried"
    seen = Counter(tuple(ids_of(each)[1][:2]) for each in runs)
    return joint_p_value(seen, two_token_law(heads.models[CASE_OF[method].kind], ids_of(runs[0])[0], params))


@pytest.mark.parametrize("method, gamma, params, acceptance, count", DRAWN)
def test_sampled_output_keeps_the_targets_law(heads, engines, monkeypatch, method, gamma, params, acceptance, count):
    engine = engines(method)
    monkeypatch.setitem(engine._costs, method, CostModel(0.001, {1: 1.0, 2: 1.0005}, 200, 0.001))
    assert p_value(heads, engine, method, gamma, params, acceptance, count) > FALSE_ALARM


@pytest.mark.slow
def test_a_block_whose_places_answer_for_each_other_is_caught(heads, engines, monkeypatch):
    """Each draft is reported with the q of the place before it."""
    propose = BlockDrafter.propose
    rolled = lambda draft: replace(draft, q=draft.q.roll(1, 0))  # noqa: E731
    monkeypatch.setattr(BlockDrafter, "propose", lambda *asked: rolled(propose(*asked)))
    assert p_value(heads, engines("block"), "block", 2, FEW, "token", 800) < CAUGHT


@EACH_METHOD
def test_a_prompt_of_one_token_has_no_state_to_read_yet(heads, engines, method):
    whole = run(engines(method), method, prompt="a", gamma="auto")
    prompt, written = ids_of(whole)
    assert len(prompt) == 1 and written == generated(heads.models[CASE_OF[method].kind], prompt, 16)
    assert any(each.parents for each in whole.rounds) and (method == "exit" or whole.rounds[0].parents == ())


@EACH_METHOD
@pytest.mark.parametrize("temperature", [0.9, pytest.param(0.0, marks=pytest.mark.slow)])
def test_a_run_with_a_head_repeats_from_its_own_pins(engines, monkeypatch, method, temperature):
    """It does so even where drafting no longer pays."""
    engine, asked = engines(method), {"gamma": "auto", "max_new_tokens": 40, "temperature": temperature}
    two = 1.1 if METHODS[method].drafts_at_once else 1.005
    monkeypatch.setitem(engine._costs, method, CostModel(0.02, {1: 1.0, 2: two}, 200, 0.001))
    first = run(engine, method, **asked)
    pins = [(each.gamma, each.draft_steps, "", each.parents) for each in first.rounds]
    assert len(set(pins)) > 1
    monkeypatch.setitem(engine._costs, method, CostModel(5.0, {1: 1.0, 2: 2.0}, 200, 0.001))
    again = run(engine, method, pins, **asked)
    assert {each.gamma for each in run(engine, method, **asked).rounds} == {0}
    if method == "eagle":  # q differs by rounding where a pass had fewer rows, and a repeated tree judges nothing
        assert verdicts(again) == verdicts(first)
    else:
        assert without_clocks(again) == without_clocks(first)


def verdicts(trace) -> list:
    return [(r.gamma, r.parents, [(t.id, t.status, t.u) for t in r.tokens]) for r in trace.rounds]


def test_heads_draft_beside_each_other_what_they_draft_alone(heads, monkeypatch):
    """Each on its own run's cache and from the layers that it reads, also a run that began before another head's layers
    were tapped."""
    monkeypatch.setattr("engine.models.onnx.graph.DRAFTS", "fp32")
    methods = ("medusa", "none", "ngram", "exit", "exit", "block", "eagle-chain", "block")
    together, alone = engine_with(heads, *KINDS), cache(lambda *kinds: engine_with(heads, *kinds))
    asked = [
        request(together.pair.name, method, gamma=2, max_new_tokens=20, temperature=0.8, seed=seed)
        for seed, method in enumerate(methods)
    ]
    batch, events, waiting = RunBatch(together, len(asked)), [[] for _ in asked], list(enumerate(asked))
    for _ in range(200):
        if waiting:  # one joins before each pass
            batch.add(*waiting.pop(0), costs=CHEAP)
        for name, event in batch.step():
            assert not isinstance(event, Exception), event
            events[name].append(event)
    assert together.target.runner.model.taps == (0, 1, 2)
    for config, own in zip(asked, events, strict=True):
        engine = alone(*{CASE_OF[config.method].kind} if config.method in CASE_OF else ())
        expected, ours = fold(engine.run(config, costs=CHEAP)), fold(iter(own))
        assert [[t.id for t in r.tokens] for r in ours.rounds] == [[t.id for t in r.tokens] for r in expected.rounds]


@EACH_KIND
def test_draft_costs_its_share_of_passes_and_auto_tries_what_competes(engines, monkeypatch, case):
    engine = engines(case.method)
    assert case.method in engine.methods and (case.method in engine.drafts.competitors()) == (
        case.method in ("eagle", "block")
    )
    monkeypatch.setattr(calibration, "_seconds", lambda step, device: step() is None or 1.0)
    costs = calibration.measure(engine.target.runner, engine.drafts.drafter(case.method), context=20, repeats=2)
    assert costs.c == pytest.approx(1 / case.steps(4))
    assert engine.target.runner.cache is None and engine.target.runner.tapped is None


@EACH_KIND
def test_a_head_is_stored_in_16_bits_with_the_map_of_its_words(heads, case):
    folder = heads.root / case.kind / "head"
    assert list(get_pair(heads.pair(case.kind)).drafts) == [case.kind]
    tensors, found = load_file(folder / case.file), local_model(folder)
    words = {name: tensors.pop(name) for name in ("d2t", "t2d") if name in tensors}
    assert {tensor.dtype for tensor in tensors.values()} == {case.dtype}
    assert torch.equal(word_ids(words["d2t"], VOCABULARY, folder), WORDS)
    assert not case.shapes or {name: tuple(tensor.shape) for name, tensor in tensors.items()} == case.shapes
    assert (found.head, found.hidden_size) == (case.kind, E)
    assert found.parameters == sum(tensor.numel() for tensor in tensors.values())


@EACH_RUNTIME
@pytest.mark.parametrize("kind", ["block", "medusa", "exit"])
@torch.inference_mode()
def test_target_with_its_own_output_layer_gets_its_rows_with_the_head(tmp_path, kind, runtime):
    """A head without them reads them from the target; they are the same but for their 16 bits."""
    model, case = model_folder(tmp_path / "target"), KINDS[kind]
    with torch.no_grad():
        model.lm_head.weight.copy_(model.lm_head.weight.to(case.dtype))
    model.save_pretrained(tmp_path / "target")
    case.write(tmp_path / "target", tmp_path / "head")
    rows = load_file(tmp_path / "head" / case.file)["lm_head.weight"]
    assert torch.equal(rows, model.lm_head.weight[WORDS].to(case.dtype))
    bare = changed(tmp_path / "head", tmp_path / "bare", {}, {"lm_head.weight": None})
    drafts = []
    for folder in (tmp_path / "head", bare):
        engine = head_cases.load_unrounded(f"{tmp_path}/target+{folder}", kind, runtime)
        drafts.append(begin(engine, kind, TEXT[:12])[1].propose(TEXT[:12], 2).q)
    assert_close(*drafts)
    assert drafts[0].max() > 0.01

"""The EAGLE head drafts as it was trained, and the target's output stays its own."""

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from chi_squared import FALSE_ALARM, joint_p_value, two_token_law
from tiny_models import RUNTIMES
from tiny_pairs import VOCABULARY, engine_in, generated, ids_of, model_folder, run, without_clocks

from engine.bench import shapes
from engine.bench.prompts import Prompt
from engine.config import SamplingParams
from engine.drafters import eagle3 as drafting
from engine.drafters.base import Draft, DrafterSetup
from engine.errors import BadInput, Unavailable
from engine.runtime.engine import load_engine
from engine.sampling.random_streams import Uniforms
from engine.sampling.warping import History, penalise, warp
from engine.trace.events import CostModel
from engine.training import export
from engine.training.students import new_eagle
from engine.training.teacher import Teacher
from engine.weights.catalogue import get_pair, local_model

WORDS = torch.arange(0, VOCABULARY, 2)  # every second word: some of the target's favourites are out of reach
TAPS = (0, 1, 2)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A target and a head that was never trained, but whose every weight is its own."""
    root = tmp_path_factory.mktemp("eagle")
    model = model_folder(root / "target", seed=11)
    teacher = Teacher.load(root / "target", "cpu")
    torch.manual_seed(1)
    student = new_eagle(teacher, WORDS, len(TAPS), teacher.layer, torch.ones(len(TAPS)))
    with torch.no_grad():
        for parameter in student.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter)).copy_(parameter.bfloat16())
        student.module.head.copy_(student.module.head.bfloat16())
    export.eagle(student, teacher, TAPS, None, root / "head", "a card")
    return SimpleNamespace(root=root, model=model, teacher=teacher, student=student, pair=f"{root}/target+{root}/head")


@pytest.fixture(scope="module")
def engine(folders):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("engine.models.onnx_graph.DRAFTS", "fp32")  # rounding would hide a wrong feature
        engine = load_engine(folders.pair, "cpu")
        engine.drafts.drafter("eagle-chain")
    return engine


@pytest.fixture(scope="module", params=RUNTIMES)
def each_engine(folders, request):
    """One whose head runs in ONNX Runtime, and one in which torch runs it, as on other devices."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("engine.models.onnx_graph.DRAFTS", "fp32")
        return engine_in(request.param, folders.pair, "eagle")


def trained_logits(folders, target, known: list[int], draft) -> tuple[list, torch.Tensor]:
    """The trained module's logits [1, Vd] for each draft, and the text with the drafts; the last known token has no
    features yet."""
    tokens = torch.tensor([known + draft.tokens.tolist()])
    features = torch.zeros(1, tokens.shape[1], target.tapped.shape[1])
    features[0, : len(known) - 1] = target.tapped[: len(known) - 1]
    states = folders.student.module.rollout(tokens, features, len(draft))
    return [folders.student.module.logits(s[0, len(known) - 2])[None] for s in states], tokens


@torch.inference_mode()  # as in a run, which may have made the drafter's buffers
def test_a_head_drafts_what_the_trained_module_computes(folders, each_engine):
    """Rounds by hand, each with features of the text before it, then steps from its own state.

    After a long pause it catches up first, and asked twice for the same text it guesses the same.
    """
    target, drafter = each_engine.target.runner, each_engine.drafts.drafter("eagle-chain")
    ids = [(5 * i + 3) % VOCABULARY for i in range(48)]
    setup = DrafterSetup(SamplingParams(1.0), VOCABULARY, Uniforms(0, 64), None, 64, "cpu")
    target.reset(64)
    target.prefill(ids[:5])
    drafter.start(ids[:6], setup)
    caught_up = drafting.LONGEST_CATCH_UP
    for known in (6, 7, 10, 10, 10 + caught_up, 19 + caught_up, 40, 41):
        target.prefill(ids[target.length : known - 1])
        draft = drafter.propose(ids[:known], 3, 0)
        for row, q in zip(trained_logits(folders, target, ids[:known], draft)[0], draft.q, strict=True):
            assert torch.allclose(q[WORDS], row[0].softmax(-1), atol=1e-4)
            assert q.sum() == pytest.approx(1.0, abs=1e-5) and q[WORDS + 1].sum() == 0
        drafter.commit(0)
    target.release()


@torch.inference_mode()
@pytest.mark.parametrize("penalty", [1.0, 3.0])
def test_a_tree_has_what_the_trained_module_guesses_after_each_path(folders, each_engine, penalty):
    """Every node's children are the likeliest words after its own path; the paths beside it do not mislead it."""
    target, drafter, words = each_engine.target.runner, each_engine.drafts.drafter("eagle"), WORDS.tolist()
    ids = [(5 * i + 3) % VOCABULARY for i in range(20)]
    history = History(ids, VOCABULARY, "cpu") if penalty != 1.0 else None
    params = SamplingParams(repetition_penalty=penalty)
    setup = DrafterSetup(params, VOCABULARY, Uniforms(0, 64), history, 128, "cpu", trees=True)
    target.reset(128)
    target.prefill(ids[:-1])
    drafter.start(ids, setup)
    draft = drafter.propose(ids, 14, 0)
    paths = [[]]
    for token, parent in zip(draft.tokens.tolist(), draft.parents, strict=True):
        paths.append([*paths[parent], token])
    for node, path in enumerate(paths):
        guesses = Draft(torch.tensor([*path, 0]))  # the last one may be any
        logits = trained_logits(folders, target, ids, guesses)[0][len(path)][0]
        if history is not None:
            seen = torch.zeros(VOCABULARY, dtype=torch.bool)
            seen[[*ids, *path]] = True
            logits = penalise(logits[None], seen[WORDS][None], penalty)[0]
        best = logits.topk(10)
        children = [i for i, parent in enumerate(draft.parents, start=1) if parent == node]
        assert [words.index(paths[child][-1]) for child in children] == best.indices[: len(children)].tolist()
    assert len(draft) == 14 and len(set(draft.parents)) < 14 and draft.passes > 1
    target.release()
    drafter.release()


@pytest.mark.parametrize("gamma", [1, 4, "auto"])
@pytest.mark.parametrize("method", ["eagle-chain", "eagle"])
def test_greedy_output_is_the_targets_own(folders, each_engine, monkeypatch, method, gamma):
    monkeypatch.setitem(each_engine._costs, method, CostModel(0.02, {1: 1.0, 2: 1.01}, 200, 0.001))
    whole = run(each_engine, method, gamma=gamma, max_new_tokens=40)
    prompt, written = ids_of(whole)
    assert written == generated(folders.model, prompt, 40)
    assert set(whole.started.weights) == {"target", "draft"}
    has_branched = any(len(set(r.parents)) < len(r.parents) for r in whole.rounds)
    assert has_branched == (method == "eagle" and gamma != 1)


FEW, MANY = SamplingParams(0.7, top_k=4), SamplingParams(0.5, top_p=0.9)
DRAWN = [  # method, γ, settings, acceptance, runs
    ("eagle-chain", 2, FEW, "token", 400),
    ("eagle", 3, FEW, "block", 300),
    *(
        pytest.param(*case, marks=pytest.mark.slow)
        for case in (
            ("eagle", "auto", MANY, "token", 600),
            ("eagle", "auto", FEW, "block", 600),
            ("eagle", 3, MANY, "token", 600),
        )
    ),
]


@pytest.mark.parametrize("method, gamma, params, acceptance, count", DRAWN)
def test_sampled_output_keeps_the_targets_law(folders, engine, monkeypatch, method, gamma, params, acceptance, count):
    """The first two tokens of many seeded runs against the target's own joint law, at a false-alarm rate of 1e-4."""
    monkeypatch.setitem(engine._costs, method, CostModel(0.001, {1: 1.0, 2: 1.0005}, 200, 0.001))
    asked = {"gamma": gamma, "max_new_tokens": 4, "sampling": params, "acceptance": acceptance}
    runs = [run(engine, method, seed=s, **asked) for s in range(count)]
    branched = sum(len(set(r.rounds[0].parents)) < len(r.rounds[0].parents) for r in runs)
    assert branched == (count if method == "eagle" else 0)
    seen = Counter(tuple(ids_of(each)[1][:2]) for each in runs)
    statuses = Counter(t.status for r in runs for t in r.rounds[0].tokens)
    assert min(statuses["accepted"], statuses["rejected"]) > 50, "one side of the rule was hardly tried"
    assert joint_p_value(seen, two_token_law(folders.model, ids_of(runs[0])[0], params)) > FALSE_ALARM


@torch.inference_mode()  # as in a run, which may have made the drafter's buffers
def test_a_penalty_falls_on_the_right_words_of_the_reduced_vocabulary(folders, engine):
    """Both on committed tokens and on the drafts before; the map must not be forgotten on the way."""
    target, drafter = engine.target.runner, engine.drafts.drafter("eagle-chain")
    ids, params = [3, 4, 10, 11, 100, 101], SamplingParams(1.0, repetition_penalty=3.0)
    target.reset(40)
    target.prefill(ids[:-1])
    drafter.start(ids, DrafterSetup(params, VOCABULARY, Uniforms(0, 40), History(ids, VOCABULARY, "cpu"), 40, "cpu"))
    draft = drafter.propose(ids, 3, 0)
    logits, tokens = trained_logits(folders, target, ids, draft)
    for k, (row, q) in enumerate(zip(logits, draft.q, strict=True)):
        seen = torch.zeros(VOCABULARY, dtype=torch.bool)
        seen[tokens[0, : len(ids) + k]] = True
        plain, penalised = row.softmax(-1)[0], warp(penalise(row, seen[WORDS][None], 3.0), params)[0]
        assert torch.allclose(q[WORDS], penalised, atol=1e-4) and not torch.allclose(plain, penalised, atol=1e-4)
    target.release()
    drafter.release()


def test_a_penalised_run_is_the_plain_one(folders, engine):
    settings = {"sampling": SamplingParams(repetition_penalty=1.8), "gamma": 3, "max_new_tokens": 30}
    prompt, written = ids_of(run(engine, "eagle", **settings))
    assert written == generated(folders.model, prompt, 30, repetition_penalty=1.8)


def test_a_branch_at_a_rounds_end_is_the_rest_of_its_run(engine):
    """The head reads the features of the prefix, too."""
    asked = {"gamma": 3, "max_new_tokens": 40, "temperature": 0.9, "seed": 5}
    first = run(engine, "eagle", **asked)
    ended = [token.id for each in first.rounds[:6] for token in each.emitted]
    again = run(engine, "eagle", prefix=ended, **asked)
    assert again.output == first.output and again.text == first.text
    verdicts = [[(t.id, t.status, t.u) for t in each.tokens] for each in first.rounds[6:]]
    assert [[(t.id, t.status, t.u) for t in each.tokens] for each in again.rounds] == verdicts


@pytest.mark.parametrize("method", ["eagle-chain", "eagle", "auto"])
def test_a_prompt_of_one_token_has_no_state_to_read_yet(folders, engine, monkeypatch, method):
    for each in ("none", "eagle", "eagle-chain"):
        monkeypatch.setitem(engine._costs, each, CostModel(0.02, {1: 1.0, 2: 1.01}, 200, 0.001))
    whole = run(engine, method, prompt="a", gamma="auto")
    prompt, written = ids_of(whole)
    assert len(prompt) == 1 and written == generated(folders.model, prompt, 16)
    assert whole.rounds[0].parents == () and any(r.parents for r in whole.rounds)


@pytest.mark.slow
def test_to_the_very_end_of_the_context(folders, engine):
    """Where a whole γ no longer fits, shorter drafts are made and the text is still the target's own."""
    room = 256 - len(run(engine, max_new_tokens=1).started.prompt)
    expected = None
    for method in ("eagle-chain", "eagle"):
        prompt, written = ids_of(run(engine, method, gamma=7, max_new_tokens=room))
        expected = expected or generated(folders.model, prompt, room)
        assert written == expected


def test_features_follow_the_path_of_a_tree(engine):
    """Of a tree only the kept path's features stay, in the places a chain would have put them."""
    target, ids = engine.target.runner, [7, 8, 9]
    tree, parents, path = torch.tensor([20, 21, 22, 23, 24]), [0, 0, 2, 2], [0, 2, 4]
    target.reset(16)
    target.prefill(ids)
    target.forward(tree, parents)
    target.keep(3, path)
    kept = target.tapped[:6].clone()
    target.rollback(0)
    target.prefill([*ids, *tree[path].tolist()])
    assert target.length == 6 and torch.allclose(kept, target.tapped[:6], atol=1e-4)
    assert (kept[3:] - kept[:3]).abs().min(0).values.max() > 0.1, "rows alike would prove nothing"
    target.release()


def test_its_costs_are_measured_like_any_other_drafts(engine):
    costs = engine.costs("eagle", again=True)
    assert costs.c > 0 and costs.v[1] == 1.0
    assert engine.target.runner.cache is None and engine.target.runner.tapped is None
    assert engine.drafts.loaded["eagle"].runner.cache is None


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_auto_repeats_from_its_own_pins(engine, monkeypatch, temperature):
    asked = {"gamma": "auto", "max_new_tokens": 60, "temperature": temperature}
    monkeypatch.setitem(engine._costs, "eagle", CostModel(0.02, {1: 1.0, 2: 1.005}, 200, 0.001))
    first = run(engine, "eagle", **asked)
    pins = [(r.gamma, r.draft_steps, "", r.parents) for r in first.rounds]
    assert len(set(pins)) > 2
    assert any(len(set(r.parents)) < len(r.parents) for r in first.rounds)
    monkeypatch.setitem(engine._costs, "eagle", CostModel(5.0, {1: 1.0, 2: 2.0}, 200, 0.001))  # now it pays nowhere
    again = run(engine, "eagle", pins, **asked)
    assert verdicts(again) == verdicts(first)
    if not temperature:  # q differs by rounding where a pass had fewer rows
        assert without_steps(again) == without_steps(first)
    assert {r.gamma for r in run(engine, "eagle", **asked).rounds} == {0}


def verdicts(trace) -> list:
    return [(r.gamma, r.parents, [(t.id, t.status, t.u) for t in r.tokens]) for r in trace.rounds]


def without_steps(trace) -> str:
    """A repeated tree takes no step after which nothing was worth a row, and judges nothing."""
    unjudged = [tuple(replace(t, expected=None) for t in r.tokens) for r in trace.rounds]
    rounds = [replace(r, draft_steps=0, row_cost=None, tokens=t) for r, t in zip(trace.rounds, unjudged, strict=True)]
    return without_clocks(replace(trace, rounds=tuple(rounds)))


def test_a_folder_with_a_head_is_known_as_one(folders):
    pair = get_pair(folders.pair)
    assert list(pair.drafts) == ["eagle"] and pair.drafts["eagle"].head == "eagle" and not pair.target.head
    stored = local_model(folders.root / "head")
    assert stored.parameters > 0 and stored.vocab_size == VOCABULARY
    with pytest.raises(
        BadInput, match="has no 'lm' draft; choose from none, ngram, quantised, lookahead, eagle, eagle-chain"
    ):
        load_engine(folders.pair, "cpu").drafts.drafter("lm")


def test_a_head_alone_is_no_target(folders):
    head = folders.root / "head"
    for pair in (f"{head}", f"{head}+{head}"):
        with pytest.raises(BadInput, match=r"holds an EAGLE head, which only drafts for a target; name TARGET_DIR\+"):
            get_pair(pair)


def test_a_target_without_hidden_states_to_read(folders, tmp_path):
    model_folder(tmp_path / "gpt", "gpt2")
    engine = load_engine(f"{tmp_path / 'gpt'}+{folders.root / 'head'}", "cpu")
    with pytest.raises(Unavailable, match="reads hidden states, which only our own decoder gives; use another method"):
        engine.drafts.drafter("eagle")
    assert run(engine, max_new_tokens=4).emitted


def test_shapes_are_compared_at_the_costs_measured_and_at_those_assumed(engine, monkeypatch):
    """The tree of the second place is larger because its rows are cheap there; all write the same text."""
    steep = CostModel(0.1, {1: 1.0, 2: 1.3}, 200, 0.001)
    for method in ("none", "eagle", "eagle-chain"):
        monkeypatch.setitem(engine._costs, method, steep)
    found = shapes.compare(engine, [Prompt("the cat, the hat", "chat")], 24, slope=0.002)
    places = [
        (shapes.CHAIN, shapes.HERE),
        (shapes.TREE, shapes.HERE),
        (shapes.CHAIN, shapes.ASSUMED),
        (shapes.TREE, shapes.ASSUMED),
    ]
    assert [(each.method, each.where) for each in found] == places
    *_, chain, tree = found
    assert tree.drafted > chain.drafted and tree.tau >= chain.tau >= 1.0
    cost = chain.steps * 0.1 + 1 + 0.002 * chain.drafted
    assert chain.predicted == pytest.approx(chain.tau / cost) and chain.rate > 0
    assert len(chain.by_rank) == 1 < len(tree.by_rank) and tree.costs.v[2] == 1.002
    many = replace(tree, by_rank=((40, 100), (10, 50), (1, 19)))
    assert many.chances == [0.4, 0.2]
    parents, speedup = tree.static_tree(many.chances)
    assert len({*parents}) < len(parents) and speedup > tree.static_tree([0.4])[1] > 1


def test_a_pass_over_a_tree_is_timed_beside_one_over_a_chain(engine):
    chain, tree, cut = shapes.pass_seconds(engine, rows=8, context=16, repeats=3)
    assert min(chain, tree, cut) > 0 and engine.target.runner.cache is None

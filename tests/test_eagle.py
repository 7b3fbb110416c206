"""The EAGLE head: what was trained is what drafts, and the target's output stays its own."""

from collections import Counter
from types import SimpleNamespace

import pytest
import torch
from pairs import VOCABULARY, generated, model_folder, request
from tiny import FALSE_ALARM, joint_p_value, one_thread  # noqa: F401

from engine.config import SamplingParams
from engine.drafters.base import Setup
from engine.loading import load_engine
from engine.sampling import Uniforms, warp
from engine.trace import fold
from engine.training import export
from engine.training.students import new_eagle
from engine.training.teacher import Teacher

WORDS = torch.arange(0, VOCABULARY, 2)  # every second word: some of the target's favourites are out of reach
TAPS = (0, 1, 2)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A target and a head that was never trained, but whose every weight is its own."""
    root = tmp_path_factory.mktemp("eagle")
    model = model_folder(root / "target")
    teacher = Teacher.load(root / "target", "cpu")
    torch.manual_seed(1)
    student = new_eagle(teacher, WORDS, len(TAPS), teacher.layer, torch.ones(len(TAPS)))
    with torch.no_grad():
        for parameter in student.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter)).copy_(parameter.bfloat16())
        student.module.head.copy_(student.module.head.bfloat16())
    export.eagle(student, teacher, TAPS, root / "head", "a card")
    return SimpleNamespace(root=root, model=model, teacher=teacher, student=student, pair=f"{root}/target+{root}/head")


@pytest.fixture(scope="module")
def engine(folders):
    engine = load_engine(folders.pair, "cpu")
    engine.drafter("eagle")
    return engine


def test_a_head_drafts_what_the_trained_module_computes(folders, engine):
    """Three rounds by hand, each with features of what came before, then steps from its own state."""
    target, drafter = engine.target.runner, engine.drafter("eagle")
    ids = [(5 * i + 3) % VOCABULARY for i in range(14)]
    setup = Setup(SamplingParams(1.0), VOCABULARY, Uniforms(0, 64), None, 64, "cpu")
    target.reset(64)
    target.prefill(ids[:5])
    drafter.start(ids[:6], setup)
    for known in (6, 7, 10):  # committed tokens; the last of them has no features yet
        target.prefill(ids[target.length : known - 1])
        draft = drafter.propose(ids[:known], 3, 0)
        tokens = torch.tensor([ids[:known] + draft.tokens.tolist()])
        features = torch.zeros(1, tokens.shape[1], target.tapped.shape[1])
        features[0, : known - 1] = target.tapped[: known - 1]
        with torch.no_grad():
            states = folders.student.module.rollout(tokens, features, 3)
            rows = [folders.student.module.logits(s[0, known - 2]).softmax(-1) for s in states]
        for row, q in zip(rows, draft.q, strict=True):
            assert torch.allclose(q[WORDS], row, atol=1e-4)
            assert q.sum() == pytest.approx(1.0, abs=1e-5) and q[WORDS + 1].sum() == 0
        drafter.commit(0)
    target.release()


@pytest.mark.parametrize("gamma", [1, 4, "auto"])
def test_greedy_output_is_the_targets_own(folders, engine, gamma):
    whole = fold(engine.run(request(engine.pair.name, "eagle", gamma=gamma, max_new_tokens=40)))
    assert [t.id for t in whole.emitted] == generated(folders.model, [p.id for p in whole.started.prompt], 40)
    assert set(whole.started.weights) == {"target", "draft"}


def test_sampled_output_keeps_the_targets_law(folders, engine):
    """The first two tokens of many seeded runs against the target's own joint law, at a false-alarm rate of 1e-4."""
    params = SamplingParams(0.7, top_k=4)
    asked = {"gamma": 2, "max_new_tokens": 3, "sampling": params}
    runs = [fold(engine.run(request(engine.pair.name, "eagle", seed=s, **asked))) for s in range(1500)]
    prompt = [p.id for p in runs[0].started.prompt]
    seen = Counter(tuple(t.id for t in r.emitted[:2]) for r in runs)
    statuses = Counter(t.status for r in runs for t in r.rounds[0].tokens)
    assert min(statuses["accepted"], statuses["rejected"]) > 50, "one side of the rule was hardly tried"
    law = {}
    with torch.no_grad():
        first = warp(folders.model(torch.tensor([prompt])).logits[0, -1:], params)[0]
        for a in first.nonzero()[:, 0].tolist():
            second = warp(folders.model(torch.tensor([[*prompt, a]])).logits[0, -1:], params)[0]
            law |= {(a, b): float(first[a] * second[b]) for b in second.nonzero()[:, 0].tolist()}
    assert joint_p_value(seen, law) > FALSE_ALARM

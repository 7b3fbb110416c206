"""A target with rounded weights is a target like any other: drafts keep its law, and its greedy text to the bit."""

from collections import Counter
from types import SimpleNamespace

import pytest
import torch
from chi_squared import CAUGHT, FALSE_ALARM, joint_law, joint_p_value
from tiny_models import seeded
from tiny_pairs import VOCABULARY, ids_of, model_folder, run

from engine.config import SamplingParams
from engine.errors import Unavailable
from engine.models.onnx.llama import OnnxLlama
from engine.runtime import pair_models
from engine.runtime.engine import load_engine
from engine.tools.training import export
from engine.tools.training.students import EagleStudent
from engine.tools.training.teacher import Teacher
from engine.trace.costs import CostModel

SIZES = {"intermediate_size": 96}  # 32 divides every width
TAPS, RUNS = (0, 1, 2), 300
SAMPLING = SamplingParams(1.0, top_k=5)
CHEAP = CostModel(0.001, {1: 1.0, 2: 1.0005}, 200, 0.001)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """A target, a draft that often agrees with it, and a head that was never trained."""
    root = tmp_path_factory.mktemp("rounded")
    model_folder(root / "target", **SIZES)
    model_folder(root / "draft", noise=0.05, **SIZES)
    teacher = Teacher.load(root / "target", "cpu")
    with seeded(1), torch.no_grad():
        student = EagleStudent.new(teacher, torch.arange(0, VOCABULARY, 2), torch.ones(len(TAPS)))
        for parameter in student.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    export.eagle(student, teacher, TAPS, None, root / "head", "a card")
    return SimpleNamespace(lm=f"{root}/target+{root}/draft", eagle=f"{root}/target+{root}/head")


@pytest.fixture(scope="module", params=["int8", pytest.param("int4", marks=pytest.mark.slow)])
def engines(request, pair):
    """Loads engines by the kind of draft, with costs at which drafts pay, so that auto drafts."""
    loaded = {kind: load_engine(getattr(pair, kind), "cpu", request.param) for kind in ("lm", "eagle")}
    if not loaded["lm"].target.runner.same_bits:
        with pytest.raises(Unavailable, match=r"gives an .* other numbers than plain steps"):
            run(loaded["lm"], "ngram")
        pytest.skip("no number of rows keeps the bits on this processor, and drafting is refused")
    for engine in loaded.values():
        engine._costs |= {method: CHEAP for method in engine.methods}
    return loaded


@pytest.mark.parametrize("fewest", [1, 2])
def test_a_draft_model_doubles_no_rows_for_the_sake_of_their_bits(pair, monkeypatch, fewest):
    """As on a processor whose products by four bits have other bits for a single row (2), and on another (1)."""

    def choose(model) -> bool:
        model._alone.fewest, model._fewest = 2, fewest
        return True

    monkeypatch.setattr(OnnxLlama, "_choose_fewest", choose)
    monkeypatch.setattr(pair_models, "MOST_MOVED", 1.0)  # such small models round badly, and then run in fp32
    engine = load_engine(pair.lm, "cpu", "int4")
    target, draft = engine.target.runner.model, engine.drafts.load("lm").runner.model
    assert (
        target.same_bits
        and draft.precision == "int4"
        and (target.doubles_rows, draft.doubles_rows) == (fewest == 2, False)
    )
    assert draft.same_bits == (fewest == 1), "a draft without costly rows keeps its prompts"


@torch.inference_mode()
def own_law(engine, prompt: list[int], sampling) -> dict:
    """The engine's target's own joint law of the two tokens after ``prompt``."""
    runner = engine.target.runner

    def logits_after(ids):
        runner.reset(len(prompt) + 8)
        runner.prefill(ids[:-1])
        row = runner.forward(torch.tensor(ids[-1:])).clone()
        runner.release()
        return row

    return joint_law(logits_after, prompt, sampling)


@pytest.mark.slow
@pytest.mark.parametrize("acceptance", ["token", "block"])
def test_sampled_output_keeps_the_rounded_targets_law(engines, pair, acceptance):
    """The second shows that the first could tell a target from its rounded copy."""
    asked = {"gamma": 3, "max_new_tokens": 3, "sampling": SAMPLING, "acceptance": acceptance, "trace": False}
    runs = [run(engines["lm"], "lm", seed=seed, drafts_first=True, **asked) for seed in range(RUNS)]
    statuses = Counter(token.status for each in runs for token in each.rounds[0].tokens)
    assert min(statuses["accepted"], statuses["rejected"]) > 50, f"one side of the rule was hardly tried: {statuses}"
    seen, prompt = Counter(tuple(ids_of(each)[1][:2]) for each in runs), ids_of(runs[0])[0]
    assert joint_p_value(seen, own_law(engines["lm"], prompt, SAMPLING)) > FALSE_ALARM
    assert joint_p_value(seen, own_law(load_engine(pair.lm, "cpu", "fp32"), prompt, SAMPLING)) < CAUGHT


@pytest.mark.parametrize("method", ["ngram", "lm", "eagle", "eagle-chain", "auto"])
def test_greedy_text_is_the_plain_text(engines, method):
    engine = engines["eagle" if method.startswith("eagle") else "lm"]
    for prompt in ("the cat, the hat, the cat", "another", "a b a b a b"):
        plain = run(engine, "none", prompt=prompt, max_new_tokens=32)
        drafted = run(engine, method, prompt=prompt, max_new_tokens=32, gamma="auto" if method == "auto" else 3)
        assert ids_of(drafted)[1] == ids_of(plain)[1]
        assert all(set(r.parents) == {*range(len(r.parents))} for r in drafted.rounds), "trees have other bits"

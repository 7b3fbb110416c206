"""A new kind of head: what one entry in each of two registries gives it."""

import pytest
import torch
import toy_head
from shared_passes import drive
from tiny_pairs import VOCABULARY, engine_in, generated, ids_of, model_folder, request, run

from engine.config import METHODS, load_object
from engine.errors import BadInput
from engine.runtime.run_batch import RunBatch
from engine.tools.training import export
from engine.tools.training.kinds import EXPORTERS, STUDENTS
from engine.trace.costs import CostModel
from engine.weights.catalogue import get_pair
from engine.weights.checkpoint_dir import head_method
from engine.weights.head_kinds import HEAD_KINDS

COSTS = dict.fromkeys(("none", "toy"), CostModel(0.1, {1: 1.0, 2: 1.01}, 64, 0.001))


@pytest.fixture
def pair(tmp_path, monkeypatch):
    """The target's folder and the head's as a pair, and the target as transformers runs it."""
    toy_head.register(monkeypatch)
    model = model_folder(tmp_path / "target", "llama-tied")
    weight = torch.randn(VOCABULARY, model.config.hidden_size)
    export.head("toy", weight, None, (), None, tmp_path / "head", "a card")
    return f"{tmp_path}/target+{tmp_path}/head", model


@pytest.mark.parametrize("runtime", ["torch", "onnx"])
def test_a_new_kind_is_known_by_its_folder_loaded_and_drafts(pair, runtime):
    name, model = pair
    assert "toy" in get_pair(name).drafts and head_method(get_pair(name).drafts["toy"].folder) == "toy"
    engine = engine_in(runtime, name, "toy")
    engine._costs = COSTS
    whole = run(engine, "toy", gamma=1, max_new_tokens=12)
    assert sum(len(each.parents) for each in whole.rounds) > 5, "it drafted"
    prompt, written = ids_of(whole)
    assert written == generated(model, prompt, len(written)), "and the text is the target's own"
    assert "draft" in whole.started.weights and "toy" not in engine.drafts.competitors()


def test_it_shares_passes_and_is_refused_as_a_target(pair):
    name, _ = pair
    engine = engine_in("torch", name, "toy")
    engine._costs = COSTS
    batch = RunBatch(engine, 2)
    for i in range(2):
        batch.add(i, request(name, "toy", gamma=1, max_new_tokens=6))
    one, other = (events[-1] for events in drive(batch).values())
    assert one.reason == other.reason == "length" and one.text == other.text
    with pytest.raises(BadInput, match="holds a toy head, which only drafts for a target"):
        get_pair(name.split("+")[1])


def test_every_method_with_a_head_has_a_kind_and_existing_functions():
    assert {name for name, method in METHODS.items() if method.reads == "head" and not method.shares} == {*HEAD_KINDS}
    assert {*EXPORTERS} == {*STUDENTS} - {"lm"} == {*HEAD_KINDS}
    assert all(callable(load_object(path)) for path in (*EXPORTERS.values(), *STUDENTS.values()))
    for kind in HEAD_KINDS.values():
        assert callable(load_object(kind.load)) and (kind.field or kind.tensor)
    for sign in ("field", "tensor"):
        signs = [getattr(kind, sign) for kind in HEAD_KINDS.values() if getattr(kind, sign)]
        assert len({*signs}) == len(signs), "so that a folder has one kind"

"""A draft that a person named is never dropped in silence: a run with the method auto says why it goes without it."""

import shutil

import pytest
from safetensors.torch import load_file, save_file
from tiny_pairs import engine_of, request, run

from engine.config import AUTO
from engine.runtime.engine import load_engine
from engine.trace.costs import CostModel
from engine.trace.trace import fold, from_json, to_json

COSTS = CostModel(0.1, {1: 1.0, 8: 1.5}, 64, 0.001, draft_costs={"ngram": 0.0, "lm": 0.1, "quantised": 0.1})


def auto(engine, **settings):
    return fold(engine.run(request(engine.pair.name, AUTO, **settings), costs=COSTS))


@pytest.fixture
def lacking(pairs, tmp_path):
    """A draft whose file lacks one of its tensors."""
    folder = tmp_path / "lacking"
    shutil.copytree(pairs.root / "draft", folder)
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.layers.1.mlp.down_proj.weight"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def test_a_run_of_auto_says_why_it_goes_without_a_draft(pairs, lacking):
    engine = load_engine(f"{pairs.root / 'target'}+{lacking}", "cpu")
    for _ in range(2):
        whole = auto(engine)
        (note,) = whole.notes
        assert note.startswith("This run goes without the draft lacking: ") and "down_proj" in note
    assert from_json(to_json(whole)).notes == whole.notes
    assert not run(engine, "none").notes and not run(engine, "ngram").notes, "they need none"


def test_a_run_of_auto_with_its_draft_has_no_note(pairs):
    assert not auto(engine_of(pairs, draft="draft")).notes


def test_a_run_of_auto_says_that_it_outgrows_its_draft(pairs):
    engine = engine_of(pairs, draft="short")  # 48 tokens
    assert not auto(engine, max_new_tokens=8).notes
    (note,) = auto(engine, max_new_tokens=40).notes
    assert "without the draft short: it attends to 48 tokens, but prompt and answer may take" in note


def test_a_run_of_auto_names_the_method_of_a_head_that_it_never_chooses(heads):
    engine = load_engine(heads.pair("medusa"), "cpu")
    (note,) = auto(engine, max_new_tokens=4).notes
    assert "auto never chooses it; choose the method medusa" in note

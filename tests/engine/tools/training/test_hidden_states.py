"""Hidden states are stored as the target computes them, for one target, one set of samples and one set of layers."""

import numpy as np
import pytest
import torch
from closeness import assert_close
from training_project import made_up, quiet, stop_after
from transformers import AutoModelForCausalLM

from engine.tools.training import hidden_states


@torch.no_grad()
def test_features_are_the_targets_hidden_states_and_give_its_law(root, teacher, target, tmp_path):
    model, samples, last = AutoModelForCausalLM.from_pretrained(root / "target"), made_up(9), []
    model.model.norm.register_forward_pre_hook(lambda module, inputs: last.append(inputs[0][0]))
    found = hidden_states.compute(target.runner, samples, tmp_path, (0, 1), "a target")
    assert target.runner.model.taps == () and target.runner.cache is None, "the runner as it was"
    for i in range(len(samples)):
        told = model(torch.from_numpy(samples.row(i).astype(np.int64))[None], output_hidden_states=True)
        start, end = samples.starts[i], samples.starts[i + 1]
        tapped = torch.from_numpy(found.states_of(start, end, (1, 0)).astype(np.float32))
        final = torch.from_numpy(found.final(start, end).astype(np.float32))
        for ours, theirs in ((tapped[:, 0], told.hidden_states[1][0]), (tapped[:, 1], told.hidden_states[0][0]),
                             (final, last[-1])):  # fmt: skip
            assert_close(ours, theirs, dtype=torch.float16, roundings=1)
        assert_close(teacher.logits(final), told.logits[0], dtype=torch.float16, roundings=4)
    some = torch.tensor([3, 99])
    assert_close(teacher.logits(final, some), teacher.logits(final)[:, some])


def test_features_continue_after_a_stop_and_serve_only_their_source(target, tmp_path, monkeypatch):
    monkeypatch.setattr(hidden_states, "_EVERY", 7)
    samples, rows, real = made_up(30), [], target.runner.prefill
    monkeypatch.setattr(target.runner, "prefill", lambda ids, **more: rows.append(ids) or real(ids, **more))

    def compute(folder="parts", samples=samples, whose="a target", stop=quiet):
        return hidden_states.compute(target.runner, samples, tmp_path / folder, (0, 1), whose, stop)

    whole = compute("whole")
    rows.clear()
    with pytest.raises(KeyboardInterrupt):
        compute(stop=stop_after(2))
    assert np.array_equal(whole.states, compute().states) and len(rows) == 30, "none twice"
    compute()
    assert len(rows) == 30
    assert compute(samples=made_up(30, seed=1)).states.shape[1:] == (3, 64) and len(rows) == 60
    for whose, computed in (("a target", 90), ("another", 120), ("another", 120)):
        compute(whose=whose)
        assert len(rows) == computed


def test_features_begun_for_other_taps_are_not_taken_for_these(target, tmp_path, monkeypatch):
    samples = made_up(30)
    first = np.array(hidden_states.compute(target.runner, samples, tmp_path, (0,), "a target").states)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):  # as large a file, and not noted yet
        patch.setattr(target.runner, "prefill", lambda ids: stop_after(1)(0.0, ""))
        hidden_states.compute(target.runner, samples, tmp_path, (1,), "a target")
    assert np.array_equal(hidden_states.compute(target.runner, samples, tmp_path, (0,), "a target").states, first)


def test_fewer_layers_are_read_from_what_is_stored(target, tmp_path, monkeypatch):
    samples = made_up(12)
    both = hidden_states.compute(target.runner, samples, tmp_path, (0, 1), "a target")
    monkeypatch.setattr(target.runner, "prefill", pytest.fail)
    found = hidden_states.compute(target.runner, samples, tmp_path, (1,), "a target")
    assert np.array_equal(found.states_of(3, 9, (1,)), both.states_of(3, 9, (1,)))
    assert np.array_equal(found.final(3, 9), both.final(3, 9))

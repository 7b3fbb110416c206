"""An EAGLE-3.1 head: what it norms is normed alike in training, on both runtimes and after its export.

As others publish them: ../models/test_head_table.py.
"""

import json

import pytest
import torch
from closeness import ROUNDINGS, assert_close, is_close
from head_cases import WORDS
from tiny_models import RUNTIMES, seeded
from tiny_pairs import VOCABULARY, model_folder

from engine.errors import BadInput
from engine.models.decoder.runner import DecoderRunner
from engine.models.heads.eagle_config import read_config
from engine.models.heads.loader import load_head
from engine.tools.training import export
from engine.tools.training.exported_draft import words_of_draft
from engine.tools.training.students import EagleStudent
from engine.tools.training.teacher import Teacher

L = 24


@pytest.fixture(scope="module")
def normed(tmp_path_factory):
    """The target, the trained module and the folders of both."""
    root = tmp_path_factory.mktemp("normed")
    target = model_folder(root / "target", "llama")
    teacher = Teacher.load(root / "target", "cpu")
    with seeded(2), torch.no_grad():
        student = EagleStudent.new(teacher, WORDS, torch.tensor([0.5, 1.0, 3.0]), is_normed=True)
        for parameter in student.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter)).copy_(parameter.bfloat16())
        student.module.head.copy_(student.module.head.bfloat16())
    export.eagle(student, teacher, (0, 1, 2), None, root / "head", "a card")
    return root, target, student.module


def two_steps(head, ids: torch.Tensor, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The guesses [L, Vd] from features, and the next one [1, Vd] from the head's own state."""
    runner = DecoderRunner(head)
    runner.reset(L + 1)
    logits, states = head.forward(ids[1 : L + 1], [runner.next_span(L)], features=features[:L])
    runner.cache.length = L
    return logits, head.forward(ids[L + 1 :], [runner.next_span(1)], state=states[-1:])[0]


@pytest.mark.parametrize("runtime", RUNTIMES)
@torch.inference_mode()
def test_it_drafts_as_it_was_trained(normed, runtime, monkeypatch):
    monkeypatch.setattr("engine.models.onnx.graph.DRAFTS", "fp32")
    root, target, module = normed
    ids, features = torch.randint(0, VOCABULARY, (L + 2,)), torch.randn(L + 2, 3 * module.norm.numel())
    first, second = module.rollout(ids[None], features[None], 2)
    loaded = RUNTIMES[runtime](root / "target", target).model
    logits, further = two_steps(load_head("eagle", root / "head", loaded), ids, features)
    assert_close(logits, module.logits(first[0, :L]))
    assert_close(further, module.logits(second[0, L - 1 : L]))
    for wrong in ({"norm_output": False}, {"fc_norm": False}):
        monkeypatch.setattr("engine.models.heads.eagle3.read_config", lambda folder, w=wrong: changed(folder, w))
        monkeypatch.setattr("engine.models.heads.reader.HeadReader.check_all_read", lambda reader: None)
        other = two_steps(load_head("eagle", root / "head", loaded), ids, features)[1]
        assert not is_close(other, further, roundings=1000 * ROUNDINGS), f"{wrong} makes no difference"


def changed(folder, fields: dict):
    return read_config(folder).model_copy(update=fields)


def test_its_layout_is_that_of_vllm_and_it_starts_no_other_head(normed):
    folder = normed[0] / "head"
    config = json.loads((folder / "config.json").read_text())
    assert config["fc_norm"] and config["norm_output"]
    with pytest.raises(BadInput, match="norms its states"):
        words_of_draft(EagleStudent, folder, VOCABULARY, (0, 1, 2), len(WORDS))

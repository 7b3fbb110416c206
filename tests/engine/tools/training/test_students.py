"""What a student computes: a training rollout sees nothing later, and the start is the target's.

That a rollout is what drafting one by one gives: ../models/test_heads.py, by the engine's own drafter.
"""

import itertools
import json

import numpy as np
import pytest
import torch
from closeness import assert_close, is_close
from tiny_pairs import VOCABULARY
from training_project import SHAPE, WORDS, random_head, same, weights_of

from engine.errors import BadInput
from engine.tools.training import export
from engine.tools.training.block_student import BlockStudent
from engine.tools.training.dataset import Samples
from engine.tools.training.distil import Recipe, loss
from engine.tools.training.exported_draft import start_from, words_of_draft
from engine.tools.training.project import frequent
from engine.tools.training.students import EagleStudent, LmShape, LmStudent, Texts, new_lm


def test_a_rollout_knows_nothing_of_what_comes_later(tmp_path):
    student, _ = random_head(tmp_path)
    ids, tapped = torch.full((1, 8), 5), torch.randn(1, 8, 2 * 64)
    with torch.no_grad():
        before = student.module.rollout(ids, tapped, 3)
        ids[0, 6], tapped[0, 4] = 9, 0.0
        after = student.module.rollout(ids, tapped, 3)
    for k in (1, 2, 3):  # step k at t reads tokens up to t + k and features up to t
        untouched = [t for t in range(8 - k) if t < 4 and t + k < 6]
        assert torch.equal(before[k - 1][0, untouched], after[k - 1][0, untouched])
        assert not is_close(before[k - 1][0, 4], after[k - 1][0, 4])


@torch.no_grad()
def test_a_handful_stands_for_the_words_left_out(learning, monkeypatch):
    """On average over handfuls the normaliser is the whole vocabulary's."""
    monkeypatch.setattr(LmStudent, "SAMPLED", 50)
    student = learning.student("lm")
    states = torch.randn(7, SHAPE.width)
    whole = student.logits(states, torch.arange(VOCABULARY)).exp().sum(-1)
    sums = []
    for seed in range(300):
        words, extra = student.words_for_update(torch.Generator().manual_seed(seed))
        assert words[:WORDS].tolist() == learning.words.tolist() and len({*words.tolist()}) == len(words) == WORDS + 50
        sums.append((student.logits(states, words) + extra).exp().sum(-1))
    assert torch.allclose(torch.stack(sums).mean(0), whole, rtol=0.03)


def test_a_head_begins_with_the_targets_last_layer_reading_its_highest_tap(learning):
    """What the lower taps add is small next to it, however large they are: they are scaled by their size."""
    teacher, loud = learning.teacher, torch.tensor([50.0, 1.0])
    head = EagleStudent.new(teacher, learning.words, loud).module
    tapped = torch.randn(100, 2, 64) * loud[:, None]
    with torch.no_grad():
        assert ((head.fc(tapped.flatten(1)) - tapped[:, 1]).pow(2).mean().sqrt()) < 0.3
    assert torch.equal(head.down.weight, teacher.layer["mlp.down_proj.weight"])
    assert torch.equal(head.q.weight[:, 64:], teacher.layer["self_attn.q_proj.weight"])
    assert torch.equal(head.head, teacher.head[learning.words])


@pytest.mark.parametrize("words", [20, 40])
def test_an_lm_may_be_wider_than_its_target(teacher, words):
    student = new_lm(teacher, torch.arange(words), LmShape(), 0)
    assert student.module.model.embed_tokens.weight.shape == (VOCABULARY, 192)
    assert torch.isfinite(student.module.model.embed_tokens.weight).all()
    again = new_lm(teacher, torch.arange(words), LmShape(), 0)
    assert same(weights_of(student), weights_of(again))


def test_frequent_words_are_those_the_target_wrote():
    tokens = np.array([9, 9, 9, 9, 5, 5, 3, 9, 2, 5, 7, 3, 2, 3, 7, 3], dtype=np.uint16)  # prompt 4, reply 4, twice
    samples = Samples(tokens, np.array([4, 4], np.uint16), np.array([4, 4], np.uint16), np.zeros(2, np.float32))
    assert frequent(samples, 2).tolist() == [3, 5], "3 three times, 5 twice, and what only the prompts say never"
    assert frequent(samples, 4).tolist() == [2, 3, 5, 7], "in increasing order"
    with pytest.raises(BadInput, match="too few different words for a vocabulary of 200; ask for fewer"):
        frequent(samples, 200)


def of_block(learning, draws=None):
    """A batch of two texts with prompts of 4 and 6 tokens."""
    ids = torch.randint(0, VOCABULARY, (2, 20), generator=torch.Generator().manual_seed(1))
    features = torch.randn(2, 20, 2 * 64, generator=torch.Generator().manual_seed(2))
    return Texts(ids, features, torch.zeros(2, 20, 64), torch.tensor([4, 6]), torch.tensor([20, 17]), draws)


@torch.no_grad()
def test_a_block_knows_nothing_of_what_comes_after_its_first_slot(learning):
    student, batch = learning.student("block"), of_block(learning)
    before = student.states(batch, 4)
    batch.ids[:, 11:], batch.features[:, 10:] = 9, 0.0
    after = student.states(batch, 4)
    for one, other in zip(before, after, strict=True):  # a block from t reads tokens up to t + 1 and features up to t
        assert torch.equal(one[:, :10], other[:, :10])
        assert not is_close(one[:, 10], other[:, 10])


@torch.no_grad()
def test_slots_of_a_sample_of_positions_say_what_they_say_at_all(learning):
    """Slot d is trained at a share 0.6^d of the positions; each has the slots before it, too."""
    student, everywhere = learning.student("block"), of_block(learning)
    sample = of_block(learning, torch.rand(2, 20, generator=torch.Generator().manual_seed(3)))
    whole, some = student.states(everywhere, 4), student.states(sample, 4)
    covered = [student.covers(sample, k) for k in (1, 2, 3, 4)]
    for k, where in enumerate(covered):
        assert_close(whole[k][where], some[k][where])
    for more, fewer in itertools.pairwise(covered):
        assert (fewer <= more).all() and fewer.sum() < more.sum()
    assert covered[0].sum() == 16 + 11, "where the first guess is a word of the reply"
    counts = [int(student.covers(of_block(learning, torch.full((2, 20), u)), 3).any()) for u in (0.35, 0.37)]
    assert counts == [1, 0], "0.6² = 0.36"


@torch.no_grad()
def test_a_further_layer_of_a_block_adds_nothing_at_first(learning):
    one, more = (BlockStudent.new(learning.teacher, learning.words, torch.ones(2), layers) for layers in (1, 3))
    more.module.load_state_dict(one.module.state_dict(), strict=False)
    assert len(more.module.further) == 2
    for some, others in zip(*(student.states(of_block(learning), 3) for student in (one, more)), strict=True):
        assert torch.equal(some, others)


@torch.no_grad()
def test_a_bias_adds_nothing_at_first_then_by_the_draft_before(learning):
    student, states = learning.student("block"), torch.randn(3, 64, generator=torch.Generator().manual_seed(4))
    words, bias = learning.words, student.module.bias
    strange = next(i for i in range(VOCABULARY) if i not in words)
    before, plain = torch.tensor([words[0], words[5], strange]), student.logits(states, words)
    assert torch.equal(student.logits(states, words, before), plain) and bias.w1.std() > 0.9
    bias.w2.normal_(generator=torch.Generator().manual_seed(5))
    added = student.logits(states, words, before) - plain
    assert_close(added[:2], bias.w1[[0, 5]] @ bias.w2.T, plain)
    assert not added[2].any() and torch.equal(student.logits(states, words), plain)


@pytest.mark.parametrize("steps", [1, 3])
def test_a_bias_is_trained_by_the_slots_after_the_first(learning, steps):
    student, recipe = learning.student("block"), Recipe(1, 4, 1e-3)
    batch = learning.data("block").batch(learning.data("block").training[:4])
    loss(student, learning.teacher, batch, recipe, steps, torch.Generator().manual_seed(0)).backward()
    grad = student.module.bias.w2.grad
    assert grad is None if steps == 1 else grad.abs().max() > 1e-6


def head_folder(learning, folder):
    export.eagle(learning.student("eagle", seed=7), learning.teacher, (0, 1), None, folder, "a card")
    return folder


@torch.no_grad()
def test_a_block_may_begin_as_an_eagle_head(learning, tmp_path):
    """Its first slot then says what the head says."""
    folder = head_folder(learning, tmp_path / "head")
    head, block, batch = learning.student("eagle", seed=7), learning.student("block"), of_block(learning)
    for parameter in head.parameters():
        parameter.copy_(parameter.bfloat16())
    start_from(block, folder)
    assert_close(block.states(batch, 2)[0], head.states(batch, 1)[0])
    assert torch.equal(words_of_draft(BlockStudent, folder, VOCABULARY, (0, 1), WORDS), learning.words)


def test_a_head_to_begin_from_that_does_not_fit_is_refused(learning, tmp_path):
    folder = head_folder(learning, tmp_path / "head")
    for asked, sentence in (
        ((VOCABULARY, (0, 1), WORDS + 1), f"guesses among {WORDS} words; ask for as many"),
        ((VOCABULARY, (1,), WORDS), r"reads layers \(0, 1\), not \(1,\)"),
        ((WORDS // 2, (0, 1), WORDS), "cannot be started from: .* words that the target does not have"),
    ):
        with pytest.raises(BadInput, match=sentence):
            words_of_draft(BlockStudent, folder, *asked)
    with pytest.raises(BadInput, match="cannot be started from"):
        words_of_draft(BlockStudent, tmp_path, VOCABULARY, (0, 1), WORDS)
    normed = EagleStudent.new(learning.teacher, learning.words, torch.ones(2), is_normed=True)
    export.eagle(normed, learning.teacher, (0, 1), None, tmp_path / "normed", "a card")
    config = json.loads((tmp_path / "normed" / "config.json").read_text())
    assert config["fc_norm"] and config["norm_output"], "under the names that vLLM reads"
    with pytest.raises(BadInput, match="norms its states"):
        words_of_draft(EagleStudent, tmp_path / "normed", VOCABULARY, (0, 1), WORDS)


def test_a_block_head_brings_its_further_layers(learning, tmp_path):
    old, new = (BlockStudent.new(learning.teacher, learning.words, torch.ones(2), 2) for _ in range(2))
    with torch.no_grad():
        old.module.further[0].down.weight.fill_(0.25)
    export.block(old, learning.teacher, (0, 1), None, tmp_path / "block", "a card")
    start_from(new, tmp_path / "block")
    assert (new.module.further[0].down.weight == 0.25).all()


@torch.no_grad()
@pytest.mark.parametrize("kind", ["lm", "eagle", "block", "medusa", "exit"])
def test_a_draft_goes_on_where_an_exported_one_ended(journey, learning, root, kind):
    words = learning.words
    new = new_lm(learning.teacher, words, LmShape(), 3) if kind == "lm" else learning.student(kind, seed=3)
    start_from(new, root / kind)
    trained = torch.load(journey.work / kind / "checkpoint.pt", weights_only=True)["student"]
    for name, parameter in new.module.named_parameters():
        assert torch.allclose(parameter, trained[name], rtol=2**-8, atol=2**-25), name  # half a step of bf16, of fp16
    other = root / ("lm" if kind == "exit" else "exit")
    with pytest.raises(BadInput, match="cannot be started from"):
        words_of_draft(type(new), other, VOCABULARY, (0, 1), WORDS)
        start_from(new, other)

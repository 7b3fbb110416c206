"""Distillation: its batches, its loss and acceptance counted by hand, what a student learns, and resuming."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from closeness import approx
from tiny_pairs import VOCABULARY
from training_project import files, made_up, quiet, same, stop_after, weights_of

from engine.tools.training import distil, hidden_states
from engine.tools.training.block_student import BlockStudent
from engine.tools.training.distil import Data, Recipe
from engine.tools.training.project import rollout_for
from engine.tools.training.students import LmStudent, MedusaStudent, Texts
from engine.tools.training.teacher import Teacher


def test_held_out_prompts_are_never_trained_on():
    samples = made_up(300)
    zeros = np.zeros((len(samples.tokens), 1, 4), dtype=np.float16)
    data = Data(samples, hidden_states.Features(zeros, ()), (), "cpu")
    trained = [tuple(samples.prompt(i)) for epoch in (0, 1) for rows in data.epoch(0, epoch, 8) for i in rows]
    held = {tuple(samples.prompt(i)) for i in data.validation}
    assert held and not held & set(trained) and 0.1 < len(data.validation) / 300 < 0.3
    for epoch in (0, 1):
        rows = np.concatenate(data.epoch(0, epoch, 8))
        assert sorted(rows) == data.training.tolist(), "each once"
    orders = [np.concatenate(data.epoch(s, e, 8)).tolist() for s, e in ((0, 0), (0, 1), (1, 0), (0, 0))]
    assert orders[0] == orders[3] and len({*map(tuple, orders)}) == 3
    stream = data.batches(Recipe(10, 8, 1e-3), 0)
    first = [next(stream).tolist() for _ in range(100)]
    for start in (1, 37, 38, 99):
        assert next(data.batches(Recipe(10, 8, 1e-3), start)).tolist() == first[start]


def by_hand(learning, kind, student, rows, steps):
    """For each step (guesses, agreements, overlap, KL summed over positions), a token of the text at a time."""
    s, teacher, table = learning.samples, learning.teacher, []
    words = student.words.tolist() if kind != "lm" else list(range(VOCABULARY))
    for k in range(1, steps + 1):
        count = agree = overlap = divergence = 0
        for i in rows:
            ids = torch.from_numpy(s.row(i).astype(np.int64))[None]
            states = learning.features.states[s.starts[i] : s.starts[i + 1]].astype(np.float32)
            tapped = torch.from_numpy(states[:, kind == "exit" : 2].reshape(1, ids.shape[1], -1).copy())
            lengths = (torch.tensor([n]) for n in (int(s.prompt_len[i]), ids.shape[1]))
            batch = Texts(ids, tapped, torch.from_numpy(states[None, :, 2]), *lengths)
            all_states = student.states(batch, steps)
            for reply_mask in range(int(s.prompt_len[i]), ids.shape[1]):  # a token that the target wrote
                at = reply_mask - k - (kind in ("eagle", "block", "medusa"))
                if at < 0 or (kind == "block" and at + 2 < int(s.prompt_len[i])):
                    continue  # the first guess of a block is a word of the reply
                p_logits = teacher.logits(torch.from_numpy(states[reply_mask - 1, 2]))
                q_logits = student.logits(all_states[k - 1][0, at], torch.tensor(words))
                p, q = p_logits.softmax(-1), q_logits.softmax(-1)
                count += 1
                agree += words[int(q.argmax())] == int(p.argmax())
                overlap += sum(min(float(p[w]), float(q[j])) for j, w in enumerate(words))
                inside, guesses = p_logits[words].log_softmax(-1), q_logits.log_softmax(-1)
                divergence += float((inside.exp() * (inside - guesses)).sum())
        table.append((count, agree, overlap, divergence))
    return table


@pytest.mark.parametrize("kind, steps", [("lm", 1), ("eagle", 3), ("block", 3), ("medusa", 3), ("exit", 1)])
@torch.no_grad()
def test_acceptance_and_loss_are_what_counting_by_hand_gives(learning, monkeypatch, kind, steps):
    monkeypatch.setattr(BlockStudent, "SHARE", 1.0)  # every slot at every position
    student, data = learning.student(kind), learning.data(kind)
    table = by_hand(learning, kind, student, data.validation, steps)
    found = distil.acceptance(student, learning.teacher, data, steps, rows=1000)
    assert found["greedy"] == [round(agree / n, 4) for n, agree, _, _ in table]
    assert found["sampled"] == pytest.approx([overlap / n for n, _, overlap, _ in table], abs=1e-4)  # in four digits
    recipe = Recipe(10, 8, 1e-3, decay=0.5)
    value = distil.loss(student, learning.teacher, data.batch(data.validation), recipe, steps, torch.Generator())
    mean = sum(0.5**k * d / n for k, (n, _, _, d) in enumerate(table)) / sum(0.5**k for k in range(steps))
    assert float(value) == approx(mean, mean)


@pytest.mark.parametrize(
    ("kind", "tv"),
    [("lm", 0.0), ("exit", 0.0), ("eagle", 0.0),
     *(pytest.param(*case, marks=pytest.mark.slow) for case in (("eagle", 0.3), ("block", 0.0)))],
)  # fmt: skip
def test_a_student_learns(learning, tmp_path, kind, tv):
    student, data = learning.student(kind), learning.data(kind)
    rollout = {"eagle": ((0.0, 1), (0.5, 2)), "block": ((0.0, 2),)}.get(kind, ((0.0, 1),))
    recipe = Recipe(60, rows=12, learning_rate=5e-3, every=20, tv=tv, rollout=rollout)
    before = distil.acceptance(student, learning.teacher, data, 1)
    log = distil.train(student, learning.teacher, data, recipe, tmp_path)
    assert [entry["update"] for entry in log] == [20, 40, 60]
    assert log[-1]["loss"] < 0.8 * log[0]["loss"]
    assert log[-1]["sampled"][0] > before["sampled"][0] + 0.05
    assert len(log[-1]["greedy"]) == (2 if kind in ("eagle", "block") else 1)


def test_medusa_heads_learn_what_comes_two_to_four_tokens_later(tmp_path):
    """A target that counts: its last state is the row of the next number. At first each head guesses that one again."""
    counted, E = 20, 32
    rows = torch.nn.functional.normalize(torch.randn(counted, E), dim=-1)
    config = SimpleNamespace(hidden_size=E, rms_norm_eps=1e-6, vocab_size=counted)
    teacher = Teacher(config, rows, rows, torch.ones(E), {})
    samples = made_up(60)
    samples = replace(samples, tokens=(np.arange(len(samples.tokens)) % counted).astype(np.uint16))
    states = rows[torch.arange(1, len(samples.tokens) + 1) % counted].half().numpy()
    data = Data(samples, hidden_states.Features(states[:, None], ()), (), "cpu")
    student = MedusaStudent(teacher, torch.arange(counted))
    assert max(distil.acceptance(student, teacher, data, 3)["greedy"]) == 0
    recipe = rollout_for(SimpleNamespace(student="medusa", start=""), Recipe(60, rows=12, learning_rate=2e-2, every=60))
    log = distil.train(student, teacher, data, recipe, tmp_path)
    assert min(log[-1]["greedy"]) == 1


@pytest.mark.parametrize(
    "kind", ["lm", *(pytest.param(k, marks=pytest.mark.slow) for k in ("eagle", "block", "medusa", "exit"))]
)
def test_training_goes_on_where_it_was_interrupted(learning, tmp_path, monkeypatch, kind):
    monkeypatch.setattr(LmStudent, "SAMPLED", 50)
    recipe = rollout_for(SimpleNamespace(student=kind, start=""), Recipe(12, rows=40, learning_rate=5e-3, every=3))

    def train(name, say=quiet, recipe=recipe):
        student = learning.student(kind)
        log = distil.train(student, learning.teacher, learning.data(kind), recipe, tmp_path / name, say)
        return weights_of(student), [{k: e[k] for k in ("update", "tokens", "greedy", "sampled")} for e in log]

    whole = train("whole")
    for messages in (5, 6, 1):  # in the middle of updates, and before the first of them
        with pytest.raises(KeyboardInterrupt):
            train("parts", stop_after(messages))
    resumed = train("parts")
    assert same(whole[0], resumed[0]) and whole[1] == resumed[1]
    done = train("parts")
    assert same(whole[0], done[0]) and whole[1] == done[1], "nothing left to do"
    assert not same(whole[0], train("other", recipe=replace(recipe, seed=1))[0])
    assert files(tmp_path / "parts") == {"checkpoint.pt"}


def test_the_rate_warms_up_and_falls_and_rollouts_grow():
    new, older, lm = (SimpleNamespace(student=k, start=s) for k, s in (("eagle", ""), ("eagle", "x"), ("lm", "")))
    recipe = rollout_for(new, Recipe(1000, 8, 0.1, warm_up=0.1, final_rate=0.05))
    rates = [recipe.rate(i) for i in range(1000)]
    assert rates[0] == pytest.approx(0.001) and max(rates) == pytest.approx(0.1) == rates[100]
    assert rates[:100] == sorted(rates[:100]) and rates[100:] == sorted(rates[100:], reverse=True)
    assert rates[550] == pytest.approx(0.1 * (0.05 + 0.95 / 2), rel=0.01)
    assert rates[-1] == pytest.approx(0.005, rel=0.01)
    assert [recipe.steps(i) for i in (0, 549, 550, 799, 800, 999)] == [1, 1, 2, 2, 3, 3]
    assert max(rollout_for(older, recipe).steps(i) for i in range(300)) == 2, "sooner, for it can guess already"
    assert {rollout_for(SimpleNamespace(student="medusa", start=""), recipe).steps(i) for i in range(1000)} == {3}
    assert rollout_for(lm, recipe) == recipe and Recipe(9, 8, 1e-3).steps(8) == 1
    assert [Recipe(1, 8, 1e-3).rate(0), Recipe(2, 8, 1e-3, warm_up=0.0).rate(0)] == [1e-3, 1e-3]


def test_texts_without_a_guess_do_no_harm(learning):
    """One token asked and one answered: no guess covers the next step's token, and an empty mean is left out."""
    student = learning.student("eagle")
    batch = Texts(torch.ones(1, 3, dtype=torch.long), torch.randn(1, 3, 2 * 64), torch.randn(1, 3, 64),
                  torch.tensor([1]), torch.tensor([3]))  # fmt: skip
    value = distil.loss(student, learning.teacher, batch, Recipe(9, 8, 1e-3), 3, torch.Generator())
    value.backward()
    assert torch.isfinite(value) and all(p.grad is None or torch.isfinite(p.grad).all() for p in student.parameters())

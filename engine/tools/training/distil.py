"""Trains a draft to match the target's full distribution at every reply token.

Loss: forward KL, averaged over reply positions; draft step k of a rollout counts ``decay^(k−1)``. Sampled acceptance
is 1 − TV(p, q) exactly (Leviathan 2023). Because TV's gradient is flat while p and q hardly overlap, training starts
with KL, which bounds TV (Pinsker) and has a gradient everywhere; ``tv`` mixes in a share of TV once q is close.

Every update is a function of (seed, update number, checkpoint), so an interrupted run resumes to the same draft.
"""

import io
import json
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engine.errors import BadInput, quantity
from engine.files import ProgressCallback, write_file
from engine.models.onnx import session as onnx_session
from engine.tools.training.dataset import Samples
from engine.tools.training.hidden_states import Features
from engine.tools.training.pace import Pace
from engine.tools.training.students import Texts, reply_mask
from engine.tools.training.teacher import Teacher


@dataclass(frozen=True)
class Recipe:
    """``updates`` of ``rows`` sampled rows each. ``rollout``: (share of the run from which on, steps). The options in
    `engine.tools.cli.training` hold the defaults of the first three."""

    updates: int
    rows: int
    learning_rate: float
    warm_up: float = 0.03
    final_rate: float = 0.02  # the share of the learning rate at which the cosine ends
    weight_decay: float = 0.01
    clip: float = 1.0
    decay: float = 0.8
    tv: float = 0.0
    rollout: tuple[tuple[float, int], ...] = ((0.0, 1),)
    seed: int = 0
    every: int = 50  # updates between two checkpoints

    def steps(self, update: int) -> int:
        return max((s for share, s in self.rollout if update >= share * self.updates), default=1)

    def rate(self, update: int) -> float:
        """Returns the learning rate of an update: a linear warm-up, then a cosine down to ``final_rate`` of it."""
        warm = max(1, int(self.warm_up * self.updates))
        if update < warm:
            return self.learning_rate * (update + 1) / warm
        along = (update - warm) / max(1, self.updates - warm)
        return self.learning_rate * (self.final_rate + (1 - self.final_rate) * (1 + math.cos(math.pi * along)) / 2)


class Data:
    """Batches of rows with their features; ``taps`` is empty for a student that reads no features."""

    def __init__(self, samples: Samples, features: Features, taps: tuple[int, ...], device: str):
        self.samples, self.features, self.taps, self.device = samples, features, taps, device
        held = samples.held_out()
        self.training, self.validation = np.flatnonzero(~held), np.flatnonzero(held)
        if not len(self.training) or not len(self.validation):
            raise BadInput(f"{quantity(len(samples), 'row')} cannot be both trained on and held out; sample more.")

    def epoch(self, seed: int, epoch: int, rows: int) -> list[np.ndarray]:
        """Returns one epoch in batches: shuffled, then sorted by length within chunks to reduce padding."""
        order = np.random.default_rng([seed, epoch]).permutation(self.training)
        lengths = np.diff(self.samples.starts)
        batches = []
        for chunk in np.array_split(order, max(1, len(order) // (rows * 16))):
            chunk = chunk[np.argsort(lengths[chunk], kind="stable")]
            batches += [chunk[i : i + rows] for i in range(0, len(chunk), rows)]
        return [batches[i] for i in np.random.default_rng([seed, epoch, 1]).permutation(len(batches))]

    def batches(self, recipe: Recipe, first: int) -> Iterator[np.ndarray]:
        """Yields batches from update ``first`` on, without end."""
        per_epoch = len(self.epoch(recipe.seed, 0, recipe.rows))
        for epoch in range(first // per_epoch, 1 << 30):
            yield from self.epoch(recipe.seed, epoch, recipe.rows)[
                first % per_epoch if epoch == first // per_epoch else 0 :
            ]

    def batch(self, rows: np.ndarray) -> Texts:
        s, E = self.samples, self.features.states.shape[-1]
        B, L = len(rows), max(s.length(i) for i in rows)
        ids = torch.zeros(B, L, dtype=torch.long)
        final = torch.zeros(B, L, E)
        tapped: Any = torch.zeros(B, L, len(self.taps) * E) if self.taps else None
        for b, i in enumerate(rows):
            start, end = int(s.starts[i]), int(s.starts[i + 1])
            n = end - start
            ids[b, :n] = torch.from_numpy(s.tokens[start:end].astype(np.int64))
            final[b, :n] = torch.from_numpy(self.features.final(start, end).astype(np.float32))
            if self.taps:
                states = self.features.states_of(start, end, self.taps).astype(np.float32)
                tapped[b, :n] = torch.from_numpy(states.reshape(n, -1))
        lengths = (torch.tensor(x) for x in ([int(s.prompt_len[i]) for i in rows], [s.length(i) for i in rows]))
        tensors = (ids, tapped, final, *lengths)
        return Texts(*(t if t is None else t.to(self.device) for t in tensors))


def half_products(device: str) -> torch.autocast:
    """Lets products run in bf16 on a device that multiplies it, two to three times as fast; the rest stays fp32."""
    kind = torch.device(device).type
    if kind == "cuda":
        is_native = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        has = torch.cpu.get_capabilities()
        is_native = kind == "cpu" and (has.get("avx512_bf16", False) or has.get("amx_bf16", False))
    return torch.autocast(kind, torch.bfloat16, enabled=is_native)


def loss(student, teacher: Teacher, batch: Texts, recipe: Recipe, steps: int, generator: torch.Generator):
    """Returns the mean loss over reply positions, averaged over draft steps with their weights."""
    words, extra = student.words_for_update(generator)
    batch.draws = torch.rand(batch.ids.shape, generator=generator).to(batch.ids.device)
    total, weights = 0.0, 0.0
    for k, states in enumerate(student.states(batch, steps), start=1):
        where, ahead = reply_mask(batch, k + student.shift) & student.covers(batch, k), k + student.shift - 1
        b, t = where.nonzero(as_tuple=True)
        with torch.no_grad():
            p = teacher.logits(batch.final[b, t + ahead], words).float()
            log_p = (p + extra if extra is not None else p).log_softmax(-1)
        q = student.logits(states[b, t], words, batch.ids[b, t + ahead] if k > 1 else None).float()
        log_q = (q + extra if extra is not None else q).log_softmax(-1)
        one = (log_p.exp() * (log_p - log_q)).sum(-1)
        if recipe.tv:
            one = (1 - recipe.tv) * one + recipe.tv * 0.5 * (log_p.exp() - log_q.exp()).abs().sum(-1)
        one = one.sum() / max(len(b), 1)  # very short rows have no later steps
        total, weights = total + recipe.decay ** (k - 1) * one, weights + recipe.decay ** (k - 1)
    return total / weights


@torch.inference_mode()
def acceptance(student, teacher: Teacher, data: Data, steps: int, rows: int = 24) -> dict[str, list[float]]:
    """Returns α by draft position on held-out rows, given that the earlier drafts were accepted: "greedy" is the share
    where both prefer the same word of the full vocabulary, "sampled" the overlap Σ min(p, q) at temperature 1."""
    every = len(data.validation) / min(rows, len(data.validation))
    chosen = data.validation[(np.arange(min(rows, len(data.validation))) * every).astype(int)]
    vocabulary = torch.arange(teacher.config.vocab_size, device=data.device)
    words = student.words if student.reduced else vocabulary
    sums = np.zeros((steps, 3))
    for part in np.array_split(chosen, max(1, len(chosen) // 4)):
        batch = data.batch(part)
        for k, states in enumerate(student.states(batch, steps), start=1):
            b, t = (reply_mask(batch, k + student.shift) & student.covers(batch, k)).nonzero(as_tuple=True)
            before = t + k + student.shift - 1
            p = teacher.logits(batch.final[b, before]).softmax(-1)
            q = student.logits(states[b, t], words, batch.ids[b, before] if k > 1 else None).softmax(-1)
            agree = words[q.argmax(-1)] == p.argmax(-1)
            sums[k - 1] += agree.sum().item(), torch.minimum(p[:, words], q).sum().item(), len(b)
    greedy, sampled = (sums[:, i] / np.maximum(sums[:, 2], 1) for i in (0, 1))
    return {"greedy": greedy.round(4).tolist(), "sampled": sampled.round(4).tolist()}


def train(
    student,
    teacher: Teacher,
    data: Data,
    recipe: Recipe,
    folder: Path,
    say: ProgressCallback = lambda f, m: None,
    seen: int = 0,
) -> list[dict]:
    """Trains to the end of the recipe, resuming from the checkpoint in ``folder`` if there is one; returns the log.

    ``seen``: reply tokens that the student was trained on before this recipe.
    """
    parameters = [p for p in student.parameters() if p.requires_grad]
    groups = [[p for p in parameters if p.ndim > 1], [p for p in parameters if p.ndim < 2]]
    torch.set_num_threads(onnx_session.threads())  # it had one, while a target ran in ONNX Runtime
    optimizer = torch.optim.AdamW(
        [{"params": groups[0], "weight_decay": recipe.weight_decay}, {"params": groups[1], "weight_decay": 0.0}],
        betas=(0.9, 0.95),
    )
    update, log, before = _resume(folder, recipe, student, optimizer)
    seen = before or seen
    began, mean, pace = time.perf_counter(), None, Pace()
    for rows in data.batches(recipe, update):
        if update >= recipe.updates:
            break
        for group in optimizer.param_groups:
            group["lr"] = recipe.rate(update)
        steps = recipe.steps(update)
        generator = torch.Generator().manual_seed(recipe.seed * 1_000_003 + update)
        with half_products(data.device):
            value = loss(student, teacher, data.batch(rows), recipe, steps, generator)
        optimizer.zero_grad(set_to_none=True)
        value.backward()
        torch.nn.utils.clip_grad_norm_(parameters, recipe.clip)
        optimizer.step()
        mean = value.item() if mean is None else 0.95 * mean + 0.05 * value.item()
        trained_on = int(data.samples.reply_len[rows].astype(int).sum())
        seen += trained_on
        update += 1
        say(
            update / recipe.updates,
            f"{update:,} of {recipe.updates:,} updates, loss {mean:.3f}, {pace.count(trained_on)}",
        )
        if update % recipe.every == 0 or update == recipe.updates:
            entry = {
                "update": update,
                "tokens": seen,
                "loss": round(mean, 4),
                "seconds": round(time.perf_counter() - began, 1),
            }
            log.append(entry | acceptance(student, teacher, data, max(s for _, s in recipe.rollout)))
            _save(folder, recipe, student, optimizer, update, log, seen)
            say(update / recipe.updates, json.dumps(log[-1]))
    return log


def _save(folder: Path, recipe: Recipe, student, optimizer, update: int, log: list[dict], seen: int) -> None:
    state = {"student": student.module.state_dict(), "optimizer": optimizer.state_dict(), "update": update,
             "log": log, "recipe": json.dumps(asdict(recipe)), "seen": seen, "words": student.words.cpu()}  # fmt: skip
    content = io.BytesIO()
    torch.save(state, content)  # to memory, because torch.save to a path hides that the disk is full
    write_file(folder / "checkpoint.pt", content.getbuffer())


def _resume(folder: Path, recipe: Recipe, student, optimizer) -> tuple[int, list[dict], int]:
    path = folder / "checkpoint.pt"
    if not path.exists():
        return 0, [], 0
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        if state["recipe"] != json.dumps(asdict(recipe)):
            raise BadInput(f"{path} has another recipe; continue with that one, or name another --work folder.")
        student.module.load_state_dict(state["student"])
        optimizer.load_state_dict(state["optimizer"])
        return state["update"], state["log"], state["seen"]
    except BadInput:
        raise
    except Exception as error:  # pickle, zip and shape errors alike
        raise BadInput(f"The checkpoint {path} cannot be read; delete it to start again.") from error

"""Writes a draft's model card: its use, data, training recipe and measured acceptance."""

import json
import platform

import torch

from engine.errors import quantity
from engine.models.onnx.session import threads
from engine.tools.training.evaluate import read_evaluations
from engine.tools.training.students import student_class

TAG = "tags: [speculative-decoding]"
_CARD = """---
license: {licence}
base_model: {base}
tags: [speculative-decoding]
---
# {student} draft for {target}

{use}

## Data
{rows} of the target itself, {tokens}, sampled at temperatures {temperatures}. A twenty-fifth of the
prompts was held out and never trained on.

## Recipe
{updates} of {batch}{start} ({seen} seen in all), AdamW at {rate:g} with warm-up and
cosine, {loss} against the target's whole distribution, seed {seed}.{head} Hardware: {hardware}.

## Acceptance
On held-out prompts, the tokens before given, by draft position: greedy {greedy}, sampled at temperature 1 {sampled}.
"""
_BIAS = (
    " A bias of rank {rank} tells each slot after the first the guess before it; its matrices have DSpark's names "
    "(`markov_head`). Not tried in another engine."
)
_LOOP = """
In the real loop, over {counted} that it was never trained on:

{lines}

`python -m engine training evaluate {student} --pair TARGET+DIR --prompts FILE.jsonl --limit {prompts}` measures it
again, where DIR is this folder.
"""


def _loss(tv: float) -> str:
    return f"{1 - tv:.0%} forward KL and {tv:.0%} total variation" if tv else "forward KL"


def write(project, setup, state: dict, samples) -> str:
    """Returns Markdown with the hub's front matter: how the draft was made, and its acceptance on held-out prompts."""
    target, recipe, last = project.pair.target, json.loads(state["recipe"]), state["log"][-1]
    kind = student_class(setup.student)
    head = kind.RECIPE.format(
        taps=", ".join(map(str, setup.taps)), rollout=", then ".join(str(steps) for _, steps in recipe["rollout"]),
        decay=recipe["decay"],
    )  # fmt: skip
    if setup.bias:
        head += _BIAS.format(rank=setup.bias)
    text = _CARD.format(
        licence=target.licence, base=target.repo or target.name, student=setup.student, target=target.name,
        use=kind.USE, rows=quantity(len(samples), "reply", "replies"),
        tokens=quantity(int(samples.reply_len.astype(int).sum()), "token"),
        temperatures=", ".join(f"{t:g}" for t in sorted({round(float(t), 2) for t in samples.temperature})),
        updates=quantity(state["update"], "update"), start=" on top of an older draft" if setup.start else "",
        loss=_loss(recipe["tv"]), batch=quantity(recipe["rows"], "row"),
        seen=quantity(state["seen"], "reply token"), rate=recipe["learning_rate"],
        seed=recipe["seed"], head=head, hardware=hardware(), greedy=last["greedy"], sampled=last["sampled"],
    )  # fmt: skip
    return text


def in_the_loop(project, student: str, weights: str) -> str:
    """Returns what `evaluate` measured in the real loop, as Markdown. Empty unless it measured the draft whose weights
    have the hash ``weights``: otherwise another draft's numbers would be quoted as this one's."""
    measured = read_evaluations(project.folder / student / "evaluation.json")
    if not measured or any(one.weights != weights for one in measured):
        return ""
    lines = "\n".join(f"- {one.line()}" for one in measured)
    count = measured[0].prompts
    return _LOOP.format(student=student, prompts=count, counted=quantity(count, "prompt"), lines=lines)


def hardware() -> str:
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return f"{quantity(threads(), 'CPU thread')} ({platform.machine()}), no GPU"

"""Measures how far a rounded target is from the whole one: on the texts that the whole one writes.

Dimension key: T tokens of all answers, V vocabulary.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from engine.config import ROUNDED
from engine.files import ProgressCallback, cache_root, write_file
from engine.runtime.engine import Engine, load_engine
from engine.tools.bench.benchmark import greedy_answers
from engine.tools.bench.metrics import table
from engine.tools.bench.prompts import Prompt
from engine.weights.rounding_distances import Distance

REFERENCE = "fp32"


def measure(
    pair: str, prompts: Sequence[Prompt], max_new_tokens: int,
    progress: ProgressCallback = lambda share, message: None,
) -> dict[str, Distance]:  # fmt: skip
    """Measures the distance of each rounded precision over fp32's greedy answers. Raises Unavailable."""
    reference = load_engine(pair, "cpu", REFERENCE)
    texts = []
    for answer in greedy_answers(reference, prompts, max_new_tokens):
        texts.append(answer)
        progress(0.5 * len(texts) / len(prompts), f"Answer {len(texts)} of {len(prompts)}")
    distances = {}
    for i, precision in enumerate(ROUNDED):
        engine, sums = load_engine(pair, "cpu", precision), torch.zeros(3, dtype=torch.double)
        for right, ours in zip(_scores(reference, texts), _scores(engine, texts), strict=True):
            kl = (right.exp() * (right - ours)).sum(-1)
            sums += torch.tensor([kl.sum(), (right.argmax(-1) == ours.argmax(-1)).sum(), len(kl)], dtype=torch.double)
        engine.close()
        total = int(sums[2])
        distances[precision] = Distance(float(sums[0]) / total, float(sums[1]) / total, total)
        progress(0.5 + 0.5 * (i + 1) / len(ROUNDED), precision)
    reference.close()
    return distances


@torch.inference_mode()
def _scores(engine: Engine, texts) -> Iterator[torch.Tensor]:
    """Yields the log-probabilities [T, V] of each answer's tokens."""
    runner = engine.target.runner
    for prompt, answer in texts:
        runner.reset(len(prompt) + len(answer))
        runner.prefill(prompt[:-1])
        yield runner.forward(torch.tensor([prompt[-1], *answer[:-1]])).float().log_softmax(-1)
        runner.release()


def markdown(distances: dict[str, Distance]) -> str:
    """Returns a table with a row for each precision."""
    rows = [[name, f"{each.kl:.4f}", f"{each.equal:.1%}", str(each.tokens)] for name, each in distances.items()]
    return table(["precision", "KL to fp32", "same first choice", "tokens"], rows)


def store_distances(target: str, distances: dict[str, Distance], file: Path | None = None) -> None:
    """Writes the distances of the target of this hash where `stored_distances` finds them, or to ``file``."""
    content = json.dumps({name: asdict(each) for name, each in distances.items()}, indent=1) + "\n"
    write_file(file or cache_root() / "precisions" / f"{target}.json", content)

"""Measures what leaving the target early would gain: how often its state after k layers says the next word, and what
these layers cost.

Without training a state is read as the last one is, by the target's last norm and output layer: the logit lens
(nostalgebraist 2020). An exit head is trained to read one of them.

Dimension key: L layers, E hidden size, T tokens, V vocabulary.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import torch

from engine.device import to_device
from engine.errors import Unavailable
from engine.files import ProgressCallback
from engine.models.decoder.llama import LlamaModel
from engine.models.decoder.runner import DecoderRunner
from engine.models.heads.exit import ExitModel
from engine.models.loader import device_name
from engine.runtime import calibration
from engine.runtime.engine import Engine
from engine.tools.bench.benchmark import greedy_answers
from engine.tools.bench.metrics import table, times
from engine.tools.bench.prompts import Prompt
from engine.trace.speedup_model import idealised_speedup

HEAD = "exit"
_CONTEXT, _REPEATS = 256, 15


@dataclass(frozen=True)
class Exit:
    """A draft from the first ``layers``. ``is_trained``: an exit head makes it. ``agreement``: the share of tokens
    whose likeliest word is the target's own; ``c``: cost of such a draft; ``predicted``: speedup at γ = 1."""

    layers: int
    is_trained: bool
    agreement: float
    c: float
    predicted: float


def measure(
    engine: Engine, prompts: Sequence[Prompt], max_new_tokens: int,
    progress: ProgressCallback = lambda share, message: None,
) -> list[Exit]:  # fmt: skip
    """Measures every depth of the target over the answers that it writes greedily, and the exit head of a pair that has
    one. Raises Unavailable for a target that our own decoder does not run."""
    if not isinstance(engine.target.runner, DecoderRunner):
        raise Unavailable("Only our own decoder can stop after some of its layers; choose another pair.")
    runner = _torch_runner(engine)
    head = ExitModel(engine.models.folder(draft), runner.model) if (draft := engine.pair.draft(HEAD)) else None
    costs = engine.costs("none")
    right, trained, count = torch.zeros(runner.model.layers_count + 1, dtype=torch.long), 0, 0
    for at, states in enumerate(_answers(engine, prompts, max_new_tokens)):
        guesses = _guesses(runner.model, states)
        right += (guesses == guesses[-1]).sum(1)
        if head is not None:
            trained += int((head.target_ids[head.guess(states[head.exit_layer]).argmax(-1)].cpu() == guesses[-1]).sum())
        count += states.shape[1]
        progress((at + 1) / len(prompts), f"Answer {at + 1} of {len(prompts)}")

    def result(layers: int, agreeing: int, c: float, is_trained: bool = False) -> Exit:
        alpha = agreeing / count
        return Exit(layers, is_trained, alpha, c, idealised_speedup(alpha, 1, c, costs.v))

    depths = _costs(runner)
    results = [result(k, int(right[k]), c) for k, c in depths.items()]
    return results if head is None else [*results, result(head.exit_layer, trained, engine.costs(HEAD).c, True)]


@torch.inference_mode()
def _torch_runner(engine: Engine) -> DecoderRunner:
    """Returns the target as torch runs it, which can stop after any layer; a graph of ONNX Runtime cannot."""
    runner = engine.target.runner
    if not runner.model.on_host:
        return runner
    return DecoderRunner(LlamaModel(engine.target.folder, runner.model.config, torch.float32, engine.device))


def to_json(engine: Engine, results: Sequence[Exit]) -> str:
    """Returns the results with where they were measured."""
    where = {"pair": engine.pair.name, "device": device_name(engine.device), "precision": engine.precision}
    return json.dumps(where | {"exits": [asdict(each) for each in results]}, indent=1) + "\n"


def markdown(results: Sequence[Exit]) -> str:
    """Returns a table with a row for each depth."""
    rows = []
    for each in results:
        reader = "the exit head" if each.is_trained else "the output layer"
        rows.append([
            str(each.layers), reader, f"{each.agreement:.3f}", f"{each.c:.3f}", times(each.predicted)
        ])  # fmt: skip
    return table(["layers", "read by", "agrees", "c", "predicted at γ = 1"], rows)


@torch.inference_mode()
def _answers(engine: Engine, prompts: Sequence[Prompt], max_new_tokens: int) -> Iterator[torch.Tensor]:
    """Yields for each prompt the states [L + 1, T, E] that enter each layer, and those after the last one, of the
    tokens before each of the T that the target answers with."""
    runner = engine.target.runner
    L, taps = runner.model.layers_count, runner.model.taps
    for before, ids in greedy_answers(engine, prompts, max_new_tokens):
        runner.tap(range(L + 1))
        try:
            runner.reset(len(before) + len(ids))
            runner.prefill([*before, *ids[:-1]])
            states = runner.tapped[len(before) - 1 : runner.length].clone()
        finally:
            runner.release()
            runner.tap(taps)
        yield states.unflatten(1, (L + 1, -1)).transpose(0, 1)


@torch.inference_mode()
def _guesses(model, states: torch.Tensor) -> torch.Tensor:
    """Returns the likeliest word [L + 1, T] after each of states [L + 1, T, E], a layer at a time."""
    return torch.stack([model.head(model.norm_out(layer)).argmax(-1) for layer in states]).cpu()


@torch.inference_mode()
def _costs(runner: DecoderRunner) -> dict[int, float]:
    """Measures the cost of the output layer after k layers, for each k, in whole steps. A depth costs at most as much
    as those below it, so that a pass that was disturbed every time does not count."""
    model, context = runner.model, min(_CONTEXT, runner.max_length - 1)

    def step(k: int):
        return lambda: model.head(model.norm_out(model.states(ids, [span], k)[0]))

    runner.reset(context + 1)
    try:
        runner.prefill([(7 * i + 1) % model.vocab_size for i in range(context)])
        ids, span = to_device([1], runner.device), runner.next_span(1)
        times = calibration.timings({k: step(k) for k in range(model.layers_count + 1)}, runner.device, _REPEATS)
    finally:
        runner.release()
    best = [min(min(seconds) for depth, seconds in times.items() if depth >= k) for k in times]
    return {k: seconds / best[-1] for k, seconds in enumerate(best)}

"""Times single passes: what scoring W tokens at once takes, and reading a prompt, here and in llama.cpp.

All are timed in turn, and the fastest of each counts, because other programs only ever slow a pass down.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext

import torch

from engine.device import to_device
from engine.files import ProgressCallback
from engine.models.decoder.runner import Runner
from engine.models.onnx.llama import ONNX_PRECISIONS
from engine.runtime.engine import load_engine
from engine.tools.bench.llama_cpp import LlamaCpp, cores_for_others, is_installed
from engine.tools.bench.metrics import table

WIDTHS = (1, 2, 4, 8, 16)
PREFILL = 256
LLAMA_CPP = "llama-cpp"
_CONTEXT, _REPEATS = PREFILL, 15  # so that a prompt leaves the context of the other passes


@torch.inference_mode()
def measure(pair: str, progress: ProgressCallback) -> dict[str, dict[str, float]]:
    """Measures the seconds of a pass by system (a precision of ours, and llama-cpp where it can run), then by the
    work: "1", "2", … tokens after 256 others, and "prefill". Raises Unavailable where a system cannot run."""
    engines = {precision: load_engine(pair, "cpu", precision) for precision in ONNX_PRECISIONS}
    first = engines[ONNX_PRECISIONS[0]]
    ids = [(7 * i + 1) % first.target.runner.vocab_size for i in range(_CONTEXT + max(WIDTHS))]
    systems = {
        name: {what: _timer(step) for what, step in _ours(engine.target.runner, ids).items()}
        for name, engine in engines.items()
    }
    if first.gguf and is_installed():
        systems[LLAMA_CPP] = _llama_cpp(first.gguf, ids)
    best = {name: dict.fromkeys(steps, float("inf")) for name, steps in systems.items()}
    try:
        for repeat in range(_REPEATS):
            for name, steps in systems.items():
                with cores_for_others() if name == LLAMA_CPP else nullcontext():
                    for what, step in steps.items():
                        step()  # wakes the threads
                        best[name][what] = min(best[name][what], step())
            progress((repeat + 1) / _REPEATS, "Passes in turn")
    finally:
        for engine in engines.values():
            engine.target.runner.release()
    return best


def _timer(step: Callable[[], object]) -> Callable[[], float]:
    def seconds() -> float:
        start = time.perf_counter()
        step()
        return time.perf_counter() - start

    return seconds


def _ours(runner: Runner, ids: Sequence[int]) -> dict[str, Callable[[], object]]:
    runner.reset(len(ids) + 1)
    runner.prefill(ids[:_CONTEXT])

    def scoring(W: int):
        tokens = to_device(ids[_CONTEXT : _CONTEXT + W], "cpu")

        def score():
            runner.rollback(_CONTEXT)
            return runner.forward(tokens)

        return score

    def prefill():
        runner.rollback(0)
        runner.prefill(ids[:PREFILL])

    return {str(W): scoring(W) for W in WIDTHS} | {"prefill": prefill}


def _llama_cpp(gguf, ids: Sequence[int]) -> dict[str, Callable[[], float]]:
    process = LlamaCpp(gguf, _CONTEXT + max(WIDTHS))

    def timer(start: int, tokens: Sequence[int], scored: bool):
        return lambda: process.ask(kept=start, ids=tokens, scored=scored)["seconds"]

    passes = {str(W): timer(_CONTEXT, ids[_CONTEXT : _CONTEXT + W], True) for W in WIDTHS}
    return {"prefill": timer(0, ids[:PREFILL], False)} | passes  # the prompt first, because the others continue it


def markdown(seconds: dict[str, dict[str, float]]) -> str:
    """Writes milliseconds a pass, a row for each system."""
    heads = ["ms a pass", *(f"W = {W}" for W in WIDTHS), f"prompt of {PREFILL}"]
    rows = [
        [name, *(f"{1e3 * row[str(W)]:.1f}" for W in WIDTHS), f"{1e3 * row['prefill']:.0f}"]
        for name, row in seconds.items()
    ]
    return table(heads, rows)

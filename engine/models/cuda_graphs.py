"""Captures and replays CUDA graphs: ``run(key, step)`` captures the step once on CUDA, and just calls it on a CPU.

A step reads and writes buffers that stay where they are (its owner fills them before the call) and returns tensors;
on CUDA those are the captured ones, overwritten by the next replay of the same key.
"""

import os
import threading
from collections.abc import Callable, Hashable
from functools import cache

import torch

SWITCH = "SPECLENS_CUDA_GRAPHS"  # 0 in the environment: nothing is captured
MOST_GRAPHS = 128  # of one model; each holds the scratch memory of its passes
SMALLEST_CACHE = 1024  # slots; a larger cache needs new graphs
_SMALLEST_LENGTH = 256
_EXACT_WIDTH, _WIDTH_STEP = 4, 8
_CAPTURING = threading.Lock()


class EagerGraphs:
    """No capture: every run is a call."""

    captured = False

    def run(self, key: Hashable, step: Callable):
        return step()

    def clear(self) -> None:
        pass


class CudaGraphs:
    """One graph per key, each with memory of its own: in a shared pool one graph's scratch space may be another's
    result, and a round holds the draft's q while the verify graph replays. The ones used last are kept, because every
    sampling setting brings graphs of its own."""

    captured = True

    def __init__(self, device: str):
        self._device = torch.device(device)
        self._graphs: dict[Hashable, tuple[torch.cuda.CUDAGraph, object]] = {}  # the one used last is at the end

    def run(self, key: Hashable, step: Callable):
        with torch.cuda.device(self._device):  # otherwise a stream belongs to the first device
            graph, outputs = self._graphs[key] = self._graphs.pop(key, None) or self._capture(step)
            if len(self._graphs) > MOST_GRAPHS:
                del self._graphs[next(iter(self._graphs))]
            graph.replay()
        return outputs

    def _capture(self, step: Callable):
        with _CAPTURING:  # work that another thread sent to the same stream would be recorded
            return self._capture_alone(step)

    def _capture_alone(self, step: Callable):
        # Warm-up on a side stream, as capture requires: lazy initialisation and autotuning must not be recorded.
        side = _side_stream(self._device)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        # The stream by name, because torch's default one belongs to the device that was captured on first (torch 2.13).
        with torch.cuda.graph(graph, stream=side, capture_error_mode="thread_local"):
            outputs = step()
        return graph, outputs

    def clear(self) -> None:
        self._graphs.clear()


def long_enough(length: int) -> int:
    """Returns how many slots of a cache a pass reads that needs ``length``, so that one graph serves many rounds."""
    return max(_SMALLEST_LENGTH, 1 << (length - 1).bit_length())


def wide_enough(width: int) -> int:
    """Returns how many tokens a pass has for ``width``.

    >>> [wide_enough(width) for width in (1, 4, 5, 8, 9)]
    [1, 4, 8, 8, 16]
    """
    return width if width <= _EXACT_WIDTH else -(-width // _WIDTH_STEP) * _WIDTH_STEP


@cache
def _side_stream(device: torch.device) -> "torch.cuda.Stream":
    """One for all captures: each stream gets a workspace of cuBLAS, 32 MB on an H200, that is never given back."""
    return torch.cuda.Stream(device)


def graphs_for(device: str):
    use_graphs = torch.device(device).type == "cuda" and os.environ.get(SWITCH, "1") != "0"
    return CudaGraphs(device) if use_graphs else EagerGraphs()

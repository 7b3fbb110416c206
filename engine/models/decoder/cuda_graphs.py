"""Captures and replays CUDA graphs: ``run(key, step)`` captures the step once on CUDA, and just calls it on a CPU.

A step reads and writes buffers that stay where they are (its owner fills them before the call) and returns tensors;
on CUDA those are the captured ones, overwritten by the next replay of the same key.
"""

import os
from collections.abc import Callable, Hashable

import torch

SWITCH = "SPECLENS_CUDA_GRAPHS"  # 0 in the environment: nothing is captured
MOST_GRAPHS = 128  # per model; each holds the scratch memory of its passes, and every sampling setting adds some
SMALLEST_CACHE = 1024  # slots; a larger cache needs new graphs
_SMALLEST_LENGTH = 256
_EXACT_WIDTH, _WIDTH_STEP = 4, 8


class EagerGraphs:
    """No capture: every run is a call."""

    captured = False

    def run(self, key: Hashable, step: Callable):
        return step()

    def clear(self) -> None:
        pass


class CudaGraphs:
    """One graph per key, each with memory of its own: in a shared pool one graph's scratch space may be another's
    result, and a round holds the draft's q while the verify graph replays.

    All are captured on one stream, because each stream has a workspace of cuBLAS (32 MB on an H200). They are also
    given up together: torch 2.13 frees a stream's workspace with any graph that was captured on it (pytorch 193402).
    """

    captured = True

    def __init__(self, device: str):
        self._device = torch.device(device)
        self._graphs: dict[Hashable, tuple[torch.cuda.CUDAGraph, object]] = {}
        self._side: torch.cuda.Stream | None = None

    def run(self, key: Hashable, step: Callable):
        with torch.cuda.device(self._device):  # otherwise a stream belongs to the first device
            if key not in self._graphs:
                if len(self._graphs) == MOST_GRAPHS:
                    self.clear()
                self._graphs[key] = self._capture(step)
            graph, outputs = self._graphs[key]
            graph.replay()
        return outputs

    def _capture(self, step: Callable):
        # Warm-up on a side stream, as capture requires: lazy initialisation and autotuning must not be recorded.
        side = self._side = self._side or torch.cuda.Stream()
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
    """Returns how many tokens a pass holds for ``width``.

    >>> [wide_enough(width) for width in (1, 4, 5, 8, 9)]
    [1, 4, 8, 8, 16]
    """
    return width if width <= _EXACT_WIDTH else -(-width // _WIDTH_STEP) * _WIDTH_STEP


def graphs_for(device: str):
    use_graphs = torch.device(device).type == "cuda" and os.environ.get(SWITCH, "1") != "0"
    return CudaGraphs(device) if use_graphs else EagerGraphs()

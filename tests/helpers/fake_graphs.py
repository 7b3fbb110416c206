"""Plays CUDA graphs on a CPU, with the mistakes that real ones would make visible.

A captured graph knows nothing of later Python code. So each later run of a key repeats the step of its first run, not
the closure it is given; its results are in buffers that keep their address, and are overwritten with NaN (or −1)
before each replay, as a buffer's next owner might.
"""

from collections.abc import Callable, Hashable

import torch


class FakeGraphs:
    captured = True
    made = 0  # graphs captured by anybody, for tests that want to know they were used

    def __init__(self):
        self._graphs: dict[Hashable, tuple[Callable, object]] = {}

    def run(self, key: Hashable, step: Callable):
        if key not in self._graphs:
            step()  # the warm-up
            self._graphs[key] = step, step()
            FakeGraphs.made += 1
        first, outputs = self._graphs[key]
        _each(outputs, outputs, lambda kept, _: kept.fill_(float("nan") if kept.is_floating_point() else -1))
        _each(outputs, first(), lambda kept, new: kept.copy_(new))
        return outputs

    def clear(self) -> None:
        self._graphs.clear()


def _each(kept, new, act: Callable) -> None:
    """Calls ``act`` on every tensor of two results of the same shape; drafts and tuples hold them."""
    if isinstance(kept, torch.Tensor):
        act(kept, new)
    elif isinstance(kept, tuple | list):
        for a, b in zip(kept, new, strict=True):
            _each(a, b, act)
    elif hasattr(kept, "__dict__") or hasattr(kept, "__slots__"):
        names = getattr(kept, "__slots__", None) or vars(kept)
        for name in names:
            _each(getattr(kept, name), getattr(new, name), act)

"""Runs the engine on fake CUDA tensors: shapes, types, devices and addresses without numbers, and without a GPU.

Operators dispatch as they do on CUDA, in torch's CUDA build only. `FakeCuda` fails where the host would wait for the
device, and where a captured graph could not repeat a step, and names the line.
"""

import linecache
import sys
from collections.abc import Callable, Hashable
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from paths import ROOT
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from engine.models.decoder.cuda_graphs import EagerGraphs

_COPIES = ("aten.to.", "aten._to_copy.", "aten.copy_.")


class HostReached(AssertionError):
    """The line would make the host wait for the device, or the device for the host."""


class NotRepeatable(AssertionError):
    """The line does something that a replay of the captured graph would not repeat."""


@cache
def _in_project(file: str) -> str | None:
    """The path relative to the project, None of torch's files and of this one."""
    path = Path(file)
    is_ours = path.is_relative_to(ROOT) and path != Path(__file__) and "site-packages" not in path.parts
    return str(path.relative_to(ROOT)) if is_ours else None


def project_line() -> tuple[str, str, int]:
    """The innermost line of the project outside this file: its relative path, path and number."""
    frame = sys._getframe(1)
    while frame and not _in_project(frame.f_code.co_filename):
        frame = frame.f_back
    file = frame.f_code.co_filename
    return _in_project(file), file, frame.f_lineno


def at_line(problem: str, line: tuple[str, str, int] | None = None) -> str:
    """ "engine/file.py:12: its text: the problem" of this line, or of the one that runs."""
    name, file, number = line or project_line()
    return f"{name}:{number}: {linecache.getline(file, number).strip()}: {problem}"


class Watch(TorchDispatchMode):
    """Sees every operator before it runs on fake tensors. ``recording``: where a captured step is written down.
    ``is_loading``: a model is loaded between two steps, and the host may wait."""

    recording: "Recording | None" = None
    is_loading = False

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs, name = kwargs or {}, str(function)
        if name.startswith("prim."):  # asks a tensor for its device
            return function(*args, **kwargs)
        leaves = tree_flatten((args, kwargs))[0]
        given = [x for x in leaves if isinstance(x, torch.Tensor)]
        self._check(name, given, args, kwargs)
        if self.recording is not None:
            self.recording.before(name, given, leaves)
        try:
            result = function(*args, **kwargs)
        except Exception as error:  # fake tensors raise many types; each means that the operator needs real numbers
            raise HostReached(at_line(f"{name} needs the numbers of a CUDA tensor: {error}")) from error
        if self.recording is not None:
            self.recording.after(result)
        return result

    def _check(self, name: str, given: list, args, kwargs) -> None:
        if self.is_loading:
            return
        if name.startswith(_COPIES):
            self._check_copy(name, args, kwargs)
        elif {x.device.type for x in given} == {"cpu", "cuda"}:
            raise HostReached(at_line(f"{name} mixes a CPU tensor with CUDA tensors"))
        elif name.startswith("aten.index") and any(x.dtype in (torch.bool, torch.uint8) for x in _indices(args)):
            raise HostReached(at_line(f"{name} waits to count a mask"))

    @staticmethod
    def _check_copy(name: str, args, kwargs) -> None:
        """Copies to the device must start from pinned memory, and not wait."""
        goal, source = args[:2] if name.startswith("aten.copy_") else (args[0], args[0])
        named = [x for x in (*args, *kwargs.values()) if isinstance(x, torch.device)]
        start, end = source.device.type, named[0].type if named else goal.device.type
        if (start, end) == ("cuda", "cpu"):
            raise HostReached(at_line(f"{name} copies from the device, which waits for it"))
        non_blocking = kwargs.get("non_blocking") or True in args[2:]
        if (start, end) == ("cpu", "cuda") and not (getattr(source, "is_fake_pinned", False) and non_blocking):
            raise HostReached(at_line(f"{name} waits for a copy from memory that is not pinned"))


def _indices(args) -> list:
    inner = args[1] if len(args) > 1 and isinstance(args[1], list | tuple) else ()
    return [x for x in inner if isinstance(x, torch.Tensor)]


class Recording:
    """The operators of one captured step, with the shape, type and address of every tensor and every Python number.

    A tensor from outside the step has its address; one made in the step is numbered, because each replay makes it at
    the place where capture did.
    """

    def __init__(self):
        self.steps: list[tuple] = []
        self.lines: list[tuple[str, str, int]] = []
        self._places: dict[int, str] = {}  # by storage
        self._storages: list = []  # referenced, because otherwise an address could be used twice
        self._made = 0

    def before(self, name: str, given: list, leaves: list) -> None:
        if any(x.device.type == "cpu" for x in given):
            raise NotRepeatable(at_line(f"{name} reads host memory inside a captured step"))
        self.steps.append((name, *map(self._described, leaves)))
        self.lines.append(project_line())

    def after(self, result) -> None:
        for x in tree_flatten(result)[0]:
            if isinstance(x, torch.Tensor) and x.untyped_storage()._cdata not in self._places:
                self._place(x, f"made here, {self._made}")
                self._made += 1

    def _place(self, x: torch.Tensor, place: str) -> str:
        storage = x.untyped_storage()
        if storage._cdata not in self._places:
            self._storages.append(storage)
            self._places[storage._cdata] = place
        return self._places[storage._cdata]

    def _described(self, x):
        if not isinstance(x, torch.Tensor):
            return repr(x)
        place = self._place(x, f"at {x.untyped_storage()._cdata:x}")
        return place, tuple(x.shape), x.stride(), x.storage_offset(), str(x.dtype)

    def compare(self, later: "Recording") -> None:
        """Raises NotRepeatable with the first operator of ``later`` that is not this one's."""
        for mine, theirs, line in zip(self.steps, later.steps, later.lines, strict=False):
            if mine != theirs:
                raise NotRepeatable(at_line(f"captured as {mine}, now it is {theirs}", line))
        if len(self.steps) != len(later.steps):
            longer = max(self, later, key=lambda recording: len(recording.steps))
            line = longer.lines[min(len(self.steps), len(later.steps))]
            raise NotRepeatable(
                at_line(f"{len(self.steps)} operators were captured, now there are {len(later.steps)}", line)
            )


class RecordedGraphs:
    """Captures a step as a `Recording`. A later run of the same key is recorded as well and must be equal."""

    captured = True

    def __init__(self, cuda: "FakeCuda"):
        self._cuda = cuda
        self.recordings: dict[Hashable, Recording] = {}

    def run(self, key: Hashable, step: Callable):
        recording = self._cuda.watch.recording = Recording()
        try:
            result = step()
        finally:
            self._cuda.watch.recording = None
        first = self.recordings.setdefault(key, recording)
        if first is not recording:
            first.compare(recording)
            self._cuda.replays += 1
        return result

    def clear(self) -> None:
        self.recordings.clear()


class FakeCuda:
    """Replaces the device: ``captured`` says whether passes are graphs. ``reads``: waits of the rounds so far, each at
    the one seam, `engine.device.to_host`; ``level_reads``: those of an EAGLE tree after each level, and after each
    round of lookahead and of drafts that are encoded again; ``waits``: the device of other waits, as after a prefill;
    ``marks``: the device of each time that was taken; ``replays``: captured steps that ran again and were equal."""

    def __init__(self, patch, captured: bool = True):
        self.watch, self.reads, self.level_reads, self.replays = Watch(), 0, 0, 0
        self.waits: list[str] = []
        self.marks: list[str] = []
        self._fake = FakeTensorMode(allow_non_fake_inputs=True)
        patch.setattr(
            "engine.models.decoder.runner.graphs_for", lambda _: RecordedGraphs(self) if captured else EagerGraphs()
        )
        patch.setattr("engine.decoding.trace_recorder.to_host", self._read)
        patch.setattr("engine.drafters.eagle_tree.to_host", self._read_level)
        patch.setattr("engine.drafters.lookahead.to_host", self._read_window)
        patch.setattr("engine.drafters.reencoding.to_host", self._read_window)
        patch.setattr(torch.cuda, "synchronize", self.waits.append)
        patch.setattr(torch.cuda, "current_stream", lambda device: device)
        patch.setattr(torch.cuda, "Event", self._event)
        patch.setattr(torch.Tensor, "pin_memory", _pinned)  # torch 2.13 cannot pin a fake tensor

    @contextmanager
    def loading(self):
        """Tensors are fake, and the host may read and copy: as while a model is loaded."""
        self.watch.is_loading = True
        try:
            with self._fake, torch.inference_mode():
                yield
        finally:
            self.watch.is_loading = False

    @contextmanager
    def running(self):
        """Enters a run, where nothing may make the host wait."""
        with self._fake, self.watch:
            yield

    def _read(self, tensor: torch.Tensor) -> np.ndarray:
        assert tensor.device.type == "cuda" and tensor.dtype == torch.float32 and tensor.ndim == 1
        self.reads += 1
        return np.full(len(tensor), 0.5, dtype=np.float32)

    def _read_level(self, best: torch.Tensor) -> np.ndarray:
        """best [2, W, B] → shares of which the first in each row is the largest, and ids."""
        assert best.device.type == "cuda" and best.dtype == torch.float32 and best.shape[0] == 2
        self.level_reads += 1
        ranks = np.broadcast_to(np.arange(best.shape[2], dtype=np.float32), best.shape[1:])
        return np.stack([0.6 / 2**ranks, 3 + ranks])

    def _read_window(self, tokens: torch.Tensor) -> np.ndarray:
        """tokens [W] → ids; once a round."""
        assert tokens.device.type == "cuda" and tokens.dtype == torch.long
        self.level_reads += 1
        return np.arange(3, 3 + len(tokens))

    def _event(self, enable_timing: bool) -> SimpleNamespace:
        return SimpleNamespace(record=self.marks.append, elapsed_time=lambda other: 1.0)


def _pinned(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.device.type != "cpu":
        raise HostReached(at_line("only host memory can be pinned"))
    copy = tensor.clone()
    copy.is_fake_pinned = True
    copy.constant = None  # torch 2.13 would move a known number to a real device
    return copy

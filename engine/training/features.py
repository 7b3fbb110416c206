"""What the target thought at every sampled token: hidden states, computed once and read in every epoch.

One flat file of float16, [T, taps + 1, E]: the tapped states (entering a layer, as `Decoder.taps` counts) and last the
final one, before the last norm, from which the target's whole distribution is one product away. A JSON file beside it
says what was computed for whom and how many rows are done, so that an interrupted run goes on where it stopped.
"""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from engine.errors import BadInput
from engine.folders import disk_errors, need_disk, write_atomically
from engine.runner import DecoderRunner
from engine.training.samples import Samples

_EVERY = 50  # rows between two notes of how far we are


@dataclass(frozen=True)
class Features:
    """``states`` [T, taps + 1, E] float16, read from disk as needed."""

    states: np.ndarray
    taps: tuple[int, ...]

    def tapped(self, start: int, end: int, taps: Sequence[int]) -> np.ndarray:
        """[end − start, taps, E]"""
        return self.states[start:end][:, [self.taps.index(t) for t in taps]]

    def final(self, start: int, end: int) -> np.ndarray:
        return self.states[start:end, -1]


def high_taps(layers: int) -> tuple[int, ...]:
    """Three layers whose incoming states a head reads. EAGLE-3 taps layers 2, n/2 and n − 3 of large models; on 30
    layers of width 576 higher ones were a little better (9, 23, 29 against 2, 16, 29: α 0.282 and 0.276 after 60
    updates)."""
    return tuple(sorted({round(0.3 * layers), min(round(0.77 * layers), layers - 1), layers - 1}))


def compute(
    runner: DecoderRunner,
    samples: Samples,
    folder: Path,
    taps: Sequence[int],
    target: str,
    progress: Callable[[float, str], None] = lambda fraction, message: None,
) -> Features:
    """Features of all samples in ``folder``; only what is missing is computed. ``target``: hash of the weights they
    come from. Unavailable on too small a disk."""
    layers, E = runner.model.layers_count, runner.model.config.hidden_size
    if not all(0 <= t < layers for t in taps):
        raise BadInput(f"Taps must lie between 0 and {layers - 1}, the target's layers; got {list(taps)}.")
    taps = (*taps, layers)
    wanted = {"samples": samples.fingerprint(), "taps": list(taps), "hidden_size": E, "target": target}
    file, note = folder / "features.bin", folder / "features.json"
    shape = (len(samples.tokens), len(taps), E)
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        done = _done(file, note, wanted, int(np.prod(shape)) * 2)
        if not done:
            need_disk(folder, int(np.prod(shape)) * 2, "Keeping the target's features")
            note.unlink(missing_ok=True)  # of what stood here before
            _reserve(file, int(np.prod(shape)) * 2)
        states = np.memmap(file, np.float16, "r+", shape=shape)
        _fill(runner, samples, states, taps, done, note, wanted, progress)
    return Features(np.memmap(file, np.float16, "r", shape=shape), taps[:-1])


def _reserve(file: Path, size: int) -> None:
    """The whole file now: a disk that fills up under a mapped file kills the process instead of telling it."""
    with open(file, "wb") as made:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(made.fileno(), 0, size)
        else:
            made.truncate(size)


def _done(file: Path, note: Path, wanted: dict, size: int) -> int:
    """Rows computed before for the same samples and taps; 0 where there are none or they are for others."""
    try:
        found = json.loads(note.read_text(encoding="utf-8"))
        same = {key: found.get(key) for key in wanted} == wanted and file.stat().st_size == size
        return int(found["rows"]) if same else 0
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return 0


@torch.inference_mode()
def _fill(runner, samples, states, taps, done, note, wanted, progress) -> None:
    before = runner.model.taps
    runner.tap(taps)
    try:
        runner.reset(max(samples.length(i) for i in range(len(samples))))
        for i in range(done, len(samples)):
            start, end = int(samples.starts[i]), int(samples.starts[i + 1])
            runner.rollback(0)
            runner.prefill(samples.row(i).astype(np.int64).tolist())
            found = runner.tapped[: end - start].view(end - start, len(taps), -1)
            states[start:end] = found.clamp(-65504, 65504).half().cpu().numpy()  # float16 ends there
            if (i + 1) % _EVERY == 0 or i + 1 == len(samples):
                states.flush()
                write_atomically(note, json.dumps(wanted | {"rows": i + 1}))
                progress((i + 1) / len(samples), f"Features of row {i + 1} of {len(samples)}")
    finally:
        runner.release()
        runner.tap(before)

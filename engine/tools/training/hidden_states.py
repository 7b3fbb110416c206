"""Computes the target's hidden states at every sampled token once, for use in every epoch.

One flat file of float16, [T, taps + 1, E]: the tapped states (entering a layer, as `LlamaModel.taps` counts), then the
final one before the last norm, which the output layer turns into the target's distribution. A JSON file beside it
names the model and counts the finished rows, so that an interrupted run resumes there.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from engine.errors import BadInput, quantity
from engine.files import ProgressCallback, disk_errors, need_disk, read_json, write_atomically
from engine.models.decoder.runner import DecoderRunner
from engine.tools.training.dataset import Samples
from engine.tools.training.pace import Pace

_EVERY = 50  # rows between two progress notes


@dataclass(frozen=True)
class Features:
    """``states`` [T, taps + 1, E] float16, read from disk as needed."""

    states: np.ndarray
    taps: tuple[int, ...]

    def states_of(self, start: int, end: int, taps: Sequence[int]) -> np.ndarray:
        """Returns the states [end − start, taps, E]."""
        return self.states[start:end][:, [self.taps.index(t) for t in taps]]

    def final(self, start: int, end: int) -> np.ndarray:
        return self.states[start:end, -1]


def high_taps(layers: int) -> tuple[int, ...]:
    """Returns the three layers whose incoming states a head reads. EAGLE-3 reads 2, n/2 and n − 3 of large models;
    on 30 layers of width 576 higher ones were slightly better (9, 23, 29: α 0.282; 2, 16, 29: 0.276).
    """
    return tuple(sorted({round(0.3 * layers), min(round(0.77 * layers), layers - 1), layers - 1}))


def exit_layer(layers: int) -> tuple[int, ...]:
    """Returns the layer whose incoming state an exit head reads. On 30 layers of width 576, heads trained alike agreed
    with the target at 0.28 after 2 layers, 0.29 after 3, 0.30 after 4 and 0.29 after 6. Because each layer holds 0.026
    of its weights, few of them pay best.
    """
    return (max(1, round(layers / 15)),)


def check_taps(taps: Sequence[int], layers: int) -> None:
    if not all(0 <= t < layers for t in taps):
        raise BadInput(f"Taps must lie between 0 and {layers - 1}, the target's layers; got {list(taps)}.")


def compute(
    runner: DecoderRunner,
    samples: Samples,
    folder: Path,
    taps: Sequence[int],
    target: str,
    progress: ProgressCallback = lambda fraction, message: None,
) -> Features:
    """Returns the features of all samples, computing those that ``folder`` lacks; it may have more taps than these.
    ``target``: hash of the weights. Raises Unavailable if the disk is too small."""
    layers, E = runner.model.layers_count, runner.model.config.hidden_size
    check_taps(taps, layers)
    file, note = folder / "features.bin", folder / "features.json"
    key = {"samples": samples.fingerprint(), "hidden_size": E, "target": target, "dtype": str(runner.model.dtype)}
    taps = _stored_taps(note, key, taps) or (*taps, layers)
    key["taps"] = list(taps)
    shape = (len(samples.tokens), len(taps), E)
    size = int(np.prod(shape)) * 2
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        done = _count_done(file, note, key, size)
        if not done:
            need_disk(folder, size, "Keeping the target's features")
            note.unlink(missing_ok=True)
            _reserve(file, size)
        states = np.memmap(file, np.float16, "r+", shape=shape)
        _fill(runner, samples, states, taps, done, note, key, progress)
    return Features(np.memmap(file, np.float16, "r", shape=shape), taps[:-1])


def _reserve(file: Path, size: int) -> None:
    """Allocates the file. Otherwise a disk that fills up under a mapped file would kill the process (SIGBUS)."""
    with open(file, "wb") as target:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(target.fileno(), 0, size)
        else:
            target.truncate(size)


def _stored_taps(note: Path, key: dict, taps: Sequence[int]) -> tuple[int, ...]:
    """Returns the taps of the features of the same samples, the final one too, if these are among them."""
    stored = read_json(note)
    layers = stored.get("taps") if {name: stored.get(name) for name in key} == key else None
    has_all = isinstance(layers, list) and {*taps} <= {i for i in layers[:-1] if isinstance(i, int)}
    return tuple(layers) if has_all else ()


def _count_done(file: Path, note: Path, key: dict, size: int) -> int:
    """Returns the number of rows computed before for the same samples and taps."""
    stored = read_json(note)
    is_same = {name: stored.get(name) for name in key} == key and file.exists() and file.stat().st_size == size
    rows = stored.get("rows")
    return rows if is_same and isinstance(rows, int) else 0


@torch.inference_mode()
def _fill(runner, samples, states, taps, done, note, key, progress) -> None:
    before, pace = runner.model.taps, Pace()
    runner.tap(taps)
    try:
        runner.reset(max(samples.length(i) for i in range(len(samples))))
        for i in range(done, len(samples)):
            start, end = int(samples.starts[i]), int(samples.starts[i + 1])
            runner.rollback(0)
            runner.prefill(samples.row(i).astype(np.int64).tolist())
            tapped = runner.tapped[: end - start].view(end - start, len(taps), -1)
            states[start:end] = tapped.clamp(-65504, 65504).half().cpu().numpy()  # the range of float16
            pace.count(end - start)
            if (i + 1) % _EVERY == 0 or i + 1 == len(samples):
                states.flush()
                write_atomically(note, json.dumps(key | {"rows": i + 1}))
                progress((i + 1) / len(samples), f"{i + 1:,} of {quantity(len(samples), 'row')} read, {pace}")
    finally:
        runner.release()
        runner.tap(before)

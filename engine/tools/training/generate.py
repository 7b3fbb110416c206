"""Samples the target's replies to prompts and saves them in parts; a process that is killed loses one part at most."""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from engine.config import RunConfig
from engine.errors import BadInput
from engine.files import ProgressCallback, disk_errors
from engine.runtime.engine import encode_prompt
from engine.tools.training import dataset
from engine.tools.training.batched_sampler import BatchedSampler, Row
from engine.tools.training.dataset import Samples

TEMPERATURES = (0.0, 0.7, 1.0)
_PART = 100  # rows


def fingerprint(prompts: Sequence[str]) -> str:
    """Returns a hash of a list of prompts."""
    return hashlib.sha256("\0".join(prompts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def requests(tokenizer, prompts: Sequence[str], count: int, seed: int, longest: int) -> Iterator[Row]:
    """Yields row i for prompt i modulo their number, temperatures in turn; skips prompts that leave no room."""
    chat = bool(tokenizer.chat_template)
    for i in range(count):
        ids = encode_prompt(tokenizer, RunConfig(prompts[i % len(prompts)], chat=chat))
        if len(ids) < longest:
            temperature = TEMPERATURES[(i + i // len(prompts)) % len(TEMPERATURES)]
            yield Row(i, list(ids), temperature, seed * 1_000_003 + i)


def collect(
    sampler: BatchedSampler,
    rows: Iterator[Row],
    count: int,
    ends: frozenset[int],
    limit: int,
    folder: Path,
    say: ProgressCallback,
) -> Samples:
    """Returns all rows, some of them from earlier runs in ``folder``; writes new ones there in parts, and all to one
    file."""
    have = {i for index, _ in _read_parts(folder) for i in index}
    done, unsaved = len(have), []
    try:
        for row in sampler.sample((r for r in rows if r.index not in have), ends, limit):
            unsaved.append(row)
            done += 1
            if len(unsaved) == _PART:
                _save(folder, unsaved)
                unsaved = []
            say(done / count, f"{done:,} of {count:,} replies, {sampler.pace}")
    except KeyboardInterrupt:
        _save(folder, unsaved)
        raise
    _save(folder, unsaved)
    samples = read_folder(folder)
    if samples is None:
        raise BadInput("No reply was sampled: every prompt is too long to leave room for a reply.")
    dataset.save(folder / "samples.npz", samples)
    return samples


def read_folder(folder: Path, vocab_size: int = 1 << 32) -> Samples | None:
    """Reads the rows that a run has saved so far, in order; None if there are none. Raises BadInput."""
    parts = _read_parts(folder, vocab_size)
    if not parts:
        return None
    order = np.unique(np.concatenate([index for index, _ in parts]), return_index=True)[1]
    return _reorder(dataset.join([part for _, part in parts]), order)


def _save(folder: Path, rows: list[Row]) -> None:
    if not rows:
        return
    number = len(list(folder.glob("part-*.npz"))) if folder.exists() else 0
    path = folder / f"part-{number:05d}.npz"
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        np.save(
            path.with_suffix(".npy"), np.array([r.index for r in rows])
        )  # first, because a part without it is ignored
    dataset.save(path, to_samples(rows))


def to_samples(rows: list[Row]) -> Samples:
    tokens = np.concatenate([np.array(r.tokens) for r in rows])
    kind = np.uint16 if tokens.max() < 1 << 16 else np.uint32
    prompts = np.array([r.prompt_len for r in rows], dtype=np.uint16)
    replies = np.array([len(r.tokens) - r.prompt_len for r in rows], dtype=np.uint16)
    return Samples(tokens.astype(kind), prompts, replies, np.array([r.temperature for r in rows], dtype=np.float32))


def _read_parts(folder: Path, vocab_size: int = 1 << 32) -> list[tuple[np.ndarray, Samples]]:
    parts = []
    for path in sorted(folder.glob("part-*.npz")):
        try:
            index = np.load(path.with_suffix(".npy"), allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise BadInput(f"{path.with_suffix('.npy')} is damaged; delete {folder} and sample again.") from error
        parts.append((index, dataset.load(path, vocab_size)))
    return parts


def _reorder(samples: Samples, order: np.ndarray) -> Samples:
    tokens = np.concatenate([samples.row(i) for i in order])
    return Samples(tokens, *(getattr(samples, n)[order] for n in ("prompt_len", "reply_len", "temperature")))

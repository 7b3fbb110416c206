"""The target's own replies, sampled in parts, so that an interrupted run loses at most one part."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from engine.config import RunConfig
from engine.errors import BadInput
from engine.folders import disk_errors
from engine.text import encode_prompt
from engine.training import samples
from engine.training.samples import Samples
from engine.training.slots import Row, Slots

TEMPERATURES = (0.0, 0.7, 1.0)
_PART = 100  # rows

Say = Callable[[float, str], None]


def fingerprint(prompts: Sequence[str]) -> str:
    """Tells two lists of prompts apart."""
    return hashlib.sha256("\0".join(prompts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def requests(tokenizer, prompts: Sequence[str], count: int, seed: int, longest: int) -> Iterator[Row]:
    """Row i asks prompt i modulo their number, temperatures in turn; a prompt that leaves no room is passed over."""
    chat = bool(tokenizer.chat_template)
    for i in range(count):
        ids = encode_prompt(tokenizer, RunConfig(prompts[i % len(prompts)], chat=chat))
        if len(ids) < longest:
            temperature = TEMPERATURES[(i + i // len(prompts)) % len(TEMPERATURES)]
            yield Row(i, list(ids), temperature, seed * 1_000_003 + i)


def collect(
    slots: Slots, rows: Iterator[Row], count: int, ends: frozenset[int], most: int, folder: Path, say: Say
) -> Samples:
    """All rows, those of earlier runs from ``folder``; written there part by part and at last as one file."""
    done = _done(folder)
    have = {i for part in done for i in part[0]}
    fresh: list[Row] = []
    for row in slots.sample((r for r in rows if r.index not in have), ends, most):
        fresh.append(row)
        say((len(have) + len(fresh)) / count, f"{len(have) + len(fresh)} of {count} replies")
        if len(fresh) % _PART == 0:
            _save(folder, fresh[-_PART:])
    if len(fresh) % _PART:
        _save(folder, fresh[-(len(fresh) % _PART) :])
    parts = _done(folder)
    if not parts:
        raise BadInput("No reply was sampled: every prompt is longer than the room there is for prompt and reply.")
    order = np.argsort(np.concatenate([index for index, _ in parts]), kind="stable")
    whole = _sorted(samples.join([part for _, part in parts]), order)
    samples.save(folder / "samples.npz", whole)
    return whole


def _save(folder: Path, rows: list[Row]) -> None:
    number = len(list(folder.glob("part-*.npz"))) if folder.exists() else 0
    path = folder / f"part-{number:05d}.npz"
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        np.save(path.with_suffix(".npy"), np.array([r.index for r in rows]))  # first: a part without it does not count
    samples.save(path, of_rows(rows))


def of_rows(rows: list[Row]) -> Samples:
    tokens = np.concatenate([np.array(r.tokens) for r in rows])
    kind = np.uint16 if tokens.max() < 1 << 16 else np.uint32
    prompts = np.array([r.prompt_len for r in rows], dtype=np.uint16)
    replies = np.array([len(r.tokens) - r.prompt_len for r in rows], dtype=np.uint16)
    return Samples(tokens.astype(kind), prompts, replies, np.array([r.temperature for r in rows], dtype=np.float32))


def _done(folder: Path) -> list[tuple[np.ndarray, Samples]]:
    found = []
    for path in sorted(folder.glob("part-*.npz")):
        try:
            index = np.load(path.with_suffix(".npy"), allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise BadInput(f"{path.with_suffix('.npy')} is damaged; delete {folder} and sample anew.") from error
        found.append((index, samples.load(path, 1 << 32)))
    return found


def _sorted(whole: Samples, order: np.ndarray) -> Samples:
    tokens = np.concatenate([whole.row(i) for i in order])
    return Samples(tokens, *(getattr(whole, n)[order] for n in ("prompt_len", "reply_len", "temperature")))

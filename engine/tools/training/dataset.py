"""Reads and writes the training data: texts sampled from a target, as token ids in one `.npz` file, without pickles.

Arrays: ``tokens`` [T] (prompt then reply, row after row), ``prompt_len`` and ``reply_len`` [R], ``temperature`` [R].
"""

import hashlib
import io
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from engine.errors import BadInput
from engine.files import cache_root, write_file

_ARRAYS = ("tokens", "prompt_len", "reply_len", "temperature")
HELD_OUT = 0.04  # share of the prompts that no draft is trained on


@dataclass(frozen=True)
class Samples:
    """Rows of one target's replies. ``starts`` [R+1]: index in ``tokens`` of the start of each row."""

    tokens: np.ndarray
    prompt_len: np.ndarray
    reply_len: np.ndarray
    temperature: np.ndarray
    starts: np.ndarray = field(init=False)

    def __post_init__(self):
        lengths = self.prompt_len.astype(np.int64) + self.reply_len.astype(np.int64)
        object.__setattr__(self, "starts", np.concatenate([[0], np.cumsum(lengths)]))

    def __len__(self) -> int:
        return len(self.prompt_len)

    def row(self, i: int) -> np.ndarray:
        return self.tokens[self.starts[i] : self.starts[i + 1]]

    def length(self, i: int) -> int:
        return int(self.starts[i + 1] - self.starts[i])

    def prompt(self, i: int) -> np.ndarray:
        return self.row(i)[: self.prompt_len[i]]

    def held_out(self) -> np.ndarray:
        """Returns [R] bool: rows for validation, chosen by a hash of the prompt, so that no prompt is in both sets."""
        digests = (hashlib.sha256(self.prompt(i).astype("<u4").tobytes()).digest() for i in range(len(self)))
        return np.array([int.from_bytes(d[:4], "big") < HELD_OUT * 2**32 for d in digests], dtype=bool)

    def replies(self) -> np.ndarray:
        """Returns [T] bool: the tokens that the target wrote."""
        written = np.zeros(len(self.tokens), dtype=bool)
        for start, prompt, end in zip(self.starts[:-1], self.prompt_len, self.starts[1:], strict=True):
            written[start + int(prompt) : end] = True
        return written

    def fingerprint(self) -> str:
        """Returns a hash of the prompts and replies."""
        digest = hashlib.sha256(self.tokens.astype("<u4").tobytes())
        digest.update(self.prompt_len.astype("<u4").tobytes() + self.reply_len.astype("<u4").tobytes())
        return digest.hexdigest()[:16]


def join(parts: list[Samples]) -> Samples:
    return Samples(*(np.concatenate([getattr(p, name) for p in parts]) for name in _ARRAYS))


def sample_files(files: Sequence[Path] | None, work: Path) -> list[Path]:
    """Returns the files to train on: those named, or else what `sample` writes in ``work``."""
    return list(files or [work / "samples" / "samples.npz"])


def check_present(path: Path) -> None:
    """Raises BadInput where a file is missing."""
    if not path.exists():
        raise BadInput(f"There are no samples at {path}; make some with `python -m engine training sample`.")


def load(path: Path, vocab_size: int) -> Samples:
    """Raises BadInput for a file that is damaged, incomplete, of another format, or of another tokenizer."""
    path = Path(path)
    check_present(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: _array(file[name]) for name in _ARRAYS}
    except (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        raise BadInput(f"The samples {path} are damaged or cut short; sample or copy them again.") from error
    except KeyError as error:
        raise BadInput(f"{path} is not a sample file: it lacks the array {error.args[0].split()[0]!r}.") from error
    if problem := _problem(arrays, vocab_size):
        raise BadInput(f"The samples {path} cannot be used: {problem}.")
    return Samples(**arrays)


def _array(value) -> np.ndarray:
    if not isinstance(value, np.ndarray):
        raise ValueError("an archive of something else")
    return value


def _problem(arrays: dict[str, np.ndarray], vocab_size: int) -> str | None:
    tokens, *rows = (arrays[name] for name in _ARRAYS)
    if any(a.ndim != 1 for a in arrays.values()) or len({len(r) for r in rows}) != 1:
        return "its arrays must be flat, with one entry for each row in prompt_len, reply_len and temperature"
    if any(a.dtype.kind not in "ui" for a in (tokens, *rows[:2])) or arrays["temperature"].dtype.kind != "f":
        return "token ids and lengths must be whole numbers, temperatures floating point"
    if not len(rows[0]) or min(rows[0].min(), rows[1].min()) < 1:
        return "every row needs a prompt and a reply"
    total = int(sum(int(r.astype(np.int64).sum()) for r in rows[:2]))
    if total != len(tokens):
        return f"its rows add up to {total} tokens but it holds {len(tokens)}, so it is cut short"
    if int(tokens.max()) >= vocab_size or int(tokens.min()) < 0:
        return f"token id {int(tokens.max())} lies outside the target's {vocab_size} words: another tokenizer made it"
    return None


def save(path: Path, samples: Samples) -> None:
    """Writes a file and the folders above it; where that fails, an older file stays as it was."""
    content = io.BytesIO()
    np.savez_compressed(content, **{name: getattr(samples, name) for name in _ARRAYS})
    write_file(Path(path), content.getbuffer())


def work_folder(pair: str, work: Path | None) -> Path:
    """Returns the folder of a training: the one chosen, or else the pair's in the cache."""
    return Path(work) if work else cache_root() / "training" / Path(pair).name

"""Reads corpora to draft from: token ids in one `.npz` file, without pickles.

Arrays: ``tokens`` [T], texts one after the other with END after each, an id that no token has; ``tokenizer``, a
hash of the vocabulary. `python -m engine corpus` writes them.
"""

import hashlib
import json
import zipfile
import zlib
from pathlib import Path

import numpy as np

from engine.errors import BadInput

END = np.iinfo(np.uint32).max


def vocabulary_hash(tokenizer) -> str:
    listed = json.dumps(sorted(tokenizer.get_vocab().items()))
    return hashlib.sha256(listed.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def load(path: Path, tokenizer, vocab_size: int | None = None) -> np.ndarray:
    """Returns tokens [T]. Raises BadInput for a file that is damaged, cut short, of another tokenizer, or with tokens
    beyond the target's ``vocab_size``."""
    try:
        with np.load(path, allow_pickle=False) as file:
            tokens, made_with = file["tokens"], str(file["tokenizer"])
    except (OSError, ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise BadInput(f"The corpus {path} is damaged or cut short; make or copy it again.") from error
    if made_with != vocabulary_hash(tokenizer):
        raise BadInput(
            f"The corpus {path} has another tokenizer than the target; make one with `python -m engine corpus`."
        )
    if tokens.ndim != 1 or tokens.dtype.kind != "u" or not len(tokens) or tokens[-1] != np.iinfo(tokens.dtype).max:
        raise BadInput(f"The corpus {path} is cut short; make or copy it again.")
    words = tokens[tokens != np.iinfo(tokens.dtype).max]
    if vocab_size and len(words) and words.max() >= vocab_size:
        raise BadInput(
            f"The corpus {path} has the token {words.max()}, but the target has only {vocab_size:,}; make it again of "
            "texts without that token."
        )
    return tokens

"""Runs `python -m engine corpus`."""

import io
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.config import DEFAULT_PAIR
from engine.errors import BadInput, quantity
from engine.files import read_text, write_file
from engine.tools.cli import options
from engine.tools.cli.console import say

if TYPE_CHECKING:
    import numpy as np


def corpus(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILES", help="Texts in UTF-8, or .npz files of `training sample`, for the replies."),
    ] = None,
    pair: options.Pair = DEFAULT_PAIR,
    out: Annotated[Path | None, typer.Option(metavar="FILE.npz", help="Elsewhere than where the pair looks.")] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Go back to the corpus shipped with the pair.")] = False,
):
    """Make texts of your own the corpus that `--method corpus` drafts from."""
    from engine.runtime.engine import load_tokenizer
    from engine.weights.catalogue import get_pair
    from engine.weights.specs import own_corpus
    from engine.weights.store import fetch_pair, locate

    spec = get_pair(pair)
    if remove:
        own_corpus(pair).unlink(missing_ok=True)
        say(f"{pair} has {'the corpus shipped with it' if spec.shipped_corpus else 'no corpus'}.")
        return
    if not files:
        raise BadInput("A corpus needs texts; name at least one file.")
    tokenizer = load_tokenizer(locate(spec.target) or fetch_pair(spec)["target"])
    texts = [text for file in files for text in _texts(file, tokenizer, spec.target.vocab_size)]
    path = out or own_corpus(pair)
    count = save(path, texts, tokenizer)
    say(f"{path} has {quantity(count, 'token')} of {quantity(len(texts), 'text')}.")


def _texts(file: Path, tokenizer, vocab_size: int):
    """Yields the token ids of each text in a file."""
    import numpy as np

    if file.suffix == ".npz":
        from engine.tools.training import dataset

        samples = dataset.load(file, vocab_size)
        yield from (samples.row(i)[samples.prompt_len[i] :] for i in range(len(samples)))
        return
    ids = tokenizer(read_text(file, "file"), add_special_tokens=False)["input_ids"]
    if not ids:
        raise BadInput(f"{file} is empty; leave it out.")
    yield np.array(ids)


def save(path: Path, texts: Iterable["np.ndarray"], tokenizer) -> int:
    """Writes a corpus as `engine.weights.corpus_file` reads it. Returns the number of tokens."""
    import numpy as np

    from engine.weights.corpus_file import END, vocabulary_hash

    parts = [part for text in texts for part in (text.astype(np.uint32), np.array([END], np.uint32))]
    tokens = np.concatenate(parts)
    if tokens[tokens != END].max() < np.iinfo(np.uint16).max:
        tokens = tokens.astype(np.uint16)  # END wraps to the largest id of 16 bits
    buffer = io.BytesIO()
    np.savez_compressed(buffer, tokens=tokens, tokenizer=np.array(vocabulary_hash(tokenizer)))
    write_file(path, buffer.getvalue())
    return len(tokens) - len(parts) // 2

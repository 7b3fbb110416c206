"""Trains the two small byte-pair tokenizers of lesson thirteen, each on its own kind of text.

`python -m lessons.bpe_demo` trains them again and stores their merges in assets/web/lessons/tools/merges.js. The page
tokenizes with those (tokenizer_mismatch.js).

A vocabulary is the 256 bytes in GPT-2's order, then the product of each merge, in the order of the merges.
"""

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from engine.files import ASSETS

ROOT = ASSETS.parent
DATA = ASSETS / "web" / "lessons" / "tools" / "merges.js"
SOURCES = {"prose": ("lessons/[0-9]*.md",), "code": ("engine/**/*.py", "app/**/*.py")}
MERGES = 400
BYTES = 256
_HEAD = "// Made by `python -m lessons.bpe_demo`: the merges of two tokenizers, in order; bytes as in GPT-2.\n"


def text_of(name: str) -> Iterable[str]:
    """Yields the training texts of the tokenizer of this name."""
    for pattern in SOURCES[name]:
        for path in sorted(ROOT.glob(pattern)):
            text = path.read_text(encoding="utf-8")
            yield text.split("\n+++\n", 1)[-1] if path.suffix == ".md" else text


def train(texts: Iterable[str]) -> list[str]:
    """Returns the merges as ``left right``, first to last."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=BYTES + MERGES, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    return [" ".join(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]]


def read_merges() -> dict[str, list[str]]:
    """Returns name → merges, from the script that the page loads."""
    source = DATA.read_text(encoding="utf-8")
    return json.loads(source[source.index("{") : source.rindex("}") + 1])


@lru_cache(maxsize=2)
def tokenizer(name: str):
    """Returns the library's tokenizer with the stored merges."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    merges: list[Any] = [tuple(row.split(" ")) for row in read_merges()[name]]
    pieces = sorted(pre_tokenizers.ByteLevel.alphabet()) + [left + right for left, right in merges]
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    bpe = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    return bpe


def pieces(name: str, text: str) -> int:
    """Returns the number of tokens that a text has in this tokenizer."""
    return len(tokenizer(name).encode(text).ids)


def testable(text: str, proposed: int) -> int:
    """Returns how many tokens the target, "prose", can test of the first ``proposed`` tokens of the draft, "code": its
    own tokens of that text, less the last one, which the draft may not have finished."""
    draft = tokenizer("code")
    return max(0, pieces("prose", draft.decode(draft.encode(text).ids[:proposed])) - 1)


def main() -> None:
    tokenizers = {name: train(text_of(name)) for name in SOURCES}
    rows = ",\n".join(f'"{name}": {json.dumps(merges, ensure_ascii=False)}' for name, merges in tokenizers.items())
    DATA.write_text(f"{_HEAD}export const MERGES = {{\n{rows}\n}};\n", encoding="utf-8")
    print(f"{DATA.relative_to(ROOT)}: {', '.join(f'{len(merges)} {name}' for name, merges in tokenizers.items())}")


if __name__ == "__main__":
    main()

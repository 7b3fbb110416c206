"""Two small byte-pair tokenizers for lesson ten, one trained on its own kind of text: `python -m lessons.cuts` makes
them anew. Only their merges are kept, in assets/lessons/merges.js; the page cuts with those (cuts.js).

A vocabulary is the 256 bytes in GPT-2's order, then what each merge makes, in the order of the merges.
"""

import json
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "assets" / "lessons" / "merges.js"
SOURCES = {"prose": ("lessons/[0-9]*.md",), "code": ("engine/**/*.py", "app/**/*.py")}
MERGES = 400
BYTES = 256
_HEAD = (
    "// Made by `python -m lessons.cuts`: the merges of two tokenizers, in order; bytes are written as GPT-2 does.\n"
)


def text_of(name: str) -> Iterable[str]:
    """What the tokenizer of this name is trained on."""
    for pattern in SOURCES[name]:
        for path in sorted(ROOT.glob(pattern)):
            text = path.read_text(encoding="utf-8")
            yield text.split("\n+++\n", 1)[-1] if path.suffix == ".md" else text


def train(texts: Iterable[str]) -> list[str]:
    """Merges as ``left right``, first to last."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=BYTES + MERGES, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    return [" ".join(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]]


def kept() -> dict[str, list[str]]:
    """Name → merges, from the file that the page reads, too."""
    source = DATA.read_text(encoding="utf-8")
    return json.loads(source[source.index("{") : source.rindex("}") + 1])


@lru_cache(maxsize=2)
def tokenizer(name: str):
    """The library's tokenizer with the kept merges."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    merges = [tuple(row.split(" ")) for row in kept()[name]]
    pieces = sorted(pre_tokenizers.ByteLevel.alphabet()) + [left + right for left, right in merges]
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    return made


def pieces(name: str, text: str) -> int:
    """How many pieces this tokenizer cuts a text into."""
    return len(tokenizer(name).encode(text).ids)


def testable(text: str, proposed: int, draft: str = "code", target: str = "prose") -> int:
    """What a target can test of the first ``proposed`` draft tokens of a text: its own pieces, less the last one,
    which the draft may not have finished."""
    ids = tokenizer(draft).encode(text).ids[:proposed]
    return max(0, pieces(target, tokenizer(draft).decode(ids)) - 1)


def main() -> None:
    made = {name: train(text_of(name)) for name in SOURCES}
    rows = ",\n".join(f'"{name}": {json.dumps(merges, ensure_ascii=False)}' for name, merges in made.items())
    DATA.write_text(f"{_HEAD}const MERGES = {{\n{rows}\n}};\n", encoding="utf-8")
    print(f"{DATA.relative_to(ROOT)}: {', '.join(f'{len(merges)} {name}' for name, merges in made.items())}")


if __name__ == "__main__":
    main()

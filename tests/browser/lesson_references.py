"""What the lessons' tools should show: the time of a pass, and where a tokenizer's library cuts some texts."""

from lessons import bpe_demo

TEXTS = (
    "The target cuts again\n    return tokens[0]  # done ✓",
    "",
    " ",
    "   three   spaces and a tab\tand\r\n\n\nlines  ",
    "for i in range(10):\n\tif it's_x != 'y': print(f\"{i:>3}\")\n",
    "don't we've they'll I'd 'S 12345 3.14 ½ ² x²",
    "héllo Straße 日本語 данные مرحبا नमस्ते 👩‍👩‍👧 🇫🇷 e\u0301",
    "nel\u0085 nbsp\u00a0 bom\ufeff ideographic\u3000 zero\u200bwidth \u2028line",
    "<b>&amp;</b> {{x}} ${y} `z` \\n \x00\x7f\x1b",
)


def pass_time(tokens: int, users: int, free: float, cache: float, experts: bool) -> float:
    """Returns the longer of reading and arithmetic, in readings of the weights for one token.

    ``cache`` is a share of all weights."""
    one = 1.5 + 29 * 8 / 128
    read = (1.5 + 29 * (1 - (1 - 8 / 128) ** tokens)) / one if experts else 1
    return max(read + users * cache * (30.5 / one if experts else 1), tokens / free)


def borders(name: str, text: str) -> set[int]:
    found, at = set(), 0
    for piece in bpe_demo.tokenizer(name).encode(text).tokens:
        at += len(piece)
        found.add(at)
    return found

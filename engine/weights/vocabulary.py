"""Compares two vocabularies by the text of their tokens, however each tokenizer writes spaces and bytes. No torch."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from engine.errors import Unavailable

_SPACE = "▁"  # a space in SentencePiece's tokens
_BYTE_SPACE = "Ġ"  # and in tokens of byte-level BPE


def _byte_level() -> dict[str, int]:
    """Returns the byte that each character of a byte-level token is (GPT-2: bytes without a sign of their own are
    numbered from 256 on)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(others)}


_BYTE_OF = _byte_level()


@dataclass(frozen=True)
class Vocabulary:
    """``names``: the entry of each id. ``markers``: special tokens, which no text has inside, with their names.
    ``added``: ids beside the tokenizer's own model, whose entries are plain text."""

    names: Mapping[int, str]
    markers: Mapping[int, str]
    added: frozenset[int]

    @classmethod
    def from_tokenizer(cls, tokenizer) -> "Vocabulary":
        """Reads a tokenizer of transformers or of the tokenizers library."""
        listed = getattr(tokenizer, "added_tokens_decoder", None) or getattr(
            tokenizer, "get_added_tokens_decoder", dict
        )
        added = listed() if callable(listed) else listed
        markers = {i: token.content for i, token in added.items() if token.special}
        return cls({i: name for name, i in tokenizer.get_vocab().items()}, markers, frozenset(added))

    @cached_property
    def texts(self) -> dict[int, bytes]:
        """The bytes that each token adds to a text, for tokens that are not special.

        >>> Vocabulary({0: "Ġcat", 1: "Ã©"}, {}, frozenset()).texts
        {0: b' cat', 1: b'\\xc3\\xa9'}
        >>> Vocabulary({0: "▁cat", 1: "<0xC3>"}, {}, frozenset()).texts
        {0: b' cat', 1: b'\\xc3'}
        """
        names = self.names.values()
        spell = _from_bytes if sum(_BYTE_SPACE in n for n in names) > sum(_SPACE in n for n in names) else _from_text
        return {
            i: name.replace(_SPACE, " ").encode() if i in self.added else spell(name)
            for i, name in self.names.items()
            if i not in self.markers
        }

    @cached_property
    def ids(self) -> dict[bytes, int]:
        """The token of each text, the last one of equal texts, because a byte's own token comes first."""
        return {text: i for i, text in sorted(self.texts.items())}


def _from_bytes(name: str) -> bytes:
    return b"".join(bytes([_BYTE_OF[c]]) if c in _BYTE_OF else c.encode() for c in name)


def _from_text(name: str) -> bytes:
    if len(name) == 6 and name.startswith("<0x") and name.endswith(">"):
        with suppress(ValueError):
            return bytes.fromhex(name[3:5])
    return name.replace(_SPACE, " ").encode()


def last_boundary(text: bytes) -> int:
    """Counts the bytes at the beginning of ``text`` that are whole characters; the rest begins one that is not
    finished.

    >>> last_boundary("é!".encode()), last_boundary("é".encode()[:1]), last_boundary("a🙂".encode()[:3])
    (3, 0, 1)
    """
    for back in range(1, min(4, len(text) + 1)):
        lead = text[-back]
        if lead >= 0xC0:  # a first byte: says how many bytes its character has
            return len(text) - back if back < 2 + (lead >= 0xE0) + (lead >= 0xF0) else len(text)
        if lead < 0x80:
            break
    return len(text)


def common_tokens(target: Vocabulary, draft: Vocabulary) -> dict[int, int]:
    """Returns the draft's id of each of the target's tokens that both have: equal text, or special with the same name.
    Parts of a character are left out."""
    markers = {name: i for i, name in draft.markers.items()}
    common = {i: draft.ids[text] for i, text in target.texts.items() if _is_text(text) and text in draft.ids}
    by_draft = {theirs: ours for ours, theirs in sorted(common.items())}  # each of the draft's once
    common = {ours: theirs for theirs, ours in by_draft.items()}
    return common | {i: markers[name] for i, name in target.markers.items() if name in markers}


def _is_text(text: bytes) -> bool:
    try:
        return bool(text.decode())
    except UnicodeDecodeError:
        return False


def same_ids(target: Vocabulary, draft: Vocabulary) -> bool:
    """Returns whether the draft's ids mean the target's tokens. Sizes may differ, because vocabularies are padded, and
    special tokens may have other names."""
    shared, added = target.names.keys() & draft.names.keys(), target.added & draft.added
    return bool(shared) and all(target.names[i] == draft.names[i] for i in shared - added)


def needs_translation(target: Vocabulary, draft: Vocabulary) -> bool:
    """Returns whether the draft can only draft by translation. Raises Unavailable if both have no text in common."""
    if same_ids(target, draft):
        return False
    if not any(i in target.texts for i in common_tokens(target, draft)):
        raise Unavailable(
            "The draft's tokenizer has no token in common with the target's, so nothing can be translated; choose "
            "another draft."
        )
    return True

"""Translates between a target's tokens and the tokens of a draft model with another tokenizer.

All of it is host work on a few ids a round. What the draft reads is the text of the committed tokens, in its own
tokens. New text is encoded by itself, so that it begins where the committed text ended: a token that merged across that
place would change what the draft's cache already holds.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from engine.weights.vocabulary import Vocabulary, common_tokens, last_boundary

_SPECIAL = b"\xff"  # not a byte of UTF-8
_LONGEST = 64  # bytes of a token that is looked for without the tokenizer


class Encoder:
    """Encodes text that goes on from other text: without the space and the BOS of a beginning."""

    def __init__(self, tokenizer):
        self._tokenizer, self.vocabulary = tokenizer, Vocabulary.from_tokenizer(tokenizer)
        self._sorted = sorted(self.vocabulary.ids)
        self.bos, self.eos = tokenizer.bos_token_id, tokenizer.eos_token_id
        ids = list(tokenizer("a").input_ids)
        self.begins = ids[:1] if self.bos is not None and ids[:1] == [self.bos] else []  # the BOS, if it puts one
        self.lead = b" " if self._bytes(self._tokenize("a")) == b" a" else b""  # before the first word

    def _tokenize(self, text: str) -> list[int]:
        return list(self._tokenizer(text, add_special_tokens=False).input_ids)

    def _bytes(self, ids: Sequence[int]) -> bytes:
        return b"".join(self.vocabulary.texts.get(i, b"") for i in ids)

    def encode(self, text: bytes) -> list[int]:
        """Returns ids whose texts join to ``text``, whole characters, without those that cannot be spelt."""
        if not text:
            return []
        for before in ("", "\n"):  # a line break is a token of its own, so the text after it has no space put before
            ids = self._tokenize(before + text.decode())
            start = self._start_of(text, ids)
            if start is not None:
                return ids[start:]
        return self._spelt(text)  # the tokenizer changes the text, or takes a part of it for a special token

    def begins_longer(self, text: bytes) -> bool:
        """Returns whether a longer token begins with this text."""
        after = bisect_right(self._sorted, text)
        return after < len(self._sorted) and self._sorted[after].startswith(text)

    def _start_of(self, text: bytes, ids: list[int]) -> int | None:
        """Finds where the ids begin that join to ``text`` up to the last one."""
        left = len(text)
        for i in range(len(ids) - 1, -1, -1):
            token = self.vocabulary.texts.get(ids[i], b"")
            left -= len(token)
            if not token or left < 0 or text[left : left + len(token)] != token:
                return None
            if left == 0:
                return i
        return None

    def _spelt(self, text: bytes) -> list[int]:
        """Spells a text: the longest token that fits, then the next one."""
        ids, at, known = [], 0, self.vocabulary.ids
        while at < len(text):
            ends = range(min(len(text), at + _LONGEST), at, -1)
            end = next((end for end in ends if text[at:end] in known), None)
            if end is not None:
                ids.append(known[text[at:end]])
            at = end or at + 1
        return ids


class Translation:
    """``target`` and ``draft``: the encoders of both. ``common``: the draft's id of each of the target's tokens that
    both have; their BOS and EOS count as the same."""

    def __init__(self, target_tokenizer, draft_tokenizer):
        self.target, self.draft = Encoder(target_tokenizer), Encoder(draft_tokenizer)
        self.common = common_tokens(self.target.vocabulary, self.draft.vocabulary)
        # A BOS that the target's tokenizer does not put at a beginning may be a chat template's mark (SmolLM2).
        bos = self.target.begins[:1] or [None]
        for ours, theirs in ((*bos, self.draft.bos), (self.target.eos, self.draft.eos)):
            if ours is not None and theirs is not None and theirs not in self.common.values():
                self.common.setdefault(ours, theirs)

        markers = self.draft.vocabulary.markers
        self._marker_of = {theirs: ours for ours, theirs in self.common.items() if theirs in markers}

    def fork(self) -> "Translation":
        return self

    def ends_inside_a_character(self, committed: Sequence[int]) -> bool:
        text = b"".join(self.target.vocabulary.texts.get(i, b" ") for i in committed[-4:])
        return last_boundary(text) < len(text)

    def parts(self, ids: Sequence[int]) -> list[bytes | int]:
        """Returns the target's tokens as stretches of text, with the draft's own id where both have the same special
        token. One that only the target has is read as its name: a chat template's marks say who speaks."""
        parts: list[bytes | int] = []
        for i in ids:
            marker = self.target.vocabulary.markers.get(i)
            if marker is not None and i in self.common:
                parts.append(self.common[i])
                continue
            text = self.target.vocabulary.texts.get(i, b"") if marker is None else marker.encode()
            if parts and isinstance(parts[-1], bytes):
                parts[-1] += text
            else:
                parts.append(text)
        return parts

    def draft_texts(self, ids: Sequence[int]) -> list[bytes]:
        """Returns the text of each of the draft's tokens; one byte, which is in no text, for a special one."""
        return [self.draft.vocabulary.texts.get(i, _SPECIAL) for i in ids]

    def reencode(self, ids: Sequence[int]) -> tuple[list[int], list[bytes]]:
        """Returns the target's tokens for the text that the draft wrote, and the text of each. They end before a half
        character and before a special token that the target lacks.

        The last one is left out if a longer token of the target's begins with it, because the text may go on so. It
        stays where the draft wrote it as one token, too: the draft had its own longer ones to choose.
        """
        texts = self.draft_texts(ids)
        stop = next((i for i, text in enumerate(texts) if text == _SPECIAL), len(ids))
        text = _first_characters(b"".join(texts[:stop]))
        tokens, pieces, at = self.target.encode(text), [], 0
        for token in tokens:
            piece = self.target.vocabulary.texts[token]
            if not text.startswith(piece, at):  # a character that the target cannot spell
                break
            pieces.append(piece)
            at += len(piece)
        closing = self._marker_of.get(ids[stop]) if stop < len(ids) and at == len(b"".join(texts[:stop])) else None
        if closing is not None:
            return [*tokens[: len(pieces)], closing], [*pieces, _SPECIAL]
        is_open = len(pieces) > 1 and pieces[-1] != texts[stop - 1] and self.target.begins_longer(pieces[-1])
        count = len(pieces) - is_open
        return tokens[:count], pieces[:count]


class Reading:
    """The committed text in the draft's tokens: ``ids``, which only grow. ``count``: the target's tokens that have been
    read; the bytes of a character that is not finished yet wait."""

    def __init__(self, translation: Translation, prompt: Sequence[int]):
        self.translation, self.count = translation, len(prompt)
        target, draft = translation.target, translation.draft
        # Each side has its own way to begin a text.
        own = len(target.begins)
        parts = translation.parts(prompt[own:] if list(prompt[:own]) == target.begins else prompt)
        if parts and isinstance(parts[0], bytes):
            parts[0] = draft.lead + parts[0].removeprefix(target.lead)
        self.ids, self._unfinished = list(draft.begins), b""
        self._add(parts)
        if not self.ids:
            self.ids = [draft.eos or 0]  # a model needs something to read

    def read(self, committed: Sequence[int], drafted: Sequence[int] = ()) -> list[int]:
        """Reads the tokens committed since; returns all ``ids``. ``drafted``: the draft's own ids of the first of
        those tokens, which they stay."""
        parts: list[Any] = self.translation.parts(committed[self.count :])
        self.count = len(committed)
        texts = self.translation.draft.vocabulary.texts
        for token in drafted if not self._unfinished else ():
            text = texts.get(token)
            if text is None:
                assert parts.pop(0) == token
            elif text:
                assert parts[0].startswith(text)
                parts[0] = parts[0][len(text) :]
                parts = parts if parts[0] else parts[1:]
            self.ids.append(token)
        self._add(parts)
        return self.ids

    def _add(self, parts: list[bytes | int]) -> None:
        for i, part in enumerate(parts):
            if isinstance(part, int):
                self.ids.append(part)
                continue
            text = self._unfinished + part
            end = last_boundary(text) if i == len(parts) - 1 else len(text)
            self._unfinished = text[end:]
            self.ids += self.translation.draft.encode(text[:end].decode(errors="ignore").encode())


def _first_characters(text: bytes) -> bytes:
    """Keeps the whole characters at the beginning."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return text[: error.start]
    return text

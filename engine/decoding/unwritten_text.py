"""Finds the characters of a text that a tokenizer drops or replaces, so that the model would not see them as typed."""

from collections import Counter
from collections.abc import Iterator
from unicodedata import normalize

from engine.config import RunConfig
from engine.errors import BadInput, and_list

_MOST = 5  # characters that a sentence lists
_REPLACEMENT = "\ufffd"  # the decoder's, for bytes without a character
REFUSAL = (
    "This model's tokenizer has no tokens for any character of the {name} ({characters}), so the model would see "
    "nothing of it; type something else."
)
NOTE = "The model does not see all of the {name}: its tokenizer drops or changes {characters}."


def check_prompt(tokenizer, config: RunConfig) -> None:
    """Raises BadInput for a prompt, or a system prompt, of which the tokenizer writes nothing at all."""
    for name, text in _texts(config):
        lost, written = _compare(tokenizer, text)
        if lost and not written.replace(_REPLACEMENT, "").strip():
            raise BadInput(REFUSAL.format(name=name, characters=spell_characters(lost)))


def unwritten_notes(tokenizer, config: RunConfig) -> Iterator[str]:
    """Yields a sentence about each text of the request that the tokenizer cannot write as it was typed."""
    for name, text in _texts(config):
        if lost := unwritten(tokenizer, text):
            yield NOTE.format(name=name, characters=spell_characters(lost))
    for stop in config.stop:
        if lost := unwritten(tokenizer, stop):
            yield f"The stop text {stop[:40]!r} may never come: the tokenizer has no {spell_characters(lost)}."


def unwritten(tokenizer, text: str) -> str:
    """Returns the characters of the text that its ids do not decode to, each once: dropped ones, and those that became
    an unknown token, broken bytes or another character. Canonically equal texts (NFC) count as the same, and so do
    texts without the spaces in front, which many tokenizers add or leave out.

    With a tokenizer that knows no Chinese, `unwritten(tokenizer, "See 日本!")` is "日本".
    """
    return _compare(tokenizer, text)[0]


def _compare(tokenizer, text: str) -> tuple[str, str]:
    ids, unknown = tokenizer(text, add_special_tokens=False).input_ids, None
    if (name := getattr(tokenizer, "unk_token", None)) and name not in text:
        unknown = tokenizer.unk_token_id
    written = tokenizer.decode([i for i in ids if i != unknown], clean_up_tokenization_spaces=False)
    if written == text:
        return "", written
    typed = normalize("NFC", text.lstrip(" "))
    lost = Counter(typed) - Counter(normalize("NFC", written.lstrip(" ")))
    return "".join(character for character in dict.fromkeys(typed) if character in lost), written


def _texts(config: RunConfig) -> Iterator[tuple[str, str]]:
    yield "prompt", config.prompt
    yield from (("chat before it", text) for text in config.earlier)
    if config.chat and config.system:
        yield "system prompt", config.system


def spell_characters(characters: str) -> str:
    """Lists characters for a sentence, those that have no shape of their own by their number.

    >>> spell_characters("日\\x1d")
    '日 (U+65E5) and U+001D'
    """
    listed = [f"{c} (U+{ord(c):04X})" if c.isprintable() and c != " " else f"U+{ord(c):04X}" for c in characters]
    more = len(listed) - _MOST
    return and_list(listed[:_MOST] + ([f"{more} more"] if more > 0 else []))

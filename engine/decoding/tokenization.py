"""Encodes prompts with the chat template, and decodes token ids to text piece by piece."""

from collections.abc import Sequence
from dataclasses import replace
from weakref import WeakKeyDictionary

from engine.config import RunConfig
from engine.errors import BadInput

_UNFINISHED = "\ufffd"  # the decoder's replacement for bytes whose character is not complete


def encode_prompt(tokenizer, config: RunConfig) -> list[int]:
    """The ids to condition on: the chat template up to the assistant's turn, or the raw text. Raises BadInput for an
    empty prompt, and for a template that is missing or refuses the conversation."""
    if not config.chat:
        ids = list(tokenizer(config.prompt).input_ids)
        if not ids:
            raise BadInput("The prompt has no tokens; type something for the model to continue.")
        return ids
    if not tokenizer.chat_template:
        raise BadInput("This model has no chat template; run it on raw text instead (--raw).")
    messages = [{"role": "user", "content": config.prompt}]
    if config.system is not None:
        messages.insert(0, {"role": "system", "content": config.system})
    extra = {} if config.thinking is None else {"enable_thinking": config.thinking}
    try:
        encoded = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True, **extra)
    except Exception as error:  # templates are programs and raise any exception
        raise BadInput(f"This model's chat template refuses the conversation: {error}") from error
    return list(encoded["input_ids"])


def template_length(tokenizer, config: RunConfig, ids: Sequence[int]) -> int:
    """How many of the prompt's ids come before the user's own text: those that another text would have, too."""
    if not config.chat:
        return 0
    other = encode_prompt(tokenizer, replace(config, prompt="y" if config.prompt.startswith("x") else "x"))
    return next((i for i, pair in enumerate(zip(ids, other, strict=False)) if pair[0] != pair[1]), 0)


def join(tokenizer, ids: Sequence[int]) -> str:
    """The decoded text; the pieces of `Detokenizer` add up to it."""
    return tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


_names: WeakKeyDictionary[object, dict[int, str]] = (
    WeakKeyDictionary()
)  # of a tokenizer's ids, as far as they were shown


class Detokenizer:
    """Ids to text pieces whose concatenation equals decoding everything at once.

    A piece is what a token adds to the decoded text. Bytes of an unfinished character add nothing until the token
    that completes it, so an emoji spread over three tokens gives "", "", "🙂". One exception: a byte-fallback decoder
    (Llama 2) turns a whole run of byte tokens into "�" when its last bytes are broken; pieces already returned stay.
    """

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.special = frozenset(tokenizer.all_special_ids)
        self._ids: list[int] = []
        self._start = 0  # decoding restarts here; two settled stretches are enough context
        self._settled = 0  # ids before this one have been returned as text
        self._names = _names.setdefault(tokenizer, {})

    def push(self, token: int) -> str:
        """Adds an emitted token; returns its piece."""
        self._ids.append(token)
        before = join(self.tokenizer, self._ids[self._start : self._settled])
        after = join(self.tokenizer, self._ids[self._start :])
        if after.endswith(_UNFINISHED):
            return ""
        if len(after) > len(before):  # a special token gives no context: the space after it would be stripped
            self._start = self._settled
        self._settled = len(self._ids)
        return after[len(before) :]

    def tail(self) -> str:
        """At the end of the text: returns the replacement characters of unfinished bytes."""
        before = join(self.tokenizer, self._ids[self._start : self._settled])
        rest = join(self.tokenizer, self._ids[self._start :])[len(before) :]
        self._start = self._settled = len(self._ids)
        return rest

    def peek(self, ids: Sequence[int]) -> list[str]:
        """The pieces that drafts would add if all were accepted; the state does not change."""
        saved = list(self._ids), self._start, self._settled
        pieces = [self.push(token) for token in ids]
        self._ids, self._start, self._settled = saved
        return pieces

    def name(self, token: int) -> str:
        """A token's own text, or its vocabulary entry if it has none (bytes, special tokens)."""
        if token not in self._names:
            text = self.tokenizer.decode([token], clean_up_tokenization_spaces=False)
            if not text or _UNFINISHED in text:
                text = str(self.tokenizer.convert_ids_to_tokens(token) or f"<{token}>")
            self._names[token] = text
        return self._names[token]

    def label(self, token: int, piece: str) -> str | None:
        """The name to show instead of an empty piece or a special token; None for all others."""
        return self.name(token) if not piece or token in self.special else None

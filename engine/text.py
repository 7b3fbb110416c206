"""Between text and token ids: prompts through the chat template, and ids back to text piece by piece."""

from collections.abc import Sequence

from engine.config import RunConfig
from engine.errors import BadInput

_UNFINISHED = "\ufffd"  # what a decoder shows for bytes whose character is not complete


def encode_prompt(tokenizer, config: RunConfig) -> list[int]:
    """The ids to condition on: the chat template with the assistant's turn opened, or the raw text."""
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
    except Exception as error:  # templates are programs of their authors and raise what they like
        raise BadInput(f"This model's chat template refuses the conversation: {error}") from error
    return list(encoded["input_ids"])


def has_thinking_switch(tokenizer) -> bool:
    return "enable_thinking" in str(tokenizer.chat_template or "")


def join(tokenizer, ids: Sequence[int]) -> str:
    """The decoded text that the pieces add up to."""
    return tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


class Detokenizer:
    """Ids to text pieces whose concatenation equals decoding everything at once.

    A piece is what a token adds to the decoded text. Bytes of an unfinished character add nothing until the token
    that completes it, so an emoji spread over three tokens gives "", "", "🙂". One exception: a byte-fallback decoder
    (Llama 2) turns a whole run of byte tokens into "�" when its last bytes are broken; what was given out stays.
    """

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self._special = set(tokenizer.all_special_ids)
        self._ids: list[int] = []
        self._start = 0  # decoding restarts here: the last two settled stretches give context enough
        self._settled = 0  # ids before this one have been given out
        self._names: dict[int, str] = {}

    def push(self, token: int) -> str:
        """Take an emitted token and return its piece."""
        self._ids.append(token)
        before = join(self.tokenizer, self._ids[self._start : self._settled])
        after = join(self.tokenizer, self._ids[self._start :])
        if after.endswith(_UNFINISHED):
            return ""
        if len(after) > len(before):  # a special token gives no context: the space behind it would be stripped
            self._start = self._settled
        self._settled = len(self._ids)
        return after[len(before) :]

    def tail(self) -> str:
        """At the end: what unfinished bytes still owe."""
        before = join(self.tokenizer, self._ids[self._start : self._settled])
        rest = join(self.tokenizer, self._ids[self._start :])[len(before) :]
        self._start = self._settled = len(self._ids)
        return rest

    def peek(self, ids: Sequence[int]) -> list[str]:
        """The pieces that drafts would add if all were kept; nothing is remembered."""
        saved = list(self._ids), self._start, self._settled
        pieces = [self.push(token) for token in ids]
        self._ids, self._start, self._settled = saved
        return pieces

    def name(self, token: int) -> str:
        """How to show a token by itself: its text, or its vocabulary entry where it has none (bytes, specials)."""
        if token not in self._names:
            text = self.tokenizer.decode([token], clean_up_tokenization_spaces=False)
            if not text or _UNFINISHED in text:
                text = str(self.tokenizer.convert_ids_to_tokens(token) or f"<{token}>")
            self._names[token] = text
        return self._names[token]

    def label(self, token: int, piece: str) -> str | None:
        """What to show where the piece itself says nothing or would hide a special token."""
        return self.name(token) if not piece or token in self._special else None

"""Encodes prompts with the chat template, and decodes token ids to text piece by piece."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import cycle
from weakref import WeakKeyDictionary

from engine.config import RunConfig
from engine.decoding.unwritten_text import check_prompt
from engine.errors import BadInput

_NAMES = {"user": "prompt", "system": "system prompt", "assistant": "earlier answer"}  # of roles
_MORE = "and more"
_ON_RAW = 'run it on raw text instead (the page\'s Prompt form, "form": "raw" over HTTP, --raw on the command line).'
_UNFINISHED = "\ufffd"  # the decoder's replacement for bytes whose character is not complete


def encode_prompt(tokenizer, config: RunConfig) -> list[int]:
    """Returns the ids to condition on: the chat template up to the assistant's turn, or the raw text. Raises BadInput
    for a text that the tokenizer cannot write, and for a template that is missing, refuses the conversation or leaves a
    part of it out."""
    check_prompt(tokenizer, config)
    return _encode(tokenizer, config)


def _encode(tokenizer, config: RunConfig) -> list[int]:
    if not config.chat:
        return list(tokenizer(config.prompt).input_ids)
    if not tokenizer.chat_template:
        raise BadInput(f"This model has no chat template; {_ON_RAW}")
    texts = [] if config.system is None else [("system", config.system)]
    texts += zip(cycle(("user", "assistant")), (*config.earlier, config.prompt), strict=False)
    refusal, dropped = None, ""
    for form in (str, _as_parts):
        try:
            dropped = _dropped_role(tokenizer, config, texts, form)
            if not dropped:
                return list(_apply(tokenizer, config, texts, form, tokenize=True)["input_ids"])
        except Exception as error:  # templates are programs and raise any exception
            refusal = refusal or error
    if refusal and not dropped:
        raise _refusal(refusal) from refusal
    raise BadInput(
        f"This model's chat template leaves the {_NAMES[dropped]} out, so the model would not see it; "
        + (_ON_RAW if dropped == "user" else "leave the system prompt empty.")
    )


def template_text(tokenizer, config: RunConfig) -> str:
    """Returns the prompt as the chat template writes it up to the assistant's turn, without a system prompt. Raises
    BadInput for a template that refuses it."""
    try:
        return _apply(tokenizer, config, [("user", config.prompt)], str, tokenize=False)
    except Exception as error:  # templates are programs and raise any exception
        raise _refusal(error) from error


def _refusal(error: Exception) -> BadInput:
    return BadInput(f"This model's chat template refuses the conversation: {error}")


def _as_parts(text: str) -> list[dict]:
    """Writes a message's content as templates of models that also read images expect it."""
    return [{"type": "text", "text": text}]


def _apply(tokenizer, config: RunConfig, texts: Sequence[tuple[str, str]], form: Callable, tokenize: bool):
    extra = {} if config.thinking is None else {"enable_thinking": config.thinking}
    messages = [{"role": role, "content": form(text)} for role, text in texts]
    return tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, tokenize=tokenize, return_dict=tokenize, **extra
    )


def _dropped_role(tokenizer, config: RunConfig, texts: Sequence[tuple[str, str]], form: Callable) -> str:
    """Returns the role whose text the template leaves out, so that a longer one makes no difference; "" if it leaves
    out none. The text itself is not looked for, because a template may rewrite it."""
    rendered = _apply(tokenizer, config, texts, form, tokenize=False)
    for place, (role, text) in enumerate(texts):
        longer = [*texts[:place], (role, f"{text} {_MORE}"), *texts[place + 1 :]]
        if text.strip() and _apply(tokenizer, config, longer, form, tokenize=False) == rendered:
            return role
    return ""


def template_length(tokenizer, config: RunConfig, ids: Sequence[int]) -> int:
    """Counts the prompt's ids that come before the user's own first text: those that another text would have, too."""
    if not config.chat:
        return 0
    first, *rest = *config.earlier, config.prompt
    *earlier, prompt = ["y" if first.startswith("x") else "x", *rest]
    other = _encode(tokenizer, replace(config, prompt=prompt, earlier=tuple(earlier)))
    return next((i for i, pair in enumerate(zip(ids, other, strict=False)) if pair[0] != pair[1]), 0)


def join(tokenizer, ids: Sequence[int]) -> str:
    """Decodes the text; the pieces of `Detokenizer` add up to it."""
    return tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


# The names of each tokenizer's ids that were shown.
_names: WeakKeyDictionary[object, dict[int, str]] = WeakKeyDictionary()


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
        """Returns, at the end of the text, the replacement characters of unfinished bytes."""
        before = join(self.tokenizer, self._ids[self._start : self._settled])
        rest = join(self.tokenizer, self._ids[self._start :])[len(before) :]
        self._start = self._settled = len(self._ids)
        return rest

    def peek(self, ids: Sequence[int]) -> list[str]:
        """Returns the pieces that drafts would add if all were accepted; the state does not change."""
        saved = list(self._ids), self._start, self._settled
        pieces = [self.push(token) for token in ids]
        self._ids, self._start, self._settled = saved
        return pieces

    def name(self, token: int) -> str:
        """Returns a token's own text, or its vocabulary entry if it has none (bytes, special tokens)."""
        if token not in self._names:
            text = self.tokenizer.decode([token], clean_up_tokenization_spaces=False)
            if not text or _UNFINISHED in text:
                text = str(self.tokenizer.convert_ids_to_tokens(token) or f"<{token}>")
            self._names[token] = text
        return self._names[token]

    def label(self, token: int, piece: str) -> str | None:
        """Returns the name to show instead of an empty piece or a special token; None for all others."""
        return self.name(token) if not piece or token in self.special else None

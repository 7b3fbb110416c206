"""Compiles a constraint for a model's tokens with llguidance, which is imported when a run first needs it.

A grammar knows bytes. The tokens come from our own table of each token's bytes (`Vocabulary.texts`), so every tokenizer
that we read works, a GGUF file's included. llguidance would force a text's usual tokens (`no_forcing` is off by
default); it must not here, because the mask is to limit the text and not how the target cuts it.
"""

import json
import re
from collections.abc import Collection
from contextlib import suppress

import numpy as np

from engine.config import CONSTRAINTS, Constraint
from engine.errors import BadInput, Unavailable
from engine.weights.vocabulary import Vocabulary

_HEAD = '%llguidance {"no_forcing": true}\n'
_AT = re.compile(r"^(?:at )?(\d+)\(\d+\): ")  # the line and column of a mistake, as llguidance writes them
_LONGEST_REASON = 160
_MOST_CUTS = 4096
_AFTER_SEPARATOR = re.compile(r"(?<=[:,])")


class Grammars:
    """The grammars of one model. ``eos_ids``: the tokens that end its texts."""

    def __init__(self, tokenizer, vocab_size: int, eos_ids: Collection[int]):
        self._tokenizer, self.vocab_size = tokenizer, vocab_size
        self.eos_ids = frozenset(token for token in eos_ids if token < vocab_size)
        self._vocabulary = None  # llguidance's, made from our table when it is first needed
        # The tokens of texts that had to come are kept, because encoding one takes longest.
        self._cuts: dict[str, list[int]] = {}

    def matcher(self, constraint: Constraint, max_new_tokens: int) -> "GrammarMatcher":
        """Returns a matcher at the beginning of a text. Raises BadInput for a constraint that is broken, not supported,
        too large, or that no text of at most ``max_new_tokens`` tokens matches."""
        if not self.eos_ids:
            raise BadInput("This model has no end-of-text token, so a text with a constraint could not end.")
        matcher, name = self._compile(constraint), CONSTRAINTS[constraint.kind]
        if not (matcher.allowed_tokens().any() or matcher.is_complete()):
            raise BadInput(f"No text that this model's tokenizer can write matches the {name}.")
        if (needed := len(matcher.forced_tokens())) > max_new_tokens:
            raise BadInput(
                f"The text that the {name} demands takes {needed} tokens, and {max_new_tokens} are allowed; ask for "
                "more tokens."
            )
        return matcher

    def _compile(self, constraint: Constraint) -> "GrammarMatcher":
        llguidance = _library()
        if self._vocabulary is None:
            self._vocabulary = llguidance.LLTokenizer(
                llguidance.TokenizerWrapper(_Tokens(self._tokenizer, self.vocab_size, min(self.eos_ids))),
                n_vocab=self.vocab_size,
            )
        raw = llguidance.LLMatcher(self._vocabulary, lark_of(constraint), log_level=0)
        if raw.is_error():
            raise BadInput(f"The {CONSTRAINTS[constraint.kind]} cannot be used: {_reason(raw)}.")
        return GrammarMatcher(raw, self._vocabulary, self.vocab_size, self._cuts)


def _library():
    try:
        import llguidance
    except ImportError as error:
        raise Unavailable(
            "A constraint needs the package llguidance, which is not installed; run: pip install llguidance"
        ) from error
    return llguidance


def lark_of(constraint: Constraint) -> str:
    """Returns the constraint as a Lark grammar, the one form in which forcing can be switched off."""
    match constraint.kind:
        case "json_schema":
            schema = json.loads(constraint.text)
            schema = schema if isinstance(schema, dict) else {"allOf": [schema]}
            options = schema.get("x-guidance", {})  # a schema may have its own
            if constraint.compact and isinstance(options, dict):
                schema = schema | {"x-guidance": options | {"whitespace_flexible": False}}
            rule = "%json " + json.dumps(schema)
        case "regex":
            rule = "/" + re.sub(r"(\\.)|(/)|(\n)", _for_lark, constraint.text) + "/"
        case "choice":
            texts = filter(None, re.split(r"\r?\n", constraint.text))
            rule = " | ".join(json.dumps(text, ensure_ascii=False) for text in texts)
        case _:
            return _HEAD + constraint.text
    return f"{_HEAD}start: {rule}"


def _for_lark(match: re.Match) -> str:
    """Escapes slashes, which would end the expression, and line breaks, which would end the rule."""
    return match[1] or ("\\/" if match[2] else "\\n")


class _Tokens:
    """The tokens as llguidance reads them: the bytes of each, and how a text is cut into them."""

    def __init__(self, tokenizer, vocab_size: int, eos: int):
        vocabulary = Vocabulary.from_tokenizer(tokenizer)
        names = {i: name.encode() for i, name in vocabulary.markers.items()}
        self.tokens = [vocabulary.texts.get(i) or names.get(i, b"") for i in range(vocab_size)]
        self.special_token_ids = sorted(i for i in vocabulary.markers if i < vocab_size)
        self.eos_token_id, self.bos_token_id = eos, None
        self._tokenizer = tokenizer

    def __call__(self, text: bytes | str) -> list[int]:
        text = text.decode(errors="ignore") if isinstance(text, bytes) else text
        return list(self._tokenizer(text, add_special_tokens=False).input_ids)


class GrammarMatcher:
    """`Matcher` of `engine.sampling.constraint`, on llguidance's."""

    def __init__(self, raw, vocabulary, vocab_size: int, cuts: dict[str, list[int]]):
        self._raw, self._tokens, self._bytes, self._cuts = raw, vocabulary, (vocab_size + 7) // 8, cuts

    def allowed_tokens(self) -> np.ndarray:
        # In a state of error the mask would say that the text has ended.
        words = np.zeros((self._bytes + 3) // 4, np.int32)
        if not self._raw.is_stopped():
            self._raw.unsafe_compute_mask_ptr(words.ctypes.data, words.nbytes)
        self._check()
        if self._raw.is_error():
            words[:] = 0
        return words.view(np.uint8)[: self._bytes]

    def consume(self, token: int) -> None:
        self._raw.consume_token(token)
        self._check()

    def rollback(self, count: int) -> None:
        self._raw.rollback(count)
        self._check()

    def _check(self) -> None:
        if self._raw.is_error() and not self._raw.get_error().startswith("NoExtensionBias"):  # no token can come next
            raise BadInput(f"The constraint became too complex to follow: {_reason(self._raw)}.")

    def is_complete(self) -> bool:
        return self._raw.is_accepting()

    def forced_tokens(self) -> list[int]:
        """Cuts after each colon and comma, too: models know JSON with a space there, and so with tokens that end
        there, and go on like that where no space may come."""
        text = self._raw.compute_ff_bytes()
        with suppress(UnicodeDecodeError):  # a part of a character is guessed with the rest of it
            return [token for part in _AFTER_SEPARATOR.split(text.decode()) for token in self._cut(part)]
        return []

    def _cut(self, text: str) -> list[int]:
        if text not in self._cuts:
            if len(self._cuts) > _MOST_CUTS:
                self._cuts.clear()
            tokens = self._tokens.tokenize_str(text)
            is_same = self._tokens.decode_bytes(tokens) == text.encode()  # some tokenizers put a space before a text
            self._cuts[text] = tokens if is_same else self._tokens.greedy_tokenize(text)
        return self._cuts[text]


def _reason(raw) -> str:
    """Cuts an error down to the line that matters, else its first; its line number counts in the constraint."""
    lines = raw.get_error().strip().split("\n")
    gist = next((line.removeprefix("error: ") for line in lines if line.startswith("error: ")), lines[0])
    gist = _AT.sub(lambda match: f"line {max(1, int(match[1]) - 1)}, ", gist)
    return gist[:_LONGEST_REASON].rstrip(".: ")

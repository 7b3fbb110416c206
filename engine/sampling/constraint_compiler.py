"""Compiles a constraint for a model's tokens with llguidance, which is imported when a run first needs it.

A grammar knows bytes. The tokens come from our own table of each token's bytes (`Vocabulary.texts`), so every tokenizer
that we read works, a GGUF file's included. llguidance would force a text's usual tokens (`no_forcing` is off by
default); it must not here, because the mask is to limit the text and not how the target cuts it.
"""

import json
import re
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import lru_cache
from threading import Lock
from typing import Any

import numpy as np

from engine.constraint import CONSTRAINTS, Constraint, read_grammar, read_schema, split_choices
from engine.errors import BadInput, Unavailable
from engine.weights.vocabulary import Vocabulary

_HEAD = '%llguidance {"no_forcing": true}\n'
_AT = re.compile(r"^(?:at )?(\d+)\(\d+\): ")  # the line and column of a mistake, as llguidance writes them
_LONGEST_REASON = 160
_AFTER_SEPARATOR = re.compile(r"(?<=[:,])")
_TOKEN = re.compile(rb"\xff\[(\d+)\]")  # a token that must come by its id, as llguidance writes it among the bytes
_SLASH = re.compile(r"\\.|/", re.DOTALL)
# White space between JSON's parts: an empty line and an indentation at most, because models go on with it for ever.
_SPACES = r"[ \t]?(\r?\n){1,2}[ \t]{0,40}|[ \t]{1,40}"
_ESCAPES = 'nrbtf\\"'  # no \u, with which a name could come a second time in another spelling


class Grammars:
    """The grammars of one model. ``eos_ids``: the tokens that end its texts."""

    def __init__(self, tokenizer, vocab_size: int, eos_ids: Collection[int]):
        self._tokenizer, self.vocab_size = tokenizer, vocab_size
        self.eos_ids = frozenset(token for token in eos_ids if token < vocab_size)
        self._vocabulary: Any = None  # llguidance's, made from our table when it is first needed
        self._lock = Lock()  # for that and the tokenizer: the page checks a constraint while the engine follows another
        # The tokens of texts that had to come are kept, because encoding one takes longest.
        self._cut = lru_cache(4096)(self._encode)

    def matcher(self, constraint: Constraint, max_new_tokens: int) -> "GrammarMatcher":
        """Returns a matcher at the beginning of a text. Raises BadInput for a constraint that is broken, not supported,
        too large, or that no text of at most ``max_new_tokens`` tokens matches."""
        if not self.eos_ids:
            raise BadInput("This model has no end-of-text token, so a text with a constraint could not end.")
        matcher, name = self._compile(constraint), CONSTRAINTS[constraint.kind]
        for text in split_choices(constraint.text) if constraint.kind == "choice" else ():
            if self._vocabulary.decode_bytes([*self._cut(text)]) != text.encode():
                raise BadInput(f"This model's tokenizer cannot write all of the choice {text[:40]!r}; leave it out.")
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
        with self._lock:
            if self._vocabulary is None:
                tokens = _Tokens(self._tokenizer, self.vocab_size, min(self.eos_ids))
                self._vocabulary = llguidance.LLTokenizer(llguidance.TokenizerWrapper(tokens), n_vocab=self.vocab_size)
        if constraint.kind == "grammar":
            self._check_tokens(read_grammar(constraint.text)[1])
        raw = llguidance.LLMatcher(self._vocabulary, lark_of(constraint), log_level=0)
        if raw.is_error():
            raise BadInput(f"The {CONSTRAINTS[constraint.kind]} cannot be used: {_reason(raw.get_error())}.")
        return GrammarMatcher(raw, self.vocab_size, self._cut)

    def _check_tokens(self, names: list[str]) -> None:
        """Raises BadInput if a grammar names a token that ends the text, because its end is not one of its parts."""
        markers = Vocabulary.from_tokenizer(self._tokenizer).markers
        for name in names:
            numbers = re.findall(r"(\d+)(?:-(\d+))?", name) if re.fullmatch(r"<\[[\d,-]+\]>", name) else ()
            named = {token for low, high in numbers for token in range(int(low), min(int(high or low), 10**6) + 1)}
            if self.eos_ids & (named or {token for token, marker in markers.items() if marker == name}):
                raise BadInput(
                    f"The grammar names {name[:40]}, which ends a text; a text ends by itself: leave it out."
                )

    def _encode(self, text: str) -> tuple[int, ...]:
        with self._lock:
            tokens = self._vocabulary.tokenize_str(text)
            is_same = self._vocabulary.decode_bytes(tokens) == text.encode()  # some tokenizers put a space before it
            return tuple(tokens if is_same else self._vocabulary.greedy_tokenize(text))


def check_syntax(constraint: Constraint) -> None:
    """Raises BadInput for a constraint that is broken with any model's tokens, before one is loaded."""
    if mistake := _library().LLMatcher.validate_grammar(lark_of(constraint)):
        raise BadInput(f"The {CONSTRAINTS[constraint.kind]} cannot be used: {_reason(mistake)}.")


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
            rule = _json_rule(read_schema(constraint.text)[0], constraint.compact)
        case "regex":
            rule = "/" + _SLASH.sub(_for_lark, constraint.text) + "/"
        case "choice":
            texts = (json.dumps(text, ensure_ascii=False) for text in split_choices(constraint.text))
            rule = " | ".join(texts).replace("\x7f", "\\u007f")  # Lark takes every other character as JSON writes it
        case _:
            grammar = constraint.text
            for start, end, schema in reversed(read_grammar(grammar)[0]):
                lines = "\n" * grammar.count("\n", start, end)  # a mistake's line number counts them
                rule = _json_rule(schema, False).replace("{", "{" + lines, 1)
                grammar = grammar[:start].removesuffix("%json") + rule + grammar[end:]
            return _HEAD + grammar
    return f"{_HEAD}start: {rule}"


def _for_lark(match: re.Match) -> str:
    """Escapes a slash, which would end the expression; Lark takes no escaped line break."""
    return "\\/" if match[0] == "/" else "\\n" if match[0] == "\\\n" else match[0]


def _json_rule(schema: dict[str, Any] | bool, is_compact: bool) -> str:
    schema = schema if isinstance(schema, dict) else {"allOf": [schema]}
    spaces = {"whitespace_flexible": False} if is_compact else {"whitespace_pattern": _SPACES}
    return "%json " + json.dumps(schema | {"x-guidance": spaces | {"json_allowed_escapes": _ESCAPES}})


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

    def __init__(self, raw, vocab_size: int, cut: Callable[[str], Sequence[int]]):
        self._raw, self._bytes, self._cut = raw, (vocab_size + 7) // 8, cut

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
            raise BadInput(f"The constraint became too complex to follow: {_reason(self._raw.get_error())}.")

    def is_complete(self) -> bool:
        return self._raw.is_accepting()

    def forced_tokens(self) -> list[int]:
        """Cuts after each colon and comma, too: models know JSON with a space there, and so with tokens that end
        there, and go on like that where no space may come."""
        # On a copy: where a token must come by its id, llguidance 1.9.1 then allows nothing more.
        text, tokens = self._raw.deep_copy().compute_ff_bytes(), []
        with suppress(UnicodeDecodeError):  # a part of a character is guessed with the rest of it
            for place, part in enumerate(_TOKEN.split(text)):
                cuts = (self._cut(each) for each in _AFTER_SEPARATOR.split(part.decode()))
                tokens += [int(part)] if place % 2 else [token for cut in cuts for token in cut]
            return tokens
        return []


def _reason(error: str) -> str:
    """Cuts an error down to the line that matters, else its first; its line number counts in the constraint."""
    lines = error.strip().split("\n")
    gist = next((line.removeprefix("error: ") for line in lines if line.startswith("error: ")), lines[0])
    gist = gist.partition(". Enable")[0]  # an option that would not enforce the schema
    gist = _AT.sub(lambda match: f"line {max(1, int(match[1]) - 1)}, ", gist)
    return gist[:_LONGEST_REASON].rstrip(".: ")

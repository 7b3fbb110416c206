"""Defines what an answer must match, and refuses what llguidance would not enforce, or could not take back.

llguidance 1.9.1 ignores a schema's words that it does not know, reads numbers as floats, and follows `max_tokens` and
`stop` of a grammar only while nothing is rolled back.
"""

import difflib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

from engine.errors import BadInput, spell

CONSTRAINTS = {"json_schema": "JSON schema", "regex": "regular expression", "choice": "choice", "grammar": "grammar"}
_COMPACT = "Compact JSON is for a run with a JSON schema; give one, or leave it out."
_TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
_FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri")
_NESTED = re.compile(r"\[\^?\]?[^\]]*(\[(?!:)|&&|--|~~)")


def _is_schema(value: Any) -> bool:
    return isinstance(value, dict | bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


# What the value of each word of a schema must be, in words and as a test. Other words are refused.
_FORMS: tuple[tuple[str, str, Callable[[Any], bool]], ...] = (
    ("items additionalProperties", "a schema: an object, true or false", _is_schema),
    ("anyOf oneOf allOf prefixItems", "a list of schemas",
     lambda value: isinstance(value, list) and len(value) > 0 and all(map(_is_schema, value))),
    ("properties patternProperties $defs definitions", "an object of schemas",
     lambda value: isinstance(value, dict) and all(map(_is_schema, value.values()))),
    ("type", f"one of {', '.join(_TYPES)}, or a list of them",
     lambda value: value in _TYPES or (_are_texts(value) and {*value} <= {*_TYPES} and len(value) > 0)),
    ("format", f"one of {', '.join(_FORMATS)}", lambda value: value in _FORMATS),
    ("minimum maximum exclusiveMinimum exclusiveMaximum", "a number", _is_number),
    ("multipleOf", "a number above 0 with up to 5 digits",  # with more, llguidance takes wrong numbers, or for ever
     lambda value: _is_number(value) and value > 0 and len(Decimal(repr(value)).as_tuple().digits) <= 5),
    ("minLength maxLength minItems maxItems minProperties maxProperties", "a whole number from 0",
     lambda value: type(value) is int and value >= 0),
    ("required", "a list of names", _are_texts),
    ("enum", "a list of values", lambda value: isinstance(value, list)),
    ("$ref", "a text", lambda value: isinstance(value, str)),
    ("pattern", "a text without [, &&, -- or ~~ inside of [ ], which llguidance reads in another way than JSON Schema",
     lambda value: isinstance(value, str) and not _NESTED.search(re.sub(r"\\.", "", value))),
    ("const", "a value", lambda _: True),
)  # fmt: skip
_WORDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    word: (form, test) for words, form, test in _FORMS for word in words.split()
}
# They say something about a value and demand nothing. Words that begin with x- do, too.
_ANNOTATIONS = frozenset({
    "$schema", "$id", "id", "$anchor", "$comment", "title", "description", "default", "example", "examples",
    "deprecated", "readOnly", "writeOnly", "contentEncoding", "contentMediaType", "contentSchema",
    "discriminator", "externalDocs", "xml",
})  # fmt: skip
# Words of JSON Schema that llguidance does not enforce. They tell a schema from what may be wrapped around one.
_UNENFORCED = frozenset({
    "not", "if", "then", "else", "contains", "minContains", "maxContains", "uniqueItems", "propertyNames",
    "dependencies", "dependentRequired", "dependentSchemas", "unevaluatedItems", "unevaluatedProperties",
})  # fmt: skip
_HINTS: dict[str, str] = {
    "nullable": 'write "type": ["string", "null"], with the type that you need',
    "additionalItems": "write prefixItems and items",
}
_CONTROL = re.compile(r"(?<!\\)(?:\\\\)*(\\u00(?:[01]\w|7f))")  # in dumped JSON; \b, \f, \n, \r and \t are fine


def _read_number(text: str) -> int | float:
    number = float(text)
    if not abs(number) <= 2**53 or Decimal(text) != Decimal(repr(number)):
        raise BadInput(
            f"The JSON schema has the number {text[:40]}, which would be rounded; write one of up to 15 digits."
        )
    return int(text) if re.fullmatch(r"-?\d+", text) else number


def _read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise BadInput(f"The JSON schema has {_quote(name)} twice in one object; leave one of them out.")
        values[name] = value
    return values


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_read_object, parse_int=_read_number, parse_float=_read_number, parse_constant=_refuse_constant
)


def _quote(word: str) -> str:
    return json.dumps(word[:40], ensure_ascii=False)


def read_schema(text: str, start: int = 0) -> tuple[Any, int]:
    """Returns the schema that begins at ``start``, without its annotations, and where it ends. Raises BadInput for
    broken JSON, and for a word that would not be enforced."""
    start += len(text[start:]) - len(text[start:].lstrip())
    try:
        schema, end = _DECODER.raw_decode(text, start)
        dump = json.dumps(schema)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"The JSON schema cannot be read as JSON: {str(error)[:100]}.") from error
    if not _is_schema(schema):
        raise BadInput(f"The JSON schema must be an object, true or false{_inner_hint(schema)}.")
    parts = dict(_parts(schema))
    for pointer, part in parts.items():
        for word, value in part.items():
            _check_word(schema, pointer, word, value)
        if part.get("minProperties", 0) > len({*part.get("required", ())}) + 1:
            raise BadInput(
                "The JSON schema's minProperties cannot be counted, because names may be repeated; name the "
                "properties and list them in required."
            )
        reference = unquote(part.get("$ref", "#"))
        if not reference.startswith("#") or reference[1:] not in parts:
            raise BadInput(
                f"The JSON schema refers to {_quote(reference)}, which is no part of it; copy it into $defs and "
                'write "$ref": "#/$defs/NAME".'
            )
    if "" in parts and not _can_end(parts):
        raise BadInput(
            "The JSON schema demands a part within itself, without end; allow null there, or leave it out of required."
        )
    if control := _CONTROL.search(dump):
        raise BadInput(
            f"The JSON schema has the control character {control[1]}, which cannot be written; leave it out."
        )
    for part in parts.values():
        for word in [word for word in part if _is_annotation(word)]:
            del part[word]
    if isinstance(schema, dict) and schema and schema.keys() <= {"$defs", "definitions"}:
        raise BadInput('The JSON schema defines parts and uses none; add "$ref": "#/$defs/NAME" beside them.')
    return schema, end


def _parts(schema: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields each schema inside this one, itself included, with its JSON pointer. Those in a word of a wrong form are
    left out, because that word is refused."""
    waiting = [("", schema)]
    while waiting:
        pointer, part = waiting.pop()
        if not isinstance(part, dict):
            continue
        yield pointer, part
        for word, value in part.items():
            form, test = _WORDS.get(word, ("", bool))
            if "schema" not in form or not test(value):
                continue
            below = value.items() if "object of" in form else enumerate(value) if isinstance(value, list) else ()
            escaped = [(str(name).replace("~", "~0").replace("/", "~1"), each) for name, each in below]
            waiting += [(f"{pointer}/{word}/{name}", each) for name, each in escaped] or [(f"{pointer}/{word}", value)]


def _can_end(parts: dict[str, dict[str, Any]]) -> bool:
    """Returns whether some finite JSON may match the schema with these parts: a part that can end makes others end."""
    ending: set[str] = set()

    def ends(place: str, part: dict[str, Any]) -> bool:
        def each(word: str, names: Iterable[object]) -> list[bool]:
            places = (f"{place}/{word}/{str(name).replace('~', '~0').replace('/', '~1')}" for name in names)
            return [below in ending or below not in parts for below in places]

        least = part.get("minItems", 0) if part.get("type") == "array" else 0
        first, required = part.get("prefixItems", ())[:least], part.get("required", ())
        return (
            ("$ref" not in part or unquote(part["$ref"])[1:] in ending)
            and all(any(each(word, range(len(part[word])))) for word in ("anyOf", "oneOf") if word in part)
            and all(each("allOf", range(len(part.get("allOf", ())))))
            and (part.get("type") != "object" or all(each("properties", required)))
            and all(each("prefixItems", range(len(first))))
            and (least <= len(first) or f"{place}/items" in ending or f"{place}/items" not in parts)
        )

    rows, size = [*parts.items()], -1
    while len(ending) > size:
        rows, size = rows[::-1], len(ending)  # from either side, because a chain that is followed backwards takes long
        for place, part in rows:
            if place not in ending and ends(place, part):
                ending.add(place)
    return "" in ending


def _is_annotation(word: str) -> bool:
    return word in _ANNOTATIONS or (word.startswith("x-") and word != "x-guidance")  # its options weaken a schema


def _check_word(schema: Any, pointer: str, word: str, value: Any) -> None:
    place = f" in {pointer[1:61]}" if pointer else ""
    if word in _WORDS:
        form, test = _WORDS[word]
        if not test(value):
            raise BadInput(
                f"The JSON schema's {word}{place} is {spell(value)}, but must be {form}{_inner_hint(schema)}."
            )
    elif not _is_annotation(word):
        known: dict[str, str] = {each.lower(): each for each in _WORDS if each[0] != "$"}
        near = difflib.get_close_matches(word.lower(), known, 1, 0.8)
        hint = f"; did you mean {known[near[0]]}?" if near else f"; {_HINTS[word]}." if word in _HINTS else ""
        hint = hint or (_inner_hint(schema) or "; leave it out, or write it in other words") + "."
        raise BadInput(f"The JSON schema has the word {_quote(word)}{place}, which cannot be enforced{hint}")


def _inner_hint(schema: Any) -> str:
    """Says where in a pasted request or tool the schema seems to be; nothing where none is found, or where the whole is
    a schema itself, because a part of it would be another one."""
    words = schema if isinstance(schema, dict) else {}
    if any(word in _UNENFORCED or (word in _WORDS and _WORDS[word][1](value)) for word, value in words.items()):
        return ""
    waiting: list[tuple[str, Any]] = [("", schema)]
    for path, value in waiting:  # it grows
        below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        waiting += [(f"{path}.{name}" if path else str(name), each) for name, each in below]
        if path and isinstance(value, dict) and (value.get("type") in _TYPES or "$ref" in value or "anyOf" in value):
            return f"; the schema seems to be inside, as {path[:80]}: give only that"
    return ""


_LARK = re.compile(
    r'"(?:\\.|[^"\\\n])*"|/(?:\\.|[^/\\])+/|//[^\n]*|\#[^\n]*'  # texts, expressions and comments
    r"|%(?P<directive>json|llguidance)|(?P<bnf>::=)|(?P<token><[^<>\s]+>)|\b(?P<option>max_tokens|temperature|stop)\s*=",
    re.DOTALL,
)


def read_grammar(text: str) -> tuple[list[tuple[int, int, Any]], list[str]]:
    """Returns the schemas in a Lark grammar, each with its first place and the one after it, and the names of tokens,
    such as <|im_start|> or <[7-9]>. Raises BadInput for what cannot be followed."""
    schemas, tokens, place = [], [], 0
    while match := _LARK.search(text, place):
        place = match.end()
        if match["directive"] == "json":
            schema, end = read_schema(text, place)
            schemas.append((place, end, schema))
            place = end
        elif match["directive"]:
            names = re.findall(r'"(\w*)"', text[place:].partition("}")[0])
            if wrong := {*names} - {"no_forcing", "allow_initial_skip", "ignore_once"}:
                raise BadInput(f"The grammar sets the option {min(wrong)}, which cannot be followed; leave it out.")
        elif match["option"]:
            raise BadInput(
                f"The grammar sets {match['option']}, which cannot be followed; leave it out. An expression such as "
                "/[a-z]{1,9}/ limits a text; suffix and lazy end one."
            )
        elif match["bnf"]:
            raise BadInput(
                "The grammar has ::=, as GBNF and EBNF have it; write it as a Lark grammar, with a colon in each rule "
                'and a rule named start, such as start: "yes" | "no".'
            )
        elif match["token"]:
            tokens.append(match["token"])
    return schemas, tokens


def join_choices(choices: Sequence[str]) -> str:
    """Returns a text that `split_choices` reads as these: one a line, or a JSON list where lines cannot say it.

    >>> join_choices(["yes", "no"]), join_choices(["a\\nb", ""])
    ('yes\\nno', '["a\\\\nb", ""]')
    """
    lines = "\n".join(choices)
    return lines if split_choices(lines) == [*choices] else json.dumps([*choices], ensure_ascii=False)


def split_choices(text: str) -> list[str]:
    """Returns the texts to choose from: each line that is not empty, or the texts of a JSON list."""
    choices: Any = None
    with suppress(ValueError, RecursionError):
        choices = json.loads(text)
    return choices if _are_texts(choices) else [line for line in re.split(r"\r?\n", text) if line]


def is_text(value) -> bool:
    """Returns whether it is a string that UTF-8 can hold (a lone surrogate cannot)."""
    return isinstance(value, str) and not re.search("[\ud800-\udfff]", value)


@dataclass(frozen=True)
class Constraint:
    """What the whole answer must match. ``kind``: one of ``CONSTRAINTS``; ``text``: the schema, the regular expression,
    the texts to choose from (as `join_choices` writes them) or a Lark grammar. ``compact``: JSON has no white space
    between its parts."""

    kind: str
    text: str
    compact: bool = False

    def __post_init__(self):
        if self.kind not in CONSTRAINTS:
            raise BadInput(f"The constraint is {spell(self.kind)}; choose from {', '.join(CONSTRAINTS)}.")
        name = CONSTRAINTS[self.kind]
        if not is_text(self.text) or len(self.text) > 100_000:
            raise BadInput(f"The {name} must be a text of up to 100,000 characters.")
        choices = split_choices(self.text) if self.kind == "choice" else [self.text.strip()]
        if not any(choices):
            raise BadInput(f"The {name} is empty; it says what the whole answer must match.")
        if self.compact and self.kind != "json_schema":
            raise BadInput(_COMPACT)
        if not all(map(is_text, choices)):
            raise BadInput("A choice holds half of a surrogate pair, which is not a character; type it again.")
        if self.kind == "json_schema":
            _, end = read_schema(self.text)
            if rest := self.text[end:].strip():
                raise BadInput(f"The JSON schema cannot be read as JSON: it goes on with {rest[:20]!r} after its end.")

    @staticmethod
    def from_texts(compact: bool = False, **values: Any) -> "Constraint | None":
        """Returns the constraint of the one value that is given, by its kind, or None: a text, a schema as JSON, or a
        list of choices. Raises BadInput for several values, and for a blank one."""
        by_kind = {kind: value for kind, value in values.items() if value is not None}
        if len(by_kind) > 1:
            raise BadInput("A run takes one constraint; give a schema, a regular expression, choices or a grammar.")
        if compact and not by_kind:
            raise BadInput(_COMPACT)
        for kind, value in by_kind.items():
            if kind == "json_schema" and _is_schema(value):
                value = json.dumps(value)
            if kind == "choice" and _are_texts(value):
                value = join_choices(value)
            if not isinstance(value, str):
                forms = {"choice": "a text, or a list of them", "json_schema": "an object or its text"}
                raise BadInput(f"{kind} must be {forms.get(kind, 'a text')}.")
            return Constraint(kind, value, compact)
        return None

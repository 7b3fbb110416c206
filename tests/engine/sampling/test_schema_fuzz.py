"""Schemas of every form end in a sentence or in answers that the package jsonschema finds valid, too."""

import json
import random
from itertools import product

import numpy as np
import pytest
from constrained_answers import follow
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from unlike_tokenizers import byte_level

from engine.errors import BadInput

T = byte_level()
TEXTS = [T.decode([token]) for token in range(len(T))]
LIKELY = [token for token, text in enumerate(TEXTS) if text and text in '"{}[],:-.e0123456789 truefalsn']
WORDS = (
    "type", "const", "enum", "anyOf", "oneOf", "allOf", "not", "if", "then", "else", "$ref", "$defs", "definitions",
    "items", "prefixItems", "additionalItems", "contains", "minContains", "minItems", "maxItems", "uniqueItems",
    "unevaluatedItems", "properties", "patternProperties", "additionalProperties", "propertyNames", "required",
    "dependentRequired", "dependentSchemas", "dependencies", "minProperties", "maxProperties", "minLength",
    "unevaluatedProperties", "maxLength", "pattern", "format", "contentEncoding", "minimum", "maximum",
    "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "title", "default", "examples", "deprecated", "$comment",
    "$schema", "$id", "$anchor", "$dynamicRef", "nullable", "minlength", "x-note", "x-guidance",
)  # fmt: skip
NOTES = {"contentEncoding", "title", "examples", "deprecated", "$comment", "$schema", "$id", "$anchor"}  # of any form
VALUES = (
    None, True, False, 0, 2, -1, 1.5, 3.0, 2**53, 2**53 + 1, 1e30, 2**-5, "", "a", "#", "^a+$", "date", "integer", [],
    [1], ["a"], ["integer"], [{}], [True, {"type": "null"}], {}, {"a": {}}, {"a": 1}, {"^a": {"type": "integer"}},
    {"type": "integer"}, {"a": {"minlength": 1}}, {"a": ["a"]},
)  # fmt: skip
MOST = 300  # tokens of an answer
TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")


def answer_of(schema: object, chance: random.Random, compact: bool) -> str | None:
    """Returns a drawn answer that the constraint accepts; None if none ended. Raises BadInput."""
    reader = follow("json_schema", json.dumps(schema), compact, MOST)
    ids: list[int] = []
    while len(ids) < MOST:
        bits = np.unpackbits(reader.allowed_after(()), count=len(T), bitorder="little")
        allowed = bits.nonzero()[0].tolist()
        if not allowed or (reader.is_complete() and chance.random() < 0.5):
            return T.decode(ids) if reader.is_complete() else None
        likely = [token for token in allowed if token in LIKELY and token not in reader.eos_ids]
        token = chance.choice(likely if likely and chance.random() < 0.9 else allowed)
        if token in reader.eos_ids:
            return T.decode(ids)
        ids.append(token)
        reader.advance(token)
    return None


def check(schema: object, seed: int, draws: int = 3) -> int:
    """Draws answers and returns how many ended; 0 for a schema that is refused."""
    chance, ended = random.Random(seed), 0
    for i in range(draws):
        try:
            answer = answer_of(schema, chance, compact=i % 2 == 1)
        except BadInput as refused:
            assert str(refused).endswith((".", "?")) and len(str(refused)) < 400
            return 0
        schema = schema if isinstance(schema, bool) else {word: schema[word] for word in schema if word not in NOTES}
        Draft202012Validator.check_schema(schema)
        if answer is not None:
            ended += 1
            assert Draft202012Validator(schema).is_valid(json.loads(answer)), (schema, answer)
    return ended


@pytest.mark.slow
def test_each_word_with_each_value_is_refused_or_enforced():
    cases = [
        {"type": kind, word: value} if word != "type" and kind else {word: value}
        for word, value, kind in product(WORDS, VALUES, (None, "object", "array", "string", "number"))
    ]
    ended = [check(schema, seed, draws=2) for seed, schema in enumerate(cases)]
    assert sum(map(bool, ended)) > len(cases) / 6


def schemas(depth: int = 2):
    name = st.sampled_from(["a", "b", "n", 'q"', "é", "a\nb"])
    number = st.one_of(st.integers(-200, 200), st.sampled_from([0.5, -1.25, 1e-3, 12345.75]))
    count = st.integers(0, 3)
    value = st.recursive(
        st.one_of(st.none(), st.booleans(), number, st.text("ab\"\\\n é", max_size=3)),
        lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(name, inner, max_size=2)), max_leaves=4,
    )  # fmt: skip
    inner = schemas(depth - 1) if depth else st.sampled_from([{}, True, {"type": "integer"}, {"type": "null"}])
    words = {
        "type": st.one_of(
            st.sampled_from(TYPES), st.lists(st.sampled_from(TYPES), min_size=1, max_size=3, unique=True)
        ),
        "const": value, "enum": st.lists(value, min_size=1, max_size=3),
        "anyOf": st.lists(inner, min_size=1, max_size=2), "oneOf": st.lists(inner, min_size=1, max_size=2),
        "allOf": st.lists(inner, min_size=1, max_size=2), "items": inner,
        "prefixItems": st.lists(inner, min_size=1, max_size=2),
        "minItems": count, "maxItems": count, "properties": st.dictionaries(name, inner, max_size=3),
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$", "n"]), inner, min_size=1, max_size=2),
        "additionalProperties": inner, "required": st.lists(name, max_size=2, unique=True), "minProperties": count,
        "maxProperties": count, "minLength": count, "maxLength": count,
        "pattern": st.sampled_from(["a", "^[ab]+$", "b?$", "^.{2}$", "(a|b)n"]),
        "minimum": number, "maximum": number, "exclusiveMinimum": number, "exclusiveMaximum": number,
        "multipleOf": st.sampled_from([1, 3, 7, 0.5, 0.25]), "$ref": st.sampled_from(["#", "#/$defs/a"]),
        "$defs": st.fixed_dictionaries({"a": inner}),
    }  # fmt: skip
    some = st.lists(st.sampled_from([*words]), min_size=1, max_size=4, unique=True)
    return some.flatmap(lambda chosen: st.fixed_dictionaries({word: words[word] for word in chosen}))


@pytest.mark.slow
@settings(max_examples=1500, deadline=None, derandomize=True, database=None, suppress_health_check=[*HealthCheck])
@given(schemas())
def test_answers_to_drawn_schemas_are_valid(schema):
    check(schema, seed=len(json.dumps(schema)))

"""Counts the answers of a benchmark that fit their JSON schema, as the package jsonschema reads it.

That package has nothing to do with the masks. Only answers that ended by themselves count, because one that the token
limit cut cannot be JSON yet.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec

from engine.tools.bench.metrics import table
from engine.tools.bench.prompts import Prompt
from engine.tools.bench.sample import Sample


@dataclass(frozen=True)
class Validity:
    """``answers`` to prompts with a schema; how many ``ended`` by themselves; how many of these are ``valid``, and how
    many ``unchecked``."""

    answers: int
    ended: int
    valid: int
    unchecked: int


def can_check(prompts: Sequence[Prompt]) -> bool:
    """Returns whether a prompt has a schema and the package is installed."""
    return any(map(_schema, prompts)) and find_spec("jsonschema") is not None


def _schema(prompt: Prompt) -> str | None:
    own = prompt.constraint
    return own.text if own is not None and own.kind == "json_schema" else None


def check(columns: Mapping[str, Sequence[Sample]], prompts: Sequence[Prompt], tokenizer, eos: Collection[int]):
    """Returns {method: Validity}; ``columns``: a sample of each prompt by method."""
    return {name: _check(column, prompts, tokenizer, eos) for name, column in columns.items()}


def _check(column: Sequence[Sample], prompts: Sequence[Prompt], tokenizer, eos: Collection[int]) -> Validity:
    pairs = [(s.ids, schema) for s, p in zip(column, prompts, strict=False) if (schema := _schema(p)) is not None]
    ended = [(ids[:-1], schema) for ids, schema in pairs if ids and ids[-1] in eos]
    texts = [(tokenizer.decode(ids, clean_up_tokenization_spaces=False), schema) for ids, schema in ended]
    verdicts = [fits(text, schema) for text, schema in texts]
    return Validity(len(pairs), len(ended), verdicts.count(True), verdicts.count(None))


def fits(text: str, schema: str) -> bool | None:
    """Returns whether a text is JSON that the schema allows; None where jsonschema cannot tell.

    >>> fits("1", '{"type": "integer"}'), fits("1,", '{"type": "integer"}'), fits("1.5", '{"type": "integer"}')
    (True, False, False)
    """
    try:
        return _validator(schema).is_valid(json.loads(text))
    except json.JSONDecodeError:
        return False
    except Exception:  # the grammar's schemas are not jsonschema's: other patterns, types and references, any depth
        return None


@lru_cache
def _validator(schema: str):
    from jsonschema import Draft202012Validator

    return Draft202012Validator(json.loads(schema))


def markdown(counts: Mapping[str, Mapping[str, int]]) -> str:
    """Returns a table of each method's `Validity`, as a dict."""
    heads = ["method", "answers with a schema", "ended", "of these valid", "not checked"]
    return table(heads, [[name, *map(str, row.values())] for name, row in counts.items()])

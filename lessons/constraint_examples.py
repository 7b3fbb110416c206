"""Holds an example of each kind of constraint, which one click fills in on the page."""

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class ConstraintExample:
    """What one click fills in, under the name on its button: a constraint, and a prompt that asks for it."""

    name: str
    prompt: str
    text: str


def _schema(**properties: dict) -> str:
    """Writes the schema of an object that has all of these and nothing else, a property a line."""
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(of)}" for name, of in properties.items())
    required = f'"required": {json.dumps(list(properties))}, "additionalProperties": false'
    return f'{{"type": "object", "properties": {{\n{lines}\n}}, {required}}}'


# A kind of constraint begins with the text of its example. The first three work with the embedded model.
CONSTRAINT_EXAMPLES = {
    "json_schema": ConstraintExample(
        "A person",
        "Invent a baker who lives in Lyon. Answer in JSON with name, age, job and city.",
        _schema(
            name={"type": "string", "maxLength": 40},
            age={"type": "integer", "minimum": 1, "maximum": 120},
            job={"type": "string", "maxLength": 40},
            city={"type": "string", "maxLength": 40},
        ),
    ),
    "regex": ConstraintExample(
        "A sentence",
        "What is the capital of France, and on which river does it lie?",
        r"The capital of France is [A-Z][a-z]+, and it lies on the river [A-Z][a-z]+\.",
    ),
    "choice": ConstraintExample(
        "A verdict",
        "Is this review positive or negative? Best headphones I have owned; the sound is warm and clear.",
        "This review is positive.\nThis review is negative.\nThis review is mixed.",
    ),
    "grammar": ConstraintExample(
        "A list",
        "Write a shopping list for pancakes.",
        'start: item item item\nitem: "- " /[a-z]+( [a-z]+)?/ "\\n"',
    ),
}

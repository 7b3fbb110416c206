"""Describes POST /api/run for OpenAPI, from the signature of the API's `run` and the list of settings."""

import inspect
from typing import Any, get_args

from pydantic import Field, create_model

from app.api.endpoints import Api
from engine.settings import SETTINGS, describe

ARGUMENTS = {
    name: argument
    for name, argument in inspect.signature(Api.run).parameters.items()
    if name not in ("self", "request")
}
ALIASES = {"max_new_tokens": "tokens"}  # the command line's name for it
STREAM = "A line of JSON about once a second, instead of one answer at the end."


def description(name: str) -> str:
    """Says what an argument of `run` does."""
    _, *words = get_args(ARGUMENTS[name].annotation) if hasattr(ARGUMENTS[name].annotation, "__metadata__") else (None,)
    return words[0] if words else describe(SETTINGS[name])


def operation() -> dict[str, Any]:
    """Returns what OpenAPI says about the request and its answers."""
    fields: dict[str, Any] = {
        name: (
            each.annotation,
            Field(... if each.default is each.empty else each.default, description=description(name)),
        )
        for name, each in ARGUMENTS.items()
    }
    fields["stream"] = (bool, Field(False, description=STREAM))
    request = create_model("Run", **fields).model_json_schema()
    request["properties"] |= {alias: request["properties"][name] for alias, name in ALIASES.items()}
    answer = {"text": {"type": "string"}, "figures": {"type": "object"}, "trace": {"type": ["object", "null"]}}
    refusal = {"type": "object", "properties": {"error": {"type": "string"}}}
    return {
        "requestBody": {"required": True, "content": {"application/json": {"schema": request}}},
        "responses": {
            "200": _answer("The text, its figures, and the traces", {"type": "object", "properties": answer}),
            "4XX": _answer("A refusal, in a sentence", refusal),
            "503": _answer("The queue is full; try again in a minute", refusal),
        },
    }


def _answer(words: str, schema: dict) -> dict[str, Any]:
    return {"description": words, "content": {"application/json": {"schema": schema}}}

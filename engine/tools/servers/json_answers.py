"""Asks a server for JSON by a schema and for tool calls, and counts answers that are not valid. Imports no torch."""

import json
from typing import Any

from engine.tools.servers.client import Client
from engine.tools.servers.streamed_answer import first, mapping

COUNT = 5
MORE = 35  # further answers where drafts are suspected; 14 valid of 24 against 23 then show
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}, "people": {"type": "integer"}},
          "required": ["city", "people"], "additionalProperties": False}  # fmt: skip
REQUESTS = {  # check → what it asks for, and the fields of the request
    "JSON": (
        "answers with a JSON schema",
        {"response_format": {"type": "json_schema", "json_schema": {"name": "city", "strict": True, "schema": SCHEMA}}},
    ),
    "tool calls": (
        "calls of a tool that had to be called",
        {
            "tools": [{"type": "function", "function": {"name": "city", "strict": True, "parameters": SCHEMA}}],
            "tool_choice": {"type": "function", "function": {"name": "city"}},
        },
    ),
}
ENFORCED = ("JSON",)  # what a server that takes the request has to enforce; not every engine enforces a tool's schema


def invalid(client: Client, model: str, check: str, seeds: range = range(COUNT)) -> int:
    """Returns how many of the sampled answers break the schema; one that was cut by its length is not counted."""
    question = {"role": "user", "content": "Name a city and how many people live there, as JSON."}
    body = {"model": model, "messages": [question], "max_tokens": 200, "temperature": 0.7} | REQUESTS[check][1]
    answers = [client.post_json("/v1/chat/completions", body | {"seed": seed}) for seed in seeds]
    choices = [mapping(answer["choices"][0]) for answer in answers]
    return sum(not _fits(choice, check) and choice.get("finish_reason") != "length" for choice in choices)


def _fits(choice: dict, check: str) -> bool:
    message = mapping(choice.get("message"))
    text: Any = message.get("content")
    if check == "tool calls":
        function = mapping(first(message.get("tool_calls")).get("function"))
        text = function.get("arguments") if function.get("name") == "city" else ""
    try:
        value = json.loads(text or "")
    except (ValueError, TypeError, RecursionError):
        return False
    is_whole = isinstance(value, dict) and set(value) == {"city", "people"}
    return is_whole and type(value["people"]) is int and isinstance(value["city"], str)  # not True

"""Reads any OpenAI-compatible server by the pieces of its stream alone."""

from engine.servers.answer import Answer
from engine.servers.client import Client


class Chunks:
    name, can_split = "pieces of the stream", False

    def recognise(self, client: Client) -> dict[str, str] | None:
        return {}

    def fields(self) -> dict:
        return {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}

    def read(self, answer: Answer, at: float, event: dict) -> None:
        answer.add(at, event)

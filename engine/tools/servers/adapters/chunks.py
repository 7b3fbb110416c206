"""Reads any OpenAI-compatible server by the pieces of its stream alone."""

from engine.tools.servers.client import Client
from engine.tools.servers.streamed_answer import Adapter


class Chunks(Adapter):
    name, penalties = "pieces of the stream", ("repetition_penalty", "repeat_penalty")  # every name that servers have

    def recognise(self, client: Client) -> dict[str, str] | None:
        return {}

"""Reads any OpenAI-compatible server by its stream alone, also an engine that a gateway hides."""

from engine.tools.servers.adapters.adapter import Adapter
from engine.tools.servers.client import Client


class Chunks(Adapter):
    name, penalties = "pieces of the stream", ("repetition_penalty", "repeat_penalty")  # every name that servers have

    def recognise(self, client: Client) -> dict[str, str] | None:
        return {}

    def fields(self) -> dict:
        """Returns the fields of all engines; a strict server gets a request without them."""
        each = ("return_token_ids", "timings_per_token", "return_spec_tokens_details")
        return super().fields() | dict.fromkeys(each, True)

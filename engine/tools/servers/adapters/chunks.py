"""Reads any OpenAI-compatible server by its stream alone, perhaps that of an engine which a gateway hides."""

from engine.tools.servers.client import Client
from engine.tools.servers.streamed_answer import Adapter


class Chunks(Adapter):
    name, penalties = "pieces of the stream", ("repetition_penalty", "repeat_penalty")  # every name that servers have

    def recognise(self, client: Client) -> dict[str, str] | None:
        return {}

    def fields(self) -> dict:
        """Returns the fields of all engines; a server that refuses one is asked without it."""
        each = ("return_token_ids", "timings_per_token", "return_spec_tokens_details")
        return super().fields() | dict.fromkeys(each, True)

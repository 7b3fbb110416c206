"""Defines the part of a recording that each engine does in its own way."""

from typing import Any

from engine.tools.servers.client import Client, Missing
from engine.tools.servers.streamed_answer import StreamedAnswer, mapping


class Adapter:
    """What one engine needs to tell more, and where else it tells it. It keeps nothing of a request."""

    name: str
    can_split = False  # whether it has /detokenize
    is_plain = False  # whether it said that it does not draft
    penalties: tuple[str, ...] = ("repetition_penalty",)  # the names of its repetition penalty

    def recognise(self, client: Client) -> dict[str, str] | None:
        """Returns its settings, at least a version; None for the server of another engine."""
        raise NotImplementedError

    def fields(self) -> dict:
        """Returns the fields of a request beyond OpenAI's API. These make each event say how many tokens there are."""
        return {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}

    def counts_before(self, client: Client) -> dict[str, int]:
        """Returns what `add_counts` needs from before the request."""
        return {}

    def add_counts(self, client: Client, answer: StreamedAnswer, before: dict[str, int]) -> None:
        """Adds to a complete answer, which was alone on the server, what that tells elsewhere."""


def version(client: Client) -> str:
    """Returns the version that a server tells; "" where a gateway does not let it through."""
    try:
        return str(mapping(client.get_json("/version")).get("version", ""))[:40]
    except Missing:
        return ""


def owners(client: Client) -> list[Any]:
    """Returns who owns each model that the server lists."""
    models = mapping(client.get_json("/v1/models")).get("data")
    return [mapping(model).get("owned_by") for model in (models if isinstance(models, list) else [])]

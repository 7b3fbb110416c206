"""Reads LM Studio's server, from its documentation and SDK of August 2026; not watched on a running one.

The end of a stream has ``stats``, or since 0.4.24 ``usage``, with total_draft_tokens_count, accepted_draft_tokens_count
and rejected_draft_tokens_count. Rejected are all that were scored and not accepted, also those after the first
rejection; ignored_draft_tokens_count are drafts that were never scored. An event is one token, so rounds stay unknown.
"""

from engine.tools.servers.adapters.adapter import Adapter
from engine.tools.servers.client import Client
from engine.tools.servers.streamed_answer import mapping

MOST_FLAGS = 8


class LmStudio(Adapter):
    name, penalties = "LM Studio", ("repeat_penalty",)

    def recognise(self, client: Client) -> dict[str, str] | None:
        """Returns how the loaded models draft, where it says so. It answers 200 to any address."""
        models = mapping(client.get_json("/api/v1/models")).get("models")
        if not isinstance(models, list) or not all("loaded_instances" in mapping(model) for model in models):
            return None
        loaded = [mapping(one) for model in models for one in mapping(model)["loaded_instances"] or []]
        flags = [
            (name, str(value)[:80])
            for one in loaded
            for name, value in mapping(one.get("config")).items()
            if name.startswith("speculative_") and value
        ]
        return {"version": ""} | dict(flags[:MOST_FLAGS])

"""Reads llama.cpp's llama-server. Watched on version 0.5.0 of October 2026.

``timings_per_token`` gives each event ``timings`` with predicted_n, draft_n and draft_n_accepted, counted so far. The
two latter grow before the first token of a round is sent, and each event is one token, or the tokens of one character,
so that the tokens of a round are known.
"""

from engine.tools.servers.adapters.adapter import Adapter
from engine.tools.servers.client import Client
from engine.tools.servers.streamed_answer import mapping


class LlamaServer(Adapter):
    name, penalties = "llama-server", ("repeat_penalty",)

    def recognise(self, client: Client) -> dict[str, str] | None:
        about = mapping(client.get_json("/props"))
        return {"version": str(about.get("build_info", ""))[:60]} if "default_generation_settings" in about else None

    def fields(self) -> dict:
        return {"timings_per_token": True}

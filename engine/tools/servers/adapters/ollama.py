"""Reads Ollama's server, from its source of 0.33.0rc2 (August 2026); not watched on a running one.

Since 0.30 it runs llama.cpp's llama-server, and its own API leaves out all counts of drafts. An event is
one token, so rounds stay unknown. What llama-server logs after each answer is in Ollama's own log.
"""

from engine.tools.servers.adapters.adapter import Adapter
from engine.tools.servers.client import Client
from engine.tools.servers.streamed_answer import mapping


class Ollama(Adapter):
    name, penalties = "Ollama", ("repeat_penalty",)

    def recognise(self, client: Client) -> dict[str, str] | None:
        if client.get("/").strip() != "Ollama is running":
            return None
        return {"version": str(mapping(client.get_json("/api/version")).get("version", ""))[:40]}

"""Reads the streams and counters of vLLM's server (log_forms.py reads its log). Watched on version 0.32.0.

``return_token_ids`` gives each event its token ids, and one event is one round unless the reader was slow: then vLLM
merges several. ``--per-request-spec-decode-metrics detailed`` (vLLM pull request 48915) ends the stream with
``metrics.speculative_decoding``: per_step_accepted and per_step_drafted by round, num_spec_steps,
num_accepted_draft_tokens and num_draft_tokens; ``summary`` leaves out the lists. Without either, the counters of
/metrics before and after are used, which count every user of the server.
"""

import re

from engine.errors import EngineError
from engine.tools.servers.adapters.adapter import Adapter, owners, version
from engine.tools.servers.client import Client
from engine.tools.servers.log_reader import read_metrics
from engine.tools.servers.streamed_answer import NAMES, StreamedAnswer

FLAG = "--per-request-spec-decode-metrics detailed"
CACHED = "vllm:prefix_cache_hits_total"


class Vllm(Adapter):
    name, can_split = "vLLM", True

    def recognise(self, client: Client) -> dict[str, str] | None:
        if "vllm" not in owners(client):
            return None
        return {"version": version(client)}

    def fields(self) -> dict:
        return {"return_token_ids": True}

    def counts_before(self, client: Client) -> dict[str, int]:
        return _counters(client)

    def add_counts(self, client: Client, answer: StreamedAnswer, before: dict[str, int]) -> None:
        """Adds the whole server's numbers where the request has none of its own."""
        if answer.counters and answer.cached is not None:
            return
        grown = {name: max(0, now - before[name]) for name, now in _counters(client).items() if name in before}
        if answer.cached is None:
            answer.add_cached(grown.pop(CACHED, None))
        if answer.counters:
            return
        answer.counters = {name: count for name, count in grown.items() if name != CACHED}
        if any(answer.counters.values()):
            answer.notes.append(f"The counts are of all users, from /metrics; start vLLM with {FLAG} for this one’s.")


def _counters(client: Client) -> dict[str, int]:
    """Reads the counters of /metrics; none where it cannot be read, zeros where the server does not draft."""
    try:
        text = client.get("/metrics")
    except EngineError:
        return {}
    drafts = read_metrics(text) or (dict.fromkeys(NAMES, 0) if "vllm:" in text else {})
    hits = re.findall(rf"(?m)^{CACHED}(?:{{.*}})? ([\d.e+]+)$", text)
    return drafts | ({CACHED: int(sum(map(float, hits)))} if hits else {})

"""Reads TensorRT-LLM's OpenAI server, from its documentation of version 1.4.0rc1; not watched on a running one.

With ``return_perf_metrics`` set at its start, /perf_metrics lists past requests with
``perf_metrics.speculative_decoding``: total_draft_tokens and total_accepted_draft_tokens.
"""

from engine.errors import EngineError
from engine.tools.servers.adapters.adapter import Adapter, owners, version
from engine.tools.servers.client import Client
from engine.tools.servers.streamed_answer import StreamedAnswer, as_count, mapping


class TensorRtLlm(Adapter):
    name = "TensorRT-LLM"

    def recognise(self, client: Client) -> dict[str, str] | None:
        if "tensorrt_llm" not in owners(client):
            return None
        return {"version": version(client)}

    def add_counts(self, client: Client, answer: StreamedAnswer, before: dict[str, int]) -> None:
        try:
            rows = client.get_json("/perf_metrics")
        except EngineError:
            return
        last = mapping(mapping(rows[-1]).get("perf_metrics")) if isinstance(rows, list) and rows else {}
        details = mapping(last.get("speculative_decoding"))
        drafted, accepted = (
            as_count(details.get("total_draft_tokens")),
            as_count(details.get("total_accepted_draft_tokens")),
        )
        if drafted is not None and accepted is not None:
            answer.counters = {"drafted": drafted, "accepted": accepted}

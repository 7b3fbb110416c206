"""Reads TensorRT-LLM's OpenAI server, from its documentation of version 1.4.0rc1; not watched on a running one.

With ``return_perf_metrics`` set at its start, /perf_metrics lists past requests with
``perf_metrics.speculative_decoding``: total_draft_tokens and total_accepted_draft_tokens.
"""

from engine.errors import EngineError
from engine.servers.answer import Answer, as_count, mapping
from engine.servers.client import Client


class TensorRtLlm:
    name, can_split = "TensorRT-LLM", False

    def recognise(self, client: Client) -> dict[str, str] | None:
        models = mapping(client.get_json("/v1/models")).get("data")
        owners = [mapping(model).get("owned_by") for model in (models if isinstance(models, list) else [])]
        if "tensorrt_llm" not in owners:
            return None
        return {"version": str(mapping(client.get_json("/version")).get("version", ""))[:40]}

    def fields(self) -> dict:
        return {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}

    def after(self, client: Client, answer: Answer) -> None:
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

    def read(self, answer: Answer, at: float, event: dict) -> None:
        answer.add(at, event)

"""Reads SGLang's server, from its source of version 0.5.23; not watched on a running one.

``return_spec_tokens_details`` (pull request 33518) ends the stream with ``sglext.spec_tokens_details``: spec_verify_ct,
spec_num_proposed_drafts and spec_num_correct_drafts. ``continuous_usage_stats`` says in each event how many tokens
there are. An event is one round with ``--stream-interval 1``, the default.
"""

from engine.tools.servers.adapters.adapter import Adapter
from engine.tools.servers.client import Client
from engine.tools.servers.streamed_answer import mapping

FLAGS = ("speculative_algorithm", "speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens")


class Sglang(Adapter):
    name, can_split = "SGLang", True

    def recognise(self, client: Client) -> dict[str, str] | None:
        about = mapping(client.get_json("/get_server_info"))
        if "version" not in about:
            return None
        flags = {name: str(about[name])[:80] for name in FLAGS if about.get(name) is not None}
        self.is_plain = "speculative_algorithm" in about and about["speculative_algorithm"] is None
        return {"version": str(about["version"])[:40]} | flags

    def fields(self) -> dict:
        return super().fields() | {"return_spec_tokens_details": True}

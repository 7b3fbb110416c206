"""Defines a request to an OpenAI-compatible server."""

import json
from dataclasses import dataclass, field, replace
from itertools import cycle

from engine.errors import BadInput
from engine.tools.bench.prompts import Prompt


@dataclass(frozen=True)
class ServerRequest:
    """``chat``: as the user's message of a chat; otherwise the text is continued. ``logprobs``: ask for p. ``more``:
    fields beyond these. ``system``: a chat's system prompt; ``earlier``: its turns before the prompt."""

    model: str
    prompt: str
    max_tokens: int = 128
    temperature: float = 0.0
    seed: int = 0
    chat: bool = True
    logprobs: bool = False
    more: dict = field(default_factory=dict)
    system: str = ""
    earlier: tuple[str, ...] = ()

    def of_row(self, row: Prompt) -> "ServerRequest":
        """Returns the request for a row of a file, which says more itself: `SERVER` has its names."""
        own = row.own
        names = {"max_new_tokens": "max_tokens"} | {name: name for name in ("temperature", "seed", "chat", "system")}
        known = {field: own.pop(name) for name, field in names.items() if name in own}
        if not known.get("chat", self.chat) and (row.earlier or known.get("system", self.system)):
            raise BadInput(f"{row.place} has a system prompt or earlier turns, for which a raw text has no place.")
        if "repetition_penalty" in own:  # as llama-server calls it
            own["repeat_penalty"] = own["repetition_penalty"]
        if row.constraint:
            schema = {"name": "answer", "strict": True, "schema": json.loads(row.constraint.text)}
            own["response_format"] = {"type": "json_schema", "json_schema": schema}
        return replace(self, prompt=row.text, earlier=tuple(map(str, row.earlier)), more=self.more | own, **known)

    @property
    def path(self) -> str:
        return "/v1/chat/completions" if self.chat else "/v1/completions"

    def body(self, **fields) -> dict:
        """Returns the request as OpenAI's API has it, with the fields that an adapter adds."""
        turns = [("system", self.system)] if self.system else []
        turns += zip(cycle(("user", "assistant")), (*self.earlier, self.prompt), strict=False)
        messages = [{"role": role, "content": text} for role, text in turns]
        words = {"messages": messages} if self.chat else {"prompt": self.prompt}
        extra = ({"logprobs": True, "top_logprobs": 0} if self.chat else {"logprobs": 0}) if self.logprobs else {}
        settings = {"max_tokens": self.max_tokens, "temperature": self.temperature, "seed": self.seed}
        stream = {"stream": True, "stream_options": {"include_usage": True}}
        return {"model": self.model} | words | settings | extra | stream | self.more | fields

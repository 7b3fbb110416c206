"""What a visitor may ask of this server, from environment variables. Knows neither gradio nor the engine's models."""

import os
from dataclasses import dataclass

from app.hosting import hosted
from engine.config import MAX_NEW_TOKENS, RunConfig
from engine.errors import BadInput


def _whole(name: str, default: int, low: int, high: int) -> int:
    """A number from the environment, kept within sane bounds; a typo there must not stop the page."""
    try:
        return min(max(int(os.environ[name]), low), high)
    except (KeyError, ValueError):
        return default


def _names(name: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in os.environ.get(name, "").split(",") if part.strip())


@dataclass(frozen=True)
class Limits:
    """``queue``: visitors who may wait. ``seconds``: of a device for one run, its baseline included; ``lab_seconds``:
    for one experiment of the lab, 0 for none that need a model. ``kept``: ended runs that are shown again instead of
    repeated (0 switches that off). ``pairs``: the pairs on offer, the first one chosen at start; none named means the
    whole catalogue. ``fetch``: whether a visitor's choice may download weights.
    """

    prompt_chars: int = 8_000
    prompt_tokens: int = 2_000
    new_tokens: int = 512
    seconds: int = 180
    lab_seconds: int = 1_800
    queue: int = 30
    kept: int = 64
    pairs: tuple[str, ...] = ()
    fetch: bool = True

    @classmethod
    def from_env(cls) -> "Limits":
        return cls(
            prompt_chars=_whole("SPECLENS_MAX_PROMPT_CHARS", cls.prompt_chars, 1, 1_000_000),
            prompt_tokens=_whole("SPECLENS_MAX_PROMPT_TOKENS", cls.prompt_tokens, 1, 100_000),
            new_tokens=_whole("SPECLENS_MAX_NEW_TOKENS", cls.new_tokens, 1, MAX_NEW_TOKENS),
            seconds=_whole("SPECLENS_MAX_SECONDS", cls.seconds, 5, 3_600),
            lab_seconds=_whole("SPECLENS_LAB_SECONDS", 0 if hosted() else cls.lab_seconds, 0, 24 * 3_600),
            queue=_whole("SPECLENS_MAX_QUEUE", cls.queue, 1, 200),
            kept=_whole("SPECLENS_KEPT_RUNS", cls.kept, 0, 1_000),
            pairs=_names("SPECLENS_PAIRS"),
            fetch=bool(_whole("SPECLENS_FETCH", 0 if hosted() else 1, 0, 1)),
        )

    def check(self, config: RunConfig) -> None:
        """What can be told without a tokenizer. BadInput says which limit it is and what to do."""
        for what, text in (("prompt", config.prompt), ("system prompt", config.system or "")):
            if len(text) > self.prompt_chars:
                raise BadInput(f"The {what} has {len(text):,} characters; this page takes up to {self.prompt_chars:,}.")
        if config.max_new_tokens > self.new_tokens:
            raise BadInput(
                f"Max tokens is {config.max_new_tokens:,} and this page allows {self.new_tokens:,}; ask for fewer."
            )

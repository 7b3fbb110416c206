"""Reads a server's limits for visitors from environment variables. Knows neither gradio nor the engine's models."""

import os
from dataclasses import dataclass
from typing import TypeVar

from app.server.address import is_open_to_others
from app.server.hosting import is_hosted
from engine.config import MAX_NEW_TOKENS, MAX_SHARERS, MAX_WAITING, RunConfig
from engine.errors import BadInput, spell

T = TypeVar("T", bound=int | None)
# Limits of the engine in a visitor's tab, whose runtime copies the cache in and out at every pass.
TAB_PROMPT_TOKENS, TAB_NEW_TOKENS = 700, 256
_WORDS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def _integer(name: str, default: T, low: int, high: int) -> int | T:
    """Reads a number from the environment, clamped to sane bounds; ``default`` for a typo. Prints what it takes."""
    text = os.environ.get(name)
    if text is None:
        return default
    try:
        number = int(text)
        used = min(max(number, low), high)
    except ValueError:
        number, used = None, default
    if used != number:
        shown = "the default" if used is None else f"{used:,}"
        print(f"{name}={text[:40]} is not a number from {low:,} to {high:,}; SpecLens takes {shown}.", flush=True)
    return used


def _switch(name: str, default: bool) -> bool:
    """Reads a yes or a no. Raises BadInput for another word: a typo must not open what it was meant to close."""
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    if text.lower() not in _WORDS:
        raise BadInput(f"{name} is {text[:40]!r}; set it to 1 or 0, or not at all.")
    return _WORDS[text.lower()]


def _names(name: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in os.environ.get(name, "").split(",") if part.strip())


@dataclass(frozen=True)
class Limits:
    """``queue``: runs that may wait. ``together``: runs that may share the model's passes, None for as many as suit the
    device. ``seconds``: device time for one run and its baseline; ``lab_seconds``: for one experiment of the lab, 0 for
    none that need a model. ``cached_runs``: ended runs that are shown again instead of repeated (0 for none).
    ``pairs``: the pairs on offer, the first one chosen at start; empty means the whole catalogue. ``fetch``: whether a
    visitor's choice may download weights. ``own_models``: whether visitors may name folders and models of the hub.
    ``log``: whether each run is a line of JSON on stdout. ``tab``: where an engine in a visitor's tab gets the model's
    file, "none" for a page without one. ``hosts``: names of this server beside the usual ones, and of sites whose pages
    may send it requests. ``solutions``: whether the lessons bring the notes, plans and keys for teachers.

    Nothing limits how often visitors may ask, because each has one run at a time and the queue is limited. A program
    that asks over HTTP may have several, so there each address has `per_address`.
    """

    prompt_chars: int = 8_000
    prompt_tokens: int = 2_000
    new_tokens: int = 512
    seconds: int = 180
    lab_seconds: int = 1_800
    queue: int = MAX_WAITING
    together: int | None = None
    cached_runs: int = 64
    pairs: tuple[str, ...] = ()
    fetch: bool = True
    own_models: bool = True
    log: bool = False
    tab: str = "none"
    hosts: tuple[str, ...] = ()
    solutions: bool = True

    @property
    def per_address(self) -> int:
        """The most requests over HTTP that one address may have open: half of the queue stays free for others."""
        return max(1, self.queue // 2)

    @classmethod
    def from_env(cls) -> "Limits":
        return cls(
            prompt_chars=_integer("SPECLENS_MAX_PROMPT_CHARS", cls.prompt_chars, 1, 1_000_000),
            prompt_tokens=_integer("SPECLENS_MAX_PROMPT_TOKENS", cls.prompt_tokens, 1, 100_000),
            new_tokens=_integer("SPECLENS_MAX_NEW_TOKENS", cls.new_tokens, 1, MAX_NEW_TOKENS),
            seconds=_integer("SPECLENS_MAX_SECONDS", cls.seconds, 5, 3_600),
            lab_seconds=_integer("SPECLENS_LAB_SECONDS", 0 if is_hosted() else cls.lab_seconds, 0, 24 * 3_600),
            queue=_integer("SPECLENS_MAX_QUEUE", cls.queue, 1, 200),
            together=_integer("SPECLENS_BATCH", cls.together, 1, MAX_SHARERS),
            cached_runs=_integer("SPECLENS_KEPT_RUNS", cls.cached_runs, 0, 1_000),
            pairs=_names("SPECLENS_PAIRS"),
            fetch=_switch("SPECLENS_FETCH", not is_hosted()),
            own_models=_switch("SPECLENS_OWN_MODELS", not is_hosted()),
            log=_switch("SPECLENS_LOG", is_hosted()),
            # A visitor who has the page alone needs no second engine, and so no download of one.
            tab=os.environ.get("SPECLENS_TAB", "beside" if is_open_to_others(os.environ) else "none").strip(),
            hosts=_names("SPECLENS_HOSTS") or (("*",) if is_hosted() else ()),  # a hosted page is public by any name
            solutions=_switch("SPECLENS_SOLUTIONS", True),
        )

    def check(self, config: RunConfig) -> None:
        """Checks the limits that need no tokenizer; `Offer.check_models` counts the prompt's tokens. Raises BadInput
        with the limit and what to do."""
        for name, text in (("prompt", config.prompt), ("system prompt", config.system or "")):
            if len(text) > self.prompt_chars:
                raise BadInput(f"The {name} has {len(text):,} characters; this page takes up to {self.prompt_chars:,}.")
        self.check_tokens(config.max_new_tokens)

    def check_tokens(self, tokens: int) -> None:
        """Raises BadInput for a number of new tokens that is not allowed. It comes from a form and may be anything."""
        if type(tokens) is not int or not 1 <= tokens <= self.new_tokens:
            amount = f"{tokens:,}" if type(tokens) is int else spell(tokens)
            raise BadInput(f"A run of {amount} tokens was asked for; this page allows 1 to {self.new_tokens:,}.")

"""Renders the page of sixty seconds that comes before the lessons: its lines, and a recorded run to play. Pure."""

from collections.abc import Mapping
from typing import Any

from app.lessons_tab.text_renderer import TextRenderer
from app.lessons_tab.variables import names
from engine.trace.events import Round
from engine.trace.trace import Trace
from lessons.schema import Minute

LINES = ("lead", "guess", "check", "keep", "end")


def page(minute: Minute, trace: Trace, words: Mapping[str, str]) -> dict[str, Any]:
    """``words``: the glossary. The clock of the rounds counts plain steps, by the costs that were measured before the
    run, and is stretched so that the run takes as long as it did by the clock."""
    known = names({"run": trace})
    renderer = TextRenderer("minute.toml", known)
    lines = {name: renderer.line(getattr(minute, name)) for name in LINES}
    stretch = known["predicted"] / known["measured_speedup"]
    rounds = [_round(one, stretch * at) for one, (at, _) in zip(trace.rounds, known["pace"], strict=True)]
    page = {"title": minute.title, "prompt": trace.started.prompt_text, "rounds": rounds}
    return lines | page | {"words": renderer.glossary(words)}


def _round(one: Round, at: float) -> dict[str, Any]:
    """Returns a round's drafts with their statuses, the target's own token with its status, if the text had not ended
    before, and the time when the round is over."""
    tokens = [[token.text, token.status] for token in one.tokens]
    drafts, own = tokens[: len(one.parents)], tokens[len(one.parents) :]
    return {"drafts": drafts, "own": own[0] if own else None, "at": at}

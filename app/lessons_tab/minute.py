"""Renders the page of sixty seconds that comes before the lessons: its lines, and a recorded run to play. Pure.

`document_of` makes a page of it that stands alone, also in a frame of another site.
"""

from collections.abc import Mapping
from html import escape
from typing import Any

from app.lessons_tab.text_renderer import TextRenderer
from app.lessons_tab.variables import names
from app.ui.static_page import document
from app.views.safe_json import encode
from engine.trace.events import Round
from engine.trace.trace import Trace
from lessons.schema import Minute

STYLES = ("player/player.css", "lessons/page/lessons.css", "lessons/widgets/widgets.css", "lessons/page/minute.css")
LINES = ("lead", "guess", "check", "keep", "end")
WRONG_LINES = ("wrong", "wrong_end")


def page(minute: Minute, trace: Trace, wrong: Trace, words: Mapping[str, str]) -> dict[str, Any]:
    """Returns the minute as data. The clock of the rounds counts plain steps, by the costs that were measured before
    the run, and is stretched so that the run takes as long as it did by the clock. ``wrong``: the same text with
    guesses that are all wrong; its clock counts by the same costs. ``words``: the glossary."""
    known = names({"run": trace})
    renderer = TextRenderer("minute.toml", known)
    stretch = known["predicted"] / known["measured_speedup"]
    rounds = [_round(one, stretch * at) for one, (at, _) in zip(trace.rounds, known["pace"], strict=True)]
    over, clock = 0.0, []
    for one in wrong.rounds:
        over += known["v"](len(one.parents) + 1)  # the copy itself costs nothing: c = 0
        clock.append(over)
    renderer.known = known | {"wrong": {"speedup": len(wrong.emitted) / over}}
    lines = {name: renderer.line(getattr(minute, name)) for name in LINES + WRONG_LINES}
    wrong_rounds = [_round(one, at) for one, at in zip(wrong.rounds, clock, strict=True)]
    page = {"wrong_rounds": wrong_rounds, "title": minute.title, "prompt": trace.started.prompt_text, "rounds": rounds}
    return lines | page | {"words": renderer.glossary(words)}


def document_of(page: Mapping[str, Any], lessons: str) -> str:
    """Returns the page alone as the text of an HTML file. ``page``: as `page` renders it; ``lessons``: their address,
    for a reader outside a frame. From a frame no line leads to a lesson."""
    title = escape(page["title"])
    body = (
        f'<main id="minute"><section class="sl-minute"><h1>{title}</h1><div></div></section>'
        '<div class="sl-define" role="tooltip" id="sl-define" hidden></div></main>'
        "<noscript><p>This page plays a recorded run with JavaScript, which is switched off here.</p></noscript>"
    )
    lines = {name: [["text", each[1]] if each[0] == "lesson" else each for each in page[name]] for name in LINES}
    values = {"minute": encode({**page, **lines, "lessons": lessons})}
    return document(page["title"], body, STYLES, "offline/minute.js", {"values": values})


def _round(one: Round, at: float) -> dict[str, Any]:
    """Returns a round's drafts with their statuses, the target's own token with its status, if the text had not ended
    before, and the time when the round is over."""
    tokens = [[token.text, token.status] for token in one.tokens]
    drafts, own = tokens[: len(one.parents)], tokens[len(one.parents) :]
    return {"drafts": drafts, "own": own[0] if own else None, "at": at}

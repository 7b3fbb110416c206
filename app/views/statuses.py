"""Hands the table of statuses to the page: as the scripts' data, and as the legend in HTML."""

from app.views.safe_json import encode
from engine.trace.events import FORCED, STATUSES

# A draft passes through these on screen before its status is known.
STAGES = {"waiting": ("?", "draft", "guessed, no verdict yet"), "scored": ("?", "draft, scored", "")}


def table() -> str:
    """JSON: each status or stage by name, with its flags, its mark and the word for it."""
    flags = ("drafted", "tested", "emitted")
    rows = {
        name: {flag: getattr(status, flag) for flag in flags} | {"mark": status.mark, "word": name}
        for name, status in (STATUSES | {"forced": FORCED}).items()
    }
    return encode(rows | {name: {"mark": mark, "word": word} for name, (mark, word, _) in STAGES.items()})


def legend() -> str:
    """Items of an HTML list."""
    rows = {name: row for name, row in STAGES.items() if row[2]}
    rows |= {name: (status.mark, name, status.meaning) for name, status in STATUSES.items()}
    return "".join(
        f'<li class="sl-means-{name}"><span class="sl-token sl-{name}">'
        f'<span class="sl-mark" aria-hidden="true">{mark}</span><span class="sl-piece">{word}</span></span> '
        f'<span class="sl-meaning">{meaning}</span></li>'
        for name, (mark, word, meaning) in rows.items()
    )

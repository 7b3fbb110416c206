"""Renders the legend of the statuses as HTML. Their table for the browser is assets/web/lib/statuses.js."""

from engine.trace.events import SERVER_ONLY, STATUSES

# A draft passes through these on screen before its status is known.
STAGES = {"waiting": ("?", "draft", "guessed, no verdict yet"), "scored": ("?", "draft, scored", "")}


def legend() -> str:
    """Items of an HTML list."""
    rows = {name: row for name, row in STAGES.items() if row[2]}
    rows |= {name: (status.mark, name, status.meaning) for name, status in STATUSES.items() if name not in SERVER_ONLY}
    return "".join(
        f'<li class="sl-means-{name}"><span class="sl-token sl-{name}">'
        f'<span class="sl-mark" aria-hidden="true">{mark}</span><span class="sl-piece">{word}</span></span> '
        f'<span class="sl-meaning">{meaning}</span></li>'
        for name, (mark, word, meaning) in rows.items()
    )

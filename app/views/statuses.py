"""Renders the legend of the statuses as HTML. Their table for the browser is assets/web/lib/statuses.js."""

from engine.trace.events import FORBIDDEN, STATUSES

# A draft passes through these on screen before its status is known.
STAGES = {"waiting": ("?", "draft", "guessed, no verdict yet"), "scored": ("?", "draft, scored", "")}

# Beside the status of a draft that a constraint demanded; a legend of runs with a constraint has it.
GRAMMAR = ("§", "grammar", "a draft from the grammar, which left no other text")

# Drafts of a tree that share a frame.
FRAME = ("", "✗ ✗", "in one frame: several guesses for one place, of which at most one is kept")

# In the recording of a server it takes the place of "rejected".
UNKNOWN = (
    '<li class="sl-means-unknown"><button type="button" class="sl-token sl-rejected" data-unknown>'
    '<span class="sl-mark" aria-hidden="true">✗</span><span class="sl-piece">rejected</span></button> '
    '<span class="sl-meaning">a guess that a server rejected; it does not say which word</span></li>'
)


def legend() -> str:
    """Returns the items of an HTML list. Each mark is a button, because meanings.js also shows its meaning on focus and
    touch."""
    rows = {name: row for name, row in STAGES.items() if row[2]}
    known = STATUSES | {"forbidden": FORBIDDEN}
    rows |= {name: (status.mark, name, status.meaning) for name, status in known.items()}
    rows |= {"grammar": GRAMMAR, "frame": FRAME}
    return "".join(
        f'<li class="sl-means-{name}"><button type="button" class="sl-token sl-{name}">'
        f'<span class="sl-mark" aria-hidden="true">{mark}</span><span class="sl-piece">{word}</span></button> '
        f'<span class="sl-meaning">{meaning}</span></li>{UNKNOWN if name == "rejected" else ""}'
        for name, (mark, word, meaning) in rows.items()
    )

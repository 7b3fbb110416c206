"""Writes the tokens of a trace as CSV that is safe to open in a spreadsheet."""

from collections.abc import Iterator

from app.views.table import csv_text
from engine.trace.events import Round, Token
from engine.trace.trace import Trace

NUMBERS = ("p", "q", "u", "accept", "gap", "running", "h", "threshold")
COLUMNS = (
    "round", "gamma", "position", "depth", "status", "id", "text", *NUMBERS, "removed", "from_grammar", "lane", "exact"
)  # fmt: skip
_BLANK = ("",) * (len(NUMBERS) + 2)


def tokens_csv(trace: Trace) -> str:
    """Writes one row per token, discarded and forbidden ones included; the branch's rows follow. Numbers are written in
    full, absent ones left empty. ``removed``: the share of p that a constraint took; ``from_grammar``: 1 for a draft
    that it demanded."""
    lanes = [("run", trace)] + ([("branch", trace.branch)] if trace.branch else [])
    return csv_text(COLUMNS, ((*row, _exact(lane)) for name, lane in lanes for row in _rows(name, lane)))


def _exact(trace: Trace) -> str:
    if trace.started.server:
        return "unknown"  # whether a server keeps the distribution is not in its recording
    return "lossy" if trace.started.is_lossy else "exact"


def _rows(lane: str, trace: Trace) -> Iterator[tuple]:
    if prefix := trace.started.prefix:
        text = prefix[-1].text or prefix[-1].label or ""
        yield "", "", len(prefix) - 1, "", "forced", prefix[-1].id, text, *_BLANK, lane
    for event in trace.rounds:
        drafts, closing = event.tokens[: len(event.parents)], event.tokens[len(event.parents) :]
        depth = (0, *(token.depth for token in drafts))  # by node
        yield from ((*_row(event, token), lane) for token in drafts)
        for draft in event.forbidden:
            place = draft.position, depth[draft.parent] + 1, "forbidden", draft.id, draft.text
            yield event.index, event.gamma, *place, *_BLANK, lane
        yield from ((*_row(event, token), lane) for token in closing)


def _row(event: Round, token: Token) -> tuple:
    text, numbers = token.text or token.label or "", (getattr(token, name) for name in NUMBERS)
    removed = token.removed and sum(word.mass for word in token.removed.top) + token.removed.rest
    own = removed, int(token.from_grammar)
    return event.index, event.gamma, token.position, token.depth, token.status, token.id, text, *numbers, *own

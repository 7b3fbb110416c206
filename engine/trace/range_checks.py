"""Checks the ranges and references in the parts of a trace, which their types cannot express. All raise BadInput."""

from typing import Any

from engine.config import MAX_NODES
from engine.errors import BadInput, quantity
from engine.trace.costs import CostModel
from engine.trace.events import DRAFTED, EMITTED, SERVER_ONLY, Round, Server, Token

MAX_TOKENS, MAX_TEXT = 200_000, 10_000  # of a run; characters of a token or a note
LARGEST = 2**53  # beyond this a JSON number is no longer the integer that was written


def require(condition: bool, what: str) -> None:
    if not condition:
        raise BadInput(f"This trace is not valid: {what}.")


def check_costs(costs: CostModel) -> None:
    sane = 0 <= costs.c <= 1e6 and 0 <= costs.step <= 1e6 and 0 <= costs.context <= LARGEST
    widths = len(costs.v) > 0 and all(1 <= w <= 4096 and 0 < x <= 1e6 for w, x in costs.v.items())
    paces = all(0.01 <= pace <= 100 for pace in costs.paces.values())
    require(sane and widths and paces and costs.spread >= 0, "its costs are out of range")


def check_server(server: Server) -> None:
    words = (server.engine, server.version, server.model, server.adapter, *server.notes)
    lists = (server.flags, server.notes, server.counters)
    pairs = [part for pair in server.flags.items() for part in pair]
    require(all(len(text) <= 1000 for text in (*words, *pairs, *server.counters)), "its server says too much")
    require(all(len(each) <= 100 for each in lists), "its server says too much")
    counts = (*server.counters.values(), server.hidden_tokens or 0)
    require(all(0 <= n <= LARGEST for n in counts), "a count of its server is out of range")


def check_told(r: Round) -> None:
    """Raises BadInput where a round of our own engine leaves something unknown; only a server may."""
    is_whole = None not in (r.gamma, r.draft_steps, r.context, r.timings)
    own = all(t.id is not None and t.status not in SERVER_ONLY for t in r.tokens)
    require(is_whole and own, f"round {r.index} leaves unknown what only a server's recording may")


def check_round(r: Round, position: int) -> None:
    at, parts = f"round {r.index}", r.timings
    times = ((parts.draft, parts.verify, parts.accept, parts.host) if parts else ()) + (r.start, r.end, r.reading)
    require(all(0 <= t <= 1e7 for t in times) and r.start <= r.end, f"a time in {at} is out of range")
    require(r.row_cost is None or 0 <= r.row_cost <= 1e6, f"a cost in {at} is out of range")
    counts = (n for n in (r.gamma, r.draft_steps, r.context) if n is not None)
    require(all(0 <= n <= LARGEST for n in counts), f"a count in {at} is out of range")
    drafts = [t for t in r.tokens if t.status in DRAFTED]
    closing = r.tokens[len(drafts) :]
    require(list(r.tokens[: len(drafts)]) == drafts and len(closing) <= 1, f"{at} has tokens out of order")
    require(
        len(r.parents) == len(drafts),
        f"{at} has {quantity(len(r.parents), 'parent')} for {quantity(len(drafts), 'draft')}",
    )
    require(len(r.parents) <= MAX_NODES, f"{at} has {len(r.parents)} drafts, over {MAX_NODES}")
    require(all(0 <= p <= i for i, p in enumerate(r.parents)), f"a parent in {at} does not exist")
    depth = [0]
    for parent in r.parents:
        depth.append(depth[parent] + 1)
    require([t.depth for t in drafts] == depth[1:], f"{at} has drafts at the wrong depth")
    for token in r.tokens:
        _check_token(token, at)
    _check_forbidden(r, at)
    placed = [t.position for t in r.tokens if t.status in EMITTED]
    require(placed == list(range(position, position + len(placed))), f"{at} has tokens at the wrong position")


def _check_forbidden(r: Round, at: str) -> None:
    require(len(r.parents) + len(r.forbidden) <= MAX_NODES, f"{at} has over {MAX_NODES} drafts")
    for draft in r.forbidden:
        known = 0 <= draft.parent <= len(r.parents) and 0 <= draft.id <= LARGEST
        known = known and 0 <= draft.position <= MAX_TOKENS and len(draft.text) <= MAX_TEXT
        require(known, f"a forbidden draft of {at} is out of range")


def _check_token(token: Token, at: str) -> None:
    require(token.id is not None or bool(token.text or token.label), f"a token of {at} is empty")
    known = 0 <= (token.id or 0) <= LARGEST and 0 <= token.depth <= 4096 and 0 <= (token.gap or 0) <= 1e6
    known = known and 0 <= token.position <= MAX_TOKENS and len(token.text) <= MAX_TEXT
    require(known, f"a token of {at} is out of range")
    shares = (token.p, token.q, token.u, token.accept, token.running, token.h, token.expected)
    require(all(x is None or 0 <= x <= 1.0001 for x in shares), f"a probability in {at} is not between 0 and 1")
    for distribution in (token.p_top, token.q_top, token.residual, token.removed):
        if distribution:
            masses = [c.mass for c in distribution.top] + [distribution.rest]
            sane = len(masses) <= 1001 and all(0 <= m <= 1.0001 for m in masses)
            require(sane, f"a distribution in {at} is no distribution")
            require(all(0 <= c.id <= LARGEST for c in distribution.top), f"a token of {at} is out of range")


def check_json(value: Any, depth: int = 0) -> None:
    """Checks settings only in size, depth and numbers, because they have no fixed form; a seed may use 63 bits."""
    require(depth < 8, "its settings are nested too deeply")
    if isinstance(value, dict | list | tuple):
        require(len(value) <= 1000, "its settings are too large")
        for inner in value.values() if isinstance(value, dict) else value:
            check_json(inner, depth + 1)
    elif isinstance(value, int | float):
        require(abs(value) < (2**63 if isinstance(value, int) else 1e300), "a setting is out of range")

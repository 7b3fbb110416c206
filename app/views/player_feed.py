"""Renders a run as NDJSON for the stage: a line about the run, one per round, one for its end, its numbers, a status.

Each value repeats the last 8 updates, because a busy browser may drop all but the last of several values; the page
passes over rounds that it has. Old rounds are cut off, because a long value costs the browser more at every update.
"""

import uuid
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from app.views import run_facts, servers, tiles
from app.views.figures import TITLES
from app.views.notice import Kind, fields
from app.views.safe_json import encode, short
from app.views.trees import branches
from engine.config import ACCEPTANCE, AUTO, LOSSY, METHODS, method_of
from engine.errors import quantity
from engine.trace.events import ACCEPTED, TESTED, Distribution, Round, RunFinished, RunStarted, Token
from engine.trace.metrics import compute_metrics, equal_to_the_bit, first_divergence
from engine.trace.noise import monotone_costs
from engine.trace.trace import Trace

SEGMENT = 24_000  # characters; a longer value is cut at its old end
OVERLAP = 8  # updates that a value repeats at least: more than a second's worth
LONGEST = 120_000  # characters; a value that would be longer repeats fewer updates
LEAN = 10_000  # a trace of more tokens is sent without its distributions, which make up nearly all of its size
PROMPT = 300  # characters of it that are shown beside the output
WHY = "In each round auto takes the drafter that promises the most tokens for its time, from what it got so far."


class Feed:
    """The values sent during one run. ``add`` gives the next: it grows at its end, and is cut now and then. ``run`` is
    None for a branch of the run on the stage, which its values leave there."""

    def __init__(self, run: str | None):
        self.run, self.segment, self._at = run, 0, "" if run else uuid.uuid4().hex
        self._parts: deque[str] = deque()
        self._value = self._head()

    def add(self, text: str) -> str:
        """Adds ``text``, lines that are new, and returns the value to send."""
        self._parts.append(text)
        self._value += text
        if (len(self._value) > SEGMENT and len(self._parts) > OVERLAP) or len(self._value) > LONGEST:
            self._cut()
        return self._value

    def _cut(self) -> None:
        self.segment += 1
        size = len(self._head()) + sum(map(len, self._parts))
        while len(self._parts) > 1 and (len(self._parts) > OVERLAP or size > LONGEST):
            size -= len(self._parts.popleft())
        self._value = self._head() + "".join(self._parts)

    def _head(self) -> str:
        return start(self.run, self.segment, self._at)


def start(run: str | None, segment: int = 0, at: str = "") -> str:
    """Returns the first line of a value. ``run`` tells the page whether this is a new run or more of the same; without
    one, ``at`` tells it from the value before."""
    return encode({"type": "start", "run": run, "segment": segment} | ({"at": at} if at else {})) + "\n"


def status(kind: Kind, text: str = "", fraction: float | None = None, place: int | None = None) -> str:
    """Returns the one sentence of the stage. ``place``: the number of runs ahead, for the engine's status."""
    return encode({"type": "status"} | fields(kind, text, fraction, place)) + "\n"


def say(kind: Kind, text: str = "", fraction: float | None = None, place: int | None = None) -> str:
    """Returns a value that changes the sentence alone and leaves the run on the stage."""
    return start(None, 0, uuid.uuid4().hex) + status(kind, text, fraction, place)


def about_line(
    started: RunStarted, recorded: bool = False, lean: bool = False, origin: str = "", source: str = ""
) -> str:
    """Returns the line about a run. ``origin``: device and time of a run that was opened from a file. ``source``: the
    words of its badge, where they are not the page's own."""
    line: dict[str, Any] = {
        "type": "about",
        "greedy": started.is_greedy,
        "words": _words(started),
        "recorded": recorded,
    }
    prompt = " ".join(started.prompt_text.split())
    if len(prompt) > PROMPT:
        prompt = prompt[:PROMPT].rstrip() + "…"
    line |= {"temperature": short(started.temperature), "costs": _costs(started)}
    if started.max_new_tokens is not None:
        line["most"] = started.max_new_tokens
    if ACCEPTANCE[started.acceptance].is_joint:
        line["block"] = True
    if started.constraint:
        line["constraint"] = run_facts.constraint_title(started)
    if started.is_lossy:
        line["lossy"] = LOSSY[0].upper() + LOSSY[1:] + "."
    line |= _drafted_by(started) | ({"exit": started.exit_layers} if started.exit_layers else {})
    more: dict[str, Any] = ({"lean": True} if lean else {}) | ({"origin": origin} if origin else {})
    more |= {"source": source} if source else {}
    if started.server:
        more |= {"source": servers.title(started.server), "server": servers.inspector_sentences(started.server)}
        more["counted"] = started.server.has_counts
    if started.prefix:
        more["prefix"] = _prefix(started)
    return encode(line | {"prompt": prompt} | more) + "\n"


def _costs(started: RunStarted) -> dict | None:
    """Returns c and v, to predict with; ``once``: c is paid once a round. None where they were not measured, where
    several drafters took turns, each with its own c, or where a pass scores more than the drafts."""
    method = method_of(started.method)
    if started.costs is None or any(started.costs.draft_costs.values()) or method.is_window:
        return None
    costs = monotone_costs(started.costs)
    v = {str(width): short(cost) for width, cost in sorted(costs.v.items())}
    return {"c": short(costs.c), "v": v, "once": method.drafts_at_once}


def _drafted_by(started: RunStarted) -> dict:
    """Returns the method and its own settings, in which its rounds are explained."""
    known: dict[str, Any] = {"method": started.method} if started.method in METHODS else {}
    if started.method == AUTO:
        rivals = {name: method for name, method in METHODS.items() if method.competes and name != "none"}
        known["drafters"] = {name: f"{method.title}: {method.description}" for name, method in rivals.items()}
    own = {setting.trace_key: value for setting, value in started.method_settings}
    return known | ({"settings": own} if own else {})


def complete(run: str, trace: Trace, recorded: bool = False, origin: str = "", source: str = "") -> str:
    """Returns a trace in one value: for a recorded run, or for a page that missed rounds."""
    lean = sum(len(event.tokens) for event in trace.rounds) > LEAN
    text = start(run, -1) + about_line(trace.started, recorded, lean, origin, source) + rounds(trace.rounds, lean)
    text += finish(trace.finished, len(trace.emitted)) if trace.finished else end("lost", len(trace.emitted))
    return text + (branch(trace.branch, lean) if trace.branch else "")


def branch(trace: Trace, lean: bool = False) -> str:
    """Returns the second lane, complete."""
    reason = trace.finished.reason if trace.finished else "lost"
    lines = branch_start(trace.started, uuid.uuid4().hex) + branch_rounds(trace.rounds, lean)
    return lines + branch_end(reason)


def branch_start(started: RunStarted, key: str) -> str:
    """Begins the second lane; ``key`` tells it from the branch before."""
    return encode({"type": "branch", "key": key} | _prefix(started)) + "\n"


def branch_rounds(events: tuple[Round, ...], lean: bool = False) -> str:
    return "".join(encode(round_line(event, lean) | {"type": "branch_round"}) + "\n" for event in events)


def branch_end(reason: str) -> str:
    return encode({"type": "branch_finish", "reason": reason}) + "\n"


def no_branch() -> str:
    """Takes the second lane away."""
    return encode({"type": "branch", "key": ""}) + "\n"


def _prefix(started: RunStarted) -> dict:
    """Returns the tokens that the output begins with: their text, and the forced one after them."""
    *before, forced = started.prefix
    line = {"id": forced.id, "text": forced.text} | ({"label": forced.label} if forced.label is not None else {})
    return {"text": "".join(token.text for token in before), "place": len(before), "forced": line}


def replay(run: str, trace: Trace, baseline: Trace | None, source: str = "") -> str:
    """Returns a run from a file, with its numbers."""
    text = complete(run, trace, recorded=True, origin=run_facts.origin(trace), source=source)
    return text + numbers(trace, baseline, recorded=True)


def numbers(run: Trace, baseline: Trace | None, **how) -> str:
    """Returns the numbers, and compares the two texts where both runs are complete. ``how``: see tiles.tiles."""
    is_complete = tiles.speedup(run, baseline) is not None
    return (
        tiles.tiles(run, baseline, **how)
        + "\n"
        + choice_line(run)
        + (comparison_line(run, baseline) if is_complete else "")
    )


def rounds(events: tuple[Round, ...], lean: bool = False) -> str:
    return "".join(encode(round_line(event, lean)) + "\n" for event in events)


def finish(finished: RunFinished, tokens: int) -> str:
    return end(finished.reason, tokens, finished.notes)


def end(reason: str, tokens: int, notes: Sequence[str] = ()) -> str:
    """Returns the line about a run's end. ``notes``: sentences learnt during the run, such as on unfinished JSON."""
    line = {"type": "finish", "reason": reason, "tokens": tokens}
    return encode(line | ({"notes": " ".join(notes)} if notes else {})) + "\n"


def choice_line(run: Trace) -> str:
    """Names what ran, with the drafters that auto chose; empty for one method."""
    rounds = [(TITLES.get(method, method), count) for method, count in compute_metrics(run).drafters.items()]
    if not rounds:
        return ""
    rounds.append(("no draft", sum(not event.parents for event in run.rounds)))
    drafting = ", ".join(f"{name} in {count}" for name, count in rounds if count)
    words = {"words": _words(run.started, f"auto: {drafting} of {quantity(len(run.rounds), 'round')}"), "why": WHY}
    return encode({"type": "chosen"} | words) + "\n"


def comparison_line(run: Trace, baseline: Trace) -> str:
    """Compares the texts of a run and its baseline. At temperature 0 they must be equal; above, they differ."""
    line: dict = {"type": "compared", "verdict": "same"}
    divergence = first_divergence(run, baseline)
    if not run.started.is_greedy:
        line["verdict"] = "sampled"
    elif divergence:
        line |= {"verdict": "differs", "at": divergence.position, "gap": short(divergence.gap)}
    elif equal_to_the_bit(run, baseline):
        line["verdict"] = "same bits"
    return encode(line) + "\n"


def end_line() -> str:
    """Returns the last line: nothing more will come, so a page that misses rounds may ask for the complete run."""
    return encode({"type": "over"}) + "\n"


def _words(started: RunStarted, drafting: str = "") -> str:
    """Returns the line above the player: pair, drafting, temperature, device."""
    temperature, where = f"temperature {started.temperature:g}", f"on {started.device.split(' ')[0]}"
    if started.server:
        return f"{started.pair} · {temperature}"
    sizes = run_facts.word_settings(started.method_settings)
    held = run_facts.constraint_title(started)
    parts = [started.pair, drafting or _drafting(started), sizes, held, _rule(started), temperature, where]
    return " · ".join(part for part in parts if part)


def _rule(started: RunStarted) -> str:
    """Names the acceptance rule unless it decides token by token."""
    if started.acceptance == "token":
        return ""
    own = run_facts.word_settings(started.rule_settings)
    return ", ".join(filter(None, [ACCEPTANCE[started.acceptance].title, own]))


def _drafting(started: RunStarted) -> str:
    title, gamma = TITLES.get(started.method, started.method), started.gamma
    if started.method == "none" or gamma is None:
        return title
    return f"{title}, γ {gamma}" if gamma == AUTO else f"{title}, γ = {gamma}"


def round_line(event: Round, lean: bool) -> dict:
    tested = sum(token.status in TESTED for token in event.tokens)
    rejected = next((token for token in reversed(event.tokens) if token.status == "rejected"), None)
    return (
        {
            "type": "round",
            "index": event.index,
            "accepted": sum(token.status in ACCEPTED for token in event.tokens),
            "tested": tested,
            "drafted": len(event.parents),
            "start": round(event.start, 5),
            "end": round(event.end, 5),
            "tokens": [_token(token, rejected, lean) for token in event.tokens],
        }
        | ({"parents": event.parents} if branches(event) else {})
        | ({"forbidden": [*map(asdict, event.forbidden)]} if event.forbidden else {})
        | ({"row": short(event.row_cost)} if event.row_cost is not None else {})
        | ({"by": TITLES[event.drafter], "method": event.drafter} if event.drafter in TITLES else {})
        | ({"counted": event.gamma is not None} if event.timings is None else {})  # a server's, with or without counts
    )


def _token(token: Token, rejected: Token | None, lean: bool) -> dict:
    """Leaves out fields without a value, and distributions that repeat another token's."""
    line = {"text": token.text, "status": token.status, "position": token.position, "id": token.id}
    if token.label is not None:
        line["label"] = token.label
    for name in ("p", "q", "u", "accept", "gap", "running", "h", "expected", "threshold"):
        number = short(getattr(token, name))
        if number is not None:
            line[name] = number
    if _after_a_sibling(token):
        line["sibling"] = True
    if token.from_grammar:
        line["grammar"] = True
    for name in () if lean else ("p_top", "q_top", "residual", "removed"):
        distribution = getattr(token, name)
        # A resampled token has the distributions of the rejected draft that it replaces.
        repeated = token.status == "resampled" and rejected and getattr(rejected, name) == distribution
        if distribution and not repeated:
            line[name] = _distribution(distribution)
    return line


def _after_a_sibling(token: Token) -> bool:
    """Returns whether p had been reduced by a rejected sibling in a tree before this draft was tried, so that accept
    is not min(1, p/q)."""
    if token.p is None or token.accept is None or not token.q:
        return False
    return abs(min(1.0, token.p / token.q) - token.accept) > 1e-3


def _distribution(distribution: Distribution) -> dict:
    top = [[c.id, c.text, float(f"{c.mass:.4g}")] for c in distribution.top]
    return {"top": top, "rest": float(f"{distribution.rest:.4g}")}

"""The token ribbon as NDJSON: a line for the start, one per round, one for the end. Append-only while a run lasts."""

from app.views.encode import encode, short
from engine.events import TESTED, Round, RunFinished, RunStarted, Token
from engine.statistics import first_divergence
from engine.trace import Trace


def start(run: str, started: RunStarted | None = None) -> str:
    """``run`` names the run, so that the page knows a new one from more of the same."""
    line = {"type": "start", "run": run}
    if started:
        line |= {"device": started.device, "dtype": started.dtype, "greedy": _greedy(started)}
    return encode(line) + "\n"


def rounds(events: tuple[Round, ...]) -> str:
    return "".join(encode(_round(event)) + "\n" for event in events)


def finish(finished: RunFinished, tokens: int) -> str:
    return encode({"type": "finish", "reason": finished.reason, "tokens": tokens}) + "\n"


def compared(run: Trace, baseline: Trace) -> str:
    """Did drafting change the text? At temperature 0 it must not; above, the two are different samples."""
    line: dict = {"type": "compared", "verdict": "same"}
    parted = first_divergence(run, baseline)
    if not _greedy(run.started):
        line["verdict"] = "sampled"
    elif parted:
        line |= {"verdict": "differs", "at": parted.position, "gap": short(parted.gap)}
    return encode(line) + "\n"


def _greedy(started: RunStarted) -> bool:
    return not started.config.get("sampling", {}).get("temperature", 0)


def _round(event: Round) -> dict:
    tested = sum(token.status in TESTED for token in event.tokens)
    kept = sum(token.status == "accepted" for token in event.tokens)
    return {
        "type": "round",
        "index": event.index,
        "kept": kept,
        "tested": tested,
        "drafted": len(event.parents),
        "ms": round(event.timings.total * 1000, 1),
        "tokens": [_token(token) for token in event.tokens],
    }


def _token(token: Token) -> dict:
    """Absent fields are left out: with tracing off, or for tokens nobody drafted."""
    line = {"text": token.text, "status": token.status, "position": token.position, "id": token.id}
    if token.label is not None:
        line["label"] = token.label
    for name in ("p", "q", "u", "accept"):
        number = short(getattr(token, name))
        if number is not None:
            line[name] = number
    return line

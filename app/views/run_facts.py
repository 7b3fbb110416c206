"""Describes a recorded run in words: models, settings and machine.

A trace file is untrusted: its settings can be any JSON, so every value is cut to a length that a page can show.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from engine.config import ACCEPTANCE, LOSSY, Setting, method_of
from engine.constraint import CONSTRAINTS
from engine.errors import quantity
from engine.trace.events import RunStarted, Server
from engine.trace.trace import Trace

SAME_BITS = "checked at load: however a chain is divided into passes, a token's scores keep the same bits"
LONGEST = 300  # characters of one value
# setting → its name on the page (none: the title of the run's rule or method), and the value that means "off", which is
# left out
SETTINGS = {
    "method": ("Method", None),
    "gamma": ("Draft length γ", None),
    "temperature": ("Temperature", None),
    "top_k": ("top-k", 0),
    "top_p": ("top-p", 1),
    "min_p": ("min-p", 0),
    "repetition_penalty": ("Repetition penalty", 1),
    "acceptance": ("Acceptance rule", "token"),
    "rule_settings": ("", ""),
    "lossy": ("Lossy", None),
    "method_settings": ("", ""),
    "held_to": ("Constraint", ""),
    "seed": ("Seed", None),
    "max_new_tokens": ("Most tokens", None),
    "chat": ("Chat template", None),
    "thinking": ("Thinking", None),
    "system": ("System prompt", ""),
    "stop": ("Stop texts", []),
}


def facts(run: Trace) -> list[list[str]]:
    """Lists everything that the trace tells, without the prompt, as [name, value] pairs."""
    started = run.started
    weights = [f"{name} {digest[:12]}" for name, digest in sorted(started.weights.items()) if digest]
    versions = [f"{name} {version}" for name, version in started.versions.items()]
    lines = [
        ("Recorded", when(started.at)),
        ("Models", started.pair),
        ("Revision", started.revision),
        ("Weights (SHA-256)", ", ".join(weights)),
    ]
    lines += _server(started.server) if started.server else []
    lines += [line for line in _settings(started) if not (started.server and line[0] == "Method")]
    lines += [
        ("Translation", started.translated.words if started.translated else ""),
        ("Early exit", "after {} of {} layers".format(*started.exit_layers) if started.exit_layers else ""),
        ("Prompt", run.prompt_words if started.prompt else ""),
        ("Bits", SAME_BITS if started.same_bits else ""),
        ("Note", " ".join(run.notes)),
        ("Forced", _forced_token(run)),
        ("Shared with", quantity(run.others, "other run") if run.others else ""),
        ("Engine", _engine(run)),
    ]
    lines += [
        ("Device", started.device),
        ("Precision", started.dtype),
        ("Draft's precision", started.draft_dtype),
        ("Versions", ", ".join(versions)),
    ]
    return [[name, _short(value)] for name, value in lines if value]


def _server(server: Server) -> list[tuple[str, str]]:
    """Lists what a server said about itself, and what it left open."""
    flags = ", ".join(f"{name} {value}" for name, value in server.flags.items())
    counts = ", ".join(f"{count} {name}" for name, count in server.counters.items())
    notes = [("Note", note) for note in server.notes[:10]]
    return [
        ("Server", server.title),
        ("Read as", server.adapter),
        ("Its settings", flags),
        ("Its own counts", counts),
        *notes,
    ]


def _forced_token(run: Trace) -> str:
    """Names the token that was forced, here or in this run's branch; empty without one."""
    prefix = (run.branch or run).started.prefix
    if not prefix:
        return ""
    return f"{prefix[-1].text or prefix[-1].label or ''!r} at place {len(prefix)}" + (
        ", beside this run" if run.branch else ""
    )


def _engine(run: Trace) -> str:
    """Names the replica of a cluster that ran it, and the time of the way there and back; empty without a cluster."""
    extra = run.finished.extra if run.finished else {}
    replica, seconds = extra.get("replica"), extra.get("network_seconds")
    if not isinstance(replica, str):
        return ""
    return replica + (f", {1000 * seconds:.0f} ms away" if isinstance(seconds, int | float) else "")


def origin(run: Trace) -> str:
    """Words the origin of an opened run in one line: date, device, precision, versions."""
    started = run.started
    versions = ", ".join(f"{name} {version}" for name, version in list(started.versions.items())[:3])
    revision = f"revision {started.revision[:12]}" if started.revision else ""
    parts = [when(started.at) or "date unknown", started.device, started.dtype, revision, versions]
    return " · ".join(_short(part, 80) for part in parts if part)


def when(at: str) -> str:
    """Words an ISO 8601 moment to the minute, in UTC; empty for any other text.

    >>> when("2026-11-21T10:43:34+00:00")
    '2026-11-21 10:43 UTC'
    """
    try:
        moment = datetime.fromisoformat(at)
        moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return ""
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def _settings(started: RunStarted) -> list[tuple[str, str]]:
    sampling = started.config.get("sampling")
    titles = {"rule_settings": ACCEPTANCE[started.acceptance].title, "method_settings": method_of(started.method).title}
    more = {name: word_settings(getattr(started, name)) for name in titles} | {"held_to": _constraint(started)}
    more |= {"lossy": LOSSY} if started.is_lossy else {}
    known = started.config | more | (sampling if isinstance(sampling, dict) else {})
    return [
        (label or titles[key].capitalize(), _words(known[key]))
        for key, (label, off) in SETTINGS.items()
        if known.get(key, off) not in (None, off)
    ]


def word_settings(settings: Iterable[tuple[Setting, Any]]) -> str:
    """Names each of the ``settings`` with its value, by the letter that its label ends with, if it does."""
    ends = ((setting.label, setting.label.split()[-1], value) for setting, value in settings)
    return ", ".join(f"{end if len(end) == 1 else label} {_words(value)}" for label, end, value in ends)


def constraint_title(started: RunStarted) -> str:
    """Names the kind of constraint that a run was held to; empty without one."""
    constraint = started.constraint
    if not constraint:
        return ""
    compact = ", compact" if constraint.get("compact") is True else ""
    return CONSTRAINTS.get(str(constraint.get("kind")), "constraint of an unknown kind") + compact


def _constraint(started: RunStarted) -> str:
    title, text = constraint_title(started), started.constraint.get("text")
    return title and f"{title}: {' '.join(str(text).split())}"


def _words(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _short(text: str, limit: int = LONGEST) -> str:
    return text if len(text) <= limit else text[:limit] + "…"

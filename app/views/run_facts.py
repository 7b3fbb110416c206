"""Describes a recorded run in words: models, settings and machine.

A trace file is untrusted: its settings can be any JSON, so every value is cut to a length that a page can show.
"""

from datetime import UTC, datetime
from typing import Any

from engine.config import LOSSY, is_lossy
from engine.trace.trace import Trace

LONGEST = 300  # characters of one value
# setting → its name on the page, and the value that means "off", which is left out
SETTINGS = {
    "method": ("Method", None),
    "gamma": ("Draft length γ", None),
    "temperature": ("Temperature", None),
    "top_k": ("top-k", 0),
    "top_p": ("top-p", 1),
    "min_p": ("min-p", 0),
    "repetition_penalty": ("Repetition penalty", 1),
    "acceptance": ("Acceptance rule", "token"),
    "lossy": ("Lossy", None),
    "seed": ("Seed", None),
    "max_new_tokens": ("Most tokens", None),
    "chat": ("Chat template", None),
    "thinking": ("Thinking", None),
    "system": ("System prompt", ""),
    "stop": ("Stop texts", []),
}


def facts(run: Trace) -> list[list[str]]:
    """[name, value] pairs of everything the trace tells, without the prompt."""
    started = run.started
    weights = [f"{name} {digest[:12]}" for name, digest in sorted(started.weights.items()) if digest]
    versions = [f"{name} {version}" for name, version in started.versions.items()]
    lines = [
        ("Recorded", when(started.at)),
        ("Models", started.pair),
        ("Revision", started.revision),
        ("Weights (SHA-256)", ", ".join(weights)),
    ]
    lines += _settings(started.config)
    lines += [("Forced", _forced(run))]
    lines += [("Device", started.device), ("Precision", started.dtype), ("Versions", ", ".join(versions))]
    return [[name, _short(value)] for name, value in lines if value]


def _forced(run: Trace) -> str:
    """The token that was forced, here or in the branch beside; empty without one."""
    prefix = (run.branch or run).started.prefix
    if not prefix:
        return ""
    return f"{prefix[-1].text or prefix[-1].label or ''!r} at place {len(prefix)}" + (
        ", beside this run" if run.branch else ""
    )


def origin(run: Trace) -> str:
    """The origin of an opened run in one line: date, device, precision, versions."""
    started = run.started
    versions = ", ".join(f"{name} {version}" for name, version in list(started.versions.items())[:3])
    revision = f"revision {started.revision[:12]}" if started.revision else ""
    parts = [when(started.at) or "date unknown", started.device, started.dtype, revision, versions]
    return " · ".join(_short(part, 80) for part in parts if part)


def when(at: str) -> str:
    """An ISO 8601 moment to the minute, in UTC; empty for any other text.

    >>> when("2026-11-21T10:43:34+00:00")
    '2026-11-21 10:43 UTC'
    """
    try:
        moment = datetime.fromisoformat(at)
        moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return ""
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def prompt(run: Trace) -> str:
    return str(run.started.config.get("prompt", ""))


def _settings(config: dict) -> list[tuple[str, str]]:
    sampling = config.get("sampling")
    lossy = {"lossy": LOSSY} if is_lossy(config.get("acceptance")) else {}
    known = config | lossy | (sampling if isinstance(sampling, dict) else {})
    return [
        (label, _words(known[key])) for key, (label, off) in SETTINGS.items() if known.get(key, off) not in (None, off)
    ]


def _words(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _short(text: str, most: int = LONGEST) -> str:
    return text if len(text) <= most else text[:most] + "…"

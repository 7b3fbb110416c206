"""Describes a recorded run in words: models, settings and machine.

A trace file is untrusted: its settings can be any JSON, so every value is cut to a length that a page can show.
"""

from datetime import UTC, datetime
from typing import Any

from engine.config import LOSSY, is_lossy
from engine.trace.trace import Trace

SAME_BITS = "checked at load: however a chain is divided into passes, a token's scores keep the same bits"
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
    "typical": ("Typical acceptance", ""),
    "lossy": ("Lossy", None),
    "sizes": ("Lookahead", ""),
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
    lines += [
        ("Translation", started.translated.words if started.translated else ""),
        ("Early exit", "after {} of {} layers".format(*started.exit_layers) if started.exit_layers else ""),
        ("Bits", SAME_BITS if started.same_bits else ""),
        ("Note", " ".join(run.notes)),
        ("Forced", _forced(run)),
        ("Shared with", f"{run.others} other runs" if run.others else ""),
        ("Engine", _engine(run)),
    ]
    lines += [
        ("Device", started.device),
        ("Precision", started.dtype),
        ("Draft's precision", started.draft_dtype),
        ("Versions", ", ".join(versions)),
    ]
    return [[name, _short(value)] for name, value in lines if value]


def _forced(run: Trace) -> str:
    """The token that was forced, here or in the branch beside; empty without one."""
    prefix = (run.branch or run).started.prefix
    if not prefix:
        return ""
    return f"{prefix[-1].text or prefix[-1].label or ''!r} at place {len(prefix)}" + (
        ", beside this run" if run.branch else ""
    )


def _engine(run: Trace) -> str:
    """The replica of a cluster that ran it, and the time of the way there and back; empty without a cluster."""
    extra = run.finished.extra if run.finished else {}
    replica, seconds = extra.get("replica"), extra.get("network_seconds")
    if not isinstance(replica, str):
        return ""
    return replica + (f", {1000 * seconds:.0f} ms away" if isinstance(seconds, int | float) else "")


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
    more = {"typical": typical_numbers(config), "sizes": lookahead_sizes(config)}
    more |= {"lossy": LOSSY} if is_lossy(config) else {}
    known = config | more | (sampling if isinstance(sampling, dict) else {})
    return [
        (label, _words(known[key])) for key, (label, off) in SETTINGS.items() if known.get(key, off) not in (None, off)
    ]


def typical_numbers(config: dict) -> str:
    """ε and δ of a run with typical acceptance; empty for another rule."""
    return _named({"ε": "epsilon", "δ": "delta"}, config) if config.get("acceptance") == "typical" else ""


def lookahead_sizes(config: dict) -> str:
    """W, N and G of a run with lookahead; empty for another method."""
    sizes = config.get("lookahead")
    is_known = config.get("method") == "lookahead" and isinstance(sizes, dict)
    return _named({"W": "window", "N": "ngram", "G": "guesses"}, sizes) if is_known else ""


def _named(fields: dict[str, str], values: dict) -> str:
    numbers = {sign: values.get(field) for sign, field in fields.items()}
    return ", ".join(f"{sign} {value:g}" for sign, value in numbers.items() if isinstance(value, int | float))


def _words(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _short(text: str, most: int = LONGEST) -> str:
    return text if len(text) <= most else text[:most] + "…"

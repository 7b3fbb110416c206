"""Identifies visitors, and holds the result that one of them looks at."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.trace.trace import Trace


@dataclass(frozen=True)
class Session:
    """``trace`` is the run on screen, partial if it was stopped; ``baseline`` is its plain run; ``repeats`` is as
    in a `RecordedRun`; ``forced`` is the place and the token that were forced in the run of a branch that was kept;
    ``is_recorded``: the run was measured earlier, not by this visitor.
    Frozen, kept in gr.State, and never shared between visitors."""

    trace: Trace | None = None
    baseline: Trace | None = None
    repeats: Mapping[str, Any] = field(default_factory=dict)
    forced: tuple[int, int] | None = None
    is_recorded: bool = False


def visitor_id(request) -> str:
    """Returns a name for one open page or connected client. ``request`` is gradio's, or None in a test."""
    return getattr(request, "session_hash", None) or "anonymous"


def visitor_address(request) -> str | None:
    """Returns the address that a request over HTTP comes from; None for a page, which has one run at a time."""
    return getattr(request, "address", None)


def lab_visitor_id(request) -> str:
    """Returns the visitor's name in the lab, which differs so that a run in the playground and an experiment do not
    replace each other."""
    return f"{visitor_id(request)}/lab"

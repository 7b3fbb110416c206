"""What one visitor is looking at. Frozen, kept in gr.State, never shared between visitors."""

from dataclasses import dataclass

from engine.trace import Trace


@dataclass(frozen=True)
class Session:
    """``trace`` is the run on screen, partial if it was stopped; ``baseline`` the plain run measured beside it."""

    trace: Trace | None = None
    baseline: Trace | None = None


def visitor(request) -> str:
    """Who is asking: one page opened, or one client connected. ``request`` is gradio's, or None in a test."""
    return getattr(request, "session_hash", None) or "nobody"


def experimenter(request) -> str:
    """The same visitor in the lab: a run in the playground and an experiment do not replace each other."""
    return f"{visitor(request)}/lab"

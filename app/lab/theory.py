"""Tells the theory tab of the visitor's last run; until there is one, the recorded run stands in. Thin."""

from functools import cache

from app.opening import recorded
from app.session import Session
from app.views.lab_theory import point

_recorded = cache(recorded)


def compared(session: Session) -> str:
    """The value of components.theory."""
    if session.trace is not None and session.trace.rounds:
        return point(session.trace, session.baseline, own=True)
    return point(*_recorded(), own=False)

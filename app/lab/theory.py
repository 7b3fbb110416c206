"""Tells the theory tab of the visitor's last run; until there is one, the recorded run stands in. Thin."""

from functools import cache

from app.opening import OPENING
from app.session import Session
from app.views.lab_theory import point
from engine.errors import BadInput
from engine.trace import Trace, load


def compared(session: Session) -> str:
    """The value of components.theory."""
    if session.trace is not None and session.trace.rounds:
        return point(session.trace, session.baseline, own=True)
    return point(_recorded(), None, own=False)


@cache
def _recorded() -> Trace | None:
    """Without a readable recording the curves stand alone."""
    try:
        return load(OPENING)
    except BadInput:
        return None

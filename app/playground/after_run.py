"""Shows all that follows a run, a branch or an opened file in one event: its charts, files, recipes, costs and address.

It is one event because each event of Gradio is a round trip, and a classroom presses Run at once.
"""

from collections.abc import Callable
from typing import Any

from app.form import NAMES
from app.jobs.service import Service
from app.jobs.visitor import Session
from app.playground.constraint_note import constraint_note
from app.playground.link_handlers import LinkHandlers
from app.playground.pair_handlers import PairHandlers, PairOptions
from app.playground.result_handlers import CHOICES, Results, ResultValues
from app.ui.widgets import SKIP


class AfterRun:
    """``OUTPUTS``: how many ``show`` returns: the results below the stage, the recipes, the options of the pair with
    the costs that a run has measured, the note on the constraint, and the share dialog with the address."""

    OUTPUTS = len(ResultValues._fields) + 1 + len(PairOptions._fields) + 2

    def __init__(self, service: Service, results: Results, links: LinkHandlers):
        self.results, self.links, self.pairs = results, links, PairHandlers(service)

    def show(self, session: Session, *values: Any) -> list:
        """Returns every output that follows a run. ``values``: one for each control, in the order of form.NAMES."""
        form = dict(zip(NAMES, values, strict=True))
        return [
            *self.results.show(session),
            self.results.configure(*(form[name] for name in CHOICES), session),
            *self.pairs.select(form["pair"], form["method"]),
            constraint_note(self.links.service, *values),
            self.links.branch_address(session, *values),
        ]

    def show_file(self, session: Session, *values: Any) -> list:
        """Returns what follows an opened file. It has no address, because a reload could not bring the file back."""
        return self.show(session, *values)[:-1]

    def following(self, change: Callable, *inputs: Any) -> list:
        """Returns what ``change`` returns, of which the last is the session, and what follows a new session; without
        one, only why the constraint may have been refused. ``inputs``: for ``change``, then one for each control."""
        own, values = inputs[: -len(NAMES)], inputs[-len(NAMES) :]
        changed = list(change(*own))
        is_new = changed[-1] is not SKIP
        if is_new:
            return [*changed, *self.show(changed[-1], *values)]
        return [*changed, *[SKIP] * (self.OUTPUTS - 2), constraint_note(self.links.service, *values), SKIP]

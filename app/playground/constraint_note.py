"""Says beside a constraint's controls why it cannot be used, in the engine's own sentence."""

from typing import Any

from app.form import CONSTRAINT_CONTROLS, FREE, NAMES, settings
from app.jobs.service import Service
from app.views.notice import about_pair
from engine.errors import EngineError

_READ = ("pair", "tokens", *CONSTRAINT_CONTROLS)  # no other control matters to it


def constraint_note(service: Service, *values: Any) -> str:
    """Returns the note, which is empty for a constraint that can be used, as far as that is known before a run.
    ``values``: one for each control, in the order of form.NAMES."""
    form = dict(zip(NAMES, values, strict=True))
    problem = ""
    try:
        if form["constraint"] != FREE:
            problem = service.engine.constraint_problem(settings({name: form[name] for name in _READ}))
    except EngineError as error:
        problem = str(error)
    return about_pair("", "error" if problem else "quiet", problem)

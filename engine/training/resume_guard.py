"""Refuses to resume a stage with other settings than those it was started with."""

import json
from pathlib import Path

from engine.errors import BadInput
from engine.files import disk_errors, write_atomically


def check_same_settings(note: Path, settings: dict, is_started: bool) -> None:
    """Writes ``settings`` to ``note`` for a new stage; raises BadInput if ``is_started`` with other settings."""
    try:
        stored = json.loads(note.read_text(encoding="utf-8"))
    except FileNotFoundError:
        stored = None
    except (OSError, ValueError) as error:
        raise BadInput(f"{note} is damaged; delete {note.parent} to begin anew.") from error
    if stored is None or not is_started:
        with disk_errors(note.parent):
            note.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(note, json.dumps(settings, indent=1))
    elif stored != settings:
        names = [name for name in settings if not isinstance(stored, dict) or stored.get(name) != settings[name]]
        raise BadInput(
            f"{note.parent} was started with another {' and another '.join(names)}; name another --work, or delete it."
        )

"""What a stage's folder was begun with, so that it goes on with the same or says what is different."""

import json
from pathlib import Path

from engine.errors import BadInput
from engine.folders import disk_errors, write_atomically


def same_or_new(note: Path, settings: dict, begun: bool) -> None:
    """Keeps ``settings`` at ``note`` unless work was ``begun``; BadInput where that was with others."""
    try:
        found = json.loads(note.read_text(encoding="utf-8"))
    except FileNotFoundError:
        found = None
    except (OSError, ValueError) as error:
        raise BadInput(f"{note} is damaged; delete {note.parent} to begin anew.") from error
    if found is None or not begun:
        with disk_errors(note.parent):
            note.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(note, json.dumps(settings, indent=1))
    elif found != settings:
        names = [name for name in settings if not isinstance(found, dict) or found.get(name) != settings[name]]
        raise BadInput(
            f"{note.parent} was begun with another {' and another '.join(names)}; name another --work, or delete it."
        )

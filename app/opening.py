"""What plays when the page opens: a run recorded by the engine, so that nobody waits for a model to see one."""

from app.components.live import ASSETS
from app.views import ribbon
from engine.errors import BadInput
from engine.trace import load

OPENING = ASSETS / "traces" / "opening.json"


def opening() -> str:
    """The ribbon's first value. Without a readable recording the page opens empty, which is no reason not to open."""
    try:
        return ribbon.whole("recorded", load(OPENING), recorded=True)
    except BadInput as error:
        print(f"The page opens without its recorded run: {error}", flush=True)
        return ""

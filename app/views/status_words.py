"""Renders the engine's status in words."""

from engine.errors import percent


def status(
    kind: str,
    device: str | None = None,
    precision: str | None = None,
    waiting: int = 0,
    message: str = "",
    fraction: float | None = None,
    together: int = 0,
):
    """Returns the status as a dict, because the page polls it over HTTP. ``kind`` is "asleep", "loading", "ready" or
    "busy"; ``together``: runs under way."""
    on = f" on {_place(device)}" if device else ""
    on += f" in {precision}" if device and precision else ""
    words = {
        "asleep": "The first run loads the model",
        "loading": message or "Loading",
        "ready": f"Ready{on}",
        "busy": f"Busy{on}",
    }[kind]
    if kind == "loading" and fraction:  # some loads report no share
        words += f", {percent(fraction)}"
    if together > 1:
        words += f", {together} runs together"
    if waiting:
        words += f", {waiting} waiting"
    return {"kind": kind, "text": words}


def _place(device: str) -> str:
    """Names the device for readers: "cpu (x86_64, 2 threads)" is CPU; a graphics card goes by its own name."""
    kind = device.split(" ")[0]
    return kind.upper() if kind in ("cpu", "mps") else device


def ago(seconds: float) -> str:
    """Words a time span: "3 minutes ago"."""
    if seconds < 45:
        return "just now"
    for size, name in ((86400, "day"), (3600, "hour"), (60, "minute")):
        count = round(seconds / size)
        if count >= 1 and seconds >= size * 0.75:
            return f"{count} {name}{'s' if count > 1 else ''} ago"
    raise AssertionError("a span is 45 seconds or more here")

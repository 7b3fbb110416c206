"""The line above the results: progress, a verdict, or an error, always in words."""

from typing import Literal

from app.views.encode import encode

Kind = Literal["quiet", "progress", "good", "slow", "error"]


def about_pair(title: str, kind: Kind = "quiet", text: str = "") -> str:
    """What is said under the choice of models: their name, where the field has no room for it, and what to expect."""
    return encode({"kind": kind, "text": text, "title": title})


def notice(kind: Kind, text: str = "", fraction: float | None = None) -> str:
    return encode({"kind": kind, "text": text, "fraction": fraction})

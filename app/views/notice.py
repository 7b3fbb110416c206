"""The line above the results: progress, a verdict, or an error, always in words."""

from typing import Literal

from app.views.encode import encode

Kind = Literal["quiet", "progress", "good", "slow", "error"]


def notice(kind: Kind, text: str = "", fraction: float | None = None) -> str:
    return encode({"kind": kind, "text": text, "fraction": fraction})

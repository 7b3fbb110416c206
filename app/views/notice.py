"""Renders the line above the results: progress, a verdict or an error, in words."""

import json
from typing import Literal

from app.views.safe_json import encode

Kind = Literal["quiet", "progress", "good", "slow", "error", "recorded"]


def about_pair(title: str, kind: Kind = "quiet", text: str = "") -> str:
    """Returns the note below the choice of models: their full name, and why they cannot run or what they download."""
    return encode({"kind": kind, "text": text, "title": title})


def notice(kind: Kind, text: str = "", fraction: float | None = None, place: int | None = None) -> str:
    """Returns a notice as JSON. ``place``: the number of runs ahead of this visitor's, for the engine's status; 0 while
    it runs."""
    return encode(fields(kind, text, fraction, place))


def over_old(progress: str, words: str) -> str:
    """Returns a notice of progress that says in ``words`` what the page still shows, which is then drawn grey; any
    other notice as it is."""
    shown = json.loads(progress)
    if shown["kind"] != "progress":
        return progress
    return encode(shown | {"text": ". ".join((shown["text"].rstrip("."), words)), "old": True})


def fields(kind: Kind, text: str = "", fraction: float | None = None, place: int | None = None) -> dict:
    return {"kind": kind, "text": text, "fraction": fraction} | ({} if place is None else {"place": place})

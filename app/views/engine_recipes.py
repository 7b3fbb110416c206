"""Renders the recipes for other engines as the value of the page's panel, with a sentence on the run."""

from app.views.safe_json import encode
from engine.trace.engine_recipes import Choice, answers, lead
from engine.trace.noise import NOISE, Speedup


def production(choice: Choice, origin: str = "as set above", measured: str = "") -> str:
    """Returns every engine's recipe as JSON, with a lead sentence about the draft length. ``origin``: the origin of the
    setting; ``measured``: a sentence on what it brought here."""
    return encode({"lead": f"{measured} {lead(choice, origin)}".strip(), "engines": answers(choice)})


def nothing(words: str) -> str:
    """Returns the panel without a recipe; ``words`` give the reason."""
    return encode({"lead": words, "engines": []})


def outcome_sentence(ratio: Speedup, device: str) -> str:
    """Returns whether drafting paid off in the run on screen."""
    if ratio.tone == NOISE:
        return "What was measured here is noise: measure again before you switch it on."
    if ratio.tone == "level":
        return (
            f"Measured {ratio.value:.2f}× here, but one run each is no proof of a difference: measure it several times."
        )
    if ratio.tone == "slower":
        return f"Measured {ratio.value:.2f}× here: not worth switching on for this text."
    return f"Measured {ratio.value:.2f}× on {device}, one request at a time. Measure again on your server."

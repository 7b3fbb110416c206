"""Handles the choice of a pair: its methods and switches, and the pairs that cannot run here."""

from typing import Any

import gradio as gr

from app.form import METHOD_LABELS, choices
from app.jobs.service import Service
from app.ui.widgets import SKIP, outputs
from app.views.notice import about_pair, notice
from engine.config import AUTO
from engine.errors import EngineError

UNUSABLE = " (not on this machine)"
# The outputs that depend on the pair.
PairOptions = outputs("method", "thinking", "precision", "note")


class PairHandlers:
    def __init__(self, service: Service):
        self.service = service

    def select(self, pair: str, method: str) -> PairOptions:
        """The options of a pair, and why it cannot run here; loads nothing."""
        try:
            methods = (AUTO, *self.service.methods(pair))
            reasons, size = self.service.problems(pair), self.service.to_fetch(pair)
            thinking, precisions = self.service.engine.thinking(pair), self.service.engine.precisions()
        except EngineError as error:
            return PairOptions(note=notice("error", str(error)))
        return PairOptions(
            # A method that stays is not sent, because a link may be filling it in meanwhile.
            method=gr.update(choices=choices(METHOD_LABELS, methods), **({} if method in methods else {"value": AUTO})),
            thinking=gr.update(visible=thinking),
            precision=gr.update(visible=len(precisions) > 1),
            note=_note(self.service.pairs[pair].title, reasons, size),
        )

    def list_pairs(self) -> Any:
        """The list of pairs, with those that cannot run here marked; ``select`` gives the reason."""
        try:
            unusable = self.service.unusable()
        except EngineError:
            return SKIP
        labels = {
            name: f"{pair.title}{UNUSABLE if name in unusable else ''}" for name, pair in self.service.pairs.items()
        }
        return gr.update(choices=choices(labels))


def _note(title: str, reasons: list[str], size: int) -> str:
    if reasons:
        return about_pair(title, "error", " ".join(reasons))
    if size:
        text = f"Its weights are not here yet: the first run downloads about {size / 1e9:.1f} GB."
        return about_pair(title, text=text)
    return about_pair(title)

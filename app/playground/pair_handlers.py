"""Handles the choice of a pair: its methods and switches, and the pairs that cannot run here."""

from collections.abc import Mapping, Sequence
from typing import Any

import gradio as gr

from app.form import choices
from app.jobs.service import Service
from app.ui.method_choices import method_choices
from app.ui.widgets import SKIP, outputs
from app.views.notice import about_pair
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
            offered = method_choices(self.service, pair)
            reasons, size = self.service.problems(pair), self.service.to_fetch(pair)
            thinking, precisions = self.service.engine.thinking(pair), self.service.engine.precisions()
            steps, notes = self.service.engine.known_steps(pair), self.service.engine.notes(pair)
        except EngineError as error:
            return PairOptions(note=about_pair("", "error", str(error)))
        return PairOptions(
            # A method that stays is not sent, because a link may be filling it in meanwhile.
            method=gr.update(choices=offered, **({} if method in dict(offered).values() else {"value": AUTO})),
            thinking=gr.update(visible=thinking),
            precision=gr.update(
                visible=len(precisions) > 1, choices=choices({}, precisions), info=precision_info(precisions, steps)
            ),
            note=_note(self.service.pairs[pair].title, reasons, size, notes),
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


def precision_info(offered: Sequence[str], steps: Mapping[str, float]) -> str:
    """What a precision brings here: the steps that were measured, and that int4 is a model of its own."""
    info = ["Of weights and arithmetic; another one loads the model anew."]
    if "int4" in offered:
        info.append("int4 rounds the weights: another model, with a baseline of its own.")
    measured = [f"{1000 * steps[name]:.0f} ms in {name}" for name in ("bf16", "fp16", "fp32", "int4") if name in steps]
    if measured:
        info.append(f"A plain step takes {' and '.join(measured)} on this machine.")
    if "int4" in offered and "int4" not in steps:
        info.append("Run once in int4 to measure its step here, too.")
    return " ".join(info)


def _note(title: str, reasons: Sequence[str], size: int, notes: Sequence[str]) -> str:
    if reasons:
        return about_pair(title, "error", " ".join(reasons))
    download = [f"Its weights are not here yet: the first run downloads about {size / 1e9:.1f} GB."] if size else []
    return about_pair(title, text=" ".join([*download, *notes]))

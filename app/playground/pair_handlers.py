"""Handles the choice of a pair: its methods and switches, and the pairs that cannot run here."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import gradio as gr

from app.form import choices
from app.jobs.service import Service
from app.ui.method_choices import run_methods
from app.ui.widgets import SKIP
from app.views.notice import about_pair
from engine.config import AUTO
from engine.errors import EngineError, percent

UNUSABLE = " (not on this machine)"
_SHOWN = ("bf16", "fp16", "fp32", "int8", "int4")


# The outputs that depend on the pair.
class PairOptions(NamedTuple):
    method: Any = SKIP
    thinking: Any = SKIP
    precision: Any = SKIP
    note: Any = SKIP


class PairHandlers:
    def __init__(self, service: Service):
        self.service = service

    def select(self, pair: str, method: str) -> PairOptions:
        """Returns the options of a pair, and why it cannot run here; loads nothing."""
        try:
            offered = run_methods(self.service, pair)
            reasons, size = self.service.offer.problems(pair), self.service.offer.to_fetch(pair)
            thinking, precisions = self.service.engine.thinking(pair), self.service.engine.precisions()
            steps, notes = self.service.engine.known_steps(pair), self.service.engine.notes(pair)
            distances = self.service.engine.distances(pair)
        except EngineError as error:
            return PairOptions(note=about_pair("", "error", str(error)))
        return PairOptions(
            # A method that stays is not sent, because a link may be filling it in meanwhile.
            method=gr.update(choices=offered, **({} if method in dict(offered).values() else {"value": AUTO})),
            thinking=gr.update(visible=thinking),
            precision=gr.update(
                visible=len(precisions) > 1,
                choices=choices({}, precisions),
                info=precision_info(precisions, steps, distances),
            ),
            note=_note(self.service.offer.pairs[pair].title, reasons, size, notes),
        )

    def add_own(self, name: str) -> tuple[Any, str]:
        """Adds a model of the visitor's own. Returns the list of pairs with it, chosen if it runs here, and the facts
        about it."""
        try:
            pair, result = self.service.offer.add_own(name)
        except EngineError as error:
            return SKIP, about_pair("", "error", str(error))
        facts = "".join(f"\n{label.capitalize()}: {text}" for label, text in result.lines)
        if result.problems:
            return SKIP, about_pair(pair.title, "error", " ".join(result.problems) + facts)
        choose = f"Choose the precision {result.to_choose}, then press Run" if result.to_choose else "Press Run"
        words = f"It runs here, in {' or '.join(result.precisions)}. {choose}.{facts}"
        return self.list_pairs() | {"value": pair.name}, about_pair(pair.title, "good", words)

    def list_pairs(self) -> Any:
        """Lists the pairs, with those that cannot run here marked; ``select`` gives the reason."""
        try:
            unusable = self.service.offer.unusable()
        except EngineError:
            return SKIP
        titles = self.service.offer.titles.items()
        labels = {name: f"{title}{UNUSABLE if name in unusable else ''}" for name, title in titles}
        return gr.update(choices=choices(labels))


def precision_info(offered: Sequence[str], steps: Mapping[str, float], distances: Mapping[str, Any]) -> str:
    """Says how fast each precision is here, as far as it was measured, and how far it is from fp32. ``steps``: seconds
    of a plain step; ``distances``: `engine.weights.rounding_distances.Distance` of each."""
    info = ["Changing it loads the model again."]
    if "int8" in offered:
        info.append("int8 and int4 round the weights: another model each, with its own text and its own baseline.")
    measured = [f"{1 / steps[name]:.0f} in {name}" for name in _SHOWN if name in steps]
    if measured:
        info.append(f"Plain tokens a second here: {', '.join(measured)}.")
    for name, each in distances.items():
        info.append(f"{name} makes fp32's first choice at {percent(each.equal, 1)} of tokens (KL {each.kl:.4f}).")
    return " ".join(info)


def _note(title: str, reasons: Sequence[str], size: int, notes: Sequence[str]) -> str:
    if reasons:
        return about_pair(title, "error", " ".join(reasons))
    download = [f"Its weights are not here yet: the first run downloads about {size / 1e9:.1f} GB."] if size else []
    return about_pair(title, text=" ".join([*download, *notes]))

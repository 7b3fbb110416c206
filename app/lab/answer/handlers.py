"""Answers the question on the page: the form as a plan, the answer as it is measured, configurations and files."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import gradio as gr

from app.lab.answer import view
from app.lab.answer.plan import HERE, PLACES, AnswerPlan, AnswerResult
from app.lab.answer.work import AnswerPoints
from app.lab.experiment import Measurement, PageState, counted, whole_number
from app.lab.sweep.work import OWN, prompts
from app.ui.widgets import SKIP, outputs
from app.views.notice import notice
from app.views.table import csv_text
from engine.config import AUTO, METHODS, RunConfig
from engine.errors import BadInput

MOST_USERS, MOST_TEXTS, EACH = 64, 4, 2
SEPARATOR = "\n---\n"  # between several texts of one's own
Outputs = outputs("notice", "answer", "picture")


class AnswerHandlers(Measurement):
    Outputs = Outputs
    result_type, points_type = AnswerResult, AnswerPoints
    RUN = "Find the answer"
    NOUN = "Run"
    REMAINS = "A turn of all settings is kept once it is whole: the same question goes on after the last one."

    def places(self) -> list[tuple[str, str]]:
        """This machine, by pair, then servers that are predicted."""
        here = [(f"This machine: {title}", name) for name, title in self.service.offer.titles.items()]
        return here + [(f"{place.title} (predicted)", name) for name, place in PLACES.items()]

    def parse(self, values: Sequence) -> tuple[RunConfig, AnswerPlan]:
        own, kind, users, place = values
        pair = self.service.offer.pair if place in PLACES else place
        texts = tuple(
            (OWN, text.strip()) for text in (own or "").replace("\r\n", "\n").split(SEPARATOR) if text.strip()
        )
        if not texts:
            if kind not in prompts():
                raise BadInput("Paste a text of your own, or choose a kind of text.")
            texts = tuple((kind, text) for text in prompts()[kind][:EACH])
        if len(texts) > MOST_TEXTS:
            raise BadInput(f"These are {len(texts)} texts; give up to {MOST_TEXTS}, with a line --- between two.")
        methods = tuple(name for name in self.drafting_methods(pair) if _is_usual(name))
        if not methods:
            raise BadInput("These models have nothing to draft with; choose others.")
        tokens = min(48, self.service.limits.new_tokens)
        users = whole_number(users, "How many at once", 1, MOST_USERS)
        plan = AnswerPlan(texts, methods, users, place if place in PLACES else HERE, tokens)
        method = AUTO if len(methods) > 1 else methods[0]  # auto brings every draft of the pair
        longest = max((text for _, text in texts), key=len)
        return RunConfig(longest, pair=pair, method=method, max_new_tokens=tokens), plan

    def drawn(self, result: AnswerResult, values: Sequence) -> Outputs:
        return Outputs(answer=view.value(result), picture=view.picture(result))

    def start_over(self, request: gr.Request, state: PageState, *values) -> Iterator:
        """As ``run``, but measures anew: of an answer with noise only that."""
        measure = self.replace_noise if state.result and state.result.has_noise else super().start_over
        yield from measure(request, state, *values)

    def finding(self, result: AnswerResult, is_new: bool) -> str:
        return notice("quiet", "Done. Below is the configuration; look closer in the tabs above.")

    def extent(self, plan: AnswerPlan) -> str:
        runs = len(plan.texts) * plan.repeats * (1 + 3 * len(plan.methods))
        most = f", then {' and '.join(map(str, plan.loads))} users at once" if plan.loads else ""
        return f"About {counted(runs, 'short run')}{most}. Stop keeps what is there."

    def end(self, state: PageState) -> list:
        """As of every measurement, and the configuration."""
        ends, result = super().end(state), state.result
        if not result or ends[0] is SKIP:
            return [*ends, SKIP]
        return [*ends, view.recipes(result, lambda method: self.service.offer.models(result.pair, method))]

    def files(self, result: AnswerResult) -> Mapping[str, str]:
        heads = ("users", "method", "gamma", "speedup", "low", "high")
        return {
            "speclens-answer.csv": csv_text(heads, view.to_rows(result)),
            "speclens-answer.json": view.as_json(result),
        }

    def read_file(self, path: str | None) -> Any:
        """The text of an uploaded file, as far as a prompt may be; the upload is deleted."""
        if not path:
            return SKIP
        try:
            return Path(path).read_text(encoding="utf-8-sig", errors="replace")[: self.service.limits.prompt_chars]
        finally:
            Path(path).unlink(missing_ok=True)


def _is_usual(method: str) -> bool:
    """The rest is seldom best, so it is left to the sweep."""
    kind = METHODS[method]
    return kind.competes and kind.reads in ("text", "draft model", "head") and not kind.shares and not kind.is_window

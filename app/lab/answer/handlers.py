"""Answers the question on the page: the form as a plan, the answer as it is measured, configurations and files."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import gradio as gr

from app.lab.answer import recordings, view
from app.lab.controls import whole_number
from app.lab.experiment import Measurement, PageState, define_outputs
from app.lab.sweep.work import OWN, prompts
from app.lab.work_units import tidy
from app.playground.trace_files import read_each, uploads
from app.ui.widgets import SKIP
from app.views.figures import encode_figures
from app.views.notice import notice
from app.views.safe_json import encode
from app.views.table import csv_text
from engine.config import AUTO, MAX_SHARERS, RunConfig, SamplingParams
from engine.errors import BadInput, EngineError, quantity
from engine.files import cache_root
from engine.tools.bench.answer import ELSEWHERE, HERE, AnswerPlan, AnswerResult, usual
from engine.tools.bench.answer_words import COLUMNS, duration, people, to_rows
from engine.tools.bench.prompts import parse_prompts, rows_of_list
from engine.trace.noise import is_crowded
from engine.trace.speedup_words import doubts

MOST_TEXTS, EACH = 64, 2
RECORDINGS = ()  # the result of a page that shows recordings: nothing to save or to measure again
SEPARATOR = re.compile(r"^[ \t]*---[ \t]*$", re.MULTILINE)  # between several texts of one's own
OTHER_SERVER = "Another server (tokens per pass only)"


class AnswerHandlers(Measurement):
    Outputs = define_outputs("answer", "picture", "recipes")
    RECORDED = "answer.json"
    read_saved = staticmethod(view.from_json)
    result_type = AnswerResult
    RUN = "Find the answer"
    NOUN = "Part"
    REMAINS = "Every finished turn of all settings is kept, and the same question goes on from there."
    FIRST = "every setting had run once"

    def points_type(self, engine, pair: str, plan: AnswerPlan, again: bool):
        from engine.tools.bench.answer_points import AnswerPoints

        return AnswerPoints(engine, plan, cache_root() / "lab", again, keep=tidy)

    def places(self) -> list[tuple[str, str]]:
        """Lists this machine, by pair, then any other."""
        here = [(f"This machine: {title}", name) for name, title in self.service.offer.titles.items()]
        return [*here, (OTHER_SERVER, ELSEWHERE)]

    def refill(self, values: Sequence) -> list:
        if values[3] not in dict(self.places()).values():
            raise LookupError(values[3])
        return super().refill(values)

    def parse(self, values: Sequence) -> tuple[RunConfig, AnswerPlan]:
        own, kind, users, place, tokens, temperature, _ = values
        is_elsewhere = place == ELSEWHERE
        pair = self.service.offer.pair if is_elsewhere else place
        texts = self._texts(own or "", kind)
        methods = usual(self.drafting_methods(pair))
        if not methods:
            raise BadInput("These models have nothing to draft with; choose others.")
        tokens = whole_number(tokens, "Tokens of an answer", 16, self.service.limits.new_tokens)
        users = whole_number(users, "How many at once", 1, MAX_SHARERS)
        sampling = SamplingParams(float(temperature or 0))
        plan = AnswerPlan(
            texts, methods, (users,), tokens, sampling.temperature, place=ELSEWHERE if is_elsewhere else HERE
        )
        method = AUTO if len(methods) > 1 else methods[0]  # auto brings every draft of the pair
        longest = max((text for _, text in texts), key=len)
        return RunConfig(longest, pair=pair, method=method, sampling=sampling, max_new_tokens=tokens), plan

    def _texts(self, own: str, kind: str) -> tuple[tuple[str, str], ...]:
        """Returns each text as (kind, prompt): from JSON lines or one list, from texts with --- between them, or all of
        the chosen kind."""
        own = own.replace("\r\n", "\n").strip()
        if own.startswith("{") or rows_of_list(own):
            texts = tuple((prompt.category, prompt.text) for prompt in parse_prompts(own, "your text"))
        else:
            texts = tuple((OWN, text.strip()) for text in SEPARATOR.split(own) if text.strip())
        if not texts:
            if kind not in prompts():
                raise BadInput("Paste a text of your own, or choose a kind of text.")
            return tuple((kind, text) for text in prompts()[kind][:EACH])
        if len(texts) > MOST_TEXTS:
            raise BadInput(
                f"These are {len(texts)} texts, and this page takes up to {MOST_TEXTS}: leave some out, or run "
                "`python -m engine answer FILE.jsonl`, which takes any number."
            )
        limit = self.service.limits.prompt_chars
        for number, (_, text) in enumerate(texts, 1):
            if len(text) > limit:
                raise BadInput(
                    f"Text {number} of {len(texts)} has {len(text):,} characters, and this page takes up to {limit:,} "
                    "of each. Nothing was cut: shorten it, or raise SPECLENS_MAX_PROMPT_CHARS."
                )
        return texts

    def draw(self, result: AnswerResult, values: Sequence) -> Any:
        model = (values[-1] or "").strip() if values else ""
        return self.Outputs(
            answer=view.value(result), picture=view.picture(result), recipes=self._recipes(result, model)
        )  # fmt: skip

    def verdict(self, result: AnswerResult) -> str:
        kinds = f" of {quantity(len(result.kinds), 'kind')}" if result.kinds else ""
        return f"The question: {quantity(len(result.plan.texts), 'text')}{kinds}, {people(result.plan.largest_load)}."

    def doubts(self, result: AnswerResult) -> str:
        return doubts(result.has_noise, [result.busy])

    def start_over(self, request: gr.Request, state: PageState, *values) -> Iterator:
        """Measures again: only the noise of an answer that has some, else everything."""
        measure = self.replace_noise if state.result and state.result.has_noise else super().start_over
        yield from measure(request, state, *values)

    def finding(self, result: AnswerResult, is_new: bool) -> str:
        words = f"Done. Below is the configuration; look closer in the tabs above.{self.doubts(result)}"
        return notice("slow" if is_crowded(result.busy) else "quiet", words)

    def extent(self, pair: str, plan: AnswerPlan) -> str:
        loads = f", then {' and '.join(map(str, plan.loads))} users at once, longer where that decides nothing"
        texts = quantity(len(plan.texts), "text")
        work = f"{texts}: about {quantity(plan.runs, 'short run')}{loads if plan.loads else ''}."
        turn = f"Stop keeps every finished turn, which is one text with all {plan.runs // plan.turns} settings."
        return f"{work}{self._time(pair, plan)} {turn}"

    def _time(self, pair: str, plan: AnswerPlan) -> str:
        """Says about how long it takes, once a pass of the pair has been timed here."""
        costs = self.service.offer.plain_costs(pair)
        return f" That takes {duration(plan.seconds(costs))}." if costs else ""

    def name_model(self, state: PageState, model: str) -> Any:
        """Writes the configurations again, with the name of the reader's model. Recordings have none."""
        result = self.on_page(state)
        return self._recipes(result, (model or "").strip()) if result else SKIP

    def _recipes(self, result: AnswerResult, model: str) -> str:
        return view.recipes(result, lambda method: self.service.engine.models(result.pair, method), model)

    def files(self, result: AnswerResult) -> Mapping[str, str]:
        rows = [[row[column] for column in COLUMNS] for row in to_rows(result)]
        where = {name: str(result.about.get(name) or "") for name in ("device", "precision", "measured", "speclens")}
        return {"speclens-answer.csv": csv_text(COLUMNS, rows, where), "speclens-answer.json": view.as_json(result)}

    def open_recordings(self, state: PageState, paths: Sequence[str] | None) -> Any:
        """Answers from recordings of the visitor's server, which are then deleted here."""
        try:
            with uploads(paths) as files:
                if not state.is_over:
                    raise BadInput("Let the measurement end first, then open the recordings again.")
                own = recordings.Recordings(read_each(files))
        except EngineError as error:
            return self.Outputs(notice("error", str(error)))
        state.result = RECORDINGS
        words = f"From your recordings of {own.title}. No model of this page was used."
        picture = encode_figures({view.PICTURE: recordings.picture(own)})
        recipes = view.nothing(recordings.configuration(own))
        sentences = encode(recordings.sentences(own))
        return self._without_mark(self.Outputs(notice("quiet", words), sentences, picture, recipes))

    def read_file(self, path: str | None) -> Any:
        """Reads the whole text of an uploaded file and deletes the upload. A long one is refused later, not cut."""
        if not path:
            return SKIP
        with uploads([path]):
            return Path(path).read_text(encoding="utf-8-sig", errors="replace")

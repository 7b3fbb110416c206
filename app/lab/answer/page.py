"""Answers the question on the page: three questions and one button, the answer as it is measured, configurations."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import gradio as gr

from app.lab.answer import recordings, view
from app.lab.experiment import Measurement, PageState, define_outputs, largest_method
from app.lab.form import Field, dropdown, slider, text, widget
from app.lab.layout import Layout
from app.lab.own_curve import lay_out_curve, read_given
from app.lab.sweep.work import OWN, prompts
from app.lab.work_units import tidy
from app.playground.trace_files import read_each
from app.ui.widgets import QUIET, SKIP, open_files
from app.views.figures import encode_figures
from app.views.notice import notice
from app.views.safe_json import encode
from app.views.table import empty
from engine.config import MAX_SHARERS, RunConfig, SamplingParams
from engine.errors import BadInput, quantity
from engine.files import cache_root, decode_text
from engine.tools.bench.answer import ELSEWHERE, HERE, AnswerPlan, AnswerResult, usual
from engine.tools.bench.answer_words import duration
from engine.tools.bench.pass_curve import PassCurve
from engine.tools.bench.prompts import MEASUREMENT, Prompt, parse_prompts, rows_of_list, to_config
from engine.trace.noise import is_crowded

HINT = "Separate several texts with a line that says ---, or paste JSON lines with prompt and kind."
PLACE = "Speedups are measured. For another server, only tokens per pass are counted, unless you open its recordings."
MODEL = "Its name, for the commands below. Leave it empty for this page's."
RULE = (
    "For which requests to draft, as far as that was measured: by whole requests for one user, by loads for several. "
    "Save it for a proxy or a client; docs/answer.md has an example of each."
)
MOST_TEXTS, EACH = 64, 2
RECORDINGS = ()  # the result of a page that shows recordings: nothing to save or to measure again
SEPARATOR = re.compile(r"^[ \t]*---[ \t]*$", re.MULTILINE)  # between several texts of one's own
OTHER_SERVER = "Another server (tokens per pass only)"


class Answer(Measurement):
    NAME = "answer"
    Outputs = define_outputs("answer", "charts", "rule", "recipes")
    RECORDED = "answer.json"
    view = view
    result_type = AnswerResult
    RUN = "Find the answer"
    NOUN = "Part"
    FILES = (*Measurement.FILES, ("rule", "Save the rule (JSON)"))
    REMAINS = "Every finished turn of all settings is kept, and the same question goes on from there."
    FIRST = "every setting had run once"

    def form(self) -> list[list[Field]]:
        """Returns the columns of the form; the name of the reader's own model comes last."""
        offer, most = self.service.offer, self.service.limits.new_tokens
        return [
            [text("own", "Your texts", HINT, lines=3, max_lines=6, placeholder="Paste what your users ask.")],
            [dropdown("kind", "Or a kind of text", "", "chat", list(prompts())),
             slider("tokens", "Tokens of an answer", "", min(48, most), 16, most),
             slider("temperature", "Temperature", "", 0, 0, 1.5, 0.1)],
            [slider("users", "How many at once", "", 1, 1, MAX_SHARERS),
             dropdown("place", "Where it will run", PLACE, offer.pair, self.places()),
             text("model", "Your model", MODEL, max_lines=None, placeholder="OWNER/NAME")],
        ]  # fmt: skip

    def places(self) -> list[tuple[str, str]]:
        """Lists this machine, by pair, then any other."""
        here = [(f"This machine: {title}", name) for name, title in self.service.offer.titles.items()]
        return [*here, (OTHER_SERVER, ELSEWHERE)]

    def lists(self, form: Mapping[str, Any]) -> dict[str, Any]:
        if form["place"] not in dict(self.places()).values():
            raise LookupError(form["place"])
        return {}

    def lay_out(self, page: Layout) -> None:
        with gr.Row(elem_classes="sl-answer-form"):
            for column, (scale, width) in zip(self.rows, ((3, 260), (2, 220), (2, 220)), strict=True):
                with gr.Column(scale=scale, min_width=width):
                    page.widgets |= {field.name: widget(field, self.NAME) for field in column}
                    if column is self.rows[0]:
                        kinds = ["text", ".jsonl"]
                        file = gr.UploadButton("Open a text or JSONL file", file_types=kinds, elem_id="answer-file",
                                               size="sm")  # fmt: skip
        with gr.Row(elem_classes="sl-actions"):
            page.run_and_stop()
            over = page.over_button("Measure again")
            recorded = open_files("Answer from recordings of your server", "answer-recordings")
        page.size_notice()
        page.show("answer", "answer", "words")
        curve, chosen = lay_out_curve("answer-own-curve"), gr.State(None)
        page.charts({view.PICTURE: "What was measured"})
        with gr.Accordion("A rule for a router", open=False, elem_id="answer-router"):
            page.html(f"<p>{RULE}</p>")
            page.show("rule")
        page.recipes("Switch it on")
        page.files()
        page.wire_measurement(over, inputs=[chosen, *page.widgets.values()])
        page.open_recordings(recorded)
        own, *others, model = page.widgets.values()
        file.upload(self.read_file, file, own, **QUIET)
        model.change(self.name_model, [page.state, model], page.outputs["recipes"], **QUIET)
        page.follow_size([own, *others])
        shown = [page.outputs[name] for name in ("answer", "charts")]
        curve.given(self.take_curve, [page.state, chosen], [curve, chosen, *shown], **QUIET)

    # ── the question ──

    def parse(self, values: Sequence) -> tuple[RunConfig, AnswerPlan]:
        form = self.read(values)
        is_elsewhere, tokens = form["place"] == ELSEWHERE, form["tokens"]
        pair = self.service.offer.pair if is_elsewhere else form["place"]
        texts, methods = self._texts(form["own"], form["kind"]), usual(self.drafting_methods(pair))
        if not methods:
            raise BadInput("These models have nothing to draft with; choose others.")
        sampling = SamplingParams(float(form["temperature"] or 0))
        place = ELSEWHERE if is_elsewhere else HERE
        plan = AnswerPlan(texts, methods, (form["users"],), tokens, sampling.temperature, place=place)
        longest, method = max(texts, key=lambda prompt: prompt.length), largest_method(methods)
        most = max(prompt.own.get("max_new_tokens", tokens) for prompt in texts)
        config = to_config(longest, pair=pair, method=method, temperature=sampling.temperature, max_new_tokens=tokens)
        return replace(config, max_new_tokens=most), plan

    def _texts(self, own: str, kind: str) -> tuple[Prompt, ...]:
        """Returns the texts: from JSON lines or one list, from texts with --- between them, or all of
        the chosen kind."""
        own = own.replace("\r\n", "\n").strip()
        if own.startswith("{") or rows_of_list(own):
            texts = tuple(parse_prompts(own, "your text", MEASUREMENT))
        else:
            texts = tuple(Prompt(text.strip(), OWN) for text in SEPARATOR.split(own) if text.strip())
        if not texts:
            if kind not in prompts():
                raise BadInput("Paste a text of your own, or choose a kind of text.")
            return tuple(Prompt(text, kind) for text in prompts()[kind][:EACH])
        if len(texts) > MOST_TEXTS:
            raise BadInput(
                f"These are {len(texts)} texts, and this page takes up to {MOST_TEXTS}: leave some out, or run "
                "`python -m engine answer FILE.jsonl`, which takes any number."
            )
        limit = self.service.limits.prompt_chars
        for number, prompt in enumerate(texts, 1):
            if prompt.length > limit:
                raise BadInput(
                    f"Text {number} of {len(texts)} has {prompt.length:,} characters, and this page takes up to "
                    f"{limit:,} of each. Nothing was cut: shorten it, or raise SPECLENS_MAX_PROMPT_CHARS."
                )
        return texts

    def extent(self, pair: str, plan: AnswerPlan) -> str:
        loads = f", then {' and '.join(map(str, plan.loads))} users at once, longer where that decides nothing"
        texts, costs = quantity(len(plan.texts), "text"), self.service.offer.plain_costs(pair)
        work = f"{texts}: about {quantity(plan.runs, 'short run')}{loads if plan.loads else ''}."
        if costs:  # a pass of the pair has been timed here
            work += f" That takes {duration(0, plan.most_seconds(costs))}."
        return f"{work} Stop keeps every finished turn, which is one text with all {plan.runs // plan.turns} settings."

    def open_points(self, engine, config: RunConfig, plan: AnswerPlan, again: bool, measured) -> Any:
        from engine.tools.bench.answer_points import AnswerPoints

        return AnswerPoints(engine, plan, cache_root() / "lab", again, keep=tidy)

    def updates(self, request, state: PageState, values: Sequence, how):
        """Measures again only the noise of an answer that has some, else everything."""
        has_noise = how == "all" and state.result and state.result.has_noise
        yield from super().updates(request, state, values, "noise" if has_noise else how)

    # ── the answer ──

    def draw(self, result: AnswerResult, values: Sequence = ()) -> Any:
        curve = values[0] if len(values) > len(self.fields) else None
        drawn = view.draw(replace(result, curve=curve))
        return self.Outputs(**drawn, recipes=self._recipes(result, values[-1] if values else ""))

    def take_curve(self, event: gr.EventData, state: PageState, before: PassCurve | None) -> list:
        """Predicts for the machine of a curve that the visitor gave. Returns the curve's part of the page, the curve,
        the sentences and the picture. A wrong one leaves the earlier one as it is."""
        value, curve, is_wrong = read_given(event)
        result = self.on_page(state)
        if is_wrong or curve == before or not result:
            return [value, before if is_wrong else curve, SKIP, SKIP]
        drawn = view.draw(replace(result, curve=curve))
        return [value, curve, drawn["answer"], drawn["charts"]]

    def finding(self, result: AnswerResult, is_new: bool) -> str:
        words = f"Done. Below is the configuration; look closer in the tabs above.{view.doubts(result)}"
        return notice("slow" if is_crowded(result.busy) else "quiet", words)

    def name_model(self, state: PageState, model: str) -> Any:
        """Writes the configurations again, with the name of the reader's model. Recordings have none."""
        result = self.on_page(state)
        return self._recipes(result, model) if result else SKIP

    def _recipes(self, result: AnswerResult, model: str | None) -> str:
        names = self.service.engine.models
        return view.recipes(result, lambda method: names(result.pair, method), (model or "").strip())

    # ── uploads ──

    def show_recordings(self, state: PageState, paths: Sequence[str]) -> Any:
        """Answers from recordings of the visitor's server."""
        own = recordings.Recordings(read_each(paths))
        state.result = RECORDINGS
        words = f"From your recordings of {own.title}. No model of this page was used."
        picture = encode_figures({view.PICTURE: recordings.picture(own)})
        recipes = view.nothing(recordings.configuration(own))
        sentences = encode(recordings.sentences(own))
        return self.Outputs(notice("quiet", words), sentences, picture, empty(), recipes)

    def read_file(self, path: str | None) -> Any:
        """Reads the whole text of an uploaded file. A long one is refused later, not cut."""
        return decode_text(Path(path).read_bytes(), "replace") if path else SKIP

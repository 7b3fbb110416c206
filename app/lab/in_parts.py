"""Shows a measurement in parts, such as temperatures: the handlers and the page that the sweep and many users share."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gradio as gr

from app.lab.experiment import Measurement, PageState, Wiring, fold
from app.ui.charts import charts
from app.ui.html_component import component
from app.ui.notice import notice as notice_area
from app.ui.widgets import QUIET, SKIP, download, run_and_stop
from app.views.notice import notice


class InParts(Measurement):
    """A measurement of which one part is shown at a time: a temperature, or prompts of one length."""

    BESIDE = 0  # how many outputs ``beside`` has

    def parts(self, result) -> list[tuple[str, Any]]:
        """(words, part) of those with points."""
        raise NotImplementedError

    def part_shown(self, result) -> Any:
        """The part that a result is shown with."""
        return self.parts(result)[0][1]

    def drawn_part(self, result, part) -> Any:
        """Outputs that show one part."""
        raise NotImplementedError

    def advice(self, result, part) -> str:
        raise NotImplementedError

    def beside(self, result, part) -> list:
        """What else the page shows of one part, once the measurement has ended."""
        return []

    def drawn(self, result, values: Sequence) -> Any:
        return self.drawn_part(result, self.part_shown(result)) if result else self.Outputs(*self.blank())

    def blank(self) -> list[str]:
        """Values of the outputs, the notice left as it is, while nothing is measured."""
        raise NotImplementedError

    def finding(self, result, is_new: bool) -> str:
        return notice("quiet", self.advice(result, self.parts(result)[0][1]))

    def end(self, state: PageState) -> list:
        """Returns the end of every measurement, the parts to choose from, and `beside` the one shown."""
        ends, result = super().end(state), state.result
        if not result or ends[0] is SKIP:
            return [*ends, SKIP, *[SKIP] * self.BESIDE]
        parts, part = self.parts(result), self.part_shown(result)
        shown = gr.update(choices=parts, value=part, visible=len(parts) > 1)
        return [*ends, shown, *self.beside(result, part)]

    def select_part(self, state: PageState, part: Any) -> list:
        """The outputs of another part, with those `beside` it."""
        result = state.result
        if not result or part not in (value for _, value in self.parts(result)):
            return [*self.Outputs(), *[SKIP] * self.BESIDE]
        words = notice("quiet", self.advice(result, part))
        return [*self.drawn_part(result, part)._replace(notice=words), *self.beside(result, part)]


def lay_out(
    handlers: InParts,
    name: str,
    lead: str,
    form: tuple[str, Callable[[], list[Any]]],
    titles: Mapping[str, str],
    parts: str,
    beside: Callable[[], list[Any]] = list,
) -> None:
    """The button first, then the form, folded, and the results.

    ``name``: begins each element's id; ``form``: what can be chosen, and a function that lays it out; ``titles``: of
    the charts; ``parts``: the label of the list of parts; ``beside``: lays out what `InParts.beside` fills.
    """
    state = gr.State(PageState())
    with gr.Row(elem_classes="sl-actions"):
        run, stop = run_and_stop(handlers.RUN, name)
        over = gr.Button("Start over", elem_id=f"{name}-over", interactive=False, scale=1, min_width=110)
    with fold(name, form[0]):
        gr.HTML(lead, apply_default_css=False)
        inputs = form[1]()
    words = notice_area(f"{name}-notice", handlers.size(*(each.value for each in inputs)))
    shown = gr.Radio([], label=parts, visible=False, elem_id=f"{name}-shown")
    _, blank, _ = handlers.blank()
    table = component("table", elem_id=f"{name}-table")
    outputs = handlers.Outputs(words, charts(blank, f"{name}-charts", titles), table)
    with gr.Row(elem_classes="sl-files"):
        files = download("Save the table (CSV)", f"{name}-csv"), download("Save all numbers (JSON)", f"{name}-json")
    others = beside()
    wiring = Wiring(handlers, inputs, outputs, state, [run, stop, *files, over, shown, *others])
    wiring.on(run.click, handlers.run)
    wiring.on(over.click, handlers.start_over)
    wiring.on(table.again, handlers.replace_noise)
    shown.input(handlers.select_part, [state, shown], [*outputs, *others], **QUIET)
    gr.on([each.change for each in inputs], handlers.size, inputs, words, **QUIET)

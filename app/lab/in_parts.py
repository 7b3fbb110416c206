"""Shows a measurement in parts, such as temperatures: the handlers and the page that the sweep and many users share."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gradio as gr

from app.lab.controls import fold
from app.lab.experiment import Measurement, PageState
from app.lab.wiring import Wiring
from app.ui.charts import charts
from app.ui.html_component import component
from app.ui.notice import notice as notice_area
from app.ui.widgets import QUIET, SKIP, download
from app.views.notice import notice


class InParts(Measurement):
    """A measurement of which one part is shown at a time: a temperature, or prompts of one length."""

    def parts(self, result) -> list[tuple[str, Any]]:
        """(words, part) of those with points."""
        raise NotImplementedError

    def part_shown(self, result) -> Any:
        """Returns the part that a result is shown with."""
        return self.parts(result)[0][1]

    def draw_part(self, result, part) -> Any:
        """Returns the outputs that show one part."""
        raise NotImplementedError

    def advice(self, result, part) -> str:
        raise NotImplementedError

    def verdict(self, result) -> str:
        return self.advice(result, self.part_shown(result))

    def draw(self, result, values: Sequence) -> Any:
        return self.draw_part(result, self.part_shown(result))

    def finding(self, result, is_new: bool) -> str:
        return notice("quiet", self.advice(result, self.part_shown(result)))

    def refill(self, values: Sequence) -> list:
        pair, form = self.select_pair(*values[:2]), super().refill(values)
        return [form[0], pair, *form[2:]]

    def end(self, state: PageState) -> list:
        """Returns the end of every measurement, and the parts to choose from."""
        ends, result = super().end(state), state.result
        if not result or ends[0] is SKIP:
            return [*ends, SKIP]
        parts, part = self.parts(result), self.part_shown(result)
        return [*ends, gr.update(choices=parts, value=part, visible=len(parts) > 1)]

    def select_part(self, state: PageState, part: Any) -> Any:
        """Returns the outputs of another part."""
        result = self.on_page(state)
        if not result or part not in (value for _, value in self.parts(result)):
            return self.Outputs()
        return self.draw_part(result, part)._replace(notice=notice("quiet", self.advice(result, part)))


def lay_out(
    handlers: InParts,
    name: str,
    lead: str,
    form: tuple[str, Callable[[], list[Any]]],
    titles: Mapping[str, str],
    parts: str,
    more: Callable[[Any], list[Any]] = lambda opening: [],
) -> Wiring:
    """Lays out the button first, then the form, folded, and the results.

    ``name``: begins each element's id; ``form``: what can be chosen, and a function that lays it out; ``titles``: for
    the charts; ``parts``: the label of the list of parts; ``more``: lays out the outputs between the table and the
    mark, with the values that the page opens with.
    """
    state, opening = gr.State(PageState()), handlers.opening()
    with gr.Row(elem_classes="sl-actions"):
        run, stop = handlers.buttons(name)
        over = gr.Button("Start over", elem_id=f"{name}-over", interactive=False, scale=1, min_width=110)
    with fold(name, form[0]):
        gr.HTML(lead, apply_default_css=False)
        inputs = form[1]()
    words = notice_area(f"{name}-notice", handlers.size(*(each.value for each in inputs)))
    mark = notice_area(f"{name}-recorded", opening.mark)
    known = handlers.parts(handlers.opening_result.result) if handlers.opening_result else []
    first = handlers.part_shown(handlers.opening_result.result) if known else None
    shown = gr.Radio(known, value=first, label=parts, visible=len(known) > 1, elem_id=f"{name}-shown")
    drawn = charts(opening.charts, f"{name}-charts", titles)
    table = component("table", opening.table, f"{name}-table")
    with gr.Row(elem_classes="sl-files"):
        files = download("Save the table (CSV)", f"{name}-csv"), download("Save all numbers (JSON)", f"{name}-json")
    outputs = handlers.Outputs(words, drawn, table, *more(opening), mark)
    wiring = Wiring(handlers, inputs, outputs, state, [run, stop, *files, over, shown])
    wiring.connect(run.click, handlers.run)
    wiring.connect(over.click, handlers.start_over)
    wiring.connect(table.again, handlers.replace_noise)
    shown.input(handlers.select_part, [state, shown], list(outputs), **QUIET)
    gr.on([each.change for each in inputs], handlers.size, inputs, words, **QUIET)
    return wiring

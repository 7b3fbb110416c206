"""Lays out the test of losslessness: a rule is chosen or broken on purpose, and judged by many seeded runs."""

from functools import partial
from typing import Any

import gradio as gr

from app.form import choices
from app.jobs.service import Service
from app.lab.controls import fold
from app.lab.distribution import view
from app.lab.distribution.handlers import CONTROLS, NAMES, QUICK, RuleTestHandlers
from app.lab.distribution.request import REVEALING
from app.lab.experiment import PageState
from app.lab.wiring import Wiring
from app.ui.charts import charts
from app.ui.html_component import component
from app.ui.notice import notice
from app.ui.widgets import QUIET, control, download, run_and_stop
from app.views.notice import notice as notice_value
from engine.tools.exactness.results import JSON_TOY, RIGHT, TOY, TOY_METHODS

LEAD = """<p class="sl-lab-lead">Speculative decoding promises the target's own distribution. Test it here. Every way
a text can begin has an exact probability, computed from the target alone. Many runs, each with its own seed, are then
counted against it.</p>
<dl class="sl-lossless-words">
<dt>Distance</dt><dd>half the sum of all gaps between seen and exact shares: 0 when all agree, 1 when nothing does.</dd>
<dt>p-value</dt><dd>how often a correct engine would differ at least so much by chance (χ², the sum of squared gaps).
Under 0.001 the output is called wrong. A correct engine fails this test once in 1,000 times.</dd>
<dt>α</dt><dd>the share of tested drafts that were accepted. A wrong rule can raise it, so a faster engine proves
nothing.</dd>
</dl>"""
BREAK = """<h3 class="sl-lossless-break">Break it</h3>
<p class="sl-lab-lead">Press a button to test one rule with the settings below. It adds a row to the table. Watch
α. The last button has a toy write JSON under a grammar, which wrong masks break.</p>"""
HIDING = """<p class="sl-lab-lead">Two bugs do not show up with the default settings. These buttons load settings that
reveal them, and test the correct rule first.</p>"""
NO_MODELS = "This page is shared and tests no real pair; the toy below needs no model."


def distribution(service: Service) -> Wiring:
    handlers, state = RuleTestHandlers(service), gr.State(PageState())
    opening = handlers.opening()
    with gr.Row(elem_classes="sl-actions"):
        run, stop = run_and_stop(handlers.RUN, "lossless")
    gr.HTML(BREAK, apply_default_css=False)
    with gr.Row(elem_classes="sl-lossless-quick"):
        quick = {RIGHT: _small("The right rule", RIGHT)} | {rule: _small(view.BUTTONS[rule], rule) for rule in QUICK}
        every = _small("Right, then every mistake", "every")
        masks = _small("Broken JSON: every mistake with masks", "masks")
    with fold("lossless", "models, a rule and how many runs"):
        gr.HTML(LEAD, apply_default_css=False)
        controls = _controls(service)
        gr.HTML(HIDING, apply_default_css=False)
        with gr.Row(elem_classes="sl-lossless-quick"):
            revealing = {rule: _small(view.BUTTONS[rule], rule) for rule in REVEALING}
    words = notice("lossless-notice", "" if service.runs.offers_experiments else notice_value("quiet", NO_MODELS))
    mark = notice("lossless-recorded", opening.mark)
    rules = component("table", opening.rules, "lossless-rules")
    drawn = charts(opening.charts, "lossless-charts", view.TITLES)
    outputs = handlers.Outputs(words, drawn, rules, component("table", opening.outcomes, "lossless-outcomes"), mark)
    with gr.Row(elem_classes="sl-files"):
        files = (
            download("Save everything (JSON)", "lossless-json"),
            download("Save the rules (CSV)", "lossless-rules-csv"),
            download("Save the last rule's outcomes (CSV)", "lossless-outcomes-csv"),
        )
    wiring = Wiring(handlers, list(controls.values()), outputs, state, [run, stop, *files])
    wiring.connect(run.click, handlers.run)
    wiring.connect(every.click, handlers.every)
    for rule, button in quick.items():
        chosen = button.click(
            partial(handlers.select_rule, rule=rule), controls["pair"], controls["rule"], **QUIET
        )  # fmt: skip
        wiring.connect(chosen.then, handlers.only(rule))
    for rule, button in revealing.items():
        filled = button.click(partial(handlers.reveal, rule), None, list(controls.values()), **QUIET)
        wiring.connect(filled.success, handlers.only(RIGHT, rule))
    filled = masks.click(partial(handlers.reveal, view.FIRST_MASK), None, list(controls.values()), **QUIET)
    wiring.connect(filled.success, handlers.every)
    both = [controls["pair"], controls["rule"]]
    controls["pair"].input(handlers.select_pair, both, [*controls.values(), words], **QUIET)
    return wiring


def _small(label: str, name: str) -> gr.Button:
    return gr.Button(label, elem_id=f"lossless-{name}", size="sm", min_width=140)


def _controls(service: Service) -> dict[str, Any]:
    """Lays out the controls, by name in the order of NAMES."""
    titles = {TOY: "The toy: three words, no model needed", JSON_TOY: "The toy that a grammar holds to JSON"}
    if service.runs.offers_experiments:
        titles |= service.offer.titles
    lists = {"pair": choices(titles), "rule": view.rule_choices(TOY), "method": choices(TOY_METHODS)}
    described, widgets = {each.name: each for each in CONTROLS}, {}

    def place(name: str, **layout) -> None:
        more = {"choices": lists[name]} if name in lists else {}
        widgets[name] = control(described[name], elem_id=f"lossless-{name}", **more, **layout)

    with gr.Row(equal_height=True):
        place("pair", min_width=240, scale=3)
        place("rule", min_width=260, scale=4)
        place("method", min_width=240, scale=3)
    place("prompt", visible=False)
    with gr.Row(equal_height=True):
        for name in ("gamma", "temperature", "top_k", "top_p"):
            place(name, min_width=210)
    with gr.Row(equal_height=True):
        for name in ("runs", "length", "first"):
            place(name, min_width=210)
    return {name: widgets[name] for name in NAMES}

"""Is it lossless? Seeded runs against the target's own distribution, and rules broken on purpose. Layout and wiring."""

import gradio as gr
from gradio.components import Component

from app.components.charts import charts
from app.components.controls import control
from app.components.notice import notice
from app.components.sheet import sheet
from app.controls import choices
from app.experiments.trials import RIGHT, SHOWS, TOY
from app.lab.distribution import CONTROLS, NAMES, QUICK, TOY_METHODS, Choices, Distribution, Screen
from app.service import Service
from app.views import lab_distribution as view
from app.views.notice import notice as said

LEAD = """<p class="sl-lab-lead">Speculative decoding promises the very distribution that the target would draw from
alone. That can be tested: the probability of every way a text can begin is computed exactly, from the target by itself;
then many runs are made, each with its own seed, and counted.</p>
<dl class="sl-lossless-words">
<dt>Distance</dt><dd>half the sum, over all outcomes, of the gap between how often it came and how often it should: 0
when all agree, 1 when nothing does.</dd>
<dt>p-value</dt><dd>how often an engine that is right would stray at least so far from the law by chance alone (by the
sum of squared gaps, χ²); under 0.001 the output is called wrong, so one right engine in a thousand is accused.</dd>
<dt>α</dt><dd>the share of tested drafts that were kept. A wrong rule can raise it, which is why a faster engine proves
nothing.</dd>
</dl>"""
BREAK = """<h3 class="sl-lossless-break">Break it</h3>
<p class="sl-lab-lead">Each button runs one rule with the settings above and adds a line to the table. Watch α.</p>"""
HIDING = """<p class="sl-lab-lead">Two mistakes hide behind the settings that the toy starts with. Each of these
buttons brings settings of the toy under which one shows, and runs the right rule before it.</p>"""
NAMED = {
    "raw-q": "q before temperature",
    "argmax-drafts": "Favourites tested as draws",
    "no-residual": "Replacement from p",
    "u-reused-for-closing": "One u, used twice",
    "sibling-q": "The first sibling's q",
}
NO_MODELS = "This page is shared and tests no real pair; the toy below needs no model."
PRIVATE = {"show_progress": "hidden", "api_visibility": "private"}


def distribution(service: Service) -> None:
    handlers = Distribution(service)
    found = gr.State({})
    gr.HTML(LEAD, apply_default_css=False)
    asked = _controls(service)
    with gr.Row(elem_classes="sl-actions"):
        run = gr.Button("Run", variant="primary", elem_id="lossless-run", scale=3, min_width=140)
        stop = gr.Button("Stop", elem_id="lossless-stop", interactive=False, scale=1, min_width=90)
    gr.HTML(BREAK, apply_default_css=False)
    with gr.Row(elem_classes="sl-lossless-quick"):
        right = gr.Button("The right rule", elem_id="lossless-right", size="sm", min_width=140)
        quick = {rule: gr.Button(NAMED[rule], elem_id=f"lossless-{rule}", size="sm", min_width=140) for rule in QUICK}
        every = gr.Button("Right, then every mistake", elem_id="lossless-every", size="sm", min_width=140)
    gr.HTML(HIDING, apply_default_css=False)
    with gr.Row(elem_classes="sl-lossless-quick"):
        reveal = {rule: gr.Button(NAMED[rule], elem_id=f"lossless-{rule}", size="sm", min_width=140) for rule in SHOWS}
    told = notice("lossless-notice", "" if service.limits.lab_seconds else said("quiet", NO_MODELS))
    rules = sheet("lossless-rules", view.rules({}))
    drawn = charts(view.blank(), "lossless-charts", view.TITLES)
    outcomes = sheet("lossless-outcomes", view.outcomes(None))
    with gr.Row(elem_classes="sl-files"):
        files = (
            _download("Save everything (JSON)", "lossless-json"),
            _download("Save the rules (CSV)", "lossless-rules-csv"),
            _download("Save the last rule's outcomes (CSV)", "lossless-outcomes-csv"),
        )
    screen = Screen(told, run, stop, asked["rule"], drawn, rules, outcomes, *files, found)
    # Our own line decides who is next, so that a visitor can be told their place; all who may wait in it get in here.
    queued = {"concurrency_limit": 2 * service.limits.queue + 2, "concurrency_id": "lossless"}
    inputs = [found, *asked.values()]
    pressed = {run: handlers.run, right: handlers.only("right"), every: handlers.every}
    pressed |= {button: handlers.only(rule) for rule, button in quick.items()}
    for button, handler in pressed.items():
        button.click(handler, inputs, list(screen), **queued, **PRIVATE)
    for rule, button in reveal.items():
        filled = button.click(handlers.revealing(rule), None, list(asked.values()), queue=False, **PRIVATE)
        filled.success(handlers.only(RIGHT, rule), inputs, list(screen), **queued, **PRIVATE)
    # Beside the queue: a Stop that waits behind the runs it is to stop would be no Stop.
    stop.click(handlers.stop, queue=False, **PRIVATE)
    follows = Choices(**{name: asked[name] for name in Choices._fields if name != "notice"}, notice=told)
    asked["pair"].input(handlers.chosen, [asked["pair"], asked["rule"]], list(follows), queue=False, **PRIVATE)


def _controls(service: Service) -> dict[str, Component]:
    """By name, in the order of NAMES."""
    titles = {TOY: "The toy: three words, no model needed"}
    if service.limits.lab_seconds:
        titles |= {pair.name: pair.title for pair in service.pairs.values()}
    lists = {
        "pair": choices(titles), "rule": view.rule_choices(toy=True), "method": choices(TOY_METHODS),
    }  # fmt: skip
    told, made = {each.name: each for each in CONTROLS}, {}

    def place(name: str, **layout) -> None:
        more = {"choices": lists[name]} if name in lists else {}
        made[name] = control(told[name], elem_id=f"lossless-{name}", **more, **layout)

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
    return {name: made[name] for name in NAMES}


def _download(label: str, name: str) -> gr.DownloadButton:
    return gr.DownloadButton(label, interactive=False, elem_id=name, min_width=140)

"""The sweep: what to measure on one side, what came out below."""

import gradio as gr

from app.components.charts import charts
from app.components.notice import notice
from app.components.production import production
from app.components.sheet import sheet
from app.experiments.sweep import prompts
from app.lab.sweep import GAMMAS, MOST_EACH, MOST_REPEATS, TEMPERATURES, Screen, Sweeping, Swept
from app.service import Service
from app.views.lab_sweep import blank

LEAD = """<p class="sl-lab-lead">Each turn runs one prompt once without drafting and once with every setting, one after
the other, so that all share whatever else the machine is doing. The speedup is their ratio. Whatever is measured is
kept: a sweep that was stopped goes on where it was.</p>"""
TITLES = {"sweep-heat": "Speedup on each kind of text", "sweep-lengths": "Speedup against the draft length"}
PRIVATE = {"show_progress": "hidden", "api_visibility": "private"}
QUIET = {"queue": False} | PRIVATE


def sweep(service: Service) -> None:
    handlers = Sweeping(service)
    gr.HTML(LEAD, apply_default_css=False)
    inputs = _controls(service, handlers)
    with gr.Row(elem_classes="sl-actions"):
        run = gr.Button("Run the sweep", variant="primary", elem_id="sweep-run", scale=3, min_width=160)
        stop = gr.Button("Stop", elem_id="sweep-stop", interactive=False, scale=1, min_width=90)
        over = gr.Button("Start over", elem_id="sweep-over", scale=1, min_width=110)
    told, result = notice("sweep-notice", handlers.size(*(each.value for each in inputs))), gr.State(Swept())
    shown = gr.Radio([], label="Shown at temperature", visible=False, elem_id="sweep-shown")
    drawn = charts(blank(), "sweep-charts", TITLES)
    table = sheet("sweep-table")
    with gr.Row(elem_classes="sl-files"):
        csv = gr.DownloadButton("Save the table (CSV)", interactive=False, elem_id="sweep-csv", min_width=140)
        json = gr.DownloadButton("Save all numbers (JSON)", interactive=False, elem_id="sweep-json", min_width=140)
    recipes = production("", "sweep-production", "The best setting, in other engines")
    outputs = list(Screen(told, run, stop, result, shown, drawn, table, recipes, csv, json))
    waiting = {"concurrency_limit": 2 * service.limits.queue + 2, "concurrency_id": "run"}
    run.click(handlers.run, inputs, outputs, **waiting, **PRIVATE)
    over.click(handlers.start_over, inputs, outputs, **waiting, **PRIVATE)
    stop.click(handlers.stop, **QUIET)
    shown.input(handlers.look, [result, shown], outputs, **QUIET)
    gr.on([each.change for each in inputs], handlers.size, inputs, told, **QUIET)


def _controls(service: Service, handlers: Sweeping) -> list:
    """In the order of app.lab.sweep.planned."""
    offered = [method for method in service.methods(service.pair) if method != "none"]
    with gr.Row():
        pair = gr.Dropdown(
            [(each.title, each.name) for each in service.pairs.values()], value=service.pair, label="Models",
            info="The target, and what drafts for it.", elem_id="sweep-pair", min_width=220,
        )  # fmt: skip
        methods = gr.CheckboxGroup(
            offered, value=offered, label="Methods", info="What guesses ahead.", elem_id="sweep-methods", min_width=220
        )
    with gr.Row():
        gammas = gr.CheckboxGroup(
            GAMMAS, value=["1", "2", "4", "auto"], label="Draft lengths γ", elem_id="sweep-gammas", min_width=260,
            info="Tokens guessed in a round; auto chooses anew each round.",
        )  # fmt: skip
        temperatures = gr.CheckboxGroup(
            [(f"{t:g}", t) for t in TEMPERATURES], value=[0.0], label="Temperatures",
            info="0 is greedy: the likeliest token.", elem_id="sweep-temperatures", min_width=220,
        )  # fmt: skip
    kinds = gr.CheckboxGroup(
        list(prompts()), value=["chat", "code", "rewrite"], label="Kinds of text", elem_id="sweep-kinds",
        info="Prompts that no draft was trained on.",
    )  # fmt: skip
    with gr.Row():
        each = gr.Slider(1, MOST_EACH, 1, step=1, label="Texts of each kind", elem_id="sweep-each", min_width=160,
                         info="More texts, narrower intervals.")  # fmt: skip
        repeats = gr.Slider(1, MOST_REPEATS, 1, step=1, label="Repeats", elem_id="sweep-repeats", min_width=160,
                            info="Everything so many times, each with another seed.")  # fmt: skip
        tokens = gr.Slider(8, min(256, service.limits.new_tokens), min(48, service.limits.new_tokens), step=8,
                           label="Max tokens", info="Of each run.", elem_id="sweep-tokens", min_width=160)  # fmt: skip
    own = gr.Textbox(label="Also a text of your own", lines=2, max_lines=8, elem_id="sweep-own",
                     info="It counts as a kind of its own. Empty: only the kinds above.")  # fmt: skip
    pair.change(handlers.offered, [pair, methods], methods, **QUIET)
    return [pair, methods, gammas, temperatures, kinds, each, own, repeats, tokens]

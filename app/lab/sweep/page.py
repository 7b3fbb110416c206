"""Lays out the sweep: what to measure, and the charts and tables of the results."""

from typing import Any

import gradio as gr

from app.jobs.service import Service
from app.lab.controls import methods_control, pair_control
from app.lab.in_parts import lay_out
from app.lab.sweep.handlers import GAMMAS, MOST_EACH, MOST_REPEATS, TEMPERATURES, SweepHandlers
from app.lab.sweep.work import prompts
from app.lab.wiring import Wiring
from app.ui.html_component import component
from app.ui.widgets import QUIET
from engine.config import METHODS

LEAD = """<p class="sl-lab-lead">Each turn runs one prompt without drafting, then once with every setting. The speedup
is their ratio, so both share whatever else the machine is doing. Stop keeps every finished turn, and the same
sweep goes on from there.</p>"""
TITLES = {"sweep-heat": "Speedup on each kind of text", "sweep-lengths": "Speedup against the draft length"}


def sweep(service: Service) -> Wiring:
    handlers = SweepHandlers(service)

    def recipes(opening) -> list[Any]:
        title = "The best setting, in other engines"
        return [component("engine_recipes", opening.recipes, "sweep-production", title=title)]

    form = "methods, draft lengths and texts", lambda: _controls(service, handlers)
    return lay_out(handlers, "sweep", LEAD, form, TITLES, "Shown at temperature", recipes)


def _controls(service: Service, handlers: SweepHandlers) -> list:
    """Lays out the controls, in the order of handlers.parse_form."""
    methods = handlers.drafting_methods(service.offer.pair)
    # Leaves out the int4 copy (not every device has it), methods that share weights, and those that are rarely fastest.
    kinds = {name: METHODS[name] for name in methods}
    usual = [name for name, kind in kinds.items() if kind.competes and kind.reads != "copy" and not kind.shares]
    with gr.Row():
        pair = pair_control(service, "sweep")
        ticked = methods_control("sweep", methods, usual, "What guesses ahead.")
    with gr.Row():
        gammas = gr.CheckboxGroup(
            GAMMAS, value=["1", "2", "4", "auto"], label="Draft lengths γ", elem_id="sweep-gammas", min_width=260,
            info="Tokens guessed in a round; auto chooses again for each round.",
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
        repeats = gr.Slider(1, MOST_REPEATS, 3, step=1, label="Repeats", elem_id="sweep-repeats", min_width=160,
                            info="Repeats of the whole sweep, each with a different seed.")  # fmt: skip
        tokens = gr.Slider(8, min(256, service.limits.new_tokens), min(48, service.limits.new_tokens), step=8,
                           label="Max tokens", info="The longest that a run may get.", elem_id="sweep-tokens",
                           min_width=160)  # fmt: skip
    own = gr.Textbox(label="Also a text of your own", lines=2, max_lines=8, elem_id="sweep-own",
                     info="It counts as a kind of its own. Leave it empty to use only the kinds above.")  # fmt: skip
    pair.change(handlers.select_pair, [pair, ticked], ticked, **QUIET)
    return [pair, ticked, gammas, temperatures, kinds, each, own, repeats, tokens]

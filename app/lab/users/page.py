"""Lays out the experiment with many users: what to measure, and the charts and the table of the results."""

import gradio as gr

from app.jobs.service import Service
from app.lab.controls import methods_control, pair_control
from app.lab.in_parts import lay_out
from app.lab.users.handlers import GAMMAS, MOST_REPEATS, MOST_USERS, UsersHandlers
from app.lab.users.view import CHARTS, CONTEXTS
from app.lab.users.work import SHORT
from app.lab.wiring import Wiring
from app.ui.widgets import QUIET
from engine.config import AUTO
from engine.tools.bench.answer import usual

LEAD = """<p class="sl-lab-lead">Users who ask at once share each pass of the target. So do drafts: both want the
arithmetic that one user leaves idle. Measure from how many users on drafting no longer pays. Stop at any time: the
points so far are kept.</p>"""


def users(service: Service) -> Wiring:
    handlers = UsersHandlers(service)
    form = "numbers of users, methods and prompts", lambda: _controls(service, handlers)
    return lay_out(handlers, "users", LEAD, form, CHARTS, "Shown")


def _controls(service: Service, handlers: UsersHandlers) -> list:
    """Lays out the controls, in the order of handlers.parse_form."""
    methods = handlers.drafting_methods(service.offer.pair)
    with gr.Row():
        pair = pair_control(service, "users")
        numbers = gr.Textbox(
            "1, 2, 4, 8, 16", label="Users at once", info=f"Numbers from 1 to {MOST_USERS}, with commas.",
            elem_id="users-numbers", max_lines=1, min_width=220,
        )  # fmt: skip
    with gr.Row():
        first = [*usual(name for name in methods if name != AUTO), AUTO]
        ticked = methods_control("users", methods, first, "Compared with plain decoding.")
        gamma = gr.Radio(
            GAMMAS, value="2", label="Draft length γ", elem_id="users-gamma", min_width=260,
            info="The same for every method; auto chooses its own.",
        )  # fmt: skip
    with gr.Row():
        contexts = gr.CheckboxGroup(
            [(words, name) for name, words in CONTEXTS.items()], value=[SHORT], label="Prompts", min_width=260,
            info="A long text makes every user's cache large.", elem_id="users-contexts",
        )  # fmt: skip
        limit = min(256, service.limits.new_tokens)
        tokens = gr.Slider(8, limit, min(32, limit), step=8, label="Max tokens", elem_id="users-tokens", min_width=160,
                           info="The longest that an answer may get.")  # fmt: skip
        repeats = gr.Slider(1, MOST_REPEATS, 3, step=1, label="Repeats", elem_id="users-repeats", min_width=160,
                            info="How often each point is measured. More repeats give narrower intervals.")  # fmt: skip
    pair.change(handlers.select_pair, [pair, ticked], ticked, **QUIET)
    return [pair, ticked, numbers, gamma, contexts, tokens, repeats]

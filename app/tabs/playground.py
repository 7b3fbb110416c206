"""The first screen: ask, run, see every verdict and what it was worth."""

import gradio as gr

from app.components.notice import notice
from app.components.ribbon import ribbon
from app.components.tiles import tiles
from app.examples import EXAMPLES, START
from app.handlers import Handlers, Screen
from app.opening import opening
from app.service import Service
from app.session import Session
from app.tabs.results import connect, results
from engine.config import AUTO

METHODS = {
    AUTO: "auto: the fastest on this machine",
    "ngram": "n-gram lookup: copies what came before",
    "lm": "draft model: a small model guesses",
    "eagle": "EAGLE head: guesses from the model's own states",
    "none": "none: plain decoding, the baseline",
}
MAX_GAMMA = 16  # the engine takes 32; past 16 a chain only loses here


def playground(service: Service) -> None:
    handlers = Handlers(service)
    session = gr.State(Session())
    with gr.Row(elem_classes="sl-ask", equal_height=True):
        with gr.Column(scale=7, min_width=320, elem_classes="sl-prompt"):
            prompt = _prompt(service)
            with gr.Row(elem_classes="sl-actions"):
                run = gr.Button("Run", variant="primary", elem_id="run", scale=3, min_width=140)
                stop = gr.Button("Stop", variant="secondary", elem_id="stop", interactive=False, scale=1, min_width=90)
        with gr.Column(scale=5, min_width=320, elem_classes="sl-settings"):
            controls = _controls(service)
    above, rounds, numbers = notice(), ribbon(opening()), tiles()
    below = results(service, controls[:4])
    screen = Screen(rounds, numbers, above, run, stop, session, *below.shown)
    started = gr.on(
        [run.click, prompt.submit],
        handlers.run,
        [prompt, *controls],
        list(screen),
        api_name="run",
        show_progress="hidden",
        # The engine's own queue decides who is next, so that a visitor can be told their place.
        concurrency_limit=service.limits.queue + 2,
        concurrency_id="run",
    )
    connect(below, screen, started, controls[:4])
    rounds.missing(handlers.whole, session, rounds, queue=False, show_progress="hidden", api_visibility="private")
    # Beside the queue: a Stop that waits behind the run it is to stop would be no Stop.
    stop.click(handlers.stop, queue=False, show_progress="hidden", api_visibility="private")


def _prompt(service: Service) -> gr.Textbox:
    limits = service.limits
    prompt = gr.Textbox(
        START,
        label="Prompt",
        info=f"Up to {limits.prompt_chars:,} characters in, {limits.new_tokens:,} tokens out. Shift + Enter runs it.",
        lines=7,
        max_lines=16,
        elem_id="prompt",
    )
    with gr.Row(elem_classes="sl-examples"):
        for name, text in EXAMPLES.items():
            example = gr.Button(name, size="sm", variant="secondary", min_width=60)
            example.click(lambda text=text: text, None, prompt, queue=False, api_visibility="private")
    return prompt


def _controls(service: Service) -> list:
    method = gr.Dropdown(
        [(METHODS.get(name, name), name) for name in (AUTO, *service.methods())],
        value=AUTO,
        label="Method",
        info="What guesses ahead of the model.",
        elem_id="method",
    )
    with gr.Row(elem_classes="sl-gamma", equal_height=True):
        auto = gr.Checkbox(True, label="auto", elem_id="gamma-auto", scale=0, min_width=0)
        gamma = gr.Slider(0, MAX_GAMMA, 4, step=1, label="Draft length γ", interactive=False, elem_id="gamma")
    with gr.Row(equal_height=True):
        temperature = gr.Slider(0, 2, 0, step=0.05, label="Temperature", elem_id="temperature", scale=2, min_width=260)
        seed = gr.Number(0, label="Seed", precision=0, elem_id="seed", min_width=80)
        tokens = gr.Number(
            min(128, service.limits.new_tokens), label="Max tokens", precision=0, elem_id="tokens", min_width=80
        )
    auto.change(
        lambda on: gr.update(interactive=not on),
        auto,
        gamma,
        queue=False,
        show_progress="hidden",
        api_visibility="private",
    )
    return [method, auto, gamma, temperature, seed, tokens]

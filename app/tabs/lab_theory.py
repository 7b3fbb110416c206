"""Not there yet."""

import gradio as gr

from app.service import Service


def theory(service: Service, session: gr.State) -> None:
    gr.HTML("", apply_default_css=False)

"""Not there yet."""

import gradio as gr

from app.service import Service


def synthetic(service: Service) -> None:
    gr.HTML("", apply_default_css=False)

"""Not there yet."""

import gradio as gr

from app.service import Service


def compare(service: Service) -> None:
    gr.HTML("", apply_default_css=False)

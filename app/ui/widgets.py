"""Builds the widgets that several tabs share, and names what a handler returns."""

from typing import Any

import gradio as gr

from app.form import Control, choices

PRIVATE: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
QUIET: dict[str, Any] = {"queue": False, **PRIVATE}  # at once: Stop, for one, must not wait for the run it cancels
SKIP = gr.skip()  # an output that a handler does not name stays as it is
# Because a browser fires no event when the same file is chosen again, a refused file could not be retried.
FORGET = "() => document.querySelectorAll('input[type=file]').forEach(input => { input.value = ''; })"


def streams(limit: int) -> dict[str, Any]:
    """Returns the options of an event that streams a run. ``limit``: all that may be open at once, because the engine's
    own queue decides who is next. A second press may stream before the first, which it ends, has ended."""
    return {"concurrency_limit": limit, "trigger_mode": "multiple"} | PRIVATE


def control(described: Control, **layout: Any) -> Any:
    """Returns the widget, whose events only Gradio knows; its element's id is the control's name. ``layout`` (scale,
    min_width, …) goes to Gradio."""
    common: dict[str, Any] = {"label": described.label, "info": described.hint, "elem_id": described.name} | layout
    match described.kind:
        case "text":
            lines: dict[str, Any] = {"lines": described.lines, "max_lines": max(16, described.lines)}
            return gr.Textbox(described.default, **lines | common)
        case "switch":
            return gr.Checkbox(described.default, **common)
        case "slider":
            return gr.Slider(described.low, described.high, described.default, step=described.step, **common)
        case "number":
            return gr.Number(described.default, precision=0, **common)
        case "choice" if "choices" in layout or len(described.choices) > 3:
            options: dict[str, Any] = {"choices": choices(described.choices)} | common
            return gr.Dropdown(value=described.default, **options)
        case "choice":
            return gr.Radio(choices(described.choices), value=described.default, **common)
    raise ValueError(f"no widget for a control of kind {described.kind!r}")


def download(label: str, elem_id: str) -> gr.DownloadButton:
    """Makes a download button, which is disabled until it has a file."""
    return gr.DownloadButton(label, interactive=False, elem_id=elem_id, min_width=140)


def open_files(label: str, elem_id: str) -> gr.UploadButton:
    """Makes a button that opens one or several files."""
    button = gr.UploadButton(label, file_count="multiple", elem_id=elem_id, min_width=140)
    button.upload(None, js=FORGET, api_visibility="private")
    return button


def run_and_stop(run: str, name: str, can_run: bool = True) -> tuple[gr.Button, gr.Button]:
    start = gr.Button(
        run, variant="primary", elem_id=f"{name}-run", scale=3, min_width=220, interactive=can_run
    )  # fmt: skip
    return start, gr.Button("Stop", elem_id=f"{name}-stop", interactive=False, scale=1, min_width=90)

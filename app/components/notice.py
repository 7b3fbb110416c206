"""The banner above the results. The value is views.notice; its text may quote the visitor, so it is only ever text."""

import gradio as gr

from app.components.live import live

TEMPLATE = """
<div class="sl-notice" data-kind="quiet">
  <p class="sl-words" role="status" aria-live="polite"></p>
  <p class="sl-alert" role="alert"></p>
  <div class="sl-progress" hidden><div></div></div>
</div>
"""


def notice(name: str = "notice", value: str = "") -> gr.HTML:
    """``name``: the element's id; the playground's is plainly "notice"."""
    made = live(name, TEMPLATE, ["notice.js"], value)
    # In the queue, for a request beside it would open no stream; and ever again, for this one may be lost as well.
    always = {"concurrency_limit": None, "trigger_mode": "multiple"}
    made.unheard(lambda: None, None, None, show_progress="hidden", api_visibility="private", **always)
    return made

"""The chip beside the heading: what the engine is up to.

It asks for that over HTTP, without gradio's queue and session, because thirty pages ask every two seconds; its value is
the visitor's own place, told by their own run. Its event ``settled`` comes once, when the page is open and no model is
being loaded: then the engine can be asked.
"""

import gradio as gr

from app.components.live import live

TEMPLATE = """
<p class="sl-chip" data-kind="asleep" role="status" aria-live="polite">
  <span class="sl-chip-dot" aria-hidden="true"></span><span class="sl-chip-words"></span>
</p>
"""


def chip() -> gr.HTML:
    return live("chip", TEMPLATE)

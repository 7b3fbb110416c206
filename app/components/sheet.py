"""A table. The value is views.sheet; a cell may be marked as the best of its column."""

import gradio as gr

from app.components.live import live

TEMPLATE = """
<div class="sl-panel sl-sheet" hidden>
  <p class="sl-sheet-caption"></p>
  <div class="sl-sheet-scroll" tabindex="0" role="region"><table><thead></thead><tbody></tbody></table></div>
</div>
"""


def sheet(name: str, value: str = "") -> gr.HTML:
    return live(name, TEMPLATE, ["lab/sheet.js"], value)

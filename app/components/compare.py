"""Runs side by side, round by round or text by text. The value is the NDJSON of views.lab_compare; what the player
knows about rounds and tokens is reused, the rest is in assets/lab/."""

import gradio as gr

from app.components.live import live
from app.components.ribbon import legend

SCRIPTS = [f"player/{name}.js" for name in ("dom", "tape", "words", "tip")]
SCRIPTS += [f"lab/{name}.js" for name in ("compare-rows", "compare-cells", "compare")]
TEMPLATE = f"""
<div class="sl-compare" data-by="round" hidden>
  <div class="sl-compare-bar">
    <div class="sl-compare-switch" role="group" aria-label="How the rows are cut">
      <button type="button" class="sl-button" data-by="round" aria-pressed="true">By round</button>
      <button type="button" class="sl-button" data-by="text" aria-pressed="false">By text</button>
    </div>
    <p class="sl-compare-why"></p>
  </div>
  <div class="sl-panel sl-compare-panel">
    <div class="sl-compare-frame" tabindex="0" role="region"
      aria-label="The runs side by side. The down arrow enters them.">
      <div class="sl-compare-table" role="table" aria-label="Runs side by side">
        <div class="sl-compare-names" role="row"></div>
        <div class="sl-compare-facts" role="row"></div>
        <div class="sl-compare-rows" role="rowgroup"></div>
      </div>
    </div>
    <ul class="sl-legend" aria-label="What the marks mean">{legend()}
      <li><span class="sl-token sl-plain sl-parted"><span class="sl-piece">word</span></span> the text is no longer
        that of run 1</li>
      <li><span class="sl-token sl-plain sl-pass"><span class="sl-piece">word</span></span> by text: a new target pass
        begins</li></ul>
  </div>
  <div class="sl-tip" role="tooltip" hidden></div>
</div>
"""


def compare(name: str, value: str = "") -> gr.HTML:
    return live(name, TEMPLATE, SCRIPTS, value)

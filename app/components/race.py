"""Both lanes on one clock, played from their timestamps. The value is views.race."""

import gradio as gr

from app.components.live import live

TEMPLATE = """
<section class="sl-panel sl-race" aria-labelledby="sl-race-title">
  <h2 id="sl-race-title">Race</h2>
  <p class="sl-race-note"></p>
  <div class="sl-race-stage" hidden>
    <div class="sl-race-controls">
      <button type="button" class="sl-race-play">Play</button>
      <label>Speed <select class="sl-race-speed"></select></label>
      <span class="sl-race-pace"></span>
      <span class="sl-race-clock"></span>
    </div>
    <div class="sl-lanes"></div>
    <p class="sl-race-axis" aria-hidden="true"></p>
    <p class="sl-race-result" role="status"></p>
  </div>
</section>
"""


def race(value: str) -> gr.HTML:
    return live("race", TEMPLATE, value=value)

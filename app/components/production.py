"""The same settings for other engines, to copy. The value is views.production."""

import gradio as gr

from app.components.live import live

TEMPLATE = """
<section class="sl-panel sl-production" aria-labelledby="sl-production-title">
  <h2 id="sl-production-title">Take it to production</h2>
  <p class="sl-production-lead"></p>
  <div class="sl-engines" role="tablist" aria-label="Engine"></div>
  <div class="sl-recipe" role="tabpanel" id="sl-recipe" tabindex="0">
    <p class="sl-recipe-version"></p>
    <pre class="sl-recipe-code"></pre>
    <button type="button" class="sl-recipe-copy">Copy</button>
    <p class="sl-recipe-note"></p>
  </div>
</section>
"""


def production(value: str) -> gr.HTML:
    return live("production", TEMPLATE, value=value)

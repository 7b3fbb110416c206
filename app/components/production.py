"""The same settings for other engines, to copy. The value is views.production."""

import gradio as gr

from app.components.live import live

TEMPLATE = """
<section class="sl-panel sl-production" aria-labelledby="sl-NAME-title">
  <h2 id="sl-NAME-title">TITLE</h2>
  <p class="sl-production-lead"></p>
  <div class="sl-engines" role="tablist" aria-label="Engine"></div>
  <div class="sl-recipe" role="tabpanel" id="sl-NAME-recipe" tabindex="0">
    <p class="sl-recipe-version"></p>
    <pre class="sl-recipe-code"></pre>
    <button type="button" class="sl-recipe-copy">Copy</button>
    <p class="sl-recipe-note"></p>
  </div>
</section>
"""


def production(value: str, name: str = "production", title: str = "Take it to production") -> gr.HTML:
    """``name`` is the element's id."""
    template = TEMPLATE.replace("NAME", name).replace("TITLE", title)
    return live(name, template, ["production.js"], value)

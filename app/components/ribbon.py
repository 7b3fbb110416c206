"""The output text beside the rounds that made it, one row a round. The value is the NDJSON of views.ribbon."""

import gradio as gr

from app.components.live import live

# status → mark, word, what it means. Colours are in assets/ribbon.css; a status is never colour alone.
LEGEND = {
    "accepted": ("✓", "a draft the target kept"),
    "rejected": ("", "the first draft it refused"),
    "resampled": ("↻", "drawn in its place"),
    "bonus": ("+", "one more after a fully kept round"),
    "discarded": ("", "a draft behind a refusal, never tested"),
    "plain": ("·", "made without a draft"),
}


def legend() -> str:
    return "".join(
        f'<li><span class="sl-token sl-{status}"><span class="sl-mark">{mark}</span>'
        f'<span class="sl-piece">{status}</span></span> {meaning}</li>'
        for status, (mark, meaning) in LEGEND.items()
    )


TEMPLATE = f"""
<div class="sl-ribbon">
  <section class="sl-panel sl-output" aria-labelledby="sl-output-title">
    <h2 id="sl-output-title">Output</h2>
    <div class="sl-text" tabindex="0" role="region" aria-label="Output text"></div>
    <p class="sl-compared"></p>
  </section>
  <section class="sl-panel sl-rounds" aria-labelledby="sl-rounds-title">
    <h2 id="sl-rounds-title">Rounds</h2>
    <ul class="sl-legend" aria-label="What the marks mean">{legend()}</ul>
    <p class="sl-empty">Each round becomes a row: the drafts in order, the target's verdict on each,
      and the token that closes it.</p>
    <ol class="sl-rows" aria-label="Rounds, oldest first"></ol>
    <p class="sl-hint">Point at a token, or use the arrow keys, to see its numbers.</p>
  </section>
  <div class="sl-tip" role="tooltip" hidden></div>
  <p class="sl-unseen" aria-live="polite"></p>
</div>
"""


def ribbon() -> gr.HTML:
    return live("ribbon", TEMPLATE)

"""The lessons: a list, and the open one beside a player of its own. The value is the list of views.lesson; a lesson's
page is fetched when it is opened. Everything else is in assets/lessons/ and runs in the browser."""

import gradio as gr

from app.components import ribbon
from app.components.live import live

PARTS = (
    "prose",
    "ask",
    "figures",
    "roofline",
    "dice",
    "curve",
    "memory",
    "crowd",
    "merges",
    "cuts",
    "adding",
    "price",
    "progress",
    "coach",
    "print",
    "stage",
    "lesson",
)
SCRIPTS = [script for script in ribbon.SCRIPTS if not script.endswith("/mount.js")]
SCRIPTS += [f"lessons/{name}.js" for name in PARTS]


def _player() -> str:
    """The ribbon's own template; its ids stand on the page already."""
    return ribbon.TEMPLATE.replace('id="sl-', 'id="sl-lesson-').replace('labelledby="sl-', 'labelledby="sl-lesson-')


TEMPLATE = f"""
<div class="sl-lessons" data-open="list">
  <section class="sl-lesson-list" aria-labelledby="sl-lesson-list-title">
    <h2 id="sl-lesson-list-title">Lessons</h2>
    <p class="sl-lesson-lead">Short, with something to do in each. Every lesson works without a model, from runs that
      were recorded on a real one; where a model is loaded, it goes live.</p>
    <ol class="sl-lesson-cards"></ol>
    <button type="button" class="sl-button sl-lesson-forget" data-lesson="forget">Forget my progress</button>
  </section>
  <div class="sl-lesson-open">
    <article class="sl-panel sl-lesson-page" aria-labelledby="sl-lesson-title">
      <p class="sl-lesson-top"><button type="button" class="sl-button" data-lesson="list">All lessons</button>
        <span class="sl-lesson-where"></span></p>
      <h2 id="sl-lesson-title" tabindex="-1"></h2>
      <ol class="sl-lesson-steps" aria-label="Steps"></ol>
      <div class="sl-lesson-body"></div>
      <p class="sl-lesson-turn" role="status"></p>
      <div class="sl-lesson-nav">
        <button type="button" class="sl-button" data-lesson="back" title="Back (B)">Back</button>
        <button type="button" class="sl-button sl-lesson-next" data-lesson="next" title="Next (N)">Next</button>
        <button type="button" class="sl-button" data-lesson="live">Run it live</button>
      </div>
      <p class="sl-lesson-keys"><kbd>B</kbd> back <kbd>N</kbd> next <kbd>1</kbd>–<kbd>4</kbd> choose an answer</p>
      <details class="sl-lesson-teacher"><summary>For the teacher</summary><div></div>
        <button type="button" class="sl-button" data-lesson="print">Print the whole lesson</button></details>
    </article>
    <section class="sl-lesson-stage" aria-label="The run of this lesson">
      <p class="sl-lesson-caption"></p>
      {_player()}
    </section>
  </div>
  <p class="sl-lesson-problem" role="alert"></p>
  <div class="sl-define" role="tooltip" id="sl-define" hidden></div>
</div>
"""


def lesson(value: str) -> gr.HTML:
    return live("lesson", TEMPLATE, SCRIPTS, value)

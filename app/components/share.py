"""Share and present: a bar with two buttons, and a dialog that makes a link. The value is of app.sharing.

The script reads and writes the address bar; it asks the server for what a link means, and never runs anything.
"""

import gradio as gr

from app.components.live import live

WARNING = (
    "The prompt is part of the link. Whoever gets the link can read it, and so can every browser history and server "
    "log on its way: share no prompt that you would not post."
)


def _tick(name: str, label: str, advanced: bool) -> str:
    more = " data-advanced" if advanced else ""
    return f'<label><input type="checkbox" name="hide" value="{name}"{more}> {label}</label>'


def _template(controls: dict[str, tuple[str, bool]]) -> str:
    ticks = "".join(_tick(name, *told) for name, told in controls.items())
    return f"""
<div class="sl-share-bar">
  <button type="button" class="sl-button" data-share="open">Share</button>
  <button type="button" class="sl-button" data-share="present" aria-pressed="false"
    title="Presentation (P)">Present</button>
</div>
<dialog class="sl-share" aria-labelledby="sl-share-title">
  <h2 id="sl-share-title">Share this page</h2>
  <p>The link opens this page with the controls as they stand now. Nothing runs until Run is pressed.</p>
  <details>
    <summary>For a class: hide controls, open as a presentation</summary>
    <fieldset><legend>Hide (each keeps its value)</legend><div class="sl-share-ticks">{ticks}</div></fieldset>
    <label class="sl-share-present"><input type="checkbox" name="present"> Open in presentation mode:
      large type, no clutter</label>
  </details>
  <label class="sl-share-label" for="sl-share-link">Link</label>
  <div class="sl-share-row">
    <input id="sl-share-link" type="text" readonly spellcheck="false">
    <button type="button" class="sl-button" data-share="copy">Copy link</button>
  </div>
  <p class="sl-share-said" role="status"></p>
  <p class="sl-share-warning">{WARNING}</p>
  <div class="sl-share-row">
    <button type="button" class="sl-button" data-share="show" hidden>Show all controls here</button>
    <button type="button" class="sl-button" data-share="close">Close</button>
  </div>
</dialog>
"""


def share(controls: dict[str, tuple[str, bool]]) -> gr.HTML:
    """``controls``: name → label, and whether it is among the rarer ones."""
    return live("share", _template(controls), ["share/address.js", "share/share.js"])

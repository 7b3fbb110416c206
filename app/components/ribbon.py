"""The player: output, rounds, inspector and transport. The value is the NDJSON of views.ribbon; all else is in
assets/player/, which runs in the browser and needs no server to step, inspect or re-roll."""

import gradio as gr

from app.components.live import live

SCRIPTS = [
    f"player/{name}.js"
    for name in (
        "dom", "tape", "words", "chances", "rows", "output", "distributions", "inspector", "tip", "playhead", "keys",
        "walk", "feed", "player", "mount",
    )
]  # fmt: skip

# status → mark, word, what it means. Colours are in assets/player.css; a status is never colour alone.
LEGEND = {
    "waiting": ("?", "draft", "guessed, no verdict yet"),
    "accepted": ("✓", "accepted", "a draft the target kept"),
    "rejected": ("", "rejected", "the first draft it refused"),
    "resampled": ("↻", "resampled", "drawn in its place"),
    "bonus": ("+", "bonus", "one more after a fully kept round"),
    "discarded": ("", "discarded", "behind a refusal or past the end, never tested"),
    "plain": ("·", "plain", "made without a draft"),
}
# action → label, key, and the shapes of its icon in a box of 20 × 20
BUTTONS = {
    "start": ("To the start", "Home", "<path d='M4 4h2.5v12H4zM16 4v12L7.5 10z'/>"),
    "round-back": ("One round back", "←", "<path d='M10 4v12L2 10zM18 4v12L10 10z'/>"),
    "token-back": ("One step back", "J", "<path d='M13 4v12L5 10z'/>"),
    "play": (
        "Play",
        "Space",
        "<path class='sl-icon-play' d='M5 3v14l12-7z'/>"
        "<path class='sl-icon-pause' d='M5 3h3.5v14H5zM11.5 3H15v14h-3.5z'/>",
    ),
    "token-on": ("One step on", "K", "<path d='M7 4v12l8-6z'/>"),
    "round-on": ("One round on", "→", "<path d='M2 4v12l8-6zM10 4v12l8-6z'/>"),
    "end": ("To the end", "End", "<path d='M13.5 4H16v12h-2.5zM4 4v12l8.5-6z'/>"),
}
KEYS = {
    "Space": "play or pause",
    "← →": "one round back or on",
    "J K": "one step back or on: a draft, the scores, a verdict, the closing token",
    "Home End": "to the start or the end",
    "Enter": "in the rounds: lock the token, and again to let it go (the arrow keys walk among the tokens there)",
    "Esc": "let the locked token go",
    "?": "this help",
}


def legend() -> str:
    return "".join(
        f'<li><span class="sl-token sl-{status}"><span class="sl-mark" aria-hidden="true">{mark}</span>'
        f'<span class="sl-piece">{word}</span></span> {meaning}</li>'
        for status, (mark, word, meaning) in LEGEND.items()
    )


def _button(action: str) -> str:
    label, key, icon = BUTTONS[action]
    return (
        f'<button type="button" class="sl-do" data-do="{action}" aria-label="{label}" title="{label} ({key})">'
        f'<svg viewBox="0 0 20 20" aria-hidden="true">{icon}</svg></button>'
    )


def _keys() -> str:
    rows = (
        f"<dt>{''.join(f'<kbd>{key}</kbd>' for key in keys.split(' '))}</dt><dd>{does}</dd>"
        for keys, does in KEYS.items()
    )
    return f"<dl>{''.join(rows)}</dl>"


TEMPLATE = f"""
<div class="sl-player">
  <div class="sl-deck sl-panel" role="group" aria-label="Player">
    <div class="sl-deck-head">
      <span class="sl-source"></span><span class="sl-about"></span><span class="sl-origin"></span>
      <button type="button" class="sl-do sl-ask-help" data-do="help" aria-label="Keys and help"
        title="Keys (?)">?</button>
    </div>
    <div class="sl-transport">
      <div class="sl-buttons-row">{"".join(map(_button, BUTTONS))}</div>
      <input class="sl-scrub" type="range" min="0" max="0" value="0" step="1" aria-label="Position in the run">
      <span class="sl-place"></span>
      <label class="sl-pacing">Speed
        <input class="sl-pace" type="range" min="0" max="10" value="4" step="1" aria-label="Speed">
        <span class="sl-pace-words"></span>
      </label>
    </div>
  </div>
  <section class="sl-panel sl-output" aria-labelledby="sl-output-title">
    <h2 id="sl-output-title">Output</h2>
    <p class="sl-asked"></p>
    <div class="sl-text" tabindex="0" role="region" aria-label="Output text"></div>
    <p class="sl-compared"></p>
  </section>
  <section class="sl-panel sl-rounds" aria-labelledby="sl-rounds-title">
    <h2 id="sl-rounds-title">Rounds</h2>
    <p class="sl-empty">Each round becomes a row: the drafts in order, the target's verdict on each,
      and the token that closes it.</p>
    <div class="sl-rows" tabindex="0" role="region"
      aria-label="Rounds, oldest first. The down arrow enters them.">
      <ol class="sl-list"></ol>
    </div>
    <p class="sl-hint">Point at a token for its numbers; click it, or press Enter, to keep them.</p>
    <ul class="sl-legend" aria-label="What the marks mean">{legend()}</ul>
  </section>
  <section class="sl-panel sl-inspector" aria-labelledby="sl-inspector-title">
    <div class="sl-inspector-head">
      <h2 id="sl-inspector-title">Inspector</h2>
      <button type="button" class="sl-do sl-close" data-do="close" aria-label="Let the token go"
        title="Close (Esc)">✕</button>
    </div>
    <div class="sl-inspected-token"></div>
  </section>
  <div class="sl-tip" role="tooltip" hidden></div>
  <p class="sl-live sl-unseen" aria-live="polite"></p>
  <dialog class="sl-help" aria-labelledby="sl-help-title">
    <h2 id="sl-help-title">Keys of the player</h2>
    {_keys()}
    <p>A round lasts on screen as long as it took, times the speed chosen; its steps share that time evenly.</p>
    <button type="button" class="sl-button" data-do="help-close">Close</button>
  </dialog>
</div>
"""


def ribbon(value: str = "") -> gr.HTML:
    return live("ribbon", TEMPLATE, SCRIPTS, value)

"""The theory in pictures that follow the sliders: worked out in the browser, by the formulas of engine.theory.

The value is views.lab_theory: the visitor's last run, which stands in the pictures beside the curves.
"""

import gradio as gr

from app.components.live import live

SCRIPTS = ["lab/formulas.js", "lab/plot.js", "lab/theory-charts.js", "lab/theory.js"]


def _slider(name: str, symbol: str, words: str, low: float, high: float, step: float) -> str:
    return (
        f'<label class="sl-knob"><span class="sl-knob-name"><b>{symbol}</b> {words}</span>'
        f'<input type="range" name="{name}" min="{low}" max="{high}" step="{step}"><output></output></label>'
    )


def _chart(name: str, title: str, note: str) -> str:
    return (
        f'<figure class="sl-panel sl-theory-chart" data-chart-of="{name}"><h3>{title}</h3>'
        f'<div class="sl-theory-plot" data-plot="{name}" role="img"></div>'
        f'<figcaption class="sl-chart-note">{note}</figcaption></figure>'
    )


def _fill(name: str) -> str:
    return f'<span data-fill="{name}"></span>'


def _share(over: str, under: str) -> str:
    return f'<span class="sl-over"><span>{over}</span><span>{under}</span></span>'


OVER = _share("1 − α<sup>γ + 1</sup>", "1 − α")
FILLED = _share(f"1 − {_fill('alpha')}<sup>{_fill('next')}</sup>", f"1 − {_fill('alpha')}")
FORMULA = f"""
<dl class="sl-panel sl-formula">
  <div><dt>tokens a round</dt><dd>{OVER} = {FILLED} = <b>{_fill("tokens")}</b></dd></div>
  <div><dt>cost of a round, in plain steps</dt><dd>γ · c + v(γ + 1) =
    {_fill("gamma")} · {_fill("c")} + {_fill("scoring")} = <b>{_fill("cost")}</b></dd></div>
  <div><dt>speedup</dt><dd>tokens ÷ cost = {_fill("tokens")} ÷ {_fill("cost")} = <b>{_fill("speedup")}</b></dd></div>
</dl>
"""
CONTROLS = f"""
<div class="sl-panel sl-theory-controls">
  {_slider("alpha", "α", "chance that a drafted token is kept", 0, 0.99, 0.01)}
  {_slider("gamma", "γ", "tokens drafted in a round", 1, 16, 1)}
  {_slider("c", "c", "cost of drafting one token, in plain steps of the target", 0, 1, 0.01)}
  <fieldset class="sl-scoring">
    <legend><b>v(W)</b> cost of scoring W tokens at once, in plain steps</legend>
    <label><input type="radio" name="sl-scoring" value="line" checked> a straight line</label>
    {_slider("slope", "", "each token after the first costs", 0, 1, 0.01)}
    <label><input type="radio" name="sl-scoring" value="measured"> as measured:
      <span class="sl-theory-measured"></span></label>
  </fieldset>
  <div class="sl-theory-buttons">
    <button type="button" class="sl-theory-to-run">Set the sliders to my run</button>
    <button type="button" class="sl-theory-reset">Reset</button>
  </div>
  <p class="sl-theory-run"></p>
</div>
"""
BY_GAMMA = _chart(
    "gamma",
    "Speedup for every draft length",
    "Thick: the α of the slider. Thin: α = 0.3, 0.5, 0.7, 0.9. Dashed: as fast as plain decoding. ★ the best draft "
    "length. ◆ the run, as measured; ◇ the same run as predicted from what its rounds really did: drafts are not all "
    "alike and not made in every round, so it need not lie on a curve. Drag in the picture to change γ.",
)
BY_ALPHA = _chart(
    "alpha",
    "From which acceptance does it pay?",
    "The γ of the slider, over every α. The upright line is the break-even: to its left, drafting is slower than plain "
    "decoding. The run stands here (◆ ◇) while γ is its own. Drag in the picture to change α.",
)
MAP = _chart(
    "map",
    "The best γ for every α and c",
    "Each field says which draft length is the fastest; the stronger its colour, the longer. Beyond the thick line no "
    "length pays. ● the sliders, ◆ the run. Drag in the picture to change α and c.",
)
TEMPLATE = f"""
<div class="sl-theory" data-run="recorded">
  <div class="sl-theory-side">{CONTROLS}{FORMULA}</div>
  <div class="sl-theory-main">
    <p class="sl-theory-sentence" aria-hidden="true"></p>
    <p class="sl-theory-spoken sl-unseen" role="status" aria-live="polite"></p>
    {BY_GAMMA}
    <div class="sl-theory-pair">{BY_ALPHA}{MAP}</div>
  </div>
</div>
"""


def theory(value: str = "") -> gr.HTML:
    return live("theory", TEMPLATE, SCRIPTS, value)

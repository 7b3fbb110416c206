"""Four numbers: α, τ, tokens/s and the speedup beside its measured baseline. The value is views.summary.tiles."""

import gradio as gr

from app.components.live import live

TITLES = {
    "alpha": ("Acceptance", "α"),
    "tau": ("Tokens per pass", "τ"),
    "speed": ("Tokens per second", ""),
    "speedup": ("Speedup", ""),
}


def _tile(name: str) -> str:
    title, symbol = TITLES[name]
    bars = '<div class="sl-bars"></div>' if name == "speedup" else ""
    return (
        f'<div class="sl-tile" data-tile="{name}" role="group" aria-label="{title}">'
        f'<p class="sl-title">{title} <span class="sl-symbol">{symbol}</span></p>'
        f'<p class="sl-number">–</p>{bars}<p class="sl-note"></p></div>'
    )


TEMPLATE = f'<div class="sl-tiles">{"".join(map(_tile, TITLES))}</div>'


def tiles(value: str) -> gr.HTML:
    return live("tiles", TEMPLATE, value=value)

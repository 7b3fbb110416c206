"""Builds charts that are redrawn in place. The value is views.run_charts; plotly.js comes from plotly's Python package.

Not a gr.Plot, because that is mounted again on every update: seconds of stall, and the reader's zoom is lost.
"""

from pathlib import Path

import gradio as gr
import plotly

from app.ui.html_component import component

PLOTLY_JS = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"


def _chart(name: str, title: str) -> str:
    return (
        f'<figure class="sl-panel sl-chart" data-chart="{name}" aria-labelledby="sl-chart-{name}">'
        f'<h3 id="sl-chart-{name}">{title} <span class="sl-lossy" hidden>lossy</span></h3><div class="sl-plot"></div>'
        '<figcaption class="sl-chart-note"></figcaption></figure>'
    )


def charts(value: str, name: str, titles: dict[str, str]) -> gr.HTML:
    """Makes the component of some charts. ``titles``: each chart's title by its name, which no other chart of the page
    has."""
    gr.set_static_paths([PLOTLY_JS])
    # Relative, so that it also works where a proxy serves the page under a path.
    source = f"gradio_api/file={PLOTLY_JS}"
    return component("charts", value, name, plotly=source, figures="".join(map(_chart, titles, titles.values())))

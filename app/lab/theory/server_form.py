"""The form of `server explain` on the page: points of one's own server in, the parts of its step and the best γ out."""

from collections.abc import Sequence

import gradio as gr

from app.jobs.visitor import Session
from app.lab.theory import server_points, server_view
from app.playground.trace_files import read_each, uploads
from app.ui.charts import charts
from app.ui.html_component import component
from app.ui.notice import notice as notice_area
from app.ui.widgets import QUIET, SKIP, open_files
from app.views.notice import notice
from engine.errors import EngineError, quantity
from engine.tools.servers.costs import split

LEAD = """<h3 class="sl-theory-measure">Where does your server's time go?</h3>
<p class="sl-lab-lead">Give the tokens per second of one user and the tokens of a round without drafts (γ = 0), with one
and with several. They split a step into what a drafter costs at all and what each draft costs, and so name the best γ
and what can't help. Several lines for a γ give intervals. The numbers come from your benchmark, from recordings
(<code>python -m engine server record</code>) or from a log. This page never asks a server itself.</p>"""
EXAMPLE = "0 26.5\n1 17.7 1.747\n7 12.2 3.107"
BOX, LOOKUP_BOX = "Points of your server", "Points of a lookup, if you have some"
POINTS = "One point a line: γ, tokens per second, tokens a round (acceptance length)."
LOOKUP = (
    "Points with n-gram lookup as the drafter. It drafts at no cost, so they show what a row costs, and with it the "
    "best γ for 4 and 16 users."
)


def fill_from_session(session: Session, text: str) -> str | dict:
    """Fills an empty form from the recording that the visitor opened in the playground."""
    run = session.trace
    if run is None or run.started.server is None or text.strip():
        return SKIP
    each = [trace for trace in (session.baseline, run) if trace]
    return server_points.append_lines("", [server_points.line_from_trace(trace) for trace in each])


def fill_from_files(text: str, paths: Sequence[str] | None) -> list:
    """Adds a line for each recording. Returns the points and the notice; the uploads are deleted."""
    try:
        with uploads(paths) as files:
            lines = [server_points.line_from_trace(trace) for trace in read_each(files)]
    except EngineError as error:
        return [SKIP, notice("error", str(error))]
    gap = " Put the number in place of the question mark." if any(server_points.GAP in line for line in lines) else ""
    return [
        server_points.append_lines(text, lines),
        notice("quiet", f"Filled in from {quantity(len(lines), 'recording')}.{gap}"),
    ]


def fill_from_log(text: str, log: str) -> list:
    """Adds a line for each draft length of a log. Returns the points and the notice."""
    try:
        lines, words = server_points.lines_from_log(log)
    except EngineError as error:
        return [SKIP, notice("error", str(error))]
    return [server_points.append_lines(text, lines), notice("quiet", words)]


def explain(text: str, lookup: str) -> list[str]:
    """Returns the notice, both tables and the chart."""
    try:
        points, others = server_points.parse(text, BOX), server_points.parse(lookup, LOOKUP_BOX)
    except EngineError as error:
        return [notice("error", str(error)), *_blank()]
    try:
        parts = split(points, others)
    except EngineError as error:
        return [notice("error", f"{BOX}: {error}"), *_blank()]
    pays = parts.fixed is not None and parts.best
    words = notice("good" if pays else "quiet", server_view.sentences(parts))
    tables = server_view.parts_table(parts), server_view.speeds_table(parts)
    return [words, *tables, server_view.chart(parts, points)]


def _blank() -> list[str]:
    return [server_view.parts_table(None), server_view.speeds_table(None), server_view.chart(None)]


def server_form(session: gr.State, tabs: Sequence[gr.Tab]) -> None:
    """Lays out the form. ``tabs``: those around it; opening one may bring a recording from the playground."""
    gr.HTML(LEAD, apply_default_css=False)
    with gr.Row(equal_height=True):
        points = gr.Textbox("", label=BOX, info=POINTS, placeholder=EXAMPLE, lines=4, max_lines=12,
                            elem_id="server-points", scale=2, min_width=260)  # fmt: skip
        lookup = gr.Textbox("", label=LOOKUP_BOX, info=LOOKUP, lines=4, max_lines=12,
                            elem_id="server-lookup", scale=2, min_width=260)  # fmt: skip
        log = gr.Textbox("", label="Or paste a log", info="It gives the tokens of a round. Nothing of it is kept.",
                         lines=4, max_lines=12, elem_id="server-log", scale=2, min_width=260)  # fmt: skip
    with gr.Row(elem_classes="sl-actions"):
        run = gr.Button("Explain", variant="primary", elem_id="server-explain", scale=2, min_width=160)
        files = open_files("Fill in from recordings", "server-files")
        from_log = gr.Button("Fill in from the log", elem_id="server-from-log", min_width=160)
    words = notice_area("server-notice")
    parts, speeds, blank = _blank()
    tables = component("table", parts, "server-parts"), component("table", speeds, "server-speeds")
    drawn = charts(blank, "server-charts", server_view.CHARTS)
    run.click(explain, [points, lookup], [words, *tables, drawn], **QUIET)
    files.upload(fill_from_files, [points, files], [points, words], **QUIET)
    from_log.click(fill_from_log, [points, log], [points, words], **QUIET)
    for tab in tabs:
        tab.select(fill_from_session, [session, points], points, **QUIET)

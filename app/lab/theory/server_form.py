"""Lays out `server explain` on the page: points of one's own server in, the parts of its step and the best γ out."""

import json
import time
from collections.abc import Callable, Sequence

import gradio as gr

from app.jobs.visitor import Session
from app.lab.own_curve import read_text
from app.lab.theory import server_view as view
from app.playground.trace_files import read_each
from app.ui.charts import charts
from app.ui.html_component import component
from app.ui.notice import notice as notice_area
from app.ui.widgets import QUIET, SKIP, open_files
from app.views.notice import notice
from engine.errors import EngineError

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
    return view.append_lines("", [view.line_from_trace(trace) for trace in (session.baseline, run) if trace])


def fill_from_files(text: str, paths: Sequence[str] | None) -> list:
    """Adds a line for each recording. Returns the points and the notice."""
    return _fill(text, lambda: view.lines_from_recordings(read_each(paths or ())))


def fill_from_log(text: str, log: str) -> list:
    """Adds a line for each draft length of a log. Returns the points and the notice."""
    return _fill(text, lambda: view.lines_from_log(log))


def _fill(text: str, read: Callable[[], tuple[list[str], str]]) -> list:
    try:
        lines, words = read()
    except EngineError as error:
        return [SKIP, notice("error", str(error))]
    return [view.append_lines(text, lines), notice("quiet", words)]


def explain(text: str, lookup: str) -> list[str]:
    """Returns the notice, both tables and the chart."""
    try:
        points, others = view.parse(text, BOX), view.parse(lookup, LOOKUP_BOX)
        parts = view.split_points(points, others, BOX)
    except EngineError as error:
        return [notice("error", str(error)), *view.draw(None)]
    pays = parts.fixed is not None and parts.best
    return [notice("good" if pays else "quiet", view.sentences(parts)), *view.draw(parts, points)]


def use_row_cost(text: str, lookup: str) -> list[str]:
    """Makes v(W) of the points: the notice, and the value of the component that keeps the curve."""
    try:
        parts = view.split_points(view.parse(text, BOX), view.parse(lookup, LOOKUP_BOX), BOX)
    except EngineError as error:
        return [notice("error", str(error)), SKIP]
    value, _, is_wrong = read_text("\n".join(parts.lines), time.time())
    if is_wrong:
        return [notice("error", json.loads(value)["error"]), SKIP]
    return [notice("good", "The curves above, the answer and the lessons use this server’s v(W) now."), value]


def lay_out_server(session: gr.State, tabs: Sequence[gr.Tab], curve: gr.HTML) -> None:
    """Lays out the form. ``tabs``: the tabs around it, of which opening one may bring a recording from the playground.
    ``curve``: the component that keeps v(W)."""

    def box(label: str, info: str, name: str, placeholder: str = "") -> gr.Textbox:
        more = {"lines": 4, "max_lines": 12, "scale": 2, "min_width": 260, "placeholder": placeholder or None}
        return gr.Textbox("", label=label, info=info, elem_id=name, **more)

    gr.HTML(LEAD, apply_default_css=False)
    with gr.Row(equal_height=True):
        points = box(BOX, POINTS, "server-points", EXAMPLE)
        lookup = box(LOOKUP_BOX, LOOKUP, "server-lookup")
        log = box("Or paste a log", "It gives the tokens of a round. Nothing of it is kept.", "server-log")
    with gr.Row(elem_classes="sl-actions"):
        run = gr.Button("Explain", variant="primary", elem_id="server-explain", scale=2, min_width=160)
        use = gr.Button("Use its v(W)", elem_id="server-curve", min_width=120)
        files = open_files("Fill in from recordings", "server-files")
        from_log = gr.Button("Fill in from the log", elem_id="server-from-log", min_width=160)
    words, (parts, speeds, blank) = notice_area("server-notice"), view.draw(None)
    tables = component("table", parts, "server-parts"), component("table", speeds, "server-speeds")
    drawn = charts(blank, "server-charts", view.CHARTS)
    run.click(explain, [points, lookup], [words, *tables, drawn], **QUIET)
    use.click(use_row_cost, [points, lookup], [words, curve], **QUIET)
    files.upload(fill_from_files, [points, files], [points, words], **QUIET)
    from_log.click(fill_from_log, [points, log], [points, words], **QUIET)
    for tab in tabs:
        tab.select(fill_from_session, [session, points], points, **QUIET)

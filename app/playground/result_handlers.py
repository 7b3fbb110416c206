"""Handles the end of a run: charts and files; opens trace files; renders settings for other engines."""

import logging
import uuid
from collections import namedtuple
from typing import Any, NamedTuple

import gradio as gr

from app.form import NAMES, settings
from app.jobs.service import Service
from app.jobs.visitor import Session, visitor_id
from app.playground import html_export
from app.playground.form_values import update, values_of
from app.playground.trace_files import Exports, WrittenFiles, read_session
from app.ui.widgets import SKIP
from app.views import player_feed, run_charts, servers, tiles
from app.views.engine_recipes import outcome_sentence, production
from app.views.predictions import steadiness
from app.views.trees import has_trees
from engine.config import AUTO
from engine.errors import BadInput, EngineError
from engine.trace.engine_recipes import Choice
from engine.trace.metrics import compute_metrics
from engine.trace.trace import Trace

LABELS = WrittenFiles("Save trace (JSON)", "Save baseline (JSON)", "Save tokens (CSV)", "Save replay (HTML)")
# A label, because Gradio 6.31 shows no toast of an event that is not queued.
NO_ROOM = "No room for files on the server"
_log = logging.getLogger(__name__)
CHOICES = ("pair", "method", "auto", "gamma", "temperature")  # controls that the settings for other engines follow


class ResultValues(NamedTuple):
    """The outputs below the stage."""

    race: Any = SKIP
    acceptance: Any = SKIP
    time: Any = SKIP
    tree: Any = SKIP
    tree_tab: Any = SKIP
    trace_file: Any = SKIP
    baseline_file: Any = SKIP
    table_file: Any = SKIP
    page_file: Any = SKIP


# The outputs of an opened trace file: the controls by name, too.
Opened: Any = namedtuple("Opened", ("stage", "session", *NAMES), defaults=[SKIP] * (2 + len(NAMES)))


class Results:
    def __init__(self, service: Service):
        self.service, self.exports = service, Exports()

    def show(self, session: Session) -> ResultValues:
        """Returns charts and files of the session's run.

        Files are written now, because a DownloadButton that fills itself on click serves the file before (gradio 6.31).
        Without a run all stays as it is: the recorded run that the page opens with keeps its charts.
        """
        run, baseline = session.trace, session.baseline
        if run is None:
            return ResultValues()
        try:
            written = self.exports.write(session, html_export.page)
            files = _files(written)._replace(baseline=_baseline_file(written))
        except OSError as error:  # a full disk must not break the page
            _log.warning("The files of a run could not be written: %s", error.strerror or error)
            files = WrittenFiles(*(gr.update(value=None, interactive=False, label=NO_ROOM) for _ in LABELS))
        figures = run_charts.complete(run, baseline, **session.repeats)
        return ResultValues(*figures, gr.update(visible=has_trees(run)), *files)

    def empty(self) -> ResultValues:
        """Returns the results of a stage without a run, so that nothing of an earlier run stays."""
        return ResultValues(*run_charts.complete(None), gr.update(visible=False), *_files(WrittenFiles()))

    def bring(self, paths: list[str] | None, request: gr.Request) -> Any:
        """Shows an uploaded trace like a run that has just ended, and fills the form with its settings.

        Raises gr.Error during a run, because both would write to the same outputs.
        """
        try:
            session = read_session(paths or ())
        except EngineError as error:
            return Opened(player_feed.say("error", str(error)))
        # Checked last, because a run may begin while a large file is read.
        if self.service.runs.is_busy(visitor_id(request)):
            # A toast, because the run's own progress would overwrite the notice at once.
            words = "A run is in progress here: press Stop or let it end, then open the file again."
            raise gr.Error(words, title="Not now", print_exception=False)
        run, baseline = session.trace, session.baseline
        text, words, filled = player_feed.replay(uuid.uuid4().hex, run, baseline), _opening_sentence(session), {}
        try:
            values = values_of(run, self.service)
            filled = {name: update(name, values, self.service) for name in NAMES}
        except BadInput as error:
            words += "" if run.started.server else f" The form keeps its own settings. {error}"
        return Opened(text + player_feed.status("quiet", words), session, **filled)

    def configure(self, pair: str, method: str, auto: bool, gamma: float, temperature: float, session: Session) -> str:
        """Returns the current settings for other engines, as JSON for the engine recipes."""
        sentence, run = _outcome(session, method), session.trace
        if run and run.started.server:
            run = None  # its method and draft lengths are another engine's
        if method == AUTO and run:
            method = _most_used(run)
        try:
            values = {"pair": pair, "method": method, "auto": auto, "gamma": gamma, "temperature": temperature}
            config = settings(values)
            models = self.service.offer.models(pair, method)
        except EngineError:
            return SKIP  # pressing Run will show the reason
        chosen = _mean_gamma(run, method) if config.gamma == AUTO else None
        choice = Choice(
            method, config.gamma, **vars(models), greedy=config.sampling.greedy, chosen=chosen,
            has_schema=bool(run and run.started.constraint.get("kind") == "json_schema"),
        )  # fmt: skip
        return production(choice, measured=sentence)


def _files(written: WrittenFiles) -> WrittenFiles:
    """Returns the buttons, with their own labels again after a time without room."""
    pairs = zip(written, LABELS, strict=True)
    return WrittenFiles(*(gr.update(value=path, interactive=path is not None, label=label) for path, label in pairs))


def _baseline_file(written: WrittenFiles):
    """Says why there may be none: a branch is not measured, nor is a run beside others."""
    label = LABELS.baseline if written.baseline else "No baseline to save"
    return gr.update(value=written.baseline, interactive=written.baseline is not None, label=label)


def _outcome(session: Session, method: str) -> str:
    """Says what this method brought in the run on the stage; empty for another method's run."""
    ratio = tiles.speedup(session.trace, session.baseline, session.repeats.get("spread"))
    if ratio is None or session.trace.started.method != method:
        return ""
    return outcome_sentence(ratio, session.trace.started.device)


def _opening_sentence(session: Session) -> str:
    started = session.trace.started
    if started.server:
        return servers.opening_sentence(session.trace, session.baseline)
    alone = "without its baseline. Choose both files together to see the speedup"
    if not session.trace.has_drafts:
        alone = "in which nothing was drafted. Choose it together with a run that drafted to see the speedup"
    if session.trace.started.prefix:
        alone = "a branch, which is not measured against plain decoding"
    beside = "with its baseline" if session.baseline else alone
    if session.trace.others:
        return f"Opened from a file: a recorded run on {started.device}. {tiles.sharing_sentence(session.trace)}"
    words = f"Opened from a file: a recorded run on {started.device}, {beside}. Nothing was computed here."
    return words + (steadiness(session.trace, session.baseline) if session.baseline else "")


def _mean_gamma(run: Trace | None, method: str) -> int | None:
    """Returns the mean draft length that auto chose over the rounds that drafted, where a tree counts with its depth;
    None if none did.

    The mean, because the most frequent length may be a cautious 1 that few tokens came from.
    """
    if run is None:
        return None
    rounds = (r for r in run.rounds if r.parents and (r.drafter or run.started.method) == method)
    drafted = [max(token.depth for token in r.tokens[: len(r.parents)]) for r in rounds]
    return round(sum(drafted) / len(drafted)) if drafted else None


def _most_used(run: Trace) -> str:
    """Returns the method of a run; if several drafted, the one of most rounds."""
    method = run.started.method or "none"
    return next(iter(compute_metrics(run).drafters), "none") if method == AUTO else method

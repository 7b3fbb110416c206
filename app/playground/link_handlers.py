"""Handles opening a page from a link, sharing it, and the address bar. links.py reads and writes the links."""

import json
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import gradio as gr

from app.form import NAMES, Control, control_values, controls_by_name, settings
from app.jobs.baseline import with_baseline
from app.jobs.result_cache import RecordedRun
from app.jobs.service import Service
from app.jobs.visitor import Session, visitor_id
from app.playground import links
from app.playground.branch_handlers import forced_in
from app.playground.form_values import update
from app.playground.result_handlers import Results, ResultValues
from app.playground.run_handlers import recorded_value
from app.playground.run_press import RunPress
from app.playground.startup_run import load_recorded as opening_run
from app.ui.widgets import SKIP
from app.views import player_feed, tiles
from app.views.safe_json import encode
from engine.config import RunConfig
from engine.errors import BadInput
from engine.trace.branch import branch_config, config_of
from engine.trace.trace import with_branch


class LinkHandlers:
    def __init__(self, service: Service, specs: Mapping[str, Control] | None = None, results: Results | None = None):
        """Takes ``specs``: every control by name, with its value at the start; the default values without them."""
        self.service, self.results = service, results or Results(service)
        self.controls = controls_by_name(service.limits)
        self.specs = specs or self.controls

    def open_link(self, press: RunPress, event: gr.EventData, request: gr.Request | None = None) -> list[Any]:
        """Fills the controls from the query that the page was opened with.

        Starts no run, but shows one of exactly these settings that has run here. A branch follows when Run is pressed.
        A reloaded page gets its own run back, which may still go on.

        Returns the share dialog's value, the stage's, the session, every control in the order of form.NAMES, and the
        results below the stage.
        """
        data = event._data if isinstance(event._data, dict) else {}
        text, pairs = str(data.get("query") or ""), list(self.service.offer.pairs.values())
        link = links.read_link(text, self.controls, pairs, self.service.limits.prompt_chars)
        is_reload, own = bool(data.get("reload")), self.service.runs.find(str(data.get("run") or ""))
        result = self._result(link)
        if is_resumed := is_reload and own is not None and (own.is_running or not result):
            press.request, press.session = self.service.runs.resume(own, visitor_id(request)), None
            stage, session, below = SKIP, Session(), ResultValues()
        else:
            stage, session, below = self._show(link, result, is_reload)
            if isinstance(session, Session) and session.trace:  # the next press runs it again
                press.stage_config = self._config(link)
            press.has_empty_stage = session == Session()
        if link.force and (config := self._config(link)):
            press.linked = (config, *link.force)
        shared = _value(hide=link.hide, present=link.present, **({"resumed": True} if is_resumed else {}))
        return [shared, stage, session, *(self._fill(link, name) for name in NAMES), *below]

    def _show(self, link: links.Link, result: RecordedRun | None, is_reload: bool) -> tuple[Any, Any, ResultValues]:
        """Returns the stage, the session and the results of a page that a link has opened."""
        is_opening = not result and self._is_opening(link)
        words = links.sentence(link, self.controls, is_opening)
        if not words:
            return SKIP, SKIP, ResultValues()
        if is_opening and not link.refused:
            return player_feed.say("quiet", words), SKIP, ResultValues()
        if link.refused:
            is_partly_usable = link.values or link.hide or link.present
            return player_feed.say("slow" if is_partly_usable else "error", words), SKIP, ResultValues()
        if result:
            session = Session(result.run, result.baseline, result.repeats)
            return recorded_value(result), session, self.results.show(session)
        if is_reload:
            words = f"Your settings are back. Press Run to see the run{' and its branch' if link.force else ''} again."
        empty = player_feed.start(uuid.uuid4().hex) + tiles.tiles(None) + "\n"
        return empty + player_feed.status("quiet", words), Session(), self.results.empty()

    def _is_opening(self, link: links.Link) -> bool:
        """Returns whether these are the settings of the recorded run that every page opens with."""
        run, _ = opening_run()
        return run is not None and link.has_settings and self._config(link) == config_of(run)

    def _config(self, link: links.Link) -> RunConfig | None:
        values = {name: control.default for name, control in self.controls.items()} | dict(link.values)
        try:
            return settings(values)
        except BadInput:
            return None

    def _result(self, link: links.Link) -> RecordedRun | None:
        """Returns the cached run of a link, with its branch if the link has one and that has run here, too."""
        config = self._config(link) if link.has_settings or link.force else None
        result = self.service.runs.results.get(with_baseline(config)) if config else None
        if result is None or link.force is None:
            return result
        try:
            branch = self.service.runs.results.get((("branch", branch_config(result.run, *link.force)),))
            both = branch and {"run": with_branch(result.run, branch.traces["branch"])}
        except BadInput:
            return None
        return replace(result, traces=result.traces | both) if both else None

    def _fill(self, link: links.Link, name: str) -> Any:
        values = {other: control.default for other, control in self.controls.items()} | dict(link.values)
        is_named = name in link.values or (name == "method" and "pair" in link.values)  # whose choices are the pair's
        is_here = not link.has_settings or values[name] == self.specs[name].default
        return SKIP if is_here and not is_named else update(name, values, self.service)

    def link(self, session: Session, *values: Any) -> str:
        """Makes a link to the current controls, and to the branch of the run on the stage if that has these settings;
        empty with the reason if there can be none. ``values``: one for each control, in the order of form.NAMES."""
        try:
            config = settings(dict(zip(NAMES, values, strict=True)), self.service.limits)
            pair = self.service.offer.pairs.get(config.pair)
            revision = pair.revision if pair else ""
            return _value(
                link=links.query(control_values(config), self.controls, revision, _branch_point(session, config))
            )
        except BadInput as error:
            return _value(link="", problem=str(error))

    def press_address(self, press: RunPress, *values: Any) -> str:
        """Returns the key of the request, by which a reload brings its run back, and the query of the address."""
        return _value(run=press.request.key, **self._address(Session(), *values))

    def _address(self, session: Session, *values: Any) -> dict[str, str]:
        query = json.loads(self.link(session, *values))["link"]
        return {"address": query} if query else {}

    def branch_address(self, session: Session, *values: Any) -> str:
        """Returns the address with the branch, or without a dropped one, if the controls still have the run's
        settings."""
        try:
            is_same = bool(session.trace) and config_of(session.trace) == settings(
                dict(zip(NAMES, values, strict=True))
            )
        except BadInput:
            return SKIP
        address = self._address(session, *values) if is_same else {}
        return _value(**address) if address else SKIP


def _branch_point(session: Session, config: RunConfig) -> tuple[int, int] | None:
    """Returns the place and the token that the session's branch forces, or that its run was forced to as a branch. None
    if that run does not have the settings ``config``."""
    run = session.trace
    try:
        if run is None or replace(config_of(run), prefix=()) != config:
            return None
    except BadInput:  # settings of an opened file
        return None
    return session.forced or (forced_in(run.branch) if run.branch and not run.started.prefix else None)


def _value(**value: Any) -> str:
    """Returns a new text for every call, because gradio sends no event for an unchanged value."""
    return encode(value | {"at": uuid.uuid4().hex})

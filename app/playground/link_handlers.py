"""Handles opening a page from a link, sharing it, and the address bar. links.py reads and writes the links."""

import json
import uuid
from collections.abc import Callable
from typing import Any

import gradio as gr

from app.form import METHOD_LABELS, NAMES, choices, described, settings
from app.form import read as controls_of
from app.jobs.service import RecordedRun, Service, with_baseline
from app.jobs.visitor import Session
from app.playground import links
from app.playground.run_handlers import recorded
from app.ui.widgets import SKIP
from app.views import player_feed
from app.views.safe_json import encode
from engine.config import AUTO, RunConfig
from engine.errors import BadInput


class LinkHandlers:
    def __init__(self, service: Service):
        self.service = service
        self.controls = described(service.limits)

    def opened(self, event: gr.EventData) -> list[Any]:
        """Fills the controls from the query that the page was opened with.

        Starts no run, but shows one of exactly these settings that has run here.

        Returns the share dialog's value, the stage's, the session, and every control in the order of form.NAMES.
        """
        data = event._data if isinstance(event._data, dict) else {}
        text, pairs = str(data.get("query") or ""), list(self.service.pairs.values())
        link = links.read(text, self.controls, pairs, self.service.limits.prompt_chars)
        stage, session = self._shown(link, bool(data.get("reload")))
        shared = _value(hide=link.hide, present=link.present)
        return [shared, stage, session, *(self._filled(link, name) for name in NAMES)]

    def _shown(self, link: links.Link, is_reload: bool) -> tuple[Any, Any]:
        """The stage and the session of a page that a link has opened."""
        words = links.sentence(link, self.controls)
        if not words:
            return SKIP, SKIP
        if link.refused:
            is_partly_usable = link.values or link.hide or link.present
            return player_feed.say("slow" if is_partly_usable else "error", words), SKIP
        if result := self._result(link):
            return recorded(result), Session(result.run, result.baseline)
        if is_reload:
            words = "Your settings are back. Press Run to see the run again."
        return player_feed.start(uuid.uuid4().hex) + player_feed.status("quiet", words), Session()

    def _result(self, link: links.Link) -> RecordedRun | None:
        values = {name: control.default for name, control in self.controls.items()} | dict(link.values)
        try:
            return self.service.results.get(with_baseline(settings(values))) if link.values else None
        except BadInput:
            return None

    def _filled(self, link: links.Link, name: str) -> Any:
        if name == "method" and "pair" in link.values:  # the value must be among the choices of this pair
            methods = (AUTO, *self.service.methods(link.values["pair"]))
            return gr.update(choices=choices(METHOD_LABELS, methods), value=link.values.get("method", AUTO))
        return gr.update(value=link.values[name]) if name in link.values else SKIP

    def link(self, *values: Any) -> str:
        """A link to the current controls. ``values``: of every control, in the order of form.NAMES."""
        return self._query("link", lambda: settings(dict(zip(NAMES, values, strict=True))))

    def address(self, *values: Any) -> str:
        """The query for the address bar once Run is pressed, so that a reload brings the run back."""
        answer = self.link(*values)
        query = json.loads(answer)["link"]
        return _value(address=query) if query else SKIP

    def _query(self, kind: str, config: Callable[[], RunConfig]) -> str:
        """The query; empty with the reason if there can be no link."""
        try:
            values = controls_of(config())
            pair = self.service.pairs.get(values["pair"])
            return _value(**{kind: links.query(values, self.controls, pair.revision if pair else "")})
        except BadInput as error:
            return _value(**{kind: ""}, problem=str(error))


def _value(**value: Any) -> str:
    """A new text for every call, because gradio sends no event for an unchanged value."""
    return encode(value | {"at": uuid.uuid4().hex})

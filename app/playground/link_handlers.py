"""Handles opening a page from a link, sharing it, and the address bar. links.py reads and writes the links."""

import uuid
from collections.abc import Callable
from typing import Any

import gradio as gr

from app.form import METHOD_LABELS, NAMES, choices, described, settings
from app.form import read as controls_of
from app.jobs.service import Service
from app.jobs.visitor import Session
from app.playground import links
from app.ui.widgets import SKIP
from app.views.notice import notice
from app.views.safe_json import encode
from engine.config import AUTO, RunConfig, SamplingParams
from engine.errors import BadInput


class LinkHandlers:
    def __init__(self, service: Service):
        self.service = service
        self.controls = described(service.limits)

    def opened(self, event: gr.EventData) -> list[Any]:
        """Fills the controls from the query that the page was opened with; starts no run.

        Returns the share dialog's value, the notice, and every control in the order of form.NAMES.
        """
        text = event._data.get("query") if isinstance(event._data, dict) else None
        pairs = list(self.service.pairs.values())
        link = links.read(str(text or ""), self.controls, pairs, self.service.limits.prompt_chars)
        words = links.sentence(link, self.controls)
        is_partly_usable = link.values or link.hide or link.present
        kind = "quiet" if not link.refused else "slow" if is_partly_usable else "error"
        shown = notice(kind, words) if words else SKIP
        return [_value(hide=link.hide, present=link.present), shown, *(self._filled(link, name) for name in NAMES)]

    def _filled(self, link: links.Link, name: str) -> Any:
        if name == "method" and "pair" in link.values:  # the value must be among the choices of this pair
            methods = (AUTO, *self.service.methods(link.values["pair"]))
            return gr.update(choices=choices(METHOD_LABELS, methods), value=link.values.get("method", AUTO))
        return gr.update(value=link.values[name]) if name in link.values else SKIP

    def link(self, *values: Any) -> str:
        """A link to the current controls. ``values``: of every control, in the order of form.NAMES."""
        return self._query("link", lambda: settings(dict(zip(NAMES, values, strict=True))))

    def address(self, session: Session) -> str:
        """The query for the address bar: the settings of the run that has ended, not those of the controls."""
        if session.trace is None:
            return SKIP
        return self._query("address", lambda: _config(session.trace.started.config))

    def _query(self, kind: str, config: Callable[[], RunConfig]) -> str:
        """The query; empty with the reason if there can be no link."""
        try:
            values = controls_of(config())
            pair = self.service.pairs.get(values["pair"])
            return _value(**{kind: links.query(values, self.controls, pair.revision if pair else "")})
        except BadInput as error:
            return _value(**{kind: ""}, problem=str(error))


def _config(config: dict) -> RunConfig:
    """The request of a trace, which stores it as plain data."""
    return RunConfig(**config | {"sampling": SamplingParams(**config["sampling"])})


def _value(**value: Any) -> str:
    """A new text for every call, because gradio sends no event for an unchanged value."""
    return encode(value | {"at": uuid.uuid4().hex})

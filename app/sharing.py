"""What happens when a page is shared, or opened from a link. Thin: app.links reads and writes the links."""

import uuid
from collections.abc import Callable
from typing import Any

import gradio as gr

from app import links
from app.controls import METHODS, NAMES, choices, described, settings
from app.controls import read as controls_of
from app.service import Service
from app.session import Session
from app.views.encode import encode
from app.views.notice import notice
from engine.config import AUTO, RunConfig, SamplingParams
from engine.errors import BadInput

SKIP = gr.skip()


class Sharing:
    def __init__(self, service: Service):
        self.service = service
        self.controls = described(service.limits)

    def opened(self, event: gr.EventData) -> list[Any]:
        """The page was opened with a query: the controls filled in, what was refused, and nothing run.

        Returns the share part's value, the notice, and every control in the order of controls.NAMES.
        """
        asked = event._data.get("query") if isinstance(event._data, dict) else None
        pairs = list(self.service.pairs.values())
        link = links.read(str(asked or ""), self.controls, pairs, self.service.limits.prompt_chars)
        words = links.sentence(link, self.controls)
        of_use = link.values or link.hide or link.present
        kind = "quiet" if not link.refused else "slow" if of_use else "error"
        told = notice(kind, words) if words else SKIP
        return [_told(hide=link.hide, present=link.present), told, *(self._filled(link, name) for name in NAMES)]

    def _filled(self, link: links.Link, name: str) -> Any:
        if name == "method" and "pair" in link.values:  # what this pair offers; a value has to be among it
            methods = (AUTO, *self.service.methods(link.values["pair"]))
            return gr.update(choices=choices(METHODS, methods), value=link.values.get("method", AUTO))
        return gr.update(value=link.values[name]) if name in link.values else SKIP

    def link(self, *values: Any) -> str:
        """The controls as they stand, as a link. ``values``: of every control, in the order of controls.NAMES."""
        return self._query("link", lambda: settings(dict(zip(NAMES, values, strict=True))))

    def address(self, session: Session) -> str:
        """What the address bar is to say once a run is over: that run, whatever the controls say by then."""
        if session.trace is None:
            return SKIP
        return self._query("address", lambda: _config(session.trace.started.config))

    def _query(self, kind: str, config: Callable[[], RunConfig]) -> str:
        """Empty, and the reason beside it, where there can be no link."""
        try:
            values = controls_of(config())
            pair = self.service.pairs.get(values["pair"])
            return _told(**{kind: links.query(values, self.controls, pair.revision if pair else "")})
        except BadInput as error:
            return _told(**{kind: ""}, problem=str(error))


def _config(config: dict) -> RunConfig:
    """A trace keeps its request as plain data."""
    return RunConfig(**config | {"sampling": SamplingParams(**config["sampling"])})


def _told(**value: Any) -> str:
    """Each value is another text, so that asking twice is answered twice."""
    return encode(value | {"at": uuid.uuid4().hex})

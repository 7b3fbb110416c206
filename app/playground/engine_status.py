"""Shows the engine's status above all tabs, and serves the state that it polls.

assets/web/playground/engine_status.js shows a visitor's place in the queue there while a run of theirs is waiting.
"""

from collections.abc import Callable

import gradio as gr
from starlette.responses import JSONResponse
from starlette.routing import Route

from app.jobs.service import Service
from app.ui.html_component import component
from app.views.status_words import status


def engine_status() -> gr.HTML:
    return component("engine_status", elem_id="engine-status")


def route(service: Service, has_tab: Callable[[], bool]) -> Route:
    """Serves the engine's status, which every page polls. A Gradio event would cost ten times as much. ``has_tab``:
    whether the page has an engine for a visitor's own tab by now."""

    async def handler(_) -> JSONResponse:
        state = service.state.now()
        progress = (state.progress.message, state.progress.fraction) if state.progress else ()
        value = status(state.kind, state.device, state.precision, state.waiting, *progress, together=state.together)
        value["tab"] = has_tab()
        return JSONResponse(value, headers={"Cache-Control": "no-store"})

    return Route("/_state", handler)

"""What the Lessons tab asks for: a lesson's page over HTTP, and the playground's controls filled in. Thin."""

from functools import lru_cache
from typing import Any

import gradio as gr
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.controls import METHODS, NAMES, choices, described
from app.service import Service
from app.views import lesson as view
from app.views.encode import encode
from app.views.notice import notice
from engine.config import AUTO
from lessons.loader import glossary, lessons, run

SKIP = gr.skip()


def contents() -> str:
    return encode({"lessons": view.contents(lessons())})


@lru_cache(maxsize=32)
def page(number: int) -> str | None:
    """JSON of a lesson and the runs beside it, made once; None where there is no such lesson."""
    found = next((each for each in lessons() if each.number == number), None)
    if found is None:
        return None
    return encode(view.page(found, {scenario.name: run(scenario) for scenario in found.scenarios}, glossary()))


def _answer(request) -> Response:
    text = page(request.path_params["number"])
    if text is None:
        return JSONResponse({"problem": "There is no such lesson."}, status_code=404)
    return Response(text, media_type="application/json", headers={"Cache-Control": "no-cache"})


# No gradio event: a class of thirty opens the same lesson at once, and it is the same text for everybody.
ROUTES = [Route("/speclens/lessons/{number:int}", _answer)]


class Learning:
    def __init__(self, service: Service):
        self.service = service
        self.controls = described(service.limits)

    def live(self, event: gr.EventData) -> list[Any]:
        """ "Run it live": the notice and every control in the order of controls.NAMES; nothing runs by itself."""
        number = event._data.get("lesson") if isinstance(event._data, dict) else None
        found = next((each for each in lessons() if each.number == number and each.live), None)
        if found is None:
            return [SKIP] * (1 + len(NAMES))
        values = view.live(found)["values"] | {"pair": self.controls["pair"].default}
        most = self.controls["tokens"].high
        values["tokens"] = min(values["tokens"], most)
        offered = (AUTO, *self.service.methods(values["pair"]))
        words = f"Filled in from lesson {found.number}. Press Run."
        if values["method"] not in offered:
            words = (
                f"Filled in from lesson {found.number}, but these models have no {values['method']} draft; press Run."
            )
            values["method"] = AUTO
        filled = [gr.update(value=values[name]) for name in NAMES]
        filled[NAMES.index("method")] = gr.update(choices=choices(METHODS, offered), value=values["method"])
        return [notice("quiet", words), *filled]

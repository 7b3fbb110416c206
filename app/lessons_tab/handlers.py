"""Serves lessons over HTTP and fills the playground's controls for "Run it live".

Without solutions, the notes for teachers, the key to the exercises, the plans and the exit tickets stay away.
"""

from functools import lru_cache, partial
from threading import Lock
from typing import Any

import gradio as gr
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.form import NAMES, controls_by_name
from app.jobs.service import Service
from app.lessons_tab import practice, sheets, teaching, view
from app.lessons_tab.minute import document_of
from app.lessons_tab.minute import page as minute_page
from app.ui.method_choices import method_choices
from app.ui.widgets import SKIP
from app.views import player_feed
from app.views.safe_json import encode
from engine.config import AUTO
from engine.trace.trace import load
from lessons import loader, own_rule
from lessons.loader import glossary, lessons, minute, run
from lessons.schema import TRACES


def contents(has_solutions: bool = True) -> str:
    return encode(value(has_solutions))


ALONE = "speclens/minute"  # the address of the page of sixty seconds


def value(has_solutions: bool = True) -> dict[str, Any]:
    """Returns the list of lessons, the page before it with its own address, the exercises of both kinds, and the pages
    for teachers. ``solutions``: whether the page is a teacher's."""
    papers = {f"speclens/papers/{name}": title for name, title in titles(has_solutions).items()}
    pages = {
        "minute": {**_minute(), "alone": ALONE},
        "practice": practice.page(glossary(), has_solutions),
        "papers": papers,
    }
    return {"lessons": view.contents(lessons()), "rule": own_rule.exercise(), "solutions": has_solutions} | pages


def _minute() -> dict[str, Any]:
    right, wrong = (load(TRACES / f"{name}.json") for name in (minute().trace, minute().wrong_trace))
    return minute_page(minute(), right, wrong, glossary())


@lru_cache(maxsize=4)
def minute_alone(lessons_address: str) -> str:
    """Returns the page of sixty seconds as the text of an HTML file. ``lessons_address``: where the lessons are."""
    return document_of(_minute(), lessons_address)


FORMS = {
    "": (encode, "application/json"),
    "teacher": (sheets.teacher, "text/html"),
    "class": (sheets.class_sheet, "text/html"),
}
_RENDERING = Lock()


def page(number: int, form: str = "", has_solutions: bool = True) -> str | None:
    """Returns a lesson with its runs as JSON, or one of its printed pages; None for an unknown number or form. Each is
    rendered once, however many ask for it at once, and kept."""
    with _RENDERING:
        return _render(number, form, has_solutions)


@lru_cache(maxsize=128)
def _render(number: int, form: str, has_solutions: bool) -> str | None:
    lesson = next((each for each in lessons() if each.number == number), None)
    if lesson is None or form not in FORMS or (form == "teacher" and not has_solutions):
        return None
    runs = {scenario.name: run(scenario) for scenario in lesson.scenarios}
    return FORMS[form][0](view.page(lesson, runs, glossary(), has_solutions))


def _answer(request, has_solutions: bool) -> Response:
    form = request.path_params.get("form", "")
    text = page(request.path_params["number"], form, has_solutions)
    if text is None:
        return JSONResponse({"problem": "There is no such lesson."}, status_code=404)
    return Response(text, media_type=FORMS[form][1], headers={"Cache-Control": "no-cache"})


def _alone(_) -> Response:
    return Response(minute_alone("../#lessons"), media_type="text/html", headers={"Cache-Control": "no-cache"})


TITLES = {"teacher": teaching.PLANS, "tickets": teaching.TICKETS}
PAPERS = {"teacher": teaching.plans_page, "tickets": teaching.tickets_page}


def titles(has_solutions: bool) -> dict[str, str]:
    """Returns the titles of the pages for teachers, by their names. Without solutions there are none, because a class
    would read its exit tickets beforehand."""
    return TITLES if has_solutions else {}


@lru_cache(maxsize=2 * len(PAPERS))
def paper(name: str, lessons_address: str = "../../") -> str:
    """Returns one of the pages for teachers, as the text of an HTML file. ``lessons_address``: where its links lead."""
    return PAPERS[name](loader.teaching(), lessons(), lessons_address)


def _paper(request, has_solutions: bool) -> Response:
    name = request.path_params["name"]
    if name not in titles(has_solutions):
        return JSONResponse({"problem": "There is no such page."}, status_code=404)
    return Response(paper(name), media_type="text/html", headers={"Cache-Control": "no-cache"})


@lru_cache(maxsize=2)
def _practice_sheet(has_solutions: bool) -> str:
    return practice.sheet(glossary(), has_solutions)


def _answer_practice(_, has_solutions: bool) -> Response:
    text = _practice_sheet(has_solutions)
    return Response(text, media_type="text/html", headers={"Cache-Control": "no-cache"})


def routes(has_solutions: bool = True) -> list[Route]:
    """Returns plain routes and no gradio events, because a class of thirty opens the same text at once."""
    answers = {
        "lessons/{number:int}": _answer,
        "lessons/{number:int}/{form}": _answer,
        "papers/{name}": _paper,
        "practice": _answer_practice,
    }
    known = [Route(f"/speclens/{at}", partial(reply, has_solutions=has_solutions)) for at, reply in answers.items()]
    return [*known, Route(f"/{ALONE}", _alone)]


class LessonHandlers:
    def __init__(self, service: Service):
        self.service = service
        self.controls = controls_by_name(service.limits)

    def live(self, event: gr.EventData) -> list[Any]:
        """Returns the stage's sentence and every control in the order of form.NAMES, filled from a lesson."""
        number = event._data.get("lesson") if isinstance(event._data, dict) else None
        lesson = next((each for each in lessons() if each.number == number and each.live), None)
        if lesson is None:
            return [SKIP] * (1 + len(NAMES))
        values = view.live(lesson)["values"] | {"pair": self.controls["pair"].default}
        values["tokens"] = min(values["tokens"], self.controls["tokens"].high)
        offered = method_choices(self.service, values["pair"])
        words = f"Settings of lesson {lesson.number} are filled in. Press Run."
        if values["method"] not in dict(offered).values():
            words += f" These models have no {values['method']} draft, so the method is auto."
            values["method"] = AUTO
        filled = [gr.update(value=values[name]) for name in NAMES]
        filled[NAMES.index("method")] = gr.update(choices=offered, value=values["method"])
        return [player_feed.say("quiet", words), *filled]

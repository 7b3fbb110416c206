"""Starts the page on the made-up engine, to look at it without a model.

    make fake

POST /fake with JSON sets how the engine behaves, for example {"step": 0.05, "echo": true}.
"""

import os

from fake_worker import FakeEngine, FakeWorker
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.jobs.result_cache import ResultCache
from app.jobs.service import Service
from app.page import build, launch_options
from app.ui import temp_folder

# ``recorded``: ended runs that are shown again. None by default: journeys press Run twice and mean it.
DEFAULTS = {"step": 0.002, "load": 0.0, "draft": 0.001, "c": 0.42, "echo": False, "recorded": 0}


def change(service: Service, worker: FakeWorker, settings: dict) -> None:
    """Raises ValueError for a setting that does not exist."""
    if settings.pop("stop", False):
        for job in worker.jobs:
            job.cancel()
    if unknown := settings.keys() - DEFAULTS.keys():
        raise ValueError(f"the made-up engine has no {', '.join(unknown)}")
    settings = DEFAULTS | settings
    service.runs.results = ResultCache(settings.pop("recorded"))
    if settings["load"]:
        worker.engine = None  # the next run loads it again
    vars(worker).update(settings)


def control(service: Service, worker: FakeWorker) -> Route:
    async def answer(request: Request) -> Response:
        change(service, worker, await request.json())
        return Response()

    return Route("/fake", answer, methods=["POST"])


if __name__ == "__main__":
    temp_folder.choose()
    worker = FakeWorker()
    service = Service(FakeEngine(worker))
    change(service, worker, {})
    options = launch_options(service)
    options["app_kwargs"]["routes"].append(control(service, worker))
    build(service).launch(server_name="127.0.0.1", server_port=int(os.environ.get("PORT", "7870")), **options)

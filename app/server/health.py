"""Serves an operator's routes: `/metrics`, `/healthz` and `/readyz`. Knows neither jobs nor models."""

from collections.abc import Callable

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

NO_STORE = {"Cache-Control": "no-store"}


def routes(metrics: Callable[[], bytes], state: Callable[[], tuple[str, str | None]]) -> list[Route]:
    """``metrics``: Prometheus' text. ``state``: the engine's state in a word, and why it takes no runs, as a sentence;
    None where it does."""

    async def show_metrics(_) -> Response:
        return Response(metrics(), media_type=CONTENT_TYPE_LATEST, headers=NO_STORE)

    async def alive(_) -> Response:
        return PlainTextResponse("ok", headers=NO_STORE)

    def ready(_) -> Response:  # in a thread, because it looks at files
        word, problem = state()
        answer = {"state": word} | ({"problem": problem} if problem else {})
        return JSONResponse(answer, 503 if problem else 200, headers=NO_STORE)

    return [Route("/metrics", show_metrics), Route("/healthz", alive), Route("/readyz", ready)]

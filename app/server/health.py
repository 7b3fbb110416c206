"""Serves an operator's routes: `/metrics`, `/healthz` and `/readyz`. Knows neither jobs nor models."""

from collections.abc import Callable

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

NO_STORE = {"Cache-Control": "no-store"}


def routes(metrics: Callable[[], bytes], state: Callable[[], tuple[bool, str]]) -> list[Route]:
    """``metrics``: Prometheus' text. ``state``: whether the engine takes runs, and its state in a word."""

    async def show_metrics(_) -> Response:
        return Response(metrics(), media_type=CONTENT_TYPE_LATEST, headers=NO_STORE)

    async def alive(_) -> Response:
        return PlainTextResponse("ok", headers=NO_STORE)

    async def ready(_) -> Response:
        is_ready, word = state()
        return JSONResponse({"state": word}, 200 if is_ready else 503, headers=NO_STORE)

    return [Route("/metrics", show_metrics), Route("/healthz", alive), Route("/readyz", ready)]

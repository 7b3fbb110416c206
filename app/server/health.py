"""Serves an operator's routes: `/metrics`, `/healthz` and `/readyz`. Knows neither jobs nor models."""

from collections.abc import Callable

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

NO_STORE = {"Cache-Control": "no-store"}


class ExactRoute(Route):
    """A route that answers at its own path alone. A reverse proxy that denies a path would miss it below a doubled root
    path, which starlette (1.10) cuts off, and with a slash at its end, from which starlette redirects."""

    def __init__(self, path: str, endpoint: Callable):
        super().__init__(f"{path}{{rest:path}}", endpoint)
        self.only = path

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == self.only:
            await super().handle(scope, receive, send)
        else:
            await PlainTextResponse("There is nothing at this address.", 404)(scope, receive, send)


def routes(metrics: Callable[[], bytes], state: Callable[[], tuple[str, str | None]]) -> list[Route]:
    """Returns the routes that say how the server is. ``metrics``: Prometheus' text. ``state``: the engine's state in a
    word, and why it takes no runs, as a sentence; None where it does."""

    async def show_metrics(_) -> Response:
        return Response(metrics(), media_type=CONTENT_TYPE_LATEST, headers=NO_STORE)

    async def alive(_) -> Response:
        return PlainTextResponse("ok", headers=NO_STORE)

    def ready(_) -> Response:  # in a thread, because it looks at files
        word, problem = state()
        answer = {"state": word} | ({"problem": problem} if problem else {})
        return JSONResponse(answer, 503 if problem else 200, headers=NO_STORE)

    return [ExactRoute("/metrics", show_metrics), ExactRoute("/healthz", alive), ExactRoute("/readyz", ready)]

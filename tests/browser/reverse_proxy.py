"""A reverse proxy that serves the page below a path, as docs/container.md sets one up."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import uvicorn
from server import free_port
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

HOP = {"host", "connection", "transfer-encoding", "content-length", "accept-encoding"}


@contextmanager
def proxy(target: str, prefix: str) -> Iterator[str]:
    """A reverse proxy as a campus has one: serves ``target`` under a path, over a stream, with the usual headers."""
    client = httpx.AsyncClient(timeout=None)

    async def pass_on(request: Request) -> Response:
        path = request.url.path.removeprefix(prefix)
        headers = {name: value for name, value in request.headers.items() if name not in HOP}
        headers |= {"x-forwarded-host": request.headers["host"], "x-forwarded-proto": request.url.scheme}
        url = f"{target}{path}?{request.url.query}"
        sent = client.build_request(request.method, url, headers=headers, content=await request.body())
        answer = await client.send(sent, stream=True)
        passed = {name: value for name, value in answer.headers.items() if name not in HOP | {"content-encoding"}}
        return StreamingResponse(
            answer.aiter_bytes(), answer.status_code, passed, background=BackgroundTask(answer.aclose)
        )

    routes = [Route(f"{prefix}/{{path:path}}", pass_on, methods=["GET", "POST", "HEAD"])]
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}{prefix}/"
    finally:
        server.should_exit = server.force_exit = True
        thread.join(10)

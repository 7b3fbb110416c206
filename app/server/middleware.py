"""Compresses the page and its assets, and lets browsers cache assets whose names hold a hash.

The headers of security are not set here. The files of the engine in a tab have the ones that isolate it (`HEADERS` in
`app/tab/page.py`); a page without a server has its content policy in a meta element (`document` in
`app/ui/static_page.py`). The served page adds none to Gradio's own.
"""

import re

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.server.gradio_patches import AnimationFramePatch

HASHED_ASSET = re.compile(r"/assets/[\w.-]+-[\w-]{8}\.(?:js|css)")  # Gradio's scripts and styles, about 80 for a page
IMMUTABLE = "public, max-age=31536000, immutable"


class PageMiddleware:
    """Handles `/`, whose document gets ``head`` as HTML, and hashed assets; other requests pass through."""

    def __init__(self, app: ASGIApp, head: str = ""):
        self.app = app
        self.document = GZipMiddleware(AnimationFramePatch(app, head), compresslevel=5)
        self.asset = GZipMiddleware(CacheHeader(app), compresslevel=1)  # compressed again for each new visitor

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self.app
        if scope["type"] == "http" and scope["path"] == "/":
            app = self.document
        elif scope["type"] == "http" and HASHED_ASSET.fullmatch(scope["path"]) and "range" not in Headers(scope=scope):
            app = self.asset
        await app(scope, receive, send)


class CacheHeader:
    """Adds `Cache-Control: immutable` to successful responses."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_cacheable(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] in (200, 304):
                MutableHeaders(raw=message["headers"])["Cache-Control"] = IMMUTABLE
            await send(message)

        await self.app(scope, receive, send_cacheable)

"""The page on its way out: packed once instead of for every visitor, and without gradio's clock."""

import re
from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEAD = b"<head>"
# Gradio's sign of loading leaves its clock behind when it goes, which then draws a frame sixty times a second for as
# long as the page is open. No clock of gradio's is shown here, so none of them starts.
NO_CLOCK = rb"""<script>
(() => {
  const ask = window.requestAnimationFrame.bind(window);
  const clock = /^\(\)=>\{\w+\(\w+,\(performance\.now\(\)-/;
  window.requestAnimationFrame = draw => clock.test(draw) ? 0 : ask(draw);
})();
</script>"""
# Gradio's scripts and styles, some eighty to a page. A hash of what is in them is part of their names.
NAMED_BY_HASH = re.compile(r"/assets/[\w.-]+-[\w-]{8}\.(?:js|css)")
FOR_GOOD = "public, max-age=31536000, immutable"


class Front:
    """Around the whole app; all but the document and its scripts and styles passes as it is."""

    def __init__(self, app: ASGIApp, opens: Callable[[], None] = lambda: None):
        """``opens`` is told when somebody asks for the document."""
        self.app, self.opens = app, opens
        self.document = GZipMiddleware(_WithoutClock(app), compresslevel=5)
        self.files = _Remembered(GZipMiddleware(app, compresslevel=5))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        way = self.app
        if scope["type"] == "http" and scope["path"] == "/":
            way = self.document
            self.opens()
        elif scope["type"] == "http" and scope["method"] == "GET" and NAMED_BY_HASH.fullmatch(scope["path"]):
            way = self.files
        await way(scope, receive, send)


class _Remembered:
    """What was answered once is answered from memory, and need not be asked for again by the same browser. Read from
    the disk and packed for each of a class, they would take a third of what a page costs the server."""

    def __init__(self, app: ASGIApp):
        self.app = app
        self.answers: dict[tuple[str, bool], tuple[Message, Message]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        if "range" in headers or "if-none-match" in headers or "if-modified-since" in headers:
            await self.app(scope, receive, send)
            return
        asked = scope["path"], "gzip" in headers.get("accept-encoding", "")
        if asked not in self.answers:
            start, body = await _whole(self.app, scope, receive)
            if start["status"] != 200:
                await send(start)
                await send(body)
                return
            MutableHeaders(raw=start["headers"])["Cache-Control"] = FOR_GOOD
            self.answers[asked] = start, body
        start, body = self.answers[asked]
        await send(start | {"headers": list(start["headers"])})  # whoever is further out may add to them
        await send(dict(body))


class _WithoutClock:
    """Sooner than gradio's own ``head``, which comes when the clock is running already."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start, body = await _whole(self.app, scope, receive)
        if HEAD in body["body"]:
            body["body"] = body["body"].replace(HEAD, HEAD + NO_CLOCK, 1)
            MutableHeaders(raw=start["headers"])["Content-Length"] = str(len(body["body"]))
        await send(start)
        await send(body)


async def _whole(app: ASGIApp, scope: Scope, receive: Receive) -> tuple[Message, Message]:
    """The answer in two messages, whatever pieces it comes in."""
    start: Message = {}
    found = bytearray()

    async def keep(message: Message) -> None:
        nonlocal start
        if message["type"] == "http.response.start":
            start = message
        elif message["type"] == "http.response.body":
            found.extend(message.get("body", b""))

    await app(scope, receive, keep)
    return start, {"type": "http.response.body", "body": bytes(found)}

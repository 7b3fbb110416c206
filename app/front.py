"""The page's document on its way out: packed, for it carries all scripts of the page, and without gradio's clock."""

from starlette.datastructures import MutableHeaders
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


class Front:
    """Around the whole app; all but the document passes as it is."""

    def __init__(self, app: ASGIApp):
        self.app = app
        self.document = GZipMiddleware(_WithoutClock(app), compresslevel=5)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        document = scope["type"] == "http" and scope["path"] == "/"
        await (self.document if document else self.app)(scope, receive, send)


class _WithoutClock:
    """Sooner than gradio's own ``head``, which comes when the clock is running already."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start: Message = {}
        body = bytearray()

        async def through(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
                return
            body.extend(message.get("body", b""))
            if not message.get("more_body", False):
                whole = bytes(body).replace(HEAD, HEAD + NO_CLOCK, 1)
                if len(whole) > len(body):
                    MutableHeaders(raw=start["headers"])["Content-Length"] = str(len(whole))
                await send(start)
                await send({"type": "http.response.body", "body": whole})

        await self.app(scope, receive, through)

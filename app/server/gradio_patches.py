"""Patches Gradio 6.31's document on its way out: no idle animation loop, and no stream closed too early."""

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEAD = b"<head>"
# In Gradio 6.31 the timer of its loading status goes on drawing a frame 60 times a second after the status has been
# removed, for as long as the page is open. The page shows no such timer, so none may start. The pattern matches the
# timer's minified source.
# Gradio 6.31 also closes the page's stream before it asks whether to leave a measurement of the Lab, so
# one who stays would never hear of it again. Its listener comes later than this one, which asks.
SCRIPT = rb"""<script>
(() => {
  const request = window.requestAnimationFrame.bind(window);
  const timer = /^\(\)=>\{\w+\(\w+,\(performance\.now\(\)-/;
  window.requestAnimationFrame = draw => timer.test(draw) ? 0 : request(draw);
  window.addEventListener('beforeunload', event => {
    if (!document.querySelector('#lab-tabs .sl-notice[data-kind="progress"]')) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  });
})();
</script>"""


class AnimationFramePatch:
    """Puts a script and ``more`` HTML first in the document, because Gradio's own ``head`` option comes after the
    timer's start."""

    def __init__(self, app: ASGIApp, more: str = ""):
        self.app = app
        self.more = more.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start, body = await _response(self.app, scope, receive)
        if HEAD in body["body"]:
            body["body"] = body["body"].replace(HEAD, HEAD + SCRIPT + self.more, 1)
            MutableHeaders(raw=start["headers"])["Content-Length"] = str(len(body["body"]))
        await send(start)
        await send(body)


async def _response(app: ASGIApp, scope: Scope, receive: Receive) -> tuple[Message, Message]:
    """Collects the complete response as two messages."""
    start: Message = {}
    chunks = bytearray()

    async def collect(message: Message) -> None:
        nonlocal start
        if message["type"] == "http.response.start":
            start = message
        elif message["type"] == "http.response.body":
            chunks.extend(message.get("body", b""))

    await app(scope, receive, collect)
    return start, {"type": "http.response.body", "body": bytes(chunks)}

"""Measures how long a page takes to show a clicked token while the engine works for another visitor."""

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from gradio_client import Client

LONGEST_MS = 100  # what inspecting a token is held to
# Click a token, wait for the frame that shows it in the inspector. The server receives no request for it.
_INSPECT = """async () => {
  const tokens = [...document.querySelectorAll('.sl-list .sl-token')].filter((_, i) => i % 3 === 0).slice(0, 30);
  const shown = document.querySelector('.sl-inspected-token'), times = [];
  for (const token of tokens) {
    shown.replaceChildren();
    const start = performance.now();
    token.click();
    await new Promise(frame => requestAnimationFrame(() => setTimeout(frame)));
    times.push(performance.now() - start);
    if (!shown.textContent) throw Error('nothing was shown');
    await new Promise(rest => setTimeout(rest, 100));
  }
  return times;
}"""


def inspected(page) -> list[float]:
    """Milliseconds for each of up to thirty tokens."""
    return page.evaluate(_INSPECT)


@contextmanager
def engine_busy(url: str, tokens: int = 64) -> Iterator[None]:
    """Another visitor runs one prompt after the other over the API; the first has begun."""
    client, begun, over = Client(url, verbose=False), threading.Event(), threading.Event()

    def keep_busy():
        for number in itertools.count():
            job = client.submit(f"Number {number} is my favourite because", tokens=tokens, api_name="/run")
            while not job.done():
                if job.outputs():
                    begun.set()
                if over.is_set():
                    job.cancel()
                    return
                time.sleep(0.05)
            job.result()  # raises what it ended with

    thread = threading.Thread(target=keep_busy, daemon=True)
    thread.start()
    if not begun.wait(60):
        raise AssertionError("the engine did not begin to work")
    try:
        yield
        if not thread.is_alive():
            raise AssertionError("the engine was idle: a run failed meanwhile")
    finally:
        over.set()
        thread.join(60)

"""One request to the app's public API, followed on a thread of its own and checked at its end."""

import threading
import time

from gradio_client import Client

from engine.trace.events import EMITTED


class Request(threading.Thread):
    """One run over the API, with all its updates."""

    def __init__(self, client: Client, prompt: str, tokens: int, **options):
        super().__init__(daemon=True)
        self.client, self.prompt, self.updates, self.error = client, prompt, [], None
        self.options = {"tokens": tokens} | options
        self.began, self.first_token, self.seconds = time.monotonic(), None, None
        self.start()

    def run(self) -> None:
        try:
            self.job = job = self.client.submit(self.prompt, **self.options, api_name="/run")
            over = False
            while not over:  # `for update in job` would look a thousand times a second, and there are many of us
                time.sleep(0.05)
                over = job.done()
                self.updates = job.outputs()
                now = time.monotonic() - self.began
                if any(text for text, _, _ in self.updates[-1:]):
                    self.first_token = self.first_token or now
            job.result()  # raises what it ended with
        except Exception as error:
            self.error = error
        self.seconds = time.monotonic() - self.began

    @property
    def places(self) -> list[int]:
        return [figures["place"] for _, figures, _ in self.updates if figures.get("place")]

    def problem(self) -> str | None:
        """The promise to this client that was broken, or None."""
        if self.error or not self.updates:
            return f"{self.prompt!r} failed: {self.error}"
        text, figures, trace = self.updates[-1]
        if figures["status"] not in ("finished", "recorded"):
            return f"{self.prompt!r} ended as {figures['status']}"
        if trace["baseline"] is None and not figures["others"]:
            return f"{self.prompt!r} has neither a baseline nor others beside it"
        for lane in ("run", "baseline"):
            if trace[lane] and trace[lane]["started"]["config"]["prompt"] != self.prompt:
                return f"{self.prompt!r} was shown the {lane} of somebody else"
        emitted = [t for r in trace["run"]["rounds"] for t in r["tokens"] if t["status"] in EMITTED]
        return None if "".join(t["text"] for t in emitted) == text else f"{self.prompt!r}: text and trace differ"

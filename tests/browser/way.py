"""Prints the way of a request, from the click on Run to the coloured token, by following one: `make way`.

The page runs in this process with a real engine and the embedded pair, and Chromium presses Run. What counts is the
stack of our own functions (app/, engine/, assets/web/) each time that the request is handed on: registered, put into
the queue, drafted for, scored, decided on, published, sent, read by the browser, drawn. A function counts once. A
helper that has returned by then does not count, nor do wrappers without a name (lambdas and comprehensions), Gradio, or
torch.
"""

import re
import sys
import threading
import time
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parents[2]
OURS = re.compile(rf"{re.escape(str(ROOT))}/(app|engine)/")
# The functions in which a request is handed on: the end of a file's path, the function's name, and the step.
STEPS = (
    ("app/jobs/runs.py", "open", "registered"),
    ("engine/runtime/worker.py", "submit", "queued"),
    ("engine/drafters/", "propose", "drafted for"),
    ("engine/models/", "forward", "scored"),
    ("engine/sampling/", "verify_chain", "decided on"),
    ("engine/runtime/job.py", "publish", "published"),
    ("app/views/player_feed.py", "add", "sent"),
)
# In the browser the stacks at two moments: a round's line is parsed, and the first of its tokens joins the page.
WATCH = """
Error.stackTraceLimit = 100;
window.way = {};
const keep = (step) => { window.way[step] ??= new Error().stack; };
const parse = JSON.parse;
JSON.parse = (text, ...more) => {
  if (window.pressed && typeof text === 'string' && /^[{]"type": ?"round"/.test(text)) keep('read');
  return parse(text, ...more);
};
for (const name of ['append', 'appendChild', 'replaceChildren', 'prepend', 'before', 'after', 'insertBefore']) {
  for (const kind of [Element.prototype, Node.prototype, DocumentFragment.prototype]) {
    const own = Object.getOwnPropertyDescriptor(kind, name)?.value;
    if (!own) continue;
    kind[name] = function (...nodes) {
      const isToken = (node) => node?.classList?.contains('sl-token')
        || (node?.nodeType === 11 && node.querySelector('.sl-token'));
      if (window.way.read && nodes.some(isToken)) keep('drawn');
      return own.apply(this, nodes);
    };
  }
}
"""


class Way:
    """``stacks``: of each step, the outermost function first, where it happened first."""

    def __init__(self):
        self.is_followed, self.stacks = False, {}

    def profile(self, frame: FrameType, event: str, _) -> None:
        if event != "call" or not self.is_followed:
            return
        code = frame.f_code
        for path, name, step in STEPS:
            if code.co_name == name and step not in self.stacks and path in code.co_filename:
                self.stacks[step] = threading.current_thread().name, self._stack(frame)

    def _stack(self, frame: FrameType | None) -> list[str]:
        stack = []
        while frame is not None:
            code = frame.f_code
            if OURS.match(code.co_filename) and "<" not in code.co_name:
                module = Path(code.co_filename).relative_to(ROOT).with_suffix("").as_posix()
                stack.append(f"{module}.{code.co_qualname}")
            frame = frame.f_back
        return stack[::-1]


def browser_stack(text: str) -> list[str]:
    """The named functions of our own script in a stack of V8, the outermost first, each with its caller, because two
    of one name are two functions."""
    found = re.findall(r"^ +at (?:\w+\.)*([\w$]+)(?: \[as \w+\])? \(\S*/speclens-\w+\.js:\d+:", text, re.MULTILINE)
    names = found[::-1]
    return [f"{name} (called by {caller})" for caller, name in zip(["Gradio", *names], names, strict=False)]


def follow() -> dict[str, tuple[str, list[str]]]:
    """The stacks of one request, by step."""
    import chromium
    from playwright.sync_api import sync_playwright

    way = Way()
    threading.setprofile(way.profile)
    from app.jobs.service import Service
    from app.page import build, launch_options
    from app.server.limits import Limits

    service = Service(limits=Limits(tab="none"))
    demo = build(service)
    options = launch_options(service) | {"prevent_thread_lock": True, "quiet": True}
    _, url, _ = demo.launch(server_name="127.0.0.1", **options)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium.find(), args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.add_init_script(WATCH)
        page.goto(url)
        page.locator("#run").wait_for()
        until = time.monotonic() + 120
        while service.state.now().kind != "ready":
            assert time.monotonic() < until, "the model was not loaded"
            page.wait_for_timeout(200)
        way.is_followed = True
        page.evaluate("window.pressed = true")
        page.locator("#run").click()
        page.wait_for_function("window.way.drawn", timeout=60_000)
        found = page.evaluate("window.way")
        way.is_followed = False
        page.locator("#stop").click()
        while service.runs.worker.running is not None:  # the process must not end in the middle of a pass
            page.wait_for_timeout(200)
        browser.close()
    demo.close()
    stacks = way.stacks | {step: ("browser", browser_stack(text)) for step, text in found.items()}
    order = [*(step for *_, step in STEPS), "read", "drawn"]
    return {step: stacks[step] for step in order if step in stacks}


def main() -> None:
    stacks, seen = follow(), set()
    for step, (thread, stack) in stacks.items():
        print(f"\n{step} ({re.sub(r' *[(#].*', '', thread)})")
        for function in stack:
            print(f"  {'  ' if function in seen else '+ '}{function}")
            seen.add(function)
    print(f"\n{len(seen)} functions; those already counted have no +.")


if __name__ == "__main__":
    sys.exit(main())

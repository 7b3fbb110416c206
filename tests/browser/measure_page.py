"""Measures how soon the page is ready, how soon a token is seen, and how fast the engine runs while serving a page.

PYTHONPATH=. python tests/browser/measure_page.py [--tokens 128] [--runs 3]

The real engine runs in turn for the page in a headless browser and without it, as the command line does it, so that a
machine that slows down slows both. Run it on a quiet machine.
"""

import argparse
import os
import statistics as middle
import tempfile
import time
from pathlib import Path

from chromium import ARGS, find
from inspection_timing import LONGEST_MS, engine_busy, inspected
from measure_player import cpu_seconds
from playwright.sync_api import Page, expect, sync_playwright
from server import APP, serving

from app.form import START, defaults
from app.views.tiles import speedup
from engine.config import RunConfig
from engine.runtime.worker import get_worker
from engine.trace.events import Progress
from engine.trace.metrics import compute_metrics
from engine.trace.trace import Trace, fold, from_json

READY_MS, FIRST_MS = 2000, 300  # what the page is held to
# When the button was pressed, and when the first token of that run was in the document.
WATCH = """() => {
  const player = document.querySelector('.sl-player');
  window.first = new Promise(done => {
    document.querySelector('#run').addEventListener('click', () => {
      const pressed = performance.now(), old = new Set(player.querySelectorAll('.sl-list .sl-token'));
      const look = () => {
        const seen = [...player.querySelectorAll('.sl-list .sl-token:not([hidden])')].some(token => !old.has(token));
        if (seen) done(performance.now() - pressed); else setTimeout(look, 5);
      };
      setTimeout(look, 5);
    }, { once: true });
  });
}"""


def ready(browser, url: str) -> tuple[Page, float]:
    """The page, and the milliseconds until it can be used: Run is there and the recorded run plays."""
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    began = time.perf_counter()
    page.goto(url, wait_until="commit")
    page.wait_for_function(
        "() => document.querySelector('#run') && document.querySelector('.sl-list .sl-token:not([hidden])')"
    )
    return page, 1000 * (time.perf_counter() - began)


def visit(browser, url: str) -> tuple[float, bool]:
    """Milliseconds until the page was ready, and whether the model was still on its way in then."""
    page, milliseconds = ready(browser, url)
    expect(page.locator(".sl-chip-words")).not_to_be_empty(timeout=60_000)
    loading = page.locator('.sl-chip[data-kind="loading"]').count() > 0
    page.context.close()
    return milliseconds, loading


def saved(page: Page, button: str) -> Trace:
    expect(page.locator(f"#{button}")).to_be_enabled(timeout=60_000)
    with page.expect_download() as download:
        page.locator(f"#{button}").click()
    return from_json(download.value.path().read_bytes())


def through_the_page(page: Page, tokens: int, seed: int) -> dict:
    page.locator("#method input").click()
    page.get_by_role("option", name="n-gram lookup").click()
    page.locator("#tokens input").fill(str(tokens))
    page.locator("#seed input").fill(str(seed))  # greedy: the text stays, and no kept run is shown instead
    page.locator('[data-do="end"]').click()
    page.wait_for_timeout(1500)
    page.evaluate(WATCH)
    before, began = cpu_seconds(os.getpid()), time.monotonic()
    page.locator("#run").click()
    first = page.evaluate("first")
    expect(page.locator("#run")).to_have_text("Running…", timeout=60_000)
    expect(page.locator("#run")).to_have_text("Run", timeout=300_000)
    busy = (cpu_seconds(os.getpid()) - before) / (time.monotonic() - began)
    ran, plain = saved(page, "trace-file"), saved(page, "baseline-file")
    return {"first": first, "prefill": 1000 * ran.finished.prefill, "cores": busy, **speeds(ran, plain)}


def beside_it(tokens: int, seed: int) -> dict:
    """The same request and its baseline on a worker of this process, as `python -m engine run --compare` does it."""
    config = RunConfig(START, method="ngram", max_new_tokens=tokens, seed=seed)
    plain = RunConfig(START, method="none", gamma=0, max_new_tokens=tokens, seed=seed)
    return speeds(*map(_alone, (config, plain)))


def _alone(config: RunConfig) -> Trace:
    events = get_worker().submit([("run", config)]).entries()
    return fold(event for _, event in events if not isinstance(event, Progress))


def speeds(ran: Trace, plain: Trace) -> dict:
    return {
        "run": compute_metrics(ran).tokens_per_second,
        "plain": compute_metrics(plain).tokens_per_second,
        "speedup": speedup(ran, plain),
    }


def told(name: str, values: list[float], unit: str, limit: float | None = None) -> None:
    held = "" if limit is None else f"  (at most {limit:.0f}: {'kept' if max(values) <= limit else 'NOT KEPT'})"
    each = ", ".join(f"{value:.4g}" for value in values)
    print(f"{name:<44} median {middle.median(values):7.4g} {unit:<9} of {each}{held}", flush=True)


def main(tokens: int, runs: int) -> None:
    assert defaults()["prompt"] == START
    with (
        tempfile.TemporaryDirectory() as folder,
        sync_playwright() as playwright,
        serving(APP, Path(folder) / "app.log") as url,
    ):
        browser = playwright.chromium.launch(executable_path=find(), args=ARGS)
        first, loading = visit(browser, url)
        told("page ready, first visit", [first], "ms", READY_MS)
        meanwhile = []
        while loading:
            milliseconds, loading = visit(browser, url)
            meanwhile.append(milliseconds)
        told("page ready, while the model loads", meanwhile, "ms", READY_MS)
        told("page ready, later visits", [visit(browser, url)[0] for _ in range(runs)], "ms", READY_MS)
        page, _ = ready(browser, url)
        beside_it(8, 0)
        through_the_page(page, 8, 1_000)  # the models are loaded and the device measured
        paged, alone = [], []
        for seed in range(1, runs + 1):
            alone.append(beside_it(tokens, seed))
            paged.append(through_the_page(page, tokens, seed))
        page.locator('[data-do="end"]').click()
        with engine_busy(url):
            looked = [milliseconds for _ in range(runs) for milliseconds in inspected(page)]
        browser.close()
    told("click to first token, less prefill", [one["first"] - one["prefill"] for one in paged], "ms", FIRST_MS)
    worst = sorted(looked)[-5:]
    told(f"inspecting, engine busy, worst of {len(looked)} tokens", worst, "ms", LONGEST_MS)
    for name, unit in (("run", "tokens/s"), ("plain", "tokens/s"), ("speedup", "×")):
        told(f"{name}, through the page", [one[name] for one in paged], unit)
        told(f"{name}, without it", [one[name] for one in alone], unit)
    told("browser, server and engine during a run", [one["cores"] for one in paged], "cores")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    main(args.tokens, args.runs)

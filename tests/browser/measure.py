"""Measures the page in a headless browser on a quiet machine: how soon it is ready, and how soon a token is seen.
`make load` measures a class of thirty.

PYTHONPATH=.:tests/helpers python tests/browser/measure.py [--tokens N] [--runs 3]
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

from chromium import ARGS, find
from page_actions import choose, press_run, saved, wait_for_end
from playwright.sync_api import Page, expect, sync_playwright
from server import APP, serving
from visits import DESKTOP

from engine.trace.trace import from_json

READY_MS, FIRST_MS = 2000, 300  # the goals
WAIT = 900_000  # ms
READY = "() => document.querySelector('#run') && document.querySelector('.sl-list .sl-token:not([hidden])')"
# From the press of the button to the first token of that run in the document.
FIRST = """() => {
  const tokens = () => [...document.querySelectorAll('.sl-list .sl-token:not([hidden])')];
  window.first = new Promise(done => document.querySelector('#run').addEventListener('click', () => {
    const pressed = performance.now(), old = new Set(document.querySelectorAll('.sl-list .sl-token'));
    setTimeout(function look() {
      if (tokens().some(token => !old.has(token))) done(performance.now() - pressed); else setTimeout(look, 5);
    }, 5);
  }, { once: true }));
}"""


def new_page(browser, url: str) -> Page:
    page = browser.new_context(viewport=DESKTOP).new_page()
    page.goto(url, wait_until="commit")
    page.wait_for_function(READY)
    return page


def visit(browser, url: str) -> float:
    """Milliseconds until the page could be used."""
    began = time.perf_counter()
    page = new_page(browser, url)
    milliseconds = 1000 * (time.perf_counter() - began)
    page.context.close()
    return milliseconds


def first_token(page: Page, tokens: int, seed: int) -> float:
    """Milliseconds from the click to the first token, less the prefill."""
    choose(page, "method", "n-gram lookup")
    page.locator("#stage .sl-rows").press("End")
    page.wait_for_timeout(1500)
    page.evaluate(FIRST)
    press_run(page, tokens=str(tokens), seed=str(seed))  # greedy: the text stays, and no kept run is shown instead
    wait_for_end(page, WAIT)
    return page.evaluate("first") - 1000 * from_json(saved(page, "trace-file")).finished.prefill


def show(name: str, values: list[float], unit: str, limit: float | None = None) -> None:
    held = "" if limit is None else f"  (at most {limit:.0f}: {'kept' if max(values) <= limit else 'NOT KEPT'})"
    each = ", ".join(f"{value:.4g}" for value in values)
    print(f"{name:<44} median {statistics.median(values):7.4g} {unit:<9} of {each}{held}", flush=True)


def measure_page(browser, url: str, tokens: int, runs: int) -> None:
    show("page ready, first visit, while the model loads", [visit(browser, url)], "ms", READY_MS)
    page = new_page(browser, url)
    expect(page.locator('.sl-engine-status[data-kind="ready"]')).to_be_visible(timeout=WAIT)
    show("page ready, later visits", [visit(browser, url) for _ in range(runs)], "ms", READY_MS)
    first_token(page, 8, 1_000)  # the models are loaded and the device measured
    firsts = [first_token(page, tokens, seed) for seed in range(1, runs + 1)]
    show("click to first token, less prefill", firsts, "ms", FIRST_MS)


def main(tokens: int, runs: int) -> None:
    if hasattr(os, "getloadavg"):  # on a machine that is busy otherwise the numbers are of that
        print(f"load of this machine before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=find(), args=ARGS)
        with serving(APP, Path(folder) / "app.log") as url:
            measure_page(browser, url, tokens, runs)
        browser.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--runs", type=int, default=3)
    main(**vars(parser.parse_args()))

"""Measures the page in a headless browser on a quiet machine: how soon it is ready, how soon a token is seen, and how
soon one is inspected while the engine is busy. `make load` measures a class of thirty.

PYTHONPATH=.:tests/helpers python tests/browser/measure.py [--tokens N] [--runs 3]
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

from api_request import Request
from chromium import ARGS, find
from gradio_client import Client
from page_actions import choose, press_run, saved, wait_for_end
from playwright.sync_api import Page, expect, sync_playwright
from server import APP, serving
from visits import DESKTOP

from engine.trace.trace import from_json

READY_MS, FIRST_MS, INSPECT_MS = 2000, 300, 100  # the goals
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
# Click a token, wait for the frame that shows it in the inspector. The server receives no request for it.
INSPECT = """async () => {
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


def new_page(browser, url: str) -> Page:
    page = browser.new_context(viewport=DESKTOP).new_page()
    page.goto(url, wait_until="commit")
    page.wait_for_function(READY)
    return page


def visit(browser, url: str) -> tuple[float, bool]:
    """Milliseconds until the page could be used, and whether the model was still on its way in then."""
    began = time.perf_counter()
    page = new_page(browser, url)
    milliseconds = 1000 * (time.perf_counter() - began)
    expect(page.locator(".sl-chip-words")).not_to_be_empty(timeout=60_000)
    loading = page.locator('.sl-chip[data-kind="loading"]').count() > 0
    page.context.close()
    return milliseconds, loading


def first_token(page: Page, tokens: int, seed: int) -> float:
    """Milliseconds from the click to the first token, less the prefill."""
    choose(page, "method", "n-gram lookup")
    page.locator("#stage .sl-rows").press("End")
    page.wait_for_timeout(1500)
    page.evaluate(FIRST)
    press_run(page, tokens=str(tokens), seed=str(seed))  # greedy: the text stays, and no kept run is shown instead
    wait_for_end(page, WAIT)
    return page.evaluate("first") - 1000 * from_json(saved(page, "trace-file")).finished.prefill


def inspected_while_busy(page: Page, url: str) -> list[float]:
    """Milliseconds for each token while another visitor's long run is under way."""
    other = Request(Client(url, verbose=False), "Count from one to five hundred in words.", 512)
    while not other.updates and other.is_alive():
        time.sleep(0.05)
    times = page.evaluate(INSPECT)
    assert other.is_alive(), f"the engine was idle: {other.error or 'the run was over'}"
    return times


def show(name: str, values: list[float], unit: str, limit: float | None = None) -> None:
    held = "" if limit is None else f"  (at most {limit:.0f}: {'kept' if max(values) <= limit else 'NOT KEPT'})"
    each = ", ".join(f"{value:.4g}" for value in values)
    print(f"{name:<44} median {statistics.median(values):7.4g} {unit:<9} of {each}{held}", flush=True)


def measure_page(browser, url: str, tokens: int, runs: int) -> None:
    first, loading = visit(browser, url)
    show("page ready, first visit", [first], "ms", READY_MS)
    meanwhile = []
    while loading:
        milliseconds, loading = visit(browser, url)
        meanwhile.append(milliseconds)
    show("page ready, while the model loads", meanwhile or [first], "ms", READY_MS)
    show("page ready, later visits", [visit(browser, url)[0] for _ in range(runs)], "ms", READY_MS)
    page = new_page(browser, url)
    first_token(page, 8, 1_000)  # the models are loaded and the device measured
    firsts = [first_token(page, tokens, seed) for seed in range(1, runs + 1)]
    page.locator("#stage .sl-rows").press("End")
    looked = inspected_while_busy(page, url)
    show("click to first token, less prefill", firsts, "ms", FIRST_MS)
    show(f"inspecting, engine busy, worst of {len(looked)} tokens", sorted(looked)[-5:], "ms", INSPECT_MS)


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

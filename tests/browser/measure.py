"""Measures the player, the page and a class of thirty, in a headless browser on a quiet machine.

PYTHONPATH=.:tests/helpers python tests/browser/measure.py player|page|class [--tokens N] [--runs 3] [--fake] [--apart]

``player`` needs no model: frames a second while stepping a made-up trace of 2,000 tokens, then DOM latency and CPU
during a run through the real app. ``page``: how soon the page is ready, how soon a token is seen, and how fast the real
engine runs in turn for the page and without it, so that a machine that slows down slows both. ``class``: three browsers
and twenty-seven clients of the API first press the same example, then each runs a prompt of their own. Everyone must
finish, those who wait must see their place, no one may see another's tokens, and a token must be inspected within
100 ms while the engine is busy; ends with an error where a promise is broken.

``class --fake`` measures the page alone, on a made-up engine. With ``--apart`` the browsers get half of the cores and
the server and the clients the others, as each browser of a class is on a machine of its own. On the same two cores
three browsers and an engine can wait longer for one than they need to work (two of eleven such runs had a token of over
100 ms, 118 and 226, some 10 ms of them at work).
"""

import argparse
import os
import re
import statistics
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import player_page
from api_request import Request
from chromium import ARGS, find
from fake_worker import FakeEngine, FakeWorker, play
from gradio_client import Client
from page_actions import choose, fill, saved
from playwright.sync_api import Page, expect, sync_playwright
from server import APP, FAKE_APP, serving
from visits import DESKTOP

from app.form import START
from app.jobs.service import Service
from app.page import build, launch_options
from app.views import player_feed
from app.views.tiles import speedup
from engine.config import RunConfig
from engine.runtime.worker import get_worker
from engine.trace.events import Progress
from engine.trace.metrics import compute_metrics
from engine.trace.trace import Trace, fold, from_json

READY_MS, FIRST_MS, INSPECT_MS = 2000, 300, 100  # what the page is held to
CLIENTS, BROWSERS = 27, 3
SAME = "Why is the sky blue? Answer in three sentences."
WAIT = 900_000  # ms
VERDICT = re.compile(r"\d×")  # both lanes have been measured
# Counts animation frames and the main thread's long tasks while something goes on.
FRAMES = """() => {
  const seen = window.seen = { frames: [], long: [] };
  let last = performance.now();
  requestAnimationFrame(function tick(now) { seen.frames.push(now - last); last = now; requestAnimationFrame(tick); });
  new PerformanceObserver(list => seen.long.push(...list.getEntries().map(entry => entry.duration)))
    .observe({ type: 'longtask' });
}"""
# The same without counting frames, which alone would keep the browser busy: when each round came into the document.
ARRIVALS = """() => {
  const player = document.querySelector('.sl-player'), seen = window.seen = { arrivals: [], long: [] };
  new MutationObserver(() => seen.arrivals.push([+player.dataset.rounds, performance.timeOrigin + performance.now()]))
    .observe(player, { attributes: true, attributeFilter: ['data-rounds'] });
  new PerformanceObserver(list => seen.long.push(...list.getEntries().map(entry => entry.duration)))
    .observe({ type: 'longtask' });
}"""
SCRUB = """() => new Promise(done => {
  const scrub = document.querySelector('.sl-scrub'), steps = 300;
  let i = 0;
  requestAnimationFrame(function move() {
    scrub.value = Math.abs(Math.sin(i / 40)) * scrub.max;
    scrub.dispatchEvent(new Event('input', { bubbles: true }));
    if (++i < steps) requestAnimationFrame(move); else done();
  });
})"""
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


# ── what all three need ──


def percentile(values, share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def new_page(browser, url: str) -> Page:
    page = browser.new_context(viewport=DESKTOP).new_page()
    page.goto(url, wait_until="commit")
    page.wait_for_function(READY)
    return page


def reset(page: Page) -> Page:
    """With every setting's default; the page begins with the recorded run's."""
    page.evaluate("document.querySelector('#reset').click()")
    expect(page.locator("#temperature input[type=number]")).to_have_value("0")
    return page


def press_run(page: Page, **fields: str) -> None:
    fill(page, **fields)
    page.locator("#run").click()


def wait_for_start(page: Page) -> None:
    expect(page.locator("#run")).to_have_text("Running…", timeout=60_000)


def wait_for_end(page: Page) -> None:
    expect(page.locator("#run")).to_have_text("Run", timeout=WAIT)


def cpu_seconds() -> float:
    """User and system time of this process and all below it; Linux only."""
    parents, ticks = {}, {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = file.read_text().rsplit(")", 1)[1].split()
            parents[int(file.parent.name)], ticks[int(file.parent.name)] = int(fields[1]), sum(map(int, fields[11:13]))
    family = {os.getpid()}
    while children := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= children
    return sum(ticks[pid] for pid in family) / os.sysconf("SC_CLK_TCK")


# ── the player ──


def measure_player(browser, tokens: int) -> None:
    trace = fold(play(RunConfig("Hi", method="ngram", gamma=4, max_new_tokens=tokens)))
    print(f"{len(trace.emitted)} tokens in {len(trace.rounds)} rounds")
    page = browser.new_page(viewport=DESKTOP)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "player.html"
        file.write_text(player_page.page(player_feed.complete("measured", trace)), encoding="utf-8")
        for name, act in (
            ("played, 5× faster than it ran", lambda: played(page, 10)),
            ("played, real time", lambda: played(page, 8)),
            ("scrubbed, a jump every frame", lambda: page.evaluate(SCRUB)),
            ("held K, a step per key", lambda: [page.keyboard.press(key) for key in ("Home", *"k" * 200)]),
        ):
            page.goto(file.as_uri())
            page.evaluate(FRAMES)
            act()
            seen = page.evaluate("seen")
            times, long = seen["frames"][2:], seen["long"]
            print(
                f"{name:<34} {1000 * len(times) / sum(times):5.1f} frames/s, p95 frame {percentile(times, 0.95):5.1f} "
                f"ms, {len(long)} long tasks, longest {max(long, default=0):.0f} ms"
            )
    page.close()


def played(page: Page, notch: int) -> None:
    page.locator(".sl-pace").select_option(index=notch)
    page.locator('[data-do="play"]').click()
    page.wait_for_timeout(5000)


def measure_latency(browser, tokens: int) -> None:
    """A run through the real app: from a value's yield to its rounds being in the document."""
    sent: list[tuple[int, float]] = []
    rounds = player_feed.rounds

    def timed(events, lean=False):
        text = rounds(events, lean)
        if events and (not sent or events[-1].index >= sent[-1][0]):  # the end sends all of them once more
            sent.append((events[-1].index + 1, 1000 * time.time()))
        return text

    player_feed.rounds = timed
    service = Service(FakeEngine(FakeWorker(step=0.04)))
    demo = build(service)
    _, url, _ = demo.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1", **launch_options(service))
    page = new_page(browser, url)
    page.locator("#stage .sl-rows").press("End")
    sent.clear()
    page.evaluate(ARRIVALS)
    before, began = cpu_seconds(), time.monotonic()
    press_run(page, tokens=str(tokens))
    wait_for_start(page)
    wait_for_end(page)
    seconds, used, seen = time.monotonic() - began, cpu_seconds() - before, page.evaluate("seen")
    late = [min(at for shown, at in seen["arrivals"] if shown >= count) - at_sent for count, at_sent in sent]
    print(
        f"a run of {tokens} tokens: in the document {percentile(late, 0.5):.0f} ms after it was sent "
        f"(p95 {percentile(late, 0.95):.0f} ms, {len(late)} updates)"
    )
    print(f"CPU of server and browser together: {used:.1f} s over {seconds:.1f} s = {used / seconds:.2f} cores")
    print(f"long tasks of the page during the run (ms): {[round(ms) for ms in seen['long']]}")
    demo.close()


# ── the page ──


def visit(browser, url: str) -> tuple[float, bool]:
    """Milliseconds until the page could be used, and whether the model was still on its way in then."""
    began = time.perf_counter()
    page = new_page(browser, url)
    milliseconds = 1000 * (time.perf_counter() - began)
    expect(page.locator(".sl-chip-words")).not_to_be_empty(timeout=60_000)
    loading = page.locator('.sl-chip[data-kind="loading"]').count() > 0
    page.context.close()
    return milliseconds, loading


def through_the_page(page: Page, tokens: int, seed: int) -> dict:
    choose(page, "method", "n-gram lookup")
    page.locator("#stage .sl-rows").press("End")
    page.wait_for_timeout(1500)
    page.evaluate(FIRST)
    before, began = cpu_seconds(), time.monotonic()
    press_run(page, tokens=str(tokens), seed=str(seed))  # greedy: the text stays, and no kept run is shown instead
    wait_for_start(page)
    wait_for_end(page)
    cores = (cpu_seconds() - before) / (time.monotonic() - began)
    ran, plain = (from_json(saved(page, name)) for name in ("trace-file", "baseline-file"))
    return {"first": page.evaluate("first") - 1000 * ran.finished.prefill, "cores": cores, **speeds(ran, plain)}


def beside_it(tokens: int, seed: int) -> dict:
    """The same request and its baseline on a worker of this process, as `python -m engine run --compare` does it."""
    drafted = RunConfig(START, method="ngram", max_new_tokens=tokens, seed=seed)
    plain = RunConfig(START, method="none", gamma=0, max_new_tokens=tokens, seed=seed)
    jobs = [get_worker().submit([("run", config)]).entries() for config in (drafted, plain)]
    return speeds(*(fold(event for _, event in job if not isinstance(event, Progress)) for job in jobs))


def speeds(ran: Trace, plain: Trace) -> dict:
    own, others = (compute_metrics(trace).tokens_per_second for trace in (ran, plain))
    return {"run": own, "plain": others, "speedup": speedup(ran, plain)}


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
    page = reset(new_page(browser, url))
    beside_it(8, 0)
    through_the_page(page, 8, 1_000)  # the models are loaded and the device measured
    alone, paged = [], []
    for seed in range(1, runs + 1):
        alone.append(beside_it(tokens, seed))
        paged.append(through_the_page(page, tokens, seed))
    page.locator("#stage .sl-rows").press("End")
    looked = inspected_while_busy(page, url)
    show("click to first token, less prefill", [one["first"] for one in paged], "ms", FIRST_MS)
    show(f"inspecting, engine busy, worst of {len(looked)} tokens", sorted(looked)[-5:], "ms", INSPECT_MS)
    for name, unit in (("run", "tokens/s"), ("plain", "tokens/s"), ("speedup", "×")):
        show(f"{name}, through the page", [one[name] for one in paged], unit)
        show(f"{name}, without it", [one[name] for one in alone], unit)
    show("browser, server and engine during a run", [one["cores"] for one in paged], "cores")


# ── a class ──


def own(i: int) -> str:
    return f"Student {i} says: the number {i} is my favourite, and I like it because"


def report(what: str, requests: list[Request]) -> list[str]:
    """Waits for the requests and prints their times. Returns the promises that were broken."""
    for request in requests:
        request.join()
    times = [r.seconds for r in requests]
    recorded = sum(any(figures["status"] == "recorded" for _, figures, _ in r.updates) for r in requests)
    placed = sum(bool(r.places) for r in requests)
    print(
        f"{what}: {len(requests)} clients, {len(requests) - recorded} computed and {recorded} shown a recording; the "
        f"last was through after {max(times):.1f} s, the median after {percentile(times, 0.5):.1f} s; first word after "
        f"{percentile([r.first_answer or 0 for r in requests], 0.95):.2f} s (p95); {placed} were told a place (up to "
        f"{max((place for r in requests for place in r.places), default=0)} before them)"
    )
    return [problem for r in requests if (problem := r.problem())]


def measure_class(browser, url: str, tokens: int) -> list[str]:
    pages = [reset(new_page(browser, url)) for _ in range(BROWSERS)]
    began = time.monotonic()
    clients = [Client(url, verbose=False) for _ in range(CLIENTS)]
    print(f"{CLIENTS} clients and {BROWSERS} browsers are connected after {time.monotonic() - began:.1f} s")

    requests = [Request(client, SAME, tokens) for client in clients]
    for page in pages:
        press_run(page, prompt=SAME, tokens=str(tokens))
    for page in pages:
        expect(page.locator("#stage-notice")).to_contain_text(VERDICT, timeout=WAIT)
    broken = report("the same prompt", requests)

    for i, page in enumerate(pages):  # first in the line, so that they inspect while the others keep the engine busy
        press_run(page, prompt=own(i), tokens=str(tokens))
        wait_for_start(page)
    requests = [Request(client, own(i), tokens) for i, client in enumerate(clients, BROWSERS)]
    for i, page in enumerate(pages):
        wait_for_end(page)
        expect(page.locator(".sl-asked")).to_contain_text(f"Student {i} says")
        if not VERDICT.search(page.locator("#stage-notice").inner_text()):
            broken.append(f"browser {i}: {page.locator('#stage-notice').inner_text()}")
    times = [milliseconds for page in pages for milliseconds in page.evaluate(INSPECT)]
    still = sum(request.is_alive() for request in requests)
    broken += report("a prompt of one's own", requests)
    print(
        f"inspecting a token while {still} runs were still to come: median {percentile(times, 0.5):.0f} ms, "
        f"p95 {percentile(times, 0.95):.0f} ms, longest {max(times):.0f} ms ({len(times)} tokens)"
    )
    promises = {
        "the engine was idle when tokens were inspected: ask for more tokens": still > 0,
        f"inspecting a token took more than {INSPECT_MS} ms": max(times) <= INSPECT_MS,
        "some who waited were not told their place": sum(bool(r.places) for r in requests) >= CLIENTS - 3,
    }
    return broken + [promise for promise, is_kept in promises.items() if not is_kept]


@contextmanager
def launched(apart: bool = False):
    """A browser; ``apart``: with half of this machine's cores, and this process and what it starts has the others."""
    every = sorted(os.sched_getaffinity(0)) if apart and hasattr(os, "sched_getaffinity") else []
    half = len(every) // 2
    if half:
        print(f"browsers on {half} of {len(every)} cores, clients and server on the others")
        os.sched_setaffinity(0, every[-half:])
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find(), args=ARGS)  # it inherits the cores
        if half:
            os.sched_setaffinity(0, every[:-half])
        yield browser
        browser.close()


def main(subject: str, tokens: int | None, runs: int, fake: bool, apart: bool) -> list[str]:
    """The promises that were broken."""
    if hasattr(os, "getloadavg"):  # on a machine that is busy otherwise the numbers are of that
        print(f"load of this machine before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with launched(apart) as browser, tempfile.TemporaryDirectory() as folder:
        if subject == "player":
            measure_player(browser, tokens or 2000)
            measure_latency(browser, 400)
            return []
        log, settings = Path(folder) / "app.log", {"STEP": "0.03", "SPECLENS_KEPT_RUNS": "64"}
        with serving(FAKE_APP if fake else APP, log, **settings) as url:
            if subject == "page":
                measure_page(browser, url, tokens or 128, runs)
                return []
            return measure_class(browser, url, tokens or 24)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("subject", choices=("player", "page", "class"))
    parser.add_argument("--tokens", type=int, help="of the trace (2,000), or of a run (page: 128, class: 24)")
    parser.add_argument("--runs", type=int, default=3, help="of the page")
    parser.add_argument("--fake", action="store_true", help="a made-up engine: what the page alone costs")
    parser.add_argument("--apart", action="store_true", help="browsers and server on cores of their own")
    broken = main(**vars(parser.parse_args()))
    for promise in broken:
        print("BROKEN:", promise)
    sys.exit(bool(broken))

"""Measures what the player costs: frames a second while stepping 2,000 tokens, and DOM latency and CPU during a run.

PYTHONPATH=. python tests/browser/measure_player.py [--tokens 2000] [--run 400]

Needs no model: a made-up trace, and the real app on a made-up worker. Run it on a quiet machine.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

from chromium import ARGS, find
from fake_worker import FakeEngine, FakeWorker, play
from player_page import page as harness
from playwright.sync_api import expect, sync_playwright

from app.views import player_feed
from engine.config import RunConfig
from engine.trace.trace import fold

# Counts animation frames and the main thread's long tasks while something goes on.
WATCH = """() => {
  const seen = window.seen = { frames: [], long: [] };
  const note = list => seen.long.push(...list.getEntries().map(entry => entry.duration));
  new PerformanceObserver(note).observe({ type: 'longtask' });
  let last = performance.now();
  requestAnimationFrame(function tick(now) { seen.frames.push(now - last); last = now; requestAnimationFrame(tick); });
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
ARRIVALS = """() => {
  const player = document.querySelector('.sl-player'), seen = window.arrivals = [];
  const note = () => seen.push([+player.dataset.rounds, performance.timeOrigin + performance.now()]);
  new MutationObserver(note).observe(player, { attributes: true, attributeFilter: ['data-rounds'] });
  const long = window.long = [];
  new PerformanceObserver(list => long.push(...list.getEntries().map(entry => entry.duration)))
    .observe({ type: 'longtask' });
}"""


def percentile(values, share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def frames(name: str, page) -> None:
    seen = page.evaluate("seen")
    times, long = seen["frames"][2:], seen["long"]
    print(
        f"{name:<34} {1000 * len(times) / sum(times):5.1f} frames/s, p95 frame {percentile(times, 0.95):5.1f} ms, "
        f"{len(long)} long tasks, longest {max(long, default=0):.0f} ms"
    )


def stepping(browser, tokens: int) -> None:
    trace = fold(play(RunConfig("Hi", method="ngram", gamma=4, max_new_tokens=tokens)))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "player.html"
        file.write_text(harness(player_feed.complete("measured", trace)), encoding="utf-8")
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(file.as_uri())
        print(f"{len(trace.emitted)} tokens in {len(trace.rounds)} rounds")
        for name, act in (
            ("played, 5× faster than it ran", lambda: (_play(page, 10), page.wait_for_timeout(5000))),
            ("played, real time", lambda: (_play(page, 8), page.wait_for_timeout(5000))),
            ("scrubbed, a jump every frame", lambda: page.evaluate(SCRUB)),
            ("held K, a step per key", lambda: _hold(page, "k", 200)),
        ):
            page.evaluate(WATCH)
            act()
            frames(name, page)
            page.reload()
        page.close()


def _play(page, notch: int) -> None:
    page.locator(".sl-pace").fill(str(notch))
    page.locator('[data-do="play"]').click()


def _hold(page, key: str, times: int) -> None:
    page.keyboard.press("Home")
    for _ in range(times):
        page.keyboard.press(key)


def cpu_seconds(root: int) -> float:
    """User and system time of a process and all below it; Linux only."""
    parents, times = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            parents[int(entry.name)], times[int(entry.name)] = int(fields[1]), int(fields[11]) + int(fields[12])
    total, generation = 0, {root}
    while generation:
        total += sum(times.get(pid, 0) for pid in generation)
        generation = {pid for pid, parent in parents.items() if parent in generation}
    return total / os.sysconf("SC_CLK_TCK")


def running(browser, tokens: int) -> None:
    """A run through the real app: from a value's yield to its rounds being in the document."""
    from app.jobs.service import Service
    from app.page import build, launch_options

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
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(url)
    page.locator('[data-do="end"]').click()
    page.locator("#tokens input").fill(str(tokens))
    sent.clear()
    page.evaluate(ARRIVALS)  # and no counting of frames: that alone would keep the browser busy
    before, began = cpu_seconds(os.getpid()), time.monotonic()
    page.locator("#run").click()
    expect(page.locator("#run")).to_have_text("Running…", timeout=10_000)
    expect(page.locator("#run")).to_have_text("Run", timeout=300_000)
    seconds, used = time.monotonic() - began, cpu_seconds(os.getpid()) - before
    arrivals = page.evaluate("arrivals")
    late = [min(at for seen, at in arrivals if seen >= count) - at_sent for count, at_sent in sent]
    print(
        f"a run of {tokens} tokens: in the document {percentile(late, 0.5):.0f} ms after it was sent "
        f"(p95 {percentile(late, 0.95):.0f} ms, {len(late)} updates)"
    )
    print(f"CPU of server and browser together: {used:.1f} s over {seconds:.1f} s = {used / seconds:.2f} cores")
    print(f"long tasks of the page during the run (ms): {[round(ms) for ms in page.evaluate('long')]}")
    page.close()
    demo.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, default=2000)
    parser.add_argument("--run", type=int, default=400)
    args = parser.parse_args()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find(), args=ARGS)
        stepping(browser, args.tokens)
        running(browser, args.run)
        browser.close()

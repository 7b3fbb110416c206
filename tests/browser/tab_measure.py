"""Measures the engine in a tab on a quiet machine, beside the served one, and prints goals and results in Markdown.

python tests/browser/tab_measure.py [--tokens 96] [--presses 3]: greedy, γ = auto, one thread, each example of the page,
each press with its baseline and then the served engine's plain run in turn. Needs npm, a browser and the embedded
weights, and a machine that does nothing else.
"""

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":
    root = Path(__file__).resolve().parents[2]
    sys.path[:0] = [str(root), str(root / "tests" / "helpers"), str(root / "tests" / "browser")]
    os.environ["SPECLENS_THREADS"] = "1"  # for the served engine, because the tab has one thread, too

import chromium
from playwright.sync_api import BrowserContext, Page, sync_playwright
from real_model import PAIR
from tab_site import press_run, saved, serving_site, wait_for_end

from app import static_site
from app.tab.package import BESIDE, browser_engine
from engine.config import RunConfig
from engine.runtime.engine import Engine, load_engine
from engine.trace.trace import Trace, fold, from_json
from lessons.examples import EXAMPLES

WAIT = 900_000  # ms
# Tasks of the main thread that take more than 50 ms, the only ones that a browser names.
WATCH = """window.blocks = [];
new PerformanceObserver(list => blocks.push(...list.getEntries().map(({ duration }) => duration)))
    .observe({ type: 'longtask' });"""
BLOCK = """() => new Promise(done => setTimeout(() => {
    const end = performance.now() + 80;
    while (performance.now() < end);
    setTimeout(done, 300);
}))"""
FIRST = "() => document.querySelector('.sl-list .sl-token') && performance.now()"  # since the page was opened


@dataclass(frozen=True)
class Press:
    """Tokens per second of a run and its baseline in the tab, and of the served engine; the tasks that blocked."""

    run: float
    plain: float
    served: float
    blocks: list[float]


def speed(trace: Trace) -> float:
    return len(trace.emitted) / (trace.rounds[-1].end - trace.rounds[0].start)


def press(page: Page, prompt: str, tokens: int) -> None:
    for name, value in {"prompt": prompt, "max_new_tokens": str(tokens), "temperature": "0"}.items():
        page.locator(f"[name={name}]").fill(value)
    press_run(page)


def measure(page: Page, engine: Engine, prompt: str, tokens: int) -> Press:
    page.evaluate("blocks.length = 0")
    press(page, prompt, tokens)
    wait_for_end(page, WAIT)
    blocks = page.evaluate("blocks")
    served = fold(engine.run(RunConfig(prompt, PAIR, "none", 0, max_new_tokens=tokens, precision="fp32")))
    ours, plain = (from_json(saved(page, button)) for button in ("Save the run", "Save its baseline"))
    return Press(speed(ours), speed(plain), speed(served), blocks)


def first_token(context: BrowserContext, url: str) -> float:
    """Seconds from opening the page, with the weights stored, to the first token of a run that is pressed at once."""
    page = context.new_page()
    page.goto(url, wait_until="commit")
    press(page, EXAMPLES["Fact"].prompt, 8)
    seconds = page.wait_for_function(FIRST, polling=10, timeout=WAIT).json_value() / 1000
    wait_for_end(page, WAIT)
    page.close()
    return seconds


def row(name: str, goal: str, is_met: bool, values: list[float], digits: int = 2) -> str:
    verdict = "reached" if is_met else "missed"
    each = ", ".join(f"{value:.{digits}f}" for value in values)
    return f"| {name} | {goal} | {verdict} | {statistics.median(values):.{digits}f} | {each} |"


def report(folder: Path, server, context: BrowserContext, tokens: int, presses: int) -> Iterator[str]:
    engine, hosts = load_engine(PAIR, precision="fp32"), set()
    context.on("request", lambda request: hosts.add(request.url.split("/")[2]))
    page = context.new_page()
    page.add_init_script(WATCH)
    page.goto(f"{server.url}/tab.html")
    page.evaluate(BLOCK)
    assert page.evaluate("blocks.length") > 0, "this browser does not name tasks that block its main thread"
    press(page, EXAMPLES["Fact"].prompt, 8)  # downloads and loads
    wait_for_end(page, WAIT)
    files = {path.split("?")[0].strip("/") for path in server.asked} - {BESIDE}
    size = sum((folder / name).stat().st_size for name in files if (folder / name).is_file()) / 1e6
    yield "| | goal | | median | each |\n|---|---|---|---|---|"
    others = hosts - {server.url.split("/")[2]}
    yield row("download before the weights, MB, and from other hosts", "≤ 6, none", size <= 6 and not others, [size])
    firsts = [first_token(context, f"{server.url}/tab.html") for _ in range(presses)]
    yield row("first token, weights stored, seconds after opening", "≤ 4", statistics.median(firsts) <= 4, firsts)
    ratios, blocks = [], [0.0]
    for name, example in EXAMPLES.items():
        goal = 1.6 if name == "Rewrite" else 0.95
        runs = [measure(page, engine, example.prompt, tokens) for _ in range(presses)]
        gains = [each.run / each.plain for each in runs]
        ratios += [each.plain / each.served for each in runs]
        blocks += [duration for each in runs for duration in each.blocks]
        yield row(f"{name}: `ngram` ÷ plain, in the tab", f"≥ {goal}", statistics.median(gains) >= goal, gains)
    yield row("plain in the tab ÷ served, fp32, one thread", "≥ 0.35", statistics.median(ratios) >= 0.35, ratios)
    longest = max(blocks)
    yield row("longest task of the main thread over 50 ms (0: none)", "≤ 50", longest <= 50, [longest], 0)
    device = from_json(saved(page)).started.device
    yield f"\n{device}; the machine has {os.cpu_count()} cores and a load of {os.getloadavg()[0]:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--presses", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        static_site.write(Path(name), browser_engine(PAIR, "beside"))
        browser = playwright.chromium.launch(executable_path=chromium.find(), args=chromium.ARGS)
        with serving_site(Path(name)) as server:
            context = browser.new_context(service_workers="block")  # a service worker would ask for each file once more
            for line in report(Path(name), server, context, options.tokens, options.presses):
                print(line, flush=True)
        browser.close()


if __name__ == "__main__":
    main()

"""Compares the engine in a tab with the served one on the benchmark's prompts, both in fp32, token by token.

python tests/browser/tab_agreement.py [--prompts 48] [--tokens 48]: at temperature 0 and 0.8; each difference is a near
tie and every number agrees to 2e-4, or the command fails. Needs npm, a browser and the embedded weights; a quarter of
an hour on two quiet cores.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

if __name__ == "__main__":
    root = Path(__file__).resolve().parents[2]
    sys.path[:0] = [str(root), str(root / "tests" / "helpers"), str(root / "tests" / "browser")]

from playwright.sync_api import Page, sync_playwright
from real_model import PAIR, ROWS, differs_at_near_tie
from tab_site import serving_site

from app import static_site
from app.tab.package import browser_engine
from engine.config import RunConfig, SamplingParams
from engine.runtime.engine import Engine, load_engine
from engine.trace.trace import Trace, fold, from_json

LARGEST_DIFFERENCE = 2e-4  # in any probability or gap; 3.8e-5 was the largest in 96 runs
NEAR = 1e-4  # how near to a border a draw must be for two processors to decide differently
NUMBERS, ROWS_OF = ("p", "q", "accept", "gap"), ("p_top", "q_top", "residual")
RUN = """([config, address]) => new Promise((resolve, reject) => {
    const worker = window.worker ??= new Worker('/engine/worker.js', { type: 'module' });
    const trace = { schema: 1, started: null, rounds: [], finished: null, branch: null };
    worker.onmessage = ({ data }) => {
        if (data.type === 'failed') reject(new Error(data.words));
        if (data.type === 'over') resolve(JSON.stringify(trace));
        if (data.type === 'event' && data.kind === 'round') trace.rounds.push(data.event);
        else if (data.type === 'event') trace[data.kind] = data.event;
    };
    worker.postMessage({ type: 'run', lanes: [['run', config]], source: { address } });
})"""


def run_in_tab(page: Page, address: str, config: RunConfig) -> Trace:
    """One run of the worker, without its page."""
    return from_json(page.evaluate(RUN, [config.as_dict(), address]))


def decisions(trace: Trace) -> list:
    return [(token.id, token.status, token.text, token.label, token.u) for r in trace.rounds for token in r.tokens]


def largest_difference(ours: Trace, theirs: Trace) -> float:
    """Returns the largest difference of any probability or gap of two runs with the same tokens."""
    largest = 0.0
    pairs = zip(ours.rounds, theirs.rounds, strict=True)
    for mine, other in ((a, b) for r, s in pairs for a, b in zip(r.tokens, s.tokens, strict=True)):
        numbers = [(getattr(mine, name), getattr(other, name)) for name in NUMBERS]
        for a, b in ((getattr(mine, name), getattr(other, name)) for name in ROWS_OF):
            assert (a is None) == (b is None)
            numbers += [] if a is None else [(x.mass, y.mass) for x, y in zip(a.top, b.top, strict=True)]
        assert all((a is None) == (b is None) for a, b in numbers)
        largest = max([largest, *(abs(a - b) for a, b in numbers if a is not None)])
    return largest


def parts_at_near_tie(ours: Trace, theirs: Trace) -> bool:
    """Returns whether the decisions differ. AssertionError unless the first difference is a near tie: of two logits, or
    of a draw and the border that it is compared with."""
    if decisions(ours) == decisions(theirs):
        return False
    if ours.started.is_greedy:
        return differs_at_near_tie(ours, theirs)
    mine, others = ([token for r in trace.rounds for token in r.tokens] for trace in (ours, theirs))
    a, b = next((a, b) for a, b in zip(mine, others, strict=False) if (a.id, a.status) != (b.id, b.status))
    if a.accept is not None and a.u is not None:
        assert abs(a.u - a.accept) < NEAR, f"a draft with u = {a.u} and p/q = {a.accept}"
    else:  # both drew from the same row, and the draw lies between two tokens
        assert a.u == b.u and a.p_top and b.p_top, "they closed a round in different places"
        masses = zip(a.p_top.top, b.p_top.top, strict=True)
        assert all(abs(x.mass - y.mass) < NEAR for x, y in masses), "they drew from different rows"
    return True


def compare(page: Page, address: str, engine: Engine, configs: list[RunConfig]) -> Iterator[tuple[bool, float]]:
    """Says whether each run parts at a near tie, and how far its numbers are apart if it does not."""
    for config in configs:
        ours, theirs = run_in_tab(page, address, config), fold(engine.run(config))
        assert ours.started.prompt == theirs.started.prompt
        parted = parts_at_near_tie(ours, theirs)
        yield parted, 0.0 if parted else largest_difference(ours, theirs)


def configs_of(prompts: int, tokens: int) -> list[RunConfig]:
    first = RunConfig("x", PAIR, "ngram", 4, max_new_tokens=tokens, precision="fp32")
    rows = ROWS[:: max(1, len(ROWS) // prompts)][:prompts]
    return [
        replace(first, prompt=row["prompt"], sampling=SamplingParams(temperature), seed=i)
        for i, row in enumerate(rows)
        for temperature in (0.0, 0.8)
    ]


def main() -> None:
    import chromium

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--prompts", type=int, default=48)
    parser.add_argument("--tokens", type=int, default=48)
    options = parser.parse_args()
    engine, configs = load_engine(PAIR, precision="fp32"), configs_of(options.prompts, options.tokens)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        static_site.write(Path(folder), browser_engine(PAIR, "beside"))
        browser = playwright.chromium.launch(executable_path=chromium.find(), args=chromium.ARGS)
        with serving_site(Path(folder)) as server:
            page, start = browser.new_page(), time.monotonic()
            page.goto(f"{server.url}/check_server.py")
            parted, largest = 0, 0.0
            address = f"{server.url}/engine/weights.gguf"
            for i, (is_parted, difference) in enumerate(compare(page, address, engine, configs), start=1):
                parted, largest = parted + is_parted, max(largest, difference)
                seen = f"{parted} part at a near tie; numbers differ by up to {largest:.1e}"
                print(f"{i} of {len(configs)} runs: {seen}; {time.monotonic() - start:.0f} s", flush=True)
        browser.close()
    if largest >= LARGEST_DIFFERENCE:
        sys.exit(f"The numbers differ by up to {largest:.1e}, more than {LARGEST_DIFFERENCE:.0e}.")


if __name__ == "__main__":
    main()

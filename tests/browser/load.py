"""Loads the app as a class does: many users, each with a prompt of their own, over the public API.

    PYTHONPATH=.:tests/helpers:tests/browser python tests/browser/load.py --users 30 [--tokens 32] [--url http://…]

Starts the app unless ``--url`` names one. Prints how long users waited for their first token and for their run; exits
with 1 if a run failed or brought another user's text, or if `/metrics` counts otherwise.
"""

import argparse
import statistics
import sys
import tempfile
import time
import urllib.request
from contextlib import nullcontext
from pathlib import Path

from api_request import Request
from gradio_client import Client
from prometheus_client.parser import text_string_to_metric_families
from server import APP, serving

from engine.trace.events import EMITTED


def prompt_of(user: int) -> str:
    """Returns another prompt for each user."""
    topic = ("rivers", "bread", "trains", "bees", "clocks", "glass", "snow", "salt")[user % 8]
    return f"Write {3 + user // 8} sentences about {topic}."


def drive(url: str, users: int, tokens: int) -> list[Request]:
    """Starts a run for each user at once and returns them when all have ended."""
    clients = [Client(url, verbose=False) for _ in range(users)]
    requests = [Request(client, prompt_of(i), tokens) for i, client in enumerate(clients)]
    for request in requests:
        request.join()
    return requests


def report(requests: list[Request], seconds: float) -> tuple[list[str], list[str]]:
    """Returns the lines to print, and the problems."""
    problems = [problem for request in requests if (problem := request.problem())]
    good = [request for request in requests if not request.problem()]
    lines = [f"{len(requests)} users, {len(problems)} failed, all done after {seconds:.1f} s"]
    if good:
        ends = [request.updates[-1][1] for request in good]
        written, alone = sum(figures["tokens"] for figures in ends), sum(not figures["others"] for figures in ends)
        lines += [
            f"tokens/s, all users together: {written / seconds:.1f}, baselines not counted; {alone} measured alone",
            "| seconds | median | 90 % | longest |",
            "|---|---|---|---|",
            _row("to the first token", [request.first_token for request in good]),
            _row("to the end of the run", [request.seconds for request in good]),
        ]
    return lines, problems


def numbers(url: str) -> dict[str, float]:
    """The counts of `/metrics`: each name's sum over its labels. A run that was given up is not among them."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
        families = text_string_to_metric_families(answer.read().decode())
    sums: dict[str, float] = {}
    for sample in (sample for family in families for sample in family.samples):
        if sample.labels.get("end") == "cancelled":
            continue
        sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
    return sums


def uncounted(before: dict[str, float], after: dict[str, float], requests: list[Request]) -> list[str]:
    """Lists the counts between two looks that differ from the requests: each run and baseline once, no refusal, and no
    fewer tokens and passes (a baseline that was given up has some, too)."""
    ends = [request.updates[-1] for request in requests if not request.problem()]
    traces = [trace[lane] for _, figures, trace in ends for lane in ("run", "baseline") if trace[lane]]
    tokens = [t for trace in traces for r in trace["rounds"] for t in r["tokens"] if t["status"] in EMITTED]
    exact = {"speclens_runs_total": len(traces), "speclens_refusals_total": 0}
    least = {
        "speclens_tokens_total": len(tokens),
        "speclens_pass_seconds_count": sum(len(trace["rounds"]) for trace in traces),
    }
    counts = {name: after.get(name, 0) - before.get(name, 0) for name in (*exact, *least)}
    wrong = [name for name in exact if counts[name] != exact[name]]
    wrong += [name for name in least if counts[name] < least[name]]
    return [f"/metrics counts {counts[name]:.0f} as {name}; there were {(exact | least)[name]}" for name in wrong]


def _row(name: str, values: list[float]) -> str:
    ordered = sorted(values)
    figures = statistics.median(ordered), ordered[int(0.9 * (len(ordered) - 1))], ordered[-1]
    return f"| {name} | " + " | ".join(f"{value:.1f}" for value in figures) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--users", type=int, default=30)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--url", help="an app that runs already")
    options = parser.parse_args()
    if options.users < 1 or options.tokens < 1:
        parser.error("users and tokens must be at least 1")
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "app.log"
        queue = str(max(30, options.users))
        with nullcontext(options.url) if options.url else serving(APP, log, SPECLENS_MAX_QUEUE=queue) as url:
            drive(url, 1, 1)  # the model is loaded and measured before anybody's clock runs
            before, began = numbers(url), time.monotonic()
            requests = drive(url, options.users, options.tokens)
            lines, problems = report(requests, time.monotonic() - began)
            problems += uncounted(before, numbers(url), requests)
    print("\n".join([*lines, *problems]))
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()

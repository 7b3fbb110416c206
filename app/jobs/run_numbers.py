"""Counts runs for an operator, in Prometheus' text form, and writes one line of JSON for each to the log.

Neither holds a prompt, an answer or a visitor's name. Its registry is not the process's own,
because tests have several pages in one process.
"""

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime

import psutil
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from engine.errors import EngineError
from engine.runtime.job import Job
from engine.trace.events import Round, RunFinished, RunStarted

log = logging.getLogger("speclens.runs")
_PASS_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_TOKENS_PER_SECOND = (5, 10, 20, 50, 100, 200, 500, 1000)


class RunNumbers:
    """``worker``: read when the numbers are; the rest is counted as runs end."""

    def __init__(self, worker):
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)  # its resident memory among it
        self._runs = _counter("runs", "Runs that ended, baselines included.", ["method", "end"], registry)
        self._refusals = _counter("refusals", "Requests that were not served.", ["kind"], registry)
        self._lab_units = _counter("lab_units", "Parts of experiments that ended.", [], registry)
        self._lab_seconds = _counter("lab_seconds", "Seconds of the device for experiments.", [], registry)
        self._tokens = _counter("tokens", "Tokens that runs emitted.", ["method"], registry)
        self._pass = Histogram(
            "speclens_pass_seconds", "One pass of the target.", buckets=_PASS_SECONDS, registry=registry
        )
        self._speed = Histogram(
            "speclens_tokens_per_second", "Decoding speed of a run that shared no pass.",
            buckets=_TOKENS_PER_SECOND, registry=registry,
        )  # fmt: skip
        _gauge("runs_waiting", "Runs in the queue.", lambda: worker.waiting, registry)
        _gauge("runs_running", "Runs under way.", lambda: worker.batch_size, registry)
        _gauge("memory_available_bytes", "Free memory.", lambda: psutil.virtual_memory().available, registry)

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def refuse(self, error: EngineError) -> None:
        """Counts a request that ended in a sentence for its visitor. The sentence may quote what the visitor typed."""
        self._refusals.labels(type(error).__name__).inc()
        _write("refusal", kind=type(error).__name__)

    def end_experiment(self, job: Job) -> None:
        """Counts the end of one part of an experiment, on the engine's thread."""
        self._lab_units.inc()
        self._lab_seconds.inc(job.elapsed)

    def end(self, job: Job) -> None:
        """Counts a job at its end. Of one that ended before it began its first run counts, as cancelled; a refusal is
        counted as such."""
        for place, (name, config) in enumerate(job.configs):
            events = [event for each, event in job.log if each == name]
            started = events[0] if events and isinstance(events[0], RunStarted) else None
            if started is None and (place or job.error):
                continue
            rounds = [event for event in events if isinstance(event, Round)]
            finished = events[-1] if events and isinstance(events[-1], RunFinished) else None
            end = finished.reason if finished else "error" if job.error else "cancelled"
            end = "time_limit" if job.timed_out and end == "cancelled" else end
            tokens = sum(len(each.emitted) for each in rounds)
            self._runs.labels(config.method, end).inc()
            self._tokens.labels(config.method).inc(tokens)
            for each in rounds:
                self._pass.observe(each.timings.verify)
            speed = tokens / finished.decode_seconds if finished and finished.decode_seconds > 0 else None
            if speed and not job.sharing_jobs:
                self._speed.observe(speed)
            _write(
                "run", id=job.id, name=name, pair=config.pair, method=config.method, end=end,
                prompt_tokens=started and len(started.prompt), tokens=tokens, rounds=len(rounds),
                others=job.sharing_jobs, seconds=finished and round(finished.seconds, 3),
                tokens_per_second=speed and round(speed, 1),
                error=type(job.error).__name__ if job.error else None,
            )  # fmt: skip


def _counter(name: str, help_text: str, labels: list[str], registry: CollectorRegistry) -> Counter:
    return Counter(f"speclens_{name}", help_text, labels, registry=registry)


def _gauge(name: str, help_text: str, read: Callable[[], float], registry: CollectorRegistry) -> None:
    Gauge(f"speclens_{name}", help_text, registry=registry).set_function(read)


def _write(event: str, **fields) -> None:
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    log.info("%s", json.dumps({"at": at, "event": event} | {k: v for k, v in fields.items() if v is not None}))


def log_to_stdout() -> None:
    """Writes these lines to stdout, once, and not among the process's other logs."""
    import sys

    if not log.handlers:
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(logging.Formatter("%(message)s"))
        log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False

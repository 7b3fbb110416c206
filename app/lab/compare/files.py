"""Writes the files of compared runs, and reads the traces again."""

import io
import zipfile
from collections.abc import Sequence

from app.lab.compare.view import Column, divergence, ratio
from app.playground.trace_files import safe_letters
from app.views.table import csv_text
from engine.trace.branch import config_of
from engine.trace.metrics import compute_metrics
from engine.trace.trace import from_json, to_json

COLUMNS = ("run", "method", "gamma", "temperature", "acceptance", "exact", "seed", "tokens", "tokens_per_second",
           "speedup", "passes", "tau", "alpha", "ended", "differs_from_token", "pair", "device", "precision",
           "started")  # fmt: skip


def to_csv(runs: Sequence[Column]) -> str:
    """Writes a header and a row for each run."""
    rows = []
    for index, column in enumerate(runs):
        if column.trace is None:
            continue
        started, config = column.trace.started, column.config
        numbers, parted = compute_metrics(column.trace), divergence(runs, index)
        speedup_ = ratio(runs, index)
        rows.append((
            index + 1, started.method or config.method, column.gamma,
            config.sampling.temperature, config.acceptance, column.exactness, config.seed,
            numbers.tokens, numbers.tokens_per_second, speedup_ and speedup_.possible_value,
            numbers.passes, numbers.tau and numbers.tau.value, numbers.alpha and numbers.alpha.value,
            column.trace.finished.reason if column.trace.finished else "", parted.position + 1 if parted else None,
            started.pair, started.device, started.dtype, started.at,
        ))  # fmt: skip
    return csv_text(COLUMNS, rows)


def traces(runs: Sequence[Column]) -> bytes:
    """Writes a zip of trace files, each as the playground saves and opens it."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for index, column in enumerate(runs):
            if column.trace and column.trace.rounds:
                archive.writestr(f"run-{index + 1}-{safe_letters(column.config.method)}.json", to_json(column.trace))
    return out.getvalue()


def from_zip(saved: bytes) -> tuple[Column, ...]:
    """Reads a file that `traces` wrote, and returns the columns that have rounds."""
    with zipfile.ZipFile(io.BytesIO(saved)) as archive:
        runs = [from_json(archive.read(name)) for name in archive.namelist()]
    return tuple(Column(config_of(run), run) for run in runs)

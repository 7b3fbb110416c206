"""The endpoints for programs: `run`, `pairs` and `bench`. Plain values in and out, the same limits as on the page."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace

import gradio as gr

from app.controls import defaults, settings
from app.handlers import Lane
from app.kept import Recording
from app.service import Lanes, Service, baseline_of
from app.session import visitor
from engine.config import AUTO
from engine.errors import EngineError
from engine.statistics import compare, statistics
from engine.trace import Trace, to_json

SECONDS_BETWEEN_WORDS = 1.0
START = defaults()


class Api:
    def __init__(self, service: Service):
        self.service = service

    def expose(self) -> None:
        """Inside a gr.Blocks. One visitor has one run at a time here as on the page: a second replaces the first."""
        queued = {"concurrency_limit": 2 * self.service.limits.queue + 2, "concurrency_id": "run"}
        gr.api(self.run, api_name="run", **queued)
        gr.api(self.bench, api_name="bench", **queued)
        gr.api(self.pairs, api_name="pairs", queue=False)

    def run(
        self,
        request: gr.Request,
        prompt: str,
        pair: str = START["pair"],
        method: str = START["method"],
        gamma: int | None = None,
        temperature: float = 0.0,
        seed: int = 0,
        tokens: int = START["tokens"],
        form: str = "chat",
        thinking: str = "default",
        system: str = "",
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        precision: str = AUTO,
        again: bool = False,
    ) -> tuple[str, dict, dict | None]:
        """Run a prompt, then the same without drafting, and compare. `gamma` None chooses the draft length anew each
        round; `again` measures even where exactly these settings have been run before. The arguments are the page's.

        Streams (text, figures, trace), about once a second. `figures["status"]` is "waiting" (with `place`, the number
        of visitors who go first), "running" or "measuring the baseline"; then "finished", "recorded" or "stopped",
        with tokens_per_second, alpha, tau, speedup and predicted. `trace`, only at the end: {"run", "baseline"}, each
        as the page saves it.
        """
        values = {
            "prompt": prompt, "pair": pair, "method": method, "auto": gamma is None, "gamma": gamma or 0,
            "temperature": temperature, "seed": seed, "tokens": tokens, "form": form, "thinking": thinking,
            "system": system, "top_k": top_k, "top_p": top_p, "min_p": min_p,
            "repetition_penalty": repetition_penalty, "precision": precision,
        }  # fmt: skip
        with _in_words():
            config = settings(values)
            for lanes, status in self._follow(request, self.service.lanes(config), again):
                run, plain = lanes["run"].trace, lanes["baseline"].trace if "baseline" in lanes else None
                text = run.text if run else ""
                ended = status["status"] in ("finished", "recorded", "stopped")
                yield text, status | _figures(run, plain), _traces(run, plain) if ended else None

    def bench(
        self,
        request: gr.Request,
        prompt: str,
        pair: str = START["pair"],
        temperature: float = 0.0,
        seed: int = 0,
        tokens: int = 64,
        again: bool = False,
    ) -> tuple[dict, list]:
        """Run a prompt with every method of a pair, plain decoding first, each with the draft length it chooses.

        Streams (status, rows): a row has method, tokens_per_second, speedup, alpha, tau and predicted, one run each.
        """
        with _in_words():
            values = {"prompt": prompt, "pair": pair, "temperature": temperature, "seed": seed, "tokens": tokens}
            config = settings(values)
            plain = baseline_of(config)
            drafting = [method for method in self.service.methods(pair) if method != "none"]
            asked = (("none", plain), *((method, replace(config, method=method)) for method in drafting))
            for lanes, status in self._follow(request, asked, again):
                first = lanes["none"].trace
                yield status, [{"method": m, **_figures(lane.trace, first)} for m, lane in lanes.items() if lane.trace]

    def pairs(self) -> list:
        """The pairs on offer: name, title, methods, revision, the reasons why one cannot run here (none if it can),
        and how many bytes its first run downloads."""
        with _in_words():
            return [
                asdict(pair)
                | {"reasons": self.service.problems(pair.name), "download_bytes": self.service.to_fetch(pair.name)}
                for pair in self.service.pairs.values()
            ]

    def _follow(self, request: gr.Request, asked: Lanes, again: bool) -> Iterator[tuple[dict[str, Lane], dict]]:
        """The lanes as they fill, and how it stands; a word about once a second, and at every change of status."""
        lanes, said, due = {name: Lane() for name, _ in asked}, None, 0.0
        late = False
        for update in self.service.measure(visitor(request), asked, again):
            if isinstance(update, Recording):
                yield (
                    {name: Lane.of(trace) for name, trace in update.lanes.items()},
                    {
                        "status": "recorded",
                        "seconds_ago": round(time.time() - update.made),
                    },
                )
                return
            lanes[update.lane].add(update.events)
            late = late or update.late
            status = _status(update)
            if status != said or time.monotonic() >= due:
                yield lanes, status
                said, due = status, time.monotonic() + SECONDS_BETWEEN_WORDS
        ended = all(lane.finished and lane.finished.reason != "cancelled" for lane in lanes.values())
        reason = {"message": f"A run may take up to {self.service.limits.seconds} s here."} if late else {}
        yield lanes, {"status": "finished" if ended else "stopped"} | reason


def _status(update) -> dict:
    if update.stage and update.stage.place:
        return {"status": "waiting", "place": update.stage.place, "message": update.stage.message}
    if update.stage:
        return {"status": "waiting", "place": 0, "message": update.stage.message}
    return {"status": "measuring the baseline" if update.lane == "baseline" else "running", "lane": update.lane}


def _figures(run: Trace | None, plain: Trace | None) -> dict:
    if run is None or not run.rounds:
        return {}
    numbers = statistics(run)
    beside = compare(run, plain) if plain and plain.rounds and run.finished and plain.finished else None
    return {
        "tokens": numbers.tokens,
        "tokens_per_second": numbers.tokens_per_second,
        "alpha": numbers.alpha and numbers.alpha.value,
        "tau": numbers.tau and numbers.tau.value,
        "speedup": beside and beside.speedup,
        "predicted": numbers.predicted_speedup,
        "device": run.started.device,
    }


def _traces(run: Trace | None, plain: Trace | None) -> dict:
    return {name: json.loads(to_json(trace)) if trace else None for name, trace in (("run", run), ("baseline", plain))}


@contextmanager
def _in_words():
    """The engine's sentences reach the caller; a traceback would not help them."""
    try:
        yield
    except EngineError as error:
        raise gr.Error(str(error), print_exception=False) from error

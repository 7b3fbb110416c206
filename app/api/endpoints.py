"""Exposes the endpoints for programs: `run`, `pairs` and `bench`. Plain values, the same limits as on the page.

A click on the page goes to `app.playground.run_handlers` instead.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from functools import wraps
from operator import attrgetter
from typing import Annotated, Any

import gradio as gr

from app.form import settings
from app.jobs.baseline import with_baseline
from app.jobs.request import Replaced
from app.jobs.result_cache import RecordedRun
from app.jobs.runs import NamedConfigs
from app.jobs.service import Service
from app.jobs.updates import Fold, Update
from app.jobs.visitor import visitor_address, visitor_id
from engine.config import MAX_GAMMA, Constraint, RunConfig
from engine.errors import EngineError, percent
from engine.settings import add_settings
from engine.trace.metrics import compare, compute_metrics, others_share
from engine.trace.noise import PLAIN, is_crowded
from engine.trace.trace import Trace, to_json

_SECONDS_BETWEEN_STATUSES = 1.0
# Clients pass arguments by position, so each keeps its place. New ones come last.
_PLACES = (
    "self", "request", "prompt", "pair", "method", "gamma", "temperature", "seed", "tokens", "form", "thinking",
    "system", "top_k", "top_p", "min_p", "repetition_penalty", "precision", "acceptance", "epsilon", "delta", "window",
    "ngram_size", "guesses", "again", "alone", "json_schema", "compact_json", "regex", "choice", "grammar",
)  # fmt: skip
FROM_PAGE = ("pair", "tokens")  # None: what this server's page begins with
TOO_BUSY = (
    "Other programs took {} of the processor, which is too much for a speedup. Send this once more with `again` "
    "while they rest."
)
_NO_TEXTS: Mapping[str, str] = {}


class SentenceError(gr.Error):
    """A refusal in a sentence, and the ``error`` that it comes from."""

    def __init__(self, error: EngineError):
        super().__init__(str(error), print_exception=False)
        self.error = error


def with_settings(function: Callable) -> Callable:
    """Gives an endpoint that takes ``**settings`` an argument for each setting that it does not name itself, and a
    caller's positions a meaning."""

    @wraps(function)
    def endpoint(*arguments, **named):
        bound = signature.bind(*arguments, **named)
        bound.apply_defaults()
        yield from function(**bound.arguments)

    signature = add_settings(function, attrgetter("value_type"), _PLACES)
    described: Any = endpoint
    described.__signature__ = signature
    described.__annotations__ = {name: each.annotation for name, each in signature.parameters.items()}
    return endpoint


class Api:
    def __init__(self, service: Service):
        self.service = service

    def expose(self) -> None:
        """Adds the endpoints to a gr.Blocks. As on the page, a visitor's second run replaces the first."""
        queued = {"concurrency_limit": self.service.runs.most_requests, "concurrency_id": "run"}
        gr.api(self.run, api_name="run", **queued)
        gr.api(self.bench, api_name="bench", **queued)
        gr.api(self.pairs, api_name="pairs", queue=False)

    @with_settings
    def run(
        self,
        request: gr.Request,
        prompt: str,
        pair: Annotated[str | None, "A pair of `/pairs`; null is the page's first."] = None,
        gamma: Annotated[int | None, f"Tokens drafted a round, 0 to {MAX_GAMMA}; null chooses for each round."] = None,
        tokens: Annotated[int | None, "Stop after this many tokens; null is what the page begins with."] = None,
        again: Annotated[bool, "Measure, even where exactly this was run before."] = False,
        alone: Annotated[bool, "Wait for the device instead of sharing passes, so that the run is measured."] = False,
        json_schema: Annotated[str | dict | None, "The whole answer is JSON that fits this schema."] = None,
        compact_json: Annotated[bool, "With a schema: no white space. It drafts better, but may empty a list."] = False,
        regex: str = "",
        choice: Annotated[list[str] | None, "The whole answer is one of these texts, of any lines."] = None,
        grammar: str = "",
        **settings: Any,
    ) -> tuple[str, dict, dict | None]:  # ty: ignore[invalid-generator-return-type] gr.api reads one value's types
        """Run a prompt, then the same without drafting, and compare. `gamma` None chooses the draft length again each
        round; `again` measures even where exactly these settings have been run before. The arguments are the page's;
        `pair` and `tokens` None are what it begins with. Where other visitors' runs share the passes nothing is
        compared; `alone` waits for the device instead. One of `json_schema`, `regex`, `choice` and `grammar` (Lark)
        says what the answer must match.

        Streams (text, figures, trace), about once a second. `figures["status"]` is "waiting" (with `place`, the number
        of visitors who go first), "running" or "measuring the baseline"; then "finished", "recorded" or "stopped",
        with tokens_per_second, alpha, tau, speedup with its 95 % interval (low, high), predicted, `lossy`, and
        `others`, the runs that shared its passes. The speedup is left out where `busy`, the share of the cores that
        other programs took, is 0.15 or more, and where it came out larger than it can be (`noise`). A "stopped" run
        has a `message` with the reason. `trace`, only at the end: {"run", "baseline"}, each as the page saves it.
        """
        values = settings | {
            "prompt": prompt, "pair": pair, "auto": gamma is None, "gamma": gamma or 0, "tokens": tokens,
        }  # fmt: skip
        with self._as_gradio_error():
            config = self._settings(values, _texts(json_schema, regex, choice, grammar), compact_json)
            for traces, status in self._follow(request, with_baseline(config), again, not alone):
                run, plain = traces["run"], traces.get("baseline")
                text = run.text if run else ""
                ended = status["status"] in ("finished", "recorded", "stopped")
                yield text, status | _figures(run, plain), _traces(run, plain) if ended else None

    def bench(
        self,
        request: gr.Request,
        prompt: str,
        pair: str | None = None,
        temperature: float = 0.0,
        seed: int = 0,
        tokens: int | None = None,
        again: bool = False,
    ) -> tuple[dict, list]:  # ty: ignore[invalid-generator-return-type] as in `run`
        """Run a prompt with every method of a pair, plain decoding first, each with the draft length it chooses.

        `tokens` None: 64, or as many as the page allows. Streams (status, rows): a row has method, tokens_per_second,
        speedup, alpha, tau and predicted, one run each.
        """
        with self._as_gradio_error():
            limit = min(64, self.service.limits.new_tokens) if tokens is None else tokens
            values = {"prompt": prompt, "pair": pair, "temperature": temperature, "seed": seed, "tokens": limit}
            config = self._settings(values)
            plain = config.baseline()
            drafting = [method for method in self.service.offer.methods(config.pair) if method != "none"]
            configs = (("none", plain), *((method, replace(config, method=method)) for method in drafting))
            for traces, status in self._follow(request, configs, again):
                first = traces["none"]
                yield status, [{"method": m, **_figures(trace, first)} for m, trace in traces.items() if trace]

    def pairs(self) -> list:
        """The pairs on offer: name, title, methods, revision, the reasons why one cannot run here (none if it can),
        notes on its drafts, and how many bytes its first run downloads."""
        with self._as_gradio_error():
            return [
                asdict(pair)
                | {
                    "reasons": self.service.offer.problems(pair.name),
                    "notes": self.service.engine.notes(pair.name),
                    "download_bytes": self.service.offer.to_fetch(pair.name),
                }
                for pair in self.service.offer.pairs.values()
            ]

    def _settings(self, values: dict, texts: Mapping = _NO_TEXTS, compact: bool = False) -> RunConfig:
        """Returns the arguments as a request; ``texts`` has its constraint's texts by kind. A refusal here is
        counted like a later one."""
        try:
            arguments = {name: value for name, value in values.items() if value is not None or name not in FROM_PAGE}
            return settings(arguments, self.service.limits, Constraint.from_texts(compact, **texts))
        except EngineError as error:
            self.service.runs.numbers.refuse(error)
            raise

    @contextmanager
    def _as_gradio_error(self):
        """Hands the engine's sentences to the caller, because a traceback would not help them."""
        try:
            yield
        except EngineError as error:
            raise SentenceError(error) from error

    def _follow(
        self, request: gr.Request, configs: NamedConfigs, again: bool, may_share: bool = False
    ) -> Iterator[tuple[dict[str, Trace | None], dict]]:
        """Yields the traces so far by name, and a status: about once a second, and at every change of status."""
        shown, due, timed_out, others = None, 0.0, False, 0
        fold = Fold(configs)
        with self.service.runs.request(visitor_id(request), visitor_address(request)) as mine, suppress(Replaced):
            for update in self.service.runs.run(mine, configs, again, may_share):
                if isinstance(update, RecordedRun):
                    ago = max(0, round(time.time() - update.at))  # the clock may have been set back
                    yield dict(update.traces), {"status": "recorded", "seconds_ago": ago}
                    return
                fold, status = update.fold or fold, _status(update)
                timed_out, others = timed_out or update.timed_out, update.others
                if status != shown or time.monotonic() >= due:
                    yield fold.traces(), status
                    shown, due = status, time.monotonic() + _SECONDS_BETWEEN_STATUSES
        traces = fold.traces()
        expected = [*traces.values()][: 1 if others else None]
        are_complete = [bool(t and t.finished and t.finished.reason != "cancelled") for t in expected]
        ended, reason = all(are_complete), {}
        if mine.is_replaced:
            reason = {"message": "Another request of this client took its place; use a client for each."}
        elif timed_out and are_complete[0] and not ended:
            ended, seconds = True, self.service.limits.seconds
            reason = {"message": f"Its baseline was ended after {seconds} s, so there is nothing to compare it with."}
        elif timed_out and not ended:
            reason = {"message": f"A run may take up to {self.service.limits.seconds} s here."}
        elif not ended:
            reason = {"message": "It was stopped."}
        yield traces, {"status": "finished" if ended else "stopped"} | reason


def _texts(json_schema, regex, choice, grammar) -> dict[str, Any]:
    """Returns what a constraint is made from, by kind; None if it is not given."""
    return {"json_schema": json_schema, "regex": regex or None, "grammar": grammar or None, "choice": choice}


def _status(update: Update) -> dict:
    if update.progress:
        return {"status": "waiting", "place": update.place, "message": update.progress.message}
    return {"status": "measuring the baseline" if update.name == "baseline" else "running", "lane": update.name}


def _figures(run: Trace | None, plain: Trace | None) -> dict:
    if run is None or not run.rounds:
        return {}
    numbers = compute_metrics(run)
    is_comparable = all(trace and trace.finished and trace.finished.reason != "cancelled" for trace in (run, plain))
    ratio = PLAIN if run is plain else compare(run, plain).speedup if plain and is_comparable else None
    busy = others_share(run, plain)
    is_too_busy = ratio is not None and run is not plain and is_crowded(busy)
    speedup = ratio if ratio and ratio.is_possible and not is_too_busy else None
    return {
        "tokens": numbers.tokens,
        "tokens_per_second": numbers.tokens_per_second,
        "alpha": numbers.alpha and numbers.alpha.value,
        "tau": numbers.tau and numbers.tau.value,
        "speedup": speedup and speedup.value,
        "low": speedup and speedup.ends[0],
        "high": speedup and speedup.ends[1],
        "busy": busy,
        "noise": bool(ratio and not ratio.is_possible),
        "predicted": numbers.predicted_speedup,
        "others": run.others,
        "prompt_tokens": len(run.started.prompt),
        "kept_tokens": run.finished.kept_tokens if run.finished else {},
        "device": run.started.device,
        "lossy": run.started.is_lossy,
        "notes": [*run.notes, *([TOO_BUSY.format(percent(busy))] if is_too_busy else [])],
    }


def _traces(run: Trace | None, plain: Trace | None) -> dict:
    return {name: json.loads(to_json(trace)) if trace else None for name, trace in (("run", run), ("baseline", plain))}

"""The only file that calls the engine: limits, the queue, one run per visitor. Knows no gradio."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from engine.config import RunConfig
from engine.errors import BadInput, EngineError
from engine.events import Event, Round, RunFinished, RunStarted

PAIR = "smollm2-135m"
SECONDS_BETWEEN_UPDATES = 1 / 6  # more than this and a browser falls behind (DESIGN.md, The screen)
Lane = Literal["run", "baseline"]


def _whole_from_env(name: str, default: int, low: int, high: int) -> int:
    """A limit from the environment, kept within sane bounds; a typo there must not stop the page."""
    try:
        return min(max(int(os.environ[name]), low), high)
    except (KeyError, ValueError):
        return default


@dataclass(frozen=True)
class Limits:
    prompt_chars: int = 8_000
    new_tokens: int = 512
    queue: int = 12

    @classmethod
    def from_env(cls) -> "Limits":
        return cls(
            prompt_chars=_whole_from_env("SPECLENS_MAX_PROMPT_CHARS", cls.prompt_chars, 1, 1_000_000),
            new_tokens=_whole_from_env("SPECLENS_MAX_NEW_TOKENS", cls.new_tokens, 1, 8_192),
            queue=_whole_from_env("SPECLENS_MAX_QUEUE", cls.queue, 1, 30),
        )

    def check(self, config: RunConfig) -> None:
        if len(config.prompt) > self.prompt_chars:
            raise BadInput(
                f"The prompt has {len(config.prompt):,} characters; this page takes up to {self.prompt_chars:,}."
            )
        if config.max_new_tokens > self.new_tokens:
            raise BadInput(
                f"Max new tokens is {config.max_new_tokens:,} and this page allows {self.new_tokens:,}; ask for fewer."
            )


@dataclass(frozen=True)
class Stage:
    """What is going on before a lane's first token; ``fraction`` is 0–1, or None where it cannot be known."""

    message: str
    fraction: float | None = None


@dataclass(frozen=True)
class Update:
    """What happened in one lane since its last update."""

    lane: Lane
    events: tuple[Event, ...] = ()
    stage: Stage | None = None


@dataclass(frozen=True)
class Models:
    """What a method loads, as other engines would be told: hub names or folders; ``gguf`` is a name for llama.cpp."""

    target: str
    draft: str | None = None
    gguf: str | None = None


class Engine:
    """The door to the engine. Imported on first use, so that the page is up before torch is."""

    def worker(self):
        from engine.worker import get_worker

        return get_worker()

    def methods(self, pair: str) -> list[str]:
        from engine.catalogue import get_pair, methods

        return methods(get_pair(pair))

    def models(self, pair: str, method: str) -> Models:
        from engine.catalogue import get_pair, load_catalogue

        spec = get_pair(pair)
        draft, target, gguf = spec.drafts.get(method), spec.target, None
        if target.gguf:  # a copy of a checkpoint, which is what most engines want instead
            gguf = f"{target.repo}:{target.gguf.file.removesuffix('.gguf').rsplit('.', 1)[-1]}"
            alike = [one.target for one in load_catalogue().values() if _shape(one.target) == _shape(target)]
            target = next((model for model in alike if not model.gguf), target)
        return Models(_where(target), _where(draft) if draft else None, gguf)

    def has_weights(self, pair: str) -> bool:
        from engine.catalogue import get_pair
        from engine.fetch import locate

        return locate(get_pair(pair).target) is not None


def _shape(model) -> tuple:
    return model.parameters, model.layers, model.hidden_size, model.vocab_size


def _where(model) -> str:
    """A shipped draft by its place in the repository: where this server keeps it is nobody's business."""
    root = Path(__file__).parent.parent
    if model.folder and model.folder.is_relative_to(root):
        return model.folder.relative_to(root).as_posix()
    return model.repo or str(model.folder or model.name)


@dataclass(eq=False)
class _Active:
    """One visitor's run in progress."""

    jobs: list = field(default_factory=list)
    stopped: bool = False

    def stop(self) -> None:
        self.stopped = True
        for job in self.jobs:
            job.cancel()


def is_baseline(config: RunConfig) -> bool:
    return config.method == "none" or config.gamma == 0


def baseline_of(config: RunConfig) -> RunConfig:
    """The same request without drafting: what a speedup is measured against."""
    return replace(config, method="none", gamma=0)


class Service:
    def __init__(self, engine: Engine | None = None, limits: Limits | None = None):
        self.engine = engine or Engine()
        self.limits = limits or Limits.from_env()
        self._active: dict[str, _Active] = {}
        self._lock = threading.Lock()
        self._loading: Stage | None = None  # the model on its way in, before anybody has asked for a run

    def warm(self) -> None:
        """Load the model behind the page, if it is here; where it is not, the first run fetches it.

        A failure is not lost: the first run meets it again and shows it.
        """

        def load():
            try:
                if self.engine.has_weights(PAIR):
                    job = self.engine.worker().submit(RunConfig("Hello", pair=PAIR, max_new_tokens=2))
                    for event in job.events():
                        self._loading = _stage(event)
            except EngineError as error:
                print(f"The model could not be loaded yet: {error}", flush=True)
            finally:
                self._loading = None

        self._loading = Stage("Loading the model")
        threading.Thread(target=load, name="speclens-warm", daemon=True).start()

    def methods(self) -> list[str]:
        return self.engine.methods(PAIR)

    def models(self, method: str) -> Models:
        return self.engine.models(PAIR, method)

    def race(self, visitor: str, config: RunConfig) -> Iterator[Update]:
        """Run ``config``, then the same request without drafting; updates come at most six times a second.

        Both jobs are queued together, so nobody's run falls between the two that are compared. Closing the
        generator cancels what is left. Raises EngineError with a sentence for the visitor.
        """
        self.limits.check(config)
        lanes: list[tuple[Lane, RunConfig]] = [("run", config)]
        if not is_baseline(config):
            lanes.append(("baseline", baseline_of(config)))
        with self._admit(visitor) as active:
            yield Update("run", stage=Stage("Starting the engine"))
            worker = self.engine.worker()
            for _, lane_config in lanes:
                if not active.stopped:
                    active.jobs.append(worker.submit(lane_config))
            for (lane, _), job in zip(lanes, active.jobs, strict=False):
                if not active.stopped:
                    yield from _follow(lane, job, self._before_start)

    def stop(self, visitor: str) -> bool:
        """Cancel the visitor's run, if any; the engine gives the device back within a round."""
        with self._lock:
            active = self._active.get(visitor)
        if active:
            active.stop()
        return active is not None

    def _before_start(self, job) -> Stage | None:
        """What a job that has not started is waiting for."""
        ahead = job.place()
        if self._loading and ahead <= 1:
            return self._loading
        return Stage(f"Waiting in the queue: {ahead} before you") if ahead else None

    @contextmanager
    def _admit(self, visitor: str) -> Iterator[_Active]:
        active = _Active()
        with self._lock:
            older = self._active.pop(visitor, None)
            if len(self._active) > self.limits.queue:
                raise BadInput(f"The queue is full: {self.limits.queue} runs are waiting. Try again in a minute.")
            self._active[visitor] = active
        if older:  # a second Run from the same page replaces the first
            older.stop()
        try:
            yield active
        finally:
            active.stop()
            with self._lock:
                if self._active.get(visitor) is active:
                    del self._active[visitor]


def _stage(event) -> Stage | None:
    """The engine's progress notes as words; ``None`` for the run's own events."""
    return Stage(event.message, event.fraction) if hasattr(event, "fraction") else None


def _follow(lane: Lane, job, waiting_for) -> Iterator[Update]:
    """Everything one job reports, gathered into updates; raises what the job raised."""
    batch: list = []
    started = finished = False
    due, said, failure = 0.0, None, None
    while not finished:
        fresh = []
        try:
            fresh = job.poll(max(0.02, due - time.monotonic()))
        except EngineError as error:  # what came before it is shown first
            failure = error
        batch += fresh
        finished = failure is not None or job.done or any(isinstance(event, RunFinished) for event in fresh)
        started = started or any(isinstance(event, RunStarted) for event in fresh)
        if not finished and time.monotonic() < due:
            continue
        stages = [stage for stage in map(_stage, batch) if stage]
        stage = stages[-1] if stages else None if started else waiting_for(job)
        events = tuple(event for event in batch if isinstance(event, RunStarted | Round | RunFinished))
        batch = []
        if events or (stage and stage != said):
            yield Update(lane, events, stage)
            due, said = time.monotonic() + SECONDS_BETWEEN_UPDATES, stage
    if failure:
        raise failure

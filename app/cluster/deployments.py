"""Defines the Ray Serve application: one page, and engine replicas that run what its visitors ask for.

The page is the same code as without Ray. Its replica holds every open tab, so there is one; engines are added as runs
come. Mounted by hand, because ray.serve.gradio_integrations of Ray 2.60 answers 500 with Gradio 6.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import cast

from pydantic import BaseModel, Field, model_validator
from ray import serve

from app.cluster.ray_worker import News, RayFacade, RayWorker, ReplicaRequest
from app.jobs.engine_facade import EngineFacade, Hardware
from app.jobs.updates import SECONDS_BETWEEN_UPDATES
from app.server.limits import Limits
from engine.config import DEFAULT_PAIR, MAX_SHARERS, RunConfig

APPLICATION = "speclens"
_SECONDS_TO_LOAD = 30  # before a run's limit begins to count


@serve.deployment
class Engine:
    """One engine with its own models. It takes traffic once the first pair is loaded and measured."""

    def __init__(self, together: int):
        from engine.runtime.worker import get_worker

        limits = Limits.from_env()
        self._worker, self._replica = get_worker(), serve.get_replica_context().replica_tag
        self._worker.max_batch_size = together
        config = RunConfig("Hello", pair=(limits.pairs or (DEFAULT_PAIR,))[0], max_new_tokens=2)
        job = self._worker.submit([("warm-up", config)], is_warm_up=True)
        job.wait()
        job.raise_error()

    def hardware(self) -> Hardware:
        return cast(Hardware, EngineFacade(self._worker).hardware())  # this machine's own

    async def run(self, request: ReplicaRequest) -> AsyncIterator[News]:
        """Yields what happens, at most six times a second. Ended early, it cancels the run within a round."""
        began, start, progress = time.monotonic(), 0, None
        job = self._worker.submit(request.configs, seconds=request.seconds, may_share=request.may_share)
        try:
            is_done = False
            while not is_done:
                entries, newest, is_done = await asyncio.to_thread(job.read, start, progress, 0.25)
                start, fresh = start + len(entries), newest if newest != progress else None
                progress = newest
                if entries or fresh or is_done:
                    elapsed = time.monotonic() - began
                    yield News(entries, elapsed, self._replica, fresh, job.sharing_jobs, job.timed_out, job.error)
                if not is_done:
                    await asyncio.sleep(SECONDS_BETWEEN_UPDATES)
        finally:
            job.cancel()


@serve.deployment(num_replicas=1, max_ongoing_requests=1_000)  # each open tab holds two
@serve.ingress()
class Page:
    def __init__(self, engines, most_runs: int):
        self._engines, self._most_runs = engines, most_runs

    def __serve_build_asgi_app__(self):
        import gradio as gr
        from fastapi import FastAPI

        from app.jobs.service import Service
        from app.page import ready_to_serve

        service = Service(RayFacade(RayWorker(self._engines, self._most_runs), self._engines))
        page, options = ready_to_serve(service)
        page.max_threads = options.pop("max_threads")
        del options["share"]
        return gr.mount_gradio_app(FastAPI(), page, path="/", **options)


class Size(BaseModel):
    """The size of a cluster: what `make cluster` takes as flags and a config file of `serve deploy` as args."""

    replicas: int = Field(2, ge=1, description="the most engines")
    at_least: int = Field(1, ge=1, description="engines that are always there")
    together: int = Field(
        Limits.from_env().together or 8, ge=1, le=MAX_SHARERS, description="runs that share an engine's passes"
    )
    cpus: float = Field(1, gt=0, description="cores of an engine")
    gpus: float = Field(0, ge=0, description="GPUs of an engine")

    @model_validator(mode="after")
    def _check(self):
        if self.at_least > self.replicas:
            raise ValueError("at_least must not be more than replicas")
        return self


def application(size: Size):
    """Builds the application that `serve deploy` and `make cluster` run. An engine that is scaled down ends its runs
    first; Ray 2.60 would kill it after 20 s."""
    engines = Engine.options(
        autoscaling_config={
            "min_replicas": size.at_least,
            "max_replicas": size.replicas,
            "target_ongoing_requests": size.together,
        },
        max_ongoing_requests=size.together,
        graceful_shutdown_timeout_s=Limits.from_env().seconds + _SECONDS_TO_LOAD,
        ray_actor_options={"num_cpus": size.cpus, "num_gpus": size.gpus},
    ).bind(size.together)
    return Page.options(ray_actor_options={"num_cpus": 0}).bind(engines, size.replicas * size.together)

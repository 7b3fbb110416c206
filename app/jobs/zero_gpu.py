"""Runs jobs on ZeroGPU, where the host grants its GPU to single calls, each in a process of its own.

Arguments and results are pickled. The host passes on only the class name of an exception, so an error of the engine
comes back as a result.
"""

import os
from collections.abc import Generator, Iterator

from app.jobs.engine_facade import EngineFacade
from app.jobs.remote import RemoteWorker
from app.server.hosting import gpu
from engine.errors import EngineError, Unavailable
from engine.runtime.job import Job, NamedConfigs
from engine.runtime.worker import Worker
from engine.trace.events import Progress

SECONDS = 120  # requested of the host for one call, which also loads and calibrates a model
_SECONDS_FOR_RUNS = 90  # the runs' part of them; then they end by themselves, before the host ends the process


class ZeroGpuWorker(RemoteWorker):
    """The runs of a job are one call of the host's GPU."""

    def _execute(self, job: Job) -> None:
        if job.work is None:
            job.seconds = min(job.seconds or _SECONDS_FOR_RUNS, _SECONDS_FOR_RUNS)
        job.context.run(super()._execute, job)

    def _results(self, job: Job) -> Generator[tuple[str, object], None, None]:
        """Raises Unavailable where the host refuses (no quota left, no GPU free)."""
        job.report(Progress(f"Asking the host for its GPU, for up to {SECONDS} s"))
        results = run_on_zero_gpu(job.configs)
        try:
            for name, item in results:
                yield name, _on_the_gpu(item) if isinstance(item, Progress) else item
        except EngineError:
            raise
        except Exception as error:
            reason = str(getattr(error, "message", error)) or type(error).__name__
            raise Unavailable(f"The host did not lend its GPU to this run: {reason}") from error
        finally:
            results.close()


def _on_the_gpu(step: Progress) -> Progress:
    return Progress(f"{step.message}, on the host's GPU for up to {SECONDS} s", step.fraction)


class ZeroGpuFacade(EngineFacade):
    """Nothing is ever loaded in this process: the newest run says which device and precision it had."""

    worker: ZeroGpuWorker

    def __init__(self):
        super().__init__(ZeroGpuWorker())

    def device(self) -> str | None:
        return self.worker.newest.device if self.worker.newest else None

    def precision(self) -> str | None:
        return self.worker.newest.dtype if self.worker.newest else None


@gpu(seconds=SECONDS)
def run_on_zero_gpu(configs: NamedConfigs) -> Iterator[tuple[str, object]]:
    """Loads, calibrates, runs and frees everything, in the call's own process. CUDA graphs are off, because capturing
    them would take longer than they could save in one call."""
    from engine.models.decoder.cuda_graphs import SWITCH

    os.environ[SWITCH] = "0"
    worker = Worker()
    try:
        yield from worker.submit(configs).entries()
    except EngineError as error:
        yield configs[0][0], type(error)(str(error))
    finally:
        worker.close()

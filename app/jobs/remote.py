"""Runs jobs in another process: sends a job's runs there and publishes the events that come back."""

from collections.abc import Generator

from engine.errors import EngineError
from engine.runtime.job import Job
from engine.runtime.worker import Worker
from engine.trace.events import RunStarted


class RemoteWorker(Worker):
    """A worker whose engine is elsewhere. Work with an engine cannot be sent, and which runs share passes is decided
    over there.

    ``newest``: how the run that started last began."""

    is_remote = True

    def __init__(self, **options):
        super().__init__(**options)
        self.max_batch_size = 1
        self.newest: RunStarted | None = None

    @property
    def most_running(self) -> int:
        return len(self._threads)

    def _execute(self, job: Job) -> None:
        if job.work is not None:  # only work without a model arrives here
            super()._execute(job)
            return
        results = self._results(job)
        try:
            for name, item in results:
                if isinstance(item, EngineError):
                    raise item
                if isinstance(item, RunStarted):
                    self.newest = item
                job.publish(name, item)
                if job.should_stop():
                    return
        finally:
            results.close()  # ends what goes on over there

    def _results(self, job: Job) -> Generator[tuple[str, object], None, None]:
        """Yields (name, event), Progress or the error that ended the job. Raises EngineError if the way is barred."""
        raise NotImplementedError

"""Runs jobs together: the runs of one job after each other, the passes of all jobs shared.

A job that stays alone is measured, so its baseline follows its run. Once others take part, its times say nothing about
drafting: then no baseline is begun, and one under way is given up.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from engine.config import RunConfig
from engine.runtime.job import Job, LoadCancelled
from engine.runtime.run_batch import NoRoom, RunBatch
from engine.trace.events import Round


class SharedRuns:
    """``limit``: jobs at once; with one, its runs may be of several pairs. ``loaded(job, config)``: a context with the
    engine for a config, which meanwhile reports to the job."""

    def __init__(self, engine, limit: int, loaded: Callable[[Job, RunConfig], AbstractContextManager]):
        self._batch, self._loaded = RunBatch(engine, limit), loaded
        self._index: dict[Job, int] = {}  # which of its runs each job is at
        self._is_full = False  # the memory did not suffice for one more

    def __len__(self) -> int:
        return len(self._index)

    def takes(self, job: Job) -> bool:
        """Returns whether the job can take part without holding up the others for a draft to be loaded."""
        if not self._index:
            return True
        has_place = len(self._index) < self._batch.limit and not self._is_full
        return has_place and self._batch.engine.is_ready(job.configs[0][1].method)

    def add(self, job: Job) -> bool:
        """Lets the job take part from the next step on. Returns False if the memory does not suffice for one more;
        raises what its request is refused with."""
        try:
            self._begin(job, 0)
        except NoRoom:
            self._is_full = True
            return False
        for other, index in self._index.items():
            if index > 0 and other is not job:
                self._batch.remove(other)  # the next step ends it
                other.sharing_jobs = 1
        return True

    def _begin(self, job: Job, index: int) -> None:
        config = job.configs[index][1]
        with self._loaded(job, config) as engine:
            if engine is not self._batch.engine:
                self._batch = RunBatch(engine, self._batch.limit)
            self._batch.add(job, config, job.should_stop, keeps_prompt=job.may_share)
        self._index[job] = index

    def step(self) -> Iterator[tuple[Job, Exception | None]]:
        """Runs one pass for all and publishes its events. Yields the jobs that have ended, and the error of each."""
        errors = {}
        for job, event in self._batch.step():
            if isinstance(event, Exception):
                errors[job] = event
                continue
            if isinstance(event, Round):
                job.sharing_jobs = max(job.sharing_jobs, event.rows - 1)
            job.publish(job.configs[self._index[job]][0], event)
        for job in [job for job in self._index if job not in self._batch]:
            if job not in errors and not self._goes_on(job, errors):
                errors[job] = None
            if job in errors:
                del self._index[job]
                self._is_full = False
                yield job, errors.pop(job)

    def _goes_on(self, job: Job, errors: dict) -> bool:
        """Begins the job's next run if it has one that can be measured."""
        index, others = self._index[job] + 1, len(self._index) - 1
        if index == len(job.configs) or job.should_stop():
            return False
        job.sharing_jobs = max(job.sharing_jobs, others)
        if job.sharing_jobs:
            return False
        try:
            self._begin(job, index)
        except (Exception, LoadCancelled) as error:
            errors[job] = error
        return True

    def close(self) -> None:
        self._batch.close()

"""Starts the cluster as `python -m app.cluster` does, with engines that hold long runs while BRAKE names a file.

So a test says how long a run takes, not the machine. A held run has two rounds, and ends at once when it is stopped. It
goes on reporting, because Gradio cancels a request of its API only between two updates.
"""

import os
import sys
import time
from pathlib import Path

from ray import serve

import app.cluster.__main__ as command
from app.cluster import deployments

LONG = 100  # tokens; shorter runs are never held


class BrakedEngine(deployments.Engine.func_or_class):
    def __init__(self, together: int):
        from engine.runtime.job import Job
        from engine.trace.events import Progress, Round

        brake, publish = Path(os.environ["BRAKE"]), Job.publish

        def publish_and_hold(job, name, event):
            publish(job, name, event)
            is_held = isinstance(event, Round) and event.index == 1 and job.configs[0][1].max_new_tokens > LONG
            while is_held and brake.exists() and not job.should_stop():
                job.show(Progress("Held by a test", time.monotonic() % 1))
                time.sleep(0.05)

        Job.publish = publish_and_hold
        super().__init__(together)


if __name__ == "__main__":
    sys.path.insert(0, os.getcwd())
    deployments.Engine = serve.deployment(BrakedEngine, name="Engine")
    command.main()

"""A visitor's calls on a ZeroGPU page; prints their results as one JSON object.

In a process of its own: the host forks the one that serves the page, which must never have computed anything itself.
"""

import json
import multiprocessing
import os
import sys
import threading

from app.jobs import zero_gpu
from app.jobs.baseline import with_baseline
from app.jobs.service import Service
from app.jobs.updates import Update
from app.server.limits import Limits
from engine.config import RunConfig
from engine.errors import EngineError


def run(service, config, stop_after=0):
    """The tokens by lane, the steps that were shown, and the sentence that it ended with."""
    found = {"run": [], "baseline": [], "error": None, "steps": []}
    try:
        for update in service.runs.run(service.runs.open("someone"), with_baseline(config)):
            if isinstance(update, Update):
                found["steps"] += [update.progress.message] if update.progress else []
                found[update.name] += [token.id for event in update.events for token in getattr(event, "emitted", ())]
            if stop_after and len(found["run"]) >= stop_after:
                service.runs.stop("someone")
    except EngineError as error:
        found["error"] = f"{type(error).__name__}: {error}"
    return found


def refused(call):
    try:
        list(call)
    except EngineError as error:
        return str(error)


pair = sys.argv[1]
service = Service(limits=Limits(pairs=(pair,), prompt_tokens=100_000, prompt_chars=1_000_000))
config = RunConfig("the cat, the hat, the cat", pair=pair, method="ngram", gamma=3, max_new_tokens=24)
first_state = service.state.now().kind
found = {
    "whole": run(service, config),
    "states": [first_state, service.state.now().kind],
    "device": service.state.now().device,
    "costs": list(service.offer.method_costs(pair)),
    "engine threads": sum(thread.name.startswith("engine-") for thread in threading.enumerate()),
    "long": run(service, RunConfig("x" * 5_000, pair=pair, method="none", max_new_tokens=8)),
    "stopped": run(service, RunConfig("on and on", pair=pair, method="none", max_new_tokens=200), stop_after=1),
    "lab": refused(service.runs.experiment(service.runs.open("someone"), [lambda engine, cancelled: iter(())], config)),
    "processes left": len(multiprocessing.active_children()),
    "seconds": zero_gpu.run_on_zero_gpu.seconds,
}
os.environ["ZERO_REFUSES"] = "You have no GPU time left today."
found["refused"] = run(service, RunConfig("again", pair=pair, method="none", max_new_tokens=8))
del os.environ["ZERO_REFUSES"]
found["after"] = run(service, RunConfig("again", pair=pair, method="none", max_new_tokens=8))
print(json.dumps(found))

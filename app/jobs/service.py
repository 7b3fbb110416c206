"""Bundles the services of the page: the offer, the visitors' runs and the state of the engine. Knows no gradio."""

from app.jobs.engine_facade import EngineFacade
from app.jobs.engine_state import EngineState
from app.jobs.offer import Offer
from app.jobs.runs import Runs
from app.jobs.zero_gpu import ZeroGpuFacade
from app.server.hosting import shared_gpu
from app.server.limits import Limits
from engine.runtime.worker import get_worker


class Service:
    """``engine``: with the one worker on which everything runs. ``check_model``: as the `EngineFacade` takes it."""

    def __init__(self, engine: EngineFacade | None = None, limits: Limits | None = None, check_model=None):
        self.engine = engine or (ZeroGpuFacade() if shared_gpu() else EngineFacade(get_worker(), check_model))
        self.limits = limits or Limits.from_env()
        self.offer = Offer(self.engine, self.limits)
        self.runs = Runs(self.offer)
        self.state = EngineState(self.engine)

"""Pairs a request with its baseline: the same request without drafting, the denominator of a speedup."""

from engine.config import RunConfig
from engine.runtime.job import NamedConfigs


def with_baseline(config: RunConfig) -> NamedConfigs:
    """Returns the run's settings, followed by its baseline if it drafts."""
    return (("run", config),) + (() if config.is_plain else (("baseline", config.baseline()),))

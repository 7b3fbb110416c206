"""Pairs a request with its baseline: the same request without drafting, the denominator of a speedup."""

from dataclasses import replace

from engine.config import RunConfig
from engine.runtime.job import NamedConfigs


def is_baseline(config: RunConfig) -> bool:
    return config.method == "none" or config.gamma == 0


def baseline_of(config: RunConfig) -> RunConfig:
    return replace(config, method="none", gamma=0)


def with_baseline(config: RunConfig) -> NamedConfigs:
    """Returns the run's settings, followed by its baseline if it drafts."""
    return (("run", config),) + (() if is_baseline(config) else (("baseline", baseline_of(config)),))

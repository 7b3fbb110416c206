"""Answers what this server offers its visitors: pairs, methods and limits, and why a request cannot run here."""

import time

from app.jobs.engine_facade import EngineFacade, MethodCosts, Pair
from app.server.limits import Limits
from engine.config import AUTO, DEFAULT_PAIR, RunConfig, method_of
from engine.errors import BadInput, Unavailable, did_you_mean
from engine.runtime.job import NamedConfigs
from engine.trace.costs import CostModel
from engine.weights.model_names import ModelNames
from engine.weights.own_models import OwnModelReport

_SECONDS_KNOWN = 30.0  # every visitor who opens the page asks which pairs can run, and every change of a form for costs


class Offer:
    """``pairs`` by name; ``pair``: the one chosen at the start."""

    def __init__(self, engine: EngineFacade, limits: Limits):
        self.engine, self.limits = engine, limits
        self.pairs = {pair.name: pair for pair in engine.pairs(limits.pairs)}
        self.pair = limits.pairs[0] if limits.pairs else DEFAULT_PAIR
        self._unusable: tuple[set[str], float] = (set(), 0.0)
        self._plain_costs: dict[str, tuple[CostModel, float]] = {}

    @property
    def titles(self) -> dict[str, str]:
        return {name: pair.title for name, pair in self.pairs.items()}

    @property
    def takes_own_models(self) -> bool:
        """False for an engine elsewhere, because nothing is known of its disk."""
        return self.limits.own_models and not self.engine.worker.is_remote

    def add_own(self, name: str) -> tuple[Pair, OwnModelReport]:
        """Looks a visitor's own model up and offers it, if it can run here. Raises EngineError."""
        if not self.takes_own_models:
            raise Unavailable("This page is shared and takes no models of yours; run SpecLens on your own machine.")
        if not name.strip():
            raise BadInput(
                "Name a model: a GGUF file, a folder, or OWNER/NAME of the hub, with :FILE.gguf for one of its files."
            )
        pair, result = self.engine.look_up(name)
        if not result.problems:
            self.pairs = self.pairs | {pair.name: pair}
        return pair, result

    def methods(self, pair: str) -> tuple[str, ...]:
        return self._find_pair(pair).methods

    def method_costs(self, pair: str) -> dict[str, MethodCosts]:
        """Returns c and memory of each method here; empty until an engine is loaded, because they need torch."""
        return self.engine.method_costs(self._find_pair(pair).name) if self.engine.device() else {}

    def plain_costs(self, pair: str) -> CostModel | None:
        """Returns what passes of the pair take here, as it was known at most half a minute ago; None where that is not
        known, or until an engine is loaded."""
        name = self._find_pair(pair).name
        costs, until = self._plain_costs.get(name, (None, 0.0))
        if time.monotonic() >= until and self.engine.device():
            costs = self.engine.plain_costs(name)
            if costs:  # where they are unknown, they are looked for again: they may be measured a moment later
                self._plain_costs[name] = costs, time.monotonic() + _SECONDS_KNOWN
        return costs

    def models(self, pair: str, method: str) -> ModelNames:
        return self.engine.models(self._find_pair(pair).name, method)

    def problems(self, pair: str, method: str = AUTO, precision: str = AUTO) -> list[str]:
        """Says in sentences why this choice cannot run here; loads nothing."""
        offered = self._find_pair(pair)
        # A method that drafts from a constraint needs nothing of the pair.
        if method not in (AUTO, *offered.methods) and not method_of(method).needs_constraint:
            return [f"{pair} has no method {method[:40]!r}; choose from {', '.join((AUTO, *offered.methods))}."]
        if precision != AUTO and precision not in self.engine.precisions():
            return [f"This server's device does not offer the precision {precision[:40]!r}; leave it on auto."]
        return self.engine.problems(pair, method, precision, self._may_fetch(pair))

    def unusable(self) -> set[str]:
        """Returns the pairs that cannot run here with any method, at most half a minute old."""
        names, until = self._unusable
        if time.monotonic() >= until:
            names = {name for name in self.pairs if self.problems(name)}
            self._unusable = names, time.monotonic() + _SECONDS_KNOWN
        return names

    def to_fetch(self, pair: str) -> int:
        """Returns the bytes that the first run of a pair would download."""
        return self.engine.absent_bytes(pair) if self._may_fetch(pair) else 0

    def check(self, config: RunConfig) -> None:
        """Checks that need no file. Raises BadInput."""
        self.limits.check(config)
        self._find_pair(config.pair)

    def check_models(self, configs: NamedConfigs) -> None:
        """Checks that need the models' files; loads nothing. Raises Unavailable or BadInput."""
        config = configs[0][1]
        # What a baseline needs is part of what its run needs.
        drafting = [each for _, each in configs if not each.is_plain] or [config]
        for choice in dict.fromkeys((each.pair, each.method, each.precision) for each in drafting):
            if reasons := self.problems(*choice):
                raise Unavailable(" ".join(reasons))
        count = self.engine.prompt_tokens(config.pair, config.prompt + (config.system or ""))
        if count and count > self.limits.prompt_tokens:
            raise BadInput(
                f"The prompt has {count:,} tokens; this page takes up to {self.limits.prompt_tokens:,}. Shorten it."
            )

    def _may_fetch(self, pair: str) -> bool:
        return self.limits.fetch or pair == self.pair

    def _find_pair(self, name: str) -> Pair:
        """Refuses pairs that are not listed, because a visitor must not name a folder or a repository of the hub."""
        if name not in self.pairs:
            hint = did_you_mean(name.lower(), self.pairs)
            raise BadInput(f"This page does not offer the pair {name[:80]!r}; {hint}")
        return self.pairs[name]

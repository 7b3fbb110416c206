"""Measures what passes and draft steps cost at the length of some texts, once, and keeps it.

Every run then gets these costs, because on a busy machine each would measure its own again.
"""

import math
import statistics
from collections.abc import Callable, Sequence

from engine.config import METHODS, RunConfig, method_of
from engine.decoding.tokenization import encode_prompt
from engine.runtime import calibration
from engine.runtime.engine import Engine
from engine.tools.bench.benchmark import Cancelled
from engine.tools.bench.result_file import ResultFile
from engine.tools.bench.sample import BASELINE
from engine.trace.costs import CostModel


def middle_of_an_answer(engine: Engine, configs: Sequence[RunConfig]) -> int:
    """Returns the tokens in the middle of an answer to the median text."""
    tokenizer = engine.target.tokenizer
    return int(statistics.median(len(encode_prompt(tokenizer, each)) + each.max_new_tokens // 2 for each in configs))


class TextCosts:
    """The costs of plain decoding and ``methods`` for the texts of ``configs``. ``open_file``: opens what keeps them,
    by what must be equal for two of them to be comparable."""

    def __init__(
        self, engine: Engine, methods: Sequence[str], configs: Sequence[RunConfig],
        open_file: Callable[[dict], ResultFile],
    ):  # fmt: skip
        self.engine, self.methods = engine, (BASELINE, *methods)
        self._context = math.ceil(middle_of_an_answer(engine, configs) / calibration.CONTEXT) * calibration.CONTEXT
        self._file = open_file({"context": self._context})

    @property
    def by_method(self) -> dict[str, CostModel]:
        """The costs that were measured, now or for an earlier question, by method."""
        return {method: costs for (method,), costs in self._file.results.items()}

    @property
    def plain(self) -> CostModel:
        return self.by_method.get(BASELINE) or self.engine.costs(BASELINE, retry=False)

    def measure(self, cancelled: Cancelled) -> None:
        for method in self.methods:
            if method not in self.by_method and not cancelled():
                self._file.add((method,), self._measure(method))

    def _measure(self, method: str) -> CostModel:
        engine, context = self.engine, self._context
        if context <= calibration.CONTEXT:
            return engine.costs(method, retry=False)
        drafter = engine.drafts.drafter(method) if method_of(method).runs_model else None
        if drafter is None and method != BASELINE:
            return self.by_method[BASELINE]
        step = f"Calibrating {METHODS[method].title} at {context:,} tokens"
        costs = calibration.measure(
            engine.target.runner, drafter, context=context, progress=lambda share: engine.models.progress(share, step)
        )
        return calibration.with_draft(self.by_method[BASELINE], costs) if drafter else costs

"""Makes answers by hand: measurements of one user and of several at once, without a model."""

from engine.tools.bench.answer import AnswerPlan, AnswerResult, Load
from engine.tools.bench.prompts import Prompt
from engine.tools.bench.sweep_results import Cell
from engine.trace.costs import CostModel
from engine.trace.noise import Speedup

COSTS = {name: CostModel(0.1, {1: 1.0, 2: 1.1, 16: 2.5}, 256, 0.03) for name in ("none", "eagle", "ngram")}
PLAN = AnswerPlan((Prompt("Hi", "chat"),), ("eagle", "ngram"), (8,))


def cell(method, gamma, speedup, half=0.05, tau=1.8, category="all", **more) -> Cell:
    ends = (None, None) if half is None else (speedup - half, speedup + half)
    return Cell(method, gamma, 0.0, category, 3, speedup, *ends, 20 * speedup, 0.5, tau, **more)


CELLS = (cell("none", 0, 1.0), cell("eagle", 1, 1.2), cell("eagle", 2, 1.43), cell("ngram", 1, 0.9),
         cell("ngram", 4, 1.05, 0.1))  # fmt: skip


def load(users, method, gamma, speedup, half=0.05) -> Load:
    return Load(users, (method, gamma), Speedup(speedup, speedup - half, speedup + half, 2.0))


def result(*loads: Load, cells=CELLS, plan=PLAN, **more) -> AnswerResult:
    return AnswerResult("pair", plan, cells, loads, COSTS, True, **more)


FEW, MANY = (load(3, "eagle", 2, 1.1), load(3, "eagle", 1, 1.15)), (load(8, "eagle", 2, 0.8), load(8, "eagle", 1, 0.9))
CROWDED = result(*FEW, *MANY)

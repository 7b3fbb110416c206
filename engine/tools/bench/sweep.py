"""Measures methods × draft lengths × temperatures on prompts, each beside plain decoding.

A turn is one prompt at one temperature: plain decoding and every setting run one after the other. Every finished turn
is a line of a file, so a sweep that was stopped resumes with the turns that are missing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

from engine.config import AUTO, RunConfig, SamplingParams
from engine.errors import BadInput
from engine.files import ProgressCallback
from engine.runtime.engine import Engine
from engine.tools.bench.benchmark import (
    Benchmark,
    Cancelled,
    Turn,
    answer_earlier_turns,
    describe,
    never,
    run_config,
    sample_file,
    warm_up,
)
from engine.tools.bench.metrics import ALL
from engine.tools.bench.prompts import Prompt, digest
from engine.tools.bench.result_file import file_of
from engine.tools.bench.sample import BASELINE, Sample
from engine.tools.bench.sweep_results import Cell, cells
from engine.tools.bench.systems import SpecLensSystem
from engine.trace.costs import CostModel

_MOST_SETTINGS = 200


@dataclass(frozen=True)
class Grid:
    """``methods`` × ``gammas`` at each of ``temperatures``, on every prompt, ``repeats`` times."""

    methods: tuple[str, ...]
    gammas: tuple[int | str, ...] = (1, 2, 4, AUTO)
    temperatures: tuple[float, ...] = (0.0,)
    max_new_tokens: int = 96
    repeats: int = 1
    seed: int = 0

    def __post_init__(self):
        for name in ("methods", "gammas", "temperatures"):
            values = tuple(dict.fromkeys(getattr(self, name)))
            if not values:
                raise BadInput(f"A sweep needs at least one of {name}.")
            object.__setattr__(self, name, values)
        if len(self.methods) * len(self.gammas) > _MOST_SETTINGS:
            raise BadInput(f"A sweep has at most {_MOST_SETTINGS} settings; choose fewer methods or draft lengths.")
        if 0 in self.gammas:
            raise BadInput("γ = 0 is plain decoding, which every sweep measures anyway; leave it out.")
        for gamma in self.gammas:
            RunConfig("-", gamma=gamma, max_new_tokens=self.max_new_tokens, seed=self.seed)
        for temperature in self.temperatures:
            SamplingParams(temperature)

    def settings(self) -> list[tuple[str, int | str]]:
        """Returns (method, γ) of each, plain decoding first."""
        return [(BASELINE, 0), *((m, g) for m in self.methods if m != BASELINE for g in self.gammas)]


class Sweep:
    """A Benchmark whose keys are (temperature, prompt, repeat), a repeat of all turns before the next one. Each prompt
    and repeat has a seed of its own. Otherwise all would share their draws, and α would be counted less exactly.

    ``out``: the file to keep turns in. With ``folder`` it is a file of that folder, named after everything that is
    measured, so that an equal sweep finds it again; ``again`` deletes its turns first.
    """

    def __init__(
        self, engine: Engine, grid: Grid, prompts: Sequence[Prompt], out: Path | None = None,
        folder: Path | None = None, again: bool = False,
    ):  # fmt: skip
        unknown = [m for m in grid.methods if m not in engine.methods]
        if unknown:
            offered = ", ".join(engine.methods)
            raise BadInput(f"{engine.pair.name} has no method {unknown[0][:40]!r}; choose from {offered}.")
        self.engine, self.grid, self.prompts = engine, grid, answer_earlier_turns(engine, prompts, grid.max_new_tokens)
        self.costs: Mapping[str, CostModel] = {}  # by method, of runs that shall not measure their own
        self.systems = [SpecLensSystem(engine, method, gamma=gamma) for method, gamma in grid.settings()]
        about = self._description()
        if folder is not None:
            out = file_of(folder, "sweep", about, again)
        self.benchmark = Benchmark(self._turns(), sample_file(out, about))

    def _description(self) -> dict:
        grid = asdict(self.grid)
        del grid["repeats"]  # more of them may be wanted later
        return describe(self.engine, self.grid.methods) | {"grid": grid, "prompts": digest(self.prompts)}

    def _turns(self) -> list[Turn]:
        grid, turns = self.grid, []
        for repeat, (i, prompt), t in product(range(grid.repeats), enumerate(self.prompts), grid.temperatures):
            seed = grid.seed + repeat * len(self.prompts) + i
            config = run_config(self.engine, prompt, t, grid.max_new_tokens, seed)
            turns.append(Turn((t, i, repeat), f"{prompt.category}, temperature {t:g}", config, self.systems))
        return turns

    def warm(self, cancelled: Cancelled = never) -> list[Sample]:
        """Runs each method on a few tokens of the first prompt."""
        names = dict.fromkeys(method for method, _ in self.grid.settings())
        systems = [SpecLensSystem(self.engine, method, costs=self.costs.get(method)) for method in names]
        for system in self.systems:
            system.costs = self.costs.get(system.method)
        return warm_up(systems, self.benchmark.turns[0].config, cancelled)

    def run(self, progress: ProgressCallback = lambda fraction, message: None, cancelled: Cancelled = never) -> bool:
        """Measures every missing turn. False where it was cancelled."""
        if self.benchmark.missing():
            self.warm(cancelled)
        return self.benchmark.run(progress, cancelled)

    def forget_noise(self) -> None:
        """Forgets the turns on the kinds of text where a speedup came out larger than it can be."""
        noisy = {(cell.temperature, cell.category) for cell in self.cells() if not cell.measured.is_possible}
        self.benchmark.file.remove(
            (t, i, repeat)
            for t, i, repeat in [*self.benchmark.samples]
            if i < len(self.prompts) and not noisy.isdisjoint({(t, self.prompts[i].category), (t, ALL)})
        )

    def cells(self) -> list[Cell]:
        categories = [prompt.category for prompt in self.prompts]
        return cells(self.grid.settings(), self.grid.temperatures, categories, self.benchmark.samples)

"""Compares methods of ours and transformers' systems on prompts: what `python -m engine bench` runs.

Of several repeats of a prompt the fastest counts, for every system alike. Costs are measured before and after, at the
prompts' own median context, and averaged, so that a prediction rests on the same hour as the measurement.
"""

import hashlib
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from engine.config import ACCEPTANCE, AUTO, RunConfig, method_of
from engine.decoding.tokenization import encode_prompt
from engine.device import processor
from engine.errors import BadInput, quantity
from engine.files import ProgressCallback
from engine.models.loader import device_name
from engine.models.onnx.session import threads
from engine.runtime import calibration
from engine.runtime.engine import Engine, versions
from engine.tools.bench import validity
from engine.tools.bench.benchmark import Benchmark, System, Turn, answer_earlier_turns, run_config, warm_up
from engine.tools.bench.metrics import BenchResults, end_to_end, rows
from engine.tools.bench.prompts import Prompt
from engine.tools.bench.sample import BASELINE, UNTRACED, Sample, fastest, rule_suffix
from engine.tools.bench.systems import (
    Engines,
    Models,
    SpecLensSystem,
    check_constraints,
    check_names,
    our_gamma,
    systems,
)
from engine.trace.costs import CostModel

_WARM_UP_TOKENS = 32
_COST_REPEATS = 9


@dataclass(frozen=True)
class Settings:
    methods: tuple[str, ...]
    max_new_tokens: int = 128
    temperature: float = 0.0
    repeats: int = 1
    gamma: int | str = AUTO
    seed: int = 0
    untraced: bool = False


class Comparison:
    """Set up once, which warms every system, then `run`; `report` has the prompts that were finished by then."""

    def __init__(
        self, engine: Engine, settings: Settings, prompts: Sequence[Prompt],
        progress: ProgressCallback = lambda fraction, message: None,
    ):  # fmt: skip
        self.engine, self.settings, self.progress = engine, settings, progress
        self.prompts = answer_earlier_turns(engine, prompts, settings.max_new_tokens)
        names = check_names(list(settings.methods), engine.methods, engine.pair.drafts)
        if settings.untraced:
            ours = {method + rule for method in (*engine.methods, AUTO) for rule in map(rule_suffix, ACCEPTANCE)}
            names += [n + UNTRACED for n in names if n.partition(":")[0] in ours and n + UNTRACED not in names]
        numbers = settings.temperature, settings.max_new_tokens, settings.seed, settings.gamma
        configs = [run_config(engine, prompt, *numbers) for prompt in self.prompts]
        check_constraints(names, configs)
        lengths = [self._length(config) for config in configs]
        self.context = int(statistics.median(lengths)) + settings.max_new_tokens // 2
        self.gammas: dict[str, int] = {}
        self.systems = self._warm(names, configs)
        self.benchmark = Benchmark([
            Turn((i, repeat), prompt.category, config, self.systems)
            for i, (prompt, config) in enumerate(zip(self.prompts, configs, strict=True))
            for repeat in range(settings.repeats)
        ])  # fmt: skip
        self._costs: list[dict[str, CostModel]] = [self._measure_costs()]
        self.interrupted = False

    def _length(self, config: RunConfig) -> int:
        """Counts the prompt's tokens. Raises BadInput where they are too many: now, not after hours of others."""
        target = self.engine.target
        length, limit = len(encode_prompt(target.tokenizer, config)), target.runner.max_length
        if length + config.max_new_tokens > limit:
            raise BadInput(
                f"The prompt {config.prompt[:40]!r}… has {quantity(length, 'token')}; with {config.max_new_tokens} new "
                f"ones that is more than the {limit} this model attends to. Shorten it or ask for fewer new tokens."
            )
        return length

    def _warm(self, names: list[str], configs: list[RunConfig]) -> list[System]:
        """Runs every system once before any is timed, and counts the mean length of γ = auto on the way."""
        self.progress(0.0, "Warming up")
        first = {p.category: c for c, p in zip(reversed(configs), reversed(self.prompts), strict=True)}
        short = [replace(c, max_new_tokens=min(_WARM_UP_TOKENS, c.max_new_tokens)) for c in first.values()]
        for method, name in (("ngram", "hf-lookup"), ("lm", "hf-assisted")):
            if name in names:
                self.gammas[method] = our_gamma(self.engine, method, short)
        engines, models = Engines(self.engine, self.progress), Models(self.engine, self.progress)
        warmed = list(systems(names, engines, models, self.gammas))
        warm_up(warmed, short[0], tokens=_WARM_UP_TOKENS)
        return warmed

    def _measure_costs(self) -> dict[str, CostModel]:
        """Measures c and v of each method of ours in each precision."""
        ours = {s.costs_name: s for s in self.systems if isinstance(s, SpecLensSystem)}
        measured: dict[tuple, CostModel] = {}
        return {name: self._costs_of(system.engine, system.method, measured) for name, system in ours.items()}

    def _costs_of(self, engine: Engine, method: str, measured: dict[tuple, CostModel]) -> CostModel:
        """Measures the costs of a method once a call of `_measure_costs`; methods without a model share one."""
        if method == AUTO:
            each = {name: self._costs_of(engine, name, measured) for name in engine.drafts.competitors()}
            c, plain = {name: costs.c for name, costs in each.items()}, self._costs_of(engine, BASELINE, measured)
            paces = engine.clocks[self.settings.temperature == 0].paces
            return replace(plain, draft_costs=c, paces=dict(paces))
        key = engine.precision, method if method_of(method).runs_model else BASELINE
        if key not in measured:
            drafter = engine.drafts.drafter(method) if method_of(method).runs_model else None
            costs = calibration.measure(
                engine.target.runner, drafter, context=self.context, repeats=_COST_REPEATS,
                progress=lambda share: self.progress(share, "Measuring costs at the prompts' length"),
            )  # fmt: skip
            if drafter is not None:
                costs = calibration.with_draft(self._costs_of(engine, BASELINE, measured), costs)
            measured[key] = costs
        return measured[key]

    def run(self) -> None:
        """Runs the benchmark. Ctrl-C ends it early and keeps the prompts that every system has finished; it is passed
        on where there are none."""
        try:
            self.benchmark.run(lambda fraction, message: self.progress(fraction, f"{message}: {self._speeds()}"))
            self._costs.append(self._measure_costs())
        except KeyboardInterrupt:
            self.interrupted = True
            if not self._count_finished():
                raise

    def _speeds(self) -> str:
        """Words the speeds of the turn that was measured last."""
        turn = next(reversed(self.benchmark.samples.values()))
        speeds = (f"{_label(*system)} {sample.tokens / sample.seconds:.1f}" for system, sample in turn.items())
        return f"tokens/s {', '.join(speeds)}"

    def _count_finished(self) -> int:
        """Counts the prompts with all their repeats."""
        return len(self.benchmark.samples) // self.settings.repeats

    def _column(self, system: System) -> list[Sample]:
        """Returns the system's sample of each finished prompt."""
        turns, repeats = self.benchmark.samples, range(self.settings.repeats)
        of = system.name, system.setting
        return [fastest([turns[i, repeat][of] for repeat in repeats]) for i in range(self._count_finished())]

    def results(self) -> BenchResults:
        """Returns the results so far; each system has its setting that is the fastest end to end."""
        categories = [prompt.category for prompt in self.prompts[: self._count_finished()]]
        results = BenchResults(categories, {}, greedy=all(turn.config.sampling.greedy for turn in self.benchmark.turns))
        for system in self.systems:
            column, best = self._column(system), results.samples.get(system.name)
            if best is None or _speed(column) > _speed(best):
                results.samples[system.name], results.settings[system.name] = column, system.setting
        results.costs = {method: _mean([c[method] for c in self._costs]) for method in self._costs[0]}
        return results

    def report(self, prompts_file: Path | None = None) -> dict:
        """Returns the JSON report: environment, rows, and under ``samples`` what the rows add up."""
        results = self.results()
        samples = [
            {"method": name, "prompt": i, "category": results.categories[i], **sample.row()}
            for name, column in results.samples.items()
            for i, sample in enumerate(column)
        ]
        report = {"environment": self._environment(prompts_file), "rows": rows(results), "samples": samples}
        if validity.can_check(self.prompts):
            target = self.engine.target
            counts = validity.check(results.samples, self.prompts, target.tokenizer, target.eos)
            report["validity"] = {name: asdict(count) for name, count in counts.items()}
        return report

    def _environment(self, prompts_file: Path | None) -> dict:
        about = environment(self.engine, self.settings, prompts_file)
        about["prompts"] |= {"run": self._count_finished(), "asked": len(self.prompts), "turns": "the last of each"}
        return about | {
            "interrupted": self.interrupted,
            "costs": [{method: asdict(costs) for method, costs in each.items()} for each in self._costs],
            "our_gamma": self.gammas,
            "variants": [
                {"method": s.name, "setting": s.setting, "tokens_per_second_end_to_end": _speed(self._column(s))}
                for s in self.systems
                if s.setting
            ],
            "peak_memory": "of the process, which holds every system's weights",
        }  # fmt: skip


def _label(name: str, setting: str | int | None) -> str:
    return f"{name} ({setting})" if setting else name


def _speed(samples: Sequence[Sample]) -> float:
    tokens, seconds = end_to_end(samples).sum(0)
    return float(tokens / seconds)


def _mean(costs: Sequence[CostModel]) -> CostModel:
    n = len(costs)
    v = {w: sum(c.v[w] for c in costs) / n for w in costs[0].v}
    drafts = {name: sum(c.draft_costs[name] for c in costs) / n for name in costs[0].draft_costs}
    step = sum(c.step for c in costs) / n
    c = sum(c.c for c in costs) / n
    return CostModel(c, v, costs[0].context, step, draft_costs=drafts, paces=costs[-1].paces)


def environment(engine: Engine, settings, prompts_file: Path | None) -> dict:
    """Describes a measurement: pair, machine, versions, ``settings`` (a dataclass) and prompts, as JSON."""
    return {
        "pair": engine.pair.name if engine.pair.target.folder is None else engine.pair.title,
        "revision": engine.pair.target.revision,
        "weights": {k: v for method in engine.methods for k, v in engine.drafts.hashes(method).items()},
        "device": device_name(engine.device),
        "processor": processor(),
        "precision": engine.precision,
        "threads": threads(),
        "versions": versions(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "settings": asdict(settings) | {"methods": list(settings.methods)},
        "prompts": {
            "file": prompts_file.name if prompts_file else None,
            "sha256": hashlib.sha256(prompts_file.read_bytes()).hexdigest() if prompts_file else None,
        },
    }

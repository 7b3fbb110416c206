"""The race: every contestant on every prompt, interleaved in one process, each warm, the order rotated.

Of several repeats of a prompt the fastest counts, for every contestant alike. Costs are measured before and after, at
the prompts' own median context, and averaged, so that a prediction rests on the same hour as the measurement.
"""

import hashlib
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
import transformers

import engine as package
from engine import calibrate
from engine.catalogue import MODEL_FREE, methods
from engine.config import AUTO, RunConfig, SamplingParams
from engine.contestants import Models, Ours, check_names, contestants, our_gamma
from engine.errors import BadInput
from engine.events import CostModel
from engine.loading import Engine, device_name
from engine.scores import UNTRACED, Results, Sample, end_to_end, fastest, rows
from engine.text import encode_prompt

_WARM_UP_TOKENS = 32
_MAX_LINES = 100_000
_COST_REPEATS = 9
Say = Callable[[float, str], None]


@dataclass(frozen=True)
class Settings:
    methods: tuple[str, ...]
    max_new_tokens: int = 128
    temperature: float = 0.0
    repeats: int = 1
    gamma: int | str = AUTO
    seed: int = 0
    untraced: bool = False


@dataclass(frozen=True)
class Prompt:
    text: str
    category: str


def read_prompts(path: Path, limit: int | None = None) -> list[Prompt]:
    """Rows of a JSONL file: `prompt`, or the first of `turns`, and `category`. BadInput names a bad line."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"The prompts {path} cannot be read: {getattr(error, 'strerror', None) or error}.") from error
    if len(lines) > _MAX_LINES:
        raise BadInput(f"{path} has {len(lines)} lines; up to {_MAX_LINES} are read.")
    found = [_prompt(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise BadInput(f"{path} holds no prompts; write one JSON object with `prompt` and `category` on each line.")
    return spread(found, limit) if limit else found


def _prompt(path: Path, number: int, line: str) -> Prompt:
    try:
        row = json.loads(line)
        turns = row.get("turns")
        text = row["prompt"] if "prompt" in row else turns[0]
        category = str(row.get("category", "other"))
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError, IndexError) as error:
        raise BadInput(f"Line {number} of {path} is no JSON object with `prompt` or `turns` and `category`.") from error
    if not isinstance(text, str) or not text.strip():
        raise BadInput(f"Line {number} of {path} has an empty prompt.")
    return Prompt(text, category)


def spread(prompts: Sequence[Prompt], limit: int) -> list[Prompt]:
    """``limit`` of them, one from each category in turn, in file order."""
    queues: dict[str, list[Prompt]] = {}
    for prompt in prompts:
        queues.setdefault(prompt.category, []).append(prompt)
    longest = max(map(len, queues.values()))
    return [queue[i] for i in range(longest) for queue in queues.values() if i < len(queue)][:limit]


# ── measuring ──


class Race:
    """Set up once, then `run`; `results` has whatever was measured by then."""

    def __init__(self, engine: Engine, settings: Settings, prompts: Sequence[Prompt], say: Say = lambda f, m: None):
        self.engine, self.settings, self.prompts, self.say = engine, settings, list(prompts), say
        names = check_names(list(settings.methods), methods(engine.pair), engine.pair.drafts)
        if settings.untraced:
            names += [n + UNTRACED for n in names if n in methods(engine.pair) and n + UNTRACED not in names]
        self.configs = [self._config(prompt) for prompt in self.prompts]
        lengths = [self._length(config) for config in self.configs]
        self.context = int(statistics.median(lengths)) + settings.max_new_tokens // 2
        self.gammas: dict[str, int] = {}
        self._racers, self._samples = self._warm(names), []
        self._costs: list[dict[str, CostModel]] = [self._measure()]
        self.interrupted = False

    def _config(self, prompt: Prompt) -> RunConfig:
        s = self.settings
        return RunConfig(
            prompt.text, self.engine.pair.name, gamma=s.gamma, sampling=SamplingParams(s.temperature),
            max_new_tokens=s.max_new_tokens, seed=s.seed, chat=bool(self.engine.target.tokenizer.chat_template),
        )  # fmt: skip

    def _length(self, config: RunConfig) -> int:
        """Said before hours have gone into the other prompts."""
        target = self.engine.target
        length, limit = len(encode_prompt(target.tokenizer, config)), target.runner.max_length
        if length + config.max_new_tokens > limit:
            raise BadInput(
                f"The prompt {config.prompt[:40]!r}… has {length} tokens; with {config.max_new_tokens} new ones that "
                f"is more than the {limit} this model attends to. Shorten it or ask for fewer new tokens."
            )
        return length

    def _warm(self, names: list[str]) -> list:
        """Everybody runs once before anybody is timed; what γ = auto comes to is learnt on the way."""
        self.say(0.0, "Warming up")
        first = {p.category: c for c, p in zip(reversed(self.configs), reversed(self.prompts), strict=True)}
        short = [replace(c, max_new_tokens=min(_WARM_UP_TOKENS, c.max_new_tokens)) for c in first.values()]
        for method, contestant in (("ngram", "hf-lookup"), ("lm", "hf-assisted")):
            if contestant in names:
                self.gammas[method] = our_gamma(self.engine, method, short)
        racers = list(contestants(names, self.engine, Models(self.engine, self.say), self.gammas))
        for racer in racers:
            racer.run(short[0])
        return racers

    def _measure(self) -> dict[str, CostModel]:
        """c and v of each method of ours; those without a draft model share one measurement."""
        found: dict[bool | str, CostModel] = {}
        for method in dict.fromkeys(r.method for r in self._racers if isinstance(r, Ours)):
            if method in MODEL_FREE and MODEL_FREE[0] in found:
                found[method] = found[MODEL_FREE[0]]
                continue
            drafter = None if method in MODEL_FREE else self.engine.drafter(method)
            found[method] = calibrate.measure(
                self.engine.target.runner, drafter, context=self.context, repeats=_COST_REPEATS,
                progress=lambda share: self.say(share, "Measuring costs at the prompts' length"),
            )  # fmt: skip
        return found

    def run(self, done: Callable[[int, str], None] = lambda count, note: None) -> None:
        """Ctrl-C ends it early and keeps the prompts that everybody was through with; before the first it is passed
        on. ``done`` hears the number of prompts behind us and a line about the last."""
        try:
            for turn, config in enumerate(self.configs):
                self._samples.append(self._everybody(config, turn))
                done(turn + 1, self._note(turn))
            self._costs.append(self._measure())
        except KeyboardInterrupt:
            self.interrupted = True
            if not self._samples:
                raise

    def _everybody(self, config: RunConfig, turn: int) -> list[Sample]:
        samples: list[list[Sample]] = [[] for _ in self._racers]
        for repeat in range(self.settings.repeats):
            first = (turn + repeat) % len(samples)
            for i in [*range(first, len(samples)), *range(first)]:
                samples[i].append(self._racers[i].run(config))
        return [fastest(each) for each in samples]

    def _note(self, turn: int) -> str:
        speeds = []
        for racer, sample in zip(self._racers, self._samples[turn], strict=True):
            setting = f" ({racer.setting})" if racer.setting else ""
            speeds.append(f"{racer.name}{setting} {len(sample.tokens) / sample.seconds:.1f}")
        return f"{self.prompts[turn].category}: tokens/s {', '.join(speeds)}"

    def results(self) -> Results:
        done = len(self._samples)
        results = Results([p.category for p in self.prompts[:done]], {}, greedy=self.settings.temperature == 0)
        for racer, samples in self._best():
            results.samples[racer.name] = samples
            if racer.setting:
                results.settings[racer.name] = racer.setting
        results.costs = {method: _mean([c[method] for c in self._costs]) for method in self._costs[0]}
        return results

    def _best(self):
        """Of the settings of one contestant the fastest end to end."""
        columns = list(zip(*self._samples, strict=True))
        for name in dict.fromkeys(r.name for r in self._racers):
            same = [(r, list(c)) for r, c in zip(self._racers, columns, strict=True) if r.name == name]
            yield max(same, key=lambda entry: _speed(entry[1]))

    def report(self, prompts_file: Path | None = None) -> dict:
        """The JSON: environment, rows, and under ``samples`` what the rows were added up from."""
        results = self.results()
        samples = [
            {"method": name, "prompt": i, "category": results.categories[i], "tokens": len(s.tokens),
             "passes": s.passes, "seconds": s.seconds, "decode_seconds": s.decode_seconds, "ttft": s.ttft}
            for name, column in results.samples.items()
            for i, s in enumerate(column)
        ]  # fmt: skip
        return {"environment": self._environment(prompts_file), "rows": rows(results), "samples": samples}

    def _environment(self, prompts_file: Path | None) -> dict:
        engine, columns = self.engine, list(zip(*self._samples, strict=True))
        return {
            "pair": engine.pair.name if engine.pair.target.folder is None else engine.pair.title,
            "revision": engine.pair.target.revision,
            "weights": {k: v for method in methods(engine.pair) for k, v in engine.weights(method).items()},
            "device": device_name(engine.device),
            "processor": _processor(),
            "precision": engine.precision,
            "threads": torch.get_num_threads(),
            "versions": {
                "speclens": package.__version__, "torch": torch.__version__, "transformers": transformers.__version__,
                "python": platform.python_version(),
            },
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "settings": asdict(self.settings) | {"methods": list(self.settings.methods)},
            "prompts": {
                "file": prompts_file.name if prompts_file else None,
                "sha256": hashlib.sha256(prompts_file.read_bytes()).hexdigest() if prompts_file else None,
                "run": len(self._samples), "asked": len(self.prompts), "turns": "the first of each",
            },
            "interrupted": self.interrupted,
            "costs": [{method: asdict(costs) for method, costs in each.items()} for each in self._costs],
            "our_gamma": self.gammas,
            "variants": [
                {"method": r.name, "setting": r.setting, "tokens_per_second_end_to_end": _speed(column)}
                for r, column in zip(self._racers, columns, strict=True)
                if r.setting
            ],
            "peak_memory": "of the process, which holds every contestant's weights",
        }  # fmt: skip


def _speed(samples: Sequence[Sample]) -> float:
    tokens, seconds = end_to_end(samples).sum(0)
    return float(tokens / seconds)


def _mean(costs: Sequence[CostModel]) -> CostModel:
    n = len(costs)
    v = {w: sum(c.v[w] for c in costs) / n for w in costs[0].v}
    return CostModel(sum(c.c for c in costs) / n, v, costs[0].context, sum(c.step for c in costs) / n)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration, IndexError):
        name = platform.processor() or platform.machine()
    return f"{name}, {os.cpu_count()} cores"


def write(report: dict, path: Path) -> None:
    """Aside and renamed, so that an earlier file stays whole until the new one is."""
    aside = path.with_name(path.name + ".partial")
    try:
        aside.write_text(json.dumps(report, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        aside.replace(path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise BadInput(f"The numbers could not be written to {path}: {error.strerror}.") from error

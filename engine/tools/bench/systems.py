"""Runs one request on one system: a method of ours, or transformers' generate on the same weights.

All get the same ids, dtype, device and threads, and stop at the same ids.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch
import transformers
from transformers import GenerationConfig
from transformers.generation import BaseStreamer

from engine.config import ACCEPTANCE, AUTO, RunConfig, constraint_methods
from engine.decoding.loop import TRUE_RULES, Rules
from engine.decoding.tokenization import encode_prompt
from engine.device import now, peak_memory, reset_peak
from engine.errors import BadInput, quantity
from engine.files import ProgressCallback
from engine.models.decoder.transformers_config import load_tokenizer
from engine.models.decoder.transformers_runner import load_transformers
from engine.models.loader import DTYPES, memory_errors
from engine.runtime.engine import Engine, load_engine
from engine.tools.bench.benchmark import Cancelled, System, never
from engine.tools.bench.llama_cpp import LLAMA_CPP, LlamaCppSystem, cores_for_others
from engine.tools.bench.sample import BASELINE, UNTRACED, Sample, rule_suffix
from engine.trace.costs import CostModel
from engine.trace.events import Round, RunFinished

TRANSFORMERS = ("hf", "hf-lookup", "hf-assisted")
LOOKUP_DEFAULT = 10  # what transformers' documentation sets; its generate has no default


@dataclass
class SpecLensSystem:
    """A method of the engine, driven on this very thread. ``gamma``: a draft length of its own, instead of the
    request's. ``precision``: the engine's, where it is part of the name. ``acceptance``: the rule for chains.
    ``rules``, ``stop_at_eos`` and ``costs`` as in `Engine.run`."""

    engine: Engine
    method: str
    traced: bool = True
    gamma: int | str | None = None
    rules: Rules = TRUE_RULES
    stop_at_eos: bool = True
    precision: str = ""
    acceptance: str = "token"
    costs: CostModel | None = None

    @property
    def name(self) -> str:
        return self.costs_name + ("" if self.traced else UNTRACED)

    @property
    def costs_name(self) -> str:
        method = self.method + rule_suffix(self.acceptance)
        return f"{method}:{self.precision}" if self.precision else method

    @property
    def setting(self) -> int | str | None:
        return self.gamma

    def run(self, config: RunConfig, cancelled: Cancelled = never) -> Sample:
        gamma = config.gamma if self.gamma is None else self.gamma
        gamma = 0 if self.method == BASELINE else gamma
        config = replace(config, method=self.method, gamma=gamma, acceptance=self.acceptance)
        config = replace(config, trace=config.trace and self.traced)
        events = self.engine.run(config, cancelled, rules=self.rules, stop_at_eos=self.stop_at_eos, costs=self.costs)
        *rounds, finished = cast(list[Any], [event for event in events if isinstance(event, Round | RunFinished)])
        return Sample.from_rounds(rounds, finished.peak_memory, finished.extra.get("busy"))


class TokenTimer(BaseStreamer):
    """When tokens came out of generate, and how many at a time; the first put is the prompt."""

    def __init__(self):
        self.puts: list[tuple[float, int]] = []
        self._prompt_seen = False

    def put(self, value):
        if self._prompt_seen:
            self.puts.append((time.perf_counter(), value.numel()))
        self._prompt_seen = True

    def end(self):
        pass


def generate(model, ids: torch.Tensor, config: GenerationConfig, **options) -> Sample:
    """Runs transformers' generate on ``ids`` [1, T], timed token by token."""
    timer, device = TokenTimer(), str(model.device)
    reset_peak(device)
    with torch.inference_mode(), cores_for_others():
        start = now(device)
        out = model.generate(ids, generation_config=config, streamer=timer, **options)
        seconds = now(device) - start
    tokens = tuple(out[0, ids.shape[1] :].tolist())
    (first, first_count), (last, _) = timer.puts[0], timer.puts[-1]
    return Sample(
        tokens=len(tokens),
        seconds=seconds,
        decode_seconds=last - first,
        decode_tokens=len(tokens) - first_count,
        ttft=first - start,
        passes=len(timer.puts),
        peak_memory=peak_memory(device),
        ids=tokens,
    )


@dataclass
class TransformersSystem:
    """transformers' generate: plain, with prompt lookup, or with the pair's draft as assistant.

    ``number``: tokens to look up or to draft; None leaves the assistant to transformers' own schedule.
    """

    engine: Engine
    name: str
    models: "Models"
    number: int | None = None

    @property
    def setting(self) -> str | None:
        tokens = quantity(self.number, "token") if self.number else "default"
        return tokens if self.name != "hf" else None

    def run(self, config: RunConfig, cancelled: Cancelled = never) -> Sample:
        ids = torch.tensor([encode_prompt(self.engine.target.tokenizer, config)], device=self.engine.device)
        torch.manual_seed(config.seed)
        return generate(self.models.target(), ids, self._generation(config), **self._drafting(config))

    def _generation(self, config: RunConfig) -> GenerationConfig:
        """Names every setting, because the rest would come from the checkpoint's own generation config."""
        s, eos = config.sampling, sorted(self.engine.target.eos)
        sampling = {"do_sample": False}
        if not s.greedy:
            sampling = {"do_sample": True, "temperature": s.temperature, "top_k": s.top_k, "top_p": s.top_p}
            sampling["min_p"] = s.min_p or None
        return GenerationConfig(
            max_new_tokens=config.max_new_tokens,
            eos_token_id=eos or None,
            pad_token_id=eos[0] if eos else 0,
            repetition_penalty=s.repetition_penalty,
            use_cache=True,
            disable_compile=True,
            prompt_lookup_num_tokens=self.number if self.name == "hf-lookup" else None,
            **sampling,
        )

    def _drafting(self, config: RunConfig) -> dict:
        if self.name != "hf-assisted":
            return {}
        assistant = self.models.draft()
        # A fresh config each time: the schedule and the confidence threshold remember across calls.
        assistant.generation_config = GenerationConfig()
        if self.number:
            assistant.generation_config.update(
                num_assistant_tokens=self.number,
                num_assistant_tokens_schedule="constant",
                assistant_confidence_threshold=0.0,
            )
        own = self.engine.target.tokenizer
        if self.engine.drafts.translates("lm"):
            other = self.models.draft_tokenizer()
            return {"assistant_model": assistant, "tokenizer": own, "assistant_tokenizer": other}
        if config.sampling.greedy or assistant.config.vocab_size == self.models.target().config.vocab_size:
            return {"assistant_model": assistant}
        # Sampling with vocabularies padded differently needs its other path.
        return {"assistant_model": assistant, "tokenizer": own, "assistant_tokenizer": own}


class Engines:
    """The engine of a benchmark, and further ones of the same pair in other precisions, loaded when first needed."""

    def __init__(self, first: Engine, progress: ProgressCallback):
        self.first, self._progress, self._others = first, progress, {}

    def load(self, precision: str) -> Engine:
        """Returns the engine for a precision; an empty one is the benchmark's own."""
        if precision in ("", self.first.precision):
            return self.first
        if precision not in self._others:
            self._others[precision] = load_engine(self.first.pair.name, self.first.device, precision, self._progress)
        return self._others[precision]


class Models:
    """The pair's checkpoints as transformers loads them, once and only when they are needed."""

    def __init__(self, engine: Engine, progress: ProgressCallback = lambda fraction, message: None):
        self.engine, self._progress, self._loaded = engine, progress, {}

    def target(self):
        return self._load(self.engine.target.folder)

    def draft(self):
        return self._load(self.engine.models.folder(self.engine.pair.drafts["lm"]))

    def draft_tokenizer(self):
        """Returns the same object always, because for another one transformers 5.23 would change the layers again."""
        if "tokenizer" not in self._loaded:
            self._loaded["tokenizer"] = load_tokenizer(self.engine.models.folder(self.engine.pair.drafts["lm"]))
        return self._loaded["tokenizer"]

    def _load(self, folder: Path):
        if folder not in self._loaded:
            self._progress(0.0, f"Loading {folder.name} with transformers")
            transformers.logging.set_verbosity_error()  # it warns about its own assistant's arguments on every call
            with memory_errors(f"{folder.name} does not fit into memory a second time"):
                model = load_transformers(folder, DTYPES[self.engine.precision], self.engine.device)
            model.generation_config = GenerationConfig()
            self._loaded[folder] = model
        return self._loaded[folder]


def check_names(names: list[str], offered: tuple[str, ...], drafts) -> list[str]:
    """Checks the names of systems and returns them, the baseline first and each once. Raises BadInput."""
    ours = (*offered, *constraint_methods(), AUTO)
    known = [*ours, *(m + UNTRACED for m in ours), *TRANSFORMERS, *LLAMA_CPP]
    for name in names:
        method, _, precision = _parts(name)
        is_method = method in ours and precision in ("", *DTYPES) and not name.endswith(":")
        if name not in known and not is_method:
            rules = " or ".join(filter(None, map(rule_suffix, ACCEPTANCE)))
            listed = f"{', '.join(known)}; a method of ours also with {rules} and a precision, as in none:int4"
            raise BadInput(f"{name[:40]!r} cannot be measured here; choose from {listed}.")
        if name == "hf-assisted" and "lm" not in drafts:
            raise BadInput("hf-assisted needs a pair with a draft model; choose another pair or leave it out.")
    return list(dict.fromkeys([BASELINE, *names]))


def check_constraints(names: list[str], configs: list[RunConfig]) -> None:
    """Raises BadInput for a system that answers as it likes where a prompt has a schema or a stop text."""
    theirs = [name for name in names if name in (*TRANSFORMERS, *LLAMA_CPP)]
    for what, has in (("a JSON schema", any(c.constraint for c in configs)), ("stop", any(c.stop for c in configs))):
        if theirs and has:
            raise BadInput(f"These prompts have {what}, which {theirs[0]} does not follow here; leave it out.")
    needing = [name for name in names if _parts(name)[0] in constraint_methods()]
    if needing and not all(config.constraint for config in configs):
        raise BadInput(f"The method {needing[0]} needs prompts that each have a JSON schema; leave it out.")


def systems(names: list[str], engines: "Engines", models: Models, gammas: dict[str, int]) -> Iterator[System]:
    """Yields a system for each name; lookup and assistant at their defaults and at our γ."""
    engine = engines.first
    numbers = {"hf-lookup": [LOOKUP_DEFAULT, gammas.get("ngram")], "hf-assisted": [None, gammas.get("lm")]}
    for name in names:
        if name in TRANSFORMERS:
            for number in dict.fromkeys(numbers.get(name, [None])):
                yield TransformersSystem(engine, name, models, number)
        elif name in LLAMA_CPP:
            yield LlamaCppSystem(engine, name)
        else:
            method, acceptance, precision = _parts(name)
            yield SpecLensSystem(
                engines.load(precision), method, not name.endswith(UNTRACED), precision=precision, acceptance=acceptance
            )


def _parts(name: str) -> tuple[str, str, str]:
    """Returns method, acceptance rule and precision.

    >>> _parts("lm-block:int4-untraced")
    ('lm', 'block', 'int4')
    """
    method, _, precision = name.removesuffix(UNTRACED).partition(":")
    for rule in ACCEPTANCE:
        if (suffix := rule_suffix(rule)) and method.endswith(suffix):
            return method.removesuffix(suffix), rule, precision
    return method, "token", precision


def our_gamma(engine: Engine, method: str, configs: list[RunConfig]) -> int:
    """Returns the mean number drafted over rounds that drafted, 4 without one; γ itself where it is fixed."""
    if not isinstance(gamma := configs[0].gamma, str):
        return max(1, gamma)
    system = SpecLensSystem(engine, method)
    drafted = [number for config in configs for *_, number, _ in system.run(config).rounds if number]
    return max(1, round(sum(drafted) / len(drafted))) if drafted else 4

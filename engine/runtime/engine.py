"""Loads a pair of models and sets up the requests that run on it."""

import gc
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch
import transformers

import engine
from engine.config import AUTO, RunConfig, SamplingParams, method_of
from engine.decoding.batch import alone
from engine.decoding.constrained import grammar_reader
from engine.decoding.draft_length import AdaptiveGamma, FixedGamma, Rate, ReplayedGamma
from engine.decoding.drafter_choice import DrafterChoice
from engine.decoding.loop import TRUE_RULES, Rules, SpeculativeDecoder
from engine.decoding.tokenization import encode_prompt, template_length
from engine.decoding.trace_recorder import TraceRecorder
from engine.drafters.base import PER_TOKEN, Drafter, GammaPolicy
from engine.errors import BadInput, Unavailable, quantity
from engine.files import ProgressCallback, cache_root
from engine.models.decoder.runner import Runner
from engine.models.decoder.transformers_config import load_tokenizer
from engine.models.loader import LoadedModel, device_name, memory_errors
from engine.models.onnx import session as onnx_session
from engine.runtime import calibration, huge_pages
from engine.runtime.contest import known_acceptance, without_a_chance
from engine.runtime.device_choice import choose_device, choose_precision
from engine.runtime.drafts import Drafts
from engine.runtime.pair_models import PairModels
from engine.runtime.prepared_run import PreparedRun
from engine.runtime.round_clock import RoundClock
from engine.sampling.constraint_compiler import Grammars
from engine.trace.costs import CostModel
from engine.trace.events import Event
from engine.trace.speedup_model import best_batch
from engine.weights.catalogue import get_pair
from engine.weights.gguf.layout import gguf_files, is_prepared
from engine.weights.preflight import check_pair
from engine.weights.specs import PairSpec, methods

# What the page and the tools load through this file.
__all__ = [
    "Engine",
    "choose_device",
    "choose_precision",
    "device_name",
    "encode_prompt",
    "load_engine",
    "load_tokenizer",
]

_CALIBRATIONS = 3  # attempts on a machine that stays busy, because each takes seconds


def onnx_problem() -> str | None:
    """Says why ONNX Runtime cannot compute passes on this machine's CPU; None where it can."""
    return onnx_session.problem()


class Engine:
    """One pair on one device. Not thread-safe: one thread owns it. ``target``: its model; ``drafts``: what drafts for
    it, loaded when a method first needs it; ``prompts``: the kept texts."""

    def __init__(self, pair: PairSpec, device: str, precision: str, progress: ProgressCallback | None = None):
        self.pair, self.device, self.precision = pair, device, precision
        self.models = PairModels(pair, device, precision, progress or (lambda fraction, message: None))
        self.target, self.drafts, self.prompts = self.models.target, Drafts(self.models), self.models.prompts
        self.grammars = Grammars(self.target.tokenizer, self.target.runner.vocab_size, self.target.eos)
        self.clocks = {is_greedy: RoundClock() for is_greedy in (True, False)}
        self._known_c: dict[str, float] | None = None  # c by drafter, from earlier calibrations
        self._ready: set[str] = set()
        self._costs: dict[str, CostModel] = {}
        self._calibrations: dict[str, int] = {}  # how often each was measured
        self._measured_lately: set[str] = set()  # since the last run was set up

    def on_progress(self, progress: ProgressCallback) -> None:
        """Sets the callback for the progress of loading and calibrating."""
        self.models.progress = progress

    @property
    def methods(self) -> tuple[str, ...]:
        """The pair's drafting methods, the baseline first."""
        return methods(self.pair)

    @property
    def gguf(self) -> Path | None:
        """The file that the target was read from, where it is a GGUF file."""
        folder = self.target.folder
        return gguf_files(folder)[0] if is_prepared(folder) else None

    def has(self, method: str) -> bool:
        """Returns whether everything the method needs is loaded."""
        return self.drafts.has(method)

    def is_ready(self, method: str) -> bool:
        """Returns whether a run of it has been set up before, so that another needs nothing loaded or measured."""
        return method in self._ready

    def best_batch(self) -> int:
        """Counts how many runs should share the passes on this device."""
        return best_batch(self.costs("none").v)

    def costs(self, method: str, again: bool = False, retry: bool = True) -> CostModel:
        """Returns c and v(W) of a method on this device, from the calibration cache or measured now. All methods share
        v, which is measured without a draft.

        Costs measured on a busy machine are measured again at the next runs, once a run and a few times in all;
        ``again`` forces it, and without ``retry`` they stay.
        """
        has_model = method_of(method).runs_model
        method = method if has_model else "none"
        known, tries = self._costs.get(method), self._calibrations.get(method, 0)
        retry = retry and method not in self._measured_lately and tries < _CALIBRATIONS
        if again or known is None or (retry and not known.steady):
            drafter = self.drafts.drafter(method) if has_model else None
            key = {
                "drafter": method if has_model else "",
                "device": device_name(self.device),
                "precision": self.precision,
                "weights": self.drafts.hashes(method),
                "threads": onnx_session.threads(),
                "huge_pages": huge_pages.are_requested(),
                "torch": torch.__version__,
                "onnxruntime": onnx_session.installed_version() if onnx_session.works() else "",
                "engine": engine.__version__,
            } | ({"passes": "captured"} if self.target.runner.captured else {})

            def measure() -> CostModel:
                step = "Calibrating: what scoring several tokens at once costs on this device"
                if has_model:
                    step = f"Calibrating {method_of(method).title}: what its drafts cost on this device"
                report = self.models.progress
                return calibration.measure(self.target.runner, drafter, progress=lambda f: report(f, step))

            costs = calibration.cached_costs(cache_root() / "calibration", key, measure, again)
            if has_model:
                costs = calibration.with_draft(self.costs("none", again, retry), costs)
            self._costs[method] = costs
            self._calibrations[method] = tries + 1
            self._measured_lately.add(method)
        return self._costs[method]

    def run(self, config: RunConfig, cancelled: Callable[[], bool] = lambda: False, **options) -> Iterator[Event]:
        """Yields RunStarted, Rounds, RunFinished. ``options`` are passed to `prepare`. Raises BadInput and
        Unavailable."""
        with memory_errors(f"This request does not fit into the memory of {self.device}"):
            yield from alone(self.prepare(config, cancelled, **options).steps())

    def prepare(
        self,
        config: RunConfig,
        cancelled: Callable[[], bool] = lambda: False,
        *,
        gammas: Sequence[int] | None = None,
        rules: Rules = TRUE_RULES,
        stop_at_eos: bool = True,
        costs: CostModel | None = None,
        own_cache: bool = False,
        drafts_first: bool = False,
        keeps_prompt: bool = False,
    ) -> PreparedRun:
        """Sets a request up, with everything it needs loaded. ``own_cache``: beside others in a batch it has caches of
        its own. ``keeps_prompt``: takes the beginning of its text from earlier runs and keeps it for later ones, so
        its prompt's own time says little. ``gammas``: the draft lengths of a recorded run, to repeat it with
        `ReplayedGamma`. For experiments: other ``rules``; ``drafts_first`` drafts for the first token, too;
        ``stop_at_eos`` False ignores end-of-text tokens; ``costs`` instead of those measured (with the draft_costs of
        all drafters for method auto). Raises BadInput and Unavailable."""
        self._check_is_loaded(config)
        if config.method != "none":
            self.models.check_bits()
        reader = grammar_reader(self.grammars, config)
        prompt = encode_prompt(self.target.tokenizer, config)
        _check_ids(self.target, prompt)
        _check_length(self.target, self.pair.target.name, len(prompt), config)
        fork = self.target.runner.fork() if own_cache else None
        drafters, its_costs = self._drafters(config, len(prompt), fork, costs)
        decoding = SpeculativeDecoder(
            config=config,
            prompt=prompt,
            target=fork or self.target.runner,
            drafters=drafters,
            gamma_policy=_gamma_policy(config, drafters, its_costs, gammas, self.pair.name),
            eos_ids=self.target.eos if stop_at_eos else frozenset(),
            recorder=TraceRecorder(config, self.target.tokenizer),
            cancelled=cancelled,
            rules=rules,
            copy_from=template_length(self.target.tokenizer, config, prompt),
            reader=reader,
            drafts_first=drafts_first or gammas is not None,
            prompts=self.prompts if keeps_prompt else None,
        )
        self._ready.add(config.method)
        self._measured_lately.clear()
        return PreparedRun(self, decoding, its_costs, versions())

    def _check_is_loaded(self, config: RunConfig) -> None:
        """Raises BadInput for a request that names another pair or precision, because this engine has loaded one."""
        is_another_pair = config.pair != self.pair.name and get_pair(config.pair).name != self.pair.name
        if is_another_pair or config.precision not in (self.precision, AUTO):
            request, loaded = (config.pair, self.pair.name) if is_another_pair else (config.precision, self.precision)
            raise BadInput(f"The request is for {request}, but this engine has loaded {loaded}; load an engine for it.")

    def _drafters(
        self, config: RunConfig, prompt: int, fork: Runner | None, costs: CostModel | None
    ) -> tuple[list[Drafter], CostModel]:
        """Returns the drafters for a run of this config, and their costs where none are given."""
        method, is_greedy, retry = config.method, config.sampling.greedy, fork is None
        if method != AUTO:
            drafter = self.drafts.drafter(method, is_greedy, fork)
            costs = costs or self.costs(method, retry=retry)
            spec = self.pair.draft(method)
            if spec and method not in self.drafts.translations:  # a translated one drafts for as long as it can
                _check_length(self.drafts.load(method), spec.name, prompt, config)
            return [drafter], costs
        hopeless = self._hopeless(config.sampling) if costs is None else frozenset()
        length, is_constrained = prompt + config.max_new_tokens, config.constraint is not None
        members = self.drafts.competitors(length, is_constrained, hopeless)
        drafters = [self.drafts.drafter(name, is_greedy, fork) for name in members]
        if costs is None:  # the one v of their target, and c and the pace of each
            # The drafts that are too short for this run are calibrated, too, because a shorter run may join it.
            names = dict.fromkeys((*members, *self.drafts.competitors(hopeless=hopeless)))
            c = {name: self.costs(name, retry=retry).c for name in names}
            draft_costs = {name: c[name] for name in members}
            paces = {name: pace for name, pace in self.clocks[is_greedy].paces.items() if name in members}
            costs = replace(self.costs("none", retry=retry), draft_costs=draft_costs, paces=paces)
        return drafters, costs

    def _hopeless(self, sampling: SamplingParams) -> frozenset[str]:
        """Returns the methods that auto does without here, which are not loaded for it."""
        if self._known_c is None:
            target, where = self.models.hashes[self.target.folder].split("-")[0], cache_root() / "calibration"
            self._known_c = calibration.known_draft_costs(where, device_name(self.device), target, self.precision)
        c = self._known_c | {name: costs.c for name, costs in self._costs.items()}
        costs = replace(self.costs("none", retry=False), draft_costs=c, paces=self.clocks[sampling.greedy].paces)
        return without_a_chance(known_acceptance(self.pair.name, sampling.temperature), costs)

    def close(self) -> None:
        """Releases all memory, even if other objects still refer to this one."""
        self.models.close(self.drafts.release())


def _check_ids(target: LoadedModel, prompt: Sequence[int]) -> None:
    """Raises BadInput for a token of the prompt that the model has no embedding for."""
    if (largest := max(prompt)) >= target.runner.vocab_size:
        name = target.tokenizer.convert_ids_to_tokens(largest)
        raise BadInput(
            f"The prompt has the token {name!r}, number {largest}, but the model has only "
            f"{target.runner.vocab_size:,} tokens, so its tokenizer is of another model; leave that text out, or "
            "put the model's own tokenizer into its folder."
        )


def _check_length(model: LoadedModel, name: str, prompt: int, config: RunConfig) -> None:
    limit = model.runner.max_length
    if prompt + config.max_new_tokens > limit:
        raise BadInput(
            f"The prompt has {quantity(prompt, 'token')}; with up to {config.max_new_tokens} new ones that is too "
            f"many, because {name} attends to {limit}; shorten the prompt or ask for fewer new tokens."
        )


def _gamma_policy(
    config: RunConfig, drafters: Sequence[Drafter], costs: CostModel, gammas: Sequence[int | tuple] | None, pair: str
) -> GammaPolicy:
    if gammas is not None:
        return ReplayedGamma(gammas)
    gamma = None if isinstance(config.gamma, str) else config.gamma
    if config.method == AUTO:
        rate, known = Rate(), known_acceptance(pair, config.sampling.temperature)
        members = {}
        for drafter in drafters:
            name, priors = drafter.name, drafter.priors
            if own := known.get(name):
                priors = priors | {PER_TOKEN: sum(own.values()) / len(own)}
            at_once = method_of(name).drafts_at_once
            members[name] = AdaptiveGamma(*costs.costs_of(name), priors, rate=rate, at_once=at_once)
        return DrafterChoice(members, rate, gamma)
    if gamma is None:
        return AdaptiveGamma(costs.c, costs.v, drafters[0].priors, at_once=method_of(config.method).drafts_at_once)
    return FixedGamma(gamma)


def versions() -> dict[str, str]:
    """Lists the versions that a measurement depends on."""
    return {
        "speclens": engine.__version__, "torch": torch.__version__, "transformers": transformers.__version__,
        "onnxruntime": onnx_session.installed_version(), "python": platform.python_version(),
    }  # fmt: skip


def load_engine(
    pair: str | PairSpec, device: str = AUTO, precision: str = AUTO, progress: ProgressCallback | None = None
) -> Engine:
    """Loads a pair's target. Raises Unavailable before loading if the pair cannot run here."""
    spec, device = get_pair(pair) if isinstance(pair, str) else pair, choose_device(device)
    precision = choose_precision(precision, device, spec.target)
    problems = check_pair(spec, None, device, precision)
    if problems:
        raise Unavailable(" ".join(problems))
    loaded = Engine(spec, device, precision, progress)
    gc.collect()
    gc.freeze()  # otherwise a collection in mid-run walks all of torch's and the tokenizer's objects, for 0.1 s
    return loaded

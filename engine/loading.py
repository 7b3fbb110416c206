"""From a pair's name to an Engine that runs requests. The only file that knows every part."""

import gc
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

import torch
import transformers

import engine
from engine import calibrate
from engine.adaptive import AutoGamma, FixedGamma, PinnedGamma
from engine.catalogue import (
    MODEL_FREE,
    ModelSpec,
    PairSpec,
    available_memory,
    check_pair,
    compare_tokenizers,
    get_pair,
    gigabytes,
    methods,
)
from engine.config import AUTO, RunConfig
from engine.decode import TRUE_RULES, Decoding, Rules
from engine.drafters.base import Drafter
from engine.drafters.eagle import EagleDrafter
from engine.drafters.lm import LmDrafter
from engine.drafters.ngram import NgramDrafter, usual_places
from engine.drafters.none import NoDrafter
from engine.eagle import EagleModel
from engine.errors import BadInput, Unavailable
from engine.events import CostModel, Event, PromptToken, RunFinished, RunStarted
from engine.fetch import cache_root, locate, weights_hash
from engine.memory import peak_memory, reset_peak
from engine.models import (
    PRECISIONS,
    Model,
    choose_device,
    choose_precision,
    device_name,
    load_model,
    memory_in_words,
)
from engine.pretrained import load_tokenizer
from engine.recorder import Recorder
from engine.runner import DecoderRunner
from engine.text import Detokenizer, encode_prompt
from engine.theory import expected_speedup

__all__ = ["DRAFTERS", "PRECISIONS", "Engine", "device_name", "load_engine"]

Progress = Callable[[float, str], None]

_USUAL_ALPHA = 0.6  # of a draft model nobody has measured with its target yet
_LONGEST = 16
_CALIBRATIONS = 3  # at most so many on a machine that stays busy: each takes seconds

# A method without a draft model is made by calling its class; one with a draft gets that model's runner, and a head
# the target's as well.
DRAFTERS = {"none": NoDrafter, "ngram": NgramDrafter, "lm": LmDrafter, "eagle": EagleDrafter}


class Engine:
    """One pair on one device. Drafts are loaded when a method first needs them. Not thread-safe: one thread owns it."""

    def __init__(self, pair: PairSpec, device: str, precision: str, progress: Progress | None = None):
        self.pair, self.device, self.precision = pair, device, precision
        self._progress = progress or (lambda fraction, message: None)
        self.target = self._load(pair.target, "the target")
        self._drafts: dict[str, Model] = {}
        self._drafters: dict[str, Drafter] = {}
        self._costs: dict[str, CostModel] = {}
        self._calibrations: dict[str, int] = {}  # how often each was measured

    def _places(self, method: str) -> list[tuple[float, list[float]]]:
        """What texts are like for a method: (share of the tokens, α by depth), as counted when it was made."""
        if method in MODEL_FREE:
            return usual_places(_LONGEST)
        return [(1.0, [self.pair.drafts[method].alpha or _USUAL_ALPHA] * _LONGEST)]

    def on_progress(self, progress: Progress) -> None:
        """Who is told from now on what loading and calibrating are up to."""
        self._progress = progress

    def _folder(self, spec: ModelSpec) -> Path:
        folder = locate(spec)
        if folder is None:
            raise Unavailable(
                f"The weights of {spec.name} are not here yet; run `python -m engine fetch {self.pair.name}` first."
            )
        return folder

    def _load(self, spec: ModelSpec, what: str, quantised: bool = False) -> Model:
        folder, say = self._folder(spec), f"Loading {what}, {spec.name}"
        self._progress(0.0, say)
        return load_model(folder, self.device, self.precision, lambda share: self._progress(share, say), quantised)

    def has(self, method: str) -> bool:
        """Whether everything the method needs is loaded."""
        needed = self.pair.drafts if method == AUTO else {method} & self.pair.drafts.keys()
        return all(name in self._drafts for name in needed)

    def fastest(self) -> str:
        """The method with the highest idealised speedup on this device: costs as calibrated here, α as seen before.

        All share the target, and so one v: that of the calibration whose plain step was disturbed least.
        """
        costs = {}
        for method in methods(self.pair):
            if method != "none":
                with suppress(Unavailable):  # a draft that cannot be had here cannot be the fastest
                    costs[method] = self.costs(method)
        v = min(costs.values(), key=lambda each: each.step).v
        found = {"none": 1.0} | {m: expected_speedup(self._places(m), each.c, v) for m, each in costs.items()}
        return max(found, key=found.get)

    def drafter(self, method: str) -> Drafter:
        """The pair's drafter for a method. BadInput for an unknown one, Unavailable for a draft that does not fit."""
        offered = methods(self.pair)
        if method not in offered:
            known = method in DRAFTERS
            said = f"{self.pair.name} has no {method!r} draft" if known else f"{method[:40]!r} is not a method"
            raise BadInput(f"{said}; choose from {', '.join(offered)}.")
        if method not in self._drafters:
            if method in MODEL_FREE:
                self._drafters[method] = DRAFTERS[method]()
            else:
                also = [self.target.runner] if self.pair.drafts[method].head else []
                self._drafters[method] = DRAFTERS[method](self._draft(method).runner, *also)
        return self._drafters[method]

    def _draft(self, method: str) -> Model:
        """The draft model, whose tokenizer and size are looked at before its weights."""
        if method not in self._drafts:
            spec = self.pair.drafts[method]
            if not spec.head:
                problem, _ = compare_tokenizers(self.target.tokenizer, load_tokenizer(self._folder(spec)))
                if problem:
                    raise Unavailable(problem)
            needed, free = spec.memory(self.precision), available_memory(self.device)
            if free is not None and needed > free:
                raise Unavailable(
                    f"The draft {spec.name} needs about {gigabytes(needed)} beside the target, but {self.device} has "
                    f"{gigabytes(free)} free; choose another method or a smaller pair."
                )
            # Only a draft whose α was counted in 8 bits runs in them: an outlier can ruin another model's guesses.
            counted = spec.alpha is not None
            self._drafts[method] = self._load_head(spec) if spec.head else self._load(spec, "the draft", counted)
        return self._drafts[method]

    def _load_head(self, spec: ModelSpec) -> Model:
        target = self.target
        if not isinstance(target.runner, DecoderRunner):
            raise Unavailable(f"{spec.name} reads hidden states, which only our own decoder gives; use another method.")
        self._progress(0.0, f"Loading {spec.name}")
        with torch.inference_mode():
            head = EagleModel(self._folder(spec), target.runner.model)
        target.runner.tap(head.reads)
        return Model(DecoderRunner(head), target.tokenizer, target.eos, weights_hash(spec.folder), spec.folder)

    def costs(self, method: str, again: bool = False) -> CostModel:
        """c and v(W) for a method on this device, from the calibration cache where it has them.

        Costs taken while the machine was busy are measured again at the next runs, a few times.
        """
        known, tries = self._costs.get(method), self._calibrations.get(method, 0)
        if again or known is None or (not known.steady and tries < _CALIBRATIONS):
            drafter = None if method in MODEL_FREE else self.drafter(method)
            key = {
                "device": device_name(self.device),
                "precision": self.precision,
                "weights": self.weights(method),
                "threads": torch.get_num_threads(),
                "torch": torch.__version__,
                "engine": engine.__version__,
            }

            def measure() -> CostModel:
                say = "Calibrating: what scoring several tokens at once costs on this device"
                return calibrate.measure(self.target.runner, drafter, progress=lambda f: self._progress(f, say))

            self._costs[method] = calibrate.cached(cache_root() / "calibration", key, measure, again)
            self._calibrations[method] = tries + 1
        return self._costs[method]

    def weights(self, method: str) -> dict[str, str]:
        hashes = {"target": self.target.hash}
        if method in self._drafts:
            hashes["draft"] = self._drafts[method].hash
        return hashes

    def run(
        self,
        config: RunConfig,
        cancelled: Callable[[], bool] = lambda: False,
        gammas: Sequence[int] | None = None,
        rules: Rules = TRUE_RULES,
        ends: bool = True,
    ) -> Iterator[Event]:
        """RunStarted, Rounds, RunFinished. ``gammas`` pins the γ of each round, to repeat a recorded run. For
        experiments: other ``rules``, and no stop at an end-of-text token where not ``ends``."""
        with memory_in_words(f"This request does not fit into the memory of {self.device}"):
            yield from self._run(config, cancelled, gammas, rules, ends)

    def _run(self, config: RunConfig, cancelled, gammas, rules: Rules, ends: bool) -> Iterator[Event]:
        if config.method == AUTO:
            config = replace(config, method=self.fastest())
        prompt = encode_prompt(self.target.tokenizer, config)
        self._check_length(self.target, self.pair.target.name, len(prompt), config)
        drafter = self.drafter(config.method)
        if config.method in self._drafts:
            self._check_length(self._draft(config.method), self.pair.drafts[config.method].name, len(prompt), config)
        costs = self.costs(config.method)
        reset_peak(self.device)
        yield self._started(config, prompt, costs)
        decoding = Decoding(
            config, prompt, self.target.runner, drafter, self._chooser(config, drafter, costs, gammas),
            self.target.eos if ends else frozenset(), Recorder(config, self.target.tokenizer), cancelled, rules,
        )  # fmt: skip
        first = last = None
        for round_ in decoding.rounds():
            first, last = first or round_, round_
            yield round_
        yield RunFinished(
            reason=decoding.reason,
            text=_before_stop(decoding.text, config.stop),
            prefill=decoding.prefill_seconds,
            ttft=first.end if first else 0.0,
            decode_seconds=last.end - first.start if first else 0.0,
            seconds=last.end if last else time.perf_counter() - decoding.started,
            peak_memory=peak_memory(self.device),
        )

    @staticmethod
    def _check_length(model: Model, name: str, prompt: int, config: RunConfig) -> None:
        limit = model.runner.max_length
        if prompt + config.max_new_tokens > limit:
            raise BadInput(
                f"The prompt has {prompt} tokens and up to {config.max_new_tokens} new ones are asked for, but "
                f"{name} attends to {limit}; shorten the prompt or ask for fewer new tokens."
            )

    def _chooser(self, config: RunConfig, drafter: Drafter, costs: CostModel, gammas):
        if gammas is not None:
            return PinnedGamma(gammas)
        if config.gamma == AUTO:
            return AutoGamma(costs.c, costs.v, drafter.priors, drafter.deeper)
        return FixedGamma(config.gamma)

    def _started(self, config: RunConfig, prompt: list[int], costs: CostModel) -> RunStarted:
        detokenizer = Detokenizer(self.target.tokenizer)
        return RunStarted(
            config=asdict(config) | {"stop": list(config.stop)},
            prompt=tuple(PromptToken(i, detokenizer.name(i)) for i in prompt),
            pair=self.pair.name,
            revision=self.pair.target.revision or "",
            weights=self.weights(config.method),
            device=device_name(self.device),
            dtype=self.precision,
            versions={
                "speclens": engine.__version__,
                "torch": torch.__version__,
                "transformers": transformers.__version__,
                "python": platform.python_version(),
            },
            costs=costs,
            at=datetime.now(UTC).isoformat(timespec="seconds"),
        )

    def close(self) -> None:
        """Gives all memory back, whoever still holds this object."""
        for model in (self.target, *self._drafts.values()):
            model.runner.close()
            model.runner = None
        self._drafts, self._drafters = {}, {}
        gc.collect()  # transformers' modules refer to themselves
        if torch.device(self.device).type == "cuda":
            torch.cuda.empty_cache()


def _before_stop(text: str, stops: Sequence[str]) -> str:
    ends = [at for at in (text.find(s) for s in stops) if at >= 0]
    return text[: min(ends)] if ends else text


def load_engine(pair: str, device: str = AUTO, precision: str = AUTO, progress: Progress | None = None) -> Engine:
    """Load a pair's target. The pair check speaks before anything is loaded."""
    spec, device = get_pair(pair), choose_device(device)
    precision = choose_precision(precision, device)
    problems = check_pair(spec, None, device, precision)
    if problems:
        raise Unavailable(" ".join(problems))
    return Engine(spec, device, precision, progress)

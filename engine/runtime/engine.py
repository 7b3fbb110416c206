"""Loads a pair of models and runs requests on it: the only file that knows every part of the engine."""

import gc
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

import torch
import transformers

import engine
from engine.config import AUTO, METHODS, RunConfig, draft_of, drafts_at_once, runs_model
from engine.decoding.batch import Steps, alone
from engine.decoding.draft_length import AdaptiveGamma, FixedGamma, Rate, ReplayedGamma
from engine.decoding.drafter_choice import DrafterChoice
from engine.decoding.loop import TRUE_RULES, Rules, SpeculativeDecoder
from engine.decoding.tokenization import Detokenizer, encode_prompt, template_length
from engine.decoding.trace_recorder import TraceRecorder
from engine.device import peak_memory, reset_peak, return_memory
from engine.drafters import drafter_class
from engine.drafters.base import Drafter
from engine.drafters.context_index import ContextIndex
from engine.drafters.hybrid import HybridDrafter
from engine.drafters.translated import TranslatedDrafter
from engine.errors import BadInput, Unavailable
from engine.files import cache_root, gigabytes, sha256
from engine.models import onnx_session
from engine.models.heads import load_head
from engine.models.loader import (
    PRECISIONS,
    ROUNDED,
    LoadedModel,
    choose_device,
    choose_precision,
    device_name,
    load_model,
    memory_errors,
    runs_in_onnx,
)
from engine.models.runner import DecoderRunner, Runner
from engine.models.transformers_config import load_tokenizer
from engine.models.translation import Translation
from engine.runtime import calibration
from engine.trace.events import CostModel, Event, ProgressCallback, PromptToken, RunFinished, RunStarted, Translated
from engine.trace.speedup_model import best_batch
from engine.weights import corpus_file
from engine.weights.catalogue import get_pair
from engine.weights.checkpoint_dir import GGUF, weights_hash
from engine.weights.preflight import available_memory, check_pair, translates
from engine.weights.specs import ModelSpec, PairSpec, methods
from engine.weights.store import locate
from engine.weights.vocabulary import Vocabulary, needs_translation

__all__ = ["PRECISIONS", "Engine", "device_name", "drafter_class", "load_engine"]


PLAIN = dict.fromkeys(ROUNDED, "fp32")  # of a draft whose α was not measured rounded
_CALIBRATIONS = 3  # attempts on a machine that stays busy, because each takes seconds


def onnx_problem() -> str | None:
    """Why ONNX Runtime cannot compute passes on this machine's CPU; None where it can."""
    return onnx_session.problem()


class Engine:
    """One pair on one device. Drafts are loaded when a method first needs them. Not thread-safe: one thread owns it."""

    def __init__(self, pair: PairSpec, device: str, precision: str, progress: ProgressCallback | None = None):
        self.pair, self.device, self.precision = pair, device, precision
        self._progress = progress or (lambda fraction, message: None)
        self._hashes: dict[Path, str] = {}  # of the weights in each loaded folder
        self.target = self._load(pair.target, "the target")
        self._share_cores()
        self._drafts: dict[str, LoadedModel] = {}
        self._drafters: dict[str, Drafter] = {}
        self._translations: dict[str, Translation] = {}  # of the methods whose draft has another tokenizer
        self._parts_of: dict[str, tuple] = {}  # what each of them was constructed with
        self._corpus_hash = ""
        self._unusable: set[str] = set()  # methods that auto goes without
        self._ready: set[str] = set()
        self._has_competed = False
        self._costs: dict[str, CostModel] = {}
        self._calibrations: dict[str, int] = {}  # how often each was measured

    def on_progress(self, progress: ProgressCallback) -> None:
        """Sets the callback for the progress of loading and calibrating."""
        self._progress = progress

    @property
    def methods(self) -> tuple[str, ...]:
        """The pair's drafting methods, the baseline first."""
        return methods(self.pair)

    @property
    def gguf(self) -> Path | None:
        """The file that the target was read from, where it is a GGUF file."""
        file = self.target.folder / GGUF
        return file if file.is_file() else None

    def folder(self, spec: ModelSpec) -> Path:
        """The folder of a model's weights. Raises Unavailable if they are not on this machine."""
        folder = locate(spec)
        if folder is None:
            raise Unavailable(
                f"The weights of {spec.name} are not here yet; run `python -m engine fetch {self.pair.name}` first."
            )
        return folder

    def _load(self, spec: ModelSpec, what: str, precision: str = "") -> LoadedModel:
        """Loads a model: the target in the engine's precision, a draft in its own ``precision``."""
        folder, step = self.folder(spec), f"Loading {what}, {spec.name}"
        self._progress(0.0, step)
        report = lambda share: self._progress(share, step)  # noqa: E731
        model = load_model(folder, self.device, precision or self.precision, report)
        if not precision:
            self._hashes[folder] = weights_hash(folder) + self._rounding(model.runner)
        self._hashes.setdefault(folder, weights_hash(folder))  # not of a copy of the target
        return model

    def _share_cores(self) -> None:
        """After a load: torch has the cores where it computes the target."""
        return_memory()
        if torch.device(self.device).type == "cpu":
            onnx_session.share_cores(self._runs_in_onnx)

    @property
    def _runs_in_onnx(self) -> bool:
        """Whether ONNX Runtime computes the target's passes."""
        runner = self.target.runner
        return isinstance(runner, DecoderRunner) and runner.model.on_host

    def _check_bits(self, method: str) -> None:
        """Raises Unavailable for drafts that a rounded target would score with other bits than a plain step."""
        is_rounded = self.precision in ROUNDED and self._runs_in_onnx
        if method != "none" and is_rounded and not self.target.runner.model.same_bits:
            raise Unavailable(
                f"On this processor a pass over drafts gives an {self.precision} target other numbers than plain "
                "steps, so drafting would change its text; choose fp32, or the method none."
            )

    def _rounding(self, runner: DecoderRunner) -> str:
        """What the hash of rounded weights ends with: they are another model, and so are products that round nothing
        else."""
        if self.precision not in ROUNDED:
            return ""
        return f"-{self.precision}" + ("" if runner.model.on_host else "-dense")

    def translates(self, method: str) -> bool:
        """Whether the method's draft has another tokenizer."""
        return translates(self.pair, method)

    def has(self, method: str) -> bool:
        """Whether everything the method needs is loaded."""
        if method == AUTO:
            return self._has_competed
        return draft_of(method) in self._drafts or self.pair.draft(method) is None

    def drafter(self, method: str, target: Runner | None = None) -> Drafter:
        """The method's drafter; for a fork of the target's runner a new one, with caches of its own. Raises BadInput
        for an unknown method, Unavailable if its draft cannot run here."""
        offered = self.methods
        if method not in offered:
            known = method in METHODS
            reason = f"{self.pair.name} has no {method!r} draft" if known else f"{method[:40]!r} is not a method"
            raise BadInput(f"{reason}; choose from {', '.join(offered)}.")
        if method not in self._drafters:
            self._parts_of[method] = self._parts(method)
            self._drafters[method] = self._class_of(method)(*self._parts_of[method])
        if target is None:
            return self._drafters[method]
        shared = {id(self.target.runner): target}
        own = (shared.get(id(part)) or part.fork() for part in self._parts_of[method])
        return self._class_of(method)(*own)

    def _class_of(self, method: str) -> type[Drafter]:
        return TranslatedDrafter if method in self._translations else drafter_class(method)

    def _parts(self, method: str) -> tuple:
        """What the method's drafter is constructed with."""
        match METHODS[method].needs:
            case "nothing":
                return ()
            case "corpus":
                return (self._corpus(),)
            case "draft model":
                runner, translation = self._draft(method).runner, self._translations.get(method)
                return (runner, translation) if translation else (runner,)
            case "head" | "parallel heads" | "exit head":
                return self._draft(method).runner, self.target.runner
            case "copy":
                return self._copy(), self.target.runner
            case "window":
                self._check_trees()
                return ()

    def _check_trees(self) -> None:
        """Raises Unavailable for a target that runs chains only."""
        if not self.target.runner.trees:
            raise Unavailable(
                f"Lookahead scores a tree, which this target in {self.precision} cannot; choose another precision, or "
                "another method."
            )

    def _corpus(self) -> ContextIndex:
        file = self.pair.corpus
        index = ContextIndex(corpus_file.load(file, self.target.tokenizer))
        self._corpus_hash = sha256(file)
        return index

    def _draft(self, method: str) -> LoadedModel:
        """The draft model, loaded on first use. Raises Unavailable if its tokenizer or size does not fit."""
        method = draft_of(method)
        if method not in self._drafts:
            spec = self.pair.drafts[method]
            translation = None if spec.head else self._translation(load_tokenizer(self.folder(spec)))
            # Only a draft whose α was measured in 8 bits runs in 8 bits, because outliers can ruin another model's
            # guesses.
            can_round = spec.alpha is not None and runs_in_onnx(self.device, "int8")
            precision = "int8" if can_round else PLAIN.get(self.precision, self.precision)
            self._check_memory(f"The draft {spec.name}", spec.memory(precision))
            draft = self._load_head(spec) if spec.head else self._load(spec, "the draft", precision)
            self._drafts[method] = draft
            self._share_cores()
            if translation:
                self._translations[method] = translation
        return self._drafts[method]

    def _translation(self, tokenizer) -> Translation | None:
        """None for the target's own tokenizer. Raises Unavailable for one that has nothing in common with it."""
        own = self.target.tokenizer
        is_needed = needs_translation(Vocabulary.of(own), Vocabulary.of(tokenizer))
        return Translation(own, tokenizer) if is_needed else None

    def _copy(self) -> DecoderRunner:
        """The target in int4, loaded on first use. Raises Unavailable where it would not be faster than the target."""
        if self.precision != "fp32" or not isinstance(self.target.runner, DecoderRunner):
            raise Unavailable(
                f"An int4 copy drafts for a target in fp32 on our own decoder, not in {self.precision}; use another "
                "method."
            )
        if not self._runs_in_onnx:
            reason = onnx_session.problem() or "Use another method."
            raise Unavailable(f"An int4 copy is quicker than its target only where ONNX Runtime runs both. {reason}")
        self._check_memory("An int4 copy", self.pair.target.weight_bytes("int4"))
        return self._load(self.pair.target, "the target's int4 copy", "int4").runner

    def _check_memory(self, what: str, needed: int) -> None:
        free = available_memory(self.device)
        if free is not None and needed > free:
            raise Unavailable(
                f"{what} needs about {gigabytes(needed)} beside the target, but {self.device} has {gigabytes(free)} "
                "free; choose another method or a smaller pair."
            )

    def _load_head(self, spec: ModelSpec) -> LoadedModel:
        target, folder = self.target, self.folder(spec)
        if not isinstance(target.runner, DecoderRunner):
            raise Unavailable(f"{spec.name} reads hidden states, which only our own decoder gives; use another method.")
        self._progress(0.0, f"Loading {spec.name}")
        model = target.runner.model
        with torch.inference_mode():
            head, reads = _head(spec.head, folder, target.runner)
        target.runner.tap(sorted({*model.taps, *reads}))
        self._hashes[folder] = weights_hash(folder)
        return LoadedModel(head, target.tokenizer, target.eos, folder)

    def usable(self, *needs: str) -> dict[str, Drafter]:
        """The drafters that can be loaded here: all, or those of methods with one of these ``needs``; of several with
        the same weights the first."""
        drafters = {}
        for method in self.methods:
            is_candidate = method != "none" and draft_of(method) == method
            if is_candidate and (not needs or METHODS[method].needs in needs) and method not in self._unusable:
                try:
                    drafters[method] = self.drafter(method)
                except (BadInput, Unavailable):
                    self._unusable.add(method)  # it is not loaded again at every run
        return drafters

    def competitors(self, length: int = 0) -> dict[str, Drafter]:
        """The drafters of method auto, those that attend to ``length`` tokens. Beside a head only lookup in the text
        itself competes: over 48 prompts these two came to 1.84 ×, and with all others to 1.75 ×."""
        drafters = self.usable("nothing") | (self.usable("head") or self.usable("corpus", "draft model", "copy"))
        self._has_competed = True
        short = {name for name, draft in self._drafts.items() if draft.runner.max_length < length}
        return {name: drafter for name, drafter in drafters.items() if name not in short}

    def _shared_costs(self, methods: Iterable[str], retry: bool) -> CostModel:
        """Of drafters that compete: the one v of their target, and c of each."""
        draft_costs = {method: self.costs(method, retry=retry).c for method in methods}
        return replace(self.costs("none", retry=retry), draft_costs=draft_costs)

    def is_ready(self, method: str) -> bool:
        """Whether a run of it has been set up before, so that another needs nothing loaded or measured."""
        return method in self._ready

    def best_batch(self) -> int:
        """How many runs should share the passes on this device."""
        return best_batch(self.costs("none").v)

    def costs(self, method: str, again: bool = False, retry: bool = True) -> CostModel:
        """c and v(W) of a method on this device, from the calibration cache or measured now. All methods share v, which
        is measured without a draft.

        Costs measured on a busy machine are measured again at the next runs, a few times; ``again`` forces it, and
        without ``retry`` they stay.
        """
        has_model = runs_model(method)
        method = method if has_model else "none"
        known, tries = self._costs.get(method), self._calibrations.get(method, 0)
        if again or known is None or (retry and not known.steady and tries < _CALIBRATIONS):
            drafter = self.drafter(method) if has_model else None
            key = {
                "drafter": method if has_model else "",
                "device": device_name(self.device),
                "precision": self.precision,
                "weights": self.weights(method),
                "threads": onnx_session.threads(),
                "torch": torch.__version__,
                "onnxruntime": onnx_session.installed() if onnx_session.works() else "",
                "engine": engine.__version__,
            }

            def measure() -> CostModel:
                step = "Calibrating: what scoring several tokens at once costs on this device"
                return calibration.measure(self.target.runner, drafter, progress=lambda f: self._progress(f, step))

            costs = calibration.cached(cache_root() / "calibration", key, measure, again)
            if has_model:
                costs = calibration.with_draft(self.costs("none", again), costs)
            self._costs[method] = costs
            self._calibrations[method] = tries + 1
        return self._costs[method]

    def weights(self, method: str) -> dict[str, str]:
        """Hashes of the loaded weights: of the target, and of the method's draft or corpus if it has one; auto has them
        all."""
        hashes = {"target": self._hashes[self.target.folder]}
        if method == AUTO:
            hashes |= {name: self._hashes[draft.folder] for name, draft in self._drafts.items()}
        elif draft_of(method) in self._drafts:
            hashes["draft"] = self._hashes[self._drafts[draft_of(method)].folder]
        if method in ("corpus", AUTO) and "corpus" in self._drafters:
            hashes["corpus"] = self._corpus_hash
        return hashes

    def run(
        self,
        config: RunConfig,
        cancelled: Callable[[], bool] = lambda: False,
        gammas: Sequence[int] | None = None,
        rules: Rules = TRUE_RULES,
        stop_at_eos: bool = True,
        costs: CostModel | None = None,
    ) -> Iterator[Event]:
        """Yields RunStarted, Rounds, RunFinished. ``gammas``: those of `ReplayedGamma`, to repeat a recorded run.
        For experiments: other ``rules``; ``stop_at_eos`` False ignores end-of-text tokens; ``costs`` instead of those
        measured (with the draft_costs of all drafters for method auto). Raises BadInput and Unavailable."""
        with memory_errors(f"This request does not fit into the memory of {self.device}"):
            decoding, costs = self.decoder(config, cancelled, gammas, rules, stop_at_eos, costs)
            yield from alone(self.steps(decoding, costs))

    def decoder(
        self, config: RunConfig, cancelled: Callable[[], bool], gammas: Sequence[int] | None = None,
        rules: Rules = TRUE_RULES, stop_at_eos: bool = True, costs: CostModel | None = None, is_row: bool = False,
    ) -> tuple[SpeculativeDecoder, CostModel]:  # fmt: skip
        """Sets a request up, with everything it needs loaded; arguments as for `run`. Beside others in a batch
        (``is_row``) it has caches of its own."""
        self._check_bits(config.method)
        prompt, target = encode_prompt(self.target.tokenizer, config), self.target.runner
        self._check_length(self.target, self.pair.target.name, len(prompt), config)
        row = target.fork() if is_row else None
        if config.method == AUTO:
            members = self.competitors(len(prompt) + config.max_new_tokens)
            drafter = HybridDrafter({name: self.drafter(name, row) for name in members})
            costs = costs or self._shared_costs(members, retry=not is_row)
        else:
            drafter, costs = self.drafter(config.method, row), costs or self.costs(config.method, retry=not is_row)
            spec = self.pair.draft(config.method)
            if spec and config.method not in self._translations:  # a translated one drafts for as long as it can
                self._check_length(self._draft(config.method), spec.name, len(prompt), config)
        decoding = SpeculativeDecoder(
            config=config,
            prompt=prompt,
            target=row or target,
            drafter=drafter,
            gamma_policy=self._gamma_policy(config, drafter, costs, gammas),
            eos_ids=self.target.eos if stop_at_eos else frozenset(),
            recorder=TraceRecorder(config, self.target.tokenizer),
            cancelled=cancelled,
            rules=rules,
            copy_from=template_length(self.target.tokenizer, config, prompt),
        )
        self._ready.add(config.method)
        return decoding, costs

    def steps(self, decoding: SpeculativeDecoder, costs: CostModel) -> Steps:
        """The request's events and passes, for a `Batch`."""
        config = decoding.config
        reset_peak(self.device)
        yield self._started(config, decoding.prompt, costs)
        yield from decoding.steps()
        first, last = decoding.first_round, decoding.last_round
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
    def _check_length(model: LoadedModel, name: str, prompt: int, config: RunConfig) -> None:
        limit = model.runner.max_length
        if prompt + config.max_new_tokens > limit:
            raise BadInput(
                f"The prompt has {prompt} tokens and up to {config.max_new_tokens} new ones are asked for, but "
                f"{name} attends to {limit}; shorten the prompt or ask for fewer new tokens."
            )

    def _gamma_policy(self, config: RunConfig, drafter: Drafter, costs: CostModel, gammas):
        if gammas is not None:
            return ReplayedGamma(gammas)
        if config.method == AUTO:
            rate = Rate()
            members = {
                name: AdaptiveGamma(costs.draft_costs[name], costs.v, member.priors, rate=rate)
                for name, member in drafter.members.items()
            }
            return DrafterChoice(members, rate, None if config.gamma == AUTO else config.gamma)
        if config.gamma == AUTO:
            return AdaptiveGamma(costs.c, costs.v, drafter.priors, at_once=drafts_at_once(config.method))
        return FixedGamma(config.gamma)

    def _started(self, config: RunConfig, prompt: list[int], costs: CostModel) -> RunStarted:
        detokenizer = Detokenizer(self.target.tokenizer)
        settings = asdict(config) | {"stop": list(config.stop)}
        del settings["prefix"]  # its tokens are in the trace itself
        return RunStarted(
            config=settings,
            prompt=tuple(PromptToken(i, detokenizer.name(i)) for i in prompt),
            pair=self.pair.name,
            revision=self.pair.target.revision or "",
            weights=self.weights(config.method),
            device=device_name(self.device),
            dtype=self.precision,
            versions=versions(),
            costs=costs,
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            prefix=tuple(self._prefix(config)),
            translated=self._translated(config),
            exit_layers=self._exit_layers(config.method),
            same_bits=getattr(getattr(self.target.runner, "model", None), "same_bits", None),
        )

    def _exit_layers(self, method: str) -> tuple[int, int] | None:
        if method != "exit":
            return None
        head = self.drafter(method).runner.model
        return head.exit_layer, head.target.layers_count

    def _translated(self, config: RunConfig) -> Translated | None:
        translation = self._translations.get("lm" if config.method == AUTO else config.method)
        if translation is None:
            return None
        sizes = (len(side.vocabulary.names) for side in (translation.target, translation.draft))
        return Translated("text" if config.sampling.greedy else "tokens", len(translation.common), *sizes)

    def _prefix(self, config: RunConfig) -> Iterator[PromptToken]:
        """The tokens that the output begins with, with the text that each adds."""
        detokenizer = Detokenizer(self.target.tokenizer)
        for token in config.prefix:
            piece = detokenizer.push(token)
            yield PromptToken(token, piece, detokenizer.label(token, piece))

    def close(self) -> None:
        """Releases all memory, even if other objects still refer to this one."""
        for model in (self.target, *self._drafts.values()):
            model.runner.close()
            model.runner = None
        self._drafts, self._drafters, self._parts_of, self._translations = {}, {}, {}, {}
        gc.unfreeze()
        gc.collect()  # transformers' modules refer to themselves
        return_memory()
        if torch.device(self.device).type == "cuda":
            torch.cuda.empty_cache()


def _head(kind: str, folder: Path, target: DecoderRunner):
    """What runs a head, and the layers of the target whose incoming states it reads."""
    head = load_head(kind, folder, target.model)
    if kind == "medusa":
        return head, head.reads
    if kind == "exit":  # its passes are captured beside the target's, because they use the same cache
        return DecoderRunner(head, target.graphs), ()
    return DecoderRunner(head), head.reads


def versions() -> dict[str, str]:
    """The versions that a measurement depends on."""
    return {
        "speclens": engine.__version__, "torch": torch.__version__, "transformers": transformers.__version__,
        "onnxruntime": onnx_session.installed(), "python": platform.python_version(),
    }  # fmt: skip


def _before_stop(text: str, stops: Sequence[str]) -> str:
    ends = [at for at in (text.find(s) for s in stops) if at >= 0]
    return text[: min(ends)] if ends else text


def load_engine(
    pair: str, device: str = AUTO, precision: str = AUTO, progress: ProgressCallback | None = None
) -> Engine:
    """Loads a pair's target. Raises Unavailable before loading if the pair cannot run here."""
    spec, device = get_pair(pair), choose_device(device)
    precision = choose_precision(precision, device)
    problems = check_pair(spec, None, device, precision)
    if problems:
        raise Unavailable(" ".join(problems))
    loaded = Engine(spec, device, precision, progress)
    gc.collect()
    gc.freeze()  # otherwise a collection in mid-run walks all of torch's and the tokenizer's objects, for 0.1 s
    return loaded

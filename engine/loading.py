"""From a pair's name to an Engine that runs requests. The only file that knows every part."""

import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
import transformers
from transformers import AutoConfig, AutoTokenizer, GenerationConfig

import engine
from engine import calibrate
from engine.adaptive import AutoGamma, FixedGamma, PinnedGamma
from engine.catalogue import PairSpec, check_pair, compare_tokenizers, get_pair, methods
from engine.config import AUTO, RunConfig
from engine.decode import Decoding
from engine.decoder import Decoder, unsupported
from engine.drafters.base import Drafter
from engine.drafters.lm import LmDrafter
from engine.drafters.ngram import NgramDrafter
from engine.drafters.none import NoDrafter
from engine.errors import BadInput, Unavailable
from engine.events import CostModel, Event, PromptToken, RunFinished, RunStarted
from engine.fetch import cache_root, locate, weights_hash
from engine.memory import peak_memory, reset_peak
from engine.recorder import Recorder
from engine.runner import DecoderRunner, Runner
from engine.text import Detokenizer, encode_prompt
from engine.universal import UniversalRunner

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
Progress = Callable[[float, str], None]

# A method without a draft model is made by calling its class; one with a draft gets that model's runner.
DRAFTERS = {"none": NoDrafter, "ngram": NgramDrafter, "lm": LmDrafter}
_MODEL_FREE = ("none", "ngram")


def default_device() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def choose_device(name: str = AUTO) -> str:
    """"auto" is cuda > mps > cpu. Unavailable if the device named is not here."""
    if name == AUTO:
        return default_device()
    try:
        torch.zeros(1, device=torch.device(name))
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise Unavailable(f"Device {name!r} cannot be used here; this machine offers {default_device()!r}.") from error
    return name


def choose_precision(name: str, device: str) -> str:
    """"auto" is bf16 on CUDA and fp32 elsewhere (bf16 without matrix units is slower than fp32)."""
    if name == AUTO:
        return "bf16" if torch.device(device).type == "cuda" else "fp32"
    if name not in PRECISIONS:
        raise BadInput(f"Unknown precision {name!r}; choose from {', '.join([AUTO, *PRECISIONS])}.")
    return name


def device_name(device: str) -> str:
    if torch.device(device).type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device} ({platform.machine()}, {torch.get_num_threads()} threads)"


@dataclass
class Model:
    """A loaded checkpoint: the runner, its tokenizer, the ids that end a text, a hash of the weights."""

    runner: Runner
    tokenizer: object
    eos: frozenset[int]
    hash: str
    folder: Path


def load_model(folder: Path, device: str, precision: str, progress: Callable[[float], None] | None = None) -> Model:
    """Our decoder where it knows the architecture, transformers otherwise. Unavailable with a reason in words."""
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise Unavailable(f"{folder} is no complete model folder: {str(error).splitlines()[0][:300]}") from error
    dtype = PRECISIONS[precision]
    try:
        if unsupported(config):
            runner = UniversalRunner(folder, dtype, device)
        else:
            with torch.inference_mode():
                runner = DecoderRunner(Decoder(folder, config, dtype, device, progress=progress))
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise _too_large(folder, device) from error
    except RuntimeError as error:
        if "allocate memory" in str(error) or "out of memory" in str(error).lower():
            raise _too_large(folder, device) from error
        raise
    return Model(runner, tokenizer, _eos_ids(folder, config, tokenizer), weights_hash(folder), folder)


def _too_large(folder: Path, device: str) -> Unavailable:
    return Unavailable(f"{folder.name} does not fit into the memory of {device}; choose a smaller pair or precision.")


def _eos_ids(folder: Path, config, tokenizer) -> frozenset[int]:
    """What transformers' generate stops at: the generation config's ids, else the config's, else the tokenizer's."""
    candidates = [getattr(config, "eos_token_id", None), tokenizer.eos_token_id]
    if (folder / "generation_config.json").exists():
        candidates.insert(0, GenerationConfig.from_pretrained(folder).eos_token_id)
    found = next((c for c in candidates if c is not None), None)
    return frozenset(found if isinstance(found, list) else [] if found is None else [found])


class Engine:
    """One pair on one device. Drafts are loaded when a method first needs them. Not thread-safe: one thread owns it."""

    def __init__(self, pair: PairSpec, device: str, precision: str, progress: Progress | None = None):
        self.pair, self.device, self.precision = pair, device, precision
        self._progress = progress or (lambda fraction, message: None)
        self.target = self._load(pair.target, "the target")
        self._drafts: dict[str, Model] = {}
        self._drafters: dict[str, Drafter] = {}
        self._costs: dict[str, CostModel] = {}

    def on_progress(self, progress: Progress) -> None:
        """Who is told from now on what loading and calibrating are up to."""
        self._progress = progress

    def _load(self, spec, what: str) -> Model:
        folder = locate(spec)
        if folder is None:
            raise Unavailable(
                f"The weights of {spec.name} are not here yet; run `python -m engine fetch {self.pair.name}` first."
            )
        say = f"Loading {what}, {spec.name}"
        self._progress(0.0, say)
        return load_model(folder, self.device, self.precision, lambda share: self._progress(share, say))

    def drafter(self, method: str) -> Drafter:
        """The pair's drafter for a method. BadInput for an unknown one, Unavailable for a draft that does not fit."""
        offered = methods(self.pair)
        if method not in offered:
            known = f"{method!r} is not a method" if method not in DRAFTERS else f"{self.pair.name} has no {method!r} draft"
            raise BadInput(f"{known}; choose from {', '.join(offered)}.")
        if method not in self._drafters:
            if method in _MODEL_FREE:
                self._drafters[method] = DRAFTERS[method]()
            else:
                self._drafters[method] = DRAFTERS[method](self._draft(method).runner)
        return self._drafters[method]

    def _draft(self, method: str) -> Model:
        if method not in self._drafts:
            draft = self._load(self.pair.drafts[method], "the draft")
            problem, _ = compare_tokenizers(self.target.tokenizer, draft.tokenizer)
            if problem:
                raise Unavailable(problem)
            self._drafts[method] = draft
        return self._drafts[method]

    def costs(self, method: str, again: bool = False) -> CostModel:
        """c and v(W) for a method on this device, from the calibration cache where it has them."""
        if method not in self._costs or again:
            drafter = None if method in _MODEL_FREE else self.drafter(method)
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
    ) -> Iterator[Event]:
        """RunStarted, Rounds, RunFinished. ``gammas`` pins the γ of each round, to repeat a recorded run."""
        drafter = self.drafter(config.method)
        costs = self.costs(config.method)
        prompt = encode_prompt(self.target.tokenizer, config)
        self._check_length(len(prompt), config)
        reset_peak(self.device)
        yield self._started(config, prompt, costs)
        decoding = Decoding(
            config, prompt, self.target.runner, drafter, self._chooser(config, drafter, costs, gammas),
            self.target.eos, Recorder(config, self.target.tokenizer), cancelled,
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

    def _check_length(self, prompt: int, config: RunConfig) -> None:
        limit = self.target.runner.max_length
        if prompt + config.max_new_tokens > limit:
            raise BadInput(
                f"The prompt has {prompt} tokens and up to {config.max_new_tokens} new ones are asked for, but "
                f"{self.pair.target.name} attends to {limit}; shorten the prompt or ask for fewer new tokens."
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
            config=asdict(replace(config)) | {"stop": list(config.stop)},
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
        )

    def close(self) -> None:
        for model in (self.target, *self._drafts.values()):
            model.runner.close()
        self._drafts, self._drafters = {}, {}
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

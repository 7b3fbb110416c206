"""Answers the page's questions about the engine: pairs, checks before a load, memory, device. Runs are in runs.py.

The engine is imported on first use, so that the page is up before torch is.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from engine.config import AUTO, RunConfig
from engine.errors import EngineError, Unavailable
from engine.files import cache_root, check_cache
from engine.runtime.worker import Worker
from engine.trace.costs import CostModel
from engine.weights import preflight
from engine.weights.catalogue import get_pair, load_catalogue
from engine.weights.checkpoint_dir import weights_hash
from engine.weights.model_names import ModelNames, model_names
from engine.weights.rounding_distances import Distance, stored_distances
from engine.weights.specs import DEVICE_PRECISIONS, PairSpec, methods
from engine.weights.store import locate

if TYPE_CHECKING:
    from engine.weights.own_models import OwnModelReport

    CheckModel = Callable[[PairSpec, str, dict[str, float]], OwnModelReport]

_CHOICES_BY_DEVICE = {kind: (AUTO, *names) for kind, names in DEVICE_PRECISIONS.items()}


@dataclass(frozen=True)
class Pair:
    """A pair on offer: ``methods`` can draft for it; ``revision`` and ``vocabulary``, in tokens, are its target's, 0
    where that is not known."""

    name: str
    title: str
    methods: tuple[str, ...]
    revision: str
    vocabulary: int = 0


@dataclass(frozen=True)
class MethodCosts:
    """``c``: one draft step ÷ one plain step, None where it was not measured yet; ``memory``: bytes beside the
    target, with a context of 4,096 tokens."""

    c: float | None
    memory: int


@dataclass(frozen=True)
class Hardware:
    """Where runs are computed: the kind of ``device``, its name, the precisions that it offers, and why it is slower
    than it need be, as a sentence."""

    device: str
    name: str
    precisions: tuple[str, ...]
    note: str = ""


class EngineFacade:
    """Imports torch and transformers only by way of engine.runtime.engine, as the engine's own thread does. Two threads
    that import transformers from different places at once would meet it half initialised.

    ``worker``: the one whose engine it answers for. ``check_model``: reports on a visitor's own model, on a device, by
    the seconds that a byte of weights takes there; it is a tool, so `app.py` hands it in."""

    def __init__(self, worker: Worker, check_model: "CheckModel | None" = None):
        self.worker, self.check_model = worker, check_model

    def pairs(self, names: Sequence[str] = ()) -> list[Pair]:
        """Returns every pair of the catalogue, or the named ones. Only the server's operator can name a folder."""
        specs = [get_pair(name) for name in names] or load_catalogue().values()
        return [_pair_of(spec) for spec in specs]

    def look_up(self, name: str) -> tuple[Pair, "OwnModelReport"]:
        """Looks up a visitor's own model: a folder, or a name on the hub, without its weights. Raises EngineError."""
        from engine.runtime.engine import choose_device  # first: see Worker._run
        from engine.runtime.calibration import seconds_per_byte  # isort: skip
        from engine.weights.own_models import hub_name, look_up

        if self.check_model is None:
            raise Unavailable("This page takes no models of yours; run SpecLens on your own machine.")
        if on_hub := hub_name(name):
            look_up(on_hub)
        spec, device = get_pair(on_hub or name.strip()), choose_device(AUTO)
        known = next(iter(load_catalogue().values()))
        where = self._calibrations(known.name)
        per_byte = seconds_per_byte(*where, known.target) if where else {}
        return _pair_of(spec), self.check_model(spec, device, per_byte)

    def problems(self, pair: str, method: str, precision: str, fetch: bool) -> list[str]:
        """Says in sentences why a pair cannot run here. The loaded pair's memory counts as free, because it would be
        unloaded."""
        from engine.runtime.engine import choose_device, choose_precision

        device, loaded = choose_device(AUTO), self.worker.engine
        if loaded is not None and loaded.pair.name == pair and precision == AUTO and loaded.has(method):
            return []
        free = preflight.available_memory(device)
        if free is not None and loaded is not None:
            free += loaded.pair.memory(loaded.precision)
        spec = get_pair(pair)
        dtype = choose_precision(precision, device, spec.target)
        needed = None if method == AUTO else method  # auto leaves out a draft that does not fit
        return preflight.check_pair(spec, needed, device, dtype, free, fetch=fetch)

    def notes(self, pair: str) -> list[str]:
        """Returns sentences about drafts of a pair that work in an unexpected way or not at all, and about a machine
        that is slower than it need be."""
        hardware = self.hardware()
        return [*preflight.notes(get_pair(pair)), *([hardware.note] if hardware and hardware.note else [])]

    def absent_bytes(self, pair: str) -> int:
        """Estimates how many bytes a first run would download: 16-bit weights, as they are published."""
        missing = [model for model in get_pair(pair).models(AUTO) if not model.folder and locate(model) is None]
        return sum(model.gguf.size if model.gguf else model.weight_bytes("bf16") for model in missing)

    def storage_problem(self, pair: str) -> str | None:
        """Says why the target's files here cannot be loaded, or could not be stored where they are not here yet; None
        where they can."""
        loaded = self.worker.engine
        if self.worker.is_remote or (loaded is not None and loaded.pair.name == pair):
            return None
        try:
            if locate(get_pair(pair).target) is None:
                check_cache()
        except EngineError as error:
            return str(error)
        return None

    def thinking(self, pair: str) -> bool:
        """Returns whether the chat template has a thinking switch; True until the template is downloaded."""
        folder = self._folder(pair)
        files = [folder / name for name in ("chat_template.jinja", "tokenizer_config.json")] if folder else []
        texts = [file.read_text(encoding="utf-8", errors="replace") for file in files if file.is_file()]
        return not texts or any("enable_thinking" in text for text in texts)

    def prompt_tokens(self, pair: str, text: str) -> int | None:
        """Counts the tokens of a prompt; None until the tokenizer is downloaded."""
        folder = self._folder(pair)
        file = folder / "tokenizer.json" if folder else None
        return len(_tokenizer(file).encode(text).ids) if file and file.is_file() else None

    def constraint_problem(self, config: RunConfig) -> str:
        """Says in a sentence why a run's constraint cannot be used; empty if it can, if other models are loaded, and
        during a run, which a check would slow down."""
        loaded = self.worker.engine
        if config.constraint is None or loaded is None or loaded.pair.name != config.pair or self.worker.batch_size:
            return ""
        try:
            loaded.grammars.matcher(config.constraint, config.max_new_tokens)
        except EngineError as error:
            return str(error)
        return ""

    def _folder(self, pair: str) -> Path | None:
        try:
            return locate(get_pair(pair).target)
        except EngineError:  # damaged: check_pair says so
            return None

    def hardware(self) -> Hardware | None:
        """Returns this machine's hardware. None only where engines are elsewhere and have not answered yet."""
        from engine.runtime.engine import choose_device, device_name, onnx_problem

        device = choose_device(AUTO)
        reason = onnx_problem() if device == "cpu" else None
        if reason:
            return Hardware(
                device, device_name(device), (AUTO,), f"{reason} Until then runs take twice as long or more."
            )
        return Hardware(device, device_name(device), _CHOICES_BY_DEVICE[device])

    def precisions(self) -> tuple[str, ...]:
        """Returns the precisions that this hardware offers; auto alone while the hardware is not known."""
        hardware = self.hardware()
        return hardware.precisions if hardware else (AUTO,)

    def known_steps(self, pair: str) -> dict[str, float]:
        """Returns the seconds of a plain step in each precision that was measured on this hardware."""
        where = self._calibrations(pair)
        if where is None:
            return {}
        from engine.runtime.calibration import known_steps  # the hardware is known, so the engine is imported

        return known_steps(*where)

    def plain_costs(self, pair: str) -> CostModel | None:
        """Returns how long the target's passes take here in the precision of auto; None if that was not measured."""
        hardware, where = self.hardware(), self._calibrations(pair)
        if hardware is None or where is None:
            return None
        from engine.runtime.calibration import known_plain_costs

        return known_plain_costs(*where, _auto_precision(get_pair(pair), hardware.device))

    def distances(self, pair: str) -> dict[str, Distance]:
        """Returns how far each rounded precision of the pair is from fp32, where that was measured."""
        folder = self._folder(pair)
        if folder is None:
            return {}
        return stored_distances(weights_hash(folder))

    def method_costs(self, pair: str) -> dict[str, MethodCosts]:
        """Returns the costs of each method of the pair, in the precision that auto takes; empty while the hardware is
        not known."""
        hardware = self.hardware()
        if hardware is None:
            return {}
        from engine.runtime.calibration import known_draft_costs

        spec = get_pair(pair)
        precision = _auto_precision(spec, hardware.device)
        where = self._calibrations(pair)
        hashes = {name: weights_hash(folder) for name, folder in _draft_folders(spec).items()}
        known = known_draft_costs(*where, precision, hashes) if where else {}
        alone = spec.memory(precision)
        return {name: MethodCosts(known.get(name), spec.memory(precision, name) - alone) for name in methods(spec)}

    def _calibrations(self, pair: str) -> tuple[Path, str, str] | None:
        """Returns the folder of calibrations, the device's name and the target's hash; None where the target is absent
        or the hardware not known."""
        folder, hardware = self._folder(pair), self.hardware()
        if folder is None or hardware is None:
            return None
        return cache_root() / "calibration", hardware.name, weights_hash(folder)

    def device(self) -> str | None:
        """Names the loaded engine's device; None while nothing is loaded."""
        loaded = self.worker.engine
        if loaded is None:
            return None
        from engine.runtime.engine import device_name

        return device_name(loaded.device)

    def precision(self) -> str | None:
        """Returns the loaded engine's precision; None while nothing is loaded."""
        loaded = self.worker.engine
        return loaded and loaded.precision

    def versions(self) -> dict[str, str]:
        """Returns the versions that a measurement depends on, as a run's trace names them."""
        from engine.runtime.engine import versions

        return versions()

    def models(self, pair: str, method: str) -> ModelNames:
        return model_names(pair, method)

    def has_weights(self, pair: str) -> bool:
        return self._folder(pair) is not None


def _pair_of(spec: PairSpec) -> Pair:
    return Pair(spec.name, spec.title, methods(spec), spec.target.revision or "", spec.target.vocab_size)


@lru_cache(4)
def _tokenizer(file: Path):
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(file))


def _auto_precision(spec: PairSpec, device: str) -> str:
    """Returns the precision that auto takes for a pair; the hardware is known, so the engine is imported."""
    from engine.runtime.engine import choose_precision

    return choose_precision(AUTO, device, spec.target)


def _draft_folders(spec: PairSpec) -> dict[str, Path]:
    """Returns the folder of each method's draft that is here and whole."""
    folders = {}
    for method in methods(spec):
        draft = spec.draft(method)
        try:
            folder = locate(draft) if draft else None
        except EngineError:  # damaged: check_pair says so
            continue
        if folder:
            folders[method] = folder
    return folders

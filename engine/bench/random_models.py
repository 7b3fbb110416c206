"""Measures passes at published model sizes, with random weights: plain decoding, v(W), c, and speedups at a set α.

Each shape and context is a part. It is saved as soon as it is measured, so a stopped run goes on with the next one.
"""

import gc
import re
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, GenerationConfig, LlamaConfig, PretrainedConfig, Qwen3Config

from engine.bench.benchmark import Benchmark, Cancelled, Turn, never, warm_up
from engine.bench.fixed_acceptance import accept_with_probability
from engine.bench.metrics import show, table, times
from engine.bench.sample import BASELINE, Sample
from engine.bench.systems import generate
from engine.config import RunConfig
from engine.decoding.draft_length import FixedGamma
from engine.decoding.loop import TRUE_RULES, Rules, SpeculativeDecoder
from engine.decoding.trace_recorder import TraceRecorder
from engine.decoding.word_tokenizer import WordTokenizer
from engine.device import now, out_of_memory, peak_memory, reset_peak
from engine.files import ProgressCallback
from engine.models.eagle3_head import EagleModel
from engine.models.eagle_config import EagleConfig
from engine.models.llama import LlamaModel
from engine.models.loader import device_name
from engine.models.runner import DecoderRunner
from engine.runtime import calibration
from engine.runtime.engine import drafter_class, versions
from engine.trace.costs import CostModel
from engine.trace.speedup_model import best_gamma, predicted_speedup

WIDTHS = (*range(1, 17), 32)
ALPHAS = (0.5, 0.7, 0.8, 0.9)
MOST_DRAFTS = 16  # per round
COPY_MEGABYTES = 2_048
_SPREAD = 0.02  # of the weights, small enough that activations stay finite at any depth
_HEAD_WORDS = 32_000  # in an EAGLE-3 head, as in the published ones for Qwen3
_GENERATE = {"eager": {"disable_compile": True}, "compiled": {"cache_implementation": "static"}}


# ── shapes ──


@dataclass(frozen=True)
class Shape:
    """``draft``: the shape of its independent draft model."""

    name: str
    config: PretrainedConfig
    draft: str | None = None


def _qwen3(
    name: str, width: int, layers: int, heads: int, shared: int, inner: int, tied: bool, draft=None,
    vocabulary=151_936, head_dim=128,
) -> Shape:  # fmt: skip
    return Shape(name, Qwen3Config(
        vocab_size=vocabulary, hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=shared, head_dim=head_dim, intermediate_size=inner, tie_word_embeddings=tied,
        rms_norm_eps=1e-6, max_position_embeddings=40_960,
        rope_parameters={"rope_type": "default", "rope_theta": 1_000_000.0},
    ), draft)  # fmt: skip


# Sizes as in the models' own config.json; 1.5B has Qwen2.5's numbers in Qwen3's architecture.
SHAPES = {shape.name: shape for shape in (
    Shape("135M", LlamaConfig(
        vocab_size=49_152, hidden_size=576, num_hidden_layers=30, num_attention_heads=9, num_key_value_heads=3,
        intermediate_size=1_536, tie_word_embeddings=True, max_position_embeddings=8_192,
        rope_parameters={"rope_type": "default", "rope_theta": 100_000.0},
    )),
    _qwen3("0.6B", 1_024, 28, 16, 8, 3_072, True),
    _qwen3("1.5B", 1_536, 28, 12, 2, 8_960, True, draft="0.6B"),
    _qwen3("8B", 4_096, 36, 32, 8, 12_288, False, draft="0.6B"),
    _qwen3("32B", 5_120, 64, 64, 8, 25_600, False, draft="0.6B"),
    _qwen3("tiny", 64, 4, 4, 2, 96, True, draft="tiny", vocabulary=320, head_dim=16),
)}  # fmt: skip


class RandomWeights:
    """Makes each tensor on the device when it is called, as a TensorReader would read it."""

    folder = Path("random weights")
    words = 0  # size of a head's vocabulary

    def __init__(self, dtype: torch.dtype, device: str, tied: bool, normed_heads: bool, seed: int = 0):
        self.dtype, self.device, self.tied, self.normed_heads = dtype, device, tied, normed_heads
        self._random = torch.Generator(device).manual_seed(seed)

    def __contains__(self, name: str) -> bool:
        if name.endswith(("q_norm.weight", "k_norm.weight")):
            return self.normed_heads
        if name in ("t2d", "embed_tokens.weight"):  # a random head has neither of its own
            return False
        return not name.endswith(".bias") and not (self.tied and name == "lm_head.weight")

    def __call__(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        if "norm" in name:
            return torch.ones(shape, dtype=self.dtype, device=self.device)
        tensor = torch.empty(shape, dtype=self.dtype, device=self.device)
        return tensor.normal_(0.0, _SPREAD, generator=self._random)

    def raw(self, name: str) -> torch.Tensor:
        """Returns the only tensor of integers: a head's vocabulary map, here to the target's first words."""
        assert name == "d2t", name
        return torch.zeros(self.words, dtype=torch.long)


@torch.inference_mode()
def random_model(shape: Shape, dtype: torch.dtype, device: str, seed: int = 0) -> DecoderRunner:
    config = shape.config
    weights = RandomWeights(dtype, device, config.tie_word_embeddings, isinstance(config, Qwen3Config), seed)
    return DecoderRunner(LlamaModel(weights.folder, config, dtype, device, weights=weights))


@torch.inference_mode()
def random_head(target: DecoderRunner, seed: int = 1) -> DecoderRunner:
    """Makes an EAGLE-3 head of the target's own sizes that reads a low, a middle and a high layer; taps the target."""
    model, layers = target.model, target.model.layers_count
    config: dict[str, Any] = {
        "hidden_size": model.width, "vocab_size": model.vocab_size,
        "draft_vocab_size": min(_HEAD_WORDS, model.vocab_size), "num_attention_heads": model.H,
        "num_key_value_heads": model.K, "head_dim": model.D, "intermediate_size": model.inner,
        "rms_norm_eps": model.eps, "num_hidden_layers": 1,
        "layers": tuple(sorted({2, layers // 2, max(layers - 3, 0)})),
    }  # fmt: skip
    weights = RandomWeights(model.dtype, model.device, False, False, seed)
    weights.words = config["draft_vocab_size"]
    head = EagleModel(weights.folder, model, config=EagleConfig(**config), weights=weights)
    target.tap(head.reads)
    return DecoderRunner(head)


def bytes_a_step(runner: DecoderRunner, context: int) -> int:
    """Counts the bytes that a plain step reads: every weight once (without the one row of an untied embedding) and
    the keys and values of ``context`` tokens."""
    model, size = runner.model, runner.model.dtype.itemsize
    E, heads, shared = model.width, model.H * model.D, model.K * model.D
    layer = E * (heads + 2 * shared) + heads * E + 3 * E * model.inner
    return size * (model.layers_count * (layer + 2 * shared * context) + model.vocab_size * E)


# ── measuring ──


@dataclass
class RandomSystem:
    """The loop on a random target, from prompt ids instead of a text. A token's word is its id."""

    target: DecoderRunner
    prompt: Sequence[int]
    drafter: Any
    gamma: int = 0
    rules: Rules = TRUE_RULES
    setting: None = None

    @property
    def name(self) -> str:
        return self.drafter.name

    def run(self, config: RunConfig, cancelled: Cancelled = never) -> Sample:
        recorder = TraceRecorder(config, WordTokenizer([str(i) for i in range(self.target.vocab_size)]))
        run = SpeculativeDecoder(
            config, self.prompt, self.target, [self.drafter], FixedGamma(self.gamma), frozenset(), recorder, cancelled,
            self.rules,
        )  # fmt: skip
        return Sample.from_rounds(list(run.rounds()))


def run_interleaved(systems: Sequence[RandomSystem], tokens: int, repeats: int) -> list[Sample]:
    """Returns each system's sample of median speed, because the fastest one may owe its speed to a lucky clock rate."""
    config = RunConfig("-", max_new_tokens=tokens, trace=False)
    warm_up(systems, config, tokens)
    benchmark = Benchmark([Turn((repeat,), "", config, systems) for repeat in range(repeats)])
    benchmark.run()
    turns = benchmark.samples.values()
    return [median_run([samples[system.name, system.setting] for samples in turns]) for system in systems]


def median_run(samples: Sequence[Sample]) -> Sample:
    return sorted(samples, key=lambda sample: sample.rate)[(len(samples) - 1) // 2]


def copy_bandwidth(device: str, megabytes: int) -> float:
    """Measures the bytes that a plain copy reads and writes in a second; the best of ten."""
    source = torch.empty(megabytes * 2**20, dtype=torch.uint8, device=device)
    target, best = torch.empty_like(source), float("inf")
    for _ in range(11):
        start = now(device)
        target.copy_(source)
        best = min(best, now(device) - start)
    return 2 * source.numel() / best


def _prompt(context: int, vocab_size: int) -> list[int]:
    return [(7_919 * i + 13) % vocab_size for i in range(context)]


def measure(
    shape: Shape, context: int, dtype: torch.dtype, device: str, progress: ProgressCallback, tokens: int, repeats: int
) -> dict:
    """Measures our engine on a shape. Returns numbers by the names that `markdown` reads."""
    reset_peak(device)
    bandwidth = copy_bandwidth(device, COPY_MEGABYTES)
    progress(0.0, "making the target")
    target = random_model(shape, dtype, device)
    plain = RandomSystem(target, _prompt(context, target.vocab_size), drafter_class(BASELINE)())
    try:
        progress(0.1, "plain decoding")
        (sample,) = run_interleaved([plain], tokens, repeats)
        progress(0.2, "the cost of scoring W tokens")
        costs = calibration.measure(target, None, WIDTHS, context)
        size = bytes_a_step(target, context + tokens // 2)
        drafts = {}
        for method in ("lm", "eagle-chain") if shape.draft else ("eagle-chain",):
            progress(0.3, f"drafting: {method}")
            if method == "eagle-chain":
                drafter = drafter_class(method)(random_head(target), target)
            else:
                drafter = drafter_class(method)(random_model(SHAPES[str(shape.draft)], dtype, device, seed=2))
            drafted = RandomSystem(target, plain.prompt, drafter)
            drafts[method] = _at_every_alpha(plain, drafted, costs, tokens, repeats, progress)
            drafted.drafter.runner.close()
        return {
            "shape": shape.name, "context": context, "tokens_per_second": sample.rate, "bytes_a_step": size,
            "copy_bandwidth": bandwidth, "share_of_bandwidth": size * sample.rate / bandwidth, "step": costs.step,
            "v": {str(w): v for w, v in costs.v.items()}, "drafts": drafts, "peak_memory": peak_memory(device),
        }  # fmt: skip
    finally:
        target.close()


def _at_every_alpha(plain, drafted, costs: CostModel, tokens: int, repeats: int, progress: ProgressCallback) -> dict:
    """Returns c and, for each α, the draft length that should be best, with its measured and its predicted speedup."""
    c = calibration.measure(plain.target, drafted.drafter, (1,), len(plain.prompt)).c
    rows = []
    for alpha in ALPHAS:
        gamma = max(1, best_gamma(alpha, c, costs.v, MOST_DRAFTS))
        progress(0.5, f"drafting: {drafted.name}, α = {alpha:g}, γ = {gamma}")
        at_alpha = replace(drafted, gamma=gamma, rules=accept_with_probability(alpha))
        base, ours = run_interleaved([plain, at_alpha], tokens, repeats)
        rounds = [(emitted, (steps or 0) * c, number) for emitted, steps, number, _ in ours.rounds]
        speedup, predicted = ours.rate / base.rate, predicted_speedup(rounds, costs.v)
        rows.append({
            "alpha": alpha, "gamma": gamma, "alpha_seen": ours.accepted / ours.tested if ours.tested else None,
            "tau": ours.tokens / ours.passes, "tokens_per_second": ours.rate, "speedup": speedup,
            "predicted": predicted, "efficiency": speedup / predicted,
        })  # fmt: skip
    return {"c": c, "synthetic": rows}


def measure_transformers(
    shape: Shape, context: int, dtype: torch.dtype, device: str, progress: ProgressCallback, tokens: int, repeats: int
) -> dict:
    """Measures transformers' generate on the same shape in each of its modes: tokens/s, or the problem in words."""
    transformers.logging.set_verbosity_error()
    progress(0.8, "transformers: making the model")
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(deepcopy(shape.config), dtype=dtype).eval()
    ids = torch.tensor([_prompt(context, model.config.vocab_size)], device=device)
    modes = {}
    for mode, settings in _GENERATE.items():
        progress(0.9, f"transformers: {mode}")
        length = {"max_new_tokens": tokens, "min_new_tokens": tokens}
        config = GenerationConfig(**length, do_sample=False, pad_token_id=0, use_cache=True, **settings)
        try:  # the first two runs compile and warm
            samples = [generate(model, ids, config) for _ in range(repeats + 2)][2:]
            modes[mode] = {"tokens_per_second": median_run(samples).rate}
        except Exception as error:  # the compiler or the memory failed; the other mode still runs
            reason = "out of memory" if out_of_memory(error) else f"{type(error).__name__}: {str(error)[:200]}"
            modes[mode] = {"problem": reason}
    del model
    gc.collect()
    if torch.device(device).type == "cuda":
        torch.cuda.empty_cache()
    return modes


def environment(device: str, precision: str) -> dict:
    """Returns everything that must be equal for two parts to be comparable."""
    driver = _driver() if torch.device(device).type == "cuda" else None
    about = {"device": device_name(device), "driver": driver, "precision": precision}
    return about | {"versions": versions() | {"cuda": torch.version.cuda}}


def _driver(file: Path = Path("/proc/driver/nvidia/version")) -> str | None:
    try:
        version = re.search(r"\d+\.[\d.]+", file.read_text())
    except OSError:
        return None
    return version[0] if version else None


# ── tables ──


def markdown(header: dict, parts: dict[tuple, dict]) -> str:
    """Writes tables of plain decoding, of v(W), of drafting and of the real pair. ``parts``: (shape, context, "ours" or
    "transformers") or ("pair", name) → numbers."""
    ours = [part for key, part in parts.items() if key[-1] == "ours"]
    listed = ", ".join(f"{name} {version}" for name, version in header["versions"].items() if version)
    driver = f", driver {header['driver']}" if header.get("driver") else ""
    text = [f"{header['device']}{driver}, {header['precision']}; {listed}; {header['time']}."]
    if ours:
        text += [
            "Random weights of the shapes named, one text at a time. Drafts are kept with a chance α **set by hand**: "
            "the speedups say what the machine makes of an α, not what α a draft would have.",
            _plain_table(ours, parts), _scoring_table(ours), _drafting_table(ours),
        ]  # fmt: skip
    for (_, name), pair in ((key, part) for key, part in parts.items() if key[0] == "pair"):
        text += [f"The real pair, {name}:", pair["table"]]
    return "\n\n".join(text) + "\n"


def _place(part: dict) -> list[str]:
    return [part["shape"], f"{part['context']:,}"]


def _plain_table(ours: Sequence[dict], parts: dict) -> str:
    heads = ["shape", "context", "tokens/s", "of copy bandwidth", "transformers eager", "ours ÷ it",
             "transformers compiled", "ours ÷ it", "peak memory"]  # fmt: skip
    rows = []
    for part in ours:
        speed, row = part["tokens_per_second"], []
        for mode in _GENERATE:
            baseline = parts.get((part["shape"], part["context"], "transformers"), {}).get(mode, {})
            rate = baseline.get("tokens_per_second")
            row += [f"{rate:.1f}", f"{speed / rate:.2f}"] if rate else [baseline.get("problem", "–"), "–"]
        memory = f"{part['peak_memory'] / 1e9:.1f} GB" if part["peak_memory"] else "–"
        rows.append([*_place(part), f"{speed:.1f}", f"{part['share_of_bandwidth']:.0%}", *row, memory])
    return table(heads, rows)


def _scoring_table(ours: Sequence[dict]) -> str:
    widths = (2, 3, 5, 8, 16, 32)
    rows = [[*_place(part), *(show(part["v"].get(str(width)), ".2f") for width in widths)] for part in ours]
    return table(["shape", "context", *(f"v({width})" for width in widths)], rows)


def _drafting_table(ours: Sequence[dict]) -> str:
    heads = ["shape", "context", "draft", "c", "α set", "γ", "τ", "tokens/s", "speedup", "predicted", "efficiency"]
    return table(heads, [
        [*_place(part), method, f"{draft['c']:.3f}", f"{point['alpha']:g}", str(point["gamma"]),
         *(f"{point[name]:.2f}" for name in ("tau", "tokens_per_second")),
         *map(times, (point["speedup"], point["predicted"])), f"{point['efficiency']:.2f}"]
        for part in ours for method, draft in part["drafts"].items() for point in draft["synthetic"]
    ])  # fmt: skip

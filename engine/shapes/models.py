"""Models of published shapes, filled with random numbers straight on the device."""

from dataclasses import dataclass, field
from pathlib import Path

import torch
from transformers import LlamaConfig, PretrainedConfig, Qwen3Config

from engine.decoder import Decoder
from engine.eagle import EagleModel
from engine.runner import DecoderRunner

_SPREAD = 0.02  # of a weight: small enough that activations stay finite through any depth
_HEAD_WORDS = 32_000  # of an EAGLE-3 head, as the published ones for Qwen3 have
_QWEN3 = {"vocab_size": 151_936, "head_dim": 128, "max_position_embeddings": 40_960, "rms_norm_eps": 1e-6,
          "rope_parameters": {"rope_type": "default", "rope_theta": 1_000_000.0}}  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """``sizes``: what the configuration is made of; ``draft``: the shape of its independent draft model."""

    name: str
    sizes: dict = field(hash=False)
    draft: str | None = None
    family: str = "qwen3"

    @property
    def config(self) -> PretrainedConfig:
        made = {"qwen3": Qwen3Config, "llama": LlamaConfig}[self.family]
        return made(**(_QWEN3 if self.family == "qwen3" else {}) | self.sizes)


def _qwen3(name: str, width: int, layers: int, heads: int, shared: int, inner: int, tied: bool, draft=None) -> Shape:
    return Shape(name, {
        "hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": shared, "intermediate_size": inner, "tie_word_embeddings": tied,
    }, draft)  # fmt: skip


# Sizes as in the models' own config.json; 1.5B has Qwen2.5's numbers in Qwen3's architecture.
SHAPES = {shape.name: shape for shape in (
    Shape("135M", {
        "vocab_size": 49_152, "hidden_size": 576, "num_hidden_layers": 30, "num_attention_heads": 9,
        "num_key_value_heads": 3, "intermediate_size": 1_536, "tie_word_embeddings": True,
        "max_position_embeddings": 8_192, "rope_parameters": {"rope_type": "default", "rope_theta": 100_000.0},
    }, family="llama"),
    _qwen3("0.6B", 1_024, 28, 16, 8, 3_072, True),
    _qwen3("1.5B", 1_536, 28, 12, 2, 8_960, True, draft="0.6B"),
    _qwen3("8B", 4_096, 36, 32, 8, 12_288, False, draft="0.6B"),
    _qwen3("32B", 5_120, 64, 64, 8, 25_600, False, draft="0.6B"),
    Shape("tiny", {
        "vocab_size": 320, "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "head_dim": 16,
        "num_key_value_heads": 2, "intermediate_size": 96, "tie_word_embeddings": True,
    }, draft="tiny"),
)}  # fmt: skip


class RandomWeights:
    """Called as a Checkpoint is; each tensor is made when it is asked for, on the device."""

    folder = Path("random weights")

    def __init__(self, dtype: torch.dtype, device: str, tied: bool, normed_heads: bool, seed: int = 0):
        self.dtype, self.device, self.tied, self.normed_heads = dtype, device, tied, normed_heads
        self._random = torch.Generator(device).manual_seed(seed)

    def __contains__(self, name: str) -> bool:
        if name.endswith(("q_norm.weight", "k_norm.weight")):
            return self.normed_heads
        return not name.endswith(".bias") and not (self.tied and name == "lm_head.weight")

    def __call__(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        if "norm" in name:
            return torch.ones(shape, dtype=self.dtype, device=self.device)
        made = torch.empty(shape, dtype=self.dtype, device=self.device)
        return made.normal_(0.0, _SPREAD, generator=self._random)

    def raw(self, name: str) -> torch.Tensor:
        """The one tensor of whole numbers there is, a head's vocabulary map: its words are the target's first ones."""
        assert name == "d2t", name
        return torch.zeros(self.words, dtype=torch.long)


@torch.inference_mode()
def random_model(shape: Shape, dtype: torch.dtype, device: str, seed: int = 0) -> DecoderRunner:
    config = shape.config
    weights = RandomWeights(dtype, device, config.tie_word_embeddings, shape.family == "qwen3", seed)
    return DecoderRunner(Decoder(weights.folder, config, dtype, device, weights=weights))


@torch.inference_mode()
def random_head(target: DecoderRunner, seed: int = 1) -> DecoderRunner:
    """An EAGLE-3 head of the target's own sizes, reading a low, a middle and a high layer; taps the target."""
    model = target.model
    layers = model.layers_count
    config = {
        "hidden_size": model.width, "vocab_size": model.vocab_size,
        "draft_vocab_size": min(_HEAD_WORDS, model.vocab_size), "num_attention_heads": model.H,
        "num_key_value_heads": model.K, "head_dim": model.D, "intermediate_size": model.inner,
        "rms_norm_eps": model.eps,
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": sorted({2, layers // 2, max(layers - 3, 0)})},
    }  # fmt: skip
    weights = RandomWeights(model.dtype, model.device, False, False, seed)
    weights.words = config["draft_vocab_size"]
    head = EagleModel(weights.folder, model, config=config, weights=weights)
    target.tap(head.reads)
    return DecoderRunner(head)


def bytes_a_step(runner: DecoderRunner, context: int) -> int:
    """What a plain step has to read: every weight once (of an embedding of its own only one row, so none is counted)
    and the keys and values of ``context`` tokens."""
    model, size = runner.model, torch.empty((), dtype=runner.model.dtype).element_size()
    E, heads, shared = model.width, model.H * model.D, model.K * model.D
    layer = E * (heads + 2 * shared) + heads * E + 3 * E * model.inner
    weights = model.layers_count * layer + model.vocab_size * E
    cache = 2 * model.layers_count * shared * context
    return size * (weights + cache)

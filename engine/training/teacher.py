"""Turns cached final states into the target's distributions, with its last norm and output layer."""

from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from transformers import AutoConfig, PretrainedConfig

from engine.models.safetensors_reader import TensorReader


@dataclass
class Teacher:
    """embed, head [V, E]; norm [E]; ``layer``: the last decoder layer's weights by their names inside it."""

    config: PretrainedConfig
    embed: torch.Tensor
    head: torch.Tensor
    norm: torch.Tensor
    layer: dict[str, torch.Tensor]

    @classmethod
    def load(cls, folder: Path, device: str) -> "Teacher":
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
        weights = TensorReader(folder, torch.float32, device)
        V, E = config.vocab_size, config.hidden_size
        embed = weights("model.embed_tokens.weight", (V, E))
        tied = config.tie_word_embeddings or "lm_head.weight" not in weights
        head = embed if tied else weights("lm_head.weight", (V, E))
        return cls(config, embed, head, weights("model.norm.weight", (E,)), _layer(weights, config))

    def logits(self, final: torch.Tensor, words: torch.Tensor | None = None) -> torch.Tensor:
        """final […, E] → logits over all words, or over ``words``."""
        x = F.rms_norm(final, self.norm.shape, self.norm, self.config.rms_norm_eps)
        return F.linear(x, self.head if words is None else self.head[words])


def _layer(weights: TensorReader, config: PretrainedConfig) -> dict[str, torch.Tensor]:
    E, inner, at = config.hidden_size, config.intermediate_size, f"model.layers.{config.num_hidden_layers - 1}."
    D = getattr(config, "head_dim", None) or E // config.num_attention_heads
    heads, shared = config.num_attention_heads * D, config.num_key_value_heads * D
    shapes = {
        "self_attn.q_proj.weight": (heads, E), "self_attn.k_proj.weight": (shared, E),
        "self_attn.v_proj.weight": (shared, E), "self_attn.o_proj.weight": (E, heads),
        "mlp.gate_proj.weight": (inner, E), "mlp.up_proj.weight": (inner, E), "mlp.down_proj.weight": (E, inner),
        "input_layernorm.weight": (E,), "post_attention_layernorm.weight": (E,),
    }  # fmt: skip
    return {name: weights(at + name, shape) for name, shape in shapes.items()}

"""Turns cached final states into the target's distributions, with its last norm and output layer."""

from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from transformers import AutoConfig, PretrainedConfig

from engine.models.decoder.unread_tensors import embedding_name, reads_own_head
from engine.models.tensors.gguf_reader import open_weights

_LAYER = (
    *(f"self_attn.{name}_proj.weight" for name in "qkvo"),
    *(f"mlp.{name}_proj.weight" for name in ("gate", "up", "down")),
    *("input_layernorm.weight", "post_attention_layernorm.weight"),
)


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
        weights = open_weights(folder, torch.float32, device)  # whose shapes were checked when the target was loaded
        embed = weights(embedding_name(weights, config))
        head = weights("lm_head.weight") if reads_own_head(weights, config) else embed
        last = f"model.layers.{config.num_hidden_layers - 1}."
        layer = {name: weights(last + name) for name in _LAYER}
        return cls(config, embed, head, weights("model.norm.weight"), layer)

    def logits(self, final: torch.Tensor, words: torch.Tensor | None = None) -> torch.Tensor:
        """Returns logits of final […, E] over all words, or over ``words``."""
        x = F.rms_norm(final, self.norm.shape, self.norm, self.config.rms_norm_eps)
        return F.linear(x, self.head if words is None else self.head[words])

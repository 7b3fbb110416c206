"""Defines the two kinds of draft that can be trained, with one interface for `distil`.

Dimension key: B rows, L positions, E the target's hidden size, Vd words a student guesses among, k draft step.
A student's state at position t in step k guesses token t + k + shift.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

from engine.training.eagle3_module import EagleHead


@dataclass
class Batch:
    """ids [B, L]; features [B, L, taps·E]; final [B, L, E]; prompt_len and length [B]."""

    ids: torch.Tensor
    features: torch.Tensor | None
    final: torch.Tensor
    prompt_len: torch.Tensor
    length: torch.Tensor


class EagleStudent(nn.Module):
    """Reads the target's features; ``words`` [Vd]: the target ids of its reduced vocabulary."""

    shift = 1

    def __init__(self, module: EagleHead, words: torch.Tensor):
        super().__init__()
        self.module = module
        self.register_buffer("words", words, persistent=False)

    def states(self, batch: Batch, steps: int) -> list[torch.Tensor]:
        return self.module.rollout(batch.ids, batch.features, steps)

    def logits(self, states: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        return self.module.logits(states)

    def words_for_update(self, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor | None]:
        return self.words, None


class LmStudent(nn.Module):
    """A small independent Llama, trained with a sampled softmax: all frequent ``words`` [Vd] plus a random 1,024 of the
    others in each update, importance-weighted."""

    shift = 0
    SAMPLED = 1024

    def __init__(self, model: LlamaForCausalLM, words: torch.Tensor):
        super().__init__()
        self.module = model
        rest = torch.ones(model.config.vocab_size, dtype=torch.bool)
        rest[words] = False
        self.register_buffer("words", words, persistent=False)
        self.register_buffer("rest", rest.nonzero()[:, 0], persistent=False)

    def states(self, batch: Batch, steps: int) -> list[torch.Tensor]:
        return [self.module.model(input_ids=batch.ids, use_cache=False).last_hidden_state]

    def logits(self, states: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        return F.linear(states, self.module.lm_head.weight[words])

    def words_for_update(self, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Returns words [n], and [n] the log weight that is added to each one's logit in the normaliser."""
        if len(self.rest) <= self.SAMPLED:
            return torch.cat([self.words, self.rest]), None
        some = self.rest[torch.randperm(len(self.rest), generator=generator)[: self.SAMPLED]]
        weight = torch.zeros(len(self.words) + self.SAMPLED)
        weight[len(self.words) :] = torch.tensor(len(self.rest) / self.SAMPLED).log()
        return torch.cat([self.words, some]), weight.to(self.words.device)


def new_eagle(teacher, words: torch.Tensor, taps: int, layer: dict[str, torch.Tensor], scales: torch.Tensor):
    """Returns a head initialised from the target: the half that reads hidden states takes the weights of its last
    ``layer``, the embedding half starts small, and `fc` passes on the highest tap. scales [taps]: rms of each tap."""
    module = EagleHead(teacher.config, teacher.embed, teacher.head[words], taps)
    E = teacher.config.hidden_size
    with torch.no_grad():
        module.fc.weight.normal_(0, 0.02).div_(scales.repeat_interleave(E)[None] / scales[-1])
        module.fc.weight[:, -E:] += torch.eye(E)
        for name in ("q", "k", "v"):
            half = layer[f"self_attn.{name}_proj.weight"]
            embedded = torch.randn_like(half) * half.std() * 0.5
            getattr(module, name).weight.copy_(torch.cat([embedded, half], 1))
        module.o.weight.copy_(layer["self_attn.o_proj.weight"])
        for name in ("gate", "up", "down"):
            getattr(module, name).weight.copy_(layer[f"mlp.{name}_proj.weight"])
        module.norm_hidden.copy_(layer["input_layernorm.weight"])
        module.norm_mid.copy_(layer["post_attention_layernorm.weight"])
        module.norm.copy_(teacher.norm)
    return EagleStudent(module, words)


@dataclass(frozen=True)
class LmShape:
    """Sizes of the independent draft; small enough that one step costs a tenth of the target's."""

    width: int = 192
    layers: int = 4
    heads: int = 3
    inner: int = 448


def new_lm(teacher, words: torch.Tensor, shape: LmShape, seed: int) -> LmStudent:
    """Returns a draft initialised from the target: its embedding, projected onto the principal directions of its
    frequent words."""
    c = teacher.config
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=c.vocab_size, hidden_size=shape.width, intermediate_size=shape.inner,
        num_hidden_layers=shape.layers, num_attention_heads=shape.heads, num_key_value_heads=shape.heads,
        head_dim=shape.width // shape.heads, max_position_embeddings=c.max_position_embeddings,
        rms_norm_eps=c.rms_norm_eps, rope_parameters=dict(c.rope_parameters), tie_word_embeddings=True,
        bos_token_id=c.bos_token_id, eos_token_id=c.eos_token_id, pad_token_id=c.pad_token_id,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        rows = teacher.embed.float()
        centred = rows[words] - rows[words].mean(0)
        directions = torch.linalg.svd(centred, full_matrices=False).Vh[: shape.width]  # [width, E]
        projected = (rows - rows[words].mean(0)) @ directions.T
        if projected.shape[1] < shape.width:  # a narrow target, or few words, has fewer directions
            more = shape.width - projected.shape[1]
            projected = torch.cat([projected, projected.std() * torch.randn(len(rows), more, device=rows.device)], 1)
        projected *= 0.5 / projected[words].pow(2).mean().sqrt() * shape.width**-0.25
        model.model.embed_tokens.weight.copy_(projected)
        model.model.norm.weight.fill_(0.25)  # otherwise its first guess is the last word, with high certainty
    return LmStudent(model, words)
